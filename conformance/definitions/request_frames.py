"""Requests as they stand on a connection: a size, a header, and the body of a definition."""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from conformance import codec
from conformance.codec.derived_fields import ByteLength, Values
from conformance.codec.json_notation import HEX, NUMBER, ListOf, ObjectOf
from conformance.codec.layout import Field, Layout, wire_of
from conformance.codec.message_spec import UNKNOWN, MessageSpec, VersionRange, header_version, type_name
from conformance.codec.primitives import INT32
from conformance.definitions.loader import shipped_types, types_with, usable

SENT = ListOf(ObjectOf({"hex": HEX, "inFlight": ListOf(NUMBER), "offered": ListOf(NUMBER)}), nullable=False)
"""The requests that a client sent: the bytes with their size; the correlation ids that its connection still has to be
answered; and the lowest and highest version that the broker offers, or null where it does not offer the request."""

START = struct.Struct(">ihhi")
"""How every request begins: size, API key, version, correlation id."""

_OWN_FIELDS = START.size - 4
"""Bytes of a request at least, without those of its size."""


def api_of(data: bytes) -> str:
    """The name of the request that a frame says it is; empty for one that the suite has no definition of."""
    return names().get(START.unpack_from(data)[1], "") if len(data) >= START.size else ""


def frame_wire(data: bytes) -> codec.WireType | None:
    """What a frame is by its API key and version; None where the suite has no definition of that."""
    name = api_of(data)
    version = START.unpack_from(data)[2] if name else 0
    return wire_in(name, version) if name and version in message_of(name).valid else None


@lru_cache(maxsize=512)
def wire_in(name: str, version: int) -> codec.WireType:
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


def message_of(name: str) -> MessageSpec:
    """The definition of a request."""
    return shipped_types().messages[f"{name}Request"]


def frame_at(answer: Values, path: str) -> bytes:
    """The bytes of the request that the path of a verdict names; none where it names none."""
    if not path.startswith("["):
        return b""
    index = int(path[1:].partition("]")[0])
    return bytes.fromhex(answer["value"][index]["hex"])


_HEADER = struct.Struct(">hhi")
"""The first fields of every request header: API key, version, correlation id."""


class UnhandledRequest(Exception):
    """A request that the broker has no answer to; the message says what it was."""


class CloseConnection(Exception):
    """The connection ends without an answer, and what comes of that is the client's own."""


class MalformedFrame(Exception):
    """Bytes that are no request or response of Kafka's protocol; the message says why."""


class KafkaRequest(Struct, frozen=True):
    """A request, its header and body as they were read."""

    name: str
    version: int
    header: Values
    body: Values


def opening(frame: bytes) -> tuple[str, int, int]:
    """The name of a request, its version and its correlation id. Raises MalformedFrame."""
    if len(frame) < _HEADER.size:
        raise MalformedFrame(f"a request of {len(frame)} bytes")
    key, version, correlation = _HEADER.unpack_from(frame)
    name = names().get(key)
    if name is None:
        raise MalformedFrame(f"API {key}, which is none")
    return name, version, correlation


def request_in(frame: bytes) -> KafkaRequest:
    """The request that a frame holds. Raises MalformedFrame."""
    name, version, _ = opening(frame)
    return request_named(name, version, frame)


def request_named(name: str, version: int, frame: bytes) -> KafkaRequest:
    """The request of this name that a frame holds. Raises MalformedFrame."""
    full = f"{name}Request"
    header = codec.decode(_wire("RequestHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise MalformedFrame(f"{full} {version}: {body.violations[0]}")
    return KafkaRequest(name, version, header.value, body.value)


_STRANGE = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": 10_001, "data": b"\4"})
"""Tagged fields that nobody knows."""


def response_frame(correlation: int, name: str, version: int, body: Values, *, is_tagged: bool = False) -> bytes:
    """The response to a request of this name; `is_tagged`, with fields that nobody knows wherever there is room."""
    full = f"{name}Response"
    header: Values = {"CorrelationId": correlation}
    if is_tagged and version in _message(full).flexible:
        body = _with_strange_tags(body)
        header = _with_strange_tags(header) if header_version(_message(full), version) else header
    written = codec.encode(_wire("ResponseHeader", header_version(_message(full), version)), header)
    return written + codec.encode(_wire(full, version), body)


def _with_strange_tags(value: Any) -> Any:
    """A value with the strange tags in it and in every structure inside it."""
    if isinstance(value, dict):
        return {**{name: _with_strange_tags(part) for name, part in value.items()}, UNKNOWN: _STRANGE}
    return [_with_strange_tags(part) for part in value] if isinstance(value, list | tuple) else value


def request_frame(correlation: int, name: str, version: int, body: Values, client: str | None) -> bytes:
    """A request of this name. Raises codec.Unencodable for a body that the version cannot hold."""
    full = f"{name}Request"
    message = _message(full)
    header = {"RequestApiKey": message.api_key, "RequestApiVersion": version, "CorrelationId": correlation}
    written = codec.encode(_wire("RequestHeader", header_version(message, version)), {**header, "ClientId": client})
    return written + codec.encode(_wire(full, version), body)


def response_in(frame: bytes, name: str, version: int) -> tuple[int, Values]:
    """The correlation id and the body of the response to a request of this name; bytes behind it are passed over.

    Raises MalformedFrame.
    """
    full = f"{name}Response"
    header = codec.decode(_wire("ResponseHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise MalformedFrame(f"{full} {version}: {body.violations[0]}")
    return header.value["CorrelationId"], body.value


def spoken(name: str) -> VersionRange:
    """The versions of a request that the suite speaks."""
    return _message(f"{name}Request").valid


def _message(name: str) -> MessageSpec:
    return _types().messages[name]


def _wire(name: str, version: int) -> codec.WireType:
    return _types().wire(type_name(name, version))


@cache
def _types() -> codec.TypeRegistry:
    """The shipped types, and those of requests that no case is about."""
    return types_with(usable(Path(__file__).parent / "admin").messages.values())
