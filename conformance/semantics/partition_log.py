"""A partition of a broker: offsets, transactions and their markers, fetches, and compaction.

If the documents are silent, it behaves as Apache Kafka does (decisions#read-committed, decisions#compaction).
"""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct, field

from conformance import codec
from conformance.codec import json_notation as n
from conformance.codec.builders import marker
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import TIMESTAMP_TYPES
from conformance.semantics.consumer_view import READ_COMMITTED, AbortedTransaction

KEPT = "producer"
"""The compression type of a topic that stores a batch in the codec of its producer."""
SETTINGS = {"compressionType": (*CODEC_NAMES, KEPT), "timestampType": TIMESTAMP_TYPES}
"""The settings of a topic that change the stored bytes, with their values (record-batch#compression-configuration)."""

_NUMBERS = ("logEnd", "baseOffset", "appendTime")
APPENDED = n.ObjectOf({**dict.fromkeys(_NUMBERS, n.DECIMAL), "stored": n.HEX, "segment": n.TEXT})
"""Values besides the served bytes of a batch: the end of the log before it, the returned offset, the returned time.

If the stored bytes differ from the served bytes, they are included, with their file.
"""

_APPEND_TIME = TIMESTAMP_TYPES.index("LogAppendTime")


def stored_batch(batch: Values, offset: int, settings: Values) -> Values:
    """Return a batch as it is stored at an offset, in a topic with these settings; LogAppendTime is 0 ms."""
    moved = offset - batch["baseOffset"]
    stored = {
        **batch,
        "baseOffset": offset,
        "partitionLeaderEpoch": 0,
        "records": tuple({**record, "offset": record["offset"] + moved} for record in batch["records"]),
    }
    if settings.get("timestampType") == TIMESTAMP_TYPES[_APPEND_TIME]:
        records = tuple({**record, "timestamp": 0} for record in stored["records"])
        stored |= {"timestampType": _APPEND_TIME, "records": records}
    codec = settings.get("compressionType", KEPT)
    return stored if codec == KEPT else {**stored, "compression": CODEC_NAMES.index(codec)}


def appended_bytes(batch: Values, offset: int, settings: Values) -> bytes:
    """Return the bytes of a batch as it is stored at an offset. Raises codec.Unencodable."""
    return codec.encode("RECORD_BATCH", stored_batch(batch, offset, settings))


_DERIVED = ("batchLength", "crc", "attributes")
"""Fields that are derived when the batch is written; their old values are no longer correct."""


def compact_batch(batch: Values, kept: Container[int], *, delete_horizon: int | None = None) -> Values:
    """Return a RECORD_BATCH value with only the records at the offsets in `kept`, ready to be written.

    They get a new baseTimestamp: `delete_horizon`, in milliseconds, if the batch has none yet and keeps a record (this
    sets attribute bit 6), else the timestamp of the first kept record. If no record is kept, 61 bytes are left. A batch
    that loses no record and gets no horizon is returned unchanged.
    """
    records = tuple(record for record in batch["records"] if record["offset"] in kept)
    if not records:
        return _emptied(batch)
    sets_delete_horizon = delete_horizon is not None and not batch.get("hasDeleteHorizonMs")
    if len(records) == len(batch["records"]) and not sets_delete_horizon:
        return batch
    horizon = (
        delete_horizon if sets_delete_horizon else batch["baseTimestamp"] if batch.get("hasDeleteHorizonMs") else None
    )
    # LogAppendTime is one time for all records, and maxTimestamp contains it.
    stamps = [batch["maxTimestamp"] if batch["timestampType"] else record["timestamp"] for record in records]
    base = stamps[0] if horizon is None else horizon
    return {
        **_lasting(batch),
        "hasDeleteHorizonMs": horizon is not None,
        "baseTimestamp": base,
        "maxTimestamp": max(stamps),
        "recordCount": len(records),
        "records": tuple(
            {**record, "timestamp": stamp, "timestampDelta": stamp - base}
            for record, stamp in zip(records, stamps, strict=True)
        ),
    }


def _emptied(batch: Values) -> Values:
    """Return the header alone: it keeps the producer's last sequence, and the offsets."""
    gone = {"compression": 0, "hasDeleteHorizonMs": False, "baseTimestamp": -1, "recordCount": 0, "records": ()}
    return {**_lasting(batch), **gone}


def _lasting(batch: Values) -> Values:
    return {name: value for name, value in batch.items() if name not in _DERIVED}


