"""The results for the console, as rich renderables. Text of a target is never markup or a control code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from conformance.cases.model import LEVELS, Accepted, CaseOrigin, VerdictKind
from conformance.cases.requirement import Requirement
from conformance.reports.explain import FailureExplanation, explain
from conformance.reports.grouping import Example, FailureGroup, Section, grouped
from conformance.reports.hex_view import dump, printable
from conformance.runner.results import Result, StoredAnswer, TargetRun

STYLES = {"must": "bold red", "should": "yellow", "may": "cyan", "informative": "cyan"}


NO_ANSWER_TEXT = "It does not conform: it answered no request."


def target_report(
    run: TargetRun, requirements: Mapping[str, Requirement], *, every_case: bool = False
) -> RenderableType:
    """Return one target in full: failures by cause, disputed failures, adapter faults, the table of verdicts.

    With `every_case`, each failing case has a line.
    """
    groups = [group for group in grouped(run) if group.examples]
    parts: list[RenderableType] = [Rule(Text(title(run)), align="left")]
    for section in (Section.FAILURES, Section.DISPUTED, Section.FAULTS):
        members = [group for group in groups if group.section is section]
        if members and section in _HEADLINES:
            parts.append(_HEADLINES[section])
        parts += [part for group in members for part in _group(group, requirements, every_case=every_case)]
    parts.append(target_summary(run))
    return Group(*parts)


_HEADLINES = {
    Section.DISPUTED: Text("Disputed: Apache Kafka itself does not meet these requirements", style="bold"),
    Section.FAULTS: Text("Adapter faults", style="bold red"),
}


def title(run: TargetRun) -> str:
    """Return a target's own name, version and language, and its name on the command line."""
    described = run.description
    if described is None:
        return printable(run.name)
    language = f"({described.language})" * bool(described.language)
    name = described.name or run.name
    given = f"as {run.name}" * (name != run.name)
    return printable(" ".join(filter(None, (name, described.version, language, given))))


def _group(
    group: FailureGroup, requirements: Mapping[str, Requirement], *, every_case: bool
) -> Iterator[RenderableType]:
    """Yield the cause of a group, its requirements, its smallest example, and the other cases."""
    if group.cause is None:
        yield from map(_example, group.examples)
        return
    yield Text.assemble(
        (printable(group.cause.text), "bold"), "  ", (group.level, STYLES[group.level]), f"  {number_of_cases(group)}"
    )
    for name in group.requirements[:_SHOWN]:
        yield _indented(_heading(name, requirements.get(name)))
    if len(group.requirements) > _SHOWN:
        yield _indented(Text("and " + ", ".join(group.requirements[_SHOWN:]), style="dim"))
    yield from map(_example, group.examples)
    if group.others and every_case:
        yield from map(_failing_case, group.others)
        yield Text("")
    elif group.others:
        yield Padding(Text(rest(group), style="dim"), (0, 0, 1, 2), expand=False)


def _failing_case(result: Result) -> Text:
    """Return a failing case in one line."""
    text = f"{result.verdict.kind}  {result.requirement}  {printable(result.verdict.detail)}"
    return Text(f"  {result.summary.id}  {text}", no_wrap=True, overflow="ignore")


_SHOWN = 3
"""Requirements of a cause with their statement, and further case ids."""


def number_of_cases(group: FailureGroup) -> str:
    """Return how many cases fail for one cause, by kind."""
    if [result.summary.kind for result in group.members] == [CaseOrigin.AD_HOC]:
        return "the case of --case"
    kinds = {"vector": group.vectors, "generated case": group.generated}
    return " and ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in kinds.items() if count)


def rest(group: FailureGroup) -> str:
    """Return the first further cases of a cause, and the option that lists all."""
    first = ", ".join(result.summary.id for result in group.others[:_SHOWN])
    left = len(group.others) - _SHOWN
    return f"also {first}" + (f" and {left} more: --json FILE lists them by cause" if left > 0 else "")


