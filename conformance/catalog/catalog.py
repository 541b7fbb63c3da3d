"""The catalogue: the register of requirements and all cases; and the selection of cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from conformance import codec
from conformance.cases.attribution import basis_of
from conformance.cases.model import Case, CaseSummary
from conformance.cases.requirement import Requirement
from conformance.cases.stored_cases import StoredCase, store, store_with_digest


@dataclass(frozen=True, slots=True)
class Catalog:
    """All requirements by id, and all cases by id, in order."""

    requirements: dict[str, Requirement]
    cases: CaseStore = field(repr=False)
    types: codec.TypeRegistry = codec.BUILT_IN
    """The types for cases."""

    def covering(self) -> dict[str, list[str]]:
        """Return the ids of the cases of each requirement."""
        cases: dict[str, list[str]] = {name: [] for name in self.requirements}
        for case in self.cases.summaries.values():
            cases[case.requirement].append(case.id)
        return cases


# --- selection ----------------------------------------------------------------------------------------


L = TypeVar("L", bound=CaseSummary)


def select(cases: Iterable[L], patterns: Iterable[str]) -> list[L]:
    """Return the cases that match any pattern: a glob over ids, or `type:`, `requirement:` or `level:` with a glob."""
    return [*selected(cases, patterns)]


def selected(cases: Iterable[L], patterns: Iterable[str]) -> Iterator[L]:
    """Yield the same cases."""
    wanted = [_matcher(pattern) for pattern in patterns]
    return (case for case in cases if not wanted or any(matches(case) for matches in wanted))


def _matcher(pattern: str) -> Callable[[CaseSummary], bool]:
    attribute, colon, rest = pattern.partition(":")
    if colon and attribute == "type":
        return lambda case: fnmatchcase(case.type, rest) or case.type.partition("<")[0] == rest
    if colon and attribute in ("requirement", "level"):
        return lambda case: fnmatchcase(getattr(case, attribute), rest)
    return lambda case: fnmatchcase(case.id, pattern)


def of_bases(cases: Iterable[L], bases: Collection[str], requirements: Mapping[str, Requirement]) -> list[L]:
    """Return the cases that are judged on one of these bases; all cases if there are none."""
    return [case for case in cases if is_based(case, bases, requirements)]


def is_based(case: CaseSummary, bases: Collection[str], requirements: Mapping[str, Requirement]) -> bool:
    """Return whether a case is judged on one of these bases; True if there are none."""
    return not bases or basis_of(requirements[case.requirement], case) in bases


def as_of(cases: Iterable[L], version: str) -> list[L]:
    """Return the cases of a release of the suite, and of earlier ones. Raises ValueError for an invalid version."""
    limit = _version(version)
    return [case for case in cases if not case.since or _version(case.since) <= limit]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


class CaseStore(Mapping[str, Case]):
    """Cases by id, in order. Each is deserialized when it is needed."""

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self.summaries: dict[str, StoredCase] = {}
        for case in cases:
            self.add(case)

    def add(self, case: Case) -> None:
        """Add a case at the end, in serialized form."""
        self.summaries[case.id] = store(case)

    def with_digests(self) -> CaseStore:
        """Return the same cases with the digests of the expected answers."""
        cases = CaseStore()
        cases.summaries = {name: store_with_digest(case) for name, case in self.items()}
        return cases

    def __getitem__(self, name: str) -> Case:
        return self.summaries[name].to_case()

    def __iter__(self) -> Iterator[str]:
        return iter(self.summaries)

    def __len__(self) -> int:
        return len(self.summaries)

    def __contains__(self, name: object) -> bool:
        return name in self.summaries
