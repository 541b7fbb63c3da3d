"""The ways in which a child process fails to answer."""

from __future__ import annotations

from conformance.errors import TargetError


class TargetFailure(TargetError):
    """The session with a target cannot continue: it exited, timed out, or wrote no valid answer."""


class TargetExited(TargetFailure):
    """The target ended, closed its output, or was killed for its memory; the message says which."""

    def __init__(self, detail: str, *, memory: bool = False, lingers: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.memory = memory
        self.lingers = lingers
        """It closed its output and went on, so that its end was waited for in vain."""


class AnswerTimeout(TargetFailure):
    """No answer came in time."""


class OutputTooLong(TargetFailure):
    """The target writes a line that is longer than any answer may be."""
