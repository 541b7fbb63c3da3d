"""kcat on a command line: a process for each topic, to consume it or to write to it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

from driving import Line, drive, hexed
from writer import Refused, last_line, produce

AT_ONCE = 8
FORMAT = "%o %T %K %S\n%k%s\n"  # lengths before contents, -1 for null: unambiguous for any record


def consume(line: Line) -> Iterator[dict[str, Any]]:
    """Yield the records that kcat prints. Raises Refused with its last error line."""
    command = ["kcat", "-C", "-q", "-u", "-b", line["bootstrap"], "-t", line["topic"], "-f", FORMAT]
    command += ["-p", str(line["partition"]), "-o", line["offset"], "-X", "check.crcs=true"]
    command += ["-X", f"isolation.level={line['isolation']}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as kcat:  # noqa: S603 - the command of a user
        assert kcat.stdout is not None
        assert kcat.stderr is not None
        try:
            while first_line := kcat.stdout.readline():
                yield record(first_line, kcat.stdout)
            message = last_line(kcat.stderr.read())
            if kcat.wait() > 0:
                raise Refused("".join(message) or f"exit status {kcat.returncode}")
            raise RuntimeError(f"kcat ended with {kcat.returncode} before the end of the topic: {message}")
        finally:
            kcat.kill()


def record(first_line: bytes, contents: IO[bytes]) -> dict[str, Any]:
    """Return the record with this first line, in the notation of `read`."""
    offset, timestamp, *sizes = first_line.split()
    key, value = (contents.read(int(size)) if int(size) >= 0 else None for size in sizes)
    contents.read(1)
    # kcat also prints 0 for a record without a timestamp, and no type, so 0 is ambiguous.
    time_field = {} if timestamp == b"0" else {"timestamp": timestamp.decode()}
    return {"offset": offset.decode(), **time_field, "key": hexed(key), "value": hexed(value)}


printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout  # noqa: S607
version = next(line for line in printed.splitlines() if line.startswith("Version")).removeprefix("Version ")
drive(version, consume, dict, at_once=AT_ONCE, is_refusal=lambda error: isinstance(error, Refused), produce=produce)
