"""What a broker makes of a batch that a producer sends (record-batch#offset-assignment, #compression-configuration).

Where the documents are silent it is Apache Kafka's broker (decisions#batch), and what others may do too is open.
"""

from __future__ import annotations

from conformance import codec
from conformance.codec import json_notation as n
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import TIMESTAMP_TYPES

KEPT = "producer"
"""The compression type of a topic that leaves a batch in the codec of its producer."""
SETTINGS = {"compressionType": (*CODEC_NAMES, KEPT), "timestampType": TIMESTAMP_TYPES}
"""The settings of a topic that change what is stored, with their values (record-batch#compression-configuration)."""

_NUMBERS = ("logEnd", "baseOffset", "appendTime")
APPENDED = n.Fields({**dict.fromkeys(_NUMBERS, n.DECIMAL), "stored": n.HEX, "segment": n.TEXT})
"""Beside the bytes that a broker serves of a batch: where its log ended before, and the offset and time that it told.

Where other bytes are stored than are served, these, and the file in which they stand.
"""

_APPEND_TIME = TIMESTAMP_TYPES.index("LogAppendTime")


def appended(batch: Values, offset: int, settings: Values) -> Values:
    """The batch as it is stored at an offset, in a topic with these settings; LogAppendTime is a time of 0 ms."""
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
    """The bytes of the batch as it is stored at an offset. Raises codec.Unencodable."""
    return codec.encode("RECORD_BATCH", appended(batch, offset, settings))
