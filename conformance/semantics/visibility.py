"""What an application sees of a fetch, and where the next one starts (record-batch#consumer-requirements).

The rules are those of decisions#read-committed and decisions#producer-state-and-control-batches: control records are
never handed out; under read_committed an entry (producer, first offset) of the list of aborted transactions hides the
transactional batches of that producer from that offset on, until an ABORT marker ends it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance import codec
from conformance.codec import Openness
from conformance.codec import notation as n
from conformance.codec.control_record import CONTROL_TYPES
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.log import CHECKSUM_RULES, extents, first_offset, last_offset
from conformance.codec.record import RECORD
from conformance.codec.record_batch import (
    BATCH_LAYOUT,
    HEADER_SIZE,
    TIMESTAMP_TYPES,
    sealed,
    stored_magic,
    stored_offset,
)

READ_COMMITTED = "read_committed"
ISOLATIONS = ("read_uncommitted", READ_COMMITTED)

_BATCHES = 2
"""The magic of record batches."""
_INT64_MAX = (1 << 63) - 1
_ABORT = CONTROL_TYPES.index("ABORT")

SEEN = n.Fields(
    {
        "offset": n.DECIMAL,
        "timestamp": n.DECIMAL,
        "timestampType": n.Names(TIMESTAMP_TYPES, further=("NoTimestampType",)),
        "key": n.HEX,
        "value": n.HEX,
        "headers": RECORD.notation.fields["headers"],
    }
)
"""A record as an application sees it; magic 0 has no timestamp, which is -1 of no type."""

VIEW = n.Fields({"records": n.ListOf(SEEN, nullable=False), "nextOffset": n.DECIMAL, "error": n.TEXT})
"""The answer to `read`."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """An entry of the list of aborted transactions that a broker sends with a fetch."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class View:
    """What is to be seen of a log from an offset on."""

    fetch_offset: int
    records: tuple[dict[str, Any], ...]
    """The visible ones of all sound entries, in order."""
    ends: tuple[int, ...]
    """The offset after each sound entry, in order: where a next fetch may start."""
    hidden: dict[int, str]
    """Offsets of records that are there and are not to be seen, each with the requirement that hides it."""
    legacy: frozenset[int] = frozenset()
    """Offsets of visible records that are messages of magic 0 or 1."""
    damage: codec.Violation | None = None
    """What is wrong with the first entry that is not sound; what follows it is not looked at."""
    remarks: tuple[codec.Violation, ...] = ()
    partial: bool = False
    """Whether an entry that is cut off ends the log."""

    @property
    def next_offset(self) -> int:
        """Where the next fetch starts after all there is (record-batch#offset-calculation)."""
        return max((self.fetch_offset, *self.ends))


