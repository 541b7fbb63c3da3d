"""Processes of a target without a wait for their start: one starts early, others are forked from a loaded parent."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Self

from conformance.errors import TargetError
from conformance.process.child_process import ChildProcess
from conformance.process.errors import TargetFailure
from conformance.process.launcher import ForkedSupervisor, LaunchSpec, fork_child, start


class ForkServerUnavailable(TargetError):
    """The target cannot be forked; it can be started as a program."""


class ForkServer:
    """Starts processes of one target by forking a parent, which starts when the first process is requested.

    All sessions of a run may share it, so that the target is loaded twice: as a program, and as the parent. The program
    can start before the first session: it then loads the target while the suite loads its cases.
    """

    def __init__(self, launch: LaunchSpec, startup: float) -> None:
        """Store the command; `startup` is the time in seconds for the parent to load the target."""
        self._launch, self._startup = launch, startup
        self._alone = threading.Lock()
        self._parent: ChildProcess | None = None
        self._channel: socket.socket | None = None
        self._started: list[Future[ChildProcess]] = []
        """The program that was started early, until a session uses it."""
        self._declined = not launch.forks
        self.forks = False
        """True if processes are forked: only after the target was started as a program and described itself."""

    def prestart(self, memory: int) -> None:
        """Start the target as a program, without waiting for it."""
        pool = ThreadPoolExecutor(1)
        self._started.append(pool.submit(ChildProcess, self._launch, memory))
        pool.shutdown(wait=False)

    def process(self, memory: int) -> ChildProcess:
        """Return a process of the target in its initial state: forked, or started early, or new. Raises OSError."""
        if self.forks:
            with suppress(ForkServerUnavailable):
                return ChildProcess(self._launch, memory, self._forked)
        try:
            started = self._started.pop()
        except IndexError:
            return ChildProcess(self._launch, memory)
        return started.result()

    @property
    def is_ready(self) -> bool:
        """True if another process takes only milliseconds to start."""
        return not self._declined

    def enable(self) -> Self:
        """Permit forks from now on, and return self: the target was started as a program and described itself."""
        self.forks = True
        return self

    def disable(self) -> None:
        """Forbid forks from now on."""
        self._declined = True

    def close(self) -> None:
        """End the parent and the unused program, from any thread. A thread that waits gets ForkServerUnavailable."""
        self._declined = True
        while self._started:
            with suppress(OSError, IndexError):
                self._started.pop().result().close()
        parent = self._parent
        if parent is not None:
            parent.kill()
        with self._alone:
            self._end()

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._parent is not None:
            self._parent.close()
        self._parent = self._channel = None

    def _forked(self, _: str, report: int) -> ForkedSupervisor:
        """Return the supervisor of a forked process. Raises ForkServerUnavailable."""
        with self._alone:
            try:
                if self._parent is None:
                    self._load()
                return self._fork(report)
            except (OSError, ValueError, TargetFailure) as error:
                self._declined = True
                self._end()
                raise ForkServerUnavailable(str(error)) from None

    def _load(self) -> None:
        """Start the parent. Raises ForkServerUnavailable, OSError or TargetFailure."""
        if self._declined:
            raise ForkServerUnavailable(self._launch.name)
        self._channel, theirs = socket.socketpair()
        with theirs:
            begin = partial(start, self._launch, passed=(theirs.fileno(),))
            # All forked processes are descendants of the parent, and each has its own memory limit.
            self._parent = ChildProcess(self._launch, None, begin)
        if self._declined:  # `close` may have run before this process existed
            self._parent.kill()
        self._parent.line(time.monotonic() + self._startup)

    def _fork(self, report: int) -> ForkedSupervisor:
        """Pass the ends of a new target's pipes to the parent. Raises OSError, ValueError or TargetFailure."""
        parent = self._parent
        assert parent is not None
        assert self._channel is not None
        return fork_child(self._channel, b"\n", report, lambda: parent.line(time.monotonic() + self._startup))
