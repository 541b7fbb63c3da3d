"""A running target: it has a supervisor, a memory limit, and pipes that do not block, and it leaves no process.

POSIX only: sessions, signals and non-blocking pipes.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import select
import selectors
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from functools import partial

import psutil

from conformance.process import supervisor
from conformance.process._process_tree import (
    PeakMemory,
    freeze,
    is_any_running,
    lower_priority,
    resident_bytes,
    supervised_processes,
)
from conformance.process.errors import AnswerTimeout, OutputTooLong, TargetExited
from conformance.process.launcher import (
    TOKEN,
    LaunchSpec,
    SupervisedProcess,
    cpu_wait_s,
    exit_text,
    last_stderr_line,
    start,
)

_SAMPLE = 0.01
"""Seconds between two samples of a target's memory."""
_SELDOM, _FAR = 0.05, 4
"""Seconds between two samples while it uses less than 1/_FAR of the limit: the rest lasts longer than that."""
_FAMILY = 0.1
"""Seconds between two searches for its child processes."""
_ERRORS_KEPT = 1 << 16
"""Bytes of standard error that are kept, the last ones."""
_LAST_LOOKS = 64
"""The most chunks of standard error that are read after the target's end."""
_CHUNK, _LARGE_CHUNK = 1 << 16, 1 << 20
MAX_LINE_BYTES = 32 * 2**20
"""The longest line that is read from a process."""
GRACE_PERIOD_S = 1.0
"""Seconds for a target to exit after the end of its input."""
_ENDING = 60
"""Seconds for the supervisor to end all processes of the target; there may be thousands."""
_STARTING = 60_000
"""Milliseconds for a supervisor to start a target."""
Begin = Callable[[str, int], SupervisedProcess]


