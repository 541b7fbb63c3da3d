"""Which failures of a target belong together, and which of them a report shows. Every report is made from this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from conformance.cases.model import LEVELS, Kind
from conformance.running.results import Result, Shrunk, TargetRun


class Section(StrEnum):
    """The part of a report that a failure belongs to."""

    FAILURES = "failures"
    DISPUTED = "disputed"
    """Apache Kafka itself does not meet the requirement."""
    KNOWN = "known"
    """The list of known failures names it: it is counted, not shown."""
    FAULTS = "faults"
    """The adapter broke the protocol; the target itself was not judged."""


@dataclass(frozen=True, slots=True)
class Example:
    """A failure as it is shown: a case of its own, or a shrunk one that stands for several generated ones."""

    result: Result
    shrunk: Shrunk | None = None

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


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failures of one target that break one requirement, at one level. Faults of the adapter are one group."""

    target: str
    section: Section
    level: str
    """Of the requirement; empty for faults of the adapter."""
    requirement: str
    """Its id; empty for faults of the adapter."""
    members: tuple[Result, ...]
    """The failing results, in the order of the run."""
    examples: tuple[Example, ...]
    """What to show: each vector that fails, and each shrunk case instead of the generated ones it stands for."""

    @property
    def count(self) -> int:
        """How many cases fail in this way; a campaign keeps only some of them as members."""
        return max(len(self.members), sum(example.count for example in self.examples))


def section_of(result: Result) -> Section | None:
    """The section of a result; None for one that is not a failure."""
    if result.verdict.kind is Kind.PROTOCOL:
        return Section.FAULTS
    if not result.failed:
        return None
    if result.known:
        return Section.KNOWN
    return Section.DISPUTED if result.disputed else Section.FAILURES


def grouped(run: TargetRun) -> tuple[FailureGroup, ...]:
    """The failures of a run: by section, then level (must first), then requirement."""
    members: dict[_Key, list[Result]] = {}
    examples: dict[_Key, list[Example]] = {}
    for result in run.results:
        section = section_of(result)
        if section is None:
            continue
        members.setdefault(_key(section, result), []).append(result)
        if _stands_alone(result, run.shrunk):
            examples.setdefault(_key(section, result), []).append(Example(result))
    for shrunk in run.shrunk:
        section = Section.DISPUTED if shrunk.result.disputed else Section.FAILURES
        examples.setdefault(_key(section, shrunk.result), []).append(Example(shrunk.result, shrunk))
    keys = sorted({*members, *examples}, key=_rank)
    return tuple(
        FailureGroup(run.name, *key, tuple(members.get(key, ())), tuple(examples.get(key, ()))) for key in keys
    )


_Key = tuple[Section, str, str]
"""What the failures of a group have in common: section, level, requirement."""


def _key(section: Section, result: Result) -> _Key:
    return (section, "", "") if section is Section.FAULTS else (section, result.level, result.requirement)


def _rank(key: _Key) -> tuple[int, int, str]:
    section, level, requirement = key
    return list(Section).index(section), LEVELS.index(level) if level else 0, requirement


def _stands_alone(result: Result, shrunk: Sequence[Shrunk]) -> bool:
    """Whether a result is shown: known failures are not, nor are those that shrunk cases stand for."""
    return not result.known and not (result.failed and shrunk and result.case.is_shrinkable)
