"""aiokafka as a target: the types of its messages; messages.py has the messages, record_sets.py the records.

Only what the library's own requests and responses run through is judged: it has types that nothing uses.
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

VERSION = version("aiokafka")  # once, before processes are forked: a file is read and parsed for it

# KafkaError is the library's own family. ValueError is what the protocol types raise on purpose ("Buffer underrun",
# "Invalid value", invalid UTF-8 too): their _pack and _unpack turn struct.error into it.
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
# The library writes lengths and counts only, and no tagged field: what a caller could give it otherwise is not asked.
ONLY_READ: dict[str, Any] = {"UNSIGNED_VARINT": types.UnsignedVarInt32, "TAGGED_FIELDS": types.TaggedFields}

READ = "internal: AIOKafkaConnection > Response.decode"
WRITTEN = "internal: AIOKafkaConnection.send > Struct.encode"
# Of the flexible messages the library sends one, DeleteRecordsRequest 2.
COMPACT_READ = "internal: AIOKafkaConnection > DeleteRecordsResponse.decode"
COMPACT_WRITTEN = "internal: AIOKafkaAdminClient.delete_records > DeleteRecordsRequest.encode"


def _doors(plain: str, compact: str) -> dict[str, str]:
    doors = {name: f"{compact if name.startswith('COMPACT_') else plain} > {_codec_name(name)}" for name in TYPES}
    return doors | {"ARRAY": f"{plain} > Array", "COMPACT_ARRAY": f"{compact} > CompactArray", "MESSAGE": plain}


def _codec_name(type: str) -> str:
    codec = TYPES[type]
    return str(getattr(codec, "__name__", codec.__class__.__name__))


DOORS: dict[str, dict[str, str]] = {
    "decode": {
        **_doors(READ, COMPACT_READ),
        "UNSIGNED_VARINT": f"{COMPACT_READ} > UnsignedVarInt32",
        "TAGGED_FIELDS": f"{COMPACT_READ} > TaggedFields",
        **record_sets.DOORS["decode"],
    },
    "encode": {**_doors(WRITTEN, COMPACT_WRITTEN), **record_sets.DOORS["encode"]},
}

read = record_sets.read


def describe() -> dict[str, object]:
    """Say what this target can do and by which of its calls, under the name of the implementation that is loaded."""
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
    """Decode one value, with the bytes consumed where the library tells."""
    if type in record_sets.READERS:
        return record_sets.READERS[type](data)
    try:
        if type == "MESSAGE":
            return messages.decode(data, parameters["message"], parameters["version"])
        return _decode_type(type, data)
    except (ValueError, struct.error) as error:  # to an application either is the cause of a KafkaConnectionError
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
        # The C code refuses a number beyond its C type with OverflowError, the Python code with struct.error; an
        # assertion answers a caller's mistake.
        raise Reject("invalid-value", str(error)) from error


def _codec(type: str) -> Any:
    """Find the library's type, composing its arrays."""
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
    """Turn the notation of a request into what the library takes."""
    if type == "INT64":
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _shown(type: str, value: Any) -> Any:
    """Turn what the library returns into the notation of an answer."""
    if type == "TAGGED_FIELDS":
        return [{"tag": tag, "data": content} for tag, content in value.items()]
    return str(value) if type == "INT64" else value
