"""`conformance serve`: runs the reference or a Python module as a target process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from conformance.commands import options as shared
from conformance.definitions.loader import types_with
from conformance.targets.reference import serve_reference
from conformance.targets.resolve import UnknownTarget, resolve


@click.command("serve")
@click.argument("target")
@shared.python
@shared.definitions
def command(target: str, python: str | None, definitions: Path | None) -> None:
    """Run the reference or a Python module as a target: the line protocol on standard input and output."""
    if target == "reference":
        types = types_with(shared.read_messages(definitions))
        serve_reference(sys.stdin.buffer, sys.stdout.buffer, types)
        return
    launch = resolve(target, python)
    if target.startswith("command:"):
        raise UnknownTarget(f"expected reference or a module target, found {target}")
    os.execvpe(launch.command[0], launch.command, {**os.environ, **launch.env})  # noqa: S606 - this process is replaced
