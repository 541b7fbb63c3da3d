"""`conformance doctor`: checks an adapter before it judges its target."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.commands import options as shared
from conformance.definitions.loader import types_with
from conformance.errors import ExitStatus
from conformance.runner.doctor import examine
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import target_spec

_OK, _NOTE, _FAIL = _WORDS = "ok", "note", "FAIL"
"""The first word of a check: passed, passed with a remark, a fault of the adapter."""


@click.command("doctor")
@click.argument("target")
@shared.python
@shared.definitions
def command(target: str, python: str | None, definitions: Path | None) -> ExitStatus:
    """Check an adapter before it judges its target."""
    spec = target_spec(target, python, ResourceLimits())
    types = types_with(shared.read_messages(definitions))
    counts = dict.fromkeys(_WORDS, 0)
    for check in examine(spec.launch, types, spec.limits):
        word = _FAIL if not check.good else _NOTE if check.is_noted else _OK
        counts[word] += 1
        detail = f": {check.detail}" if check.detail else ""
        click.echo("\n      ".join([f"{word:<4}  {check.what}{detail}", *check.advice]))
    click.echo("\nchecks: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count))
    return ExitStatus.NOT_JUDGED if counts[_FAIL] else ExitStatus.OK
