"""A target that runs as one or several processes at once, each of which answers a share of the cases."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from conformance.cases.model import Case, Outcome
from conformance.targets import protocol
from conformance.targets.process import Launch
from conformance.targets.session import Allowance, Session

_SHARE = 128
"""Cases that a process takes from the queue at a time."""

_Answers = queue.SimpleQueue[Outcome | Exception]


class ProcessTarget:
    """A target that is started by a command. The first process also describes it."""

    def __init__(self, launch: Launch, allowance: Allowance, jobs: int) -> None:
        """Nothing is started yet; `jobs` is the most processes at once."""
        self._launch, self._allowance, self._jobs = launch, allowance, jobs
        self._first = Session(launch, allowance)
        self._sessions = [self._first]
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()

    def describe(self) -> protocol.Description:
        """What the target says of itself. Raises CannotStart."""
        return self._first.describe()

    def ask(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """The outcomes of cases, in their order. Raises CannotStart."""
        requests = [protocol.body(case.request) for case in cases]
        shares = [requests[at : at + _SHARE] for at in range(0, len(requests), _SHARE)]
        workers = min(self._jobs, len(shares))
        return self._first.ask(requests) if workers <= 1 else self._spread(shares, workers)

    def _spread(self, shares: list[list[bytes]], workers: int) -> Iterator[Outcome]:
        """Whichever session is free takes the next share; the outcomes come in the order of the shares."""
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(shares)):
            todo.put(number)
        answers: list[_Answers] = [queue.SimpleQueue() for _ in shares]
        self._sessions += [Session(self._launch, self._allowance) for _ in range(workers - 1)]
        for session in self._sessions:
            thread = threading.Thread(target=self._work, args=(session, todo, shares, answers), daemon=True)
            # In this order: an interrupt may come in between, and `close` must know of it.
            self._threads.append(thread)
            thread.start()
        for share, given in zip(shares, answers, strict=True):
            for _ in share:
                answer = _awaited(given)
                if isinstance(answer, Exception):
                    raise answer
                yield answer

    def _work(
        self,
        session: Session,
        todo: queue.SimpleQueue[int],
        shares: list[list[bytes]],
        answers: list[_Answers],
    ) -> None:
        with session, suppress(queue.Empty):
            while not self._stop.is_set():
                number = todo.get_nowait()
                try:
                    for outcome in session.ask(shares[number]):
                        answers[number].put(outcome)
                except Exception as error:  # noqa: BLE001 - handed to the thread that waits for this share
                    answers[number].put(error)

    def forget_faults(self) -> None:
        """Start counting faults anew, in every process."""
        for session in self._sessions:
            session.forget_faults()

    def close(self) -> None:
        """End every process, and the threads that talk to them."""
        self._stop.set()
        for session in self._sessions if self._threads else ():
            session.abort()
        for thread in self._threads:
            with suppress(RuntimeError):  # an interrupt kept it from starting
                thread.join()
        self._first.__exit__()


def _awaited(answers: _Answers) -> Outcome | Exception:
    """The next answer; wakes up now and then, as a signal just before an endless wait would not be seen."""
    while True:
        with suppress(queue.Empty):
            return answers.get(timeout=0.5)
