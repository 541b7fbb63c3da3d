"""kio as a target: its serial readers and writers and its record batches; messages.py has its messages."""

import io
import struct
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "common"))  # notation.py

# If Hypothesis is installed, as with this suite, kio imports it to add strategies to its types. That takes longer than
# the import of all of kio, and a new process starts after every abort. So the adapter hides Hypothesis from kio.
sys.modules["hypothesis"] = None  # type: ignore[assignment]
# ruff: noqa: E402

import messages
from kio.records.readers import read_batch, read_record
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_batch, write_record
from kio.serial import readers, writers
from kio.serial.errors import SerialError
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64, u16, u32, uvarint
from notation import TIMESTAMP_TYPES, each, float_bits, float_from_bits, from_hex

from conformance import Reject, Unsupported

VERSION = version("kio")  # read once, before processes are forked, because it needs a file

# SerialError is the library's base class. Its readers also raise ValueError on purpose: "Varint is too long", "Invalid
# boolean value", and for all checks of records and batches.
REJECTIONS = (SerialError, ValueError)

# A TypeError is a rejection only if kio raises it on purpose: for a value outside a phantom type (TZAwareMicros accepts
# no negative timestamp by its docstring), and for None in a field that is not nullable.
DELIBERATE = ("Could not parse ", "Unexpectedly received None")

# Our name -> reader, writer, and the phantom type in the writer's signature, if any.
Row = tuple[Callable[..., Any], Callable[..., None], Callable[[Any], Any]]
TYPES: dict[str, Row] = {
    "INT8": (readers.read_int8, writers.write_int8, i8),
    "INT16": (readers.read_int16, writers.write_int16, i16),
    "INT32": (readers.read_int32, writers.write_int32, i32),
    "INT64": (readers.read_int64, writers.write_int64, lambda value: i64(int(value))),
    "UINT16": (readers.read_uint16, writers.write_uint16, u16),
    "UINT32": (readers.read_uint32, writers.write_uint32, u32),
    "VARINT": (readers.read_signed_varint, writers.write_signed_varint, int),
    "VARLONG": (readers.read_signed_varlong, writers.write_signed_varlong, int),
    "UNSIGNED_VARINT": (readers.read_unsigned_varint, writers.write_unsigned_varint, uvarint),
    "FLOAT64": (readers.read_float64, writers.write_float64, float_from_bits),
    "UUID": (readers.read_uuid, writers.write_uuid, uuid.UUID),
    "BOOLEAN": (readers.read_boolean, writers.write_boolean, bool),
    "STRING": (readers.read_legacy_string, writers.write_legacy_string, str),
    "NULLABLE_STRING": (readers.read_nullable_legacy_string, writers.write_nullable_legacy_string, str),
    "COMPACT_STRING": (readers.read_compact_string, writers.write_compact_string, str),
    "COMPACT_NULLABLE_STRING": (readers.read_compact_string_nullable, writers.write_nullable_compact_string, str),
    "BYTES": (readers.read_legacy_bytes, writers.write_legacy_bytes, bytes.fromhex),
    "NULLABLE_BYTES": (readers.read_nullable_legacy_bytes, writers.write_nullable_legacy_bytes, bytes.fromhex),
    "COMPACT_BYTES": (readers.read_compact_string_as_bytes, writers.write_compact_string, bytes.fromhex),
    "COMPACT_NULLABLE_BYTES": (
        readers.read_compact_string_as_bytes_nullable,
        writers.write_nullable_compact_string,
        bytes.fromhex,
    ),
}
# Records are nullable bytes, as declared in Kafka's messages.
TYPES |= {"RECORDS": TYPES["NULLABLE_BYTES"], "COMPACT_RECORDS": TYPES["COMPACT_NULLABLE_BYTES"]}
Array = tuple[Callable[..., Callable[..., Any]], Callable[..., Callable[..., None]]]
ARRAYS: dict[str, Array] = {
    "ARRAY": (readers.legacy_array_reader, writers.legacy_array_writer),
    "COMPACT_ARRAY": (readers.compact_array_reader, writers.compact_array_writer),
}

