"""`conformance doctor`: checks an adapter before it judges its target."""

from __future__ import annotations

import click

from conformance.commands import options as shared
from conformance.exit_status import ExitStatus
from conformance.running.doctor import examine
from conformance.targets.resolve import resolve


@click.command("doctor")
@click.argument("target")
@shared.python
def command(target: str, python: str | None) -> ExitStatus:
    """Check an adapter before it judges its target."""
    healthy = True
    for check in examine(None if target == "reference" else resolve(target, python)):
        healthy &= check.good
        detail = f": {check.detail}" if check.detail else ""
        click.echo(f"{'ok  ' if check.good else 'FAIL'}  {check.what}{detail}")
    return ExitStatus.OK if healthy else ExitStatus.NOT_JUDGED
