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

_MIN_COUNTED_SHARE = 1 / 4
"""The minimum share of elapsed time that counts: a wait ends even on a machine that is always busy."""
_MAX_WAITING_OUTCOMES = 128
"""The maximum number of later outcomes that are kept while an earlier one is missing."""
_MAX_PAUSE_S = 0.5
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
    is_at_fault: bool = False
    """True if its process failed because of it."""
    was_pending: bool = False
    """True if other requests were sent while it was pending."""
    is_follower: bool = False
    """True if an earlier request of the same timeout group has priority on the CPU."""
    _memory_before: int | None = field(init=False)
    """The memory of its process before the request, in bytes; None if it is not measured."""
    _suspended_since: float | None = None
    """The time at which its process was suspended; None while it runs."""
    _since: float = field(init=False)
    _cpu_wait_before: float = field(init=False)
    _last_poll: float = field(init=False)
    """The time of the last poll."""

    def __post_init__(self) -> None:
        self._since = self._last_poll = time.monotonic()
        self._cpu_wait_before = self.process.cpu_wait_s()
        self._memory_before = self.process.start_measuring() if self.request.measured_bytes else None

    def counted_s(self) -> float:
        """Return the elapsed seconds, without those in which other processes kept this one from the CPU."""
        return max(self.cpu_available_s(), self.elapsed_s() * _MIN_COUNTED_SHARE)

    def deadline_s(self) -> float:
        """Return the seconds that count against a timeout: wall-clock time, at most twice the available CPU time."""
        return max(self.counted_s(), min(self.elapsed_s(), 2 * self.cpu_available_s()))

    def cost(self) -> ResourceUse:
        """Return its cost so far."""
        return ResourceUse(self.counted_s(), self.process.memory_growth(self._memory_before))

    def cpu_available_s(self) -> float:
        """Return the seconds in which it could run: it ran, or waited for something other than the CPU."""
        return self.elapsed_s() - max(self.process.cpu_wait_s() - self._cpu_wait_before, 0)

    def elapsed_s(self) -> float:
        """Return the seconds since the request, without suspensions."""
        return time.monotonic() - self._since

    def suspend(self) -> None:
        """Suspend its process."""
        if self._suspended_since is None:
            self._suspended_since = time.monotonic()
            self.process.suspend()

    def resume(self) -> None:
        """Continue its process; the suspension does not count as elapsed time."""
        if self._suspended_since is not None:
            self._since += time.monotonic() - self._suspended_since
            self._suspended_since = None
            self.process.suspend(thaw=True)

    def wait(self) -> Outcome:
        """Wait for the outcome; only possible when the session has nothing else to do."""
        while self.outcome is None:
            self.poll()
        return self.outcome

    def line(self, timeout: float, seconds: float = math.inf) -> bytes | None:
        """Wait up to `seconds` for the answer's line; return None if it has not arrived.

        Raises AnswerTimeout after `timeout` seconds of the process, TargetExited or OutputTooLong.
        """
        self._skip_pause()
        try:
            return self._line(timeout, time.monotonic() + seconds)
        finally:
            self._last_poll = time.monotonic()

    def _skip_pause(self) -> None:
        """Do not count a long pause since the last poll: a long answer may have waited in the pipe."""
        pause = time.monotonic() - self._last_poll
        if pause > _MAX_PAUSE_S:
            self._since += pause

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
    waiting: deque[Outcome | PendingRequest] = deque()
    for run in runs:
        waiting.extend(run)
        completed = _completed(waiting)
        if len(waiting) >= _MAX_WAITING_OUTCOMES:
            completed += [_awaited(waiting.popleft()), *_completed(waiting)]
        if completed:
            yield completed
    while waiting:
        yield [_awaited(waiting.popleft()), *_completed(waiting)]


def _completed(waiting: deque[Outcome | PendingRequest]) -> list[Outcome]:
    """Remove and return the first outcomes, up to the first missing one."""
    completed = []
    while waiting and (outcome := outcome_or_none(waiting[0])) is not None:
        completed.append(outcome)
        waiting.popleft()
    return completed


def _awaited(outcome: Outcome | PendingRequest) -> Outcome:
    return outcome.wait() if isinstance(outcome, PendingRequest) else outcome


def outcome_or_none(outcome: Outcome | PendingRequest) -> Outcome | None:
    """Return the outcome; None while the answer is missing."""
    return outcome.outcome if isinstance(outcome, PendingRequest) else outcome


