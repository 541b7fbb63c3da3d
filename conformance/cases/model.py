"""The data that the other modules share: a case, what is expected of a target, what it did, and the verdict on that."""

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
"""A value of the wire, as the codec holds it."""
Request = dict[str, Any]
"""A request of the line protocol, or some of its parts, in notation."""
Answer = dict[str, Any]
"""An answer of the line protocol, in notation."""

LEVELS = ("must", "should", "may", "informative")
BASES = ("stated", "implied", "settled")
"""What a requirement rests on: the words of a document, what they imply, or what Apache Kafka does."""
ERRORS = ("malformed", "corrupt", "unsupported-codec", "invalid-value", "other")
ROBUSTNESS = "robustness.answers"
REFUSED = "refused"
"""The fate of a batch that a broker refuses with an error which names none of the fates."""

# --- what is expected ---------------------------------------------------------------------------------


class ExpectValue(Struct, frozen=True):
    """The bytes decode to a value (possibly partial), from so many bytes."""

    value: Value
    consumed: int | None


class ExpectRejection(Struct, frozen=True):
    """The input is refused; the class of the error is judged, at level should, only where `error` is given."""

    error: str | None = None
    said: str = "malformed"
    """The class as the vector words it, for display."""


class ExpectBytes(Struct, frozen=True):
    """The value encodes to exactly these bytes, but for those in `ignoring` (from, to)."""

    data: bytes
    ignoring: tuple[int, int] = (0, 0)


class ExpectAnyOf(Struct, frozen=True):
    """An open place: one of these readings, or, with none listed, whatever the target makes of it."""

    readings: tuple[ExpectValue | ExpectRejection | ExpectBytes, ...] = ()


class ExpectEquivalentBytes(Struct, frozen=True):
    """The value encodes to bytes that the reference reads as this value (compression leaves encoders free)."""

    value: Value
    type: str = ""
    """The type to read them as, where that shows more than the case's own."""


class ExpectSize(Struct, frozen=True):
    """The value takes so many bytes."""

    size: int


class ExpectConsumerView(Struct, frozen=True):
    """A fetch shows an application this much of a log."""

    view: ConsumerView
    unchecked: ConsumerView
    """The same with checksums passed over: what a reader shows that does not check them."""
    open: bool = False
    """Some of it stands at an open place, so that refusing it is right too."""


class ExpectConvertedRecords(Struct, frozen=True):
    """The log becomes one with these records (as CONVERTED shows them)."""

    records: tuple[dict[str, Value], ...]


class ExpectSequenceResults(Struct, frozen=True):
    """For each batch one of these answers is due."""

    answers: tuple[frozenset[str], ...]


class ExpectAppend(Struct, frozen=True):
    """A broker takes the batch, gives it the next offset of the log, and serves these records of it from there on."""

    records: tuple[dict[str, Value], ...]
    """As APPENDED shows them, the first at offset 0."""
    free: tuple[str, ...] = ()
    """The fields of records that the broker chooses."""
    open: bool = False
    """A broker may refuse the batch too."""
    most: int = 2
    """The highest magic that the fetch carries."""
    has_other_partitions: bool = False
    """What stands beside it in other partitions has to be refused."""
    tells_time: bool = False
    """The time that a broker tells is judged: that of the append, where the topic has it, or none."""


class ExpectClientRequests(Struct, frozen=True):
    """The requests of a client pass `check`."""

    check: str
    """A row of `client_checks`."""
    isolation: str
    """The isolation level that the client was told."""
    request: str = ""
    """The requests to which the check applies, such as `Fetch`; empty for all."""


class ExpectedResponse(Struct, frozen=True):
    """What is due for a frame that a broker is sent."""

    name: str
    """The request that it is, such as `Fetch`; empty for one that the suite has no definition of."""
    version: int
    """The version of the answer."""
    correlation: int
    must_answer: bool = False
    """False where it may be refused: by closing the connection, or by an answer."""
    must_refuse: bool = False
    """Whether an answer has to hold an error."""
    may_wait: bool = False
    """Whether its size announces more bytes than it has, so that a broker may wait for them."""


class ExpectResponses(Struct, frozen=True):
    """A broker answers frames, in their order."""

    due: tuple[ExpectedResponse, ...]
    unanswered: str = ""
    """The requirement that is broken where no answer comes, if that is not the case's own."""


class ExpectScenario(Struct, frozen=True):
    """A broker does these steps, one after the other."""

    steps: tuple[Step, ...]
    due: tuple[object, ...]
    """What is due of each: `ok`, `refused`, `either`, or the values of the records that a consumer is shown."""


WholeLog = (
    ExpectConsumerView
    | ExpectConvertedRecords
    | ExpectSequenceResults
    | ExpectClientRequests
    | ExpectAppend
    | ExpectResponses
    | ExpectScenario
)
"""What must come of an operation that names no type."""

Expectation = ExpectValue | ExpectRejection | ExpectAnyOf | ExpectBytes | ExpectEquivalentBytes | ExpectSize | WholeLog


class RequestWithExpectation(NamedTuple):
    """The parts of a request, but for the operation and the type, and what must come of it."""

    parts: Request
    expect: Expectation


