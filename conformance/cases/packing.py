"""Cases as bytes: a run holds tens of thousands from its start to its end, and looks at one at a time.

A case takes 4 to 10 kB as objects and a kilobyte packed, and is unpacked in some twenty microseconds.
"""

from __future__ import annotations

import io
import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeVar, overload

import lz4.block

from conformance.cases.model import SHRINKABLE, Case, CaseKind, Delivers, Expectation, Op, Refuses, Request
from conformance.codec import MessageWire, Wire
from conformance.definitions.shipped import shipped_types

_LARGE = 2048
"""Bytes from which on it pays to compress: whoever unpacks lets other threads run, and they do for milliseconds."""

_Rest: TypeAlias = tuple[Expectation, tuple[str, ...], str, str, str, str]


class PackedCase(NamedTuple):
    """A case as bytes, and beside them what it is chosen, counted and listed by."""

    id: str
    op: Op
    type: str
    requirement: str
    level: str
    since: str
    kind: CaseKind
    origin: str
    disputed: frozenset[str]
    codecs: frozenset[str]
    magics: frozenset[int]
    size: int
    needs_surrogates: bool
    bulk: int
    wire: Wire | None
    """Its type; None where the name says it all: a built-in type, or a shipped message."""
    refused_by: tuple[str, ...]
    """The requirements by which a refusal is due, if one is."""
    content: bytes
    """The request and the data, then all else; from `_LARGE` bytes on compressed."""
    is_compressed: bool

    @property
    def is_shrinkable(self) -> bool:
        """Whether a smaller case may stand for it."""
        return self.kind in SHRINKABLE

    @property
    def defined_in(self) -> str:
        """The file that defines the message it is about, if the suite does not ship it."""
        return self.wire.message.origin if isinstance(self.wire, MessageWire) else ""

    @property
    def whole_wire(self) -> Wire:
        """Its type."""
        return self.wire or shipped_types().wire(self.type)

    @property
    def request(self) -> Request:
        """What is sent, but for the id: unpacked without the expectation, which may be large."""
        return _asked(self._stream())[0]

    @property
    def expect(self) -> Expectation:
        """What is expected, unpacked."""
        return self.unpacked().expect

    def _stream(self) -> io.BytesIO:
        return io.BytesIO(lz4.block.decompress(self.content) if self.is_compressed else self.content)

    def unpacked(self) -> Case:
        """The case again."""
        stream = self._stream()
        request, data = _asked(stream)
        rest: _Rest = pickle.load(stream)  # noqa: S301 - packed by us
        expect, about, note, source, found_in, mutation = rest
        return Case(
            self.id,
            self.op,
            self.whole_wire,
            self.requirement,
            self.level,
            request,
            expect,
            data,
            about,
            self.disputed,
            self.codecs,
            self.magics,
            note,
            source,
            self.since,
            found_in,
            self.origin,
            self.kind,
            mutation,
            self.bulk,
        )


def refused_by(case: Case) -> tuple[str, ...]:
    """The requirements by which a refusal is due in a case, if one is."""
    match case.expect:
        case Refuses():
            return (case.requirement,)
        case Delivers(view) if view.damage is not None:
            return case.requirement, view.damage.requirement
    return ()


def packed(case: Case) -> PackedCase:
    """A case as bytes."""
    request, data = case.request, case.data
    if data is not None and request.get("hex") == data.hex():
        request = {**request, "hex": None}  # it follows from the data
    rest: _Rest = (case.expect, case.about, case.note, case.source, case.found_in, case.mutation)
    content = _dumps((request, data)) + _dumps(rest)
    is_large = len(content) > _LARGE
    return PackedCase(
        case.id,
        case.op,
        case.type,
        case.requirement,
        case.level,
        case.since,
        case.kind,
        case.origin,
        _the_same(case.disputed),
        _the_same(case.codecs),
        _the_same(case.magics),
        case.size,
        case.needs_surrogates,
        case.bulk,
        case.wire,
        refused_by(case),
        lz4.block.compress(content) if is_large else content,
        is_large,
    )


def _dumps(part: object) -> bytes:
    return pickle.dumps(part, pickle.HIGHEST_PROTOCOL)


def _asked(stream: io.BytesIO) -> tuple[Request, bytes | None]:
    """The request and the data, with which the content begins."""
    asked: tuple[Request, bytes | None] = pickle.load(stream)  # noqa: S301 - packed by us
    request, data = asked
    if data is not None and request.get("hex", "") is None:
        request["hex"] = data.hex()
    return request, data


T = TypeVar("T")


@lru_cache(maxsize=1024)
def _the_same(given: frozenset[T]) -> frozenset[T]:
    """One object for all that are equal."""
    return given


# --- many -------------------------------------------------------------------------------------------------


kin: Callable[[Case | PackedCase], str] = "{0.op} {0.requirement}".format
"""What a case has in common with those that a target is likely to be silent about, too."""


class LazyCases(Sequence[Case]):
    """Cases in order, each of which is made when somebody asks for it."""

    @abstractmethod
    def at(self, index: int) -> Case:
        """The case at an index from 0 on. Raises IndexError."""

    @abstractmethod
    def request_at(self, index: int) -> Request:
        """The request of that case."""

    @abstractmethod
    def kin_at(self, index: int) -> str:
        """What that case has in common with others (`kin`)."""

    @abstractmethod
    def bulk_at(self, index: int) -> int:
        """What the memory and time of that case are held against."""

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Case]: ...
    def __getitem__(self, index: int | slice) -> Case | Sequence[Case]:
        if isinstance(index, slice):
            return [self.at(each) for each in range(len(self))[index]]
        return self.at(range(len(self))[index])


class PackedCases(LazyCases):
    """Packed cases in order: each is unpacked when somebody asks for it."""

    def __init__(self, cases: Iterable[Case | PackedCase] = ()) -> None:
        self.packed: list[PackedCase] = []
        for case in cases:
            self.add(case)

    def add(self, case: Case | PackedCase) -> None:
        """Add a case at the end."""
        self.packed.append(packed(case) if isinstance(case, Case) else case)

    def at(self, index: int) -> Case:
        return self.packed[index].unpacked()

    def request_at(self, index: int) -> Request:
        return self.packed[index].request

    def kin_at(self, index: int) -> str:
        return kin(self.packed[index])

    def bulk_at(self, index: int) -> int:
        return self.packed[index].bulk

    def __len__(self) -> int:
        return len(self.packed)


def chosen(cases: Sequence[Case], indexes: Iterable[int]) -> Sequence[Case]:
    """The cases at these indexes; packed ones stay packed."""
    if isinstance(cases, PackedCases):
        return PackedCases(cases.packed[index] for index in indexes)
    return [cases[index] for index in indexes]
