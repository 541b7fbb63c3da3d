"""The failures of a target grouped by cause, with the examples to show. Every report is made from these groups."""

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
    """The file of known failures lists it: it is counted, not shown."""
    FAULTS = "faults"
    """The adapter broke the line protocol; the target itself was not judged."""


class Example(Struct, frozen=True):
    """A failure that a report shows: a case, or a shrunk case that represents several generated cases."""

    result: Result
    shrunk: ShrunkFailure | None = None

    @property
    def flaky(self) -> bool:
        """Return whether the failure did not repeat in a retry."""
        return self.result.verdict.flaky or (self.shrunk is not None and self.shrunk.flaky)

    @property
    def origin(self) -> str:
        """Return the id of the generated case that it was shrunk from; empty if it was not shrunk."""
        return self.shrunk.origin if self.shrunk else ""

    @property
    def count(self) -> int:
        """Return how many failing cases it represents."""
        return self.shrunk.count if self.shrunk else 1


class FailureGroup(Struct, frozen=True):
    """The failures of one target with the same cause. The adapter faults are one group."""

    target: str
    section: Section
    level: str
    """The highest of their levels; empty for adapter faults."""
    cause: FailureCause | None
    """None for adapter faults."""
    members: tuple[Result, ...]
    """The failing results, in the order of the run."""
    examples: tuple[Example, ...]
    """The cases to show: the smallest case at that level, or a shrunk case in place of generated ones. Of adapter
    faults all cases, of known failures no case."""
    requirements: tuple[str, ...] = ()
    """The ids of all broken requirements; the one with the most cases first."""
    vectors: int = 0
    """The number of failing vectors."""
    generated: int = 0
    """The number of failing generated cases; a campaign stores only some of them in `members`."""

    @property
    def count(self) -> int:
        """Return how many cases fail for this cause."""
        return self.vectors + self.generated

    @property
    def others(self) -> tuple[Result, ...]:
        """Return the members that are not examples: vectors first, then by size."""
        shown = {example.result.summary.id for example in self.examples}
        left = [result for result in self.members if result.summary.id not in shown]
        return tuple(sorted(left, key=lambda result: (result.summary.is_shrinkable, result.summary.size)))


def section_of(result: Result) -> Section | None:
    """Return the section of a result, or None if it is no failure."""
    if result.verdict.kind is VerdictKind.PROTOCOL:
        return Section.FAULTS
    if result.verdict.kind not in FAILURES:
        return None
    if result.known:
        return Section.KNOWN
    return Section.DISPUTED if result.disputed else Section.FAILURES


def grouped(run: TargetRun) -> tuple[FailureGroup, ...]:
    """Return the failures of a run by cause, ordered by section, level (must first) and number of cases."""
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
"""The section and the cause of a group."""


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
    """Return the smallest case at the highest level, preferably one whose expectation is fully specified.

    A vector comes before a generated case of the same size: its id does not depend on the seed.
    """
    alone = [Example(result) for result in members if not (shrunk and result.summary.is_shrinkable)]
    by_size = sorted([*alone, *(Example(one.result, one) for one in shrunk)], key=_size)
    highest = [example for example in by_size if example.result.level == by_size[0].result.level]
    return next((example for example in highest if not _is_unspecified(example.result.summary.expect)), highest[0])


def _size(example: Example) -> tuple[int, int]:
    return LEVELS.index(example.result.level), example.result.summary.size


def _is_unspecified(expect: Expectation) -> bool:
    return isinstance(expect, ExpectAnyOf) or (isinstance(expect, ExpectConsumerView | ExpectAppend) and expect.open)


def _rank(group: FailureGroup) -> tuple[int, int, int, str]:
    level = LEVELS.index(group.level) if group.level else 0
    return list(Section).index(group.section), level, -group.count, group.cause.text if group.cause else ""
