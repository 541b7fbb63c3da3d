"""The processes of a live client: one shared process runs many cases at once, a few others run one case each.

A failure counts only if it repeats in a process that runs no other case. These processes run in parallel with the
shared one, so that a slow case blocks no other case.
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
"""Seconds for the start of a driver, and from there to the first fetch of a topic."""
_LONG = STARTUP_TIMEOUT_S
"""A timeout after so many seconds is not an effect of a busy machine."""
_MAX_ISOLATED_PROCESSES = 6
"""The largest number of processes with one case at a time."""
_START_COST_FACTOR = 2
"""Wait so many start times for a free process before the start of another one."""


class ClientSlot:
    """A slot for one process of the client; it starts again after its end. `close` it."""

    def __init__(self, driver: DriverManifest) -> None:
        """Start no process yet; `ready` does."""
        self._driver = driver
        self._client: DriverProcess | None = None
        self._starting = asyncio.Lock()
        self.took = 0.0
        """The duration of the last start, in seconds."""
        self.runs_scenario = False
        """Whether a scenario runs here."""
        self.must_restart = False
        """Whether the process must end after the scenario, because it may keep the topic in its metadata."""

    @property
    def is_stopped(self) -> bool:
        """Whether no process runs here."""
        return self._client is None or not self._client.is_alive

    @property
    def is_unused(self) -> bool:
        """Whether the next case is the first one of its process."""
        return self.is_stopped or self._client is None or not self._client.is_used

    async def ready(self) -> DriverProcess:
        """Return the process; start it if it has ended. Raises OSError, TimeoutError or DriverError."""
        async with self._starting:  # several cases may wait for the start
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
        """End a process, but not a newer one in this slot."""
        if client is not None:
            await client.close()
        if self._client is client:
            self._client = None

    async def stop(self) -> None:
        """End the process, if any."""
        await self.end(self._client)

    async def close(self) -> None:
        """End the process, with a grace period."""
        if self._client is not None:
            await self._client.close(graceful=True)

    def invalidate_cases(self, problem: str) -> None:
        """Mark the cases of this slot as invalid for a reason outside the client."""
        if self._client is not None:
            self._client.invalidate_cases(problem)


CaseRunner: TypeAlias = Callable[[ClientSlot], Awaitable[Answer]]
"""Lets the client in a slot consume a topic or write to it."""


class ClientPool:
    """All processes of one client. `close` them."""

    def __init__(self, driver: DriverManifest) -> None:
        """Start no process yet."""
        self._driver = driver
        self.shared_slot = ClientSlot(driver)
        """The slot of the shared process."""
        self._in_crowd = asyncio.Semaphore(driver.concurrency)
        self._isolated = asyncio.Semaphore(_MAX_ISOLATED_PROCESSES)
        self._opened: list[ClientSlot] = []
        self._free: asyncio.LifoQueue[ClientSlot] = asyncio.LifoQueue()
        self._one_at_a_time = asyncio.Lock()

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.close() for slot in (self.shared_slot, *self._opened)))

    def invalidate_cases(self, problem: str) -> None:
        """Mark all running cases as invalid, because the case of the problem is unknown.

        Scenarios stay valid: each has a separate broker.
        """
        for slot in (self.shared_slot, *self._opened):
            if not slot.runs_scenario:
                slot.invalidate_cases(problem)

    async def run_and_confirm(self, put: CaseRunner, is_expected: Callable[[Answer], bool]) -> Answer:
        """Run a case, and repeat it in a separate process if its answer is wrong.

        A case that is invalid because the broker failed is repeated while no other case runs.
        """
        async with self._in_crowd:
            answer = await put(self.shared_slot)
        if is_expected(answer):
            return answer
        if "unsupported" not in answer:
            answer = await self._run_isolated(put, is_silent="timeout" in answer)
        return await self.run_exclusively(put) if "unsupported" in answer else answer

    async def run_exclusively(self, put: CaseRunner) -> Answer:
        """Run a case while no other case runs."""
        async with self._one_at_a_time, AsyncExitStack() as held:
            for _ in range(self._driver.concurrency):
                await held.enter_async_context(self._in_crowd)
            for _ in range(_MAX_ISOLATED_PROCESSES):
                await held.enter_async_context(self._isolated)
            return await put(self.shared_slot)

    async def _run_isolated(self, put: CaseRunner, *, is_silent: bool) -> Answer:
        """Run a case in a process without other cases; a crash or timeout counts only in a fresh process.

        After a timeout (`is_silent`) the process is fresh at once, because another timeout takes long.
        """
        async with self._isolated, self._slot() as slot:
            if is_silent:
                await slot.stop()
            is_fresh = slot.is_unused
            answer = await put(slot)
            return await put(slot) if slot.is_stopped and not is_fresh else answer

    async def run_scenario(self, put: CaseRunner, is_at_work: Callable[[Answer], bool]) -> Answer:
        """Run a scenario in a client process that runs no other case, and return the answer.

        An earlier case may have caused a crash, and a busy machine a timeout. Both are repeated in another process,
        except a long timeout and a timeout in which the client `is_at_work`.
        """
        async with self._isolated, self._slot() as slot:
            slot.runs_scenario, since = True, time.monotonic()
            try:
                answer = await put(slot)
                is_settled = not slot.is_stopped or time.monotonic() - since >= _LONG
                return answer if is_settled or is_at_work(answer) else await put(slot)
            finally:
                slot.runs_scenario = False
                if slot.must_restart:
                    slot.must_restart = False
                    await slot.stop()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[ClientSlot]:
        """Yield a free slot; open another one if the wait is longer than a start."""
        slot = None
        if self._opened:
            with suppress(TimeoutError):
                slot = await asyncio.wait_for(self._free.get(), _START_COST_FACTOR * self.shared_slot.took)
        if slot is None:
            slot = ClientSlot(self._driver)
            self._opened.append(slot)
        try:
            yield slot
        finally:
            self._free.put_nowait(slot)
