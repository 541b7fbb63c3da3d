"""The peak memory of the suite's own processes during a run, without its targets.

    python benchmarks/memory.py kafka-python aiokafka kio    # a default run, with a report in JSON

It is VmHWM of Linux, of the judging process at its end, and of the process that generates cases while it runs. The
exit status is 1 if their sum exceeds the bound.
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
"""Poll interval in seconds for the process that generates cases."""

_RUN = """
import atexit
from pathlib import Path
from conformance.cli import main
atexit.register(lambda: Path(r"{place}").write_text(Path("/proc/self/status").read_text()))
main()
"""


def main() -> int:
    """Judge the targets of the command line, and print the memory."""
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
    """Return the peak bytes of the process that generates cases for this one, or 0 without one."""
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
        for child in psutil.Process(parent).children():
            if "conformance.runner.generated_cases" in " ".join(child.cmdline()):
                return _most(Path(f"/proc/{child.pid}/status"))
    return 0


def _most(status: Path) -> int:
    """Return the peak bytes so far from a status file of Linux, or 0 for an ended process."""
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text(encoding="utf-8"))
    return int(found[1]) << 10 if found else 0


if __name__ == "__main__":
    sys.exit(main())
