"""The processes of a target, as the system tells them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from conformance.process import supervisor

_RESET_PEAK_RSS = "5"
"""What Linux takes for it (proc_pid_clear_refs(5))."""
_LAST = 19
"""The lowest priority: what others leave of the cores."""


def descendants(root: int, known: Iterable[psutil.Process] = ()) -> list[psutil.Process]:
    """The processes below one, of which some may be known from the last look. Raises psutil.Error where it is gone."""
    listed = supervisor.children_of(root)
    if listed is None:
        return list(psutil.Process(root).children(recursive=True))  # through every process of the machine
    found, there = [], {process.pid: process for process in known}
    while listed:
        pid = listed.pop()
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(there.get(pid) or psutil.Process(pid))
            listed += supervisor.children_of(pid) or ()
    return found


def supervised_processes(pid: int, known: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that a keeper keeps; where it was killed and has none any more, those that were seen before."""
    with contextlib.suppress(psutil.Error):
        found = descendants(pid, known)
        if found or psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            return found
    return known


def is_any_running(processes: Iterable[psutil.Process]) -> bool:
    """Whether any of them runs: one that has ended, and of which its parent has not heard yet, does not."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return True
    return False


def resident_bytes(process: psutil.Process) -> int:
    """The bytes of memory that a process uses; 0 where it is gone."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


class PeakMemory:
    """The most memory that processes hold together from a mark on.

    Linux tells the peak of each process to the page. Elsewhere it is what samples see: one that passes between two of
    them is not met, and accuses nobody.
    """

    def __init__(self) -> None:
        self._most, self._is_told = 0, False

    def add_sample(self, used: int) -> None:
        """Take note of a sample."""
        self._most = max(self._most, used)

    def start(self, family: Iterable[psutil.Process]) -> int:
        """The bytes that they hold; the most counts anew."""
        self._is_told = True
        for process in family:
            try:
                Path(f"/proc/{process.pid}/clear_refs").write_text(_RESET_PEAK_RSS)
            except OSError:
                self._is_told = False
        self._most = held = sum(map(resident_bytes, family))
        return held

    def growth(self, family: Iterable[psutil.Process], held: int) -> int:
        """The bytes by which they held more at most, since they held so many."""
        if self._is_told:
            return max(sum(map(_peak, family)) - held, 0)
        self.add_sample(sum(map(resident_bytes, family)))
        return self._most - held


def _peak(process: psutil.Process) -> int:
    try:
        told = supervisor.content_of(f"/proc/{process.pid}/status")
        return int(told.partition(b"\nVmHWM:")[2].split(None, 1)[0]) << 10
    except (OSError, IndexError):
        return resident_bytes(process)


def lower_priority(processes: Iterable[psutil.Process]) -> None:
    """Make processes leave the cores to whatever else wants them."""
    for process in processes:
        with contextlib.suppress(OSError):  # it may go between two reads
            for thread in supervisor.threads_of(process.pid):
                os.setpriority(os.PRIO_PROCESS, thread, _LAST)
            # Linux may give each session its share of the cores; priorities hold within it.
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_LAST))


def freeze(processes: Iterable[psutil.Process], *, thaw: bool = False) -> None:
    """Let processes stand still, or go on."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.resume() if thaw else process.suspend()
