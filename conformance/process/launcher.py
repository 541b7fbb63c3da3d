"""The start of a target by its supervisor, and the handle of a running supervisor."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from msgspec import Struct, field

from conformance.process import supervisor

TOKEN = "CONFORMANCE_TARGET_TOKEN"  # noqa: S105 - marks processes, opens nothing
_PASSING, _ATTEMPTS, _PAUSE = (errno.EAGAIN, errno.ENOMEM), 3, 1.0
"""Temporary errors that another target can cause, the number of attempts, and the seconds between them."""

SAFE_PATH = {"PYTHONSAFEPATH": "conformance"}
"""Stops a Python that a library starts from importing from the working folder; the value marks it as ours."""
_ROOT = str(Path(__file__).absolute().parents[2])
"""The folder that contains this package."""
# That folder is on the path only during the import of the package: in a checkout it can be the working folder.
_RUN_OURS = (
    "import sys; sys.path.insert(0, sys.argv[1]); import conformance; del sys.path[0], sys.argv[1]; "
    "import runpy; runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)


def own_python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of this package as `-m` does, but without the working folder.

    The process imports the same copy of the package as this one.
    """
    return (sys.executable, "-P", "-c", _RUN_OURS, _ROOT, module, *arguments)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside of the context."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del os.environ[name]
            else:
                os.environ[name] = old


class LaunchSpec(Struct, frozen=True):
    """The command of a target and its environment."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    forks: bool = False
    """True if the command accepts a socket descriptor as a further argument, to fork targets (module_shim.py)."""
    cleaning: tuple[str, ...] = ()
    """A command that deletes the files which a run leaves elsewhere; empty if there are none."""


class SupervisedProcess(Protocol):
    """The supervisor of a started target, with the target's pipes: the part of `subprocess.Popen` that we use."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """The input of the target."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """The output of the target."""
        ...

    @property
    def stderr(self) -> IO[bytes] | None:
        """The standard error of the target."""
        ...

    def poll(self) -> int | None:
        """Return None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        ...

    def send_signal(self, sig: int) -> None:
        """Signal it. Raises ProcessLookupError."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...


def start(launch: LaunchSpec, token: str, report: int, passed: tuple[int, ...] = ()) -> SupervisedProcess:
    """Start a supervisor, which starts the target with the `passed` descriptors. Raises OSError."""
    for _ in range(_ATTEMPTS):
        try:
            return _started(launch, token, report, passed)
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            time.sleep(_PAUSE)
    return _started(launch, token, report, passed)


def _started(launch: LaunchSpec, token: str, report: int, passed: tuple[int, ...]) -> SupervisedProcess:
    command = (sys.executable, "-I", "-S", supervisor.__file__, str(report), str(os.getpid()), *launch.command)
    return _SpawnedSupervisor(
        (*command, *map(str, passed)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=launch.cwd,
        env={**os.environ, **launch.env, TOKEN: token},
        start_new_session=True,
        pass_fds=(report, *passed),
    )


class _SpawnedSupervisor(subprocess.Popen[bytes]):
    """A supervisor that was started as a program."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, which is noticed at once if the system has descriptors for processes.

        Raises subprocess.TimeoutExpired. On other systems `subprocess` polls at growing intervals.
        """
        if timeout is None or self.returncode is not None:
            return super().wait(timeout)
        with suppress(AttributeError, OSError):
            descriptor = os.pidfd_open(self.pid)
            try:
                has_ended = _has_ended(descriptor, timeout)
            finally:
                os.close(descriptor)
            timeout = None if has_ended else 0
        return super().wait(timeout)


def _has_ended(descriptor: int, seconds: float | None) -> bool:
    """Return True if a process ends in this time."""
    end = select.poll()
    end.register(descriptor, select.POLLIN)
    return bool(end.poll(None if seconds is None else seconds * 1000))


class ForkedSupervisor:
    """A supervisor that another process has forked."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        """Open a descriptor for the process. Raises OSError if the system has no such descriptors."""
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self._descriptor = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._descriptor)

    def poll(self) -> int | None:
        """Return None while it runs, else 0, because its status is unknown here."""
        return 0 if _has_ended(self._descriptor, 0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if not _has_ended(self._descriptor, timeout):
            raise subprocess.TimeoutExpired("a forked supervisor", timeout or 0)
        return 0

    def send_signal(self, sig: int) -> None:
        """Signal it. Raises ProcessLookupError."""
        signal.pidfd_send_signal(self._descriptor, sig)

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)


def fork_child(channel: socket.socket, request: bytes, report: int, pid: Callable[[], bytes | str]) -> ForkedSupervisor:
    """Make the process at a socket fork a supervisor, with `report` and the ends of its target's pipes.

    It receives `request`; `pid` returns its answer, the process id. Raises OSError, ValueError, or the errors of `pid`.
    """
    with ExitStack() as theirs, ExitStack() as ours:
        given, kept = [], []
        for is_input in (True, False, False):
            reading, writing = (
                os.fdopen(end, how, buffering=0) for end, how in zip(os.pipe(), ("rb", "wb"), strict=True)
            )
            given.append(theirs.enter_context(reading if is_input else writing))
            kept.append(ours.enter_context(writing if is_input else reading))
        socket.send_fds(channel, [request], [*(pipe.fileno() for pipe in given), report])
        forked = ForkedSupervisor(int(pid()), *kept)
        # The supervisor object owns these pipes now; an error before this line closes them.
        ours.pop_all()
        return forked


def exit_text(status: int | None) -> str:
    """Return how a target ended, from the status that its supervisor reported (None: no report)."""
    if status is None:
        return "killed its supervisor"
    if status >= 0:
        return f"exited with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"


_ADVICE = ("note: ", "stack backtrace:", "Node.js v", "}")
"""The beginnings of lines that Rust and Node print after the error."""
_OF_GO = ("fatal error: ", "panic: ")
"""The beginnings of the line in which Go prints the error, before all stacks."""


def last_stderr_line(errors: str) -> str:
    """Return the last informative line of standard error, after a semicolon; empty if there is none.

    Stack frames and advice to the reader are not informative.
    """
    lines = [line for line in errors.splitlines() if line.strip()]
    informative = [line for line in lines if not line[0].isspace() and not line.startswith(_ADVICE)]
    chosen = [line for line in informative if line.startswith(_OF_GO)] or informative or lines
    return f"; standard error ends: {chosen[-1].strip()[:300]}" if chosen else ""


def clean(launch: LaunchSpec) -> str:
    """Delete the files that a run of a target has left elsewhere. Return the problem, or an empty text."""
    done = subprocess.run(  # noqa: S603 - our own program
        launch.cleaning, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the cleaning command {exit_text(done.returncode)}"


def cpu_wait_s(processes: Iterable[int]) -> float:
    """Return the most seconds that a thread of some processes waited for a CPU; 0 if the system reports none."""
    longest = 0
    for process in processes:
        with suppress(OSError):  # it may end between two reads
            longest = max([longest, *(_waited(process, thread) for thread in supervisor.threads_of(process))])
    return longest / 1e9


def _waited(process: int, thread: int) -> int:
    """Return the nanoseconds that a thread waited for a CPU; 0 if the system reports none."""
    with suppress(OSError, ValueError, IndexError):
        return int(supervisor.content_of(f"/proc/{process}/task/{thread}/schedstat").split()[1])
    return 0
