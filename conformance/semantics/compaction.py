"""What the log cleaner leaves of a batch (message-format#record-batch; decisions#compaction).

First and last offset, producer, epoch and sequence of the batch stay whatever is removed; the timestamps' origin does
not. Held against Apache Kafka's own filter of records.
"""

from __future__ import annotations

from collections.abc import Container

from conformance.codec.derived_fields import Values

_DERIVED = ("batchLength", "crc", "attributes")
"""What follows from the rest when the batch is written; what stood there is no longer true."""


def compacted(batch: Values, kept: Container[int], *, delete_horizon: int | None = None) -> Values:
    """A RECORD_BATCH value with the records at the offsets in `kept` alone, ready to be written.

    The rest are read against a new baseTimestamp: `delete_horizon`, in milliseconds, where the batch has none yet and
    keeps a record (attribute bit 6 is set), else the first kept record's. Where none is kept, 61 bytes are left.
    A batch that loses nothing and gets no horizon is returned as it is.
    """
    records = tuple(record for record in batch["records"] if record["offset"] in kept)
    if not records:
        return _emptied(batch)
    due = delete_horizon is not None and not batch.get("hasDeleteHorizonMs")
    if len(records) == len(batch["records"]) and not due:
        return batch
    horizon = delete_horizon if due else batch["baseTimestamp"] if batch.get("hasDeleteHorizonMs") else None
    # The time of log append is one for all records, and stands in maxTimestamp.
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
    """The header alone: it holds the producer's last sequence, and the offsets."""
    gone = {"compression": 0, "hasDeleteHorizonMs": False, "baseTimestamp": -1, "recordCount": 0, "records": ()}
    return {**_lasting(batch), **gone}


def _lasting(batch: Values) -> Values:
    return {name: value for name, value in batch.items() if name not in _DERIVED}
