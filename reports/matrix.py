"""Requirements × targets as data: how many cases of each a target meets, and where brokers refuse otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from conformance.cases.model import LEVELS, VerdictKind
from conformance.cases.requirement import Requirement
from conformance.runner.results import Result, TargetRun


class RequirementState(StrEnum):
    """What a target makes of a requirement, the worst first."""

    CRASHES = "crashes"
    TIMES_OUT = "times out"
    FAILS = "fails"
    FAULT = "adapter fault"
    DISPUTED = "disputed"
    KNOWN = "known failure"
    OPEN = "open place"
    PASSES = "passes"
    UNOBSERVED = "not observed"
    SKIPPED = "not judged"


class MatrixCell(Struct):
    """The results of one target for one requirement."""

    states: Counter[RequirementState] = field(default_factory=Counter)

    @property
    def state(self) -> RequirementState:
        """The worst of them."""
        return next((state for state in RequirementState if self.states[state]), RequirementState.SKIPPED)

    @property
    def shown(self) -> int:
        """How many cases are in that state; where the target meets all that were judged, how many these are."""
        return (
            self.states[RequirementState.PASSES] + self.states[RequirementState.OPEN]
            if self.state is RequirementState.OPEN
            else self.states[self.state]
        )

    @property
    def told(self) -> str:
        """All numbers in words."""
        return (
            ", ".join(f"{self.states[state]} {state}" for state in RequirementState if self.states[state]) or "no case"
        )


class MatrixRow(Struct):
    """A requirement, and a cell for each target."""

    requirement: Requirement
    cells: list[MatrixCell]
    cases: set[str] = field(default_factory=set)
    """The ids of all cases about it in this run, whoever was asked: the same number for every target."""


def state_of(result: Result) -> RequirementState:
    """What a result says of its requirement."""
    kind = result.verdict.kind
    if kind is VerdictKind.SKIP:
        return (
            RequirementState.UNOBSERVED if result.verdict.detail.startswith("unobserved") else RequirementState.SKIPPED
        )
    if result.failed and (result.known or result.disputed):
        return RequirementState.KNOWN if result.known else RequirementState.DISPUTED
    return _STATES[kind]


_STATES = {
    VerdictKind.PASS: RequirementState.PASSES,
    VerdictKind.EITHER: RequirementState.OPEN,
    VerdictKind.FAIL: RequirementState.FAILS,
    VerdictKind.CRASH: RequirementState.CRASHES,
    VerdictKind.TIMEOUT: RequirementState.TIMES_OUT,
    VerdictKind.PROTOCOL: RequirementState.FAULT,
}


def matrix(runs: Sequence[TargetRun], requirements: Mapping[str, Requirement]) -> dict[str, list[MatrixRow]]:
    """The rows that have any case in these runs, by the section of the documents where each is stated first."""
    rows: dict[str, MatrixRow] = {}
    for number, run in enumerate(runs):
        for result in run.results:
            for name in {result.requirement, *result.also} & requirements.keys():
                row = rows.get(name)
                if row is None:
                    row = rows[name] = MatrixRow(requirements[name], [MatrixCell() for _ in runs])
                row.cells[number].states[state_of(result)] += 1
                row.cases.add(result.summary.id)
    sections: dict[str, list[MatrixRow]] = {}
    for name in requirements:
        if name in rows:
            source = requirements[name].source
            sections.setdefault(source[0] if source else "", []).append(rows[name])
    return sections


class ErrorCodeDifference(Struct, frozen=True):
    """Cases in which brokers refuse the same with other error codes."""

    codes: tuple[str, ...]
    """One for each target; empty for a target that told none."""
    cases: tuple[str, ...]


def error_code_differences(runs: Sequence[TargetRun]) -> list[ErrorCodeDifference]:
    """Where brokers refuse the same with other error codes, in vectors. The most cases come first."""
    groups: dict[tuple[str, ...], dict[str, None]] = {}
    for case, results in _by_case(runs):
        told = [_by_place(result.codes) if result is not None else {} for result in results]
        for place in dict.fromkeys(place for codes in told for place in codes):
            codes = tuple(codes.get(place, "") for codes in told)
            if len({*codes} - {""}) > 1:
                groups.setdefault(codes, {})[case] = None
    found = [ErrorCodeDifference(codes, tuple(cases)) for codes, cases in groups.items()]
    return sorted(found, key=lambda one: -len(one.cases))


def _by_place(codes: str) -> dict[str, str]:
    """The error codes of a result, by the frame, batch or step that they answer."""
    parts = (part.rpartition(": ") for part in codes.split(", ") if part)
    return {place: code for place, _, code in parts}


def _by_case(runs: Sequence[TargetRun]) -> Iterator[tuple[str, list[Result | None]]]:
    """Each vector that was judged: its id, and the result of each target, None where it has none."""
    found: dict[str, list[Result | None]] = {}
    for number, run in enumerate(runs):
        for result in run.results:
            if not result.summary.is_shrinkable and result.verdict.kind not in (VerdictKind.SKIP, VerdictKind.PROTOCOL):
                found.setdefault(result.summary.id, [None] * len(runs))[number] = result
    yield from found.items()


def requirements_met(run: TargetRun, requirements: Mapping[str, Requirement]) -> dict[str, tuple[int, int]]:
    """By level: how many requirements a target meets in all its cases, of how many that were judged."""
    all_met: dict[str, bool] = {}
    for result in run.results:
        kind = result.verdict.kind
        if kind is VerdictKind.SKIP or (kind is VerdictKind.PASS and result.requirement in all_met):
            continue  # most results
        for name in (result.requirement, *result.also):
            all_met[name] = kind in (VerdictKind.PASS, VerdictKind.EITHER) and all_met.get(name, True)
    levels = {name: requirements[name].level for name in all_met if name in requirements}
    judged = Counter(levels.values())
    ours = Counter(level for name, level in levels.items() if all_met[name])
    return {level: (ours[level], judged[level]) for level in LEVELS if judged[level]}


def verdict_text(run: TargetRun) -> str:
    """Return the verdict on a target in a few words."""
    if run.interrupted:
        return run.problem
    if run.problem or not run.judged:
        return "not judged"
    fails = not run.answered or any(result.is_unexpected for result in run.results)
    return "does not conform" if fails else "conforms"
