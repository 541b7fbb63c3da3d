"""`conformance compare`: the changes between two JSON reports."""

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
"""Case ids of a change that are listed."""


@click.command("compare")
@click.argument("old", type=shared.PATH)
@click.argument("new", type=shared.PATH)
@shared.fail_on
@shared.strict
def command(old: Path, new: Path, fail_on: str, *, strict: bool) -> ExitStatus:
    """List new failures, fixed failures, cases no longer judged, and failures with a new cause.

    OLD and NEW are files of --json. A line names each interrupted target and its number of missing cases.

    Targets are compared by their own names, so their command lines can differ. If each file has one target, the names
    can differ too: this compares two releases with different names.

    Exit status: 1 for a new failure at the level of --fail-on. Known and disputed failures do not count.
    """
    changes = compare(read_report(old), read_report(new))
    for path, other, missing in ((old, new, changes.older_lacks), (new, old, changes.newer_lacks)):
        for one in missing:
            halt = printable(f"{one.target}: {one.problem}")
            click.echo(f"{path}: {halt}; {one.count} cases of {other} are missing")
    policy = FailurePolicy(fail_on, strict)
    parts = {"new failures": changes.began, "fixed": changes.fixed, "no longer judged": changes.dropped}
    if changes.otherwise:
        parts["new cause"] = changes.otherwise
    for headline, part in parts.items():
        click.echo(f"{headline}: {sum(len(change.cases) for change in part)} cases")
        for change in part:
            click.echo("\n".join(_lines(change)))
    worse = any(_counts(policy, result) for change in changes.began for result in change.cases)
    return ExitStatus.FAILED if worse else ExitStatus.OK


def _counts(policy: FailurePolicy, result: ReportedResult) -> bool:
    return result.verdict == "protocol" or policy.counts(result.level, "", disputed=result.upstream == "differs")


def _lines(change: Change) -> Iterator[str]:
    """Yield a change in lines: the target, the reason, and the first cases."""
    levels = ", ".join(dict.fromkeys(result.level for result in change.cases))
    yield f"  {printable(change.target)}  {printable(change.reason)}  ({levels}, {len(change.cases)})"
    for result in change.cases[:_SHOWN]:
        yield f"    {printable(result.id)}  {result.verdict}  {printable(result.requirement)}"
    if len(change.cases) > _SHOWN:
        yield f"    and {len(change.cases) - _SHOWN} more"
