"""The memory of this process: threads share what one of them has freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8
"""The parameter of `mallopt` in glibc (malloc.h): how many heaps there are at most."""


def share_one_heap() -> None:
    """Have all threads take memory from one heap, where the C library is glibc. Call it before they are started.

    Otherwise each has its own, and keeps what a large value of its own took; one thread runs at a time as it is.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
