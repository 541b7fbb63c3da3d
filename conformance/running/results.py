"""What a run gathers: a result per case and target, and a record per target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.cases.model import ROBUSTNESS, Case, Kind, Outcome, Verdict
from conformance.targets.protocol import Description


@dataclass(frozen=True, slots=True)
class Result:
    """A case, what the target did, and what we think of it."""

    target: str
    case: Case
    outcome: Outcome
    verdict: Verdict
    level: str
    known: bool = False
    counts: bool = False
    """It fails at the level asked for and is not disputed (known or not)."""
    disputed: bool = False
    """It goes against a requirement that Apache Kafka itself does not meet."""

    @property
    def requirement(self) -> str:
        """The requirement that the verdict is about."""
        return self.verdict.requirement or self.case.requirement

    @property
    def also(self) -> tuple[str, ...]:
        """Further requirements that the result speaks of: whatever the bytes, a target answers."""
        return (ROBUSTNESS,) if self.verdict.kind in (Kind.CRASH, Kind.TIMEOUT) else ()

    @property
    def is_unexpected(self) -> bool:
        """Whether it counts and is not a known failure: one such result makes the exit status 1."""
        return self.counts and not self.known

    @property
    def failed(self) -> bool:
        """Whether the target went wrong, at whatever level."""
        return self.verdict.kind in (Kind.FAIL, Kind.CRASH, Kind.TIMEOUT)


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest case that shows what several generated ones do."""

    result: Result
    count: int
    """How many generated cases fail in this way."""
    origin: str
    """The id of the one that was shrunk."""
    flaky: bool = False
    """It did not fail again, so it stands as it was found."""


@dataclass(slots=True)
class Tally:
    """How many results there are of what kind: all that is said of those that are not shown one by one."""

    verdicts: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    """By level and verdict."""
    known: Counter[str] = field(default_factory=Counter)
    disputed: Counter[str] = field(default_factory=Counter)
    """By level, like the known ones."""
    skipped: Counter[str] = field(default_factory=Counter)
    """By the reason."""
    unobserved: int = 0
    """Passed on the fields that the target shows, and not on all."""


def tally(results: Iterable[Result]) -> Tally:
    """The numbers of results."""
    found = Tally()
    for result in results:
        kind = result.verdict.kind
        found.verdicts[result.level, kind] += 1
        found.known[result.level] += result.known
        found.disputed[result.level] += result.disputed
        if kind is Kind.SKIP:
            found.skipped[result.verdict.detail] += 1
        found.unobserved += kind is Kind.PASS and bool(result.verdict.unobserved)
    return found


@dataclass(slots=True)
class TargetRun:
    """One target's part of a run: what it said of itself, and what ended the run early, if anything."""

    name: str
    description: Description | None = None
    problem: str = ""
    """Why it could not be started, or not be asked further."""
    results: list[Result] = field(default_factory=list)
    shrunk: list[Shrunk] = field(default_factory=list)
    counted: Tally | None = None
    """The numbers where `results` holds but some of them, as in a campaign."""

    @property
    def numbers(self) -> Tally:
        """How many results there are of what kind."""
        return self.counted or tally(self.results)

    @property
    def judged(self) -> bool:
        """Whether any case was judged."""
        return any(kind not in (Kind.SKIP, Kind.PROTOCOL) for _, kind in self.numbers.verdicts)
