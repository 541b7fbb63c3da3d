"""One target on one screen: the verdict, the main causes of failures in full, the other causes in a line each.

80 columns are enough. `reports/text.py` shows the same results in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from conformance.cases.model import LEVELS, VerdictKind
from conformance.cases.requirement import Requirement
from conformance.reports.explain import explain
from conformance.reports.formats import Report
from conformance.reports.grouping import Example, FailureGroup, Section, grouped
from conformance.reports.hex_view import dump, printable
from conformance.reports.matrix import ErrorCodeDifference, error_code_differences, requirements_met, verdict_text
from conformance.reports.target_differences import TargetDifferencesView
from conformance.reports.text import (
    NO_ANSWER_TEXT,
    STYLES,
    number_of_cases,
    skips,
    target_report,
    target_summary,
    title,
)
from conformance.runner.results import TargetRun
from conformance.runner.shrinking import FailureKey

LINES = 60
"""Lines of a target at most."""
_IN_FULL = 5
"""Causes with a full example."""
_AT_LEAST = 5
"""Lines reserved for further causes: a full example must leave them free."""
_ORDER = (Section.FAULTS, Section.FAILURES, Section.DISPUTED)


class TargetScreen(Struct, frozen=True):
    """A target as a renderable of at most LINES lines."""

    run: TargetRun
    requirements: Mapping[str, Requirement]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = [Rule(Text(title(self.run)), align="left"), *_verdict(self.run, self.requirements)]
        yield from head
        causes = _causes(self.run)
        left = LINES - 2 - _height(console, options, head)
        shown = 0
        for group, example in causes[:_IN_FULL]:
            full = list(_full_cause(group, example, self.requirements))
            height = _height(console, options, full)
            if shown and height > left - min(_AT_LEAST, len(causes) - shown - 1):
                break
            yield from full
            left -= height
            shown += 1
        others = causes[shown:]
        for group, example in others[:left]:
            yield _cause_line(group, example)
        if causes:
            yield Text(_how_to_see_more(len(others[left:])), style="dim", no_wrap=True, overflow="ellipsis")
        yield Text("")


def texts(report: Report, verbosity: int, *, quiet: bool) -> Iterator[RenderableType]:
    """Yield the console output: the targets, their differences, and with -v different error codes of brokers."""
    for run in report.runs:
        yield target_summary(run) if quiet else target_text(run, report.requirements, verbosity)
    if not quiet and report.disagreements:
        yield TargetDifferencesView(report.disagreements, every=verbosity > 0)
    if verbosity and not quiet and (differences := error_code_differences(report.runs)):
        yield codes_side_by_side(report.runs, differences)


def target_text(run: TargetRun, requirements: Mapping[str, Requirement], verbosity: int) -> RenderableType:
    """Return a target on one screen (0), with an example of every cause (1), or with every failing case (2)."""
    if verbosity:
        return target_report(run, requirements, every_case=verbosity > 1)
    return TargetScreen(run, requirements)


_ROWS = 40
"""Rows of error codes that are shown."""


def codes_side_by_side(runs: Sequence[TargetRun], differences: Sequence[ErrorCodeDifference]) -> RenderableType:
    """Return the vectors that brokers reject with different error codes: the codes, the number, one case id."""
    table = Table(title="Different error codes", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.header_style = "dim"
    for name in (*(run.name for run in runs), "cases"):
        table.add_column(printable(name), overflow="fold")
    for one in differences[:_ROWS]:
        cases = f"{len(one.cases)} × {one.cases[0]}"
        table.add_row(*(Text(printable(codes) or "-") for codes in one.codes), Text(cases))
    left = len(differences) - _ROWS
    return Group(table, Text(f"{left} more: --json FILE contains all\n" if left > 0 else "", style="dim"))


def keys_shown_in_full(run: TargetRun) -> frozenset[FailureKey]:
    """Return the keys of the failures that one screen can show with a full example: only these are shrunk."""
    return frozenset(
        FailureKey(group.cause, group.section is Section.DISPUTED)
        for group, _ in _causes(run)[:_IN_FULL]
        if group.cause
    )


def _causes(run: TargetRun) -> list[tuple[FailureGroup, Example]]:
    """Return the groups with their examples: adapter faults as one group, failures by cause, disputed failures."""
    groups = sorted((group for group in grouped(run) if group.examples), key=lambda one: _ORDER.index(one.section))
    return [(group, group.examples[0]) for group in groups]


def _verdict(run: TargetRun, requirements: Mapping[str, Requirement]) -> Iterator[RenderableType]:
    """Yield the verdict, the met and judged requirements by level, and the numbers of cases."""
    counts = requirements_met(run, requirements)
    shares = ", ".join(f"{level} {ours}/{judged}" for level, (ours, judged) in counts.items())
    verdict, numbers = verdict_text(run), run.numbers
    unexcused = numbers.unexcused()
    yield Text.assemble(
        (verdict, "bold green" if verdict == "conforms" else "bold red"),
        f": meets requirements {shares}" * bool(shares),
    )
    if not run.answered and run.judged:
        yield Text(NO_ANSWER_TEXT, style="bold red")
    if run.problem not in ("", verdict):
        # The problem contains a command, so it is never wrapped: users copy it or search logs for it.
        yield Text(printable(run.problem), style="bold red", no_wrap=True, overflow="ignore")
    cases = [(sum(unexcused[level, kind] for level in LEVELS), str(kind)) for kind in VerdictKind]
    cases += [(numbers.known.total(), "known"), (numbers.disputed.total(), "disputed")]
    yield Text("cases: " + (", ".join(f"{count} {name}" for count, name in cases if count) or "none"))
    yield from (_FirstLines(line, 2) for line in skips(numbers.skipped))


def _full_cause(
    group: FailureGroup, example: Example, requirements: Mapping[str, Requirement]
) -> Iterator[RenderableType]:
    """Yield a cause with its smallest example: requirement, case, expected and actual, bytes, command."""
    result, shown = example.result, explain(example.result, example.origin)
    requirement = requirements.get(result.requirement)
    level = group.level or result.level
    basis = f", {result.basis}" * bool(result.basis)
    yield _line(
        (_title(group, example), "bold"), ("  " + level + basis, STYLES[level]), (f"  {number_of_cases(group)}", "dim")
    )
    statement = f"{result.requirement}: {requirement.statement}" if requirement else result.requirement
    yield _line("  ", (statement, "italic"))
    flaky, via = "  [flaky]" * example.flaky, f"  via {printable(shown.via)}" if shown.via else ""
    yield _line("  ", (result.summary.id, "bold"), f"  {result.verdict.kind}{flaky}", (via, "dim"))
    yield _FirstLines(_expected_actual(printable(shown.expected), printable(shown.actual)), 2)
    near = slice(max(0, shown.place - 1), max(0, shown.place) + 2)
    yield _FirstLines(dump(shown.lines[near], shown.place - near.start if shown.place >= 0 else -1), 4)
    # The command is never cut or wrapped, because users copy it.
    yield Text("  " + printable(shown.reproduce), style="green", no_wrap=True, overflow="ignore")


def _expected_actual(expected: str, actual: str) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim")
    table.add_column(overflow="fold", ratio=1)
    table.add_column(style="dim")
    table.add_column(overflow="fold", ratio=1)
    table.expand = True
    table.add_row("  expected", Text(expected), "actual", Text(actual))
    return table


def _cause_line(group: FailureGroup, example: Example) -> Text:
    """Return a cause in one line: its level, number of cases, and the id of its smallest example."""
    level = group.level or example.result.level
    disputed = "disputed " * (group.section is Section.DISPUTED)
    return _line(
        (f"{disputed}{level}", STYLES[level]),
        f"{group.count:>5} × ",
        _title(group, example),
        ("  " + example.result.summary.id, "dim"),
    )


def _title(group: FailureGroup, example: Example) -> str:
    """Return the cause, or the fault of the adapter."""
    return printable(group.cause.text if group.cause else f"adapter: {example.result.verdict.detail}")


def _how_to_see_more(left: int) -> str:
    more = f"{left} more causes; " if left else ""
    return f"{more}-v: an example of each, -vv: every case, --html FILE: HTML page"


# --- lines --------------------------------------------------------------------------------------------


def _line(*parts: str | tuple[str, str]) -> Text:
    """Return one line, cut at the width of the console."""
    line = Text.assemble(*parts)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


class _FirstLines(Struct, frozen=True):
    """The first lines of a renderable."""

    inner: RenderableType
    lines: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in islice(console.render_lines(self.inner, options, pad=False), self.lines):
            yield from line
            yield Segment.line()


def _height(console: Console, options: ConsoleOptions, parts: Iterable[RenderableType]) -> int:
    """Return the number of lines of the parts."""
    return sum(len(console.render_lines(part, options, pad=False)) for part in parts)
