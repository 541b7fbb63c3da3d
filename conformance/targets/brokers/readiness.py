"""Whether something at an address speaks Kafka's protocol: it answers an ApiVersions request."""

from __future__ import annotations

import socket
import struct
import time

from conformance import codec
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types

_API_VERSIONS, _CORRELATION = 18, 1
_PATIENCE = 5.0
"""Seconds for a connection, and for the whole of an answer."""
_LEAST = 0.001
_LONGEST = 1 << 20
"""Bytes of an answer, at most."""
_SIZE = struct.Struct(">i")


def answers(host: str, port: int) -> bool:
    """Whether an ApiVersions request of version 0 is answered by a response to it.

    A refusal of that version counts: it comes in the form of version 0 too.
    """
    try:
        with socket.create_connection((host, port), _PATIENCE) as connection:
            request, until = _request(), time.monotonic() + _PATIENCE
            connection.sendall(_SIZE.pack(len(request)) + request)
            (size,) = _SIZE.unpack(_received(connection, _SIZE.size, until))
            return 0 < size <= _LONGEST and _is_response(_received(connection, size, until))
    except OSError:
        return False


def _request() -> bytes:
    header = {"RequestApiKey": _API_VERSIONS, "RequestApiVersion": 0, "CorrelationId": _CORRELATION, "ClientId": None}
    return codec.encode(_wire("RequestHeader", 1), header) + codec.encode(_wire("ApiVersionsRequest", 0), {})


def _is_response(frame: bytes) -> bool:
    header = codec.decode(_wire("ResponseHeader", 0), frame)
    if not header.ok or header.value["CorrelationId"] != _CORRELATION:
        return False
    return codec.decode(_wire("ApiVersionsResponse", 0), frame[header.consumed :]).ok


def _received(connection: socket.socket, size: int, until: float) -> bytes:
    """So many bytes. Raises OSError where the connection, or the time, ends first."""
    parts = b""
    while len(parts) < size:
        connection.settimeout(max(until - time.monotonic(), _LEAST))
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("it closed the connection")
        parts += part
    return parts


def _wire(name: str, version: int) -> codec.Wire:
    return shipped_types().wire(type_name(name, version))
