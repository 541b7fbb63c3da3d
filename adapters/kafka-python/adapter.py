"""kafka-python 3 as a target: its protocol field codecs, its varints and its record batches."""

import gzip
import io
import struct
import uuid
import zlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import snappy  # type: ignore[import-untyped]
import zstandard
from kafka.errors import CorruptRecordError, KafkaError, UnsupportedCodecError
from kafka.protocol.schemas.fields import BaseField
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
from kafka.protocol.schemas.fields.codecs.types import UnsignedVarInt32, VarInt32
from kafka.record import MemoryRecords
from kafka.record.default_records import ControlRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import decode_varint, encode_varint, size_of_varint

from conformance import Reject, Unsupported

# KafkaError is the library's own family. ValueError is what its codecs raise on purpose ("Buffer underrun", "Invalid
# value"), invalid UTF-8 included, and what its response parser catches. The parser catches struct.error beside it, so
# that is a refusal too, but only out of the protocol codecs and the encoders: the code that reads records never
# expects it.
REJECTIONS = (KafkaError, ValueError)

# What the codecs' own libraries document for damaged data; kafka-python lets them pass. lz4 has RuntimeError only.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, snappy.UncompressError, zstandard.ZstdError, RuntimeError)

FIXED = {
    "INT8": "int8",
    "INT16": "int16",
    "UINT16": "uint16",
    "INT32": "int32",
    "INT64": "int64",
    "FLOAT64": "float64",
    "BOOLEAN": "bool",
    "UUID": "uuid",
}
PLAIN = {
    "STRING": "string",
    "NULLABLE_STRING": "string",
    "BYTES": "bytes",
    "NULLABLE_BYTES": "bytes",
    "RECORDS": "records",
}
COMPACT = {
    "COMPACT_STRING": "string",
    "COMPACT_NULLABLE_STRING": "string",
    "COMPACT_BYTES": "bytes",
    "COMPACT_NULLABLE_BYTES": "bytes",
    "COMPACT_RECORDS": "records",
}
# Our name -> the schema type, and whether its compact form is asked for (one switch for an array and its elements).
FIELDS = (
    {name: (schema, False) for name, schema in (FIXED | PLAIN).items()}
    | {name: (schema, True) for name, schema in COMPACT.items()}
    | {f"ARRAY<{name}>": (f"[]{schema}", False) for name, schema in (FIXED | PLAIN).items()}
    | {f"COMPACT_ARRAY<{name}>": (f"[]{schema}", True) for name, schema in (FIXED | COMPACT).items()}
)
VARINTS = {"VARINT": VarInt32, "UNSIGNED_VARINT": UnsignedVarInt32}

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
BATCH_FIELDS = {
    "baseOffset": "base_offset",
    "partitionLeaderEpoch": "leader_epoch",
    "magic": "magic",
    "crc": "crc",
    "attributes": "attributes",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "first_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "recordCount": "records_count",
    "isTransactional": "is_transactional",
    "isControlBatch": "is_control_batch",
}


def describe() -> dict[str, object]:
    """Say what this target can do."""
    encodes = [*FIELDS, *VARINTS, "VARLONG", "RECORD_BATCH"]
    decodes = [*encodes, "TAGGED_FIELDS", "LOG", "CONTROL_RECORD"]
    return {
        "name": "kafka-python",
        "version": version("kafka-python"),
        "language": "python",
        "supports": {"decode": decodes, "encode": encodes, "size": ["VARINT", "VARLONG", "RECORD"]},
        "codecs": list(CODECS),
    }


def decode(type: str, data: bytes, **_: object) -> Any:
    """Decode one value, with the bytes consumed where the library tells."""
    if type in RECORD_READERS:
        return RECORD_READERS[type](data)
    try:
        return _decode_primitive(type, data)
    except (struct.error, ValueError) as error:
        raise Reject("malformed", str(error)) from error


def encode(type: str, value: Any, **_: object) -> bytes:
    """Encode one value."""
    try:
        return _encode(type, value)
    except (struct.error, ValueError) as error:  # struct.error is the only range check the fixed-size codecs have
        raise Reject("invalid-value", str(error)) from error


def size(type: str, value: Any, **_: object) -> int:
    """Return the encoded size by the library's own size functions."""
    if type in ("VARINT", "VARLONG"):
        return int(size_of_varint(int(value)))
    if type != "RECORD" or value["attributes"] != 0:
        raise Unsupported(f"no size of this {type}")
    deltas = value["offsetDelta"], int(value["timestampDelta"])
    content = _bytes(value["key"]), _bytes(value["value"]), _headers(value["headers"])
    return int(DefaultRecordBatchBuilder.size_in_bytes(*deltas, *content))


def _decode_primitive(type: str, data: bytes) -> tuple[Any, int]:
    if type == "VARLONG":
        return _decode_varlong(data)
    stream = io.BytesIO(data)
    if type == "TAGGED_FIELDS":
        tagged = TaggedFields([]).decode(stream)  # a tag that no field knows comes back under the name "_<tag>"
        return [{"tag": int(name[1:]), "data": content} for name, content in tagged.items()], stream.tell()
    if type in VARINTS:
        return VARINTS[type].decode(stream), stream.tell()
    field, compact = _field(type)
    return _shown(type, field.decode(stream, compact=compact)), stream.tell()


def _decode_varlong(data: bytes) -> tuple[int, int]:
    """Read with the varint of the record code, whose reader takes its IndexError for the end of the bytes."""
    try:
        value, end = decode_varint(data)
    except IndexError as error:
        raise Reject("malformed", str(error)) from error
    return value, end


