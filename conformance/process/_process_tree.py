"""The processes of a target, as the system lists them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from conformance.process import supervisor

_RESET_PEAK_RSS = "5"
"""The value with which Linux resets the peak (proc_pid_clear_refs(5))."""
_LAST = 19
"""The lowest priority: only CPU time that other processes leave."""


def descendants(root: int, known: Iterable[psutil.Process] = ()) -> list[psutil.Process]:
    """Return the descendants of a process; `known` ones are reused. Raises psutil.Error if the process is gone."""
    listed = supervisor.children_of(root)
    if listed is None:
        return list(psutil.Process(root).children(recursive=True))  # slow: it reads every process of the machine
    found, there = [], {process.pid: process for process in known}
    while listed:
        pid = listed.pop()
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(there.get(pid) or psutil.Process(pid))
            listed += supervisor.children_of(pid) or ()
    return found


def supervised_processes(pid: int, known: list[psutil.Process]) -> list[psutil.Process]:
    """Return the supervised processes. If the supervisor was killed and has none, return the known ones."""
    with contextlib.suppress(psutil.Error):
        found = descendants(pid, known)
        if found or psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            return found
    return known


def is_any_running(processes: Iterable[psutil.Process]) -> bool:
    """Return True if any of them runs. A zombie does not run."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return True
    return False


def resident_bytes(process: psutil.Process) -> int:
    """Return the resident memory of a process in bytes; 0 if the process is gone."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


class PeakMemory:
    """The largest total memory of some processes since a mark.

    Linux reports the exact peak of each process. On other systems memory is sampled; a peak between two samples is not
    reported.
    """

    def __init__(self) -> None:
        self._most, self._is_exact = 0, False

    def add_sample(self, used: int) -> None:
        """Add a sample in bytes."""
        self._most = max(self._most, used)

    def start(self, family: Iterable[psutil.Process]) -> int:
        """Return the bytes that they use now, and begin a new measurement of the peak."""
        self._is_exact = True
        for process in family:
            try:
                Path(f"/proc/{process.pid}/clear_refs").write_text(_RESET_PEAK_RSS)
            except OSError:
                self._is_exact = False
        self._most = held = sum(map(resident_bytes, family))
        return held

    def growth(self, family: Iterable[psutil.Process], held: int) -> int:
        """Return the largest growth in bytes since they used `held` bytes."""
        if self._is_exact:
            return max(sum(map(_peak, family)) - held, 0)
        self.add_sample(sum(map(resident_bytes, family)))
        return self._most - held


def _peak(process: psutil.Process) -> int:
    try:
        status = supervisor.content_of(f"/proc/{process.pid}/status")
        return int(status.partition(b"\nVmHWM:")[2].split(None, 1)[0]) << 10
    except (OSError, IndexError):
        return resident_bytes(process)


def lower_priority(processes: Iterable[psutil.Process]) -> None:
    """Give processes the lowest priority."""
    for process in processes:
        with contextlib.suppress(OSError):  # it may end between two reads
            for thread in supervisor.threads_of(process.pid):
                os.setpriority(os.PRIO_PROCESS, thread, _LAST)
            # Linux may share the cores between sessions; then a priority has an effect only within its session.
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_LAST))


def freeze(processes: Iterable[psutil.Process], *, thaw: bool = False) -> None:
    """Suspend processes or, with `thaw`, resume them."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.resume() if thaw else process.suspend()
