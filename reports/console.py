"""Where reports are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_WIDTH = 140
"""Columns where the output is not a terminal and COLUMNS does not say."""


class PipeSafeConsole(Console):
    """A console whose reader may close the pipe: further output is dropped, and the exit status stays what it is."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_console(*, err: bool = False) -> Console:
    """The console on standard output, or on standard error."""
    console = PipeSafeConsole(stderr=err, highlight=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console
