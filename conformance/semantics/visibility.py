"""What an application sees of a fetch, and where the next one starts (record-batch#consumer-requirements).

The rules are those of decisions, read_committed, and the last paragraph of Producer state and control batches:
control records are never handed out; under read_committed an entry (producer, first offset) of the list of aborted
transactions hides the transactional batches of that producer from that offset on, until an ABORT marker ends it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from conformance import codec
from conformance.codec import notation as n
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import CONTROL_TYPES, RECORD, TIMESTAMP_TYPES

READ_COMMITTED = "read_committed"
ISOLATIONS = ("read_uncommitted", READ_COMMITTED)

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
    damage: codec.Violation | None = None
    """What is wrong with the first entry that is not sound; what follows it is not looked at."""
    remarks: tuple[codec.Violation, ...] = ()
    partial: bool = False
    """Whether an entry that is cut off ends the log."""

    @property
    def next_offset(self) -> int:
        """Where the next fetch starts after all there is (record-batch#offset-calculation)."""
        return max((self.fetch_offset, *self.ends[-1:]))


class _Transactions:
    """Which producers are inside an aborted transaction, as the log is gone through."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._coming = [(entry.first_offset, entry.producer_id) for entry in aborted]
        heapq.heapify(self._coming)
        self._active: set[int] = set()

    def hides(self, batch: dict[str, Any]) -> bool:
        """Whether a batch belongs to an aborted transaction; to be asked for each batch in order."""
        producer = batch["producerId"]
        if producer < 0:
            return False
        while self._coming and self._coming[0][0] <= last_offset(batch):
            self._active.add(heapq.heappop(self._coming)[1])
        if _is_abort(batch):
            self._active.discard(producer)
            return False
        return bool(batch["isTransactional"]) and producer in self._active


def _is_abort(batch: dict[str, Any]) -> bool:
    """Whether the first record of a control batch is an ABORT marker."""
    if not batch["isControlBatch"] or not batch["records"]:
        return False
    key = codec.decode("CONTROL_RECORD", batch["records"][0]["key"] or b"")
    return key.ok and key.value["type"] == _ABORT


def view(
    data: bytes,
    fetch_offset: int,
    *,
    isolation: str = ISOLATIONS[0],
    aborted: Iterable[Aborted] = (),
    check_crcs: bool = True,
) -> View:
    """What a consumer at `fetch_offset` is to be shown of the bytes of a log, up to the first damaged entry.

    With `check_crcs` off, an entry whose checksum is all that is wrong counts as sound.
    """
    transactions = _Transactions(aborted if isolation == READ_COMMITTED else ())
    records: list[dict[str, Any]] = []
    ends: list[int] = []
    hidden: dict[int, str] = {}
    remarks: list[codec.Violation] = []
    damage: codec.Violation | None = None
    partial = False
    for entry in codec.entries(data, check_crcs=check_crcs):
        remarks += entry.remarks
        if entry.value is None:
            damage = next(iter(entry.violations), None)
            partial = damage is None
            break
        if ends and first_offset(entry.value) < ends[-1]:
            hint = "an entry does not begin after the one before it"
            remarks.append(codec.Violation("offset.record-formula", entry.start, hint, open=True, any_value=True))
        ends.append(last_offset(entry.value) + 1)
        found, rule = _shown(entry.value, transactions)
        if rule:
            hidden.update((record["offset"], rule) for record in found)
        else:
            records += found
    return View(
        fetch_offset,
        tuple(record for record in records if record["offset"] >= fetch_offset),
        tuple(ends),
        hidden,
        damage,
        tuple(remarks),
        partial,
    )


def _shown(entry: dict[str, Any], transactions: _Transactions) -> tuple[list[dict[str, Any]], str]:
    """The records of an entry as an application would see them, and the requirement that hides them, if one does."""
    if "messages" in entry:
        return [_of_message(message) for message in entry["messages"]], ""
    aborted = transactions.hides(entry)
    rule = "control.not-passed-to-application" if entry["isControlBatch"] else "consumer.filters-aborted"
    stamp = {"timestampType": entry["timestampType"]}
    found = [{name: record[name] for name in SEEN.fields if name in record} | stamp for record in entry["records"]]
    return found, rule if aborted or entry["isControlBatch"] else ""


def _of_message(message: dict[str, Any]) -> dict[str, Any]:
    untimed = {"timestamp": -1, "timestampType": "NoTimestampType"}
    return {**untimed, **{name: message[name] for name in SEEN.fields if name in message}, "headers": ()}
