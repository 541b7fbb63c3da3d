"""How a target is started by its keeper, and what is known of a keeper that runs."""

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
"""What another target may do to the machine for a while; how often a start is tried again then, and after how long."""

SAFE_PATH = {"PYTHONSAFEPATH": "conformance"}
"""Keeps a Python that a library starts from importing from the working folder; the value marks it as ours."""
_ROOT = str(Path(__file__).absolute().parents[2])
"""The folder that contains this package."""
# That folder is on the path only while the package is imported: in a checkout it can be the working folder.
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
    """Set variables for a while."""
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
    """How a target is started."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    forks: bool = False
    """Whether the command takes a socket's descriptor as one more argument, to fork targets from (module_shim.py)."""
    cleaning: tuple[str, ...] = ()
    """A command that deletes what a run of it leaves elsewhere; empty where it leaves nothing."""


class SupervisedProcess(Protocol):
    """The keeper of a target that was started, with the target's pipes: as much of `subprocess.Popen` as we use."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """What the target reads."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """What the target writes."""
        ...

    @property
    def stderr(self) -> IO[bytes] | None:
        """What the target complains of."""
        ...

    def poll(self) -> int | None:
        """None while it runs."""
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
    """Start a keeper, which starts the target, which is passed some descriptors. Raises OSError."""
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
    """A keeper that was started as a program."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, which shows at once where the system has descriptors for processes.

        Raises subprocess.TimeoutExpired. Elsewhere `subprocess` looks now and then, ever more seldom.
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
    """Whether a process ends in this time."""
    end = select.poll()
    end.register(descriptor, select.POLLIN)
    return bool(end.poll(None if seconds is None else seconds * 1000))


class ForkedSupervisor:
    """A keeper that another process has forked."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        """Raises OSError where the system has no descriptors for processes."""
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self._descriptor = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._descriptor)

    def poll(self) -> int | None:
        """None while it runs; its status is not known to us."""
        return 0 if _has_ended(self._descriptor, 0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if not _has_ended(self._descriptor, timeout):
            raise subprocess.TimeoutExpired("a forked keeper", timeout or 0)
        return 0

    def send_signal(self, sig: int) -> None:
        """Signal it. Raises ProcessLookupError."""
        signal.pidfd_send_signal(self._descriptor, sig)

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)


def fork_child(channel: socket.socket, told: bytes, report: int, pid: Callable[[], bytes | str]) -> ForkedSupervisor:
    """Let the process behind a socket fork a keeper, which has `report` and the ends of its target's pipes.

    It is `told` something, and says the process id. Raises OSError, ValueError, or what `pid` raises.
    """
    with ExitStack() as theirs, ExitStack() as ours:
        given, kept = [], []
        for is_input in (True, False, False):
            reading, writing = (
                os.fdopen(end, how, buffering=0) for end, how in zip(os.pipe(), ("rb", "wb"), strict=True)
            )
            given.append(theirs.enter_context(reading if is_input else writing))
            kept.append(ours.enter_context(writing if is_input else reading))
        socket.send_fds(channel, [told], [*(pipe.fileno() for pipe in given), report])
        forked = ForkedSupervisor(int(pid()), *kept)
        ours.pop_all()
        return forked


def exit_text(status: int | None) -> str:
    """How a target ended, by the status that its keeper told; None where it told none."""
    if status is None:
        return "ended the process that keeps it"
    if status >= 0:
        return f"exited with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"died of {names.get(-status, f'signal {-status}')}"


_ADVICE = ("note: ", "stack backtrace:", "Node.js v", "}")
"""How lines begin that Rust and Node print after what went wrong."""
_OF_GO = ("fatal error: ", "panic: ")
"""How the line begins in which Go says what went wrong, in front of the stacks of all that runs."""


def last_stderr_line(errors: str) -> str:
    """How standard error ends, after a semicolon: the last line that says something; nothing where none does.

    Frames of a stack and advice to its reader say nothing.
    """
    lines = [line for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if not line[0].isspace() and not line.startswith(_ADVICE)]
    told = [line for line in telling if line.startswith(_OF_GO)] or telling or lines
    return f"; standard error ends: {told[-1].strip()[:300]}" if told else ""


def clean(launch: LaunchSpec) -> str:
    """Delete what a run of a target has left elsewhere: what kept that from being done, else nothing."""
    done = subprocess.run(  # noqa: S603 - our own program
        launch.cleaning, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"what deletes it {exit_text(done.returncode)}"


def cpu_wait_s(processes: Iterable[int]) -> float:
    """The most seconds that a thread of some processes was ready to run while others did; 0 where that is not told."""
    longest = 0
    for process in processes:
        with suppress(OSError):  # it may go between two reads
            longest = max([longest, *(_waited(process, thread) for thread in supervisor.threads_of(process))])
    return longest / 1e9


def _waited(process: int, thread: int) -> int:
    """Nanoseconds for which a thread was ready to run while others did; 0 where that is not told."""
    with suppress(OSError, ValueError, IndexError):
        return int(supervisor.content_of(f"/proc/{process}/task/{thread}/schedstat").split()[1])
    return 0
