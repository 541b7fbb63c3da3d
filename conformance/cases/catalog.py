"""The catalogue: the requirements register and all vectors, made into cases; and which of them are wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, TypeVar

from conformance import codec
from conformance.cases.charging import basis_of
from conformance.cases.compiled import Bundled, Cases, store, stored
from conformance.cases.from_vectors import make_cases
from conformance.cases.kept import PACKAGE
from conformance.cases.model import Case
from conformance.cases.packing import PackedCase, chosen
from conformance.cases.requirement import Requirement
from conformance.cases.vector_files import read_requirements, read_vectors
from conformance.codec.message_definition import Message
from conformance.definitions.shipped import shipped_types, types_with
from conformance.errors import FileError

VECTORS = PACKAGE / "vectors"
"""The bundled vectors."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All requirements by id, and all cases by id, in order."""

    requirements: dict[str, Requirement]
    cases: Cases = field(repr=False)
    types: codec.Types = codec.BUILT_IN
    """The types that cases may be made of."""

    def covering(self) -> dict[str, list[str]]:
        """Requirement id to the ids of its cases."""
        cases: dict[str, list[str]] = {name: [] for name in self.requirements}
        for label in self.cases.labels.values():
            cases[label.requirement].append(label.id)
        return cases


def read_catalog(further: Iterable[Path] = (), messages: Iterable[Message] = ()) -> Catalog:
    """The bundled catalogue, with the vectors of further folders or files.

    Its types are the built-in ones, the shipped messages, `messages`, and the messages that vectors define. Raises
    FileError.
    """
    bundled = stored()
    if bundled is None:
        bundled = made()
        store(bundled)
    try:
        types = types_with(messages).adding(bundled.messages)
    except ValueError as error:
        raise FileError(VECTORS, str(error)) from None
    for root in further:
        types = _add_vectors(bundled.cases, bundled.requirements, types, root, str(root))
    return Catalog(bundled.requirements, bundled.cases, types)


def made() -> Bundled:
    """The bundled catalogue from its files. Raises FileError."""
    requirements, cases = read_requirements(VECTORS / "requirements.yaml"), Cases()
    types = _add_vectors(cases, requirements, shipped_types(), VECTORS)
    if (VECTORS / "covering").is_dir():
        from conformance.cases.covering.families import covering_cases

        for case in covering_cases(Catalog(requirements, cases, types), VECTORS / "covering"):
            cases.add(case)
    defined = tuple(message for message in types.messages.values() if not message.is_shipped)
    return Bundled(requirements, cases, defined)


def _add_vectors(
    cases: Cases, requirements: dict[str, Requirement], types: codec.Types, root: Path, origin: str = ""
) -> codec.Types:
    """Add the cases of the vectors below a folder; the types with the messages they define. Raises FileError."""
    for path in vector_files(root):
        for vector in read_vectors(path, types):
            if vector.definition is not None and isinstance(vector.wire, codec.MessageWire):
                types = types.adding([vector.wire.message])
            for case in make_cases(vector, requirements, origin):
                if case.id in cases:
                    raise vector.error("another vector has this id already")
                cases.add(case)
    return types


def vector_files(root: Path) -> list[Path]:
    """The vector files below a folder (or the file itself), in order. Raises FileError when there is nothing."""
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise FileError(root, "this file or folder does not exist")
    files = sorted(path for path in root.rglob("*.y*ml") if path.name != "requirements.yaml")
    if not files:
        raise FileError(root, "there is no vector file (*.yaml) in this folder")
    return files


# --- selection ----------------------------------------------------------------------------------------


class Labelled(Protocol):
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


L = TypeVar("L", bound=Labelled)


def select(cases: Iterable[L], patterns: Iterable[str]) -> list[L]:
    """The cases that match any pattern: a glob over ids, or `type:`, `requirement:` or `level:` and a glob."""
    return [*selected(cases, patterns)]


def selected(cases: Iterable[L], patterns: Iterable[str]) -> Iterator[L]:
    """The same, one by one."""
    wanted = [_matcher(pattern) for pattern in patterns]
    return (case for case in cases if not wanted or any(matches(case) for matches in wanted))


def _matcher(pattern: str) -> Callable[[Labelled], bool]:
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


def is_based(case: Case | PackedCase, bases: Collection[str], requirements: Mapping[str, Requirement]) -> bool:
    """Whether a case is judged on one of these bases; so is every case where no basis is named."""
    return not bases or basis_of(requirements[case.requirement], case) in bases


def as_of(cases: Iterable[L], version: str) -> list[L]:
    """The cases that a release of the suite had: those introduced no later than it. Raises ValueError."""
    limit = _version(version)
    return [case for case in cases if not case.since or _version(case.since) <= limit]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
