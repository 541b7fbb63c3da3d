"""Turns signals that end a program into an interrupt: the targets are ended, and the results so far are reported."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType


def interrupt_on_signals() -> None:
    """Interrupt the program when `timeout`, a CI job or a closed terminal ends it.

    Signals with another handler stay unchanged: a run under nohup continues.
    """
    for signum, handler in ((signal.SIGTERM, signal.default_int_handler), (signal.SIGHUP, _hang_up)):
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, handler)


def _hang_up(signum: int, frame: FrameType | None) -> None:
    """Interrupt; after the terminal has gone, further output is discarded."""
    for stream in (1, 2):
        if _is_gone(stream):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    signal.default_int_handler(signum, frame)


def _is_gone(stream: int) -> bool:
    poll = select.poll()
    poll.register(stream, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
