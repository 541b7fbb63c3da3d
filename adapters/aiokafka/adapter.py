"""aiokafka as a target: the types of its messages; messages.py has the messages, record_sets.py the records.

Only types on the path of the library's own requests and responses are judged; it has unused types too.
"""

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
from aiokafka.record.util import decode_varint, decode_varint_py
from notation import CODECS, each, unused_by_a_client, vias

from conformance import Reject, Unsupported

VERSION = version("aiokafka")  # read once, before processes are forked, because it needs a file

# KafkaError is the library's base class. The protocol types raise ValueError on purpose ("Buffer underrun", "Invalid
# value", also for invalid UTF-8): their _pack and _unpack convert struct.error to it.
REJECTIONS = (KafkaError, ValueError)

STRING = types.String()
COMPACT_STRING = types.CompactString()
TYPES: dict[str, Any] = {
    "INT8": types.Int8,
    "INT16": types.Int16,
    "INT32": types.Int32,
    "INT64": types.Int64,
    "BOOLEAN": types.Boolean,
    "STRING": STRING,
    "NULLABLE_STRING": STRING,
    "COMPACT_STRING": COMPACT_STRING,
    "BYTES": types.Bytes,
    "NULLABLE_BYTES": types.Bytes,
    "RECORDS": types.Bytes,
}
ARRAYS: dict[str, Any] = {"ARRAY": types.Array, "COMPACT_ARRAY": types.CompactArray}
# The library only writes lengths and counts, and no tagged field, so requests contain no other values.
ONLY_READ: dict[str, Any] = {"UNSIGNED_VARINT": types.UnsignedVarInt32, "TAGGED_FIELDS": types.TaggedFields}

READ = "internal: AIOKafkaConnection > Response.decode"
WRITTEN = "internal: AIOKafkaConnection.send > Struct.encode"
# The library sends only one flexible message, DeleteRecordsRequest 2.
COMPACT_READ = "internal: AIOKafkaConnection > DeleteRecordsResponse.decode"
COMPACT_WRITTEN = "internal: AIOKafkaAdminClient.delete_records > DeleteRecordsRequest.encode"


def _entry_points(plain: str, compact: str) -> dict[str, str]:
    doors = {name: f"{compact if name.startswith('COMPACT_') else plain} > {_codec_name(name)}" for name in TYPES}
    return doors | {"ARRAY": f"{plain} > Array", "COMPACT_ARRAY": f"{compact} > CompactArray", "MESSAGE": plain}


def _codec_name(type: str) -> str:
    codec = TYPES[type]
    return str(getattr(codec, "__name__", codec.__class__.__name__))


DOORS: dict[str, dict[str, str]] = {
    "decode": {
        **_entry_points(READ, COMPACT_READ),
        "UNSIGNED_VARINT": f"{COMPACT_READ} > UnsignedVarInt32",
        "TAGGED_FIELDS": f"{COMPACT_READ} > TaggedFields",
        **record_sets.DOORS["decode"],
    },
    "encode": {**_entry_points(WRITTEN, COMPACT_WRITTEN), **record_sets.DOORS["encode"]},
}

read = record_sets.read


def describe() -> dict[str, object]:
    """Return the supported operations and the judged calls, under the name of the loaded implementation."""
    return {
        "name": "aiokafka-pure" if decode_varint is decode_varint_py else "aiokafka",
        "version": VERSION,
        "language": "python",
        "supports": {**{operation: list(doors) for operation, doors in DOORS.items()}, "read": True},
        "via": {
            **vias(DOORS),
            **unused_by_a_client(messages.VERSIONS),
            "read": "internal: AIOKafkaConsumer.getone > PartitionRecords",
        },
        "codecs": list(CODECS),
        "magics": [0, 1, 2],
        "surrogates": True,
        "messages": messages.VERSIONS,
    }


def decode(type: str, data: bytes, **parameters: Any) -> Any:
    """Decode one value; return it with the number of consumed bytes, if the library reports it."""
    if type in record_sets.READERS:
        return record_sets.READERS[type](data)
    try:
        if type == "MESSAGE":
            return messages.decode(data, parameters["message"], parameters["version"])
        return _decode_type(type, data)
    except (ValueError, struct.error) as error:  # both become the cause of a KafkaConnectionError
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
        # For a number out of range the C code raises OverflowError and the Python code struct.error; assertions check
        # arguments.
        raise Reject("invalid-value", str(error)) from error


def _codec(type: str) -> Any:
    """Return the library's type, with composed arrays."""
    outer, _, element = type.partition("<")
    if outer in ARRAYS and element:
        return ARRAYS[outer](_codec(element[:-1]))
    if type not in TYPES:
        raise Unsupported(f"no message has {type} here")
    return TYPES[type]


def _decode_type(type: str, data: bytes) -> tuple[Any, int]:
    stream = io.BytesIO(data)
    value = (ONLY_READ.get(type) or _codec(type)).decode(stream)
    return each(_shown, type, value), stream.tell()


def _encode_primitive(type: str, value: Any) -> bytes:
    return bytes(_codec(type).encode(each(_given, type, value)))


def _given(type: str, value: Any) -> Any:
    """Convert the notation of a request to an argument of the library."""
    if type == "INT64":
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _shown(type: str, value: Any) -> Any:
    """Convert a result of the library to the notation of an answer."""
    if type == "TAGGED_FIELDS":
        return [{"tag": tag, "data": content} for tag, content in value.items()]
    return str(value) if type == "INT64" else value
