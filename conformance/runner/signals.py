"""Signals that end a program, taken as an interrupt: targets are ended, and what was gathered is reported."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType


def interrupt_on_signals() -> None:
    """Let a `timeout`, a CI job or a terminal that ends the program interrupt it.

    A signal that somebody else has dealt with is left alone: under nohup a run goes on.
    """
    for number, handler in ((signal.SIGTERM, signal.default_int_handler), (signal.SIGHUP, _hang_up)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, handler)


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Interrupt; what is still to be printed goes nowhere where the terminal is gone."""
    for stream in (1, 2):
        if _is_gone(stream):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    signal.default_int_handler(number, frame)


def _is_gone(stream: int) -> bool:
    poll = select.poll()
    poll.register(stream, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
