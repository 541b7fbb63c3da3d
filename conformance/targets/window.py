"""Which requests are in flight at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from conformance.targets.protocol import Body

WINDOW = 64
"""Requests in flight at most."""
WINDOW_BYTES = 48_000
"""Bytes in flight at most; a larger request travels alone. Both pipes must never be full at once."""


def fitting(queue: deque[Body], window: Sequence[Body]) -> Iterator[Body]:
    """The requests of a queue that may join those in flight, taken from it; one that is measured travels alone."""
    count, size = len(window), sum(map(len, window))
    is_alone = any(request.bulk for request in window)
    while queue and (not count or (count < WINDOW and size + len(queue[0]) <= WINDOW_BYTES)):
        if is_alone or (count and queue[0].bulk):
            return
        request = queue.popleft()
        count, size, is_alone = count + 1, size + len(request), request.bulk > 0
        yield request
