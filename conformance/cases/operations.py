"""The table of operations: the fields of each request, the answer of the reference, and the expectation.

`judging/judge.py` judges a case by the class of its expectation. `catalog/case_builder.py` derives the expectation of
bytes and values from the reference. For other operations, the row names the function that returns the expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from msgspec import Struct

from conformance import codec
from conformance.cases import client_requests, log_requests, reference_answers
from conformance.cases.client_checks import CHECKS
from conformance.cases.client_scenarios import SCENARIOS
from conformance.cases.model import Answer, Case, Op, Request, RequestWithExpectation, Value
from conformance.codec import json_notation as n
from conformance.codec.compare import unknown_fields
from conformance.codec.compression import CODEC_NAMES
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.semantics.partition_log import SETTINGS
from conformance.semantics.producer_state import BATCHES

# --- notations of parts -------------------------------------------------------------------------------


def _bytes(given: object) -> bytes:
    data: bytes | None = n.HEX.parse(given)
    if data is None:
        raise n.NotationError("expected hex digits, found null")
    return data


def _int64(given: object) -> int:
    number: int = n.DECIMAL.parse(given)
    if not -log_requests.INT64_MAX - 1 <= number <= log_requests.INT64_MAX:
        raise n.NotationError(f"{number} is not an INT64")
    return number


_LISTED = 40
"""An error message lists all names up to this number, otherwise only the most similar ones."""


def _one_of(names: tuple[str, ...]) -> Callable[[object], str]:
    """Return a parser of one of these names."""

    def parse(given: object) -> str:
        if given not in names:
            from difflib import get_close_matches  # slow to import, and only errors need it

            some = names if len(names) <= _LISTED else get_close_matches(str(given), names, 3, 0.3)
            raise n.NotationError(f"expected one of {', '.join(some)}, found {given!r:.40}")
        return str(given)

    return parse


def _complete(rows: n.ListOf) -> Callable[[object], Value]:
    """Return a parser of a list of objects that have all fields and no others."""
    names = list(rows.element.fields)

    def parse(given: object) -> Value:
        parsed = rows.parse(given)
        if unknown_fields(rows, given) or any(set(entry) != set(names) for entry in parsed):
            raise n.NotationError(f"expected objects with {', '.join(names[:-1])} and {names[-1]}")
        return parsed

    return parse


def _later(module: str, name: str) -> Callable[..., Value]:
    """Return a function that imports its module of cases at the first call: only brokers need these modules."""

    def call(*given: object) -> object:
        return getattr(import_module(f"conformance.cases.{module}"), name)(*given)

    return call


# --- the table ----------------------------------------------------------------------------------------

Parser = Callable[[object], Value]


class RequestField(Struct, frozen=True):
    """A field of a request: its name, its parser, and whether it is required."""

    name: str
    parse: Parser | None = None
    """None: the notation of the request's type."""
    needed: bool = True
    is_shrunk: bool = False
    """Shrinking a failure makes this field smaller."""


class Operation(Struct, frozen=True):
    """One operation of the line protocol."""

    parts: tuple[RequestField, ...]
    answer: Callable[[codec.WireType, Request], Answer]
    """Returns the answer of the reference for a type and the parsed parts, with all required ones."""
    question: Callable[[Request], RequestWithExpectation] | None = None
    """Returns the request and the expectation for parsed parts, if the operation has no type. Raises NotTestable."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parts."""
        return tuple(part.name for part in self.parts)

    def parse(self, given: Mapping[str, object], wire: codec.WireType) -> Request:
        """Return the parts of a request as values; other fields are ignored.

        Raises NotationError, with the name of the part.
        """
        parsed = {}
        for part in self.parts:
            if part.name in given:
                try:
                    parsed[part.name] = (part.parse or wire.notation.parse)(given[part.name])
                except n.NotationError as error:
                    raise n.NotationError(f"{part.name}: {error}") from None
            elif part.needed:
                raise n.NotationError(f"{part.name} is missing")
        return parsed


