"""Requests as they stand on a connection: a size, a header, and the body of a definition."""

from __future__ import annotations

import struct
from functools import lru_cache

from conformance import codec
from conformance.codec.derived_fields import ByteLength, Values
from conformance.codec.json_notation import HEX, NUMBER, Fields, ListOf
from conformance.codec.layout import Field, Layout, wire_of
from conformance.codec.message_spec import Message, header_version, type_name
from conformance.codec.primitives import INT32
from conformance.definitions.shipped import shipped_types

SENT = ListOf(Fields({"hex": HEX, "inFlight": ListOf(NUMBER), "offered": ListOf(NUMBER)}), nullable=False)
"""The requests that a client sent: the bytes with their size; the correlation ids that its connection still has to be
answered; and the lowest and highest version that the broker offers, or null where it does not offer the request."""

START = struct.Struct(">ihhi")
"""How every request begins: size, API key, version, correlation id."""

_OWN_FIELDS = START.size - 4
"""Bytes of a request at least, without those of its size."""


def api_of(data: bytes) -> str:
    """The name of the request that a frame says it is; empty for one that the suite has no definition of."""
    return names().get(START.unpack_from(data)[1], "") if len(data) >= START.size else ""


def frame_wire(data: bytes) -> codec.Wire | None:
    """What a frame is by its API key and version; None where the suite has no definition of that."""
    name = api_of(data)
    version = START.unpack_from(data)[2] if name else 0
    return wire_in(name, version) if name and version in message_of(name).valid else None


@lru_cache(maxsize=512)
def wire_in(name: str, version: int) -> codec.Wire:
    """A request of this name and version, with its size and header."""
    types, message = shipped_types(), f"{name}Request"
    header = types.wire(type_name("RequestHeader", header_version(message_of(name), version)))
    size = Field("Size", INT32, "request.size", ByteLength("request.size", _OWN_FIELDS))
    body = types.wire(type_name(message, version))
    rule = "definitions.write-by-version"
    return wire_of(Layout(message, (size, Field("Header", header, rule), Field("Body", body, rule))))


@lru_cache(maxsize=1)
def names() -> dict[int, str]:
    """The requests that have a definition, by API key."""
    requests = (message for message in shipped_types().messages.values() if message.kind == "request")
    return {one.api_key: one.name.removesuffix("Request") for one in requests if one.api_key is not None}


def message_of(name: str) -> Message:
    """The definition of a request."""
    return shipped_types().messages[f"{name}Request"]


def frame_at(answer: Values, path: str) -> bytes:
    """The bytes of the request that the path of a verdict names; none where it names none."""
    if not path.startswith("["):
        return b""
    index = int(path[1:].partition("]")[0])
    return bytes.fromhex(answer["value"][index]["hex"])
