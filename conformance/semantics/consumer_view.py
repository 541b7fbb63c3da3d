"""An application's view of a fetch, and the start of the next one (record-batch#consumer-requirements).

The rules are in decisions#read-committed and decisions#producer-state-and-control-batches. Control records are never
delivered. Under read_committed, an entry (producer, first offset) of the list of aborted transactions hides the
transactional batches of that producer from that offset on, until an ABORT marker ends it.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct, field
from msgspec.structs import replace

from conformance import codec
from conformance.codec import Definedness
from conformance.codec import json_notation as n
from conformance.codec.control_record import CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.log import CHECKSUM_RULES, extents, first_offset, last_offset
from conformance.codec.record import RECORD
from conformance.codec.record_batch import (
    BATCH_LAYOUT,
    HEADER_SIZE,
    TIMESTAMP_TYPES,
    stored_magic,
    stored_offset,
    with_checksums,
)

READ_COMMITTED = "read_committed"
ISOLATIONS = ("read_uncommitted", READ_COMMITTED)

_BATCHES = 2
"""The magic of record batches."""
_INT64_MAX = (1 << 63) - 1
_NO_SIZE = "batch.length-wrong-rejected"
"""The requirement for a size below that of any entry."""
_ABORT = CONTROL_TYPES.index("ABORT")

RECORD_NOTATION = n.ObjectOf(
    {
        "offset": n.DECIMAL,
        "timestamp": n.DECIMAL,
        "timestampType": n.NamedNumber(TIMESTAMP_TYPES, further=("NoTimestampType",)),
        "key": n.HEX,
        "value": n.HEX,
        "headers": RECORD.notation.fields["headers"],
    }
)
"""A record as an application sees it; magic 0 has no timestamp, shown as -1 without a type."""

VIEW_NOTATION = n.ObjectOf(
    {
        "records": n.ListOf(RECORD_NOTATION, nullable=False),
        "nextOffset": n.DECIMAL,
        "error": n.TEXT,
        "guardViolation": n.TEXT,
    }
)
"""The answer to `read`; `beside` describes what a live client did with its broker's own records around the log."""


