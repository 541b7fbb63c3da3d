"""Where several targets differ over a case: one meets what another breaks, or each reads an open place in its own way.

Every report shows this data; it is made once for all of them.
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
    group_equal,
    part_apart,
    reading_of,
    stopped_with,
)
from conformance.reports.explain import actual_text, command, expected_text
from conformance.reports.hex_view import printable
from conformance.reports.text import STYLES
from conformance.runner.results import NO_ANSWER, Result, ShrunkFailure, StoredAnswer, TargetRun

Split = tuple[ObservedBehavior | None, ...]
"""The reading of each target; None for one that did not judge the case."""


class BehaviorGroup(Struct, frozen=True):
    """The targets that made the same of a case, and what that is."""

    targets: tuple[str, ...]
    """As the command line names them."""
    behavior: Behavior
    is_right: bool
    example_text: str
    """What they did in the example, in a line; a target's words may be in it."""

    @property
    def text(self) -> str:
        """All of it but the targets."""
        return f"{self.behavior}: {self.example_text}" if self.example_text else str(self.behavior)


class TargetDifference(Struct, frozen=True):
    """Cases in which the same targets differ in the same way, for the same cause or at the same requirement."""

    requirements: tuple[str, ...]
    """Those of the cases, the one with the most of them first."""
    level: str
    """The highest at which a target fails; at an open place, that of the requirement."""
    is_open: bool
    """Whether each target is right: the documents leave the place open."""
    is_disputed: bool
    """Whether every failure is one of Apache Kafka's own."""
    causes: tuple[str, ...]
    """What those fail by that fail."""
    cells: tuple[tuple[Behavior | None, bool], ...]
    """What each target does, and whether that is right; None for one that was not judged on the cases."""
    groups: tuple[BehaviorGroup, ...]
    """Who did what in the example."""
    vectors: int
    generated: int
    cases: tuple[str, ...]
    example: str
    """The id of the smallest of the cases that the most targets were judged on, at the highest level."""
    reproduce: str
    """The command that puts the example to the targets again."""
    shrunk: str
    """Where the example is generated and a failure in it was shrunk, the command that shows the smaller case."""

    @property
    def count(self) -> int:
        """How many cases there are."""
        return self.vectors + self.generated

    @property
    def kind(self) -> str:
        """The level, and what takes its weight off."""
        return "open place" if self.is_open else f"{'disputed ' * self.is_disputed}{self.level}"


def disagreements(runs: Sequence[TargetRun]) -> tuple[TargetDifference, ...]:
    """Where targets differ: what one breaks before what is open, by level, then by the number of cases.

    A campaign keeps only failures, so it cannot tell.
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
    """The results of each case that two targets judged and one did not just pass, where they are not plainly one."""
    told = {
        result.summary.id
        for run in runs
        for result in run.results
        if result.verdict.kind is not VerdictKind.PASS and result.verdict.kind not in _UNJUDGED
    }
    found: dict[str, list[Result | None]] = {}
    for number, run in enumerate(runs):
        for result in run.results:
            if result.summary.id in told and _is_judged(result):
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
    """An outcome; of an answer that was cut nothing, as two that are long need not differ."""
    if not isinstance(outcome, StoredAnswer):
        return outcome
    return NO_ANSWER if outcome.is_cut else Accepted(msgspec.json.decode(outcome.json))


def _key(results: Sequence[Result | None], split: Split, numbers: tuple[int | None, ...]) -> tuple[object, ...]:
    """What cases of one group have in common.

    Where a target fails: who fails by which cause, and what those do that are right, whoever was judged. At an open
    place: the requirement, and who does what.
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
        tuple(_stands(runs, case, example, split)),
        len(labels) - generated,
        generated,
        tuple(label.id for label in labels),
        case.id,
        command(case, judged, python=python),
        command(shrunk.result.summary, judged, shrunk.origin, python) if shrunk else "",
    )


def _level(results: Sequence[Result | None]) -> int:
    """The highest level of those that fail, or of all, as an index of LEVELS."""
    judged = [one for one in results if one is not None]
    return min(LEVELS.index(one.level) for one in [one for one in judged if one.failed] or judged)


def _size(results: Sequence[Result | None]) -> tuple[int, int, int, bool, str]:
    """By which one of several cases is shown: the highest level, the most targets, the fewest bytes."""
    label = next(one.summary for one in results if one is not None)
    return _level(results), results.count(None), label.size, label.is_shrinkable, label.id


