"""kcat on a command line to write: lines of keys and values on its standard input."""

import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from driving import Line, batches


class Refused(Exception):
    """kcat exited with an error message."""


def last_line(errors: bytes) -> list[str]:
    """Return the last line of standard error, if any."""
    return errors.decode("utf-8", "replace").strip().splitlines()[-1:]


def produce(line: Line) -> None:
    """Write batches as lines of keys and values; kcat sends after a pause. Raises Refused with its last error line."""
    options, topic, rows = line["produce"], line["topic"], batches(line, cannot)
    settings = {
        "client.id": topic,
        "linger.ms": "100",
        "batch.size": str(options["batchBytes"]),
        "message.timeout.ms": "10000",
        "compression.codec": options["compression"],
        "enable.idempotence": str(options["idempotent"]).lower(),
        **({"transactional.id": topic} if options["transactional"] else {}),
    }
    command = ["kcat", "-P", "-q", "-b", line["bootstrap"], "-t", topic, "-p", str(line["partition"]), "-K", "\t"]
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as kcat:  # noqa: S603
        assert kcat.stdin is not None
        for batch in rows:
            kcat.stdin.write(b"".join(b"%b\t%b\n" % (row["key"], row["value"]) for row in batch))
            kcat.stdin.flush()
            time.sleep(0.5)
        message = last_line(kcat.communicate()[1])
        if kcat.returncode:
            raise Refused("".join(message) or f"exit status {kcat.returncode}")


def cannot(row: Line) -> str:
    """Return the parts of a record that an input line cannot express, or ""."""
    return "nulls and headers" if None in (row["key"], row["value"]) or row["headers"] else ""
