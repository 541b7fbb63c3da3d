"""The exit statuses of every command, and which one wins among several reasons (docs/concepts.md#exit-status)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


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
