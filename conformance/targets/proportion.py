"""What a target is allowed, and when memory or time are out of proportion to what it was given.

One rule, in the words of docs/concepts.md#memory-and-time: so much whatever the request, and more for each byte.
"""

from __future__ import annotations

import math

from msgspec import Struct

from conformance.cases.model import Broke
from conformance.targets.protocol import Body

MEMORY_FOR_A_BYTE = 256
"""Bytes of memory that a byte may take: a record of seven bytes takes two kilobytes as objects and as JSON."""
DIGITS_FOR_A_SECOND = 200_000
"""For each so many bytes of a request, which are hex digits mostly, an answer may take a second more."""


class Cost(Struct, frozen=True):
    """What a hostile case took of a target that had nothing else to do; of others only the time is looked at."""

    seconds: float
    memory: int
    """Bytes by which its resident memory grew at most, from the request to the answer."""


class Allowance(Struct, frozen=True):
    """What a target is allowed: seconds per answer and for the start, bytes of memory, and what is in proportion.

    `slow` is in seconds and `growth` in bytes, each beside what the bytes of a request allow; infinite: nobody looks.
    """

    timeout: float = 5.0
    startup: float = 30.0
    memory: int = 1024 * 2**20
    slow: float = 1.0
    growth: float = 64 * 2**20

    def seconds_for(self, request: Body) -> float:
        """The seconds that a request may take a target which answers others at once."""
        return self.slow + max(len(request), 2 * request.bulk) / DIGITS_FOR_A_SECOND

    def memory_for(self, request: Body) -> float:
        """The bytes by which the memory of a target may grow over a request."""
        return self.growth + request.bulk * MEMORY_FOR_A_BYTE if request.bulk else math.inf


def greedy(request: Body, first: Cost, again: Cost, allowance: Allowance, quickest: float) -> Broke | None:
    """The fault of a target that was out of proportion twice, in two processes; None where it was not.

    `quickest` are the seconds of the quickest answer that it has given: a target that is slow to all is only slow.
    """
    if min(first.memory, again.memory) > allowance.memory_for(request):
        detail = (
            f"memory grew by {first.memory >> 20} MiB, and by {again.memory >> 20} MiB when asked again in another "
            f"process, {allowance.memory_for(request) / 2**20:.0f} MiB are allowed for {request.bulk} bytes"
        )
        return Broke("memory", detail)
    if min(first.seconds, again.seconds) > allowance.seconds_for(request) + quickest:
        size = request.bulk or len(request) // 2
        detail = f"took {first.seconds:.1f} s, and {again.seconds:.1f} s when asked again, for {size} bytes"
        return Broke("slow", detail)
    return None
