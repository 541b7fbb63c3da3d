"""kafka-python 3 as a target: its field codecs and varints; messages.py and record_sets.py have the rest."""

import io
import struct
import sys
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "common"))  # notation.py, kafka_python_records.py

import messages
import record_sets
from kafka.errors import KafkaError
from kafka.protocol.schemas.fields import BaseField
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
from kafka.protocol.schemas.fields.codecs.types import UnsignedVarInt32, VarInt32
from kafka.record.util import decode_varint, encode_varint, size_of_varint
from notation import CODECS, each, float_bits, float_from_bits

from conformance import Reject, Unsupported

# KafkaError is the library's own family. ValueError is what its codecs raise on purpose ("Buffer underrun", "Invalid
# value"), invalid UTF-8 included, and what its response parser catches. The parser catches struct.error beside it, so
# that is a refusal too, but only out of the protocol codecs and the encoders: the code that reads records never
# expects it.
REJECTIONS = (KafkaError, ValueError)

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

read = record_sets.read


def describe() -> dict[str, object]:
    """Say what this target can do."""
    encodes = [*FIELDS, *VARINTS, "VARLONG", *record_sets.WRITERS, "MESSAGE"]
    decodes = [*FIELDS, *VARINTS, "VARLONG", "TAGGED_FIELDS", *record_sets.READERS, "MESSAGE"]
    return {
        "name": "kafka-python",
        "version": version("kafka-python"),
        "language": "python",
        "supports": {
            "decode": decodes,
            "encode": encodes,
            "size": ["VARINT", "VARLONG", *record_sets.SIZES],
            "read": True,
        },
        "codecs": list(CODECS),
        "magics": [0, 1, 2],
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
    except (struct.error, ValueError) as error:  # struct.error is the only range check the fixed-size codecs have
        raise Reject("invalid-value", str(error)) from error


def size(type: str, value: Any, **parameters: Any) -> int:
    """Return the encoded size by the library's own size functions."""
    if type in record_sets.SIZES:
        return record_sets.SIZES[type](value, **parameters)
    if type not in ("VARINT", "VARLONG"):
        raise Unsupported(f"no size of {type}")
    return int(size_of_varint(int(value)))


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
    return each(_shown, type, field.decode(stream, compact=compact)), stream.tell()


def _decode_varlong(data: bytes) -> tuple[int, int]:
    """Read with the varint of the record code, whose reader takes its IndexError for the end of the bytes."""
    try:
        value, end = decode_varint(data)
    except IndexError as error:
        raise Reject("malformed", str(error)) from error
    return value, end


def _encode_primitive(type: str, value: Any) -> bytes:
    if type == "VARLONG":
        out = bytearray()
        encode_varint(int(value), out.append)
        return bytes(out)
    if type in VARINTS:
        return bytes(VARINTS[type].encode(value))
    field, compact = _field(type)
    return bytes(field.encode(each(_given, type, value), compact=compact))


def _field(type: str) -> tuple[Any, bool]:
    """Build the library's field for a type, as its message definitions would."""
    if type not in FIELDS:
        raise Unsupported(f"no field type for {type}")
    schema, compact = FIELDS[type]
    return BaseField.parse_json({"name": "value", "type": schema, "versions": "0+"}), compact


def _given(type: str, value: Any) -> Any:
    """Turn the notation of a request into what the library takes."""
    if type == "FLOAT64":
        return float_from_bits(value)
    if type == "UUID":
        return uuid.UUID(value)
    if type == "INT64":
        return int(value)
    return bytes.fromhex(value) if type.endswith(("BYTES", "RECORDS")) else value


def _shown(type: str, value: Any) -> Any:
    """Turn what the library returns into the notation of an answer."""
    if type == "FLOAT64":
        return float_bits(value)
    return str(value) if type == "UUID" else value
