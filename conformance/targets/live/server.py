"""The socket layer of the scripted broker: frames of requests come in, frames of responses go out, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from conformance.targets.live.broker import Broker
from conformance.targets.live.frames import Garbled, Unanswerable
from conformance.targets.live.offers import BARE, Offer

HOST = "127.0.0.1"
_LONGEST = 1 << 24
"""Bytes of a request at most: consumers send far less."""
_CONNECTIONS = 1000
"""Connections that may be open at once."""
_SIZE = 4


class Server:
    """A broker on a free port of this machine. `notice` is told why a request was not answered."""

    def __init__(self, notice: Callable[[str], object], offered: Offer = BARE) -> None:
        """Nothing listens before `start`."""
        self._notice, self._offered = notice, offered
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> Broker:
        """Listen, on a free port where none is named; the broker that answers. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, HOST, port, limit=1 << 16)
        self._broker = Broker(HOST, self._server.sockets[0].getsockname()[1], self._offered)
        return self._broker

    async def close(self) -> None:
        """Listen no more, and close what is open."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _CONNECTIONS:
            writer.close()
            return
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        with suppress(asyncio.CancelledError):
            await task

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends, or sends what has no answer."""
        try:
            # A client may go at any time, in a request too; who sends what is none is let go, as Kafka does.
            with suppress(ConnectionError, asyncio.IncompleteReadError, Garbled):
                while True:
                    response = self._broker.respond(await _frame(reader))
                    if response.delay:
                        await asyncio.sleep(response.delay)
                    writer.write(len(response.frame).to_bytes(_SIZE, "big") + response.frame)
                    await writer.drain()
        except Unanswerable as problem:
            self._notice(f"the broker has no answer to {problem}")
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is the broker's fault and not the client's
            self._notice(f"the broker failed: {type(problem).__name__}: {problem}")
        finally:
            writer.close()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The next request without its size. Raises Garbled, or asyncio.IncompleteReadError at the end."""
    size = int.from_bytes(await reader.readexactly(_SIZE), "big", signed=True)
    if not 0 <= size <= _LONGEST:
        raise Garbled(f"a request of {size} bytes")
    return await reader.readexactly(size)
