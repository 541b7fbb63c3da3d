"""Runs several targets in parallel, one thread per target: the threads mostly wait for the target processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TypeAlias

from conformance.process.memory import share_one_heap

MAX_PARALLEL_TARGETS = (os.cpu_count() or 1) + 2
"""Targets that run in parallel: more than the cores, because some targets do not answer for seconds."""
_GC_THRESHOLD = 50_000
"""The number of new objects before the garbage collector looks for cycles."""
_SIGNAL_POLL_S = 0.5
"""The interval at which the main thread reacts to signals, in seconds."""


class StopEvent:
    """The event that ends a run early; any thread can set it."""

    def __init__(self) -> None:
        self.is_set = False
        self._targets: list[Callable[[], None]] = []

    def add(self, stop: Callable[[], None]) -> None:
        """Add the `stop` function of a target. It is called at once if the event is already set."""
        self._targets.append(stop)
        if self.is_set:
            stop()

    def set(self) -> None:
        """Stop all targets: each thread that waits for one gets CannotStart."""
        self.is_set = True
        for stop in [*self._targets]:
            stop()


Work: TypeAlias = Callable[[StopEvent], None]


def run_parallel(works: Sequence[Work]) -> None:
    """Run all works. An error is raised after the other works have ended; an interrupt first stops them."""
    if len(works) == 1:
        works[0](StopEvent())
        return
    share_one_heap()
    stop = StopEvent()
    with ThreadPoolExecutor(MAX_PARALLEL_TARGETS) as pool:
        futures = [pool.submit(work, stop) for work in works]
        try:
            while wait(futures, _SIGNAL_POLL_S).not_done:
                pass
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for future in futures:
        future.result()


def reduce_gc(stack: ExitStack) -> None:
    """Look for cycles rarely until the stack is left: a run keeps most of its objects, and answers have many."""
    before = gc.get_threshold()
    gc.freeze()  # the garbage collector skips the objects that already exist
    stack.callback(gc.unfreeze)
    gc.set_threshold(_GC_THRESHOLD, *before[1:])
    stack.callback(gc.set_threshold, *before)
