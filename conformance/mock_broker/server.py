"""The sockets of the mock broker: request frames in, response frames out, in order."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle

from conformance.cases.api_versions_profiles import MINIMAL, VERSION_PROFILES, ApiVersions
from conformance.cases.client_scenarios import NODE_1, NODE_2, ClientScenario
from conformance.definitions.request_frames import START, CloseConnection, MalformedFrame, UnhandledRequest
from conformance.mock_broker._fetch_sessions import FetchSessionCache
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.request_recorder import RequestRecorder


class MockCluster:
    """The mock brokers of a run. `close` it in every case."""

    full_version_broker: MockBroker
    """The broker that offers every request and version."""

    def __init__(self, notice: Callable[[str], object]) -> None:
        """Create it without a listening socket. `notice` receives the reason if a request gets no response."""
        self._full = MockBrokerServer(notice, VERSION_PROFILES["full"])
        self._servers = [self._full]

    async def start(self) -> None:
        """Start the broker that offers everything. Raises OSError."""
        self.full_version_broker = await self._full.start()

    async def start_cluster(
        self, kind: ClientScenario, offered: ApiVersions, witness: RequestRecorder, notice: Callable[[str], object]
    ) -> MockBroker:
        """Start a broker for a scenario, and its second node if it has one; `witness` records the requests to both.

        It listens until `close`, because the client may still connect to its port. Raises OSError.
        """
        nodes = []
        for node in (NODE_1, NODE_2)[: 1 + kind.has_two_nodes]:
            server = MockBrokerServer(notice, {**offered, **kind.version_overrides}, witness)
            self._servers.append(server)
            broker = await server.start()
            broker.node = node
            broker.is_tagged, broker.in_pieces, broker.is_strict = kind.is_tagged, kind.in_pieces, kind.is_strict
            broker.downtime_s, broker.aliases, broker.finalized_features = (
                kind.refuse_connections_s,
                kind.aliases,
                kind.finalized_features,
            )
            broker.sessions = FetchSessionCache() if kind.has_sessions else None
            nodes.append(broker)
        for broker in nodes:
            broker.topics = nodes[0].topics
            broker.other_nodes = tuple(other for other in nodes if other is not broker)
        return nodes[0]

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(server.close() for server in self._servers))


HOST = "127.0.0.1"
_LONGEST = 1 << 24
"""The largest request in bytes: consumers send much smaller ones."""
_MOST = 100 << 20
"""The largest request in bytes that Apache Kafka's broker reads by default."""
_CONNECTIONS = 1000
"""The most connections that may be open at once."""
_AHEAD = 8
"""Requests that are read ahead of an unanswered request on their connection."""
_STALLED = 5.0
"""Seconds for the rest of a request after its size."""
_SIZE = 4
_PIECES, _PAUSE_S = (1, 3, 100), 0.001
"""Bytes of the pieces of a response, repeated, and the seconds between two of them."""


