"""The catalogue: the requirements register and all vectors, made into cases; and which of them are wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from conformance import codec
from conformance.cases.attribution import basis_of
from conformance.cases.model import Case
from conformance.cases.packed_cases import SerializedCase, chosen, serialize, serialize_with_digest
from conformance.cases.requirement import Requirement


@dataclass(frozen=True, slots=True)
class Catalog:
    """All requirements by id, and all cases by id, in order."""

    requirements: dict[str, Requirement]
    cases: CaseStore = field(repr=False)
    types: codec.TypeRegistry = codec.BUILT_IN
    """The types that cases may be made of."""

    def covering(self) -> dict[str, list[str]]:
        """Requirement id to the ids of its cases."""
        cases: dict[str, list[str]] = {name: [] for name in self.requirements}
        for label in self.cases.labels.values():
            cases[label.requirement].append(label.id)
        return cases


# --- selection ----------------------------------------------------------------------------------------


class CaseSummary(Protocol):
    """What cases are selected by: a case, or its label."""

    @property
    def id(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def requirement(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def since(self) -> str: ...


L = TypeVar("L", bound=CaseSummary)


def select(cases: Iterable[L], patterns: Iterable[str]) -> list[L]:
    """The cases that match any pattern: a glob over ids, or `type:`, `requirement:` or `level:` and a glob."""
    return [*selected(cases, patterns)]


def selected(cases: Iterable[L], patterns: Iterable[str]) -> Iterator[L]:
    """The same, one by one."""
    wanted = [_matcher(pattern) for pattern in patterns]
    return (case for case in cases if not wanted or any(matches(case) for matches in wanted))


def _matcher(pattern: str) -> Callable[[CaseSummary], bool]:
    attribute, colon, rest = pattern.partition(":")
    if colon and attribute == "type":
        return lambda case: fnmatchcase(case.type, rest) or case.type.partition("<")[0] == rest
    if colon and attribute in ("requirement", "level"):
        return lambda case: fnmatchcase(getattr(case, attribute), rest)
    return lambda case: fnmatchcase(case.id, pattern)


def of_bases(cases: Sequence[Case], bases: Collection[str], requirements: Mapping[str, Requirement]) -> Sequence[Case]:
    """The cases that are judged on one of these bases; all cases where no basis is named."""
    if not bases:
        return cases
    return chosen(cases, [at for at, case in enumerate(cases) if is_based(case, bases, requirements)])


def is_based(case: Case | SerializedCase, bases: Collection[str], requirements: Mapping[str, Requirement]) -> bool:
    """Whether a case is judged on one of these bases; so is every case where no basis is named."""
    return not bases or basis_of(requirements[case.requirement], case) in bases


def as_of(cases: Iterable[L], version: str) -> list[L]:
    """The cases that a release of the suite had: those introduced no later than it. Raises ValueError."""
    limit = _version(version)
    return [case for case in cases if not case.since or _version(case.since) <= limit]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


class CaseStore(Mapping[str, Case]):
    """Cases by id, in order: a packed one is unpacked when somebody asks for it."""

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self.labels: dict[str, SerializedCase] = {}
        """What each is chosen and listed by."""
        for case in cases:
            self.add(case)

    def add(self, case: Case) -> None:
        """Add a case at the end, as bytes."""
        self.labels[case.id] = serialize(case)

    def stored(self) -> CaseStore:
        """The same cases as they are kept: with the answers that are due, and without types that the suite ships."""
        cases = CaseStore()
        for name, case in self.items():
            label = serialize_with_digest(case)
            cases.labels[name] = label if is_custom_message(label.wire) else label._replace(wire=None)
        return cases

    def __getitem__(self, name: str) -> Case:
        return self.labels[name].deserialize()

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, name: object) -> bool:
        return name in self.labels


def is_custom_message(wire: codec.WireType | None) -> bool:
    """Whether the type is a message that the suite does not ship: another process has to be given it."""
    return isinstance(wire, codec.MessageType) and not wire.message.is_shipped
