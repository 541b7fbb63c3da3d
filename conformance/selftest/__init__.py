"""The seeded faults: `conformance selftest` enables each of them alone and checks that a case catches it.

Each requirement has a fault, in `requirement_faults`. Add other faults to a table in `known_faults`.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.selftest._pairwise_faults import PAIRWISE_FAULTS
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
from conformance.selftest.requirement_faults import TABLES
from conformance.selftest.seeded_fault import SeededFault

_AREAS = {
    ("logs", "sequence"): "sequences",
    ("logs", "producer-epoch"): "sequences",
    ("logs", "convert"): "conversion",
    ("record batches", "control"): "control records",
    **{("record batches", family): "codecs" for family in ("codec", "compression", "reader")},
}
"""The area by table and first part of the requirement id, if it differs from the table."""

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
"""Requirements with the same fault as another one; the fault counts once."""


def _requirement_faults() -> Iterator[SeededFault]:
    for area, table in TABLES.items():
        for name, mutate in table.items():
            if name not in SAME_FAULT:
                own_area = _AREAS.get((area, name.partition(".")[0]), area)
                yield SeededFault(f"requirement/{name}", own_area, "", name, mutate, (name,))


_TABLES = (
    *(VARINTS, PRIMITIVES, TAGGED_FIELDS, BATCHES, CODECS, MESSAGE_SETS, MAGICS, TAILS, TRANSACTIONS, FETCHES),
    *(SEQUENCES, CONVERSIONS, PAIRWISE_FAULTS, MESSAGES, CLIENTS, PRODUCERS, PARTITIONS),
)

FAULTS: dict[str, SeededFault] = {fault.id: fault for fault in _requirement_faults()} | {
    fault.id: fault for table in _TABLES for fault in table
}
"""All seeded faults by id."""
