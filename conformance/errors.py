"""The errors that the suite raises on purpose, split by whose fault they are.

The message of each is one line, made to be read by the user. Whatever else is raised is a defect of the suite.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from conformance.exit_status import ExitStatus


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


class Defect(ConformanceError, AssertionError):
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