def _encode(type: str, value: Any) -> bytes:
    if type == "RECORD_BATCH":
        return _encode_batch(value)
    if type == "VARLONG":
        out = bytearray()
        encode_varint(int(value), out.append)
        return bytes(out)
    if type in VARINTS:
        return bytes(VARINTS[type].encode(value))
    field, compact = _field(type)
    return bytes(field.encode(_given(type, value), compact=compact))


def _field(type: str) -> tuple[Any, bool]:
    """Build the library's field for a type, as its message definitions would."""
    if type not in FIELDS:
        raise Unsupported(f"no field type for {type}")
    schema, compact = FIELDS[type]
    return BaseField.parse_json({"name": "value", "type": schema, "versions": "0+"}), compact


def _given(type: str, value: Any) -> Any:
    """Turn the notation of a request into what the library takes."""
    if value is None:
        return None
    if "ARRAY<" in type:
        return [_given(type.partition("<")[2][:-1], item) for item in value]
    if type == "FLOAT64":
        return struct.unpack(">d", bytes.fromhex(value))[0]
    if type == "UUID":
        return uuid.UUID(value)
    if type == "INT64":
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _shown(type: str, value: Any) -> Any:
    """Turn what the library returns into the notation of an answer."""
    if value is None:
        return None
    if "ARRAY<" in type:
        return [_shown(type.partition("<")[2][:-1], item) for item in value]
    if type == "FLOAT64":
        return struct.pack(">d", value).hex()
    return str(value) if type == "UUID" else value


def _decode_batch(data: bytes) -> tuple[dict[str, Any], int]:
    batch = _next(MemoryRecords(data))
    if batch is None:
        raise Reject("malformed", "no complete batch")
    return _entry(batch), batch.size_in_bytes


def _decode_log(data: bytes) -> dict[str, Any]:
    records = MemoryRecords(data)
    batches = []
    while (batch := _next(records)) is not None:
        batches.append(_entry(batch))
    return {"batches": batches, "partial": records.size_in_bytes() - records.valid_bytes()}


def _decode_control_record(key: bytes) -> dict[str, int]:
    record = ControlRecord(len(key), 0, 0, 0, key, None, [])
    return {"version": record.version, "type": record.type}


RECORD_READERS: dict[str, Callable[[bytes], Any]] = {
    "RECORD_BATCH": _decode_batch,
    "LOG": _decode_log,
    "CONTROL_RECORD": _decode_control_record,
}


def _next(records: Any) -> Any:
    try:
        return records.next_batch()
    except CorruptRecordError as error:
        raise Reject("corrupt", str(error)) from error


def _entry(batch: Any) -> dict[str, Any]:
    """Show a batch, or the message of magic 0 or 1 that stands in its place, as the library's fetcher reads it."""
    try:
        if not batch.validate_crc():
            raise Reject("corrupt", "validate_crc() is False")
        return _batch(batch) if isinstance(batch, DefaultRecordBatch) else _message(batch)
    except CorruptRecordError as error:
        raise Reject("corrupt", str(error)) from error
    except UnsupportedCodecError as error:
        raise Reject("unsupported-codec", str(error)) from error
    except DAMAGED as error:
        raise Reject("malformed", f"{error.__class__.__name__}: {error}") from error


def _batch(batch: Any) -> dict[str, Any]:
    value = {name: getattr(batch, attribute) for name, attribute in BATCH_FIELDS.items()}
    value["batchLength"] = batch.size_in_bytes - DefaultRecordBatch.AFTER_LEN_OFFSET
    value["compression"] = _named(CODECS, batch.compression_type)
    value["timestampType"] = _named(TIMESTAMP_TYPES, batch.timestamp_type)
    value["records"] = [_record(record) for record in batch]
    return value


def _record(record: Any) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers]
    fields = {name: getattr(record, name) for name in ("offset", "timestamp", "key", "value")}
    return {**fields, "headers": headers}


def _message(batch: Any) -> dict[str, Any]:
    compression = _named(CODECS, batch.compression_type)
    messages = [_inner(record) for record in batch]
    return {"magic": batch.magic, "offset": batch.base_offset, "compression": compression, "messages": messages}


def _inner(record: Any) -> dict[str, Any]:
    if not record.validate_crc():
        raise Reject("corrupt", "validate_crc() is False")
    value = {name: getattr(record, name) for name in ("offset", "magic", "key", "value")}
    if record.timestamp_type is not None:
        value |= {"timestamp": record.timestamp, "timestampType": _named(TIMESTAMP_TYPES, record.timestamp_type)}
    return value


def _encode_batch(value: dict[str, Any]) -> bytes:
    if int(value["baseOffset"]) != 0 or value["isControlBatch"] or value["timestampType"] != "CreateTime":
        raise Unsupported("the builder takes no base offset, control batch or timestamp type")
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS.index(value["compression"]),
        is_transactional=value["isTransactional"],
        producer_id=int(value["producerId"]),
        producer_epoch=value["producerEpoch"],
        base_sequence=value["baseSequence"],
        batch_size=2**31 - 1,
    )
    for record in value["records"]:
        content = _bytes(record["key"]), _bytes(record["value"]), _headers(record["headers"])
        builder.append(int(record["offset"]), int(record["timestamp"]), *content)
    return bytes(builder.build())


def _headers(headers: list[dict[str, Any]]) -> list[tuple[str, bytes | None]]:
    if any(header["key"] is None for header in headers):
        raise Unsupported("a header key is a str")
    return [(header["key"], _bytes(header["value"])) for header in headers]


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _named(names: tuple[str, ...], number: int) -> str | int:
    """Name a number, or show it as it is where no name fits."""
    return names[number] if 0 <= number < len(names) else number
