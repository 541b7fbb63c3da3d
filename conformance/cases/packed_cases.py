"""Cases as bytes: a run holds tens of thousands from its start to its end, and looks at one at a time.

A case takes 4 to 10 kB as objects and a kilobyte packed, and is unpacked in some twenty microseconds.
"""

from __future__ import annotations

import json
import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, TypeAlias, TypeVar, overload

import lz4.block
import msgspec

from conformance.cases.model import (
    SHRINKABLE,
    Accepted,
    Answer,
    Case,
    CaseOrigin,
    Expectation,
    ExpectBytes,
    ExpectConsumerView,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    Op,
    Request,
)
from conformance.codec import MessageType, Violation, WireType
from conformance.definitions.loader import shipped_types
from conformance.semantics.consumer_view import VIEW_NOTATION, ConsumerView

_LARGE = 2048
"""Bytes from which on it pays to compress: whoever unpacks lets other threads run, and they do for milliseconds."""

_Rest: TypeAlias = tuple[Expectation, tuple[str, ...], str, str, str, str]

_NO_HEX = b'"hex":null'
"""How the digits stand in a request that are those of the data."""

PLAIN_OPS = ("decode", "encode", "size", "read")
"""The operations of decoders and encoders; what brokers answer is looked at for its error codes, too."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class SerializedCase(NamedTuple):
    """A case as bytes, and beside them what it is chosen, counted, asked and listed by."""

    id: str
    op: Op
    type: str
    requirement: str
    level: str
    since: str
    kind: CaseOrigin
    origin: str
    disputed: frozenset[str]
    codecs: frozenset[str]
    magics: frozenset[int]
    size: int
    needs_surrogates: bool
    measured_bytes: int
    wire: WireType | None
    """Its type; None where the name says it all: a built-in type, or a shipped message."""
    refused_by: tuple[str, ...]
    """The requirements by which a refusal is due, if one is."""
    expected_digest: bytes
    """The digest of the answer that is due, of a case that is asked often; empty where it is not known."""
    expected_rejection: str | None
    """The class of the refusal that is due, empty for any; None where that is not known beforehand to be right."""
    content: bytes
    """The request as it is sent, but for its id and for data that it holds; the data; all else."""
    parts: tuple[int, int]
    """Where the second and the third of them begin."""
    has_data: bool
    data_in_request: bool
    """Whether the request holds the data."""
    is_compressed: bool
    """Whether the content is: from `_LARGE` bytes on."""

    @property
    def is_shrinkable(self) -> bool:
        """Whether a smaller case may stand for it."""
        return self.kind in SHRINKABLE

    @property
    def defined_in(self) -> str:
        """The file that defines the message it is about, if the suite does not ship it."""
        return self.wire.message.origin if isinstance(self.wire, MessageType) else ""

    @property
    def whole_wire(self) -> WireType:
        """Its type."""
        return self.wire or shipped_types().wire(self.type)

    @property
    def request_json(self) -> bytes:
        """The request as it is sent, but for its id."""
        return self._written(self._whole())

    def _whole(self) -> bytes:
        return lz4.block.decompress(self.content) if self.is_compressed else self.content

    def _written(self, whole: bytes) -> bytes:
        data, rest = self.parts
        asked = whole[:data]
        return (
            asked.replace(_NO_HEX, b'"hex":"%b"' % whole[data:rest].hex().encode(), 1)
            if self.data_in_request
            else asked
        )

    @property
    def request(self) -> Request:
        """What is sent, but for the id: unpacked without the expectation, which may be large."""
        return self._request(self._whole())

    def _request(self, whole: bytes) -> Request:
        start, stop = self.parts
        request = _read(whole[:start])
        if self.data_in_request:
            request["hex"] = whole[start:stop].hex()
        return request

    @property
    def expect(self) -> Expectation:
        """What is expected, unpacked."""
        return self.deserialize().expect

    def deserialize(self) -> Case:
        """The case again."""
        whole, (start, stop) = self._whole(), self.parts
        rest: _Rest = pickle.loads(memoryview(whole)[stop:])  # noqa: S301 - packed by us
        expect, about, note, source, found_in, mutation = rest
        return Case(
            self.id,
            self.op,
            self.whole_wire,
            self.requirement,
            self.level,
            self._request(whole),
            expect,
            whole[start:stop] if self.has_data else None,
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
            self.measured_bytes,
        )


def refused_by(case: Case) -> tuple[str, ...]:
    """The requirements by which a refusal is due in a case, if one is."""
    match case.expect:
        case ExpectRejection():
            return (case.requirement,)
        case ExpectConsumerView(view) if view.damage is not None:
            return case.requirement, view.damage.requirement
    return ()


def expected_rejection(case: Case) -> str | None:
    """The class of the refusal that passes, empty for any class; None where `judge` has to say."""
    if case.op not in PLAIN_OPS:
        return None
    match case.expect:
        case ExpectRejection(error):
            return error or ""
        case ExpectConsumerView(ConsumerView(damage=Violation())):
            return ""
    return None


def serialize(case: Case) -> SerializedCase:
    """A case as bytes."""
    request, data = case.request, case.data
    is_sent = data is not None and request.get("hex") == data.hex()
    rest: _Rest = (case.expect, case.checked_fields, case.note, case.source, case.found_in, case.mutation)
    asked = request_json({**request, "hex": None} if is_sent else request)
    others = pickle.dumps(rest, pickle.HIGHEST_PROTOCOL)
    parts = len(asked), len(asked) + len(data or b"")
    content = asked + (data or b"") + others
    is_large = len(content) > _LARGE
    return SerializedCase(
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
        case.measured_bytes,
        case.wire,
        refused_by(case),
        b"",
        expected_rejection(case),
        lz4.block.compress(content) if is_large else content,
        parts,
        data is not None,
        is_sent,
        is_large,
    )


def _read(asked: bytes) -> Request:
    """A request from its JSON."""
    try:
        request: Request = _decode(asked)
    except msgspec.DecodeError:  # it does not take halves of surrogate pairs
        request = json.loads(asked)
    return request


def serialize_with_digest(case: Case) -> SerializedCase:
    """A case as bytes, with the answer that is due: made once, it spares every target of every run the judging."""
    from conformance.cases.packed_cases import expected_digest

    return serialize(case)._replace(expected_digest=expected_digest(case))


def request_json(request: Request) -> bytes:
    """A request as JSON; its strings may hold lone surrogates, as escapes."""
    try:
        return _encode(request)
    except UnicodeEncodeError:
        return json.dumps(request, separators=(",", ":")).encode()


T = TypeVar("T")


@lru_cache(maxsize=1024)
def _the_same(given: frozenset[T]) -> frozenset[T]:
    """One object for all that are equal."""
    return given


# --- many -------------------------------------------------------------------------------------------------


timeout_group: Callable[[Case | SerializedCase], str] = "{0.op} {0.requirement}".format
"""What a case has in common with those that a target is likely to be silent about, too."""


class LazyCases(Sequence[Case]):
    """Cases in order, each of which is made when somebody asks for it."""

    @abstractmethod
    def case_at(self, index: int) -> Case:
        """The case at an index from 0 on. Raises IndexError."""

    @abstractmethod
    def label_at(self, index: int) -> SerializedCase:
        """That case, packed."""

    @abstractmethod
    def written_at(self, index: int) -> bytes:
        """The request of that case as it is sent, but for its id."""

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Case]: ...
    def __getitem__(self, index: int | slice) -> Case | Sequence[Case]:
        if isinstance(index, slice):
            return [self.case_at(each) for each in range(len(self))[index]]
        return self.case_at(range(len(self))[index])


class SerializedCases(LazyCases):
    """Packed cases in order: each is unpacked when somebody asks for it."""

    def __init__(self, cases: Iterable[Case | SerializedCase] = ()) -> None:
        self.serialized: list[SerializedCase] = []
        for case in cases:
            self.add(case)

    def add(self, case: Case | SerializedCase) -> None:
        """Add a case at the end."""
        self.serialized.append(serialize(case) if isinstance(case, Case) else case)

    def case_at(self, index: int) -> Case:
        return self.serialized[index].deserialize()

    def label_at(self, index: int) -> SerializedCase:
        return self.serialized[index]

    def written_at(self, index: int) -> bytes:
        return self.serialized[index].request_json

    def __len__(self) -> int:
        return len(self.serialized)


def chosen(cases: Sequence[Case], indexes: Iterable[int]) -> Sequence[Case]:
    """The cases at these indexes; packed ones stay packed."""
    if isinstance(cases, SerializedCases):
        return SerializedCases(cases.serialized[index] for index in indexes)
    return [cases[index] for index in indexes]


_DIGEST = 16
"""Bytes of a digest."""
_canonical = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class AcceptedAsExpected(Accepted):
    """The target gave the answer that is due; what it said follows from the case."""

    answer: Answer = field(default_factory=dict)


def expected_answer(case: Case) -> Answer | None:
    """The answer that is due, without its id; None where several are right, or where a refusal is due."""
    if case.op not in PLAIN_OPS:
        return None
    match case.expect:
        case ExpectValue(value, int() as consumed):
            return {"ok": True, "value": case.wire.notation.render(value), "consumed": consumed}
        case ExpectBytes(data):
            return {"ok": True, "hex": data.hex()}
        case ExpectSize(size):
            return {"ok": True, "size": size}
        case ExpectConsumerView(ConsumerView(damage=None) as view, open=False):
            return {
                "ok": True,
                "value": VIEW_NOTATION.render({"records": view.records, "nextOffset": view.next_offset}),
            }
    return None


def expected_digest(case: Case) -> bytes:
    """The digest of that answer; empty where there is none."""
    answer = expected_answer(case)
    return b"" if answer is None else digest_of_answer(answer)


def digest_of_answer(answer: Answer) -> bytes:
    """The digest of an answer without its id, whatever the order of its fields; empty where it has none."""
    try:
        return blake2b(_canonical(answer), digest_size=_DIGEST).digest()
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError):
        return b""
