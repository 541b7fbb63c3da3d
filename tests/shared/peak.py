"""The peak memory of a command alone, although a child process inherits the peak of its parent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_BETWEEN = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""A small process between the tests, which may be large, and the command."""


def run_alone(
    command: Sequence[str], *, cwd: Path | None = None, before: Callable[[], None] | None = None
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a command to its end; return its result and its own peak of resident bytes."""
    line = [sys.executable, "-c", _BETWEEN, *command]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False, preexec_fn=before)
    printed, _, most = done.stdout.rstrip("\n").rpartition("\n")
    done.stdout = printed
    return done, int(most) if sys.platform == "darwin" else int(most) << 10
