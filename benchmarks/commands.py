"""The time of small commands, compared with a Python that does nothing.

    python benchmarks/commands.py [ROUNDS]

The commands run in turns, so that other load affects all of them. The output is the median and the minimum wall time
of each, the ratio to `python -c pass`, and the number of imported modules.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODULE = """
def describe():
    return {"name": "one", "version": "1", "language": "python", "supports": {"decode": ["VARINT"]}}

def decode(type, data, **_):
    raise ValueError("too long")

REJECTIONS = [ValueError]
"""
COMMANDS = {
    "python -c pass": [],
    "--version": ["--version"],
    "show CASE": ["show", "varint/six-bytes"],
    "list": ["list"],
    "list --requirements": ["list", "--requirements"],
    "explain": ["explain", "--type", "VARINT", "7e"],
    "run --select ONE, reference": ["run", "reference", "--select", "varint/six-bytes"],
    "run --select ONE, a module": ["run", "module:./one.py", "--select", "varint/six-bytes"],
    "run --select, a typo": ["run", "module:./one.py", "--select", "varnt/six-bytes"],
}
COUNTING = "import sys, atexit; atexit.register(lambda: print(len(sys.modules), file=sys.stderr)); "


def command(arguments: list[str], before: str = "") -> list[str]:
    """Return the command line of a new Python."""
    code = "from conformance.cli import main; main()" if arguments else "pass"
    return [sys.executable, "-P", "-c", before + code, *arguments]


def seconds(arguments: list[str], folder: str) -> float:
    """Return the seconds of a command in a folder."""
    start = time.perf_counter()
    subprocess.run(command(arguments), cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - start


def modules(arguments: list[str], folder: str) -> int:
    """Return the number of modules that a command imports."""
    done = subprocess.run(command(arguments, COUNTING), cwd=folder, capture_output=True, check=False, text=True)
    return int(done.stderr.split()[-1])


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.py").write_text(MODULE)
        imported = {name: modules(arguments, folder) for name, arguments in COMMANDS.items()}
        taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, arguments in COMMANDS.items():
                taken[name].append(seconds(arguments, folder))
    bare = statistics.median(taken["python -c pass"])
    print(f"{'command':<30} {'median':>8} {'least':>8} {'ratio':>7} {'modules':>8}")
    for name, times in taken.items():
        middle = statistics.median(times)
        print(f"{name:<30} {middle:>6.3f} s {min(times):>6.3f} s {middle / bare:>6.1f}× {imported[name]:>8}")


if __name__ == "__main__":
    main()
