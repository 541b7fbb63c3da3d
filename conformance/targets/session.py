"""Sends requests to a target, and charges every answer, death and silence to the request that caused it.

Requests are pipelined: several are in flight at once, which is the window. When the target dies or falls silent, it is
started again and gets the unanswered requests one at a time; the request that brings it down again is to blame. A
process that does not answer its one request soon is waited for while others are asked the next ones. If no request
brings the target down alone, the whole window is replayed once, and the last request sent is blamed, with a remark that
says so. A silence that the replay does not repeat blames no request: a busy machine makes any target late. No request
is sent again after that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

from conformance.cases.model import Broke, Outcome, Unsupported
from conformance.errors import TargetError
from conformance.targets import protocol
from conformance.targets.asked import Asked
from conformance.targets.faults import Faults, kind_of, outcome_of
from conformance.targets.held import held
from conformance.targets.launch import Launch
from conformance.targets.process import FAREWELL, TargetProcess
from conformance.targets.protocol import WINDOW, Breakdown, Description, Flood, Gone, ProtocolError, Silent
from conformance.targets.warm import CannotFork, WarmStart

_STARTS = 3
_DESCRIBE = protocol.body({"op": "describe", "protocol": protocol.PROTOCOL})
_SLOW_BYTES = 200_000
"""For each so many bytes of the request an answer may take a second more."""
_LAST_PATIENCE = 15.0
"""Seconds in which a target ends whose end is looked at: a large one on a busy machine needs some."""
_PROMPT = 0.5
"""Seconds that a request asked alone keeps the next one waiting."""
_ASIDE = 4
"""Processes that are waited for at once, at most."""
_GLANCE = 0.05
"""Seconds that each of them is waited for in turn."""


class CannotStart(TargetError):
    """A target that could not be started or described; the message is one line."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a target is allowed: seconds per answer and for the start, bytes of memory, and when it is `slow`."""

    timeout: float = 5.0
    startup: float = 30.0
    memory: int = 1024 * 2**20
    slow: float = 1.0


