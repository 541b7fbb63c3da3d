"""Frames of Kafka's protocol without their size: requests are read and responses written by the shipped definitions."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from conformance import codec
from conformance.cases.conversations import names
from conformance.codec.message_definition import Message, header_version, type_name
from conformance.definitions.shipped import shipped_types

Values = dict[str, Any]

_HEADER = struct.Struct(">hhi")
"""The first fields of every request header: API key, version, correlation id."""


class Unanswerable(Exception):
    """A request that the broker has no answer to; the message says what it was."""


class Garbled(Exception):
    """Bytes that are no request of Kafka's protocol; the message says why."""


@dataclass(frozen=True, slots=True)
class Request:
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
    full = f"{name}Request"
    header = codec.decode(_wire("RequestHeader", header_version(_message(full), version)), frame)
    body = codec.decode(_wire(full, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise Garbled(f"{full} {version}: {body.violations[0]}")
    return Request(name, version, header.value, body.value)


def response_frame(correlation: int, name: str, version: int, body: Values) -> bytes:
    """The response to a request of this name."""
    full = f"{name}Response"
    header = {"CorrelationId": correlation}
    written = codec.encode(_wire("ResponseHeader", header_version(_message(full), version)), header)
    return written + codec.encode(_wire(full, version), body)


def _message(name: str) -> Message:
    return shipped_types().messages[name]


def _wire(name: str, version: int) -> codec.Wire:
    return shipped_types().wire(type_name(name, version))
