"""Frames of Kafka's protocol without their size: requests and responses, by the shipped definitions."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from conformance import codec
from conformance.cases.request_frames import names
from conformance.codec.derived_fields import Values
from conformance.codec.message_spec import UNKNOWN, Message, Versions, header_version, type_name
from conformance.definitions.files import usable
from conformance.definitions.shipped import types_with

_HEADER = struct.Struct(">hhi")
"""The first fields of every request header: API key, version, correlation id."""


class Unanswerable(Exception):
    """A request that the broker has no answer to; the message says what it was."""


class Closed(Exception):
    """The connection ends without an answer, and what comes of that is the client's own."""


class Garbled(Exception):
    """Bytes that are no request or response of Kafka's protocol; the message says why."""


class Request(Struct, frozen=True):
    """A request, its header and body as they were read."""

    name: str
    version: int
    header: Values
    body: Values


def opening(frame: bytes) -> tuple[str, int, int]:
    """The name of a request, its version and its correlation id. Raises Garbled."""
    if len(frame) < _HEADER.size:
        raise Garbled(f"a request of {len(frame)} bytes")
    key, version, correlation = _HEADER.unpack_from(frame)
    name = names().get(key)
    if name is None:
        raise Garbled(f"API {key}, which is none")
    return name, version, correlation


def request_in(frame: bytes) -> Request:
    """The request that a frame holds. Raises Garbled."""
    name, version, _ = opening(frame)
    return request_named(name, version, frame)


def request_named(name: str, version: int, frame: bytes) -> Request:
    """The request of this name that a frame holds. Raises Garbled."""
    full = f"{name}Request"
    header = codec.decode(_wire("RequestHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise Garbled(f"{full} {version}: {body.violations[0]}")
    return Request(name, version, header.value, body.value)


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

    Raises Garbled.
    """
    full = f"{name}Response"
    header = codec.decode(_wire("ResponseHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise Garbled(f"{full} {version}: {body.violations[0]}")
    return header.value["CorrelationId"], body.value


def spoken(name: str) -> Versions:
    """The versions of a request that the suite speaks."""
    return _message(f"{name}Request").valid


def _message(name: str) -> Message:
    return _types().messages[name]


def _wire(name: str, version: int) -> codec.Wire:
    return _types().wire(type_name(name, version))


@cache
def _types() -> codec.Types:
    """The shipped types, and those of requests that no case is about."""
    return types_with(usable(Path(__file__).parent.parent / "brokers" / "definitions").messages.values())
