"""A request that a process is asked while it has nothing else to do, and what stands for its outcome until it comes."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from conformance.cases.model import Outcome
from conformance.process.child_process import TargetProcess
from conformance.process.errors import Breakdown, Silent
from conformance.targets.proportion import Cost
from conformance.targets.protocol import Body, Late

_OWN = 1 / 4
"""Of the time that passes, so much counts at least: a wait comes to an end on a machine that is never free."""
_HELD = 128
"""Outcomes that are held up, at most, before the first is waited for."""
_AWAY = 0.5
"""Seconds between two looks that count as waiting."""


@dataclass(slots=True, eq=False)
class Asked:
    """A request, and since when its answer is waited for."""

    request: Body
    number: int
    process: TargetProcess
    look: Callable[[], None] = lambda: None
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
        self._delay = self.process.delay()
        self._held = self.process.mark() if self.request.bulk else None

    def took(self) -> float:
        """Seconds since then, without those in which other processes kept its own from running."""
        return max(self.own(), self.passed() * _OWN)

    def _waited(self) -> float:
        """Seconds as they count against a deadline: those by the clock on the wall, but at most twice its own."""
        return max(self.took(), min(self.passed(), 2 * self.own()))

    def cost(self) -> Cost:
        """What it took so far."""
        return Cost(self.took(), self.process.grown(self._held))

    def own(self) -> float:
        """Seconds since then that were its own: it ran, or waited for something other than a core."""
        return self.passed() - max(self.process.delay() - self._delay, 0)

    def passed(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self._since

    def freeze(self) -> None:
        """Let its process stand still."""
        if self._frozen is None:
            self._frozen = time.monotonic()
            self.process.freeze()

    def thaw(self) -> None:
        """Let its process go on; the time in which it stood still is not its own, and has not passed for it."""
        if self._frozen is not None:
            self._since += time.monotonic() - self._frozen
            self._frozen = None
            self.process.freeze(thaw=True)

    def awaited(self) -> Outcome:
        """The outcome, which is waited for; only once its session has nothing else to do."""
        while self.outcome is None:
            self.look()
        return self.outcome

    def line(self, timeout: float, seconds: float = math.inf) -> bytes | None:
        """The line that answers it, waited for so many `seconds`; None when none came.

        Raises Silent when that took the process more than `timeout`, and Gone or Flood.
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
            left = max(timeout - self._waited(), 0)
            try:
                return self.process.line(min(until, time.monotonic() + left))
            except Silent:
                if self._waited() >= timeout:
                    raise
            if time.monotonic() >= until:
                return None


def in_order(runs: Iterable[Sequence[Outcome | Asked]]) -> Iterator[Sequence[Outcome]]:
    """The outcomes themselves, as many at once as are there: one that is not there yet holds up those behind it."""
    held: deque[Outcome | Asked] = deque()
    for run in runs:
        held.extend(run)
        there = _there(held)
        if len(held) >= _HELD:
            there += [_awaited(held.popleft()), *_there(held)]
        if there:
            yield there
    while held:
        yield [_awaited(held.popleft()), *_there(held)]


def _there(held: deque[Outcome | Asked]) -> list[Outcome]:
    """The first of them, as far as they are there, taken away."""
    there = []
    while held and (outcome := outcome_of_asked(held[0])) is not None:
        there.append(outcome)
        held.popleft()
    return there


def _awaited(outcome: Outcome | Asked) -> Outcome:
    return outcome.awaited() if isinstance(outcome, Asked) else outcome


def outcome_of_asked(outcome: Outcome | Asked) -> Outcome | None:
    """The outcome itself; None while it is waited for."""
    return outcome.outcome if isinstance(outcome, Asked) else outcome


def explains(outcome: Outcome | Asked, fault: Breakdown) -> bool:
    """Whether a request that was asked alone did what its window did."""
    return isinstance(outcome, Asked) and (outcome.is_blamed or (outcome.was_aside and isinstance(fault, Late)))


class Waiting(deque[Body]):
    """Requests to be sent, each of which is made when the one before it was taken: some are large."""

    def __init__(self, requests: Iterable[Body]) -> None:
        super().__init__()
        self._more = iter(requests)

    def __bool__(self) -> bool:
        if not len(self):
            self.extend(islice(self._more, 1))
        return len(self) > 0
