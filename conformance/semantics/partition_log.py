"""A partition of a broker: offsets, transactions and their markers, what a fetch brings, what the log cleaner leaves.

Where the documents are silent it does what Apache Kafka does (decisions#read-committed, decisions#compaction).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance import codec
from conformance.codec.control_record import CONTROL_KEYS, CONTROL_TYPES
from conformance.codec.derivations import Values
from conformance.codec.log import last_offset
from conformance.semantics.appending import appended
from conformance.semantics.compaction import compacted
from conformance.semantics.visibility import READ_COMMITTED, Aborted

_MARKER_VALUE = bytes(6)
"""Version 0 of EndTxnMarker: the epoch of the coordinator is 0."""


@dataclass(slots=True)
class PartitionLog:
    """The log of a partition."""

    end: int = 0
    """The offset after the last record: the high watermark too, as there is one replica."""
    batches: list[Values] = field(default_factory=list)
    undecided: dict[int, int] = field(default_factory=dict)
    """The first offset of each open transaction, by producer id."""
    aborted: list[tuple[Aborted, int]] = field(default_factory=list)
    """Each aborted transaction, with the offset of its marker."""

    @property
    def stable(self) -> int:
        """The last stable offset: all transactions before it are decided."""
        return min(self.undecided.values(), default=self.end)

    def append(self, batch: Values) -> int:
        """Store a batch: its offset."""
        offset = self.end
        self.batches.append(
            codec.decode("RECORD_BATCH", codec.encode("RECORD_BATCH", appended(batch, offset, {}))).value
        )
        self.end = last_offset(self.batches[-1]) + 1
        if batch["isTransactional"] and not batch["isControlBatch"]:
            self.undecided.setdefault(batch["producerId"], offset)
        return offset

    def mark(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        """End the transaction of a producer, where it wrote something here (record-batch#control-batches)."""
        if producer_id not in self.undecided:
            return
        at = self.append(marker(producer_id, epoch, commit=commit))
        first = self.undecided.pop(producer_id)
        if not commit:
            self.aborted.append((Aborted(producer_id, first), at))

    def fetch(self, offset: int, isolation: str, most: int) -> bytes:
        """The batches from the one on that holds an offset: so many bytes, but the first one whole."""
        stop = self.stable if isolation == READ_COMMITTED else self.end
        data = b""
        for batch in self.batches:
            if offset <= last_offset(batch) and batch["baseOffset"] < stop:
                came = _encoded(batch)
                if data and len(data) + len(came) > most:
                    break
                data += came
        return data

    def listed(self, offset: int) -> list[Aborted]:
        """The aborted transactions that reach beyond an offset."""
        return [one for one, at in self.aborted if at >= offset]

    def compact(self) -> None:
        """Keep the last record of each key, and of each producer the last batch, emptied or not."""
        last = {record["key"]: record["offset"] for record in self._records() if record["key"] is not None}
        kept = {record["offset"] for record in self._records() if record["key"] is None}
        kept.update(last.values())
        producers = {batch["producerId"]: batch["baseOffset"] for batch in self.batches if batch["producerId"] >= 0}
        cleaned = [compacted(batch, kept) for batch in self.batches]
        self.batches = [one for one in cleaned if one["records"] or one["baseOffset"] in producers.values()]

    def _records(self) -> Iterable[Values]:
        return (record for batch in self.batches for record in batch["records"])


def marker(producer_id: int, epoch: int, *, commit: bool) -> Values:
    """A control batch that ends a transaction (record-batch#control-record-format)."""
    key = CONTROL_KEYS[CONTROL_TYPES.index("COMMIT" if commit else "ABORT")]
    record = {"offset": 0, "timestamp": 1_700_000_000_000, "key": key, "value": _MARKER_VALUE, "headers": ()}
    return {
        **{"baseOffset": 0, "partitionLeaderEpoch": -1, "compression": 0, "timestampType": 0},
        **{"isTransactional": True, "isControlBatch": True, "baseSequence": -1},
        **{"producerId": producer_id, "producerEpoch": epoch, "records": (record,)},
    }


def _encoded(batch: Values) -> bytes:
    """The bytes of a batch, which may have no records any more."""
    return codec.wire("RECORD_BATCH").encode(batch)
