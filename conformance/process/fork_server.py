"""Processes of a target that nobody waits for: one begins before it is asked, others are forked from a loaded one."""

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
    """The target is not to be forked; it can be started as a program."""


class ForkServer:
    """Starts processes of one target by forking a parent, which is started when the first is asked for.

    All who ask the target in a run may share it, so that the target is loaded twice: as a program, and as the parent.
    The program can be begun while nobody asks yet: it loads the target while we load what asks it.
    """

    def __init__(self, launch: LaunchSpec, startup: float) -> None:
        """`startup` is the seconds that the parent has to load the target."""
        self._launch, self._startup = launch, startup
        self._alone = threading.Lock()
        self._parent: ChildProcess | None = None
        self._channel: socket.socket | None = None
        self._begun: list[Future[ChildProcess]] = []
        """The program that was begun, as long as nobody has it."""
        self._declined = not launch.forks
        self.is_due = False
        """Whether processes are forked: not before the target was started as a program, and has described itself."""

    def prestart(self, memory: int) -> None:
        """Start the target as a program, without waiting for it."""
        pool = ThreadPoolExecutor(1)
        self._begun.append(pool.submit(ChildProcess, self._launch, memory))
        pool.shutdown(wait=False)

    def process(self, memory: int) -> ChildProcess:
        """A process of the target that is as one started anew: forked, or that which was begun. Raises OSError."""
        if self.is_due:
            with suppress(ForkServerUnavailable):
                return ChildProcess(self._launch, memory, self._forked)
        try:
            begun = self._begun.pop()
        except IndexError:
            return ChildProcess(self._launch, memory)
        return begun.result()

    @property
    def is_ready(self) -> bool:
        """Whether another process costs milliseconds."""
        return not self._declined

    def enable(self) -> Self:
        """It, from now on: the target was started as a program, and has described itself."""
        self.is_due = True
        return self

    def disable(self) -> None:
        """Fork no more."""
        self._declined = True

    def close(self) -> None:
        """End the parent, and what nobody asked for, from any thread; one that waits for it gets CannotFork."""
        self._declined = True
        while self._begun:
            with suppress(OSError, IndexError):
                self._begun.pop().result().close()
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
        """The keeper of a further process. Raises ForkServerUnavailable."""
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
            # Its family is that of all processes forked, each of which is watched by itself.
            self._parent = ChildProcess(self._launch, None, begin)
        if self._declined:  # `close` may not have seen this process
            self._parent.kill()
        self._parent.line(time.monotonic() + self._startup)

    def _fork(self, report: int) -> ForkedSupervisor:
        """Hand the parent the ends of a new target's pipes. Raises OSError, ValueError or TargetFailure."""
        parent = self._parent
        assert parent is not None
        assert self._channel is not None
        return fork_child(self._channel, b"\n", report, lambda: parent.line(time.monotonic() + self._startup))
