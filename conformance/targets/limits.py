"""What a target is allowed, and when memory or time are out of proportion to what it was given.

One rule, in the words of docs/concepts.md#memory-and-time: so much whatever the request, and more for each byte.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from msgspec import Struct

from conformance.cases.model import NoAnswer
from conformance.process.errors import AnswerTimeout, TargetExited
from conformance.targets.protocol import RequestBody

MEMORY_PER_INPUT_BYTE = 256
"""Bytes of memory that a byte may take: a record of seven bytes takes two kilobytes as objects and as JSON."""
REQUEST_CHARS_PER_SECOND = 200_000
"""For each so many bytes of a request, which are hex digits mostly, an answer may take a second more."""


class ResourceUse(Struct, frozen=True):
    """What a hostile case took of a target that had nothing else to do; of others only the time is looked at."""

    seconds: float
    memory: int
    """Bytes by which its resident memory grew at most, from the request to the answer."""


class ResourceLimits(Struct, frozen=True):
    """What a target is allowed: seconds per answer and for the start, bytes of memory, and what is in proportion.

    `slow` is in seconds and `growth` in bytes, each beside what the bytes of a request allow; infinite: nobody looks.
    """

    timeout: float = 5.0
    startup: float = 30.0
    memory: int = 1024 * 2**20
    base_seconds: float = 1.0
    base_memory_growth: float = 64 * 2**20

    def seconds_for(self, request: RequestBody) -> float:
        """The seconds that a request may take a target which answers others at once."""
        return self.base_seconds + max(request.size, 2 * request.measured_bytes) / REQUEST_CHARS_PER_SECOND

    def memory_for(self, request: RequestBody) -> float:
        """The bytes by which the memory of a target may grow over a request."""
        return (
            self.base_memory_growth + request.measured_bytes * MEMORY_PER_INPUT_BYTE
            if request.measured_bytes
            else math.inf
        )


def resource_violation(
    request: RequestBody, first: ResourceUse, again: ResourceUse, allowance: ResourceLimits, quickest: float
) -> NoAnswer | None:
    """The fault of a target that was out of proportion twice, in two processes; None where it was not.

    `quickest` are the seconds of the quickest answer that it has given: a target that is slow to all is only slow.
    """
    if min(first.memory, again.memory) > allowance.memory_for(request):
        detail = (
            f"memory grew by {first.memory >> 20} MiB, and by {again.memory >> 20} MiB when asked again in another "
            f"process, {allowance.memory_for(request) / 2**20:.0f} MiB are allowed for {request.measured_bytes} bytes"
        )
        return NoAnswer("memory", detail)
    if min(first.seconds, again.seconds) > allowance.seconds_for(request) + quickest:
        size = request.measured_bytes or request.size // 2
        detail = f"took {first.seconds:.1f} s, and {again.seconds:.1f} s when asked again, for {size} bytes"
        return NoAnswer("slow", detail)
    return None


FAULT_LIMITS = {
    **{"timeout": 12, "protocol": 10, "crash": 400, "memory": 25, "slow": 10, "closed output": 4},
    "silence": 12,  # one that does not happen again, and blames no request
}
"""How many faults of a kind end the session: a target that is broken throughout must not cost hours."""
FAULT_LIMITS_BEFORE_FIRST_ANSWER = {"timeout": 3, "protocol": 3, "crash": 40, "memory": 5}
"""The same for a target that has not answered a single request."""
_IN_PROPORTION = 1000
"""A target may use up its memory over a request from one of so many bytes on that memory has: no codec but a bomb makes
more of a byte (gzip at its best makes 1032)."""


class GiveUpLimits:
    """The faults of a target, counted until it is given up."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.never_answered = True
        """Whether it has not answered a request yet."""
        self.stop_reason = ""
        """Why no further request is sent; empty while requests are sent."""

    def remaining(self, kind: str) -> int:
        """How many more faults of a kind it may have; with the last one it is given up."""
        patience = (FAULT_LIMITS_BEFORE_FIRST_ANSWER if self.never_answered else FAULT_LIMITS).get(
            kind, FAULT_LIMITS[kind]
        )
        return patience - self._counts[kind]

    def add(self, kind: str) -> None:
        """Count one for which no target is given up."""
        self._counts[kind] += 1

    def count(self, kind: str) -> None:
        """Count one."""
        self.add(kind)
        if self.remaining(kind) > 0:
            return
        count = self._counts[kind]
        self.stop_reason = f"not asked: the target was given up after {count} faults ({kind})"
        if kind == "silence":
            self.stop_reason = (
                f"not asked: the target fell silent {count} times over cases that it answered when they were asked "
                "again; no case is blamed, and the rest is not asked"
            )


def fault_kind(fault: Exception, broke: NoAnswer) -> str:
    """As what a fault is counted."""
    return "closed output" if isinstance(fault, TargetExited) and fault.lingers else broke.how


def fault_outcome(fault: Exception, request: RequestBody, timeout: float, memory: int) -> NoAnswer:
    """A fault as what a request came to, of a target that is allowed so many seconds and bytes."""
    match fault:
        case TargetExited(detail=detail, memory=True):
            small = request.size * _IN_PROPORTION <= memory
            return NoAnswer("memory", f"{detail}, for a request of {request.size} bytes", unprovoked=small)
        case TargetExited(detail=detail):
            return NoAnswer("crash", detail)
        case AnswerTimeout():
            return NoAnswer("timeout", f"no answer within {timeout:g} s")
        case _:
            return NoAnswer("protocol", str(fault))


def unattributed(broke: NoAnswer, *, again: bool) -> NoAnswer:
    """A fault that no request causes alone, with a remark that says so; flaky unless it happened `again`."""
    remark = "and again when all were replayed" if again else "it did not happen again"
    detail = f"{broke.detail} (no question does this alone: blamed on the first one without an answer; {remark})"
    return replace(broke, detail=detail, flaky=not again)
