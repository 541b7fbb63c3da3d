"""The cases in which targets differ: one target breaks a requirement, or the behavior is unspecified.

The differences are computed once and used by all reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from conformance.cases.model import LEVELS, Accepted, Case, CaseOrigin, Outcome, VerdictKind
from conformance.judging.failure_causes import FailureCause
from conformance.judging.target_comparison import (
    Behavior,
    ObservedBehavior,
    differing_part,
    group_equal,
    reading_of,
    stopped_with,
)
from conformance.reports.explain import actual_text, command, expected_text
from conformance.reports.hex_view import printable
from conformance.reports.text import STYLES
from conformance.runner.results import NO_ANSWER, Result, ShrunkFailure, StoredAnswer, TargetRun

Split = tuple[ObservedBehavior | None, ...]
"""The behavior of each target in one case; None if the target was not judged on it."""


class BehaviorGroup(Struct, frozen=True):
    """The targets with the same behavior in a case."""

    targets: tuple[str, ...]
    """Their names on the command line."""
    behavior: Behavior
    is_right: bool
    example_text: str
    """The outcome of the example in one line; it can contain text of a target."""

    @property
    def text(self) -> str:
        """Return the behavior and the outcome."""
        return f"{self.behavior}: {self.example_text}" if self.example_text else str(self.behavior)


class TargetDifference(Struct, frozen=True):
    """Cases in which the same targets differ in the same way, for the same cause or requirement."""

    requirements: tuple[str, ...]
    """The requirements of the cases; the one with the most cases first."""
    level: str
    """The highest level of a failure; without a failure, the level of the requirement."""
    is_open: bool
    """True if every target is right, because the documents specify no behavior."""
    is_disputed: bool
    """True if Apache Kafka itself does not meet the requirement of any failure."""
    causes: tuple[str, ...]
    """The causes of the failures."""
    cells: tuple[tuple[Behavior | None, bool], ...]
    """For each target its behavior, and True if it is right; None if the target was not judged."""
    groups: tuple[BehaviorGroup, ...]
    """The targets by their behavior in the example."""
    vectors: int
    generated: int
    cases: tuple[str, ...]
    example: str
    """The id of the example: highest level, then most judged targets, then smallest."""
    reproduce: str
    """The command that repeats the example on the targets."""
    shrunk: str
    """The command of the shrunk case, if the example is generated and a failure in it was shrunk."""

    @property
    def count(self) -> int:
        """Return the number of cases."""
        return self.vectors + self.generated

    @property
    def kind(self) -> str:
        """Return the level with "disputed", or "unspecified"."""
        return "unspecified" if self.is_open else f"{'disputed ' * self.is_disputed}{self.level}"


def disagreements(runs: Sequence[TargetRun]) -> tuple[TargetDifference, ...]:
    """Return the differences: broken requirements before unspecified behavior, by level and number of cases.

    A campaign stores only failures, so it has no differences.
    """
    if len(runs) < 2 or any(run.counted is not None for run in runs):
        return ()
    groups: dict[tuple[object, ...], list[list[Result | None]]] = {}
    splits: dict[str, Split] = {}
    for results in _differing(runs):
        split = _split(results)
        numbers = group_equal(split)
        if len({*numbers} - {None}) > 1:
            groups.setdefault(_key(results, split, numbers), []).append(results)
            splits[_case_of(results).id] = split
    found = [_disagreement(runs, members, splits) for members in groups.values()]
    return tuple(sorted(found, key=_rank))


_UNJUDGED = (VerdictKind.SKIP, VerdictKind.PROTOCOL)


def _differing(runs: Sequence[TargetRun]) -> Iterator[list[Result | None]]:
    """Yield the results of each case that two targets were judged on, if they are not plainly equal."""
    candidates = {
        result.summary.id
        for run in runs
        for result in run.results
        if result.verdict.kind is not VerdictKind.PASS and result.verdict.kind not in _UNJUDGED
    }
    found: dict[str, list[Result | None]] = {}
    for number, run in enumerate(runs):
        for result in run.results:
            if result.summary.id in candidates and _is_judged(result):
                found.setdefault(result.summary.id, [None] * len(runs))[number] = result
    for results in found.values():
        judged = [(one.verdict.kind, one.outcome) for one in results if one is not None]
        if len(judged) > 1 and any(one != judged[0] for one in judged):
            yield results


def _is_judged(result: Result) -> bool:
    return result.verdict.kind not in _UNJUDGED and result.summary.kind is not CaseOrigin.PROBE


def _case_of(results: Sequence[Result | None]) -> Case:
    return next(one.case for one in results if one is not None)


def _split(results: Sequence[Result | None]) -> Split:
    case = _case_of(results)
    return tuple(None if one is None else reading_of(case, _whole(one.outcome), one.verdict) for one in results)


def _whole(outcome: Outcome | StoredAnswer) -> Outcome:
    """Return an outcome; a cut answer is never compared, because two long answers can be equal."""
    if not isinstance(outcome, StoredAnswer):
        return outcome
    return NO_ANSWER if outcome.is_cut else Accepted(msgspec.json.decode(outcome.json))


def _key(results: Sequence[Result | None], split: Split, numbers: tuple[int | None, ...]) -> tuple[object, ...]:
    """Return the key of the group of a case.

    With a failure: the cause of each failing target, and the behavior of the targets that are right. Otherwise: the
    requirement, and the behavior of each target.
    """
    causes = tuple(one.cause if one is not None and one.failed else None for one in results)
    if not any(causes):
        acts = tuple(None if one is None else one.behavior for one in split)
        return next(one.summary.requirement for one in results if one is not None), numbers, acts
    wrong = tuple(None if one is None or one.is_right else one.behavior for one in split)
    right = frozenset(one.behavior for one in split if one is not None and one.is_right)
    disputed = tuple(one is not None and one.disputed for one in results)
    return causes, wrong, right, disputed


# --- a group ------------------------------------------------------------------------------------------


def _disagreement(
    runs: Sequence[TargetRun], members: Sequence[Sequence[Result | None]], splits: dict[str, Split]
) -> TargetDifference:
    members = sorted(members, key=_size)
    example = members[0]
    case = _case_of(example)
    split = splits[case.id]
    failed = [one for one in example if one is not None and one.failed]
    labels = [next(one.summary for one in results if one is not None) for results in members]
    generated = sum(label.is_shrinkable for label in labels)
    judged = [run.name for run, one in zip(runs, example, strict=True) if one is not None]
    python = next((one.python for one in example if one is not None and one.python), "")
    shrunk = (
        _shrunk(runs, {one.cause for one in failed}, {label.id for label in labels}) if case.is_shrinkable else None
    )
    return TargetDifference(
        tuple(name for name, _ in Counter(label.requirement for label in labels).most_common()),
        LEVELS[min(_level(results) for results in members)],
        not failed,
        bool(failed) and all(one.disputed for one in failed),
        tuple(dict.fromkeys(one.cause.text for one in failed)),
        tuple((one.behavior, one.is_right) if one else (None, False) for one in split),
        tuple(_behavior_groups(runs, case, example, split)),
        len(labels) - generated,
        generated,
        tuple(label.id for label in labels),
        case.id,
        command(case, judged, python=python),
        command(shrunk.result.summary, judged, shrunk.origin, python) if shrunk else "",
    )


def _level(results: Sequence[Result | None]) -> int:
    """Return the highest level of the failures, or of all results, as an index of LEVELS."""
    judged = [one for one in results if one is not None]
    return min(LEVELS.index(one.level) for one in [one for one in judged if one.failed] or judged)


def _size(results: Sequence[Result | None]) -> tuple[int, int, int, bool, str]:
    """Return the sort key of a case as example: highest level, most targets, fewest bytes."""
    label = next(one.summary for one in results if one is not None)
    return _level(results), results.count(None), label.size, label.is_shrinkable, label.id


def _shrunk(runs: Sequence[TargetRun], causes: set[FailureCause], cases: set[str]) -> ShrunkFailure | None:
    """Return the smallest shrunk case of these cases and causes, if there is one."""
    found = [
        one
        for run in runs
        for one in run.shrunk
        if one.origin in cases and one.result.cause in causes and one.result.summary.id not in cases
    ]
    return min(found, key=lambda one: one.result.summary.size, default=None)


def _behavior_groups(
    runs: Sequence[TargetRun], case: Case, results: Sequence[Result | None], split: Split
) -> Iterator[BehaviorGroup]:
    """Yield the targets by their behavior in the example: right behavior first, then in the order of the targets."""
    members: dict[int, list[int]] = {}
    for at, number in enumerate(group_equal(split)):
        if number is not None:
            members.setdefault(number, []).append(at)
    path = _path(case, results)
    for group in sorted(members.values(), key=lambda group: (not _at(split, group[0]).is_right, group[0])):
        result, reading = results[group[0]], _at(split, group[0])
        assert result is not None
        text = _behavior_text(case, result, reading, path)
        yield BehaviorGroup(tuple(runs[at].name for at in group), reading.behavior, reading.is_right, text)


def _at(split: Split, at: int) -> ObservedBehavior:
    reading = split[at]
    assert reading is not None
    return reading


def _path(case: Case, results: Sequence[Result | None]) -> str:
    """Return the field to show of every target: the failing field, else the first field with different values."""
    failed = next((one.verdict.path for one in results if one is not None and one.failed and one.verdict.path), "")
    if failed or case.op not in ("decode", "read"):
        return failed
    outcomes = [_whole(one.outcome) for one in results if one is not None]
    return differing_part(case, [one.answer for one in outcomes if isinstance(one, Accepted) and one is not NO_ANSWER])


_PREFIX = re.compile(r"^(accepted: |accepted, |wrote |served |rejected \(|crash: |timeout: |memory: |slow: )")
"""The part of an outcome's text that repeats the behavior of the group."""


