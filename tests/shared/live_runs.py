"""Runs of live clients: the row of the report for each `read` case."""

import json
from pathlib import Path

import yaml
from command_line import conformance

from conformance.targets.resolve import adapters, drivers

SHARED = Path(__file__).parent
TINY = {
    **{"name": "tiny", "language": "python", "module": "driver.py", "entry-point": "tiny.consume", "concurrency": 1},
    **{"codecs": ["none"], "magics": [0, 1, 2], "isolations": ["read_uncommitted", "read_committed"]},
}
"""The manifest of a driver of tiny_client.py."""
BRIEF = {"STARTUP_TIMEOUT_S": 10.0, "_LONG": 10.0, "_CASE_TIMEOUT_S": 20 / 3}
"""Limits of a bridge for tests with a hanging client: a third of the normal ones."""


def tiny(folder, program, **claims):
    """Write a driver of tiny_client.py with further claims to a separate folder, and return its target."""
    folder = folder / TINY["name"]
    folder.mkdir()
    begins = f"import sys\nsys.path.insert(0, {str(SHARED)!r})\nimport tiny_client\nfrom tiny_client import *\n"
    (folder / "driver.py").write_text(begins + program)
    claims = {name.replace("_", "-"): claim for name, claim in claims.items()}
    (folder / "driver.yaml").write_text(yaml.safe_dump({**TINY, **claims}))
    return f"live:{folder / 'driver.yaml'}"


def judged(target, folder, env, *select, status=None, options=(), op="read", limits=None):
    patterns = [part for pattern in select for part in ("--select", pattern)]
    arguments = ("run", target, *patterns, "--generated", "0", "--json", "r.json", "--quiet", *options)
    done = conformance(*arguments, cwd=folder, env=env, limits=limits)
    assert done.returncode in (0, 1, 3) if status is None else done.returncode == status, done.stdout + done.stderr
    rows = json.loads((folder / "r.json").read_text())["results"]
    return {row["id"]: row for row in rows if op in ("", row["op"])}


def lacking(name):
    return drivers()[name].missing() + (adapters()[name].missing() if name in adapters() else [])
