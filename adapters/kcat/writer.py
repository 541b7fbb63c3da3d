"""kcat as it is used on a command line to write: lines of keys and values on its standard input."""

import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from driving import Told, batches


class Refused(Exception):
    """It said what is wrong, and exited."""


def last_words(errors: bytes) -> list[str]:
    """Return the last line of what kcat wrote on standard error, where there is one."""
    return errors.decode("utf-8", "replace").strip().splitlines()[-1:]


def produce(told: Told) -> None:
    """Write batches as lines of keys and values; it sends after a pause. Raises Refused with its last words."""
    asked, topic, rows = told["produce"], told["topic"], batches(told, cannot)
    settings = {
        "client.id": topic,
        "linger.ms": "100",
        "batch.size": str(asked["batchBytes"]),
        "message.timeout.ms": "10000",
        "compression.codec": asked["compression"],
        "enable.idempotence": str(asked["idempotent"]).lower(),
        **({"transactional.id": topic} if asked["transactional"] else {}),
    }
    command = ["kcat", "-P", "-q", "-b", told["bootstrap"], "-t", topic, "-p", str(told["partition"]), "-K", "\t"]
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as kcat:  # noqa: S603
        assert kcat.stdin is not None
        for batch in rows:
            kcat.stdin.write(b"".join(b"%b\t%b\n" % (row["key"], row["value"]) for row in batch))
            kcat.stdin.flush()
            time.sleep(0.5)
        words = last_words(kcat.communicate()[1])
        if kcat.returncode:
            raise Refused("".join(words) or f"exit status {kcat.returncode}")


def cannot(row: Told) -> str:
    """Say what of a record a line of input does not tell."""
    return "nulls and headers" if None in (row["key"], row["value"]) or row["headers"] else ""