def _behavior_text(case: Case, result: Result, reading: ObservedBehavior, path: str) -> str:
    """Return the outcome of a target in one line, narrowed to a field."""
    if result.verdict.kind is VerdictKind.PASS:
        return "" if reading.behavior is Behavior.REFUSES else expected_text(case, path)
    whole = _whole(result.outcome)
    if reading.behavior is Behavior.REFUSES and isinstance(whole, Accepted):
        return str(stopped_with(whole.answer))
    text = actual_text(result, result.verdict.path or path)
    return _PREFIX.sub("", text).removesuffix(")" * text.startswith("rejected ("))


def _rank(one: TargetDifference) -> tuple[bool, bool, int, int, str]:
    return one.is_open, one.is_disputed, LEVELS.index(one.level), -len(one.cases), one.example


_IN_FULL = 3
"""Rows of each part with their command."""
_MOST_GROUPS = 4
"""Groups of such a row."""
_LISTED = 6
"""Further rows of each part, in one line each. These limits keep the section within a screen of 60 lines."""
_LONGEST = 200
"""Characters of an outcome's text."""
_PARTS = (
    (False, "Some targets break a requirement"),
    (True, "The documents specify no behavior, so every target is right"),
)


class TargetDifferencesView(Struct, frozen=True):
    """The section of the console output with two parts: broken requirements, and unspecified behavior."""

    rows: Sequence[TargetDifference]
    every: bool
    """True to show every row in full."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(Text("Where the targets differ"), align="left")
        left = 0
        for is_open, headline in _PARTS:
            rows = [row for row in self.rows if row.is_open is is_open]
            if not rows:
                continue
            cases = sum(row.count for row in rows)
            yield _line(f"{headline}: {_number(cases, 'case')} in {_number(len(rows), 'row')}", "bold")
            in_full = len(rows) if self.every else _IN_FULL
            for row in rows[:in_full]:
                yield from _in_full_lines(row, cut=not self.every)
            for row in rows[in_full : in_full + _LISTED]:
                yield _head(row, row.example)
            left += max(0, len(rows) - in_full - _LISTED)
        if not self.every:
            more = f"{left} more rows; " if left else ""
            yield _line(f"{more}-v: every row, --html FILE: HTML page, --json FILE: all cases", "dim")
        yield Text("")


def _in_full_lines(row: TargetDifference, *, cut: bool) -> Iterator[RenderableType]:
    """Yield a row with the behavior of each target in the example, and the command that repeats it."""
    yield _head(row, "")
    for group in row.groups[: _MOST_GROUPS if cut else None]:
        sign, style = ("✓", "green") if group.is_right else ("✗", "red")
        outcome = printable(group.text)
        outcome = outcome if len(outcome) <= _LONGEST else f"{outcome[:_LONGEST]}…"
        text = Text.assemble((sign, style), f" {printable(', '.join(group.targets))}: {outcome}")
        text.no_wrap, text.overflow = cut, "ellipsis" if cut else "fold"
        yield Padding(text, (0, 0, 0, 2), expand=False)
    if cut and len(row.groups) > _MOST_GROUPS:
        yield _line(f"  and {len(row.groups) - _MOST_GROUPS} more behaviors", "dim")
    # The command is never cut or wrapped, because users copy it.
    for line in filter(None, (row.reproduce, "" if cut else row.shrunk)):
        yield Text("  " + printable(line), style="green", no_wrap=True, overflow="ignore")


def _head(row: TargetDifference, example: str) -> Text:
    """Return the first line of a row: number of cases, level, cause or requirement."""
    style = "dim" if row.is_open or row.is_disputed else STYLES[row.level]
    place = "" if row.is_open else row.kind + "  "
    about = printable(", ".join(row.causes) or row.requirements[0])
    text = Text.assemble(f"{row.count:>5} × ", (place, style), about)
    text.append(f"  {example or row.requirements[0] * bool(row.causes)}".rstrip(), style="dim")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _number(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"