class PartitionLog(Struct):
    """The log of a partition."""

    start: int = 0
    """The first offset; earlier records are deleted."""
    end: int = 0
    """The offset after the last record, and also the high watermark, because there is one replica."""
    batches: list[Values] = field(default_factory=list)
    undecided: dict[int, int] = field(default_factory=dict)
    """The first offset of each open transaction, by producer id."""
    aborted: list[tuple[AbortedTransaction, int]] = field(default_factory=list)
    """Each aborted transaction, with the offset of its marker."""

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: all transactions before it have ended."""
        return min(self.undecided.values(), default=self.end)

    def append(self, batch: Values) -> int:
        """Store a batch and return its offset."""
        offset = self.end
        self.batches.append(
            codec.decode("RECORD_BATCH", codec.encode("RECORD_BATCH", stored_batch(batch, offset, {}))).value
        )
        self.end = last_offset(self.batches[-1]) + 1
        if batch["isTransactional"] and not batch["isControlBatch"]:
            self.undecided.setdefault(batch["producerId"], offset)
        return offset

    def write_marker(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        """End the transaction of a producer, if it wrote to this partition (record-batch#control-batches)."""
        if producer_id not in self.undecided:
            return
        at = self.append(marker(producer_id, epoch, commit=commit))
        first = self.undecided.pop(producer_id)
        if not commit:
            self.aborted.append((AbortedTransaction(producer_id, first), at))

    def fetch(self, offset: int, isolation: str, most: int) -> bytes:
        """Return the batches from the one with an offset on, up to a number of bytes, but the first one whole."""
        stop = self.last_stable_offset if isolation == READ_COMMITTED else self.end
        data = b""
        for batch in self.batches:
            if offset <= last_offset(batch) and batch["baseOffset"] < stop:
                came = _encoded(batch)
                if data and len(data) + len(came) > most:
                    break
                data += came
        return data

    def aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that end at an offset or later."""
        return [one for one, at in self.aborted if at >= offset]

    def find(self, time: int) -> tuple[int, int]:
        """Return offset and time (milliseconds since 1970) of the first record from a time on, or -1 and -1."""
        records = (record for batch in self.batches for record in batch["records"])
        found = (one for one in records if one["offset"] >= self.start and one["timestamp"] >= time)
        return next(((one["offset"], one["timestamp"]) for one in found), (-1, -1))

    def delete(self, before: int) -> int:
        """Delete the records before an offset, and return the new start of the log."""
        self.start = max(self.start, before)
        self.batches = [one for one in self.batches if last_offset(one) >= self.start]
        return self.start

    def compact(self, horizon: int, *, tombstones: bool) -> None:
        """Keep the last record of each key that was not aborted, and the last batch of each producer, even if empty.

        Batches with records for later deletion get the delete horizon, in milliseconds. `tombstones` removes records
        with a null value at once.
        """
        data = [one for one in self.batches if not one["isControlBatch"] and not self._is_aborted(one)]
        last = {record["key"]: record["offset"] for one in data for record in one["records"]}
        null = {record["offset"] for one in data for record in one["records"] if record["value"] is None}
        markers = {one["baseOffset"] for one in self.batches if one["isControlBatch"]}
        kept = {*last.values(), *markers} - (null if tombstones else set())
        # ABORT markers and records with a null value are deleted later, so their batches need a horizon.
        late = {at for _, at in self.aborted} | null
        producers = {batch["producerId"]: batch["baseOffset"] for batch in self.batches if batch["producerId"] >= 0}
        cleaned = [
            self.compacted_batch(one, kept, horizon if late & _offsets(one) & kept else None) for one in self.batches
        ]
        self.batches = [one for one in cleaned if one["records"] or one["baseOffset"] in producers.values()]

    def compacted_batch(self, batch: Values, kept: set[int], horizon: int | None) -> Values:
        """Return a batch with only the records at some offsets, and a horizon if some of them are deleted later."""
        return compact_batch(batch, kept, delete_horizon=horizon)

    def _is_aborted(self, batch: Values) -> bool:
        if not batch["isTransactional"]:
            return False
        own = [(one.first_offset, at) for one, at in self.aborted if one.producer_id == batch["producerId"]]
        return any(first <= first_offset(batch) < at for first, at in own)


def _offsets(batch: Values) -> set[int]:
    return {record["offset"] for record in batch["records"]}


def _encoded(batch: Values) -> bytes:
    """Return the bytes of a batch, which may have no records."""
    return codec.wire("RECORD_BATCH").encode(batch)
