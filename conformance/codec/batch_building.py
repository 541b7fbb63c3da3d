"""A record batch from what an application chooses: which fields it names, and what follows from them."""

from __future__ import annotations

from conformance.codec.cursor import Unencodable
from conformance.codec.derivations import Values
from conformance.codec.quick import encoded
from conformance.codec.record_batch import RECORD_BATCH

ENCODE_FIELDS = (
    "baseOffset",
    "partitionLeaderEpoch",
    "compression",
    "timestampType",
    "isTransactional",
    "isControlBatch",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "records",
)
"""What an encoder is told of a batch; it derives the rest."""

RECORD_ENCODE_FIELDS = ("offset", "timestamp", "key", "value", "headers")


def build(request: Values) -> Values:
    """All fields of the batch that an application's choices make (ENCODE_FIELDS, records with RECORD_ENCODE_FIELDS).

    baseTimestamp is the first record's timestamp, maxTimestamp the largest, lastOffsetDelta the last record's offset
    relative to baseOffset. Raises Unencodable for a batch without records or a field that is missing.
    """
    for name in ENCODE_FIELDS:
        if name not in request:
            raise Unencodable("general.exact-encoding", f"{name} is missing")
    records = request["records"]
    if not records:
        raise Unencodable("batch.one-or-more-records", "a producer's batch has at least one record")
    for index, record in enumerate(records):
        for name in RECORD_ENCODE_FIELDS:
            if name not in record:
                raise Unencodable("general.exact-encoding", f"records[{index}].{name} is missing")
    base, origin = request["baseOffset"], records[0]["timestamp"]
    return {
        **{name: request[name] for name in ENCODE_FIELDS},
        "lastOffsetDelta": records[-1]["offset"] - base,
        "baseTimestamp": origin,
        "maxTimestamp": max(record["timestamp"] for record in records),
        "records": tuple(
            {
                **record,
                "attributes": 0,
                "offsetDelta": record["offset"] - base,
                "timestampDelta": record["timestamp"] - origin,
            }
            for record in records
        ),
    }


def encode_built(request: Values) -> bytes:
    """The bytes of the batch that `build` makes."""
    return encoded(RECORD_BATCH, build(request))