class NotTestable(NotationError):
    """A request in good form that no target is given, because correct targets may answer it differently."""


class CaseOrigin(StrEnum):
    """Where a case comes from."""

    VECTOR = "vector"
    GENERATED = "generated"
    """Rebuilt from its id (`gen/...`)."""
    PROBE = "probe"
    """A plain value that tries what a target claims."""
    AD_HOC = "ad-hoc"
    """Given by a user with --case."""
    SHRUNK = "shrunk"
    """Made smaller from a case that failed."""


SHRINKABLE = (CaseOrigin.GENERATED, CaseOrigin.AD_HOC, CaseOrigin.SHRUNK)
"""The kinds of cases that a smaller one may stand for: vectors and probes are reported as they are."""


class CaseSummary:
    """The part of a case by which it is selected, counted, sent and listed: `Case` and `StoredCase` have it."""

    __slots__ = ()
    id: str
    op: Op
    type: str
    requirement: str
    level: str
    since: str
    kind: CaseOrigin
    origin: str
    """The folder given with --vectors that it came from, if any."""
    disputed: frozenset[str]
    """Verdicts that are disputed, because Apache Kafka itself does not meet the requirement."""
    codecs: frozenset[str]
    magics: frozenset[int]
    measured_bytes: int
    """Bytes that the memory and time of a hostile case are compared with; 0: it is not hostile."""

    @property
    def wire(self) -> WireType:
        """The type of what is decoded or encoded, or of the bytes that an operation on whole logs is about."""
        raise NotImplementedError

    @property
    def request(self) -> Request:
        """The request of the protocol, without its id."""
        raise NotImplementedError

    @property
    def expect(self) -> Expectation:
        """The expectation, which may be large."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of bytes that it is about, or else of its request."""
        raise NotImplementedError

    @property
    def needs_surrogates(self) -> bool:
        """Whether its strings hold lone surrogates, which not every reader of JSON accepts, and no answer is due."""
        raise NotImplementedError

    @property
    def refused_by(self) -> tuple[str, ...]:
        """The requirements by which a refusal is due, if one is."""
        raise NotImplementedError

    def request_json(self) -> bytes:
        """Return the request of the protocol as JSON, without its id."""
        raise NotImplementedError

    def to_case(self) -> Case:
        """Return the whole case."""
        raise NotImplementedError

    @property
    def is_shrinkable(self) -> bool:
        """Whether a smaller case may stand for it."""
        return self.kind in SHRINKABLE

    @property
    def defined_in(self) -> str:
        """The file that defines the message it is about, if the suite does not ship it."""
        return self.wire.message.origin if isinstance(self.wire, MessageType) else ""

    @property
    def timeout_group(self) -> str:
        """The operation and requirement: a target that does not answer one case of them may not answer the others."""
        return f"{self.op} {self.requirement}"


@dataclass(frozen=True, slots=True)
class Case(CaseSummary):
    """One request to a target, and the answer that a requirement calls for."""

    id: str
    op: Op
    wire: WireType = field(repr=False, compare=False)
    type: str = field(init=False)
    requirement: str
    level: str
    request: Request
    expect: Expectation
    data: bytes | None = None
    """The bytes that the case is about: input of a decode, expected output of an encode."""
    checked_fields: tuple[str, ...] = ()
    """Dotted paths the case is about; a target that shows none of one is not judged."""
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
    """The mutation that the bytes of a generated case went through, if any."""
    measured_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.wire.name)

    @property
    def comment(self) -> str:
        """The text that reports print beside the case: the note of its vector, or its mutation."""
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


# --- what a target did --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """`ok: true`, with the answer's further fields as they came."""

    answer: Answer
    size: int = field(default=0, compare=False)
    """Bytes of the answer as it came; 0 where nobody counted them."""


class Rejected(Struct, frozen=True):
    """`ok: false`: the target rejects the input."""

    error: str
    message: str = ""
    codes: str = ""
    """The error code of a broker, which reports compare."""


class Unsupported(Struct, frozen=True):
    """The target cannot do it, or did not claim it."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer in the protocol's sense: how, and what was seen."""

    how: Literal["crash", "timeout", "protocol", "memory", "slow"]
    detail: str
    flaky: bool = False
    """It did not happen again when the question was put alone."""
    unprovoked: bool = False
    """It used up its memory over a small request."""
    answered: Accepted | Rejected | NoAnswer | Unsupported | None = field(default=None, compare=False)
    """What it answered in the end, where that was out of proportion."""


Outcome = Accepted | Rejected | Unsupported | NoAnswer


# --- the verdict on it --------------------------------------------------------------------------------


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
"""Verdicts on a target that broke a requirement."""


class Verdict(Struct, frozen=True):
    """The verdict on an outcome. Requirement and level are given only where they differ from the case's."""

    kind: VerdictKind
    detail: str = ""
    path: str = ""
    """The field at which expected and actual part, where one is known."""
    requirement: str = ""
    level: str = ""
    unobserved: tuple[str, ...] = ()
    flaky: bool = False


PASSED = Verdict(VerdictKind.PASS)
