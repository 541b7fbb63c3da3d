"""The processes of a live client: one that has many cases at once, and a few that have one case at a time.

What is not as due counts only once it came again in a process that has no other case. Such processes stand beside one
another and beside the crowd, so that a case which takes its time holds up no other.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeAlias

from conformance.cases.model import Answer
from conformance.live_clients.driver_process import DriverProcess
from conformance.targets.manifests import DriverManifest

STARTUP_TIMEOUT_S = 30.0
"""Seconds that a driver has to start, and a client from there to the first fetch of a topic."""
_LONG = STARTUP_TIMEOUT_S
"""Seconds of a silence that no busy machine makes so long."""
_MAX_ISOLATED_PROCESSES = 6
"""Processes at most that have one case at a time."""
_START_COST_FACTOR = 2
"""Another of them is started only after a wait of so many times what a start takes."""


class ClientSlot:
    """A place for one process of the client, which is started anew when it is gone. `close` it."""

    def __init__(self, driver: DriverManifest) -> None:
        """Nothing runs before it is `ready`."""
        self._driver = driver
        self._client: DriverProcess | None = None
        self._starting = asyncio.Lock()
        self.took = 0.0
        """Seconds that the last start took."""
        self.runs_scenario = False
        """Whether a scenario is held here."""
        self.must_restart = False
        """Whether the process is to end with the scenario, as the name of its topic may stay in all it knows."""

    @property
    def is_stopped(self) -> bool:
        """Whether no process runs here."""
        return self._client is None or not self._client.is_alive

    @property
    def is_unused(self) -> bool:
        """Whether the next case is the first one of its process."""
        return self.is_stopped or self._client is None or not self._client.was_asked

    async def ready(self) -> DriverProcess:
        """The process, started anew where it is gone. Raises OSError, TimeoutError or DriverError."""
        async with self._starting:  # several cases may find it gone
            if self._client is None or self.is_stopped:
                await self.end(self._client)
                began = time.monotonic()
                client = DriverProcess(self._driver.command, {**os.environ, **self._driver.env})
                try:
                    await client.start(STARTUP_TIMEOUT_S)
                except BaseException:
                    await client.close()
                    raise
                self._client, self.took = client, time.monotonic() - began
            return self._client

    async def end(self, client: DriverProcess | None) -> None:
        """End a process, and leave alone one that was started since."""
        if client is not None:
            await client.close()
        if self._client is client:
            self._client = None

    async def stop(self) -> None:
        """End the process that runs here, if any."""
        await self.end(self._client)

    async def close(self) -> None:
        """End it for good; it may exit by itself."""
        if self._client is not None:
            await self._client.close(kindly=True)

    def invalidate_cases(self, problem: str) -> None:
        """What becomes of the cases here says nothing of the client."""
        if self._client is not None:
            self._client.invalidate_cases(problem)


CaseRunner: TypeAlias = Callable[[ClientSlot], Awaitable[Answer]]
"""Lets the client in a seat consume a topic, or write to it."""


class ClientPool:
    """All processes of one client. `close` them."""

    def __init__(self, driver: DriverManifest) -> None:
        """Nothing runs at first."""
        self._driver = driver
        self.shared_slot = ClientSlot(driver)
        """Where cases are beside one another."""
        self._in_crowd = asyncio.Semaphore(driver.concurrency)
        self._apart = asyncio.Semaphore(_MAX_ISOLATED_PROCESSES)
        self._opened: list[ClientSlot] = []
        self._free: asyncio.LifoQueue[ClientSlot] = asyncio.LifoQueue()
        self._one_at_a_time = asyncio.Lock()

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(seat.close() for seat in (self.shared_slot, *self._opened)))

    def invalidate_cases(self, problem: str) -> None:
        """What becomes of all cases that are under way says nothing of the client: it is not known whose it was.

        It was none of a scenario, which has a broker of its own.
        """
        for seat in (self.shared_slot, *self._opened):
            if not seat.runs_scenario:
                seat.invalidate_cases(problem)

    async def run_and_confirm(self, put: CaseRunner, is_due: Callable[[Answer], bool]) -> Answer:
        """What comes of a case; what is not as due is asked once more, in a process without another case.

        What says nothing of the client, as the broker failed, is asked once more while there is no other case at all.
        """
        async with self._in_crowd:
            answer = await put(self.shared_slot)
        if is_due(answer):
            return answer
        if "unsupported" not in answer:
            answer = await self._run_isolated(put, is_silent="timeout" in answer)
        return await self.run_exclusively(put) if "unsupported" in answer else answer

    async def run_exclusively(self, put: CaseRunner) -> Answer:
        """What comes of a case while the client has no other."""
        async with self._one_at_a_time, AsyncExitStack() as held:
            for _ in range(self._driver.concurrency):
                await held.enter_async_context(self._in_crowd)
            for _ in range(_MAX_ISOLATED_PROCESSES):
                await held.enter_async_context(self._apart)
            return await put(self.shared_slot)

    async def _run_isolated(self, put: CaseRunner, *, is_silent: bool) -> Answer:
        """What comes of a case in a process that has no other; a death or a silence is that of a process without past.

        One that `is_silent` elsewhere has such a process at once, as a silence takes long.
        """
        async with self._apart, self._seat() as seat:
            if is_silent:
                await seat.stop()
            is_fresh = seat.is_unused
            answer = await put(seat)
            return await put(seat) if seat.is_stopped and not is_fresh else answer

    async def run_scenario(self, put: CaseRunner, is_at_work: Callable[[Answer], bool]) -> Answer:
        """Run a scenario in a client process that runs no other case, and return the answer.

        An earlier case may have caused a crash, and a busy machine a timeout. Both are repeated in another process,
        except a long timeout and a timeout in which the client `is_at_work`.
        """
        async with self._apart, self._seat() as seat:
            seat.runs_scenario, since = True, time.monotonic()
            try:
                answer = await put(seat)
                is_settled = not seat.is_stopped or time.monotonic() - since >= _LONG
                return answer if is_settled or is_at_work(answer) else await put(seat)
            finally:
                seat.runs_scenario = False
                if seat.must_restart:
                    seat.must_restart = False
                    await seat.stop()

    @asynccontextmanager
    async def _seat(self) -> AsyncIterator[ClientSlot]:
        """A free seat; one more is opened where none is free for longer than a start takes."""
        seat = None
        if self._opened:
            with suppress(TimeoutError):
                seat = await asyncio.wait_for(self._free.get(), _START_COST_FACTOR * self.shared_slot.took)
        if seat is None:
            seat = ClientSlot(self._driver)
            self._opened.append(seat)
        try:
            yield seat
        finally:
            self._free.put_nowait(seat)
