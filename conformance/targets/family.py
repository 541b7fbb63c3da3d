"""The processes of a target, as the system tells them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from conformance.targets import keeper

_LAST = 19
"""The lowest priority: what others leave of the cores."""


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


def give_way(processes: Iterable[psutil.Process]) -> None:
    """Make processes leave the cores to whatever else wants them."""
    for process in processes:
        with contextlib.suppress(OSError):  # it may go between two reads
            for thread in keeper.threads_of(process.pid):
                os.setpriority(os.PRIO_PROCESS, thread, _LAST)
            # Linux may give each session its share of the cores; priorities hold within it.
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_LAST))


def freeze(processes: Iterable[psutil.Process], *, thaw: bool = False) -> None:
    """Let processes stand still, or go on."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.resume() if thaw else process.suspend()