@dataclass(slots=True)
class Session:
    """A conversation with one target over as many processes as it takes."""

    launch: Launch
    allowance: Allowance = field(default_factory=Allowance)
    warm: WarmStart | None = None
    """What starts it again once it has been started as a program; None: it is started as a program each time."""
    _process: TargetProcess | None = None
    _description: Description | None = None
    _number: int = 0
    _aside: list[Asked] = field(default_factory=list)
    """What is waited for, each in a process of its own."""
    faults: Faults = field(default_factory=Faults)
    _breakdowns: int = 0
    """Requests that were blamed for what ended a process."""
    _asks_again: bool = True
    """Whether a slow answer is asked for again, elsewhere."""
    _aborted: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish(patience=FAREWELL)

    def describe(self) -> Description:
        """What the target says of itself. Raises CannotStart."""
        self._ensure()
        assert self._description is not None
        return self._description

    def ask(self, requests: Iterable[bytes]) -> Iterator[Outcome]:
        """The outcomes of requests (bodies without id), in their order. Raises CannotStart."""
        queue = protocol.Waiting(requests)
        while queue:
            if self.faults.gave_up:
                yield Unsupported(self.faults.gave_up)
                queue.popleft()
                continue
            window: list[bytes] = []
            try:
                yield from self._pipeline(queue, window)
            except Breakdown as fault:
                yield from self._settle(window, fault)

    def forget_faults(self) -> None:
        """Start counting faults anew, and ask on where the target was given up."""
        self.faults = Faults()

    def finish(self, *, patience: float = _LAST_PATIENCE) -> int | None:
        """End its input, and it with that: the status it exits with, None when it has to be killed."""
        while self._aside:
            self._aside.pop().process.close()
        process, self._process = self._process, None
        return process.close(kindly=True, patience=patience) if process is not None else None

    def abort(self) -> None:
        """End it from another thread: a thread that waits for an answer gets an error at once."""
        self._aborted = True
        for process in (self._process, *(asked.process for asked in self._aside)):
            if process is not None:
                process.kill()

    # --- a process ----------------------------------------------------------------------------------

    def _ensure(self, *, alive: bool = False) -> TargetProcess:
        if alive and self._process is not None and not self._process.alive:
            # It ended after its last answer: no request is to blame, and the next one must not be.
            self._end()
        if self._process is None:
            self._start()
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        problem = ""
        for _ in range(_STARTS):
            if self._aborted:
                raise CannotStart(f"{self.launch.name}: stopped")
            try:
                self._process = self._begun()
            except OSError as error:
                raise CannotStart(f"{self.launch.name}: {self.launch.command[0]}: {error.strerror}") from None
            if self._aborted:
                # Between the look above and now: `abort` may not have seen this process.
                self._process.kill()
            problem = self._introduce()
            if not problem:
                return
            self._end()
            if self.warm is not None:
                self.warm.decline()
        raise CannotStart(f"{self.launch.name} could not be started in {_STARTS} attempts: {problem}")

    def _introduce(self) -> str:
        """Let it describe itself: what kept it from that, else nothing. Raises CannotStart."""
        assert self._process is not None
        self._number += 1
        self._process.send(protocol.with_id(self._number, _DESCRIBE))
        try:
            line = self._process.line(time.monotonic() + self.allowance.startup)
            self._description = protocol.description(protocol.fields(line, self._number))
        except ProtocolError as error:
            self._end()
            raise CannotStart(f"{self.launch.name} was not described: {error}") from None
        except Gone as gone:
            return gone.detail
        except Silent:
            return f"no answer to describe within {self.allowance.startup:g} s"
        except Flood as flood:
            return f"describe: {flood}"
        return ""

    def _begun(self) -> TargetProcess:
        """A new process. Raises OSError."""
        if self.warm is not None and self._description is not None:
            with suppress(CannotFork):
                return self.warm.process(self.allowance.memory)
        return TargetProcess(self.launch, self.allowance.memory)

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    # --- asking -------------------------------------------------------------------------------------

    def _pipeline(self, queue: deque[bytes], window: list[bytes], *, fair: bool = False) -> Iterator[Outcome]:
        """Ask until the queue is empty; `window` always holds what is unanswered.

        `fair`: the time that other processes take of an answer does not count, which costs more to find out.
        """
        numbers: deque[int] = deque()
        while window or queue:
            process = self._ensure(alive=not window)
            if len(window) <= WINDOW // 2 and queue:  # many at once: a write costs as much as judging an answer
                joining = list(protocol.fitting(queue, window))
                window += joining
                joined = range(self._number + 1, self._number + 1 + len(joining))
                numbers.extend(joined)
                self._number += len(joining)
                if joining:
                    process.send(b"".join(map(protocol.with_id, joined, joining)))
            asked = time.monotonic()
            patience = self.allowance.timeout
            line = (Asked(b"", 0, process).line(patience) if fair else None) or process.line(asked + patience)
            took = time.monotonic() - asked
            outcome = self._answered(line, numbers.popleft())
            yield self._if_slow(window.pop(0), took) or outcome

    def _answered(self, line: bytes, number: int) -> Outcome:
        """What the line says that is due for a request. Raises ProtocolError."""
        outcome = held(len(line), lambda: protocol.outcome(protocol.fields(line, number), len(line)))
        self.faults.mute = False
        return outcome

    def _if_slow(self, request: bytes, took: float) -> Broke | None:
        """A fault where an answer took far too long, and again takes too long in another process, warm and idle."""
        allowed = self.allowance.slow + len(request) / _SLOW_BYTES
        if took <= allowed or self._aborted or not self._asks_again or self.faults.left("slow") <= 0:
            return None
        self.faults.add("slow")
        with Session(self.launch, self.allowance, _asks_again=False) as other:
            if any(isinstance(outcome, Broke) for outcome in other.ask([request])):
                return None
            asked = Asked(request, 0, other._ensure())
            list(other.ask([request]))
            again = asked.took()
        if again <= allowed:
            return None
        return Broke("slow", f"took {took:.1f} s, and {again:.1f} s when asked again, for {len(request) // 2} bytes")

    def _settle(self, window: list[bytes], fault: Exception) -> Iterator[Outcome]:
        """The outcomes of a window in which the target broke down."""
        self._end()
        if not window:
            return
        last: Outcome | None = None
        before = self._breakdowns
        try:
            for outcome in self._one_by_one(window):
                if last is not None:
                    yield last
                last = outcome
        except CannotStart:
            # It does not start again: only the requests in flight when it broke down can be blamed.
            yield last or self._blame(fault, window[0])
            raise
        if self._breakdowns == before:
            again = self._replay(window)
            if again or not isinstance(fault, Silent):
                last = self._blame(fault, window[-1], last=True, again=again)
            else:
                self.faults.count("silence")
        assert last is not None
        yield last

    def _one_by_one(self, window: Sequence[bytes]) -> Iterator[Outcome]:
        """The outcomes of requests that are asked one at a time. Raises CannotStart."""
        asked: deque[Outcome | Asked] = deque()
        cannot_start: CannotStart | None = None
        for request in window:
            try:
                asked.append(self._alone(request))
            except CannotStart as error:
                cannot_start = error
                break
            while asked and (outcome := _outcome(asked[0])) is not None:
                yield outcome
                asked.popleft()
        while self._aside:
            self._look_aside(_GLANCE)
        yield from filter(None, map(_outcome, asked))
        if cannot_start is not None:
            raise cannot_start

    def _alone(self, request: bytes) -> Outcome | Asked:
        """Put a request to a process that has nothing else to do; it has no outcome yet where none comes soon.

        Raises CannotStart.
        """
        while len(self._aside) >= min(_ASIDE, max(self.faults.left("timeout"), 1)):
            self._look_aside(_GLANCE)  # the silence that wears out the patience is the last one
        if self.faults.gave_up:
            return Unsupported(self.faults.gave_up)
        process = self._ensure(alive=True)
        self._number += 1
        asked = Asked(request, self._number, process)
        process.send(protocol.with_id(self._number, request))
        if self._broke_down(asked, _PROMPT):
            self._end()
        elif asked.outcome is None:
            self._aside.append(asked)
            self._process = None
        self._look_aside(0)
        return asked

    def _broke_down(self, asked: Asked, seconds: float) -> bool:
        """Wait for the outcome of a request for so long; whether its process broke down."""
        try:
            line = asked.line(self.allowance.timeout, seconds)
            if line is None:
                return False
            took = asked.took()
            outcome = self._answered(line, asked.number)
        except Breakdown as fault:
            asked.outcome = self._blame(fault, asked.request)
            return True
        asked.outcome = self._if_slow(asked.request, took) or outcome
        return False

    def _look_aside(self, seconds: float) -> None:
        """Wait so long for each process that was set aside; those that have answered or broken down are ended."""
        for asked in [*self._aside]:
            self._broke_down(asked, seconds)
            if asked.outcome is not None:
                self._aside.remove(asked)
                asked.process.close()

    def _replay(self, window: list[bytes]) -> bool:
        """Whether the window brings a fresh process down again."""
        self._end()
        try:
            for _ in self._pipeline(deque(window), [], fair=True):
                pass
        except Breakdown:
            self._end()
            return True
        return False

    def _blame(self, fault: Exception, request: bytes, *, last: bool = False, again: bool = True) -> Broke:
        broke = outcome_of(fault, request, self.allowance.timeout, self.allowance.memory)
        self._breakdowns += 1
        self.faults.count(kind_of(fault, broke))
        if not last:
            return broke
        remark = " (no question does this alone: blamed on the last one sent"
        remark += ", and again when all were replayed)" if again else "; it did not happen again)"
        return replace(broke, detail=broke.detail + remark, flaky=not again)


def _outcome(asked: Outcome | Asked) -> Outcome | None:
    return asked.outcome if isinstance(asked, Asked) else asked
