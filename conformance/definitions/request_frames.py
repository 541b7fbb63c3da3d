"""Requests on a connection: a size, a header, and the body of a definition."""

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
"""The requests that a client sent: the bytes with their size; the correlation ids of unanswered requests on the
connection; and the broker's lowest and highest version, or null if it does not offer the request."""

START = struct.Struct(">ihhi")
"""The start of every request: size, API key, version, correlation id."""

_OWN_FIELDS = START.size - 4
"""The least size of a request in bytes, without its size field."""


def api_of(data: bytes) -> str:
    """Return the name of a frame's request by its API key; empty if the suite has no definition of it."""
    return names().get(START.unpack_from(data)[1], "") if len(data) >= START.size else ""


def frame_wire(data: bytes) -> codec.WireType | None:
    """Return the type of a frame by its API key and version; None if the suite has no definition of it."""
    name = api_of(data)
    version = START.unpack_from(data)[2] if name else 0
    return wire_in(name, version) if name and version in message_of(name).valid else None


@lru_cache(maxsize=512)
def wire_in(name: str, version: int) -> codec.WireType:
    """Return the type of a request with its size and header."""
    types, message = shipped_types(), f"{name}Request"
    header = types.wire(type_name("RequestHeader", header_version(message_of(name), version)))
    size = Field("Size", INT32, "request.size", ByteLength("request.size", _OWN_FIELDS))
    body = types.wire(type_name(message, version))
    rule = "definitions.write-by-version"
    return wire_of(Layout(message, (size, Field("Header", header, rule), Field("Body", body, rule))))


@lru_cache(maxsize=1)
def names() -> dict[int, str]:
    """Return the names of the requests with a definition, by API key."""
    requests = (message for message in shipped_types().messages.values() if message.kind == "request")
    return {one.api_key: one.name.removesuffix("Request") for one in requests if one.api_key is not None}


def message_of(name: str) -> MessageSpec:
    """Return the definition of a request."""
    return shipped_types().messages[f"{name}Request"]


def frame_at(answer: Values, path: str) -> bytes:
    """Return the bytes of the request in the path of a verdict; empty if the path has no request."""
    if not path.startswith("["):
        return b""
    index = int(path[1:].partition("]")[0])
    return bytes.fromhex(answer["value"][index]["hex"])


_HEADER = struct.Struct(">hhi")
"""The first fields of every request header: API key, version, correlation id."""


class UnhandledRequest(Exception):
    """A request that the mock broker cannot answer; the message names it."""


class CloseConnection(Exception):
    """Raised to close the connection without a response; the client decides how to continue."""


class MalformedFrame(Exception):
    """Bytes that are not a request or response of the Kafka protocol; the message has the reason."""


class KafkaRequest(Struct, frozen=True):
    """A request with its decoded header and body."""

    name: str
    version: int
    header: Values
    body: Values


def opening(frame: bytes) -> tuple[str, int, int]:
    """Return the name, the version and the correlation id of a request. Raises MalformedFrame."""
    if len(frame) < _HEADER.size:
        raise MalformedFrame(f"the request has {len(frame)} bytes, expected at least {_HEADER.size}")
    key, version, correlation = _HEADER.unpack_from(frame)
    name = names().get(key)
    if name is None:
        raise MalformedFrame(f"unknown API key {key}")
    return name, version, correlation


def request_in(frame: bytes) -> KafkaRequest:
    """Return the request in a frame. Raises MalformedFrame."""
    name, version, _ = opening(frame)
    return request_named(name, version, frame)


def request_named(name: str, version: int, frame: bytes) -> KafkaRequest:
    """Return the request of this name in a frame. Raises MalformedFrame."""
    full = f"{name}Request"
    header = codec.decode(_wire("RequestHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise MalformedFrame(f"{full} {version}: {body.violations[0]}")
    return KafkaRequest(name, version, header.value, body.value)


_STRANGE = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": 10_001, "data": b"\4"})
"""Tagged fields that no definition has."""


def response_frame(correlation: int, name: str, version: int, body: Values, *, is_tagged: bool = False) -> bytes:
    """Return the response to a request; `is_tagged` adds unknown tagged fields to every flexible structure."""
    full = f"{name}Response"
    header: Values = {"CorrelationId": correlation}
    if is_tagged and version in _message(full).flexible:
        body = _with_strange_tags(body)
        header = _with_strange_tags(header) if header_version(_message(full), version) else header
    written = codec.encode(_wire("ResponseHeader", header_version(_message(full), version)), header)
    return written + codec.encode(_wire(full, version), body)


def _with_strange_tags(value: Any) -> Any:
    """Return a value with the unknown tagged fields in it and in every structure inside it."""
    if isinstance(value, dict):
        return {**{name: _with_strange_tags(part) for name, part in value.items()}, UNKNOWN: _STRANGE}
    return [_with_strange_tags(part) for part in value] if isinstance(value, list | tuple) else value


def request_frame(correlation: int, name: str, version: int, body: Values, client: str | None) -> bytes:
    """Return a request of this name as bytes. Raises codec.Unencodable for a body that the version cannot hold."""
    full = f"{name}Request"
    message = _message(full)
    header = {"RequestApiKey": message.api_key, "RequestApiVersion": version, "CorrelationId": correlation}
    written = codec.encode(_wire("RequestHeader", header_version(message, version)), {**header, "ClientId": client})
    return written + codec.encode(_wire(full, version), body)


def response_in(frame: bytes, name: str, version: int) -> tuple[int, Values]:
    """Return the correlation id and the body of a response to a request of this name; later bytes are ignored.

    Raises MalformedFrame.
    """
    full = f"{name}Response"
    header = codec.decode(_wire("ResponseHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise MalformedFrame(f"{full} {version}: {body.violations[0]}")
    return header.value["CorrelationId"], body.value


def supported_versions(name: str) -> VersionRange:
    """Return the versions of a request that the suite supports."""
    return _message(f"{name}Request").valid


def _message(name: str) -> MessageSpec:
    return _types().messages[name]


def _wire(name: str, version: int) -> codec.WireType:
    return _types().wire(type_name(name, version))


@cache
def _types() -> codec.TypeRegistry:
    """Return the shipped types, and those of requests that no case tests."""
    return types_with(usable(Path(__file__).parent / "admin").messages.values())
