"""Processes that a test starts, and those still running at its end."""

import contextlib
import os
import time
import uuid
from pathlib import Path

import psutil
from warm_bridges import descendants

ROOT = Path(__file__).parent.parent.parent


class Traces:
    """Marks processes by an environment variable, which children inherit, and finds the running ones.

    A forked process shows its parent's environment in /proc, so it is found as a descendant.
    """

    VARIABLE = "CONFORMANCE_TESTS_TRACE"

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        self.env = {**os.environ, self.VARIABLE: self.token, "PYTHONPATH": str(ROOT)}

    def left(self) -> list[str]:
        """Return the command lines of marked processes that still run after a short wait."""
        until = time.monotonic() + 60
        while (found := self._running()) and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def _running(self) -> list[str]:
        found, forked = [], descendants()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                marked = process in forked or process.environ().get(self.VARIABLE) == self.token
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline()))
        return found


def is_at_work(pid: int) -> bool:
    """Return True if Spark started its Python workers for a process."""
    for one in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # an ended child has no command line
            if "pyspark.daemon" in " ".join(one.cmdline()):
                return True
    return False
