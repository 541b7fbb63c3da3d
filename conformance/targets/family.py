"""The processes of a target, as the system tells them."""

from __future__ import annotations

import contextlib

import psutil

from conformance.targets import keeper


def descendants(root: psutil.Process) -> list[psutil.Process]:
    """The processes below one. Raises psutil.Error where it is gone."""
    listed = keeper.children_of(root.pid)
    if listed is None:
        return list(root.children(recursive=True))  # through every process of the machine
    found = []
    while listed:
        pid = listed.pop()
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
            listed += keeper.children_of(pid) or ()
    return found


def resident(process: psutil.Process) -> int:
    """The bytes of memory that a process uses; 0 where it is gone."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