def reproduces(outcome: Outcome | PendingRequest, fault: TargetFailure) -> bool:
    """Return whether a request that was sent alone repeated the fault of its window."""
    return isinstance(outcome, PendingRequest) and (
        outcome.is_at_fault or (outcome.was_pending and isinstance(fault, AnswerDelayed))
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
POLL_S, _LONG_ANSWER_POLL_S = 0.05, 1.0
"""Seconds of each poll: while there is no answer; while a long answer arrives."""
_FOLLOWER_MIN_CPU_S, _FOLLOWER_MAX_TIMEOUTS = 0.25, 12
"""Limits of a follower: its minimum seconds of available CPU time, unless this number of timeouts has elapsed."""

_FOLLOWER_REMARK = "; another case of this requirement ran at the same time with priority, and got no answer either"


class SlowRequests(Struct):
    """The pending requests of a session.

    A timeout group contains requests that probably time out together. The first pending request of a group is the
    leader and runs normally. The later ones are followers and run at low priority. If the leader times out, its
    followers time out after the same wall-clock time and a minimum of CPU time. A follower gets more CPU time only if
    the leader answers; until then it is suspended after the minimum.
    """

    timeout: float
    wait_for: Callable[[PendingRequest, float, float], bool]
    """Waits for a request (arguments: timeout and length of this wait, in seconds); returns whether its process
    failed."""
    record_fault: Callable[[Exception, RequestBody], NoAnswer]
    """Counts a fault; returns the outcome of the request that caused it."""
    requests: list[PendingRequest] = msgspec.field(default_factory=list)
    _timed_out_groups: set[str] = msgspec.field(default_factory=set)
    """Groups of which one request timed out with full CPU priority."""

    def add(self, pending: PendingRequest) -> None:
        """Add a request whose answer did not arrive soon."""
        pending.was_pending, pending.is_follower = True, self._has_leader(pending.request)
        if pending.is_follower:
            pending.process.lower_priority()
        self.requests.append(pending)

    def mark_timed_out(self, pending: PendingRequest) -> None:
        """Record the group of a request that timed out."""
        if pending.request.timeout_group:
            self._timed_out_groups.add(pending.request.timeout_group)

    def poll(self, seconds: float = POLL_S) -> None:
        """Wait for each request in turn; end the processes of those that answered or failed."""
        for pending in [*self.requests]:
            wait = _LONG_ANSWER_POLL_S if pending.process.is_answering else seconds
            if not pending.is_follower:
                self.wait_for(pending, self.timeout, wait)
            elif pending.request.timeout_group in self._timed_out_groups and self._is_over(pending):
                timeout = self.record_fault(AnswerTimeout(), pending.request)
                pending.is_at_fault, pending.outcome = True, replace(timeout, detail=timeout.detail + _FOLLOWER_REMARK)
            else:
                self._poll_follower(pending, wait)
            if pending.outcome is not None:
                self.requests.remove(pending)
                pending.process.close()

    def close(self) -> None:
        """End the processes."""
        while self.requests:
            self.requests.pop().process.close()

    def _poll_follower(self, pending: PendingRequest, seconds: float) -> None:
        """Wait for a follower. It gets a full timeout when its leader is gone."""
        has_leader = self._has_leader(pending.request)
        if not has_leader:
            pending.resume()
        self.wait_for(pending, math.inf if has_leader else self.timeout, seconds)
        if (
            has_leader
            and pending.outcome is None
            and pending.cpu_available_s() >= _FOLLOWER_MIN_CPU_S
            and not pending.process.is_answering
        ):
            pending.suspend()

    def _is_over(self, pending: PendingRequest) -> bool:
        passed = pending.elapsed_s()
        return passed >= self.timeout and (
            pending.cpu_available_s() >= _FOLLOWER_MIN_CPU_S or passed >= _FOLLOWER_MAX_TIMEOUTS * self.timeout
        )

    def _has_leader(self, request: RequestBody) -> bool:
        return bool(request.timeout_group) and (
            request.timeout_group in self._timed_out_groups or self._has_pending_leader(request.timeout_group)
        )

    def _has_pending_leader(self, group: str) -> bool:
        return any(pending.request.timeout_group == group and not pending.is_follower for pending in self.requests)