def _heading(name: str, requirement: Requirement | None) -> RenderableType:
    head = Text(name)
    if requirement is None:
        return head
    head.append("  ".join(("", requirement.basis, ", ".join(requirement.source))), style="dim")
    return Group(head, _indented(Text(requirement.statement, style="italic")))


def _example(example: Example) -> RenderableType:
    result = example.result
    shown = explain(result, example.origin)
    head = Text.assemble((result.summary.id, "bold"), "  ", (str(result.verdict.kind), "red"))
    if isinstance(result.outcome, Accepted | StoredAnswer):
        head.append("  " + printable(result.verdict.detail))
    head.append("  [flaky]" if example.flaky else "")
    parts: list[RenderableType] = [head]
    about = stands_for(example) or result.comment
    if about:
        parts.append(Text(about, style="dim"))
    if shown.via:
        parts.append(Text(f"via {printable(shown.via)}", style="dim"))
    parts += [_side_by_side(shown), dump(shown.lines, shown.place)]
    # Outside the indented part, which would crop the command: users copy it.
    command = Text("  " + printable(shown.reproduce) + "\n", style="green", no_wrap=True, overflow="ignore")
    return Group(_indented(Group(*parts)), command)


def stands_for(example: Example) -> str:
    """Return how many generated failures a shrunk example represents; empty for an example that was not shrunk."""
    if example.shrunk is None:
        return ""
    source = "" if example.origin == example.result.summary.id else f", shrunk from {example.origin}"
    source += f", not shrunk: {example.shrunk.why_not}" if example.shrunk.why_not else ""
    return f"the smallest of {example.count} generated failures{source}"


def _indented(inner: RenderableType) -> Padding:
    return Padding(inner, (0, 0, 0, 2), expand=False)


def _side_by_side(shown: FailureExplanation) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column(overflow="fold", max_width=60)
    table.add_column(overflow="fold")
    table.add_row(Text("expected", style="dim"), Text("actual", style="dim"))
    table.add_row(Text(printable(shown.expected)), Text(printable(shown.actual)))
    return table


def target_summary(run: TargetRun) -> RenderableType:
    """Return the table of verdicts by level, the reasons of skipped cases, and the problem of the target."""
    # The ten columns fit into 80 characters, even with large numbers.
    table = Table(title=None, box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("level", no_wrap=True)
    for name in (*VerdictKind, "known", "disputed"):
        table.add_column(str(name), justify="right", no_wrap=True)
    numbers = run.numbers
    counts = numbers.unexcused()
    for level in LEVELS:
        shown = [*(counts[level, kind] for kind in VerdictKind), numbers.known_at(level), numbers.disputed[level]]
        if any(shown):
            table.add_row(level, *(str(number or "") for number in shown))
    parts: list[RenderableType] = [table]
    parts += skips(numbers.skipped)
    if numbers.unobserved:
        hidden = f"{numbers.unobserved} cases passed, but the target does not show all fields that they check"
        parts.append(Text(hidden, style="dim"))
    if run.judged and not run.answered:
        parts.append(Text(NO_ANSWER_TEXT, style="bold red"))
    if run.problem:
        # The problem contains a command, so it is never wrapped: users copy it or search logs for it.
        parts.append(Text(printable(run.problem), style="bold red", no_wrap=True, overflow="ignore"))
    return Group(*parts, Text(""))


def skips(details: Counter[str]) -> list[RenderableType]:
    """Return the most frequent reasons of skipped cases in one line, or an empty list."""
    reasons: Counter[str] = Counter()
    for detail, count in details.items():
        reasons[_short_reason(detail)] += count
    if not reasons:
        return []
    shown = [f"{count} × {printable(reason)}" for reason, count in reasons.most_common(5)]
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(5))
    return [Text("skipped: " + "; ".join(shown) + (f"; {rest} more" if rest else ""), style="dim")]


def _short_reason(detail: str) -> str:
    return detail if len(detail) <= 70 else detail[:69] + "…"
