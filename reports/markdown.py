"""The results as Markdown for a README or a CI summary: targets, causes of failures, differences between targets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from conformance.cases.model import LEVELS
from conformance.reports.explain import explain
from conformance.reports.formats import Report
from conformance.reports.grouping import Example, FailureGroup, Section, grouped
from conformance.reports.hex_view import printable
from conformance.reports.matrix import requirements_met, verdict_text
from conformance.reports.target_differences import TargetDifference
from conformance.reports.text import title
from conformance.runner.results import TargetRun

_IN_FULL = 5
"""Causes of a target with an example, and differences with a command."""
_LISTED = 50
"""Rows of causes per target, and of differences: GitHub limits a step summary to 1 MiB."""
_SYNTAX = re.compile(r"[^\w\s.,:;()/+=%-]|_|(?<=\d)\.(?=\s)|://|www\.")
"""Characters and sequences with a meaning in Markdown or on GitHub: marks, links, mentions."""


def plain(text: str) -> str:
    """Return a text with its Markdown syntax escaped as entities: text of a target must not become markup."""
    return _SYNTAX.sub(lambda found: "".join(f"&#{ord(one)};" for one in found[0]), printable(text))


def fenced(text: str) -> str:
    """Return a code block whose fence is longer than every run of backticks in the text."""
    text = printable(text)
    fence = "`" * (max([2, *map(len, re.findall("`+", text))]) + 1)
    return f"{fence}\n{text}\n{fence}"


def render(report: Report) -> Iterator[str]:
    """Yield the text of the file, in pieces."""
    yield "## Apache Kafka wire format\n\n"
    yield f"| target | verdict | {' | '.join(LEVELS)} |\n|---|---|{'---|' * len(LEVELS)}\n"
    for run in report.runs:
        counts = requirements_met(run, report.requirements)
        shares = (f"{counts[level][0]}/{counts[level][1]}" if level in counts else "" for level in LEVELS)
        yield f"| {plain(title(run))} | {verdict_text(run)} | {' | '.join(shares)} |\n"
    yield "\nEach level: the requirements that the target meets in all cases / the judged requirements.\n"
    for name, reason in report.stale:
        yield f"\nStale known failure {plain(name)}: {plain(reason)}\n"
    for run in report.runs:
        yield from _target(run)
    if report.disagreements:
        yield from _differences(report.disagreements)


def _target(run: TargetRun) -> Iterator[str]:
    if run.problem and not run.interrupted:
        yield f"\n**{plain(run.name)}**: {plain(run.problem)}\n"
    groups = [group for group in grouped(run) if group.examples]
    if not groups:
        return
    yield f"\n### {plain(title(run))}\n\n| level | cases | cause | smallest example |\n|---|---|---|---|\n"
    for group in groups[:_LISTED]:
        example = group.examples[0]
        level = f"{group.level or example.result.level}{', disputed' * (group.section is Section.DISPUTED)}"
        yield f"| {level} | {group.count} | {plain(_name(group))} | {plain(example.result.case.id)} |\n"
    if len(groups) > _LISTED:
        yield f"\n{len(groups) - _LISTED} more causes: `--html FILE` shows them all.\n"
    for group in groups[:_IN_FULL]:
        yield from _details(group, group.examples[0])


def _name(group: FailureGroup) -> str:
    return group.cause.text if group.cause else f"adapter: {group.examples[0].result.verdict.detail}"


def _details(group: FailureGroup, example: Example) -> Iterator[str]:
    result, shown = example.result, explain(example.result, example.origin)
    yield f"\n<details><summary>{plain(_name(group))}</summary>\n\n"
    why = ", ".join(filter(None, (group.level or result.level, result.basis)))
    yield f"{plain(result.case.id)} breaks {plain(result.requirement)} ({why})"
    yield f" via {plain(shown.via)}\n" if shown.via else "\n"
    lines = [f"expected  {shown.expected}", f"actual    {shown.actual}", shown.reproduce]
    yield "".join(f"\n{fenced(line)}\n" for line in lines)
    yield "\n</details>\n"


def _differences(rows: Sequence[TargetDifference]) -> Iterator[str]:
    yield "\n### Where the targets differ\n\n"
    yield "| level | cases | cause or requirement | behavior | smallest example |\n|---|---|---|---|---|\n"
    for row in rows[:_LISTED]:
        groups = (
            f"{', '.join(group.targets)} {'✓' if group.is_right else '✗'} {group.behavior}" for group in row.groups
        )
        cells = (row.kind, str(row.count), ", ".join(row.causes) or row.requirements[0], "; ".join(groups), row.example)
        yield f"| {' | '.join(map(plain, cells))} |\n"
    if len(rows) > _LISTED:
        yield f"\n{len(rows) - _LISTED} more rows: `--html FILE` shows them all.\n"
    yield "\n✓ is right, ✗ breaks a requirement. Unspecified: every behavior is right. Commands of the first rows:\n"
    for row in rows[:_IN_FULL]:
        yield f"\n{fenced(row.reproduce)}\n"
