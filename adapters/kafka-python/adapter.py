"""kafka-python 3 as a target: the types of its messages; messages.py and record_sets.py have the rest.

A type is judged as the only field of a message, with the functions that the library compiles from a definition to read
responses and to write requests. The varints of records are judged with the records.
"""

import struct
import sys
import uuid
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "common"))  # notation.py, kafka_python_records.py

import messages
import record_sets
from kafka.errors import KafkaError
from kafka.protocol.schemas import StructField
from kafka.protocol.schemas.fields.codecs.encode_buffer import EncodeBuffer
from kafka.protocol.schemas.fields.codecs.types import UUID, UnsignedVarInt32
from kafka.protocol.schemas.fields.codegen import CodegenContext
from notation import CODECS, each, unused_by_a_client, vias

from conformance import Reject, Unsupported

VERSION = version("kafka-python")  # read once, before processes are forked, because it needs a file

# KafkaError is the library's base class. Its codecs raise ValueError on purpose ("Buffer underrun", "Invalid value",
# also for invalid UTF-8), and its response parser catches it. The parser also catches struct.error, so that is a
# rejection too, but only from a message's body and the encoders: the code that reads records does not expect it.
# IndexError is not caught: it ends the task that reads the connection, and the request never completes.
REJECTIONS = (KafkaError, ValueError)

FIXED = {
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
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
ARRAYS = {
    "ARRAY<INT32>": "[]int32",
    "ARRAY<STRING>": "[]string",
    "COMPACT_ARRAY<INT32>": "[]int32",
    "COMPACT_ARRAY<COMPACT_STRING>": "[]string",
}
ONLY_WRITTEN = {"COMPACT_ARRAY<INT8>": "[]int8", "COMPACT_ARRAY<INT64>": "[]int64"}
ONLY_READ = {"UINT16": "uint16"}
# Our name -> the schema type. One switch for a whole message selects compact forms.
FIELDS = (
    FIXED | PLAIN | COMPACT | ARRAYS | ONLY_WRITTEN | ONLY_READ | {"TAGGED_FIELDS": "int8"}
)  # absent in the requested version

READ = "internal: KafkaProtocol.receive_bytes > ApiMessage.decode > compiled_decode_from"
WRITTEN = "internal: KafkaProtocol.send_request > ApiMessage.encode > compiled_encode_into"
DOORS: dict[str, dict[str, str]] = {
    "decode": {
        **dict.fromkeys([*FIXED, *PLAIN, *COMPACT, *ARRAYS, *ONLY_READ], READ),
        "MESSAGE": f"{READ}; headers and the consumer protocol: StructField.decode",
        "UNSIGNED_VARINT": f"{READ} > UnsignedVarInt32.emit_decode_from",
        "TAGGED_FIELDS": f"{READ} > TaggedFields.decode",
        **record_sets.DOORS["decode"],
    },
    "encode": {
        **dict.fromkeys([*FIXED, *PLAIN, *COMPACT, *ARRAYS, *ONLY_WRITTEN], WRITTEN),
        "MESSAGE": f"{WRITTEN}; headers and the consumer protocol: StructField.encode",
        **record_sets.DOORS["encode"],
    },
    "size": record_sets.DOORS["size"],
}

read = record_sets.read


def describe() -> dict[str, object]:
    """Return the supported operations and the judged calls."""
    return {
        "name": "kafka-python",
        "version": VERSION,
        "language": "python",
        "supports": {**{operation: list(doors) for operation, doors in DOORS.items()}, "read": True},
        "via": {
            **vias(DOORS),
            **unused_by_a_client(messages.VERSIONS),
            "read": "internal: KafkaConsumer.poll > Fetcher.fetched_records",
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
        return _decode_primitive(type, data)
    except (struct.error, ValueError) as error:
        raise Reject("malformed", str(error)) from error


def encode(type: str, value: Any, **parameters: Any) -> bytes:
    """Encode one value."""
    try:
        if type in record_sets.WRITERS:
            return record_sets.WRITERS[type](value, **parameters)
        if type == "MESSAGE":
            return messages.encode(value, parameters["message"], parameters["version"])
        return _encode_primitive(type, value)
    except (struct.error, ValueError, AssertionError) as error:
        # struct.error is the only range check of the fixed-size codecs; assertions check arguments.
        raise Reject("invalid-value", str(error)) from error


def size(type: str, value: Any, **parameters: Any) -> int:
    """Return the encoded size from the library's size functions."""
    return record_sets.SIZES[type](value, **parameters)


class Holder:
    """A message with one field, which the library's decoder sets."""

    value: Any
    unknown_tags: dict[str, bytes] | None


def _decode_primitive(type: str, data: bytes) -> tuple[Any, int]:
    if type == "UNSIGNED_VARINT":
        value, consumed = _compiled_varint_decoder()(memoryview(data), 0)
        return value, consumed
    tagged = type == "TAGGED_FIELDS"
    compact = tagged or type.startswith("COMPACT_")
    decoder = _message(type).compiled_decode_from(0, compact=compact, tagged=tagged, data_class=Holder)
    item, consumed = decoder(memoryview(data), 0)
    if tagged:  # an unknown tag has the name "_<tag>"
        return [
            {"tag": int(name[1:]), "data": content} for name, content in (item.unknown_tags or {}).items()
        ], consumed
    return each(_shown, type, item.value), consumed


def _encode_primitive(type: str, value: Any) -> bytes:
    out = EncodeBuffer()
    encoder = _message(type).compiled_encode_into(0, compact=type.startswith("COMPACT_"), tagged=False)
    encoder(SimpleNamespace(value=each(_given, type, value)), out)
    return bytes(out.result())


@lru_cache
def _message(type: str) -> Any:
    """Return the library's message with one field of a type, built like from a definition."""
    if type not in FIELDS:
        raise Unsupported(f"no field of type {type}")
    field = {"name": "value", "type": FIELDS[type], "versions": "1" if type == "TAGGED_FIELDS" else "0"}
    return StructField({"name": "Holder", "type": "response", "validVersions": "0-1", "fields": [field]})


@lru_cache
def _compiled_varint_decoder() -> Any:
    """Compile the lines that each compiled decoder contains for a length, a count or a tag."""
    context = CodegenContext()
    context.lines.append("def _decode(data, pos):")
    UnsignedVarInt32.emit_decode_from(context, "value", "    ")
    context.emit("    ", "return value, pos")
    exec(context.source(), context.globs)  # noqa: S102
    return context.globs["_decode"]


def _given(type: str, value: Any) -> Any:
    """Convert the notation of a request to an argument of the library."""
    if type == "UUID":
        return uuid.UUID(value)
    if type == "INT64":
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _shown(type: str, value: Any) -> Any:
    """Convert a result of the library to the notation of an answer."""
    if type == "UUID":
        return str(UUID.ZERO_UUID if value is None else value)  # the library returns None for a zero UUID
    return str(value) if type == "INT64" else value
