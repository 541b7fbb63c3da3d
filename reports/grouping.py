"""Which failures of a target have one cause, and which of them a report shows. Every report is made from this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from conformance.cases.model import (
    FAILURES,
    LEVELS,
    ExpectAnyOf,
    ExpectAppend,
    Expectation,
    ExpectConsumerView,
    VerdictKind,
)
from conformance.judging.failure_causes import FailureCause
from conformance.runner.results import Result, ShrunkFailure, TargetRun


class Section(StrEnum):
    """The part of a report that a failure belongs to."""

    FAILURES = "failures"
    DISPUTED = "disputed"
    """Apache Kafka itself does not meet the requirement."""
    KNOWN = "known"
    """The list of known failures names it: it is counted, not shown."""
    FAULTS = "faults"
    """The adapter broke the protocol; the target itself was not judged."""


class Example(Struct, frozen=True):
    """A failure as it is shown: a case of its own, or a shrunk one that stands for several generated ones."""

    result: Result
    shrunk: ShrunkFailure | None = None

    @property
    def flaky(self) -> bool:
        """Whether it did not happen again when it was tried again."""
        return self.result.verdict.flaky or (self.shrunk is not None and self.shrunk.flaky)

    @property
    def origin(self) -> str:
        """The id of the generated case that it was shrunk from; empty where it was not."""
        return self.shrunk.origin if self.shrunk else ""

    @property
    def count(self) -> int:
        """How many failing cases it stands for."""
        return self.shrunk.count if self.shrunk else 1


class FailureGroup(Struct, frozen=True):
    """The failures of one target that have one cause. Faults of the adapter are one group."""

    target: str
    section: Section
    level: str
    """The highest of their levels; empty for faults of the adapter."""
    cause: FailureCause | None
    """None for faults of the adapter."""
    members: tuple[Result, ...]
    """The failing results, in the order of the run."""
    examples: tuple[Example, ...]
    """What to show: the smallest case at that level, a shrunk one instead of the generated ones it stands for. All
    faults of an adapter, and no known failure."""
    requirements: tuple[str, ...] = ()
    """The ids of all requirements that it breaks, the one with the most cases first."""
    vectors: int = 0
    """How many of its cases are vectors."""
    generated: int = 0
    """How many were generated; a campaign keeps only some of them as members."""

    @property
    def count(self) -> int:
        """How many cases fail for this cause."""
        return self.vectors + self.generated

    @property
    def others(self) -> tuple[Result, ...]:
        """The members that are not shown and that no shrunk case stands for: vectors first, then by size."""
        shown = {example.result.summary.id for example in self.examples}
        left = [result for result in self.members if result.summary.id not in shown]
        return tuple(sorted(left, key=lambda result: (result.summary.is_shrinkable, result.summary.size)))


def section_of(result: Result) -> Section | None:
    """The section of a result; None for one that is not a failure."""
    if result.verdict.kind is VerdictKind.PROTOCOL:
        return Section.FAULTS
    if result.verdict.kind not in FAILURES:
        return None
    if result.known:
        return Section.KNOWN
    return Section.DISPUTED if result.disputed else Section.FAILURES


def grouped(run: TargetRun) -> tuple[FailureGroup, ...]:
    """The failures of a run by cause: by section, then level (must first), then the number of cases."""
    members: dict[_Key, list[Result]] = {}
    shrunk: dict[_Key, list[ShrunkFailure]] = {}
    for result in run.results:
        section = section_of(result)
        if section is not None:
            members.setdefault(_key(section, result), []).append(result)
    for one in run.shrunk:
        section = Section.DISPUTED if one.result.disputed else Section.FAILURES
        shrunk.setdefault(_key(section, one.result), []).append(one)
    groups = [_group(run.name, key, members.get(key, []), shrunk.get(key, [])) for key in {**members, **shrunk}]
    return tuple(sorted(groups, key=_rank))


_Key = tuple[Section, FailureCause | None]
"""What the failures of a group have in common."""


def _key(section: Section, result: Result) -> _Key:
    return (section, None) if section is Section.FAULTS else (section, result.cause)


def _group(target: str, key: _Key, members: Sequence[Result], shrunk: Sequence[ShrunkFailure]) -> FailureGroup:
    section, cause = key
    if cause is None:
        faults = tuple(map(Example, members))
        return FailureGroup(target, section, "", None, tuple(members), faults, vectors=len(members))
    results = [*members, *(one.result for one in shrunk)]
    generated = sum(result.summary.is_shrinkable for result in members)
    return FailureGroup(
        target,
        section,
        min((result.level for result in results), key=LEVELS.index),
        cause,
        tuple(members),
        () if section is Section.KNOWN else (_smallest(members, shrunk),),
        tuple(name for name, _ in Counter(result.requirement for result in members or results).most_common()),
        len(members) - generated,
        max(generated, sum(one.count for one in shrunk)),
    )


def _smallest(members: Sequence[Result], shrunk: Sequence[ShrunkFailure]) -> Example:
    """The smallest case at the highest level, one without an open place if there is any.

    Of several of one size it is a vector, which is there for everyone.
    """
    alone = [Example(result) for result in members if not (shrunk and result.summary.is_shrinkable)]
    by_size = sorted([*alone, *(Example(one.result, one) for one in shrunk)], key=_size)
    highest = [example for example in by_size if example.result.level == by_size[0].result.level]
    return next((example for example in highest if not _is_open(example.result.summary.expect)), highest[0])


def _size(example: Example) -> tuple[int, int]:
    return LEVELS.index(example.result.level), example.result.summary.size


def _is_open(expect: Expectation) -> bool:
    return isinstance(expect, ExpectAnyOf) or (isinstance(expect, ExpectConsumerView | ExpectAppend) and expect.open)


def _rank(group: FailureGroup) -> tuple[int, int, int, str]:
    level = LEVELS.index(group.level) if group.level else 0
    return list(Section).index(group.section), level, -group.count, group.cause.text if group.cause else ""
