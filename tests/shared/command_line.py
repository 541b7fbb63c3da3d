"""Commands in this process, because a separate interpreter and its imports would take most of the time of a test."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from warm_bridges import forked_bridges

from conformance.cli import main

LONGEST = 600
"""Timeout of a command in seconds."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command, like that of `subprocess.run`."""

    returncode: int
    stdout: str
    stderr: str


def conformance(*arguments, cwd, env=None, stdin=b"", limits=None):
    """Run a command like `python -m conformance`, in a folder, with other environment variables.

    Bridges to live clients are forked, with other limits.
    """
    out, err = _Stream(), _Stream()
    given = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    with ExitStack() as stack:
        for each in (chdir(cwd), redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", given)):
            stack.enter_context(each)
        stack.enter_context(patch.dict(os.environ, {} if env is None else env, clear=env is not None))
        stack.enter_context(forked_bridges(**(limits or {})))
        stack.enter_context(_signals())
        stack.enter_context(_at_most(LONGEST))
        try:
            main(list(map(str, arguments)), prog_name="conformance")
        except SystemExit as ended:
            return Done(ended.code or 0, out.text(), err.text())
    raise AssertionError("a command ends with a status")


class _Stream(io.TextIOWrapper):
    """A stream for text and bytes."""

    def __init__(self):
        super().__init__(io.BytesIO(), "utf-8", newline="", write_through=True)

    def text(self):
        return self.buffer.getvalue().decode("utf-8")


@contextmanager
def _signals():
    """Restore the signal handlers after a command."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _at_most(seconds):
    """Raise TimeoutError after a number of seconds."""

    def ring(*_):
        raise TimeoutError(f"the command takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
