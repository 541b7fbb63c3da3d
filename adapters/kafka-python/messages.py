"""The messages of kafka-python 3: the classes that it builds from the definitions in its wheel.

The library writes field names with underscores and renames some. The names of the definition come from the definition
itself, which has the same order of fields.
"""

import io
import struct
import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_header import ApiHeader, RequestHeader, ResponseHeader
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas import load_json
from kafka.protocol.schemas.fields.codecs.types import UUID, BitField

from conformance import Unsupported

PACKAGES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)
CLASSES: dict[str, Any] = {"RequestHeader": RequestHeader, "ResponseHeader": ResponseHeader} | {
    name: candidate
    for package in PACKAGES
    for name, candidate in vars(package).items()
    if isinstance(candidate, type) and issubclass(candidate, (ApiMessage, ApiData)) and hasattr(candidate, "_json")
    if "ClientQuotas" not in name  # the library never sends these two requests
}
VERSIONS: dict[str, str] = {name: message_class._json["validVersions"] for name, message_class in CLASSES.items()}  # noqa: SLF001
# Fields that Apache Kafka renamed after the definitions in the wheel; the adapter accepts and shows both names.
RENAMED = {("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch"}
UNKNOWN = "_unknownTaggedFields"

# Name in the definition -> the library's field, and the fields inside it.
Fields = dict[str, tuple[Any, "Fields"]]


def decode(data: bytes, message: str, version: int) -> tuple[dict[str, Any], int | None]:
    """Decode a message; return it with the consumed bytes, if reported. Raises Unsupported if it is missing."""
    message_class = _class(message, version)
    if message.endswith(("Request", "RequestHeader")):
        raise Unsupported("a client does not read requests")
    stream = io.BytesIO(data)
    if issubclass(message_class, ApiHeader):
        item = message_class.decode(stream, flexible=_flexible(message_class, version))
    elif issubclass(message_class, ApiData):
        item = message_class.decode(stream, version=version, header=False)
    else:
        return _shown_struct(message_class.decode(data, version=version), _fields(message)), None
    return _shown_struct(item, _fields(message)), stream.tell()


def encode(value: dict[str, Any], message: str, version: int) -> bytes:
    """Encode a message. Raises Unsupported if it is missing, and for values that its object cannot express."""
    message_class = _class(message, version)
    if message.endswith(("Response", "ResponseHeader")):
        raise Unsupported("a client does not write responses")
    item = message_class(version=version, **_arguments(value, _fields(message), version))
    if isinstance(item, ApiHeader):
        return bytes(item.encode(flexible=_flexible(message_class, version)))
    if isinstance(item, ApiData):
        return bytes(item.encode(version=version, header=False))
    return bytes(item.encode(version=version))


def _class(message: str, version: int) -> Any:
    low, _, high = VERSIONS.get(message, "1-0").partition("-")
    if not int(low) <= version <= int(high or low):
        raise Unsupported(f"no {message} {version}")
    return CLASSES[message]


def _flexible(header: Any, version: int) -> bool:
    """Return True if a header has tagged fields, which selects its version in the library."""
    return bool(header._flexible_versions[0] <= version)  # noqa: SLF001


@lru_cache
def _fields(message: str) -> Fields:
    fields = _paired(CLASSES[message].fields.values(), load_json(message)["fields"])
    return fields | {now: fields[then] for (owner, then), now in RENAMED.items() if owner == message}


def _paired(fields: Iterable[Any], definitions: list[dict[str, Any]]) -> Fields:
    return {
        row["name"]: (field, _paired(field.fields.values(), row["fields"]) if "fields" in row else {})
        for field, row in zip(fields, definitions, strict=True)
    }


# --- decode -------------------------------------------------------------------------------------------


def _shown_struct(item: Any, fields: Fields) -> dict[str, Any]:
    """Return the fields of the read version, which may differ from the requested one."""
    value = {}
    for name, (field, inner) in fields.items():
        if not field.for_version_q(item.version):
            continue
        content = getattr(item, field.name)
        if content is None and field.is_struct() and not field.nullable_for_version_q(item.version):
            continue  # a missing tagged structure: the library has no default for it
        value[name] = _shown(field, inner, content)
    if item.unknown_tags:
        value[UNKNOWN] = [{"tag": int(name[1:]), "data": data} for name, data in item.unknown_tags.items()]
    return value


def _shown(field: Any, inner: Fields, value: Any) -> Any:
    if field.is_array():
        return None if value is None else [_shown_element(field.array_of, inner, item) for item in value]
    return _shown_element(field, inner, value)


def _shown_element(field: Any, inner: Fields, value: Any) -> Any:
    if field.type_str == "uuid":
        return UUID.ZERO_UUID if value is None else value  # the library returns None for a zero UUID
    if field.type_str == "bitfield":
        return _number(value)
    return _shown_struct(value, inner) if inner and value is not None else value


def _number(bits: set[int] | None) -> int:
    """Return the INT32 of a set of bits; the library returns None for only the sign bit."""
    return int(struct.unpack(">i", BitField.encode(bits))[0])


# --- encode -------------------------------------------------------------------------------------------


def _arguments(value: dict[str, Any], fields: Fields, version: int) -> dict[str, Any]:
    """Return the arguments of a class; a missing field gets the library's default."""
    if value.get(UNKNOWN):
        raise Unsupported("tagged fields that the definition does not know are not written")
    given = {name: item for name, item in value.items() if name != UNKNOWN}
    for name in given:
        if name not in fields:
            raise Unsupported(f"the library's definition has no field {name}")
    return {fields[name][0].name: _given(*fields[name], item, version) for name, item in given.items()}


def _given(field: Any, inner: Fields, value: Any, version: int) -> Any:
    if field.is_array():
        return None if value is None else [_given_element(field.array_of, inner, item, version) for item in value]
    return _given_element(field, inner, value, version)


def _given_element(field: Any, inner: Fields, value: Any, version: int) -> Any:
    if value is None:
        return None
    if inner:
        # A structure missing in the version can only be built without a version.
        made = version if field.for_version_q(version) else None
        return field.data_class(version=made, **_arguments(value, inner, version))
    return SCALARS[field.type_str](value) if field.type_str in SCALARS else value


SCALARS: dict[str, Any] = {
    "int64": int,
    "uuid": uuid.UUID,
    "bytes": bytes.fromhex,
    "records": bytes.fromhex,
    "bitfield": lambda number: BitField.decode(io.BytesIO(struct.pack(">i", number))),
}
