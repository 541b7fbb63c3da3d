"""The memory of this process: all threads share one heap."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8
"""The parameter of `mallopt` in glibc (malloc.h) for the largest number of heaps."""


def share_one_heap() -> None:
    """Make all threads allocate from one heap, with glibc. Call it before they start.

    Otherwise each thread keeps the memory of its largest value. A shared heap is not slower: one thread runs at a time.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