_HEX = RequestField("hex", _bytes, is_shrunk=True)
_VALUE = (
    RequestField("value", is_shrunk=True),
    RequestField("magic", n.NUMBER.parse, needed=False),
    RequestField("compression", n.NamedNumber(CODEC_NAMES).parse, needed=False),
)
"""The value of a MESSAGE_SET does not contain its magic and compression, so they are separate fields."""

OPERATIONS: dict[str, Operation] = {
    "decode": Operation((_HEX,), reference_answers.decoded),
    "encode": Operation(_VALUE, reference_answers.encoded),
    "size": Operation(_VALUE, reference_answers.measured),
    "read": Operation(
        (
            _HEX,
            RequestField("isolation", _one_of(ISOLATIONS)),
            RequestField("fetchOffset", _int64, needed=False),
            RequestField("highWatermark", _int64, needed=False),
            RequestField("aborted", _complete(log_requests.ABORTED), needed=False, is_shrunk=True),
            RequestField("checkCrcs", n.TRUTH.parse, needed=False),
        ),
        reference_answers.seen,
        log_requests.fetch_expectation,
    ),
    "convert": Operation(
        (_HEX, RequestField("magic", n.NUMBER.parse), RequestField("baseOffset", _int64, needed=False)),
        reference_answers.converted,
        log_requests.conversion_question,
    ),
    "sequence": Operation(
        (RequestField("batches", _complete(BATCHES), is_shrunk=True),),
        reference_answers.sequenced,
        log_requests.sequence_expectation,
    ),
    "send": Operation(
        (
            RequestField("scenario", _one_of(tuple(SCENARIOS))),
            RequestField("isolation", _one_of(ISOLATIONS)),
            RequestField("check", _one_of(tuple(CHECKS))),
            RequestField("request", n.TEXT.parse, needed=False),
        ),
        client_requests.reference_requests,
        client_requests.send_question,
    ),
    "append": Operation(
        (
            _HEX,
            *(RequestField(name, _one_of(values), needed=False) for name, values in SETTINGS.items()),
            *(
                RequestField(name, n.NUMBER.parse, needed=False)
                for name in ("maxMessageBytes", "produceVersion", "fetchVersion")
            ),
            RequestField("otherPartitions", _bytes, needed=False),
        ),
        _later("append", "answer"),
        _later("append", "append_question"),
    ),
    "exchange": Operation(
        (
            RequestField("frames", _later("raw_requests", "parse_frames")),
            RequestField("pipelined", n.TRUTH.parse, needed=False),
        ),
        _later("raw_requests", "exchanged"),
        _later("raw_requests", "exchange_question"),
    ),
    "scenario": Operation(
        (RequestField("steps", _later("log_requests", "steps_of")),),
        reference_answers.played,
        log_requests.scenario_question,
    ),
}
"""Every operation by its name."""

WHOLE_LOG = tuple(op for op, row in OPERATIONS.items() if row.question is not None)
"""Operations whose requests have no type: they test whole logs, clients or brokers."""

ONLY_LIVE = {"send": "live client", **dict.fromkeys(("append", "exchange", "scenario"), "live broker")}
"""Operations that only a live client or a live broker supports, and which of the two."""

BROKER_OPS = ("sequence", *(op for op, kind in ONLY_LIVE.items() if kind == "live broker"))
"""Operations of brokers; their answers may contain error codes."""

# --- requests -----------------------------------------------------------------------------------------


def request_of(op: Op, wire: codec.WireType, parts: Request) -> Request:
    """Return the request of an operation: the operation, the type if it needs one, and these parts."""
    if op in WHOLE_LOG:
        named: Request = {}
    elif isinstance(wire, codec.MessageType):
        named = {"type": "MESSAGE", "message": wire.message.name, "version": wire.version}
    else:
        named = {"type": wire.name}
    return {"op": op, **named, **parts}


def parts_of(case: Case) -> Request:
    """Return the parts of a case's request, in notation."""
    return {name: entry for name, entry in case.request.items() if name in OPERATIONS[case.op].names}
