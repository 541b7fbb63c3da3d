"""The most memory of a command, its own: a process that starts another lends it the peak it had itself."""

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
"""A small process between the tests, which may have taken much, and the command."""


def run_alone(
    command: Sequence[str], *, cwd: Path | None = None, before: Callable[[], None] | None = None
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a command to its end: what came of it, and the most bytes it had resident, whatever the tests had."""
    line = [sys.executable, "-c", _BETWEEN, *command]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False, preexec_fn=before)
    printed, _, most = done.stdout.rstrip("\n").rpartition("\n")
    done.stdout = printed
    return done, int(most) if sys.platform == "darwin" else int(most) << 10
