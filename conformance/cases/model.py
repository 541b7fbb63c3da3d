"""The shared data: a case, its expectation, the outcome of a target, and the verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from conformance.codec import MessageType, WireType
from conformance.codec.json_notation import NotationError
from conformance.files.bounded_json import is_text
from conformance.semantics.consumer_view import ConsumerView

if TYPE_CHECKING:
    from conformance.semantics.broker_steps import Step

Op = Literal["decode", "encode", "size", "read", "convert", "sequence", "send", "append", "exchange", "scenario"]
Value = Any
"""A value of the wire, as the codec represents it."""
Request = dict[str, Any]
"""A request of the line protocol, or some of its parts, in notation."""
Answer = dict[str, Any]
"""An answer of the line protocol, in notation."""

LEVELS = ("must", "should", "may", "informative")
BASES = ("stated", "implied", "settled")
"""The basis of a requirement: a document states it, a document implies it, or Apache Kafka's behaviour settles it."""
ERRORS = ("malformed", "corrupt", "unsupported-codec", "invalid-value", "other")
ROBUSTNESS = "robustness.answers"
REFUSED = "refused"
"""The result of a batch that a broker rejects with an error that belongs to no other result."""

# --- expectations -------------------------------------------------------------------------------------


class ExpectValue(Struct, frozen=True):
    """The bytes decode to a value, which may be partial."""

    value: Value
    consumed: int | None
    """Number of bytes that the value takes; None: any number up to the length of the input."""


class ExpectRejection(Struct, frozen=True):
    """The target rejects the input. `error` is the required error class, at level should; None accepts any class."""

    error: str | None = None
    shown_error: str = "malformed"
    """The error class in the vector, for display."""


class ExpectBytes(Struct, frozen=True):
    """The value encodes to exactly these bytes, except those in `ignoring` (start, stop)."""

    data: bytes
    ignoring: tuple[int, int] = (0, 0)


class ExpectAnyOf(Struct, frozen=True):
    """Unspecified behaviour: one of these accepted interpretations. If the tuple is empty, any result is accepted."""

    readings: tuple[ExpectValue | ExpectRejection | ExpectBytes, ...] = ()


class ExpectEquivalentBytes(Struct, frozen=True):
    """The value encodes to bytes that the reference decodes to this value: compressed bytes may differ."""

    value: Value
    type: str = ""
    """The type to decode, if it has more fields than the type of the case."""


class ExpectSize(Struct, frozen=True):
    """The value takes this number of bytes."""

    size: int


class ExpectConsumerView(Struct, frozen=True):
    """An application gets these records from a fetch of a log."""

    view: ConsumerView
    unchecked: ConsumerView
    """The view of a consumer that does not check checksums."""
    open: bool = False
    """Part of the log is unspecified, so the target may reject it too."""


class ExpectConvertedRecords(Struct, frozen=True):
    """The converted log has these records (in the form of CONVERTED)."""

    records: tuple[dict[str, Value], ...]


class ExpectSequenceResults(Struct, frozen=True):
    """The target returns one of these results for each batch."""

    answers: tuple[frozenset[str], ...]


class ExpectAppend(Struct, frozen=True):
    """A broker accepts the batch, assigns it the next offset of the log, and serves these records at that offset."""

    records: tuple[dict[str, Value], ...]
    """In the form of APPENDED, the first one at offset 0."""
    free: tuple[str, ...] = ()
    """The fields of records that the broker chooses."""
    open: bool = False
    """A broker may reject the batch too."""
    max_magic: int = 2
    """The highest magic that the fetch version can return."""
    has_other_partitions: bool = False
    """The broker must reject the data of the other partitions."""
    has_append_time: bool = False
    """LogAppendTimeMs is judged: the append time if the topic has LogAppendTime, else -1."""


class ExpectClientRequests(Struct, frozen=True):
    """The requests of a client pass `check`."""

    check: str
    """A row of `client_checks`."""
    isolation: str
    """The isolation level of the application."""
    request: str = ""
    """The requests to which the check applies, such as `Fetch`; empty for all."""


