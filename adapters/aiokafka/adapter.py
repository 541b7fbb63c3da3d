"""aiokafka as a target: its protocol types, varints and record batches, in C or, as aiokafka-pure, in Python."""

import gzip
import io
import struct
import zlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import cramjam
from aiokafka.errors import CorruptRecordException, KafkaError, UnsupportedCodecError
from aiokafka.protocol import types
from aiokafka.record.control_record import ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint, decode_varint_py, encode_varint, size_of_varint

from conformance import Reject, Unsupported

# KafkaError is the library's own family. ValueError is what the protocol types raise on purpose ("Buffer underrun",
# "Invalid value", invalid UTF-8 too): their _pack and _unpack turn struct.error into it. So a struct.error that reaches
# us anyway is one the library did not mean to raise.
REJECTIONS = (KafkaError, ValueError)

# What the codecs' own libraries document for damaged data; aiokafka lets them pass.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, cramjam.DecompressionError)

STRING = types.String()
COMPACT_STRING = types.CompactString()
TYPES: dict[str, Any] = {
    "INT8": types.Int8,
    "INT16": types.Int16,
    "INT32": types.Int32,
    "INT64": types.Int64,
    "UINT32": types.UInt32,
    "FLOAT64": types.Float64,
    "BOOLEAN": types.Boolean,
    "VARINT": types.VarInt32,
    "UNSIGNED_VARINT": types.UnsignedVarInt32,
    "STRING": STRING,
    "NULLABLE_STRING": STRING,
    "COMPACT_STRING": COMPACT_STRING,
    "COMPACT_NULLABLE_STRING": COMPACT_STRING,
    "BYTES": types.Bytes,
    "NULLABLE_BYTES": types.Bytes,
    "COMPACT_BYTES": types.CompactBytes,
    "COMPACT_NULLABLE_BYTES": types.CompactBytes,
    "RECORDS": types.Bytes,
    "COMPACT_RECORDS": types.CompactBytes,
    "TAGGED_FIELDS": types.TaggedFields,
}
# An array needs a type as its element; alone, VARLONG is the varint of the record code, in C or Python.
ELEMENTS = TYPES | {"VARLONG": types.VarInt64}
ARRAYS: dict[str, Any] = {"ARRAY": types.Array, "COMPACT_ARRAY": types.CompactArray}

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
BATCH_FIELDS = {
    "baseOffset": "base_offset",
    "magic": "magic",
    "crc": "crc",
    "attributes": "attributes",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "first_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "isTransactional": "is_transactional",
    "isControlBatch": "is_control_batch",
}


def describe() -> dict[str, object]:
    """Say what this target can do, under the name of the implementation that is really loaded."""
    encodes = [*TYPES, *ARRAYS, "VARLONG", "RECORD_BATCH"]
    return {
        "name": "aiokafka-pure" if decode_varint is decode_varint_py else "aiokafka",
        "version": version("aiokafka"),
        "language": "python",
        "supports": {
            "decode": [*encodes, "LOG", "CONTROL_RECORD"],
            "encode": encodes,
            "size": ["VARINT", "VARLONG", "RECORD"],
        },
        "codecs": list(CODECS),
    }


def decode(type: str, data: bytes, **_: object) -> Any:
    """Decode one value, with the bytes consumed where the library tells."""
    if type in RECORD_READERS:
        return RECORD_READERS[type](data)
    try:
        return _decode_varlong(data) if type == "VARLONG" else _decode_type(type, data)
    except ValueError as error:
        raise Reject("malformed", str(error)) from error


def encode(type: str, value: Any, **_: object) -> bytes:
    """Encode one value."""
    try:
        return _encode(type, value)
    except (ValueError, OverflowError, struct.error, AssertionError) as error:
        # The C code refuses a number beyond its C type with OverflowError, the Python code with struct.error; what a
        # caller may hand over is guarded by asserts with a message, which are refusals, if crude ones.
        raise Reject("invalid-value", str(error)) from error


