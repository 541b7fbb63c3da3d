"""Requests without an answer yet: each is the only request of its process."""

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
"""The minimum share of elapsed time that counts: a wait ends even on a machine that is always busy."""
_HELD = 128
"""The maximum number of later outcomes that are kept while an earlier one is missing."""
_AWAY = 0.5
"""The pause between two polls, in seconds, above which it does not count as waiting."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request whose answer is missing, with the clock of its wait."""

    request: RequestBody
    number: int
    process: ChildProcess
    poll: Callable[[], None] = lambda: None
    """Waits a short time for all pending requests of the session."""
    is_first: bool = True
    """True if its process got no earlier request."""
    outcome: Outcome | None = None
    """The result; None while the answer is missing."""
    is_blamed: bool = False
    """True if its process failed because of it."""
    was_aside: bool = False
    """True if other requests were sent while it was pending."""
    follows: bool = False
    """True if an earlier request of the same timeout group has priority on the CPU."""
    _held: int | None = field(init=False)
    """The memory of its process before the request, in bytes; None if it is not measured."""
    _frozen: float | None = None
    """The time at which its process was suspended; None while it runs."""
    _since: float = field(init=False)
    _delay: float = field(init=False)
    _left: float = field(init=False)
    """The time of the last poll."""

    def __post_init__(self) -> None:
        self._since = self._left = time.monotonic()
        self._delay = self.process.cpu_wait_s()
        self._held = self.process.start_measuring() if self.request.measured_bytes else None

    def counted_s(self) -> float:
        """Return the elapsed seconds, without those in which other processes kept this one from the CPU."""
        return max(self.cpu_available_s(), self.elapsed_s() * _OWN)

    def deadline_s(self) -> float:
        """Return the seconds that count against a timeout: wall-clock time, at most twice the available CPU time."""
        return max(self.counted_s(), min(self.elapsed_s(), 2 * self.cpu_available_s()))

    def cost(self) -> ResourceUse:
        """Return its cost so far."""
        return ResourceUse(self.counted_s(), self.process.memory_growth(self._held))

    def cpu_available_s(self) -> float:
        """Return the seconds in which it could run: it ran, or waited for something other than the CPU."""
        return self.elapsed_s() - max(self.process.cpu_wait_s() - self._delay, 0)

    def elapsed_s(self) -> float:
        """Return the seconds since the request, without suspensions."""
        return time.monotonic() - self._since

    def suspend(self) -> None:
        """Suspend its process."""
        if self._frozen is None:
            self._frozen = time.monotonic()
            self.process.suspend()

    def resume(self) -> None:
        """Continue its process; the suspension does not count as elapsed time."""
        if self._frozen is not None:
            self._since += time.monotonic() - self._frozen
            self._frozen = None
            self.process.suspend(thaw=True)

    def awaited(self) -> Outcome:
        """Wait for the outcome; only possible when the session has nothing else to do."""
        while self.outcome is None:
            self.poll()
        return self.outcome

    def line(self, timeout: float, seconds: float = math.inf) -> bytes | None:
        """Wait up to `seconds` for the answer's line; return None if there is none yet.

        Raises AnswerTimeout after `timeout` seconds of the process, TargetExited or OutputTooLong.
        """
        self._return()
        try:
            return self._line(timeout, time.monotonic() + seconds)
        finally:
            self._left = time.monotonic()

    def _return(self) -> None:
        """Do not count a long pause since the last poll: a long answer may have waited in the pipe."""
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
    """Yield the outcomes in order, as many at once as possible: a missing outcome delays the later ones."""
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
    """Remove and return the first outcomes, up to the first missing one."""
    there = []
    while held and (outcome := outcome_of_asked(held[0])) is not None:
        there.append(outcome)
        held.popleft()
    return there


def _awaited(outcome: Outcome | PendingRequest) -> Outcome:
    return outcome.awaited() if isinstance(outcome, PendingRequest) else outcome


def outcome_of_asked(outcome: Outcome | PendingRequest) -> Outcome | None:
    """Return the outcome; None while the answer is missing."""
    return outcome.outcome if isinstance(outcome, PendingRequest) else outcome


def reproduces(outcome: Outcome | PendingRequest, fault: TargetFailure) -> bool:
    """Return whether a request that was sent alone repeated the fault of its window."""
    return isinstance(outcome, PendingRequest) and (
        outcome.is_blamed or (outcome.was_aside and isinstance(fault, AnswerDelayed))
    )


class LazyRequestQueue(deque[RequestBody]):
    """A queue of requests that makes each one when it is needed: some are large."""

    def __init__(self, requests: Iterable[RequestBody]) -> None:
        super().__init__()
        self._more = iter(requests)

    def __bool__(self) -> bool:
        if not len(self):
            self.extend(islice(self._more, 1))
        return len(self) > 0


MAX_PENDING_PROCESSES = 4
"""The maximum number of processes with a pending request."""
POLL_S, _LONG = 0.05, 1.0
"""Seconds of each poll: while there is no answer; while a long answer arrives."""
_AT_LEAST, _AT_MOST = 0.25, 12
"""Limits of a follower: its minimum seconds of available CPU time, unless this number of timeouts has elapsed."""

_BESIDE = "; another case of this requirement was waited for at the same time, had the cores first, and got no answer"


class SlowRequests(Struct):
    """The pending requests of a session.

    A timeout group contains requests that probably time out together. The first pending request of a group is the
    leader and runs normally. The later ones are followers and run at low priority. If the leader times out, its
    followers time out after the same wall-clock time and a minimum of CPU time. A follower gets more CPU time only if
    the leader answers; until then it is suspended after the minimum.
    """

    timeout: float
    finish: Callable[[PendingRequest, float, float], bool]
    """Waits for a request (arguments: timeout and length of this wait, in seconds); returns whether its process
    failed."""
    blame: Callable[[Exception, RequestBody], NoAnswer]
    """Counts a fault; returns the outcome of the request that caused it."""
    waited_for: list[PendingRequest] = msgspec.field(default_factory=list)
    _silent: set[str] = msgspec.field(default_factory=set)
    """Groups of which one request timed out with full CPU priority."""

    def add(self, asked: PendingRequest) -> None:
        """Add a request whose answer did not arrive soon."""
        asked.was_aside, asked.follows = True, self._is_led(asked.request)
        if asked.follows:
            asked.process.lower_priority()
        self.waited_for.append(asked)

    def mark_timed_out(self, asked: PendingRequest) -> None:
        """Record the group of a request that timed out."""
        if asked.request.timeout_group:
            self._silent.add(asked.request.timeout_group)

    def poll(self, seconds: float = POLL_S) -> None:
        """Wait for each request in turn; end the processes of those that answered or failed."""
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
        """Wait for a follower. It gets a full timeout when its leader is gone."""
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
