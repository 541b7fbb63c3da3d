"""Supervises a target: starts it, adopts its orphaned descendants, and ends all of them with the target or the suite.

Run as a script, `python supervisor.py REPORT SUITE COMMAND…`, it is a process between the suite and a target. REPORT is
a pipe to the suite, SUITE the suite's process id. It writes `started` or `failed ERRNO`, and at the end `ended STATUS`,
with the status as `subprocess` has it. SIGTERM makes it end the target. It also ends the target when the suite has
ended for any reason. For this it polls the id of its parent: a parent-death signal would already arrive at the end of
the thread that started it.

On Linux it is a subreaper: an orphaned process becomes its child, in any session and with any environment. So its
descendants are exactly the processes of the target. If a control group can be made, they have a separate one. On other
systems it ends the session of the target and all remaining descendants.

It imports only modules that load in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable

HAS_SUBREAPER = sys.platform == "linux"
"""True if orphaned descendants stay descendants."""
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
_PARENT_POLL_S = 0.25
"""Seconds between two checks for the end of the suite."""
_KILL_TIMEOUT_S = 60.0
"""Seconds to end everything; a process that runs longer cannot be killed."""
_CGROUP_REMOVE_TIMEOUT_S = 2.0
"""Seconds for killed processes to disappear."""
_REAP_POLL_S = 0.001
"""Seconds between two checks for the end of killed processes."""
_MAX_STOP_ROUNDS = 20
"""The most searches for further processes to stop, before the stopped ones are killed."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_IGNORED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE, signal.SIGTSTP)
"""Signals with which a target could disturb its supervisor."""
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores from its start."""
RESET_SIGNALS = (signal.SIGCHLD, *_STOP_SIGNALS, *_IGNORED_SIGNALS, *_IGNORED)
"""Signals that a supervisor handles differently from another program of its interpreter."""


def main(report: int, suite: int, command: list[str]) -> None:
    """Supervise a command."""
    supervise(report, suite, lambda: os.execvp(command[0], command))  # noqa: S606 - running targets is what we do


def supervise(report: int, suite: int, become: Callable[[], None], closed: tuple[int, ...] = ()) -> None:
    """Start a target, wait for its end, for a signal or for the end of the suite, and leave no process.

    `become` turns a new process into the target; `closed` are descriptors that only the target keeps.
    """
    os.set_inheritable(report, False)  # noqa: FBT003 - it takes no keyword
    woken = _handle_signals()
    if HAS_SUBREAPER:
        _prctl(_SET_CHILD_SUBREAPER, 1)
    group = make_group(os.getpid())
    keeper = _Supervisor(group)
    problem = keeper.start(become, closed)
    _write_report(report, f"failed {problem}" if problem else "started")
    if not problem:
        keeper.wait(suite, woken)
        keeper.end()
        _write_report(report, f"ended {keeper.status}")
    remove_group(group)


class _Supervisor:
    """The target's first process, and the adopted ones."""

    def __init__(self, group: str | None) -> None:
        self._group = group
        self._main = 0
        self.status: int | None = None
        """The status of the first process; None while it runs."""

    def start(self, become: Callable[[], None], closed: tuple[int, ...]) -> int:
        """Start the first process in a new session. Return the error number if it cannot be run, else 0."""
        failed, failing = os.pipe()
        keeper = os.getpid()
        self._main = os.fork()
        if self._main == 0:
            _begin(become, keeper, self._group, failing)
        for descriptor in (failing, *closed):
            os.close(descriptor)
        # The suite must see the end of the pipes when the target closes them, so no copy may stay open here.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        # If the program runs, the pipe closes without content.
        return int(os.read(failed, 16) or 0)

    def wait(self, suite: int, woken: int) -> None:
        """Return when the first process has ended, a signal has arrived, or the suite is gone."""
        while self.reap() and self.status is None and os.getppid() == suite:
            select.select([woken], [], [], _PARENT_POLL_S)
            with contextlib.suppress(BlockingIOError):
                if set(os.read(woken, 4096)) & set(_STOP_SIGNALS):
                    return

    def reap(self) -> bool:
        """Collect the status of every ended child. Return True if children are left, running or not."""
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if child == 0:
                return True
            if child == self._main:
                self.status = os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """Kill until no child is left; on Linux the children include every descendant of the target."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._main, signal.SIGKILL)
        until = time.monotonic() + _KILL_TIMEOUT_S
        while self.reap() and time.monotonic() < until:
            kill_group(self._group)
            if self._kill_children():
                _raise_priority()
                kill_descendants(os.getpid(), seconds=0.1)
            else:
                time.sleep(_REAP_POLL_S)

    def _kill_children(self) -> bool:
        """Kill the children. Return True if more of them appeared each time, or if they cannot be listed.

        A process that forks and exits at once is visible only to a faster loop. A killed process forks no more; it
        needs time to disappear, and a core that this loop does not occupy.
        """
        killed: set[int] = set()
        for _ in range(_MAX_STOP_ROUNDS):
            children = children_of(os.getpid())
            if children is None:
                return True
            if killed.issuperset(children):
                return False
            for child in children:
                _signal(child, signal.SIGKILL)
            killed.update(children)
            if not self.reap():
                return False
        return True


def _begin(become: Callable[[], None], keeper: int, group: str | None, failing: int) -> None:
    """Turn this new process into the target, which dies with its supervisor."""
    try:
        os.setsid()
        if HAS_SUBREAPER:
            _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        for ignored in _IGNORED:
            signal.signal(ignored, signal.SIG_DFL)
        if group is not None:
            with contextlib.suppress(OSError):
                _write(f"{group}/cgroup.procs", "0")
        if os.getppid() == keeper:
            become()
    except OSError as error:
        os.write(failing, str(error.errno).encode())
    finally:
        os._exit(127)


def _handle_signals() -> int:
    """Stop signals from ending this process. Return a pipe that receives the number of each signal."""
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_STOP_SIGNALS, *_IGNORED_SIGNALS):
        signal.signal(number, lambda *_: None)
    return woken


def _raise_priority() -> None:
    """Run before processes that fork without end. At other times a reader of /proc may need this core."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _write_report(report: int, text: str) -> None:
    with contextlib.suppress(OSError):  # the suite may be gone
        os.write(report, f"{text}\n".encode())


