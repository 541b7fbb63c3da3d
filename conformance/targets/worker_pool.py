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

_SHARE = 128
"""The number of cases that a process takes from the queue at a time."""

_AHEAD = 2**24
"""The maximum memory of answers that are not judged yet, in bytes. Above it, only the chunk being judged continues."""

_Answers = queue.SimpleQueue[Sequence[Outcome] | Exception]


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
        self, launch: LaunchSpec, allowance: ResourceLimits, jobs: int, warm: ForkServer | None = None
    ) -> None:
        """Prepare up to `jobs` processes without starting one. The caller closes `warm`, if given."""
        self._launch, self._allowance, self._jobs = launch, allowance, jobs
        self._warm, self._shares_warm = warm or ForkServer(launch, allowance.startup), warm is not None
        self._first = TargetSession(launch, allowance, self._warm)
        self._sessions = [self._first]
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._due, self._held, self._taken = 0, 0, threading.Condition()
        """The chunk being judged, the bytes that wait for the judge, and a signal for changes of both."""

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
        if self._allowance.base_memory_growth == math.inf:
            measured, request_for = request_for, lambda case: measured(case)._replace(measured_bytes=0)
        shares = [
            _CaseChunk(cases, at, min(at + _SHARE, len(cases)), request_for) for at in range(0, len(cases), _SHARE)
        ]
        workers = min(self._jobs, len(shares))
        if workers > 1:
            yield from self._distribute(shares, workers)
        elif shares:
            # One session without a pause between chunks: it sends requests before the last answer arrives.
            yield from self._first.ask(chain.from_iterable(share.requests() for share in shares))

    def _distribute(self, shares: list[_CaseChunk], workers: int) -> Iterator[Outcome]:
        """Let each free session take the next chunk; yield the outcomes in the order of the chunks."""
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(shares)):
            todo.put(number)
        answers: list[_Answers] = [queue.SimpleQueue() for _ in shares]
        share_one_heap()
        while len(self._sessions) < workers:
            self._sessions.append(TargetSession(self._launch, self._allowance, self._warm))
        self._due = 0
        for session in self._sessions[:workers]:
            thread = threading.Thread(target=self._run_worker, args=(session, todo, shares, answers), daemon=True)
            # Append before the start: after an interrupt between the lines, `close` must know the thread.
            self._threads.append(thread)
            thread.start()
        for number, (share, given) in enumerate(zip(shares, answers, strict=True)):
            self._reserve(0, number)
            missing = share.stop - share.start
            while missing:
                some = self._awaited(given)
                if isinstance(some, Exception):
                    raise some
                self._reserve(pending_bytes(some), number)
                missing -= len(some)
                yield from some
        while self._threads:  # the next call uses their sessions again
            self._threads[-1].join()
            self._threads.pop()

    def _awaited(self, answers: _Answers) -> Sequence[Outcome] | Exception:
        """Return the next outcomes. The wait has a timeout because an endless one can miss a signal."""
        while not self._stop.is_set():
            with suppress(queue.Empty):
                return answers.get(timeout=0.5)
        return CannotStart(f"{self._launch.name}: stopped")

    def _reserve(self, size: int, number: int) -> None:
        """Record that `size` bytes of this chunk have left the queue for the judge."""
        with self._taken:
            self._held, self._due = self._held - size, number
            self._taken.notify_all()

    def _release(self, outcomes: Sequence[Outcome], number: int, given: _Answers) -> None:
        """Pass outcomes to the judge when there is space; the chunk being judged always has space."""

        def is_room() -> bool:
            awaited = number == self._due and given.empty()
            return awaited or self._held <= _AHEAD or self._stop.is_set()

        with self._taken:
            self._taken.wait_for(is_room)
            self._held += pending_bytes(outcomes)
            given.put(outcomes)

    def _run_worker(
        self,
        session: TargetSession,
        todo: queue.SimpleQueue[int],
        shares: list[_CaseChunk],
        answers: list[_Answers],
    ) -> None:
        with suppress(queue.Empty):
            while not self._stop.is_set():
                number = todo.get_nowait()
                try:
                    for outcomes in session.send_in_order(shares[number].requests()):
                        self._release(outcomes, number, answers[number])
                except Exception as error:  # noqa: BLE001 - raised by the thread that waits for this chunk
                    answers[number].put(error)

    def stop(self) -> None:
        """End every process, from any thread: a thread that waits for an answer gets CannotStart."""
        self._let_go()
        self._abort()
        self._warm.close()

    def _abort(self) -> None:
        for session in [*self._sessions]:
            session.abort()

    def _let_go(self) -> None:
        self._stop.set()
        with self._taken:
            self._taken.notify_all()

    def close(self) -> None:
        """End every process and all worker threads."""
        self._let_go()
        if self._threads:
            self._abort()
        if not self._shares_warm:
            self._warm.close()
        for thread in self._threads:
            with suppress(RuntimeError):  # an interrupt came before its start
                thread.join()
        with ThreadPoolExecutor(len(self._sessions)) as pool:  # each process may take a second to end
            list(pool.map(TargetSession.__exit__, self._sessions))
