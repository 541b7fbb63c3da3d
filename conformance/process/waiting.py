"""Waiting for a state: one polling loop with a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_INTERVAL_S = 0.05
"""Seconds between two polls."""

T = TypeVar("T")


def poll(read: Callable[[], T], is_done: Callable[[T], bool], timeout_s: float, interval_s: float | None = None) -> T:
    """Return the first value that is done, or the last value after the timeout. Raises the errors of `read`."""
    deadline = time.monotonic() + timeout_s
    while not is_done(value := read()) and time.monotonic() <= deadline:
        time.sleep(POLL_INTERVAL_S if interval_s is None else interval_s)
    return value


def wait_until(is_done: Callable[[], bool], timeout_s: float, interval_s: float | None = None) -> bool:
    """Poll a condition, and return False if it does not hold before the timeout."""
    return poll(is_done, bool, timeout_s, interval_s)
