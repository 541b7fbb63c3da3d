"""Processes that a test starts, and those of them that it leaves behind."""

import contextlib
import os
import time
import uuid
from pathlib import Path

import psutil
from warm_bridges import descendants

ROOT = Path(__file__).parent.parent.parent


class Traces:
    """Marks processes by their environment, which children inherit, and finds those that still run.

    What is forked has the environment of its parent where one looks from outside, and is found below that.
    """

    VARIABLE = "CONFORMANCE_TESTS_TRACE"

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        self.env = {**os.environ, self.VARIABLE: self.token, "PYTHONPATH": str(ROOT)}

    def left(self) -> list[str]:
        """Command lines of marked processes that run; those that are about to go are given a moment."""
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
    """Whether Spark has started its workers in Python for a process."""
    for one in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # a child that has ended has no command line
            if "pyspark.daemon" in " ".join(one.cmdline()):
                return True
    return False