class ChildProcess:
    """A running target that reads and writes lines. `close` it in every case; then no process of it is left."""

    def __init__(self, launch: LaunchSpec, memory: int | None, begin: Begin | None = None) -> None:
        """Start it. `memory` is the limit in bytes for the resident memory of all its processes, None for no limit.

        `begin` starts its supervisor, given the token and the report pipe; by default `start` does. Raises OSError.
        """
        self._token = uuid.uuid4().hex
        self._over = ""
        """The message about its use of memory; empty while it is below the limit."""
        self._report_text = b""
        self._footprint, self._is_frozen = PeakMemory(), False
        self._family: list[psutil.Process] = []
        self._keep(begin or partial(start, launch))
        _running.add(self)
        pipes = self._popen.stdin, self._popen.stdout, self._popen.stderr
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe)
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
            with contextlib.suppress(OSError, AttributeError):  # a larger pipe needs fewer turns for a long line
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _LARGE_CHUNK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        self._unsent = bytearray()
        self._partial: list[bytes] = []
        self._partial_size = 0
        self.lines: deque[bytes] = deque()
        self._errors: deque[bytes] = deque(maxlen=_ERRORS_KEPT // 64)
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, args=(memory,), daemon=True)
        try:
            self._await_start()
            if memory is not None:
                self._watcher.start()
        except BaseException:
            self.close()
            raise

    def _keep(self, begin: Begin) -> None:
        """Start the supervisor, which starts the target. Raises OSError."""
        self._report, reporting = os.pipe()
        try:
            self._popen = begin(self._token, reporting)
        except BaseException:
            os.close(self._report)
            raise
        finally:
            os.close(reporting)

    def _await_start(self) -> None:
        """Wait until the target runs. Raises OSError if it cannot run."""
        poller = select.poll()
        poller.register(self._report)
        while b"\n" not in self._report_text:
            chunk = os.read(self._report, 4096) if poller.poll(_STARTING) else b""
            if not chunk:
                raise OSError(errno.ECHILD, "its supervisor did not start")
            self._report_text += chunk
        word, _, problem = self._report_text.decode().strip().partition(" ")
        if word == "failed":
            raise OSError(int(problem), os.strerror(int(problem)))

    # --- talking ------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Queue a line. The pipe takes it at once, or while `line` waits."""
        is_next = not self._unsent
        self._unsent += line
        if is_next:
            self._write()
            if self._unsent:
                self._selector.register(self._in, selectors.EVENT_WRITE)

    def line(self, deadline: float) -> bytes:
        """Return a line before a `time.monotonic()` deadline. Raises TargetExited, AnswerTimeout or OutputTooLong."""
        while not self.lines:
            left, alive = deadline - time.monotonic(), self.alive
            # Read before the check of the time: a line that arrived while we were busy is not late.
            moved = self._turn(min(max(left, 0), 0.5))
            if self.lines:
                break
            if left <= 0:
                raise AnswerTimeout
            if not (alive or moved):
                # The output can stay open after its end, because a child process may hold it.
                raise self._exit_error()
        return self.lines.popleft()

    def _turn(self, wait: float) -> bool:
        """Move bytes in both directions once. Return True if any moved. Raises TargetExited or OutputTooLong."""
        moved = False
        for key, _ in self._selector.select(wait):
            if key.fd == self._in:
                moved |= self._write()
                if not self._unsent:
                    self._selector.unregister(self._in)
            elif key.fd == self._err:
                moved |= self._read_errors()
            else:
                self._read()
                moved = True
        return moved

    def _write(self) -> bool:
        try:
            sent = os.write(self._in, memoryview(self._unsent)[:_LARGE_CHUNK])
        except BlockingIOError:
            return False
        except BrokenPipeError:
            # It no longer reads. Its output shows whether it has ended.
            sent = len(self._unsent)
        del self._unsent[:sent]
        return True

    def _read(self) -> None:
        try:
            chunk = os.read(self._out, _LARGE_CHUNK if self._partial_size else _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            raise self._exit_error()
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            first, *rest = head.split(b"\n")
            self.lines.append(b"".join((*self._partial, first)))
            self.lines.extend(rest)
            self._partial, self._partial_size = [], 0
        self._partial.append(tail)
        self._partial_size += len(tail)
        if self._partial_size > MAX_LINE_BYTES:
            raise OutputTooLong(f"a line of output is longer than {MAX_LINE_BYTES >> 20} MB")

    def _read_errors(self) -> bool:
        try:
            chunk = os.read(self._err, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(self._err)
            return False
        self._errors.extend(chunk[at : at + 64] for at in range(0, len(chunk), 64))
        return True

    def _exit_error(self) -> TargetExited:
        if self._over:
            return TargetExited(self._over, memory=True)
        try:
            self._popen.wait(GRACE_PERIOD_S)
        except subprocess.TimeoutExpired:
            if is_any_running(supervised_processes(self._popen.pid, [])):
                return TargetExited("closed its output and continued to run", lingers=True)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a busy machine delays the report
                self._popen.wait(10 * GRACE_PERIOD_S)
        with contextlib.suppress(OSError, KeyError, ValueError):
            # A child process that survives may write for ever, so the number of reads is limited.
            any(not self._read_errors() for _ in range(_LAST_LOOKS))
        return TargetExited(f"{exit_text(self._status())}{last_stderr_line(self.errors)}")

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._popen.poll() is None

    @property
    def is_answering(self) -> bool:
        """True if a part of a line has arrived."""
        return self._partial_size > 0

    def _status(self) -> int | None:
        """Return the status that the supervisor reported at its end; None without a report."""
        with contextlib.suppress(OSError):
            while chunk := os.read(self._report, 4096):
                self._report_text += chunk
        word, _, status = self._report_text.decode().strip().rpartition("\n")[2].partition(" ")
        return int(status) if word == "ended" and status != "None" else None

    @property
    def errors(self) -> str:
        """The end of its standard error."""
        return b"".join(self._errors).decode("utf-8", "replace")

    # --- memory -------------------------------------------------------------------------------------

    def _watch(self, limit: int) -> None:
        """Sample the resident memory of all supervised processes, and kill them if it exceeds the limit."""
        looked, used = 0.0, 0
        while not self._ended.wait(_SAMPLE if used > limit / _FAR or not self._family else _SELDOM):
            if self._is_frozen:
                continue
            if not self._family or time.monotonic() - looked > _FAMILY:
                self._family = supervised_processes(self._popen.pid, self._family)
                looked = time.monotonic()
            used = sum(map(resident_bytes, self._family))
            self._footprint.add_sample(used)
            if used > limit:
                self._over = f"used {used >> 20} MiB of memory, {limit >> 20} MiB are allowed"
                self.kill()
                return

    def start_measuring(self) -> int:
        """Return the bytes of memory that it uses now, and begin a new measurement of the peak."""
        self._family = self._family or supervised_processes(self._popen.pid, [])
        return self._footprint.start(self._family)

    def memory_growth(self, held: int | None) -> int:
        """Return the largest growth of its memory in bytes since it used `held`; 0 for None."""
        return self._footprint.growth(self._family, held) if held is not None else 0

    def cpu_wait_s(self) -> float:
        """Return the seconds since its start in which it waited for a CPU; they are not its own time."""
        return cpu_wait_s([process.pid for process in self._family])

    def lower_priority(self) -> None:
        """Use only CPU time that other processes leave, from now on."""
        lower_priority(self._family)

    def suspend(self, *, thaw: bool = False) -> None:
        """Suspend it or, with `thaw`, resume it."""
        self._is_frozen = not thaw
        freeze(self._family, thaw=thaw)

    # --- the end ------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Make the supervisor end it at once. SIGCONT resumes a supervisor that the target has stopped."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                self._popen.send_signal(number)

    def close(self, *, graceful: bool = False, grace_period: float = GRACE_PERIOD_S) -> int | None:
        """End the target and all its descendants.

        Its input ends first. With `graceful`, it then has `grace_period` seconds to exit by itself. Returns the exit
        status, or None if it was killed.
        """
        self._ended.set()
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError):
            self._popen.stdin.close()
        if graceful:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_period)
        by_itself = not self.alive
        self._kill_tree()
        self._selector.close()
        for pipe in filter(None, (self._popen.stdout, self._popen.stderr)):
            pipe.close()
        if self._watcher.ident is not None:
            self._watcher.join()
        _running.discard(self)
        status = self._status() if by_itself else None
        os.close(self._report)
        return status

    def _kill_tree(self) -> None:
        """Let the supervisor end everything. If the target stopped or killed the supervisor, do it from here."""
        for _ in range(_ENDING):
            self.kill()  # repeated, because a target can stop its supervisor again
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(1)
                break
        if self.alive:
            supervisor.kill_descendants(self._popen.pid, _ENDING)
            self._popen.kill()
            self._popen.wait()
        elif supervisor.HAS_SUBREAPER and self._status() is not None:
            return
        group = supervisor.group_of(self._popen.pid)
        supervisor.kill_group(group)
        self._kill_by_token()
        supervisor.remove_group(group)

    def _kill_by_token(self) -> None:
        """Kill the processes of the last sample, and all that have our token in their environment.

        Without control groups, a process can escape that starts after the last sample, if its supervisor was killed.
        """
        for process in (*self._family, *psutil.process_iter()):
            with contextlib.suppress(psutil.Error, OSError):
                if process in self._family or process.environ().get(TOKEN) == self._token:
                    process.kill()


_running: set[ChildProcess] = set()


@atexit.register
def _end_all() -> None:
    """Kill all targets at exit, even if an interrupt arrived while one was started or ended."""
    for process in list(_running):
        process._kill_tree()  # noqa: SLF001 - the class is ours
