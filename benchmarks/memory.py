"""The most memory that the suite's own processes take while it judges targets; theirs does not count.

    python benchmarks/memory.py kafka-python aiokafka kio    # a default run, with a report in JSON

It is what Linux says (VmHWM) of the process that judges, at its end, and of the one that makes generated cases, while
it runs. Exit status 1 when both together are more than the bound.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

LARGEST = 300 << 20
"""Bytes."""
_EVERY = 0.02
"""Seconds between two looks at the process that makes generated cases."""

_RUN = """
import atexit
from pathlib import Path
from conformance.cli import main
atexit.register(lambda: Path(r"{place}").write_text(Path("/proc/self/status").read_text()))
main()
"""


def main() -> int:
    """Judge the targets that the command line names, and print the memory."""
    makers = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "status")
        line = [sys.executable, "-P", "-c", _RUN.format(place=place), "run", *sys.argv[1:], "--quiet"]
        with subprocess.Popen([*line, "--json", f"{folder}/report.json"], stdout=subprocess.DEVNULL) as judging:
            while judging.poll() is None:
                makers = max(makers, _of_maker(judging.pid))
                time.sleep(_EVERY)
        assert place.exists(), f"it ended with status {judging.returncode} before it could say anything"
        judges = _most(place)
    print(f"{judges >> 20} MiB at most, {makers >> 20} of the process that makes generated cases, ", end="")
    print(f"{LARGEST >> 20} are allowed for both")
    return int(judges + makers > LARGEST)


def _of_maker(parent: int) -> int:
    """The most that the process takes which makes cases for this one, in bytes; without one: 0."""
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
        for child in psutil.Process(parent).children():
            if "conformance.runner.generated_cases" in " ".join(child.cmdline()):
                return _most(Path(f"/proc/{child.pid}/status"))
    return 0


def _most(status: Path) -> int:
    """The most memory so far, in bytes, as a file of Linux says it; of a process that has ended: 0."""
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text(encoding="utf-8"))
    return int(found[1]) << 10 if found else 0


if __name__ == "__main__":
    sys.exit(main())