BATCH_FIELDS = {
    "baseOffset": "base_offset",
    "batchLength": "batch_length",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "magic": "magic",
    "crc": "crc",
    "attributes": "attributes",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "base_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# A single record has this base timestamp (in 2001), so that its delta may be negative.
BASE_TIMESTAMP = 10**12


def describe() -> dict[str, object]:
    """Return the supported operations."""
    types = [*TYPES, *ARRAYS, "RECORD", "RECORD_BATCH", "MESSAGE"]
    return {
        "name": "kio",
        "version": VERSION,
        "language": "python",
        "supports": {"decode": types, "encode": types, "size": []},
        "codecs": ["none"],
        "surrogates": True,
        "messages": messages.VERSIONS,
        "via": _via(),
    }


def _via() -> dict[str, str]:
    """Return the judged calls. kio has no connection: applications call its readers and writers."""
    via = {"decode MESSAGE": "public: kio.serial.entity_reader", "encode MESSAGE": "public: kio.serial.entity_writer"}
    for name, (reader, writer, *_) in {**TYPES, **ARRAYS}.items():
        via[f"decode {name}"] = f"public: kio.serial.readers.{reader.__name__}"
        via[f"encode {name}"] = f"public: kio.serial.writers.{writer.__name__}"
    via["decode RECORD"] = "internal: kio.records.readers.read_batch > read_record"
    via["encode RECORD"] = "internal: kio.records.writers.write_batch > write_record"
    via["decode RECORD_BATCH"] = "public: kio.records.readers.read_batch"
    via["encode RECORD_BATCH"] = "public: kio.records.writers.write_batch"
    return via


def decode(type: str, data: bytes, **parameters: Any) -> tuple[Any, int]:
    """Decode one value; return it with its size."""
    reader = messages.reader(**_which(parameters)) if type == "MESSAGE" else _reader(type)
    try:
        value, consumed = _deliberately("malformed", lambda: reader(data, 0))
    except REJECTIONS as error:
        raise Reject("corrupt" if str(error).startswith("Checksum mismatch") else "malformed", str(error)) from error
    return messages.shown(value) if type == "MESSAGE" else each(_shown, type, value), consumed


def encode(type: str, value: Any, **parameters: Any) -> bytes:
    """Encode one value."""
    buffer = io.BytesIO()
    if type == "MESSAGE":
        which = _which(parameters)
        writer, give = messages.writer(**which), partial(messages.given, **which)
    else:
        writer, give = _writer(type), partial(each, _given, type)
    given = _deliberately("invalid-value", lambda: give(value=value))
    try:
        _deliberately("invalid-value", lambda: writer(buffer, given))
    except struct.error as error:  # the writers only call struct.pack, which raises it for a number out of range
        raise Reject("invalid-value", str(error)) from error
    except AttributeError as error:
        if type != "MESSAGE" or error.obj is not None:
            raise
        # Null in a field that is not nullable should be any "runtime error", as in Apache Kafka's own classes.
        raise Reject("invalid-value", f"null in a field that is not nullable: {error}") from error
    return buffer.getvalue()


def _which(parameters: dict[str, Any]) -> dict[str, Any]:
    return {"message": parameters["message"], "version": parameters["version"]}


def _deliberately(error_class: str, call: Callable[[], Any]) -> Any:
    """Return True for a TypeError that kio raises on purpose."""
    try:
        return call()
    except TypeError as error:
        if not str(error).startswith(DELIBERATE):
            raise
        raise Reject(error_class, str(error)) from error


def _reader(type: str) -> Callable[..., Any]:
    """Return the library's reader, with composed arrays."""
    outer, _, element = type.partition("<")
    if outer in ARRAYS and element:
        return ARRAYS[outer][0](_reader(element[:-1]))
    return RECORD_CODECS[type][0] if type in RECORD_CODECS else _row(type)[0]


def _writer(type: str) -> Callable[..., None]:
    """Return the library's writer, with composed arrays."""
    outer, _, element = type.partition("<")
    if outer in ARRAYS and element:
        return ARRAYS[outer][1](_writer(element[:-1]))
    return RECORD_CODECS[type][1] if type in RECORD_CODECS else _row(type)[1]


def _row(type: str) -> Row:
    if type not in TYPES:
        raise Unsupported(f"no reader or writer for {type}")
    return TYPES[type]


def _given(type: str, value: Any) -> Any:
    """Convert the notation of a request to an argument of the library."""
    if type == "RECORD_BATCH":
        return _given_batch(value)
    if type == "RECORD":
        if value["offsetDelta"] not in range(-(1 << 31), 1 << 31):
            raise Unsupported("write_batch refuses an offset that far from the first before write_record is called")
        timestamp = BASE_TIMESTAMP + int(value["timestampDelta"])
        return _given_record(value["attributes"], value["offsetDelta"], timestamp, value)
    return _row(type)[2](value)


def _given_batch(value: dict[str, Any]) -> NewRecordBatch:
    if value["compression"] != "none":
        raise Unsupported("kio does not compress")
    return NewRecordBatch(
        producer_id=i64(int(value["producerId"])),
        producer_epoch=i16(value["producerEpoch"]),
        partition_leader_epoch=i32(value["partitionLeaderEpoch"]),
        base_sequence=i32(value["baseSequence"]),
        attributes=i16(
            TIMESTAMP_TYPES.index(value["timestampType"]) << 3
            | value["isTransactional"] << 4
            | value["isControlBatch"] << 5
        ),
        records=tuple(_given_record(0, int(item["offset"]), int(item["timestamp"]), item) for item in value["records"]),
    )


def _given_record(attributes: int, offset: int, timestamp: int, content: dict[str, Any]) -> Record:
    return Record(
        attributes=i8(attributes),
        timestamp=_instant(timestamp),
        offset=i64(offset),
        key=from_hex(content["key"]),
        value=from_hex(content["value"]),
        headers=tuple(_given_header(header) for header in content["headers"]),
    )


def _given_header(header: dict[str, Any]) -> RecordHeader:
    key = None if header["key"] is None else header["key"].encode()
    return RecordHeader(key=key, value=from_hex(header["value"]))


def _instant(timestamp: int) -> TZAwareMicros:
    """Return the exact instant of a timestamp. Raises Unsupported if the library's type cannot represent it."""
    try:
        return TZAwareMicros.parse(EPOCH + timestamp * MILLISECOND)
    except (OverflowError, TypeError) as error:
        raise Unsupported(f"a timestamp is a datetime from 1970 on: {error}") from error


def _shown(type: str, value: Any) -> Any:
    """Convert a result of the library to the notation of an answer."""
    if type == "RECORD_BATCH":
        return _shown_batch(value)
    if type == "RECORD":
        return {"attributes": value.attributes, "offsetDelta": value.offset, **_shown_content(value)}
    if type == "FLOAT64":
        return float_bits(value)
    return str(value) if type in ("UUID", "INT64", "VARLONG") else value


def _shown_batch(batch: Any) -> dict[str, Any]:
    value = {name: getattr(batch, attribute) for name, attribute in BATCH_FIELDS.items()}
    return {**value, "records": [_shown_record(record) for record in batch.records]}


def _shown_record(record: Any) -> dict[str, Any]:
    timestamp = (record.timestamp - EPOCH) // MILLISECOND
    return {"attributes": record.attributes, "offset": record.offset, "timestamp": timestamp, **_shown_content(record)}


def _shown_content(record: Any) -> dict[str, Any]:
    return {"key": record.key, "value": record.value, "headers": [_shown_header(header) for header in record.headers]}


def _shown_header(header: Any) -> dict[str, Any]:
    key = None if header.key is None else header.key.decode(errors="replace")
    return {"key": key, "value": header.value}


def _read_record(data: bytes, offset: int) -> tuple[Record, int]:
    return read_record(data, base_timestamp=i64(BASE_TIMESTAMP), base_offset=i64(0), offset=offset)


RECORD_CODECS: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "RECORD": (_read_record, partial(write_record, base_timestamp=i64(BASE_TIMESTAMP), base_offset=i64(0))),
    "RECORD_BATCH": (read_batch, write_batch),
}
