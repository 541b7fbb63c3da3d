"""`conformance compare`: what changed from one JSON report to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from conformance.commands import options as shared
from conformance.errors import ExitStatus
from conformance.reports.comparison import Change, ReportedResult, compare, read_report
from conformance.reports.hex_view import printable
from conformance.runner.policy import FailurePolicy

_SHOWN = 3
"""Cases of a change that are named."""


@click.command("compare")
@click.argument("old", type=shared.PATH)
@click.argument("new", type=shared.PATH)
@shared.fail_on
@shared.strict
def command(old: Path, new: Path, fail_on: str, *, strict: bool) -> ExitStatus:
    """Say what began to fail, what was mended, and what is not judged any more, from OLD to NEW (files of --json).

    What fails in both and for another cause is told, too.

    A line names each interrupted target, and the number of cases that are missing.

    A target goes by the name that it gives itself, so it may be started by another command line in NEW. Where each
    file is of one target, their names do not matter: two releases under two names are compared.

    Exit status: 1 if anything at the level of --fail-on began to fail, known and disputed failures left out.
    """
    changes = compare(read_report(old), read_report(new))
    for path, other, missing in ((old, new, changes.older_lacks), (new, old, changes.newer_lacks)):
        for one in missing:
            halt = printable(f"{one.target}: {one.problem}")
            click.echo(f"{path}: {halt}; {one.count} cases that {other} has are missing")
    policy = FailurePolicy(fail_on, strict)
    parts = {"began to fail": changes.began, "mended": changes.fixed, "not judged any more": changes.dropped}
    if changes.otherwise:
        parts["fail for another cause"] = changes.otherwise
    for headline, part in parts.items():
        click.echo(f"{headline}: {sum(len(change.cases) for change in part)} cases")
        for change in part:
            click.echo("\n".join(_lines(change)))
    worse = any(_counts(policy, result) for change in changes.began for result in change.cases)
    return ExitStatus.FAILED if worse else ExitStatus.OK


def _counts(policy: FailurePolicy, result: ReportedResult) -> bool:
    return result.verdict == "protocol" or policy.counts(result.level, "", disputed=result.upstream == "differs")


def _lines(change: Change) -> Iterator[str]:
    """A change: the target, the reason, and the first of its cases."""
    levels = ", ".join(dict.fromkeys(result.level for result in change.cases))
    yield f"  {printable(change.target)}  {printable(change.reason)}  ({levels}, {len(change.cases)})"
    for result in change.cases[:_SHOWN]:
        yield f"    {printable(result.id)}  {result.verdict}  {printable(result.requirement)}"
    if len(change.cases) > _SHOWN:
        yield f"    and {len(change.cases) - _SHOWN} more"
