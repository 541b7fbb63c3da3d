"""Looking for cycles among objects, which is seldom worth while: what is loaded and what is kept holds next to none."""

from __future__ import annotations

import gc
from contextlib import ExitStack

OBJECTS = 50_000
"""Objects that are made before those that are new are looked through."""


def collect_seldom() -> None:
    """Look for cycles seldom from now on."""
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])


def keep_all(stack: ExitStack) -> None:
    """Look through nothing again that is there, and seldom through what comes, until the stack is left."""
    before = gc.get_threshold()
    gc.freeze()
    stack.callback(gc.unfreeze)
    collect_seldom()
    stack.callback(gc.set_threshold, *before)