class _Transactions:
    """Which producers are inside an aborted transaction, as the log is gone through."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._coming = [(entry.first_offset, entry.producer_id) for entry in aborted]
        heapq.heapify(self._coming)
        self._active: dict[int, int] = {}
        """The first offset of the transaction, by producer."""

    def hides(self, batch: dict[str, Any], at: int, remarks: list[codec.Violation]) -> bool:
        """Whether a batch, at byte `at`, is part of an aborted transaction; to be asked for each batch in order.

        Open places are added to the remarks; they leave any outcome where a listed transaction hangs on them.
        """
        producer = batch["producerId"]
        if producer < 0:
            return False
        self._reach(last_offset(batch))
        if batch["isControlBatch"]:
            matters = producer in self._active
            openness = Openness.ANY_VALUE if matters else Openness.OPEN
            remarks += (replace(doubt, openness=openness) for doubt in _doubts(batch, at))
            if _marker(batch) == _ABORT:
                self._active.pop(producer, None)
            elif matters:
                hint = f"a marker that is no ABORT ends a transaction listed as aborted (producer {producer})"
                remarks.append(_doubt("control.ends-transaction", at, hint, Openness.ANY_VALUE))
            return False
        if not batch["isTransactional"] or producer not in self._active:
            return False
        if self._active[producer] > first_offset(batch):
            hint = f"the aborted transaction is said to begin inside the batch, at {self._active[producer]}"
            remarks.append(_doubt("consumer.filters-aborted", at, hint, Openness.ANY_VALUE))
        return True

    def passes_over(self, header: dict[str, Any]) -> bool:
        """Whether a batch with this header is hidden, so that its records need not be read to know it."""
        self._reach(last_offset(header))
        return bool(header["isTransactional"]) and header["producerId"] in self._active

    def _reach(self, offset: int) -> None:
        """Make active whatever begins up to an offset."""
        while self._coming and self._coming[0][0] <= offset:
            first, listed = heapq.heappop(self._coming)
            self._active[listed] = first


def _doubt(requirement: str, at: int, hint: str, openness: Openness = Openness.OPEN) -> codec.Violation:
    return codec.Violation(requirement, at, hint, openness=openness)


def _marker(batch: dict[str, Any]) -> int | None:
    """The type in the first record of a control batch, if there is one that can be read."""
    if not batch["records"]:
        return None
    key = codec.decode("CONTROL_RECORD", batch["records"][0]["key"] or b"")
    return int(key.value["type"]) if key.ok else None


def _doubts(batch: dict[str, Any], at: int) -> list[codec.Violation]:
    """The open places of a marker, where another reader may refuse it or take it for none."""
    found = [] if batch["isTransactional"] else [_doubt("attributes.transactional-bit", at, "a marker without the bit")]
    if batch["records"]:
        key = codec.decode("CONTROL_RECORD", batch["records"][0]["key"] or b"")
        found += (_doubt(one.requirement, at, one.hint) for one in (*key.violations, *key.remarks))
    return found


def view(
    data: bytes,
    fetch_offset: int,
    *,
    isolation: str = ISOLATIONS[0],
    aborted: Iterable[Aborted] = (),
    check_crcs: bool = True,
    entries: Iterable[codec.Entry] | None = None,
) -> View:
    """What a consumer at `fetch_offset` is to be shown of the bytes of a log, up to the first damaged entry.

    With `check_crcs` off, an entry whose checksum is all that is wrong counts as sound. `entries` are those of the log,
    for who has read them already.
    """
    transactions = _Transactions(aborted) if isolation == READ_COMMITTED else None
    records: list[dict[str, Any]] = []
    ends: list[int] = []
    hidden: dict[int, str] = {}
    legacy: set[int] = set()
    remarks: list[codec.Violation] = []
    damage: codec.Violation | None = None
    partial = False
    for entry in codec.entries(data) if entries is None else entries:
        remarks += entry.remarks
        faults = entry.faults(check_crcs=check_crcs)
        if faults or entry.value is None:
            damage = _foremost(faults)
            partial = damage is None
            if damage is not None and _need_not_be_met(data, entry, damage, fetch_offset, transactions):
                hint = "damage in records that nobody is shown: a consumer need not look at them"
                remarks.append(_doubt(damage.requirement, entry.start, hint, Openness.ANY_VALUE))
            break
        if ends and first_offset(entry.value) < ends[-1]:
            hint = "an entry does not begin after the one before it"
            remarks.append(_doubt("offset.record-formula", entry.start, hint, Openness.ANY_VALUE))
        ends.append(last_offset(entry.value) + 1)
        if ends[-1] > _INT64_MAX:
            remarks.append(
                _doubt("offset.next-formula", entry.start, "the next offset is no INT64", Openness.ANY_VALUE)
            )
        if "messages" in entry.value:
            records += (_of_message(message) for message in entry.value["messages"])
            legacy.update(message["offset"] for message in entry.value["messages"])
            continue
        aborted_here = transactions is not None and transactions.hides(entry.value, entry.start, remarks)
        if aborted_here and ends[-1] <= fetch_offset:
            hint = "an aborted batch before the fetch, to whose end Apache Kafka's consumer goes back"
            remarks.append(_doubt("offset.fetch-absolute", entry.start, hint, Openness.ANY_VALUE))
        if aborted_here or entry.value["isControlBatch"]:
            rule = "consumer.filters-aborted" if aborted_here else "consumer.handles-control-batches"
            hidden.update((record["offset"], rule) for record in entry.value["records"])
        else:
            records += _of_batch(entry.value)
    if ends and ends[0] <= fetch_offset and len(ends) + (damage is not None) > 1:
        # Apache Kafka's consumer, too, may fall back to such an entry's end, and hand out what lies between.
        hint = "a whole entry before the fetch offset, with others after it, which no broker sends"
        remarks.append(_doubt("offset.fetch-absolute", 0, hint, Openness.ANY_VALUE))
    return View(
        fetch_offset,
        tuple(record for record in records if record["offset"] >= fetch_offset),
        tuple(ends),
        hidden,
        frozenset(legacy),
        damage,
        tuple(remarks),
        partial,
    )


def _foremost(violations: Sequence[codec.Violation]) -> codec.Violation | None:
    """What is wrong besides a checksum, or the checksum where that is all."""
    beside = (found for found in violations if found.requirement not in CHECKSUM_RULES)
    return next(beside, next(iter(violations), None))


def _need_not_be_met(
    data: bytes, entry: codec.Entry, damage: codec.Violation, fetch_offset: int, transactions: _Transactions | None
) -> bool:
    """Whether damage may lie in records that are not to be seen: hidden ones, or those before the fetch offset.

    That goes for records and messages; a length, a magic or a checksum of a batch is met by every reader.
    """
    whole = data[entry.start : entry.stop]
    if stored_magic(whole) != _BATCHES:
        return _is_passed_over(whole, damage, fetch_offset)
    header = _header(whole)
    if header is None or any(found.requirement in CHECKSUM_RULES for found in entry.violations):
        return False
    hidden = header["isControlBatch"] or (transactions is not None and transactions.passes_over(header))
    return bool(hidden) or header["baseOffset"] < fetch_offset


def _header(data: bytes) -> Any:
    """The header of a batch by itself, whatever its records are; None when that is not sound either."""
    if len(data) < HEADER_SIZE:
        return None
    uncompressed = BATCH_LAYOUT.put("compression", data[:HEADER_SIZE], 0)
    return codec.decode("RECORD_BATCH", sealed(BATCH_LAYOUT.put("recordCount", uncompressed, 0))).value


def _is_passed_over(entry: bytes, damage: codec.Violation, fetch_offset: int) -> bool:
    """Whether damage lies in a message of magic 0 or 1 with an offset below that of the fetch."""
    magic = stored_magic(entry)
    if fetch_offset <= 0 or magic not in LAYOUTS:
        return False
    offset = stored_offset(entry)
    if damage.layer == 0:
        return offset < fetch_offset
    inner = codec.decode("LOG", entry).layers[damage.layer - 1]
    stored = {start: stored_offset(inner, start) for start, _ in extents(inner)}
    own = max((start for start in stored if start <= damage.at), default=0)
    origin = offset - list(stored.values())[-1] if magic and stored else 0
    return stored.get(own, 0) + origin < fetch_offset


def _of_batch(batch: dict[str, Any]) -> list[dict[str, Any]]:
    stamp = {"timestampType": batch["timestampType"]}
    return [{name: record[name] for name in SEEN.fields if name in record} | stamp for record in batch["records"]]


def _of_message(message: dict[str, Any]) -> dict[str, Any]:
    untimed = {"timestamp": -1, "timestampType": "NoTimestampType"}
    return {**untimed, **{name: message[name] for name in SEEN.fields if name in message}, "headers": ()}