def _shrunk(runs: Sequence[TargetRun], causes: set[FailureCause], cases: set[str]) -> ShrunkFailure | None:
    """The smallest of the shrunk cases that came from these cases and show one of these causes."""
    found = [
        one
        for run in runs
        for one in run.shrunk
        if one.origin in cases and one.result.cause in causes and one.result.summary.id not in cases
    ]
    return min(found, key=lambda one: one.result.summary.size, default=None)


def _stands(
    runs: Sequence[TargetRun], case: Case, results: Sequence[Result | None], split: Split
) -> Iterator[BehaviorGroup]:
    """Who made what of the example: those that are right first, then in the order of the targets."""
    members: dict[int, list[int]] = {}
    for at, number in enumerate(group_equal(split)):
        if number is not None:
            members.setdefault(number, []).append(at)
    path = _path(case, results)
    for group in sorted(members.values(), key=lambda group: (not _at(split, group[0]).is_right, group[0])):
        result, reading = results[group[0]], _at(split, group[0])
        assert result is not None
        said = _said(case, result, reading, path)
        yield BehaviorGroup(tuple(runs[at].name for at in group), reading.behavior, reading.is_right, said)


def _at(split: Split, at: int) -> ObservedBehavior:
    reading = split[at]
    assert reading is not None
    return reading


def _path(case: Case, results: Sequence[Result | None]) -> str:
    """The field that is shown of every target: where one is wrong, else the first in which what they accept differs."""
    failed = next((one.verdict.path for one in results if one is not None and one.failed and one.verdict.path), "")
    if failed or case.op not in ("decode", "read"):
        return failed
    outcomes = [_whole(one.outcome) for one in results if one is not None]
    return part_apart(case, [one.answer for one in outcomes if isinstance(one, Accepted) and one is not NO_ANSWER])


_BEFORE = re.compile(r"^(accepted: |accepted, |wrote |served |refused \(|crash: |timeout: |memory: |slow: )")


def _said(case: Case, result: Result, reading: ObservedBehavior, path: str) -> str:
    """What a target did in a line, narrowed to a field."""
    if result.verdict.kind is VerdictKind.PASS:
        return "" if reading.behavior is Behavior.REFUSES else expected_text(case, path)
    whole = _whole(result.outcome)
    if reading.behavior is Behavior.REFUSES and isinstance(whole, Accepted):
        return str(stopped_with(whole.answer))
    told = actual_text(result, result.verdict.path or path)
    return _BEFORE.sub("", told).removesuffix(")" * told.startswith("refused ("))


def _rank(one: TargetDifference) -> tuple[bool, bool, int, int, str]:
    return one.is_open, one.is_disputed, LEVELS.index(one.level), -len(one.cases), one.example


_IN_FULL = 3
"""Rows of each part that are shown with their command."""
_STANDS = 4
"""Readings of such a row that are shown."""
_LISTED = 6
"""Further rows of each part, in a line. All numbers together keep the section within a screen of 60 lines."""
_LONGEST = 200
"""Characters of what a target did that are shown."""
_PARTS = (
    (False, "Some break a requirement"),
    (True, "The documents leave it open, and each is right"),
)


class TargetDifferencesView(Struct, frozen=True):
    """A section of at most a screen, in which what targets break and what is open have their own parts."""

    rows: Sequence[TargetDifference]
    every: bool
    """Whether each row is shown in full."""

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
            yield _line(f"{more}-v: every row, --html FILE: a page, --json FILE: with all cases", "dim")
        yield Text("")


def _in_full_lines(row: TargetDifference, *, cut: bool) -> Iterator[RenderableType]:
    """A row with who made what of its smallest example, and the command that shows it."""
    yield _head(row, "")
    for group in row.groups[: _STANDS if cut else None]:
        sign, style = ("✓", "green") if group.is_right else ("✗", "red")
        said = printable(group.text)
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
        text = Text.assemble((sign, style), f" {printable(', '.join(group.targets))}: {said}")
        text.no_wrap, text.overflow = cut, "ellipsis" if cut else "fold"
        yield Padding(text, (0, 0, 0, 2), expand=False)
    if cut and len(row.groups) > _STANDS:
        yield _line(f"  and {len(row.groups) - _STANDS} more readings", "dim")
    # The whole command, whatever the width: people copy it.
    for line in filter(None, (row.reproduce, "" if cut else row.shrunk)):
        yield Text("  " + printable(line), style="green", no_wrap=True, overflow="ignore")


def _head(row: TargetDifference, example: str) -> Text:
    """How many cases, at which level, for which cause or at which open place."""
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
