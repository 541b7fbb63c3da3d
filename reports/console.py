"""The consoles on standard output and standard error."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_WIDTH = 140
"""Columns of an output that is no terminal, if COLUMNS is not set."""


class PipeSafeConsole(Console):
    """A console whose reader may close the pipe (`| head`): further output is dropped, the exit status stays."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_console(*, err: bool = False) -> Console:
    """Return a console on standard output, or on standard error."""
    console = PipeSafeConsole(stderr=err, highlight=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console
