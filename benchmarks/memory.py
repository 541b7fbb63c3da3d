"""The most memory that the suite's own process takes while it judges targets; theirs does not count.

    python benchmarks/memory.py kafka-python aiokafka kio    # a default run, with a report in JSON

It is what Linux says of the process at its end (VmHWM). Exit status 1 when it is more than the bound.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LARGEST = 300 << 20
"""Bytes."""

_RUN = """
import atexit
from pathlib import Path
from conformance.cli import main
atexit.register(lambda: Path(r"{place}").write_text(Path("/proc/self/status").read_text()))
main()
"""


def main() -> int:
    """Judge the targets that the command line names, and print the memory."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "status")
        line = [sys.executable, "-c", _RUN.format(place=place), "run", *sys.argv[1:], "--quiet"]
        done = subprocess.run([*line, "--json", f"{folder}/report.json"], check=False, stdout=subprocess.DEVNULL)
        most = re.search(r"VmHWM:\s+(\d+)", place.read_text(encoding="utf-8"))
        assert most, f"it ended with status {done.returncode}, and Linux says nothing of the memory"
    print(f"{int(most[1]) >> 10} MiB at most, {LARGEST >> 20} are allowed")
    return int(int(most[1]) << 10 > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