# --- processes ----------------------------------------------------------------------------------------


def kill_descendants(root: int, seconds: float) -> None:
    """Kill the descendants of a process until the time is over. They are stopped first, so that they cannot fork."""
    until = time.monotonic() + seconds
    while True:
        stopped: dict[int, str] = {}
        for _ in range(_MAX_STOP_ROUNDS):
            fresh = {pid: began for pid, began in _descendants(root).items() if stopped.get(pid) != began}
            for pid, began in fresh.items():
                _signal(pid, signal.SIGSTOP, began)
            stopped |= fresh
            if not fresh:
                break
        for pid, began in stopped.items():
            _signal(pid, signal.SIGKILL, began)
        if not stopped or time.monotonic() > until:
            return
        time.sleep(0.005)


def _descendants(root: int) -> dict[int, str]:
    """Return the running descendants of a process, with their start times."""
    table = _processes()
    members = {root}
    while more := {pid for pid, (parent, *_) in table.items() if parent in members} - members:
        members |= more
    return {pid: table[pid][1] for pid in members - {root} if not table[pid][2]}


def _processes() -> dict[int, tuple[int, str, bool]]:
    """Return the parent, the start time, and True if it has ended, for each process."""
    if not HAS_SUBREAPER:
        return _processes_by_ps()
    listed = map(int, filter(str.isdigit, os.listdir("/proc")))
    return {pid: about for pid in listed if (about := _stat(pid))}


def _stat(pid: int) -> tuple[int, str, bool] | None:
    try:
        fields = content_of(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()
    except OSError:
        return None
    # A process looks ended after the end of its first thread, while its other threads run.
    return int(fields[1]), fields[19], fields[0] in "ZX" and int(fields[17]) <= 1


def _processes_by_ps() -> dict[int, tuple[int, str, bool]]:
    import subprocess

    command = ["ps", "-A", "-o", "pid=,ppid=,stat=,lstart="]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    rows = (line.split(None, 3) for line in done.stdout.splitlines())
    return {int(pid): (int(parent), began, state[0] == "Z") for pid, parent, state, began in rows}


def children_of(pid: int) -> list[int] | None:
    """Return a process's children without a scan of all processes; None if the system does not list them."""
    try:
        children = [content_of(f"/proc/{pid}/task/{thread}/children") for thread in threads_of(pid)]
    except OSError:
        return None
    return [*map(int, b" ".join(children).split())]


def content_of(path: str) -> bytes:
    """Return the content of a /proc file. There are many, and a file object costs more time. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))
    finally:
        os.close(descriptor)


def threads_of(pid: int) -> list[int]:
    """Return a process's threads. Raises OSError if it is gone, or if the system does not list them."""
    return [*map(int, os.listdir(f"/proc/{pid}/task"))]


def _signal(pid: int, number: signal.Signals, began: str = "") -> None:
    """Send a signal. With `began`, send it only to the process with this start time, because ids are reused."""
    with contextlib.suppress(OSError):
        if not began or not HAS_SUBREAPER:
            os.kill(pid, number)
            return
        descriptor = os.pidfd_open(pid)
        try:
            about = _stat(pid)
            if about is not None and about[1] == began:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


# --- control groups -----------------------------------------------------------------------------------


def group_of(keeper: int) -> str | None:
    """Return the path of the control group for a supervisor's target; None without cgroup v2."""
    try:
        own = next(line[3:].rstrip("/") for line in _lines("/proc/self/cgroup") if line.startswith("0::"))
        mounts = [line.split(" ") for line in _lines("/proc/self/mountinfo")]
    except (OSError, StopIteration):
        return None
    points = [fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2" and fields[3] == "/"]
    return f"{points[0]}{own}/conformance-{keeper}" if points else None


def make_group(keeper: int) -> str | None:
    """Make a control group for the processes of a target; None if it cannot be made or killed as a whole."""
    group = group_of(keeper)
    if group is None or not os.access(f"{os.path.dirname(group)}/cgroup.procs", os.W_OK):
        return None
    try:
        os.mkdir(group)
    except OSError:
        return None
    if os.path.exists(f"{group}/cgroup.kill"):
        return group
    remove_group(group)
    return None


def kill_group(group: str | None) -> None:
    """Kill every process of a control group at once."""
    if group is not None:
        with contextlib.suppress(OSError):
            _write(f"{group}/cgroup.kill", "1")


def remove_group(group: str | None) -> None:
    """Remove a control group and its subgroups; wait a moment for the end of their processes."""
    until = time.monotonic() + _CGROUP_REMOVE_TIMEOUT_S
    while group is not None and os.path.exists(group) and time.monotonic() < until:
        for folder, *_ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
                continue
            time.sleep(0.01)


def _lines(path: str) -> list[str]:
    return content_of(path).decode("utf-8", "surrogateescape").splitlines()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
