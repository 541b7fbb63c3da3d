"""Failures as plain text, for pytest's report of a failed item."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from conformance.cases.requirement import Requirement
from conformance.reports.annotated import dump, printable
from conformance.reports.explain import Explanation, explain
from conformance.reports.grouping import Example
from conformance.reports.reproduction import reproduce
from conformance.reports.text import stands_for
from conformance.runner.results import Result


def verdict(result: Result) -> str:
    """The verdict of a result in a few words."""
    return f"{result.verdict.kind} of {result.requirement}"


def described_property(
    examples: Sequence[Example], count: int, failing: int, requirements: dict[str, Requirement]
) -> str:
    """The first example in full, the others by the commands that show them.

    `failing` of the `count` generated cases of a type fail.
    """
    first, *others = examples
    lines = [described(first, requirements)]
    lines.append(f"{failing} of {count} generated cases of {first.result.label.type} fail")
    for other in others:
        command = reproduce(other.result, other.origin)
        lines.append(f"  {other.count} × {printable(other.result.cause.text)}: {printable(command)}")
    left = failing - sum(example.count for example in examples)
    return "\n".join(lines + ([f"  and {left} more"] if left else []))


def described(example: Example, requirements: dict[str, Requirement]) -> str:
    """One failure in full."""
    result = example.result
    shown = explain(result, example.origin)
    requirement = requirements.get(result.requirement)
    why = ", ".join(filter(None, (result.level, result.basis)))
    lines = [f"{result.requirement} ({why}): {result.verdict.kind}: {printable(result.verdict.detail)}"]
    if requirement is not None:
        lines.append(f"{requirement.statement} [{', '.join(requirement.source)}]")
    lines += [printable(f"cause: {result.cause.text}")] if result.failed else []
    lines += ["", f"{result.label.id}  {result.target}" + ("  [flaky]" if example.flaky else "")]
    lines += filter(None, (result.comment, stands_for(example)))
    lines += [f"expected: {printable(shown.expected)}", f"actual:   {printable(shown.actual)}"]
    lines += [f"via:      {printable(shown.via)}"] if shown.via else []
    lines += [_dump(shown)] if shown.lines else []
    return "\n".join([*lines, printable(shown.reproduce)])


def _dump(shown: Explanation) -> str:
    """The annotated bytes."""
    console = Console(file=io.StringIO(), width=10_000, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(dump(shown.lines, shown.place))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
