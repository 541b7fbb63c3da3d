"""Requests that a target keeps silent about, each waited for in a process of its own while others are asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import msgspec
from msgspec import Struct

from conformance.cases.model import Broke
from conformance.process.errors import Silent
from conformance.targets.asked import Asked
from conformance.targets.protocol import Body

MOST = 4
"""Processes that are waited for at once, at most."""
GLANCE, _LONG = 0.05, 1.0
"""Seconds that each of them is waited for in turn; while a long answer comes."""
_AT_LEAST, _AT_MOST = 0.25, 12
"""Seconds of its own that a request which follows another one has at least, unless so many times its time passes."""

_BESIDE = "; another case of this requirement was waited for at the same time, had the cores first, and got no answer"


class Aside(Struct):
    """What a session waits for.

    The first request of a kin leads: it has its time on the cores. Those that follow it leave the cores to others, and
    when it was waited for in vain they have had their time by the clock on the wall, and some of it on a core. More of
    that they get only when the first one answers: until it is known they stand still.
    """

    timeout: float
    finish: Callable[[Asked, float, float], bool]
    """Waits for a request, which has so many seconds on a core, for so many seconds; whether it broke down."""
    blame: Callable[[Exception, Body], Broke]
    """Counts a fault: what the request that caused it came to."""
    waited_for: list[Asked] = msgspec.field(default_factory=list)
    _silent: set[str] = msgspec.field(default_factory=set)
    """Kin of which one request had all of its time, alone, and was not answered."""

    def add(self, asked: Asked) -> None:
        """Wait for a request, too."""
        asked.was_aside, asked.follows = True, self._is_led(asked.request)
        if asked.follows:
            asked.process.give_way()
        self.waited_for.append(asked)

    def count_silence(self, asked: Asked) -> None:
        """Remember a request that had all of its time."""
        if asked.request.kin:
            self._silent.add(asked.request.kin)

    def look(self, seconds: float = GLANCE) -> None:
        """Wait so long for each; the processes of those that have answered or broken down are ended."""
        for asked in [*self.waited_for]:
            wait = _LONG if asked.process.is_answering else seconds
            if not asked.follows:
                self.finish(asked, self.timeout, wait)
            elif asked.request.kin in self._silent and self._is_over(asked):
                broke = self.blame(Silent(), asked.request)
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

    def _follow(self, asked: Asked, seconds: float) -> None:
        """Wait for a request of whose kin another is waited for, or was in vain."""
        is_led = self._is_led(asked.request)
        if not is_led:
            asked.thaw()
        self.finish(asked, math.inf if is_led else self.timeout, seconds)
        if is_led and asked.outcome is None and asked.own() >= _AT_LEAST and not asked.process.is_answering:
            asked.freeze()

    def _is_over(self, asked: Asked) -> bool:
        passed = asked.passed()
        return passed >= self.timeout and (asked.own() >= _AT_LEAST or passed >= _AT_MOST * self.timeout)

    def _is_led(self, request: Body) -> bool:
        return bool(request.kin) and (request.kin in self._silent or self._has_leader(request.kin))

    def _has_leader(self, kin: str) -> bool:
        return any(asked.request.kin == kin and not asked.follows for asked in self.waited_for)
