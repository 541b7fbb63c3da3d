"""aiokafka as a target: its protocol types and varints; messages.py has its messages, record_sets.py its records."""

import io
import struct
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "common"))  # notation.py, kafka_python_records.py

import messages
import record_sets
from aiokafka.errors import KafkaError
from aiokafka.protocol import types
from aiokafka.record.util import decode_varint, decode_varint_py, encode_varint, size_of_varint
from notation import CODECS, each, float_bits, float_from_bits

from conformance import Reject, Unsupported

# KafkaError is the library's own family. ValueError is what the protocol types raise on purpose ("Buffer underrun",
# "Invalid value", invalid UTF-8 too): their _pack and _unpack turn struct.error into it. So a struct.error that reaches
# us anyway is one the library did not mean to raise.
REJECTIONS = (KafkaError, ValueError)

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

read = record_sets.read


def describe() -> dict[str, object]:
    """Say what this target can do, under the name of the implementation that is really loaded."""
    both = [*TYPES, *ARRAYS, "VARLONG", "MESSAGE"]
    return {
        "name": "aiokafka-pure" if decode_varint is decode_varint_py else "aiokafka",
        "version": version("aiokafka"),
        "language": "python",
        "supports": {
            "decode": [*both, *record_sets.READERS],
            "encode": [*both, *record_sets.WRITERS],
            "size": ["VARINT", "VARLONG", *record_sets.SIZES],
            "read": True,
        },
        "codecs": list(CODECS),
        "magics": [0, 1, 2],
        "messages": messages.VERSIONS,
        "via": {"decode MESSAGE<RequestHeader>": "unused: a client reads no request header"},
    }


def decode(type: str, data: bytes, **parameters: Any) -> Any:
    """Decode one value, with the bytes consumed where the library tells."""
    if type in record_sets.READERS:
        return record_sets.READERS[type](data)
    try:
        if type == "MESSAGE":
            return messages.decode(data, parameters["message"], parameters["version"])
        return _decode_varlong(data) if type == "VARLONG" else _decode_type(type, data)
    except ValueError as error:
        raise Reject("malformed", str(error)) from error


def encode(type: str, value: Any, **parameters: Any) -> bytes:
    """Encode one value."""
    try:
        if type in record_sets.WRITERS:
            return record_sets.WRITERS[type](value, **parameters)
        if type == "MESSAGE":
            return messages.encode(value, parameters["message"], parameters["version"])
        return _encode_primitive(type, value)
    except (ValueError, OverflowError, struct.error, AssertionError) as error:
        # The C code refuses a number beyond its C type with OverflowError, the Python code with struct.error; what a
        # caller may hand over is guarded by asserts with a message, which are refusals, if crude ones.
        raise Reject("invalid-value", str(error)) from error


def size(type: str, value: Any, **parameters: Any) -> int:
    """Return the encoded size by the library's own size functions."""
    if type in record_sets.SIZES:
        return record_sets.SIZES[type](value, **parameters)
    if type not in ("VARINT", "VARLONG"):
        raise Unsupported(f"no size of {type}")
    return int(size_of_varint(int(value)))


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
    return each(_shown, type, value), stream.tell()


def _decode_varlong(data: bytes) -> tuple[int, int]:
    """Read with the varint of the record code, whose Python reader takes its IndexError for the end of the bytes."""
    try:
        value, end = decode_varint(bytearray(data), 0)
    except IndexError as error:
        raise Reject("malformed", str(error)) from error
    return value, end


def _encode_primitive(type: str, value: Any) -> bytes:
    if type == "VARLONG":
        out = bytearray()
        encode_varint(int(value), out.append)
        return bytes(out)
    return bytes(_codec(type).encode(each(_given, type, value)))


def _given(type: str, value: Any) -> Any:
    """Turn the notation of a request into what the library takes."""
    if type == "TAGGED_FIELDS":
        return _tags(value)
    if type == "FLOAT64":
        return float_from_bits(value)
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
    if type == "TAGGED_FIELDS":
        return [{"tag": tag, "data": content} for tag, content in value.items()]
    return float_bits(value) if type == "FLOAT64" else value