class ExpectedResponse(Struct, frozen=True):
    """The expected response to a frame."""

    name: str
    """Name of the request, such as `Fetch`; empty if the suite has no definition of it."""
    version: int
    """Version of the response."""
    correlation: int
    must_answer: bool = False
    """False: the broker may also close the connection without a response."""
    must_refuse: bool = False
    """The response must contain an error code."""
    may_wait: bool = False
    """The size of the frame is larger than its bytes, so the broker may wait for more."""


class ExpectResponses(Struct, frozen=True):
    """A broker answers the frames in their order."""

    expected: tuple[ExpectedResponse, ...]
    unanswered: str = ""
    """The requirement that a missing response breaks, if it is not the requirement of the case."""


class ExpectScenario(Struct, frozen=True):
    """A broker executes these steps in order."""

    steps: tuple[Step, ...]
    expected: tuple[object, ...]
    """By step: `ok`, `refused`, `either`, or the values of the records that a consumer gets."""


WholeLog = (
    ExpectConsumerView
    | ExpectConvertedRecords
    | ExpectSequenceResults
    | ExpectClientRequests
    | ExpectAppend
    | ExpectResponses
    | ExpectScenario
)
"""The expectations of operations without a type."""

Expectation = ExpectValue | ExpectRejection | ExpectAnyOf | ExpectBytes | ExpectEquivalentBytes | ExpectSize | WholeLog


class RequestWithExpectation(NamedTuple):
    """The parts of a request, without its operation and type, and its expectation."""

    parts: Request
    expect: Expectation


class NotTestable(NotationError):
    """The request is valid, but no test: correct targets may answer it differently."""


class CaseOrigin(StrEnum):
    """The origin of a case."""

    VECTOR = "vector"
    GENERATED = "generated"
    """Rebuilt from its id (`gen/...`)."""
    PROBE = "probe"
    """A plain value that tests a claim of a target."""
    AD_HOC = "ad-hoc"
    """Given by a user with --case."""
    SHRUNK = "shrunk"
    """A smaller form of a failed case."""


SHRINKABLE = (CaseOrigin.GENERATED, CaseOrigin.AD_HOC, CaseOrigin.SHRUNK)
"""The origins of cases that a report may replace by a smaller case. Vectors and probes never change."""


class CaseSummary:
    """The fields of a case for its selection, counts, request and lists: `Case` and `StoredCase` have them."""

    __slots__ = ()
    id: str
    op: Op
    type: str
    requirement: str
    level: str
    since: str
    kind: CaseOrigin
    origin: str
    """The folder of --vectors that contains the case, if any."""
    disputed: frozenset[str]
    """The disputed verdicts: Apache Kafka itself does not meet the requirement."""
    codecs: frozenset[str]
    magics: frozenset[int]
    measured_bytes: int
    """The bytes by which the memory and time of a hostile case are limited; 0: the case is not hostile."""

    @property
    def wire(self) -> WireType:
        """The type that is decoded or encoded, or the type of the log of an operation without a type."""
        raise NotImplementedError

    @property
    def request(self) -> Request:
        """The request of the line protocol, without its id."""
        raise NotImplementedError

    @property
    def expect(self) -> Expectation:
        """The expectation, which may be large."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of bytes of the data, or of the request if there is no data."""
        raise NotImplementedError

    @property
    def needs_surrogates(self) -> bool:
        """Whether its strings contain lone surrogates, which some JSON parsers reject; any answer is accepted."""
        raise NotImplementedError

    @property
    def refused_by(self) -> tuple[str, ...]:
        """The requirements that demand a rejection; empty if none is expected."""
        raise NotImplementedError

    def request_json(self) -> bytes:
        """Return the request of the line protocol as JSON, without its id."""
        raise NotImplementedError

    def to_case(self) -> Case:
        """Return the whole case."""
        raise NotImplementedError

    @property
    def is_shrinkable(self) -> bool:
        """Whether a report may replace it by a smaller case."""
        return self.kind in SHRINKABLE

    @property
    def defined_in(self) -> str:
        """The file that defines its message, if the suite does not ship the definition."""
        return self.wire.message.origin if isinstance(self.wire, MessageType) else ""

    @property
    def timeout_group(self) -> str:
        """The operation and requirement: if a target does not answer one case, it may not answer the others."""
        return f"{self.op} {self.requirement}"


