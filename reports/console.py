"""Where reports are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class PatientConsole(Console):
    """A console that whoever reads it may leave: what follows goes nowhere, and the exit status stays what it is."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
