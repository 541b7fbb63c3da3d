"""Runs of live clients: what the report says of each `read` case."""

import json

from command_line import conformance

from conformance.targets.resolve import adapters, drivers


def judged(target, folder, env, *select, status=None, options=(), op="read"):
    patterns = [part for pattern in select for part in ("--select", pattern)]
    asked = ("run", target, *patterns, "--generated", "0", "--json", "r.json", "--quiet", *options)
    done = conformance(*asked, cwd=folder, env=env)
    assert done.returncode in (0, 1, 3) if status is None else done.returncode == status, done.stdout + done.stderr
    rows = json.loads((folder / "r.json").read_text())["results"]
    return {row["id"]: row for row in rows if op in ("", row["op"])}


def lacking(name):
    return drivers()[name].missing() + (adapters()[name].missing() if name in adapters() else [])
