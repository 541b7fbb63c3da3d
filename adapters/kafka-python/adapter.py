"""kafka-python 3 as a target: the types of its messages; messages.py and record_sets.py have the rest.

A type is judged as the only field of a message, as a response is read and a request is written: by the functions that
the library compiles from a definition. The varints of records are judged with the records.
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

VERSION = version("kafka-python")  # once, before processes are forked: a file is read and parsed for it

# KafkaError is the library's own family. ValueError is what its codecs raise on purpose ("Buffer underrun", "Invalid
# value"), invalid UTF-8 included, and what its response parser catches. The parser catches struct.error beside it, so
# that is a refusal too, but only out of a message's body and the encoders: the code that reads records never expects
# it. IndexError is not caught: it ends the task that reads the connection, and the request is never answered.
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
# Our name -> the schema type. A compact form is asked for by one switch for a whole message.
FIELDS = (
    FIXED | PLAIN | COMPACT | ARRAYS | ONLY_WRITTEN | ONLY_READ | {"TAGGED_FIELDS": "int8"}
)  # that one is not in the version asked

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
    """Say what this target can do, and by which of its calls."""
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
    """Decode one value, with the bytes consumed where the library tells."""
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
        # struct.error is the only range check the fixed-size codecs have; an assertion answers a caller's mistake.
        raise Reject("invalid-value", str(error)) from error


def size(type: str, value: Any, **parameters: Any) -> int:
    """Return the encoded size by the library's own size functions."""
    return record_sets.SIZES[type](value, **parameters)


class Holder:
    """What the library's decoder makes: a message with one field, which it fills in."""

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
    if tagged:  # a tag that no field knows comes back under the name "_<tag>"
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
    """Build the library's message with one field of a type, as from a definition."""
    if type not in FIELDS:
        raise Unsupported(f"no field of type {type}")
    field = {"name": "value", "type": FIELDS[type], "versions": "1" if type == "TAGGED_FIELDS" else "0"}
    return StructField({"name": "Holder", "type": "response", "validVersions": "0-1", "fields": [field]})


@lru_cache
def _compiled_varint_decoder() -> Any:
    """Compile the lines that stand in a compiled decoder wherever a length, a count or a tag is read."""
    context = CodegenContext()
    context.lines.append("def _decode(data, pos):")
    UnsignedVarInt32.emit_decode_from(context, "value", "    ")
    context.emit("    ", "return value, pos")
    exec(context.source(), context.globs)  # noqa: S102
    return context.globs["_decode"]


def _given(type: str, value: Any) -> Any:
    """Turn the notation of a request into what the library takes."""
    if type == "UUID":
        return uuid.UUID(value)
    if type == "INT64":
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _shown(type: str, value: Any) -> Any:
    """Turn what the library returns into the notation of an answer."""
    if type == "UUID":
        return str(UUID.ZERO_UUID if value is None else value)  # None is the library's word for zero
    return str(value) if type == "INT64" else value
