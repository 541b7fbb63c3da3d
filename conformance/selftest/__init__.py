"""The seeded defects: what `conformance selftest` switches on, one at a time, to see whether the suite notices.

Each requirement has one, the violation that shows that its cases bite. The others are in the tables of this folder: a
defect is added there, in one place.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.selftest.known_faults.batches import BATCHES, CODECS
from conformance.selftest.known_faults.brokers import PARTITIONS
from conformance.selftest.known_faults.consumers import CLIENTS
from conformance.selftest.known_faults.fetches import FETCHES
from conformance.selftest.known_faults.log_entries import MAGICS, TAILS
from conformance.selftest.known_faults.message_sets import MESSAGE_SETS
from conformance.selftest.known_faults.messages import MESSAGES
from conformance.selftest.known_faults.primitives import PRIMITIVES, TAGGED_FIELDS, VARINTS
from conformance.selftest.known_faults.producer_state import CONVERSIONS, SEQUENCES
from conformance.selftest.known_faults.producers import PRODUCERS
from conformance.selftest.known_faults.transactions import TRANSACTIONS
from conformance.selftest.pairwise_faults import MEETINGS_IN_LOGS, PAIRWISE_FAULTS
from conformance.selftest.requirement_faults import TABLES
from conformance.selftest.seeded_fault import SeededFault

_AREAS = {
    ("logs", "sequence"): "sequences",
    ("logs", "producer-epoch"): "sequences",
    ("logs", "convert"): "conversion",
    ("record batches", "control"): "control records",
    **{("record batches", family): "codecs" for family in ("codec", "compression", "reader")},
}
"""The area of a requirement by its table and the first part of its id, where that is not the table's."""

SAME_FAULT = frozenset(
    (
        *("string.null-not-encoded", "definitions.flexible-compact-encodings", "offset.last-formula"),
        *("consumer.decompresses-transparently", "batch.crc-algorithm", "batch.crc-covers-21-to-end"),
        *("crc.mismatch-corrupt", "offset.gaps-allowed", "control.ends-transaction", "recursive.batch-of-one"),
        *("control.not-passed-to-application", "convert.down-loses-features", "legacy.wrapper-crc-checked"),
        *("legacy.compressed-inner-offsets-from-zero", "reader.lz4-in-magic-0-any-header-checksum"),
        *("definitions.int-never-null", "definitions.float-never-null", "crc.broker-validates"),
        *("compression.broker-codec-wins", "reader.gzip-members", "reader.zstd-frames"),
    )
)
"""Requirements whose violation is that of another one as well: one defect breaks both, and is counted once."""


def _violations() -> Iterator[SeededFault]:
    """A defect for each requirement."""
    for area, table in TABLES.items():
        for name, lie in table.items():
            if name not in SAME_FAULT:
                own_area = _AREAS.get((area, name.partition(".")[0]), area)
                yield SeededFault(f"requirement/{name}", own_area, "", name, lie, (name,))


_TABLES = (
    *(VARINTS, PRIMITIVES, TAGGED_FIELDS, BATCHES, CODECS, MESSAGE_SETS, MAGICS, TAILS, TRANSACTIONS, FETCHES),
    *(SEQUENCES, CONVERSIONS, PAIRWISE_FAULTS, MEETINGS_IN_LOGS, MESSAGES, CLIENTS, PRODUCERS, PARTITIONS),
)

DEFECTS: dict[str, SeededFault] = {defect.id: defect for defect in _violations()} | {
    defect.id: defect for table in _TABLES for defect in table
}
"""Every seeded defect by its id."""
