"""The errors that the suite raises on purpose, split by whose fault they are.

The message of each is one line, made to be read by the user. Whatever else is raised is a defect of the suite.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import ClassVar


class ExitStatus(IntEnum):
    """What a command tells the shell."""

    OK = 0
    FAILED = 1
    """A failure that counts, or a stale known failure."""
    WRONG_INPUT = 2
    """The command line, a file or a vector is wrong, a selection matches no case, or the machine lacks something."""
    NOT_JUDGED = 3
    """A target could not be started, was judged on no case, or broke the protocol."""
    DEFECT = 70
    """The suite itself is wrong: an error that nobody expected."""
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
    """The status for several reasons: 130 before 70 before 2 before 3 before 1, and 0 where there is none."""
    given = set(reasons)
    return next((status for status in _PRECEDENCE if status in given), ExitStatus.OK)


class ConformanceError(Exception):
    """The base of all of them."""

    exit_status: ClassVar[ExitStatus]
    """What a command exits with that ends with this error."""


class UserError(ConformanceError):
    """The user's input is wrong: an option, a file, a name, a value."""

    exit_status = ExitStatus.WRONG_INPUT


class TargetError(ConformanceError):
    """The target, or its adapter, does not do what the protocol asks of it."""

    exit_status = ExitStatus.NOT_JUDGED


class CannotStart(TargetError):
    """A target that could not be started, described or asked any more; the message is one line."""


class MachineError(ConformanceError):
    """This machine lacks something: a Java, Spark, a package."""

    exit_status = ExitStatus.WRONG_INPUT


class SuiteBug(ConformanceError, AssertionError):
    """The suite contradicts itself: our fault, whatever the input."""

    exit_status = ExitStatus.DEFECT


class UsageError(UserError):
    """An option or argument of the command line that cannot be used: which, and what is wrong with it."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


class FileError(UserError):
    """A file that cannot be used: which, on which line (0: the file as a whole), and what is wrong with it."""

    def __init__(self, path: Path | str, problem: str, line: int = 0) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path = str(path)
        self.line = line
        self.problem = problem