class MockBrokerServer:
    """A broker on a free port of this machine. `notice` receives the reason if a request gets no response."""

    def __init__(
        self, notice: Callable[[str], object], offered: ApiVersions = MINIMAL, witness: RequestRecorder | None = None
    ) -> None:
        """Create it without a listening socket."""
        self._notice, self._offered = notice, offered
        self.witness = witness or RequestRecorder()
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._taken = socket.socket()
        """Reserves the port of a stopped broker: the socket is bound to it, but does not listen."""
        self._taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._away_until = 0.0
        """The end of the downtime, by `time.monotonic()`."""

    async def start(self, port: int = 0) -> MockBroker:
        """Listen on a port, by default a free one, and return the broker. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, HOST, port, limit=1 << 16, backlog=_CONNECTIONS)
        self._broker = MockBroker(HOST, self._server.sockets[0].getsockname()[1], self._offered)
        return self._broker

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._taken.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _CONNECTIONS or time.monotonic() < self._away_until:
            writer.close()
            return
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        with suppress(asyncio.CancelledError):
            await task

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends or sends a request that has no response."""
        frames: asyncio.Queue[bytes | None] = asyncio.Queue(_AHEAD)
        in_flight: deque[int] = deque()
        reading = asyncio.create_task(self._read(reader, frames, in_flight))
        try:
            with suppress(ConnectionError):  # a client may close at any time, also inside of a request
                while (frame := await frames.get()) is not None:
                    response = self._broker.respond(frame)
                    if response.delay:
                        await asyncio.sleep(response.delay)
                    in_flight.popleft()
                    size = len(response.frame) if response.size is None else response.size
                    whole = size.to_bytes(_SIZE, "big", signed=True) + response.frame
                    for piece in _in_pieces(whole) if self._broker.in_pieces else [whole]:
                        writer.write(piece)
                        await writer.drain()
                        if self._broker.in_pieces:
                            await asyncio.sleep(_PAUSE_S)
        except MalformedFrame as problem:  # Kafka closes the connection, too
            self.witness.parse_error = self.witness.parse_error or str(problem)
        except CloseConnection:
            if self._broker.downtime_s:
                self._restart()
        except UnhandledRequest as problem:
            self._notice(f"the mock broker cannot answer {problem}")
        except Exception as problem:  # noqa: BLE001 - any error here is a fault of the mock broker, not of the client
            self._notice(f"the mock broker failed: {type(problem).__name__}: {problem}")
        finally:
            reading.cancel()
            writer.close()

    def _restart(self) -> None:
        """Close every connection, and accept none for the downtime. The port stays reserved."""
        self._away_until = time.monotonic() + self._broker.downtime_s
        if self._away_until == math.inf and self._server is not None:  # it stops for good
            self._broker.is_stopped = True
            self._server.close()
            self._taken.bind((self._broker.host, self._broker.port))
        for task in self._open - {asyncio.current_task()}:
            task.cancel()

    async def _read(
        self, reader: asyncio.StreamReader, frames: asyncio.Queue[bytes | None], in_flight: deque[int]
    ) -> None:
        """Read and record requests ahead of their responses, until the connection ends or a request is malformed."""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while _is_whole(frame := await self._next(reader, in_flight)):
                    in_flight.append(START.unpack_from(frame)[-1])
                    await frames.put(frame[_SIZE:])
        except RequestTooLarge as problem:
            self._notice(f"the mock broker cannot answer {problem}")
        except Exception as problem:  # noqa: BLE001 - a fault of the mock broker, as above
            self._notice(f"the mock broker failed: {type(problem).__name__}: {problem}")
        await frames.put(None)

    async def _next(self, reader: asyncio.StreamReader, in_flight: deque[int]) -> bytes:
        """Read and record the next request, or a part of it. Raises RequestTooLarge or IncompleteReadError."""
        frame = await _frame(reader)
        self.witness.record(frame, in_flight, self._broker.offered, versions_sent=self._broker.api_versions_sent)
        return frame


def _in_pieces(data: bytes) -> Iterator[bytes]:
    """Split bytes as a connection may: inside of the size, and after it."""
    at, lengths = 0, cycle(_PIECES)
    while at < len(data):
        length = next(lengths)
        yield data[at : at + length]
        at += length


class RequestTooLarge(Exception):
    """A request that may be valid but is longer than this broker reads; the message has its size."""


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Read the next request with its size, or a part of it. Raises RequestTooLarge or IncompleteReadError."""
    head = await reader.readexactly(_SIZE)
    size = int.from_bytes(head, "big", signed=True)
    if _LONGEST < size <= _MOST:
        raise RequestTooLarge(f"a request of {size} bytes")
    # The recorder keeps the invalid size, and the connection closes.
    if not 0 < size <= _MOST:
        return head
    frame, deadline = bytearray(head), asyncio.timeout(_STALLED)
    with suppress(TimeoutError):
        async with deadline:
            while len(frame) < _SIZE + size:
                chunk = await reader.read(_SIZE + size - len(frame))
                if not chunk:
                    raise asyncio.IncompleteReadError(bytes(frame), _SIZE + size)
                frame += chunk
    return bytes(frame)


def _is_whole(frame: bytes) -> bool:
    """Return True if a request has its stated size and a header."""
    return len(frame) >= START.size and int.from_bytes(frame[:_SIZE], "big", signed=True) == len(frame) - _SIZE
