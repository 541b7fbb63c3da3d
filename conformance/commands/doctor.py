"""`conformance doctor`: checks an adapter before it judges its target."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.commands import options as shared
from conformance.definitions.shipped import types_with
from conformance.exit_status import ExitStatus
from conformance.running.doctor import examine
from conformance.targets.resolve import target_spec
from conformance.targets.session import Allowance


@click.command("doctor")
@click.argument("target")
@shared.python
@shared.definitions
def command(target: str, python: str | None, definitions: Path | None) -> ExitStatus:
    """Check an adapter before it judges its target."""
    spec = target_spec(target, python, Allowance())
    types = types_with(shared.read_messages(definitions))
    healthy = True
    for check in examine(spec.launch, types, spec.allowance):
        healthy &= check.good
        detail = f": {check.detail}" if check.detail else ""
        click.echo("\n      ".join([f"{'ok  ' if check.good else 'FAIL'}  {check.what}{detail}", *check.advice]))
    return ExitStatus.OK if healthy else ExitStatus.NOT_JUDGED
