"""Failures in full, as plain text."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from conformance.cases.vector_files import Requirement
from conformance.reports.explain import Explanation, explain, reproduce
from conformance.reports.text import dump, printable
from conformance.running.results import Result, Shrunk


def verdict(result: Result) -> str:
    """The verdict of a result in a few words."""
    return f"{result.verdict.kind} of {result.requirement}"


def all_described(bad: Sequence[Shrunk], count: int, failing: int, requirements: dict[str, Requirement]) -> str:
    """The first of several kinds of failure in full, the others by the commands that show them.

    `failing` of `count` generated cases show one of them.
    """
    first, *others = bad
    lines = [described(first.result, requirements, first)]
    lines.append(f"{failing} of {count} generated cases of {first.result.case.type} fail")
    for other in others:
        command = reproduce(other.result.target, other.result.case, other.origin)
        lines.append(f"  {other.count} × {verdict(other.result)}: {printable(command)}")
    left = failing - sum(each.count for each in bad)
    return "\n".join(lines + ([f"  and {left} more"] if left else []))


def described(result: Result, requirements: dict[str, Requirement], shrunk: Shrunk | None = None) -> str:
    """One failure in full; with what it stands for, where it is a shrunk one."""
    shown = explain(result, shrunk.origin if shrunk else "")
    requirement = requirements.get(result.requirement)
    lines = [f"{result.requirement} ({result.level}): {result.verdict.kind}: {printable(result.verdict.detail)}"]
    if requirement is not None:
        lines.append(f"{requirement.statement} [{', '.join(requirement.source)}]")
    flaky = result.verdict.flaky or (shrunk is not None and shrunk.flaky)
    lines += ["", f"{result.case.id}  {result.target}" + ("  [flaky]" if flaky else "")]
    lines += [result.case.comment] if result.case.comment else []
    if shrunk is not None:
        lines.append(f"{shrunk.count} generated, the smallest of {shrunk.origin}")
    lines += [f"expected: {printable(shown.expected)}", f"actual:   {printable(shown.actual)}"]
    lines += [_dump(shown)] if shown.lines else []
    return "\n".join([*lines, printable(shown.reproduce)])


def _dump(shown: Explanation) -> str:
    """The annotated bytes."""
    console = Console(file=io.StringIO(), width=10_000, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(dump(shown.lines, shown.place))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
