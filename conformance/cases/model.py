"""The data that the other modules share: a case, what is expected of a target, what it did, and the verdict on that."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
    has_beside: bool = False
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


@dataclass(frozen=True, slots=True)
class Case:
    """One question to a target, and the answer that a requirement calls for."""

    id: str
    op: Op
    wire: WireType = field(repr=False, compare=False)
    """The type of what is decoded or encoded, or of the bytes that an operation on whole logs is about."""
    type: str = field(init=False)
    """The name of that type."""
    requirement: str
    level: str
    request: Request
    """What is sent, but for the id."""
    expect: Expectation
    data: bytes | None = None
    """The bytes that the case is about: input of a decode, expected output of an encode."""
    checked_fields: tuple[str, ...] = ()
    """Dotted paths the case is about; a target that shows none of one is not judged."""
    disputed: frozenset[str] = frozenset()
    """Verdicts that are disputed, because Apache Kafka itself does not meet the requirement."""
    codecs: frozenset[str] = frozenset()
    magics: frozenset[int] = frozenset()
    note: str = ""
    source: str = ""
    since: str = ""
    found_in: str = ""
    origin: str = ""
    """The folder given with --vectors that it came from, if any."""
    kind: CaseOrigin = CaseOrigin.VECTOR
    mutation: str = ""
    """The mutation that the bytes of a generated case went through, if any."""
    measured_bytes: int = 0
    """Bytes that the memory and time of a hostile case are compared with; 0: it is not hostile."""
    is_shrinkable: bool = field(init=False)
    """Whether a smaller case may stand for it."""
    comment: str = field(init=False)
    """What reports say beside the case: the note of its vector, or its mutation."""
    defined_in: str = field(init=False, compare=False)
    """The file that defines the message it is about, if the suite does not ship it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.wire.name)
        object.__setattr__(self, "is_shrinkable", self.kind in SHRINKABLE)
        object.__setattr__(self, "comment", self.note or (f"mutation: {self.mutation}" if self.mutation else ""))
        origin = self.wire.message.origin if isinstance(self.wire, MessageType) else ""
        object.__setattr__(self, "defined_in", origin)

    @property
    def size(self) -> int:
        """The bytes that it is about, or else those of its request."""
        return len(self.data if self.data is not None else json.dumps(self.request))

    @property
    def needs_surrogates(self) -> bool:
        """Whether it asks for strings that not every reader of JSON takes, and no answer to that is due."""
        return isinstance(self.expect, ExpectAnyOf) and not is_text(self.request)


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
    is_asked: bool = True
    """Whether it was asked: a case that it does not claim is not put to it."""


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
