"""The errors that the suite raises on purpose, by their origin: the user, the target, the machine, or the suite.

Each message is one line for the user. Every other exception is a defect of the suite.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import ClassVar


class ExitStatus(IntEnum):
    """The exit status of a command."""

    OK = 0
    FAILED = 1
    """A failure that counts, or a stale known failure."""
    WRONG_INPUT = 2
    """The command line, a file or a vector is wrong, a selection matches no case, or a dependency is missing."""
    NOT_JUDGED = 3
    """A target could not be started, was judged on no case, or broke the protocol."""
    DEFECT = 70
    """The suite has a bug: an unexpected error."""
    INTERRUPTED = 130
    """A signal ended the command early: SIGINT (Ctrl-C), SIGTERM or SIGHUP."""


_PRECEDENCE = (
    ExitStatus.INTERRUPTED,
    ExitStatus.DEFECT,
    ExitStatus.WRONG_INPUT,
    ExitStatus.NOT_JUDGED,
    ExitStatus.FAILED,
)


def overall(reasons: Iterable[ExitStatus]) -> ExitStatus:
    """Return the status for several reasons: 130 before 70 before 2 before 3 before 1; 0 without a reason."""
    given = set(reasons)
    return next((status for status in _PRECEDENCE if status in given), ExitStatus.OK)


class ConformanceError(Exception):
    """The base class of all errors of the suite."""

    exit_status: ClassVar[ExitStatus]
    """The exit status of a command that ends with this error."""


class UserError(ConformanceError):
    """The user's input is wrong: an option, a file, a name, or a value."""

    exit_status = ExitStatus.WRONG_INPUT


class TargetError(ConformanceError):
    """The target or its adapter breaks the line protocol."""

    exit_status = ExitStatus.NOT_JUDGED


class CannotStart(TargetError):
    """A target could not be started or described, or it takes no more requests."""


class MachineError(ConformanceError):
    """A dependency is missing on this machine: Java, Spark, or a package."""

    exit_status = ExitStatus.WRONG_INPUT


class SuiteBug(ConformanceError, AssertionError):
    """The suite contradicts itself: a bug, independent of the input."""

    exit_status = ExitStatus.DEFECT


class UsageError(UserError):
    """A wrong option or argument of the command line, with the problem."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


class FileError(UserError):
    """A wrong file, with the line (0: the whole file) and the problem."""

    def __init__(self, path: Path | str, problem: str, line: int = 0) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path = str(path)
        self.line = line
        self.problem = problem
