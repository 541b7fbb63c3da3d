"""The ways in which a child process fails to answer."""

from __future__ import annotations

from conformance.errors import TargetError


class TargetFailure(TargetError):
    """The session with a target cannot continue: it exited, timed out, or wrote no valid answer."""


class TargetExited(TargetFailure):
    """The target ended, closed its output, or was killed for its memory; the message has the reason."""

    def __init__(self, detail: str, *, memory: bool = False, lingers: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.memory = memory
        self.lingers = lingers
        """True if it closed its output but did not end within the grace period."""


class AnswerTimeout(TargetFailure):
    """No answer arrived before the deadline."""


class OutputTooLong(TargetFailure):
    """The target wrote a line that is longer than any valid answer."""
