"""Work on several targets at once, each in a thread of its own: what is waited for is their processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Protocol, TypeAlias

from conformance.process.memory import share_one_heap

AT_ONCE = (os.cpu_count() or 1) + 2
"""Targets that are judged at once: more than there are cores, as some of them keep silent for seconds."""
_OBJECTS = 50_000
"""Objects that are made before those that are new are looked through for cycles."""
_LOOK = 0.5
"""Seconds between two looks whether a signal came."""


class Stoppable(Protocol):
    """Who is asking a target, if it is there already."""

    def stop(self) -> None:
        """End what is waited for, from another thread."""
        ...


class StopEvent:
    """The word to stop, for those that put cases to targets."""

    def __init__(self) -> None:
        self.is_told = False
        self.reached: list[Stoppable] = []
        """Who is told; who comes later looks whether the word was told."""

    def tell(self) -> None:
        """Tell all, from any thread: whoever waits for a target gets CannotStart."""
        self.is_told = True
        for one in [*self.reached]:
            one.stop()


Work: TypeAlias = Callable[[StopEvent], None]


def do_at_once(works: Sequence[Work]) -> None:
    """Do all of it. What one raises is raised when the others are done; an interrupt stops them, and is raised then."""
    if len(works) == 1:
        works[0](StopEvent())
        return
    share_one_heap()
    stop = StopEvent()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(work, stop) for work in works]
        try:
            while wait(futures, _LOOK).not_done:
                pass
        except BaseException:
            stop.tell()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for future in futures:
        future.result()


def collect_seldom(stack: ExitStack) -> None:
    """Look for cycles seldom until the stack is left: a run keeps nearly all it makes, and answers are many objects."""
    before = gc.get_threshold()
    gc.freeze()  # what lives as long as the run is not looked through again
    stack.callback(gc.unfreeze)
    gc.set_threshold(_OBJECTS, *before[1:])
    stack.callback(gc.set_threshold, *before)
