"""Stored cases: a run keeps tens of thousands of cases as bytes, and unpacks one at a time.

A case takes 4 to 10 kB as objects, and 1 kB as bytes. To unpack one takes about 20 µs.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias, TypeVar

import lz4.block
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from conformance.cases.model import (
    Accepted,
    Answer,
    Case,
    CaseOrigin,
    CaseSummary,
    Expectation,
    ExpectBytes,
    ExpectConsumerView,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    Op,
    Outcome,
    Rejected,
    Request,
    request_json,
)
from conformance.codec import MessageType, Violation, WireType
from conformance.definitions.loader import shipped_types
from conformance.semantics.consumer_view import VIEW_NOTATION, ConsumerView

_LARGE = 2048
"""Only larger contents, in bytes, are compressed: decompression releases the GIL, which costs milliseconds."""

_Rest: TypeAlias = tuple[Expectation, tuple[str, ...], str, str, str, str]

_NO_HEX = b'"hex":null'
"""Stands for the `hex` field of a request that contains the data of the case, so that the data is stored once."""

PLAIN_OPS = ("decode", "encode", "size", "read")
"""The operations of decoders and encoders. Answers of brokers also have error codes, which `judge` compares."""

_decode = msgspec.json.Decoder().decode


class StoredCase(Struct, CaseSummary, frozen=True):
    """A summary, and the rest of the case as bytes."""

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
    measured_bytes: int
    size: int
    needs_surrogates: bool
    refused_by: tuple[str, ...]
    own_wire: WireType | None
    """Its type, if the suite does not ship it; otherwise the name is enough."""
    expected_digest: bytes
    """The digest of the expected answer; empty if several answers are correct, or if it was not computed."""
    expected_error: str | None
    """The class of the expected rejection, empty for any class; None if only `judge` can decide."""
    content: bytes
    """The request without its id and its data, then the data, then the other fields."""
    data_start: int
    rest_start: int
    has_data: bool
    data_in_request: bool
    """Whether the request contains the data."""
    is_compressed: bool
    """Whether the content is compressed."""

    @property
    def wire(self) -> WireType:
        return self.own_wire or shipped_types().wire(self.type)

    def request_json(self) -> bytes:
        whole = self._whole()
        request = whole[: self.data_start]
        if not self.data_in_request:
            return request
        return request.replace(_NO_HEX, b'"hex":"%b"' % self._data(whole).hex().encode(), 1)

    @property
    def request(self) -> Request:
        return self._request(self._whole())

    @property
    def expect(self) -> Expectation:
        return self.to_case().expect

    def to_case(self) -> Case:
        whole = self._whole()
        rest: _Rest = pickle.loads(memoryview(whole)[self.rest_start :])  # noqa: S301 - written by `store`
        expect, checked_fields, note, source, found_in, mutation = rest
        return Case(
            self.id,
            self.op,
            self.wire,
            self.requirement,
            self.level,
            self._request(whole),
            expect,
            self._data(whole) if self.has_data else None,
            checked_fields,
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

    def _whole(self) -> bytes:
        return lz4.block.decompress(self.content) if self.is_compressed else self.content

    def _data(self, whole: bytes) -> bytes:
        return whole[self.data_start : self.rest_start]

    def _request(self, whole: bytes) -> Request:
        request = _read(whole[: self.data_start])
        if self.data_in_request:
            request["hex"] = self._data(whole).hex()
        return request


def is_custom_message(wire: WireType) -> bool:
    """Return whether the type is a message that the suite does not ship: another process needs its definition."""
    return isinstance(wire, MessageType) and not wire.message.is_shipped


def store(case: Case) -> StoredCase:
    """Return a case as bytes, without the digest of the expected answer."""
    request, data = case.request, case.data
    data_in_request = data is not None and request.get("hex") == data.hex()
    rest: _Rest = (case.expect, case.checked_fields, case.note, case.source, case.found_in, case.mutation)
    shown = request_json({**request, "hex": None} if data_in_request else request)
    content = shown + (data or b"") + pickle.dumps(rest, pickle.HIGHEST_PROTOCOL)
    is_large = len(content) > _LARGE
    return StoredCase(
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
        case.measured_bytes,
        case.size,
        case.needs_surrogates,
        case.refused_by,
        case.wire if is_custom_message(case.wire) else None,
        b"",
        expected_error(case),
        lz4.block.compress(content) if is_large else content,
        len(shown),
        len(shown) + len(data or b""),
        data is not None,
        data_in_request,
        is_large,
    )


def store_with_digest(case: Case) -> StoredCase:
    """Return a case as bytes, with the digest of the expected answer. An answer with this digest passes unjudged."""
    return replace(store(case), expected_digest=expected_digest(case))


def stored_all(cases: Iterable[CaseSummary]) -> list[StoredCase]:
    """Return cases as bytes; those that are stored already are unchanged."""
    return [case if isinstance(case, StoredCase) else store(case.to_case()) for case in cases]


def _read(text: bytes) -> Request:
    """Return a request from its JSON."""
    try:
        request: Request = _decode(text)
    except msgspec.DecodeError:  # msgspec rejects lone surrogates
        request = json.loads(text)
    return request


T = TypeVar("T")


@lru_cache(maxsize=1024)
def _the_same(given: frozenset[T]) -> frozenset[T]:
    """Return one object for all equal sets, to save memory."""
    return given


# --- the expected answer --------------------------------------------------------------------------------

_DIGEST_BYTES = 16
_canonical = msgspec.json.Encoder(order="deterministic").encode


def passes(case: CaseSummary, outcome: Outcome) -> bool:
    """Return whether the outcome surely passes, without unpacking the case; False if only `judge` can decide."""
    if not isinstance(case, StoredCase):
        return False
    match outcome:
        case Accepted(answer):
            return bool(case.expected_digest) and digest_of_answer(answer) == case.expected_digest
        case Rejected(error):
            return case.expected_error is not None and case.expected_error in ("", error)
    return False


def expected_error(case: Case) -> str | None:
    """Return the class of the rejection that passes, empty for any class; None if only `judge` can decide."""
    if case.op not in PLAIN_OPS:
        return None
    match case.expect:
        case ExpectRejection(error):
            return error or ""
        case ExpectConsumerView(ConsumerView(damage=Violation())):
            return ""
    return None


def expected_answer(case: Case) -> Answer | None:
    """Return the expected answer without `id` and `ok`; None for several correct answers, or for a rejection."""
    if case.op not in PLAIN_OPS:
        return None
    match case.expect:
        case ExpectValue(value, int() as consumed):
            return {"value": case.wire.notation.render(value), "consumed": consumed}
        case ExpectBytes(data):
            return {"hex": data.hex()}
        case ExpectSize(size):
            return {"size": size}
        case ExpectConsumerView(ConsumerView(damage=None) as view, open=False):
            return {"value": VIEW_NOTATION.render({"records": view.records, "nextOffset": view.next_offset})}
    return None


def expected_digest(case: Case) -> bytes:
    """Return the digest of the expected answer; empty if there is none."""
    answer = expected_answer(case)
    return b"" if answer is None else digest_of_answer(answer)


def digest_of_answer(answer: Answer) -> bytes:
    """Return the digest of an answer without `id` and `ok`, in any field order; empty if JSON cannot represent it."""
    try:
        return blake2b(_canonical(answer), digest_size=_DIGEST_BYTES).digest()
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError):
        return b""