class AbortedTransaction(Struct, frozen=True):
    """An entry of the list of aborted transactions that a broker sends with a fetch."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """The visible part of a log from an offset on."""

    fetch_offset: int
    records: tuple[Values, ...]
    """The visible records of all valid entries, in order."""
    ends: tuple[int, ...]
    """The offset after each valid entry, in order: the next fetch may start there."""
    hidden: dict[int, str]
    """Offsets of records that exist but must not be visible, each with the requirement that hides it."""
    legacy: frozenset[int] = frozenset()
    """Offsets of visible records that are messages of magic 0 or 1."""
    damage: codec.Violation | None = None
    """The error in the first invalid entry; later entries are not read."""
    remarks: tuple[codec.Violation, ...] = ()
    partial: bool = False
    """True if a truncated entry ends the log."""
    before_damage: int | None = dataclasses.field(default=None, repr=False)
    """Complete records of the damaged batch before the damage; None if no record contains the damage."""
    rests_on: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    """Requirements that a reader must meet to read the valid entries; some readers do not meet them."""

    @property
    def next_offset(self) -> int:
        """The start of the next fetch after the whole log (record-batch#offset-calculation)."""
        return max((self.fetch_offset, *self.ends))


class _AbortedTransactionFilter:
    """The producers inside of an aborted transaction, while the log is read in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = [(entry.first_offset, entry.producer_id) for entry in aborted]
        heapq.heapify(self._coming)
        self._active: dict[int, int] = {}
        """The first offset of the transaction, by producer."""

    def is_aborted(self, batch: Values, at: int, remarks: list[codec.Violation]) -> bool:
        """Return True if a batch, at byte `at`, is part of an aborted transaction. Call it for each batch in order.

        Unspecified cases become remarks; if they affect a listed transaction, any outcome is right.
        """
        producer = batch["producerId"]
        if producer < 0:
            return False
        self._activate(last_offset(batch))
        if batch["isControlBatch"]:
            matters = producer in self._active
            openness = Definedness.ANY_VALUE if matters else Definedness.OPEN
            remarks += (replace(doubt, openness=openness) for doubt in _doubts(batch, at))
            if _marker(batch) == _ABORT:
                self._active.pop(producer, None)
            elif matters:
                hint = f"a marker that is not an ABORT ends a transaction listed as aborted (producer {producer})"
                remarks.append(_doubt("control.ends-transaction", at, hint, Definedness.ANY_VALUE))
            return False
        if not batch["isTransactional"] or producer not in self._active:
            return False
        if self._active[producer] > first_offset(batch):
            hint = f"the listed aborted transaction begins inside the batch, at {self._active[producer]}"
            remarks.append(_doubt("consumer.filters-aborted", at, hint, Definedness.ANY_VALUE))
        return True

    def is_aborted_header(self, header: Values) -> bool:
        """Return True if a batch with this header is hidden, so that its records need not be read."""
        self._activate(last_offset(header))
        return bool(header["isTransactional"]) and header["producerId"] in self._active

    def _activate(self, offset: int) -> None:
        """Activate the transactions that begin up to an offset."""
        while self._coming and self._coming[0][0] <= offset:
            first, listed = heapq.heappop(self._coming)
            self._active[listed] = first


def _doubt(requirement: str, at: int, hint: str, openness: Definedness = Definedness.OPEN) -> codec.Violation:
    return codec.Violation(requirement, at, hint, openness=openness)


def abort_markers(data: bytes) -> list[tuple[int, int]]:
    """Return the ABORT markers in the valid entries of a log, as producer and offset."""
    batches = [entry.value for entry in codec.entries(data) if entry.value and not entry.violations]
    return [
        (batch["producerId"], first_offset(batch))
        for batch in batches
        if batch.get("isControlBatch") and _marker(batch) == _ABORT
    ]


def _marker(batch: Values) -> int | None:
    """Return the type in the first record of a control batch; None if it is absent or unreadable."""
    if not batch["records"]:
        return None
    key = codec.decode("CONTROL_RECORD", batch["records"][0]["key"] or b"")
    return int(key.value["type"]) if key.ok else None


def _doubts(batch: Values, at: int) -> list[codec.Violation]:
    """Return the unspecified cases of a marker: another reader may reject it, or not accept it as a marker."""
    doubts = []
    if not batch["isTransactional"]:
        doubts.append(_doubt("attributes.transactional-bit", at, "the batch of a marker is not transactional"))
    if batch["records"]:
        key = codec.decode("CONTROL_RECORD", batch["records"][0]["key"] or b"")
        doubts += (_doubt(one.requirement, at, one.hint) for one in (*key.violations, *key.remarks))
    return doubts


def consumer_view(
    data: bytes,
    fetch_offset: int,
    *,
    isolation: str = ISOLATIONS[0],
    aborted: Iterable[AbortedTransaction] = (),
    check_crcs: bool = True,
    entries: Iterable[codec.LogEntry] | None = None,
) -> ConsumerView:
    """Return the expected view of a log for a consumer at `fetch_offset`, up to the first damaged entry.

    With `check_crcs` off, an entry in which only a checksum is wrong counts as valid. `entries` are those of the log,
    if the caller has already read them.
    """
    transactions = _AbortedTransactionFilter(aborted) if isolation == READ_COMMITTED else None
    seen = _ConsumerViewBuilder(fetch_offset, transactions)
    damage: codec.Violation | None = None
    partial, before_damage = False, None
    for entry in codec.entries(data) if entries is None else entries:
        seen.remarks += entry.remarks
        faults = entry.violations if check_crcs else entry.violations_except_checksums
        if faults or entry.value is None:
            damage = next(iter(entry.violations_except_checksums or faults), None)
            partial = damage is None
            position = max((fetch_offset, *seen.ends))
            if damage is not None and _may_be_skipped(data, entry, faults, position, transactions):
                hint = "the damage is in records that are not visible, so a consumer may skip it"
                seen.remarks.append(_doubt(damage.requirement, entry.start, hint, Definedness.ANY_VALUE))
            elif damage is not None:
                before_damage = _whole_records(data[entry.start : entry.stop], damage, entry.start)
            break
        seen.add(entry)
    seen.remark_the_first_entry(is_followed=len(seen.ends) + (damage is not None) > 1)
    return ConsumerView(
        fetch_offset,
        tuple(record for record in seen.records if record["offset"] >= fetch_offset),
        tuple(seen.ends),
        seen.hidden,
        frozenset(seen.legacy),
        damage,
        tuple(seen.remarks),
        partial,
        before_damage,
        tuple(seen.rests_on),
    )


class _ConsumerViewBuilder(Struct):
    """The view of a log so far; valid entries are added in order."""

    fetch_offset: int
    transactions: _AbortedTransactionFilter | None
    """None if all transactions are visible."""
    records: list[Values] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    hidden: dict[int, str] = field(default_factory=dict)
    legacy: set[int] = field(default_factory=set)
    remarks: list[codec.Violation] = field(default_factory=list)
    rests_on: list[str] = field(default_factory=list)

    def add(self, entry: codec.LogEntry) -> None:
        """Add a valid entry."""
        self._place(entry)
        self.rests_on += entry.rests_on
        if "messages" in entry.value:
            self.records += (_of_message(message) for message in entry.value["messages"])
            self.legacy.update(message["offset"] for message in entry.value["messages"])
        else:
            self._add_batch(entry)

    def _place(self, entry: codec.LogEntry) -> None:
        """Record the end of the entry, and remark on its offsets if they are unspecified."""
        at = entry.start
        if self.ends and entry.first_offset < self.ends[-1]:
            hint = "the entry begins before the end of the one before it"
            self.remarks.append(_doubt("offset.record-formula", at, hint, Definedness.ANY_VALUE))
        self.ends.append(entry.last_offset + 1)
        if self.ends[-1] > _INT64_MAX:
            hint = "the next offset does not fit in an INT64"
            self.remarks.append(_doubt("offset.next-formula", at, hint, Definedness.ANY_VALUE))

    def _add_batch(self, entry: codec.LogEntry) -> None:
        """Add the records of a batch, or hide them."""
        batch, at = entry.value, entry.start
        is_aborted = self.transactions is not None and self.transactions.is_aborted(batch, at, self.remarks)
        if is_aborted and self.ends[-1] <= self.fetch_offset:
            hint = "an aborted batch before the fetch offset: Apache Kafka's consumer goes back to its end"
            self.remarks.append(_doubt("offset.fetch-absolute", at, hint, Definedness.ANY_VALUE))
        if is_aborted or batch["isControlBatch"]:
            rule = "consumer.filters-aborted" if is_aborted else "consumer.handles-control-batches"
            self.hidden.update((record["offset"], rule) for record in batch["records"])
        else:
            self.records += _of_batch(batch)

    def remark_the_first_entry(self, *, is_followed: bool) -> None:
        """Remark on a first entry before the fetch offset: Apache Kafka's consumer may go back to its end."""
        if self.ends and self.ends[0] <= self.fetch_offset and is_followed:
            hint = "the first of several entries ends before the fetch offset: a broker does not send that"
            self.remarks.append(_doubt("offset.fetch-absolute", 0, hint, Definedness.ANY_VALUE))


def _may_be_skipped(
    data: bytes,
    entry: codec.LogEntry,
    faults: Sequence[codec.Violation],
    position: int,
    transactions: _AbortedTransactionFilter | None,
) -> bool:
    """Return True if the damage may be in invisible records: hidden ones, or ones before a consumer's position.

    This applies to records and messages; every reader reads the length, the magic and the checksum of a batch.
    """
    whole = data[entry.start : entry.stop]
    if stored_magic(whole) != _BATCHES:
        return _is_passed_over(whole, next(iter(entry.violations_except_checksums or faults)), position)
    header = batch_header(whole)
    if header is None or any(one.requirement in CHECKSUM_RULES for one in faults):
        return False
    hidden = header["isControlBatch"] or (transactions is not None and transactions.is_aborted_header(header))
    return bool(hidden) or header["baseOffset"] < position


def batch_header(data: bytes) -> Values | None:
    """Return the header of a batch, for any records; None if the header is invalid too."""
    if len(data) < HEADER_SIZE:
        return None
    uncompressed = BATCH_LAYOUT.with_field("compression", data[:HEADER_SIZE], 0)
    header: Values | None = codec.decode(
        "RECORD_BATCH", with_checksums(BATCH_LAYOUT.with_field("recordCount", uncompressed, 0))
    ).value
    return header


def _is_passed_over(entry: bytes, damage: codec.Violation, position: int) -> bool:
    """Return True if the damage is in a message of magic 0 or 1 with an offset below a consumer's position.

    Earlier messages in a wrapper advance the position. A size below that of any entry stops every reader.
    """
    magic = stored_magic(entry)
    if magic not in LAYOUTS or damage.requirement == _NO_SIZE:
        return False
    offset = stored_offset(entry)
    if damage.layer == 0:
        return offset < position
    inner = codec.decode("LOG", entry).layers[damage.layer - 1]
    stored = {start: stored_offset(inner, start) for start, _ in extents(inner)}
    origin = offset - list(stored.values())[-1] if magic and stored else 0
    *before, own = [at + origin for start, at in stored.items() if start <= damage.at] or [origin]
    return own < max((position, *(at + 1 for at in before)))


def _whole_records(batch: bytes, damage: codec.Violation, start: int) -> int | None:
    """Return the number of complete records before damage in a record, for a batch at byte `start`."""
    if stored_magic(batch) != _BATCHES or batch_header(batch) is None:
        return None
    is_packed = BATCH_LAYOUT.read_field("compression", batch) > 0
    at, position, found = damage.at - (0 if is_packed else start), (0 if is_packed else HEADER_SIZE), 0
    if damage.layer != is_packed or at < position:
        return None
    records = codec.decode("RECORD_BATCH", batch).layers[0] if is_packed else batch
    # A record is its length, a VARINT of at most 5 bytes, and as many bytes.
    while position < at and (size := codec.decode("VARINT", records[position : position + 5])).ok and size.value >= 0:
        position += size.consumed + size.value
        found += position <= at
    return found


def _of_batch(batch: Values) -> list[Values]:
    stamp = {"timestampType": batch["timestampType"]}
    return [
        {name: record[name] for name in RECORD_NOTATION.fields if name in record} | stamp for record in batch["records"]
    ]


def _of_message(message: Values) -> Values:
    untimed = {"timestamp": -1, "timestampType": "NoTimestampType"}
    return {**untimed, **{name: message[name] for name in RECORD_NOTATION.fields if name in message}, "headers": ()}
