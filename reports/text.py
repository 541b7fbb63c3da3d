"""Results for the console, as rich renderables. Nothing a target says is markup, or reaches the terminal raw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from conformance.cases import LEVELS, Accepted, Case, Kind
from conformance.catalog import Requirement
from conformance.codec import Violation
from conformance.codec.dump import Line
from conformance.reports.explain import Explanation, explain
from conformance.results import Result, TargetRun

_STYLES = {"must": "bold red", "should": "yellow", "may": "cyan", "informative": "cyan"}


def printable(text: str) -> str:
    """Text without control characters, so that a target cannot drive the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def target_report(run: TargetRun, requirements: dict[str, Requirement]) -> RenderableType:
    """Everything about one target: failures grouped by requirement, disputed ones, known ones, then the table."""
    parts: list[RenderableType] = [Rule(Text(_title(run)), align="left")]
    failing = [result for result in run.results if result.failed and not result.known]
    parts += _groups([result for result in failing if not result.disputed], requirements)
    disputed = [result for result in failing if result.disputed]
    if disputed:
        parts.append(Text("Disputed: Apache Kafka itself does not meet these requirements", style="bold"))
        parts += _groups(disputed, requirements)
    faults = [result for result in run.results if result.verdict.kind is Kind.PROTOCOL]
    if faults:
        parts.append(Text("Faults of the adapter", style="bold red"))
        parts += [_one(result) for result in faults]
    parts.append(target_summary(run))
    return Group(*parts)


def _title(run: TargetRun) -> str:
    described = run.description
    if described is None:
        return printable(run.name)
    return printable(
        " ".join(filter(None, (run.name, described.version, f"({described.language})" * bool(described.language))))
    )


def _groups(results: Iterable[Result], requirements: dict[str, Requirement]) -> Iterator[RenderableType]:
    grouped: dict[tuple[int, str], list[Result]] = {}
    for result in results:
        grouped.setdefault((LEVELS.index(result.level), result.requirement), []).append(result)
    for (level, name), group in sorted(grouped.items(), key=lambda item: item[0]):
        yield _heading(name, LEVELS[level], requirements.get(name))
        yield from map(_one, group)


def _heading(name: str, level: str, requirement: Requirement | None) -> RenderableType:
    head = Text.assemble((name, "bold"), "  ", (level, _STYLES[level]))
    if requirement is None:
        return head
    head.append("  " + ", ".join(requirement.source), style="dim")
    return Group(head, _indented(Text(requirement.statement, style="italic")))


def _one(result: Result) -> RenderableType:
    shown = explain(result)
    head = Text.assemble((result.case.id, "bold"), "  ", (str(result.verdict.kind), "red"))
    if isinstance(result.outcome, Accepted):
        head.append("  " + printable(result.verdict.detail))
    head.append("  [flaky]" if result.verdict.flaky else "")
    parts: list[RenderableType] = [head]
    if result.case.note:
        parts.append(Text(result.case.note, style="dim"))
    parts += [_side_by_side(shown), dump(shown.lines, shown.place)]
    # Never wrapped: it is there to be copied.
    parts.append(Text(printable(shown.reproduce), style="green", no_wrap=True, overflow="ignore"))
    return _indented(Group(*parts), below=1)


def _indented(inner: RenderableType, *, below: int = 0) -> Padding:
    return Padding(inner, (0, 0, below, 2), expand=False)


def _side_by_side(shown: Explanation) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column(overflow="fold", max_width=60)
    table.add_column(overflow="fold")
    table.add_row(Text("expected", style="dim"), Text("actual", style="dim"))
    table.add_row(Text(printable(shown.expected)), Text(printable(shown.actual)))
    return table


def dump(lines: Sequence[Line], place: int = -1) -> RenderableType:
    """Annotated bytes: position, bytes, field, value, and marks below their field."""
    wide = max((len(line.hex) for line in lines), default=0)
    named = max((len(line.path) for line in lines), default=0)
    rows: list[RenderableType] = []
    layer = 0
    for index, line in enumerate(lines):
        if line.layer != layer:
            layer = line.layer
            rows.append(Text(f"decompressed stream {layer}", style="dim"))
        row = Text.assemble(
            ("→ " if index == place else "  ", "bold"),
            (f"{line.start:>5}", "dim"),
            "  ",
            (f"{line.hex:<{wide}}", "cyan"),
        )
        row.append(f"  {line.path:<{named}}  {printable(line.value)}".rstrip())
        rows.append(row)
        rows += [_mark(mark) for mark in line.marks]
    return Group(*rows)


def _mark(mark: Violation) -> Text:
    kind, style = ("open place", "yellow") if mark.open else ("violation", "red")
    return Text(f"         ^ {kind}: {mark.requirement}: {printable(mark.hint)}", style=style)


def target_summary(run: TargetRun) -> RenderableType:
    """Verdicts by requirement level, what was not judged and why, and how it ended."""
    table = Table(title=None, box=None, padding=(0, 2), header_style="dim")
    table.add_column("level")
    for kind in Kind:
        table.add_column(str(kind), justify="right")
    for name in ("known", "disputed"):
        table.add_column(name, justify="right")
    for level in LEVELS:
        row = [result for result in run.results if result.level == level]
        if row:
            counts = Counter(result.verdict.kind for result in row)
            extra = (sum(result.known for result in row), sum(result.disputed for result in row))
            table.add_row(level, *(str(counts[kind] or "") for kind in Kind), *(str(number or "") for number in extra))
    parts: list[RenderableType] = [table]
    parts += _skips(run)
    unobserved = sum(bool(result.verdict.unobserved) for result in run.results if result.verdict.kind is Kind.PASS)
    if unobserved:
        parts.append(Text(f"{unobserved} cases passed on the fields that the target shows", style="dim"))
    if run.problem:
        parts.append(Text(printable(run.problem), style="bold red"))
    return Padding(Group(*parts), (0, 0, 1, 0), expand=False)


def _skips(run: TargetRun) -> list[RenderableType]:
    reasons = Counter(
        _short_reason(result.verdict.detail) for result in run.results if result.verdict.kind is Kind.SKIP
    )
    if not reasons:
        return []
    shown = [f"{count} × {printable(reason)}" for reason, count in reasons.most_common(5)]
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(5))
    return [Text("skipped: " + "; ".join(shown) + (f"; {rest} more" if rest else ""), style="dim")]


def _short_reason(detail: str) -> str:
    return detail if len(detail) <= 70 else detail[:69] + "…"


def case_report(case: Case, requirement: Requirement, lines: Sequence[Line], expected: str) -> RenderableType:
    """`conformance show`: what a case asks, what is expected and why, and its bytes."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "case": f"{case.id} ({case.op} {case.type})",
        "expected": expected,
        "requirement": f"{requirement.id} ({requirement.level}{', upstream differs' if case.disputed else ''})",
        "says": requirement.statement,
        "documents": ", ".join(requirement.source),
        "settled": f"{requirement.settled}: {requirement.why}" if requirement.settled else "",
        "about": ", ".join(case.about),
        "catches": case.note,
        "found in": case.found_in,
        "source": case.source,
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, Text(value))
    return Group(table, Text(""), dump(lines))