def size(type: str, value: Any, **_: object) -> int:
    """Return the encoded size by the library's own size functions."""
    if type in ("VARINT", "VARLONG"):
        return int(size_of_varint(int(value)))
    if type != "RECORD" or value["attributes"] != 0:
        raise Unsupported(f"no size of this {type}")
    builder = _builder(compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    builder.append(0, 0, None, None, [])  # so that the record's timestamp counts from 0 and is the delta
    return int(builder.size_in_bytes(value["offsetDelta"], int(value["timestampDelta"]), *_content(value)))


def _codec(type: str) -> Any:
    """Find the library's type, composing its arrays."""
    outer, _, element = type.partition("<")
    if outer in ARRAYS and element:
        return ARRAYS[outer](_codec(element[:-1]))
    if type not in ELEMENTS:
        raise Unsupported(f"no type for {type}")
    return ELEMENTS[type]


def _decode_type(type: str, data: bytes) -> tuple[Any, int]:
    stream = io.BytesIO(data)
    value = _codec(type).decode(stream)
    return _shown(type, value), stream.tell()


def _decode_varlong(data: bytes) -> tuple[int, int]:
    """Read with the varint of the record code, whose Python reader takes its IndexError for the end of the bytes."""
    try:
        value, end = decode_varint(bytearray(data), 0)
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
    return bytes(_codec(type).encode(_given(type, value)))


def _given(type: str, value: Any) -> Any:
    """Turn the notation of a request into what the library takes."""
    if value is None:
        return None
    if "ARRAY<" in type:
        return [_given(type.partition("<")[2][:-1], item) for item in value]
    if type == "TAGGED_FIELDS":
        return _tags(value)
    if type == "FLOAT64":
        return struct.unpack(">d", bytes.fromhex(value))[0]
    if type in ("INT64", "VARLONG"):
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _tags(fields: list[dict[str, Any]]) -> dict[int, bytes]:
    tags = {field["tag"]: bytes.fromhex(field["data"]) for field in fields}
    if len(tags) < len(fields):
        raise Unsupported("tagged fields are a dict, which holds a tag once")
    return tags


def _shown(type: str, value: Any) -> Any:
    """Turn what the library returns into the notation of an answer."""
    if value is None:
        return None
    if "ARRAY<" in type:
        return [_shown(type.partition("<")[2][:-1], item) for item in value]
    if type == "TAGGED_FIELDS":
        return [{"tag": tag, "data": content} for tag, content in value.items()]
    return struct.pack(">d", value).hex() if type == "FLOAT64" else value


def _decode_batch(data: bytes) -> dict[str, Any]:
    batch = _next(MemoryRecords(data))
    if batch is None:
        raise Reject("malformed", "no complete batch")
    return _entry(batch)


def _decode_log(data: bytes) -> dict[str, Any]:
    records = MemoryRecords(data)
    batches = []
    while (batch := _next(records)) is not None:
        batches.append(_entry(batch))
    return {"batches": batches}


def _decode_control_record(key: bytes) -> dict[str, int]:
    record = ControlRecord.parse(key)
    return {"version": record.version, "type": record.type_}


RECORD_READERS: dict[str, Callable[[bytes], Any]] = {
    "RECORD_BATCH": _decode_batch,
    "LOG": _decode_log,
    "CONTROL_RECORD": _decode_control_record,
}


def _next(records: Any) -> Any:
    """Take the next batch as the library's fetcher does: has_next() first."""
    try:
        return records.next_batch() if records.has_next() else None
    except CorruptRecordException as error:
        raise Reject("corrupt", str(error)) from error


def _entry(batch: Any) -> dict[str, Any]:
    """Show a batch, or the message of magic 0 or 1 that stands in its place, as the library's fetcher reads it."""
    try:
        if not batch.validate_crc():
            raise Reject("corrupt", "validate_crc() is False")
        return _batch(batch) if isinstance(batch, DefaultRecordBatch) else _message(batch)
    except CorruptRecordException as error:
        raise Reject("corrupt", str(error)) from error
    except UnsupportedCodecError as error:
        raise Reject("unsupported-codec", str(error)) from error
    except DAMAGED as error:
        raise Reject("malformed", f"{error.__class__.__name__}: {error}") from error


def _batch(batch: Any) -> dict[str, Any]:
    value = {name: getattr(batch, attribute) for name, attribute in BATCH_FIELDS.items()}
    value["compression"] = _named(CODECS, batch.compression_type)
    value["timestampType"] = _named(TIMESTAMP_TYPES, batch.timestamp_type)
    value["records"] = [_record(record) for record in batch]
    return value


def _record(record: Any) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers]
    fields = {name: getattr(record, name) for name in ("offset", "timestamp", "key", "value")}
    return {**fields, "headers": headers}


def _message(batch: Any) -> dict[str, Any]:
    """Show a message of magic 0 or 1; its own offset and codec are not public."""
    return {"messages": [_inner(record) for record in batch]}


def _inner(record: Any) -> dict[str, Any]:
    value = {name: getattr(record, name) for name in ("offset", "key", "value")}
    if record.timestamp_type is not None:
        value |= {"timestamp": record.timestamp, "timestampType": _named(TIMESTAMP_TYPES, record.timestamp_type)}
    return value


def _encode_batch(value: dict[str, Any]) -> bytes:
    if int(value["baseOffset"]) != 0 or value["isControlBatch"] or value["timestampType"] != "CreateTime":
        raise Unsupported("the builder takes no base offset, control batch or timestamp type")
    builder = _builder(
        compression_type=CODECS.index(value["compression"]),
        is_transactional=int(value["isTransactional"]),
        producer_id=int(value["producerId"]),
        producer_epoch=value["producerEpoch"],
        base_sequence=value["baseSequence"],
    )
    for record in value["records"]:
        builder.append(int(record["offset"]), int(record["timestamp"]), *_content(record))
    return bytes(builder.build())


def _builder(**fields: int) -> Any:
    return DefaultRecordBatchBuilder(magic=2, batch_size=2**31 - 1, **fields)


def _content(record: dict[str, Any]) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    if any(header["key"] is None for header in record["headers"]):
        raise Unsupported("a header key is a str")
    headers = [(header["key"], _bytes(header["value"])) for header in record["headers"]]
    return _bytes(record["key"]), _bytes(record["value"]), headers


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _named(names: tuple[str, ...], number: int) -> str | int:
    """Name a number, or show it as it is where no name fits."""
    return names[number] if 0 <= number < len(names) else number
