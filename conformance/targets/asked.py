"""A request that a process is asked while it has nothing else to do."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from conformance.cases.model import Outcome
from conformance.targets.process import TargetProcess
from conformance.targets.protocol import Silent

_OWN = 1 / 4
"""Of the time that passes, so much counts at least: a wait comes to an end on a machine that is never free."""


@dataclass(slots=True, eq=False)
class Asked:
    """A request, and since when its answer is waited for."""

    request: bytes
    number: int
    process: TargetProcess
    outcome: Outcome | None = None
    """None while it is waited for."""
    _since: float = field(init=False)
    _delay: float = field(init=False)

    def __post_init__(self) -> None:
        self._since, self._delay = time.monotonic(), self.process.delay()

    def took(self) -> float:
        """Seconds since then, without those in which other processes kept its own from running."""
        passed = time.monotonic() - self._since
        delay = max(self.process.delay() - self._delay, 0)
        return max(passed - delay, passed * _OWN)

    def line(self, timeout: float, seconds: float = math.inf) -> bytes | None:
        """The line that answers it, waited for so many `seconds`; None when none came.

        Raises Silent when that took the process more than `timeout`, and Gone or Flood.
        """
        until = time.monotonic() + seconds
        while True:
            left = max(timeout - self.took(), 0)
            try:
                return self.process.line(min(until, time.monotonic() + left))
            except Silent:
                if self.took() >= timeout:
                    raise
            if time.monotonic() >= until:
                return None
