"""The limits of a target, and the check for too much memory or time.

The rule of docs/concepts.md#memory-and-time: a base for any request, plus an amount for each byte.
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
"""The allowed memory per byte of input: as objects and as JSON, a record of seven bytes takes two kilobytes."""
REQUEST_CHARS_PER_SECOND = 200_000
"""The number of bytes in a request, mostly hex digits, that allow one more second."""


class ResourceUse(Struct, frozen=True):
    """The cost of a request. Memory is measured only for hostile cases, in a process without other requests."""

    seconds: float
    memory: int
    """The maximum growth of its resident memory from the request to the answer, in bytes."""


class ResourceLimits(Struct, frozen=True):
    """The limits of a target: seconds for an answer and the start, bytes of memory, and the base of the cost limits.

    The limit for a request is `base_seconds` or `base_memory_growth` (bytes), plus an amount for its bytes. Infinite:
    no limit.
    """

    timeout: float = 5.0
    startup: float = 30.0
    memory: int = 1024 * 2**20
    base_seconds: float = 1.0
    base_memory_growth: float = 64 * 2**20

    def seconds_for(self, request: RequestBody) -> float:
        """Return the time limit of a request in seconds, for a target that answers other requests at once."""
        return self.base_seconds + max(request.size, 2 * request.measured_bytes) / REQUEST_CHARS_PER_SECOND

    def memory_for(self, request: RequestBody) -> float:
        """Return the limit of memory growth for a request, in bytes; infinite if its memory is not measured."""
        return (
            self.base_memory_growth + request.measured_bytes * MEMORY_PER_INPUT_BYTE
            if request.measured_bytes
            else math.inf
        )


def resource_violation(
    request: RequestBody, first: ResourceUse, again: ResourceUse, limits: ResourceLimits, quickest: float
) -> NoAnswer | None:
    """Return the fault of a target that exceeded a limit twice, in two processes; None without a fault.

    `quickest` is the time of its quickest answer in seconds. It is added to the limit: a slow target is not at fault.
    """
    if min(first.memory, again.memory) > limits.memory_for(request):
        detail = (
            f"memory grew by {first.memory >> 20} MiB, and by {again.memory >> 20} MiB when repeated in another "
            f"process, {limits.memory_for(request) / 2**20:.0f} MiB are allowed for {request.measured_bytes} bytes"
        )
        return NoAnswer("memory", detail)
    if min(first.seconds, again.seconds) > limits.seconds_for(request) + quickest:
        size = request.measured_bytes or request.size // 2
        detail = f"took {first.seconds:.1f} s, and {again.seconds:.1f} s when repeated, for {size} bytes"
        return NoAnswer("slow", detail)
    return None


FAULT_LIMITS = {
    **{"timeout": 12, "protocol": 10, "crash": 400, "memory": 25, "slow": 10, "closed output": 4},
    "silence": 12,  # a timeout that does not repeat, so no request causes it
}
"""The number of faults of each kind that ends the session: a broken target must not cost hours."""
FAULT_LIMITS_BEFORE_FIRST_ANSWER = {"timeout": 3, "protocol": 3, "crash": 40, "memory": 5}
"""The same for a target that has not answered any request."""
_MAX_EXPANSION = 1000
"""Bytes of memory limit per byte of a request: only a larger request may need all of the memory. Gzip expands a byte to
at most 1032 bytes, so more memory for a smaller request is a fault of the target."""


class GiveUpLimits:
    """Counts the faults of a target, and gives it up at a limit."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.never_answered = True
        """True until it has answered a request."""
        self.stop_reason = ""
        """The reason why no further request is sent; empty while requests are sent."""

    def remaining(self, kind: str) -> int:
        """Return how many more faults of a kind are allowed; the last one of them ends the session."""
        limit = (FAULT_LIMITS_BEFORE_FIRST_ANSWER if self.never_answered else FAULT_LIMITS).get(
            kind, FAULT_LIMITS[kind]
        )
        return limit - self._counts[kind]

    def add(self, kind: str) -> None:
        """Count a fault that never ends the session."""
        self._counts[kind] += 1

    def count(self, kind: str) -> None:
        """Count a fault, and end the session at its limit."""
        self.add(kind)
        if self.remaining(kind) > 0:
            return
        count = self._counts[kind]
        self.stop_reason = f"not sent: the target was given up after {count} faults ({kind})"
        if kind == "silence":
            self.stop_reason = (
                f"not sent: the target timed out {count} times on cases that it answered when they were repeated; "
                "the timeouts count for no case, and the remaining cases are not sent"
            )


def fault_kind(fault: Exception, outcome: NoAnswer) -> str:
    """Return the kind under which a fault is counted."""
    return "closed output" if isinstance(fault, TargetExited) and fault.lingers else outcome.how


def fault_outcome(fault: Exception, request: RequestBody, timeout: float, memory: int) -> NoAnswer:
    """Return a fault as the outcome of a request, for limits of `timeout` seconds and `memory` bytes."""
    match fault:
        case TargetExited(detail=detail, memory=True):
            small = request.size * _MAX_EXPANSION <= memory
            return NoAnswer("memory", f"{detail}, for a request of {request.size} bytes", unprovoked=small)
        case TargetExited(detail=detail):
            return NoAnswer("crash", detail)
        case AnswerTimeout():
            return NoAnswer("timeout", f"no answer within {timeout:g} s")
        case _:
            return NoAnswer("protocol", str(fault))


def unattributed(outcome: NoAnswer, *, again: bool) -> NoAnswer:
    """Return a fault that no request causes alone, with a remark; flaky unless it happened `again`."""
    remark = "it happened again when all were replayed" if again else "it did not happen again"
    detail = f"{outcome.detail} (no request causes this alone: attributed to the first one without an answer; {remark})"
    return replace(outcome, detail=detail, flaky=not again)
