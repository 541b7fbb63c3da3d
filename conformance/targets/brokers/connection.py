"""A connection to a broker: one request at a time, in the versions that both sides speak, within a deadline."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from conformance.cases.conversations import names
from conformance.targets.live.frames import Garbled, Values, request_frame, response_in, spoken

_SIZE = struct.Struct(">i")
_LARGEST = 128 << 20
"""Bytes of a response at most."""
_CHUNK = 1 << 16
CLIENT = "kafka-conformance"


def request_names() -> Mapping[int, str]:
    """The requests that a broker is sent, by their keys."""
    return {**names(), 19: "CreateTopics", 20: "DeleteTopics"}


class Lost(Exception):
    """A broker that closed the connection; the message says when."""


class Late(Exception):
    """A broker that did not answer in time; the message says what."""


class NotOffered(Exception):
    """A request of which the broker and the suite have no version in common."""


@contextmanager
def _told(seconds: float) -> Iterator[None]:
    """What ends a connection, as Late or Lost."""
    try:
        yield
    except TimeoutError:
        raise Late(f"no answer within {seconds:g} s") from None
    except ConnectionError as error:
        raise Lost(f"the connection ended: {error.strerror or error}") from None


class Connection:
    """A connection to one broker. `close` it."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        """Connect, and ask for the versions. Raises OSError, Lost, Late or Garbled; `seconds` bound each answer."""
        self._seconds = seconds
        self._correlation = 0
        self._socket = socket.create_connection((host, port), timeout=seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.offered = self._versions()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def is_idle(self) -> bool:
        """Whether it stands, and nothing comes on it that was not asked for."""
        try:
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):
            return False

    def version(self, name: str, low: int = 0, high: int = 1 << 15) -> int:
        """The highest version of a request between two that both sides speak. Raises NotOffered."""
        least, most = self.offered.get(name, (0, -1))
        known = spoken(name)
        best = min(most, high, known.high)
        if best < max(least, low, known.low):
            raise NotOffered(f"{name} {low} to {min(high, known.high)}" if high <= known.high else name)
        return best

    def ask(self, name: str, version: int, body: Values) -> Values:
        """The body of the response. Raises Lost, Late, Garbled or OSError."""
        self._correlation += 1
        frame = request_frame(self._correlation, name, version, body, CLIENT)
        answer = self.exchange(frame)
        correlation, response = response_in(answer, name, version)
        if correlation != self._correlation:
            raise Garbled(f"{name}Response {version}: correlation id {correlation} instead of {self._correlation}")
        return response

    def exchange(self, frame: bytes) -> bytes:
        """The frame that comes back for a frame, both without their size. Raises Lost, Late, Garbled or OSError."""
        self.send(_SIZE.pack(len(frame)) + frame)
        return self.receive()

    def send(self, data: bytes) -> None:
        """Send bytes as they are. Raises Lost, Late or OSError."""
        with _told(self._seconds):
            self._socket.settimeout(self._seconds)
            self._socket.sendall(data)

    def receive(self, seconds: float = 0.0) -> bytes:
        """The next frame, without its size; `seconds` bound it otherwise. Raises Lost, Late, Garbled or OSError."""
        seconds = seconds or self._seconds
        deadline = time.monotonic() + seconds
        with _told(seconds):
            (size,) = _SIZE.unpack(self._take(_SIZE.size, deadline))
            if not 0 <= size <= _LARGEST:
                raise Garbled(f"a response of {size} bytes")
            return self._take(size, deadline)

    def _take(self, count: int, deadline: float) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            part = self._socket.recv(min(count - len(taken), _CHUNK))
            if not part:
                raise Lost("the connection was closed without an answer" if not taken else "an answer was cut")
            taken += part
        return bytes(taken)

    def _versions(self) -> Mapping[str, tuple[int, int]]:
        """What the broker speaks: the lowest and highest version of each request that has a definition."""
        known = request_names()
        response = self.ask("ApiVersions", 0, {})
        if response["ErrorCode"]:
            raise Garbled(f"ApiVersions 0 is answered with error {response['ErrorCode']}")
        return {
            known[row["ApiKey"]]: (row["MinVersion"], row["MaxVersion"])
            for row in response["ApiKeys"]
            if row["ApiKey"] in known
        }
