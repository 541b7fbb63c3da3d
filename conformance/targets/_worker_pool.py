"""A target with one or several processes, each of which answers a part of the cases."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain

from msgspec import Struct

from conformance.cases.model import CaseSummary, Outcome
from conformance.errors import CannotStart
from conformance.process.fork_server import ForkServer
from conformance.process.launcher import LaunchSpec
from conformance.process.memory import share_one_heap
from conformance.targets.large_answers import pending_bytes
from conformance.targets.limits import ResourceLimits
from conformance.targets.protocol import RequestBody, RequestMaker, TargetDescription
from conformance.targets.session import TargetSession

_CHUNK_SIZE = 128
"""The number of cases that a process takes from the queue at a time."""

_MAX_UNJUDGED_BYTES = 2**24
"""The maximum memory of answers that are not judged yet, in bytes. Above it, only the chunk being judged continues."""

_OutcomeQueue = queue.SimpleQueue[Sequence[Outcome] | Exception]


class _CaseChunk(Struct, frozen=True):
    """A range of the cases, from `start` to before `stop`."""

    cases: Sequence[CaseSummary]
    start: int
    stop: int
    request_for: RequestMaker

    def requests(self) -> Iterator[RequestBody]:
        """Return their requests. Each is made when it is sent: a run has thousands of chunks, and some are large."""
        return (self.request_for(self.cases[at]) for at in range(self.start, self.stop))


class WorkerPool:
    """A target that is started by a command. The first process also describes it."""

    def __init__(
        self, launch: LaunchSpec, limits: ResourceLimits, jobs: int, fork_server: ForkServer | None = None
    ) -> None:
        """Prepare up to `jobs` processes without starting one. The caller closes `fork_server`, if given."""
        self._launch, self._limits, self._jobs = launch, limits, jobs
        self._fork_server = fork_server or ForkServer(launch, limits.startup)
        self._owns_fork_server = fork_server is None
        self._first = TargetSession(launch, limits, self._fork_server)
        self._sessions = [self._first]
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._judged_chunk, self._unjudged_bytes, self._changed = 0, 0, threading.Condition()
        """The chunk being judged, the bytes that wait for the judge, and a signal for changes of both."""
        self.unjudged = 0
        """The number of outcomes that wait for the judge."""

    @property
    def starts(self) -> int:
        """The number of processes that were started."""
        return sum(session.starts for session in self._sessions)

    def describe(self) -> TargetDescription:
        """Return the description of the target. Raises CannotStart."""
        return self._first.describe()

    def ask(
        self, cases: Sequence[CaseSummary], request_for: RequestMaker, *, forget_faults: bool = False
    ) -> Iterator[Outcome]:
        """Send the request of each case, and return the outcomes in their order. Raises CannotStart."""
        if forget_faults:
            for session in self._sessions:
                session.forget_faults()
        if self._limits.base_memory_growth == math.inf:
            original, request_for = request_for, lambda case: original(case)._replace(measured_bytes=0)
        chunks = [
            _CaseChunk(cases, at, min(at + _CHUNK_SIZE, len(cases)), request_for)
            for at in range(0, len(cases), _CHUNK_SIZE)
        ]
        workers = min(self._jobs, len(chunks))
        if workers > 1:
            yield from self._distribute(chunks, workers)
        elif chunks:
            # One session without a pause between chunks: it sends requests before the last answer arrives.
            yield from self._first.ask(chain.from_iterable(chunk.requests() for chunk in chunks))

    def _distribute(self, chunks: list[_CaseChunk], workers: int) -> Iterator[Outcome]:
        """Let each free session take the next chunk; yield the outcomes in the order of the chunks."""
        remaining: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(chunks)):
            remaining.put(number)
        answers: list[_OutcomeQueue] = [queue.SimpleQueue() for _ in chunks]
        share_one_heap()  # before the threads start
        while len(self._sessions) < workers:
            self._sessions.append(TargetSession(self._launch, self._limits, self._fork_server))
        self._judged_chunk = 0
        for session in self._sessions[:workers]:
            thread = threading.Thread(target=self._run_worker, args=(session, remaining, chunks, answers), daemon=True)
            # Append before the start: after an interrupt between the lines, `close` must know the thread.
            self._threads.append(thread)
            thread.start()
        for number, (chunk, chunk_answers) in enumerate(zip(chunks, answers, strict=True)):
            self._mark_taken((), number)
            missing = chunk.stop - chunk.start
            while missing:
                outcomes = self._next_outcomes(chunk_answers)
                if isinstance(outcomes, Exception):
                    raise outcomes
                self._mark_taken(outcomes, number)
                missing -= len(outcomes)
                yield from outcomes
        while self._threads:  # the next call uses their sessions again
            self._threads[-1].join()
            self._threads.pop()

    def _next_outcomes(self, answers: _OutcomeQueue) -> Sequence[Outcome] | Exception:
        """Return the next outcomes. The wait has a timeout because an endless one can miss a signal."""
        while not self._stop.is_set():
            with suppress(queue.Empty):
                return answers.get(timeout=0.5)
        return CannotStart(f"{self._launch.name}: stopped")

    def _mark_taken(self, outcomes: Sequence[Outcome], number: int) -> None:
        """Record that these outcomes of a chunk have left the queue for the judge."""
        with self._changed:
            self.unjudged -= len(outcomes)
            self._unjudged_bytes, self._judged_chunk = self._unjudged_bytes - pending_bytes(outcomes), number
            self._changed.notify_all()

    def _put_outcomes(self, outcomes: Sequence[Outcome], number: int, chunk_answers: _OutcomeQueue) -> None:
        """Pass outcomes to the judge when there is space; the chunk being judged always has space."""

        def is_room() -> bool:
            awaited = number == self._judged_chunk and chunk_answers.empty()
            return awaited or self._unjudged_bytes <= _MAX_UNJUDGED_BYTES or self._stop.is_set()

        with self._changed:
            self._changed.wait_for(is_room)
            self.unjudged += len(outcomes)
            self._unjudged_bytes += pending_bytes(outcomes)
            chunk_answers.put(outcomes)

    def _run_worker(
        self,
        session: TargetSession,
        remaining: queue.SimpleQueue[int],
        chunks: list[_CaseChunk],
        answers: list[_OutcomeQueue],
    ) -> None:
        with suppress(queue.Empty):
            while not self._stop.is_set():
                number = remaining.get_nowait()
                try:
                    for outcomes in session.send_in_order(chunks[number].requests()):
                        self._put_outcomes(outcomes, number, answers[number])
                except Exception as error:  # noqa: BLE001 - raised by the thread that waits for this chunk
                    answers[number].put(error)

    def stop(self) -> None:
        """End every process, from any thread: a thread that waits for an answer gets CannotStart."""
        self._signal_stop()
        self._abort()
        self._fork_server.close()

    def _abort(self) -> None:
        for session in [*self._sessions]:
            session.abort()

    def _signal_stop(self) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End every process and all worker threads."""
        self._signal_stop()
        if self._threads:
            self._abort()
        if self._owns_fork_server:
            self._fork_server.close()
        for thread in self._threads:
            with suppress(RuntimeError):  # an interrupt came before its start
                thread.join()
        with ThreadPoolExecutor(len(self._sessions)) as pool:  # each process may take a second to end
            list(pool.map(TargetSession.__exit__, self._sessions))
