"""Work on several targets at once, each in a thread of its own: what is waited for is their processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TypeAlias

from conformance.process.memory import share_one_heap

MAX_PARALLEL_TARGETS = (os.cpu_count() or 1) + 2
"""Targets that are judged at once: more than there are cores, as some of them keep silent for seconds."""
_OBJECTS = 50_000
"""Objects that are made before those that are new are looked through for cycles."""
_LOOK = 0.5
"""Seconds between two looks whether a signal came."""


class StopEvent:
    """The event that ends a run before all cases are judged, from any thread."""

    def __init__(self) -> None:
        self.is_set = False
        self._targets: list[Callable[[], None]] = []

    def add(self, stop: Callable[[], None]) -> None:
        """Add the `stop` of a target; it is called at once if the event is set already."""
        self._targets.append(stop)
        if self.is_set:
            stop()

    def set(self) -> None:
        """Stop all targets: a thread that waits for one gets CannotStart."""
        self.is_set = True
        for stop in [*self._targets]:
            stop()


Work: TypeAlias = Callable[[StopEvent], None]


def run_parallel(works: Sequence[Work]) -> None:
    """Do all of it. What one raises is raised when the others are done; an interrupt stops them, and is raised then."""
    if len(works) == 1:
        works[0](StopEvent())
        return
    share_one_heap()
    stop = StopEvent()
    with ThreadPoolExecutor(MAX_PARALLEL_TARGETS) as pool:
        futures = [pool.submit(work, stop) for work in works]
        try:
            while wait(futures, _LOOK).not_done:
                pass
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for future in futures:
        future.result()


def reduce_gc(stack: ExitStack) -> None:
    """Look for cycles seldom until the stack is left: a run keeps nearly all it makes, and answers are many objects."""
    before = gc.get_threshold()
    gc.freeze()  # what lives as long as the run is not looked through again
    stack.callback(gc.unfreeze)
    gc.set_threshold(_OBJECTS, *before[1:])
    stack.callback(gc.set_threshold, *before)
