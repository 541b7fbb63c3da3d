"""The processes of a target, as the system tells them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil

from conformance.targets import keeper


def descendants(root: psutil.Process, known: Iterable[psutil.Process] = ()) -> list[psutil.Process]:
    """The processes below one, of which some may be known from the last look. Raises psutil.Error where it is gone."""
    listed = keeper.children_of(root.pid)
    if listed is None:
        return list(root.children(recursive=True))  # through every process of the machine
    found, there = [], {process.pid: process for process in known}
    while listed:
        pid = listed.pop()
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(there.get(pid) or psutil.Process(pid))
            listed += keeper.children_of(pid) or ()
    return found


def resident(process: psutil.Process) -> int:
    """The bytes of memory that a process uses; 0 where it is gone."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
