"""A request that a process is asked while it has nothing else to do, and what stands for its outcome until it comes."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import msgspec
from msgspec import Struct

from conformance.cases.model import NoAnswer, Outcome
from conformance.process.child_process import ChildProcess
from conformance.process.errors import AnswerTimeout, TargetFailure
from conformance.targets.limits import ResourceUse
from conformance.targets.protocol import AnswerDelayed, RequestBody

_OWN = 1 / 4
"""Of the time that passes, so much counts at least: a wait comes to an end on a machine that is never free."""
_HELD = 128
"""Outcomes that are held up, at most, before the first is waited for."""
_AWAY = 0.5
"""Seconds between two looks that count as waiting."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request, and since when its answer is waited for."""

    request: RequestBody
    number: int
    process: ChildProcess
    poll: Callable[[], None] = lambda: None
    """Waits a moment for all that the same session waits for."""
    is_first: bool = True
    """Whether its process was asked nothing before."""
    outcome: Outcome | None = None
    """None while it is waited for."""
    is_blamed: bool = False
    """Whether its process broke down over it."""
    was_aside: bool = False
    """Whether it was waited for while others were asked."""
    follows: bool = False
    """Whether it is waited for beside a request of its kin, which has more of the cores."""
    _held: int | None = field(init=False)
    """Bytes of memory that its process held when it was asked, where that is measured."""
    _frozen: float | None = None
    """Since when its process stands still; None while it runs."""
    _since: float = field(init=False)
    _delay: float = field(init=False)
    _left: float = field(init=False)
    """When we turned to something else."""

    def __post_init__(self) -> None:
        self._since = self._left = time.monotonic()
        self._delay = self.process.cpu_wait_s()
        self._held = self.process.start_measuring() if self.request.measured_bytes else None

    def counted_s(self) -> float:
        """Seconds since then, without those in which other processes kept its own from running."""
        return max(self.cpu_available_s(), self.elapsed_s() * _OWN)

    def deadline_s(self) -> float:
        """Seconds as they count against a deadline: those by the clock on the wall, but at most twice its own."""
        return max(self.counted_s(), min(self.elapsed_s(), 2 * self.cpu_available_s()))

    def cost(self) -> ResourceUse:
        """What it took so far."""
        return ResourceUse(self.counted_s(), self.process.memory_growth(self._held))

    def cpu_available_s(self) -> float:
        """Seconds since then that were its own: it ran, or waited for something other than a core."""
        return self.elapsed_s() - max(self.process.cpu_wait_s() - self._delay, 0)

    def elapsed_s(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self._since

    def suspend(self) -> None:
        """Let its process stand still."""
        if self._frozen is None:
            self._frozen = time.monotonic()
            self.process.suspend()

    def resume(self) -> None:
        """Let its process go on; the time in which it stood still is not its own, and has not passed for it."""
        if self._frozen is not None:
            self._since += time.monotonic() - self._frozen
            self._frozen = None
            self.process.suspend(thaw=True)

    def awaited(self) -> Outcome:
        """The outcome, which is waited for; only once its session has nothing else to do."""
        while self.outcome is None:
            self.poll()
        return self.outcome

    def line(self, timeout: float, seconds: float = math.inf) -> bytes | None:
        """The line that answers it, waited for so many `seconds`; None when none came.

        Raises AnswerTimeout when that took the process more than `timeout`, and Gone or Flood.
        """
        self._return()
        try:
            return self._line(timeout, time.monotonic() + seconds)
        finally:
            self._left = time.monotonic()

    def _return(self) -> None:
        """Do not count the time in which we did other things for long: a long answer may have waited to be read."""
        away = time.monotonic() - self._left
        if away > _AWAY:
            self._since += away

    def _line(self, timeout: float, until: float) -> bytes | None:
        while True:
            left = max(timeout - self.deadline_s(), 0)
            try:
                return self.process.line(min(until, time.monotonic() + left))
            except AnswerTimeout:
                if self.deadline_s() >= timeout:
                    raise
            if time.monotonic() >= until:
                return None


def ordered(runs: Iterable[Sequence[Outcome | PendingRequest]]) -> Iterator[Sequence[Outcome]]:
    """The outcomes themselves, as many at once as are there: one that is not there yet holds up those behind it."""
    held: deque[Outcome | PendingRequest] = deque()
    for run in runs:
        held.extend(run)
        there = _completed(held)
        if len(held) >= _HELD:
            there += [_awaited(held.popleft()), *_completed(held)]
        if there:
            yield there
    while held:
        yield [_awaited(held.popleft()), *_completed(held)]


def _completed(held: deque[Outcome | PendingRequest]) -> list[Outcome]:
    """The first of them, as far as they are there, taken away."""
    there = []
    while held and (outcome := outcome_of_asked(held[0])) is not None:
        there.append(outcome)
        held.popleft()
    return there


def _awaited(outcome: Outcome | PendingRequest) -> Outcome:
    return outcome.awaited() if isinstance(outcome, PendingRequest) else outcome


def outcome_of_asked(outcome: Outcome | PendingRequest) -> Outcome | None:
    """The outcome itself; None while it is waited for."""
    return outcome.outcome if isinstance(outcome, PendingRequest) else outcome


def reproduces(outcome: Outcome | PendingRequest, fault: TargetFailure) -> bool:
    """Whether a request that was asked alone did what its window did."""
    return isinstance(outcome, PendingRequest) and (
        outcome.is_blamed or (outcome.was_aside and isinstance(fault, AnswerDelayed))
    )


class LazyRequestQueue(deque[RequestBody]):
    """Requests to be sent, each of which is made when the one before it was taken: some are large."""

    def __init__(self, requests: Iterable[RequestBody]) -> None:
        super().__init__()
        self._more = iter(requests)

    def __bool__(self) -> bool:
        if not len(self):
            self.extend(islice(self._more, 1))
        return len(self) > 0


MAX_PENDING_PROCESSES = 4
"""Processes that are waited for at once, at most."""
POLL_S, _LONG = 0.05, 1.0
"""Seconds that each of them is waited for in turn; while a long answer comes."""
_AT_LEAST, _AT_MOST = 0.25, 12
"""Seconds of its own that a request which follows another one has at least, unless so many times its time passes."""

_BESIDE = "; another case of this requirement was waited for at the same time, had the cores first, and got no answer"


class SlowRequests(Struct):
    """What a session waits for.

    The first request of a kin leads: it has its time on the cores. Those that follow it leave the cores to others, and
    when it was waited for in vain they have had their time by the clock on the wall, and some of it on a core. More of
    that they get only when the first one answers: until it is known they stand still.
    """

    timeout: float
    finish: Callable[[PendingRequest, float, float], bool]
    """Waits for a request, which has so many seconds on a core, for so many seconds; whether it broke down."""
    blame: Callable[[Exception, RequestBody], NoAnswer]
    """Counts a fault: what the request that caused it came to."""
    waited_for: list[PendingRequest] = msgspec.field(default_factory=list)
    _silent: set[str] = msgspec.field(default_factory=set)
    """Kin of which one request had all of its time, alone, and was not answered."""

    def add(self, asked: PendingRequest) -> None:
        """Wait for a request, too."""
        asked.was_aside, asked.follows = True, self._is_led(asked.request)
        if asked.follows:
            asked.process.lower_priority()
        self.waited_for.append(asked)

    def mark_timed_out(self, asked: PendingRequest) -> None:
        """Remember a request that had all of its time."""
        if asked.request.timeout_group:
            self._silent.add(asked.request.timeout_group)

    def poll(self, seconds: float = POLL_S) -> None:
        """Wait so long for each; the processes of those that have answered or broken down are ended."""
        for asked in [*self.waited_for]:
            wait = _LONG if asked.process.is_answering else seconds
            if not asked.follows:
                self.finish(asked, self.timeout, wait)
            elif asked.request.timeout_group in self._silent and self._is_over(asked):
                broke = self.blame(AnswerTimeout(), asked.request)
                asked.is_blamed, asked.outcome = True, replace(broke, detail=f"{broke.detail}{_BESIDE}")
            else:
                self._follow(asked, wait)
            if asked.outcome is not None:
                self.waited_for.remove(asked)
                asked.process.close()

    def close(self) -> None:
        """End the processes."""
        while self.waited_for:
            self.waited_for.pop().process.close()

    def _follow(self, asked: PendingRequest, seconds: float) -> None:
        """Wait for a request of whose kin another is waited for, or was in vain."""
        is_led = self._is_led(asked.request)
        if not is_led:
            asked.resume()
        self.finish(asked, math.inf if is_led else self.timeout, seconds)
        if is_led and asked.outcome is None and asked.cpu_available_s() >= _AT_LEAST and not asked.process.is_answering:
            asked.suspend()

    def _is_over(self, asked: PendingRequest) -> bool:
        passed = asked.elapsed_s()
        return passed >= self.timeout and (asked.cpu_available_s() >= _AT_LEAST or passed >= _AT_MOST * self.timeout)

    def _is_led(self, request: RequestBody) -> bool:
        return bool(request.timeout_group) and (
            request.timeout_group in self._silent or self._has_leader(request.timeout_group)
        )

    def _has_leader(self, kin: str) -> bool:
        return any(asked.request.timeout_group == kin and not asked.follows for asked in self.waited_for)
