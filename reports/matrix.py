"""The matrix of requirements × targets, the counts of met requirements, and differences in error codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from conformance.cases.model import LEVELS, VerdictKind
from conformance.cases.requirement import Requirement
from conformance.runner.results import Result, TargetRun


class RequirementState(StrEnum):
    """The result of a target for a requirement, the worst first."""

    CRASHES = "crashes"
    TIMES_OUT = "times out"
    FAILS = "fails"
    FAULT = "adapter fault"
    DISPUTED = "disputed"
    KNOWN = "known failure"
    UNSPECIFIED = "unspecified"
    PASSES = "passes"
    UNOBSERVED = "not observed"
    SKIPPED = "not judged"


class MatrixCell(Struct):
    """The results of one target for one requirement."""

    states: Counter[RequirementState] = field(default_factory=Counter)

    @property
    def state(self) -> RequirementState:
        """Return the worst state."""
        return next((state for state in RequirementState if self.states[state]), RequirementState.SKIPPED)

    @property
    def shown(self) -> int:
        """Return the number of cases in that state; if the target meets all judged cases, their number."""
        return (
            self.states[RequirementState.PASSES] + self.states[RequirementState.UNSPECIFIED]
            if self.state is RequirementState.UNSPECIFIED
            else self.states[self.state]
        )

    @property
    def summary(self) -> str:
        """Return the number of cases in each state."""
        return (
            ", ".join(f"{self.states[state]} {state}" for state in RequirementState if self.states[state]) or "no case"
        )


class MatrixRow(Struct):
    """A requirement, and a cell for each target."""

    requirement: Requirement
    cells: list[MatrixCell]
    cases: set[str] = field(default_factory=set)
    """The ids of its cases in this run, of all targets together: the denominator of every cell."""


def state_of(result: Result) -> RequirementState:
    """Return the state that a result gives its requirement."""
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
    VerdictKind.EITHER: RequirementState.UNSPECIFIED,
    VerdictKind.FAIL: RequirementState.FAILS,
    VerdictKind.CRASH: RequirementState.CRASHES,
    VerdictKind.TIMEOUT: RequirementState.TIMES_OUT,
    VerdictKind.PROTOCOL: RequirementState.FAULT,
}


def matrix(runs: Sequence[TargetRun], requirements: Mapping[str, Requirement]) -> dict[str, list[MatrixRow]]:
    """Return a row for each requirement with a case in these runs, by its first source section."""
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
    """Vectors that brokers reject with different error codes."""

    codes: tuple[str, ...]
    """One for each target; empty if the target returned no error code."""
    cases: tuple[str, ...]


def error_code_differences(runs: Sequence[TargetRun]) -> list[ErrorCodeDifference]:
    """Return the vectors that brokers reject with different error codes; the most cases first."""
    groups: dict[tuple[str, ...], dict[str, None]] = {}
    for case, results in _by_case(runs):
        by_place = [_codes_by_place(result.codes) if result is not None else {} for result in results]
        for place in dict.fromkeys(place for codes in by_place for place in codes):
            codes = tuple(codes.get(place, "") for codes in by_place)
            if len({*codes} - {""}) > 1:
                groups.setdefault(codes, {})[case] = None
    found = [ErrorCodeDifference(codes, tuple(cases)) for codes, cases in groups.items()]
    return sorted(found, key=lambda one: -len(one.cases))


def _codes_by_place(codes: str) -> dict[str, str]:
    """Return the error codes of a result, by frame, batch or step."""
    parts = (part.rpartition(": ") for part in codes.split(", ") if part)
    return {place: code for place, _, code in parts}


def _by_case(runs: Sequence[TargetRun]) -> Iterator[tuple[str, list[Result | None]]]:
    """Yield each judged vector: its id, and the result of each target or None."""
    found: dict[str, list[Result | None]] = {}
    for number, run in enumerate(runs):
        for result in run.results:
            if not result.summary.is_shrinkable and result.verdict.kind not in (VerdictKind.SKIP, VerdictKind.PROTOCOL):
                found.setdefault(result.summary.id, [None] * len(runs))[number] = result
    yield from found.items()


def requirements_met(run: TargetRun, requirements: Mapping[str, Requirement]) -> dict[str, tuple[int, int]]:
    """Return by level: the number of requirements that a target meets in all cases, and of judged ones."""
    all_met: dict[str, bool] = {}
    for result in run.results:
        kind = result.verdict.kind
        if kind is VerdictKind.SKIP or (kind is VerdictKind.PASS and result.requirement in all_met):
            continue  # a shortcut for most results: a further pass changes no entry
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