@dataclass(frozen=True, slots=True)
class Case(CaseSummary):
    """One request to a target, and the expectation of its requirement."""

    id: str
    op: Op
    wire: WireType = field(repr=False, compare=False)
    type: str = field(init=False)
    requirement: str
    level: str
    request: Request
    expect: Expectation
    data: bytes | None = None
    """The bytes of the case: input of a decode, expected output of an encode."""
    checked_fields: tuple[str, ...] = ()
    """Dotted paths of the fields that the case tests; the case is skipped if the answer lacks one of them."""
    disputed: frozenset[str] = frozenset()
    codecs: frozenset[str] = frozenset()
    magics: frozenset[int] = frozenset()
    note: str = ""
    source: str = ""
    since: str = ""
    found_in: str = ""
    origin: str = ""
    kind: CaseOrigin = CaseOrigin.VECTOR
    mutation: str = ""
    """The mutation of the bytes of a generated case, if any."""
    measured_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.wire.name)

    @property
    def comment(self) -> str:
        """The text that reports print with the case: the note of its vector, or its mutation."""
        return self.note or (f"mutation: {self.mutation}" if self.mutation else "")

    @property
    def size(self) -> int:
        return len(self.data if self.data is not None else json.dumps(self.request))

    @property
    def needs_surrogates(self) -> bool:
        return isinstance(self.expect, ExpectAnyOf) and not is_text(self.request)

    @property
    def refused_by(self) -> tuple[str, ...]:
        match self.expect:
            case ExpectRejection():
                return (self.requirement,)
            case ExpectConsumerView(view) if view.damage is not None:
                return self.requirement, view.damage.requirement
        return ()

    def request_json(self) -> bytes:
        return request_json(self.request)

    def to_case(self) -> Case:
        return self


_encode = msgspec.json.Encoder().encode


def request_json(request: Request) -> bytes:
    """Return a request as JSON; lone surrogates in its strings are escaped."""
    try:
        return _encode(request)
    except UnicodeEncodeError:
        return json.dumps(request, separators=(",", ":")).encode()


# --- outcomes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """`ok: true`: the other fields of the answer."""

    answer: Answer
    size: int = field(default=0, compare=False)
    """Bytes of the received answer; 0 if they were not counted."""


class Rejected(Struct, frozen=True):
    """`ok: false`: the target rejects the input."""

    error: str
    message: str = ""
    codes: str = ""
    """The error codes of a broker, which reports compare."""


class Unsupported(Struct, frozen=True):
    """The target does not support the request, or does not claim to."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No valid answer of the line protocol: the kind of failure, and its description."""

    how: Literal["crash", "timeout", "protocol", "memory", "slow"]
    detail: str
    flaky: bool = False
    """The failure did not repeat when the request was sent alone."""
    unprovoked: bool = False
    """The target ran out of memory after a small request."""
    answered: Accepted | Rejected | NoAnswer | Unsupported | None = field(default=None, compare=False)
    """The answer, if it needed too much memory or time."""


Outcome = Accepted | Rejected | Unsupported | NoAnswer


# --- verdicts -----------------------------------------------------------------------------------------


class VerdictKind(StrEnum):
    """The verdicts of docs/concepts.md#verdicts."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    SKIP = "skip"
    CRASH = "crash"
    TIMEOUT = "timeout"
    EITHER = "either"
    PROTOCOL = "protocol"


FAILURES = (VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT)
"""The verdicts on a broken requirement."""


class Verdict(Struct, frozen=True):
    """The verdict on an outcome. Requirement and level are empty if they are those of the case."""

    kind: VerdictKind
    detail: str = ""
    path: str = ""
    """The field in which expected and actual differ, if known."""
    requirement: str = ""
    level: str = ""
    unobserved: tuple[str, ...] = ()
    flaky: bool = False


PASSED = Verdict(VerdictKind.PASS)
