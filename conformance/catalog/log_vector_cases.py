"""Vectors of operations on whole logs: what they ask, and the answer they state, held against the reference's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from conformance import codec
from conformance.cases.log_requests import or_rejection
from conformance.cases.model import (
    ERRORS,
    ExpectAnyOf,
    ExpectAppend,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectRejection,
    ExpectResponses,
    ExpectScenario,
    ExpectSequenceResults,
    NotTestable,
    Request,
    RequestWithExpectation,
    Value,
)
from conformance.cases.operations import OPERATIONS
from conformance.catalog.vector_files import OF_A_MESSAGE, Vector
from conformance.codec.compare import parse_known
from conformance.codec.json_notation import ListOf, NotationError, ObjectOf
from conformance.codec.message_layout import wire_of
from conformance.files.yaml_mapping import YamlMapping
from conformance.semantics.consumer_view import ISOLATIONS, VIEW_NOTATION
from conformance.semantics.format_conversion import CONVERTED
from conformance.semantics.producer_state import ANSWERS

_DEFAULTS = {"isolation": ISOLATIONS[0]}
"""What a vector of `read` need not say."""


def question_of(row: Request, data: bytes | None) -> RequestWithExpectation:
    """The question of a vector for a whole log; `data` are the bytes of its log, if it has one.

    Raises NotationError for a part that is not in its notation, or a stated answer that differs from the reference's.
    """
    if row.get("reject", "other") not in ERRORS:
        raise NotationError(f"reject: expected one of {', '.join(ERRORS)}, found {row['reject']!r}")
    if data is not None and row["op"] in ("sequence", "scenario"):
        raise NotationError(f"a {row['op']} request has no hex of its own")
    given = {**_DEFAULTS, **row, **({} if data is None else {"hex": data.hex()})}
    return _QUESTIONS[row["op"]](row, OPERATIONS[row["op"]].parse(given, codec.TYPES["LOG"]))


def _fetch(row: Request, parts: Request) -> RequestWithExpectation:
    request, expect = _asked(row, parts)
    stated = row.get("value")
    damage = expect.view.damage if isinstance(expect, ExpectConsumerView) else None
    if "either" in row:
        readings = _readings(row)
        if not readings or not isinstance(expect, ExpectConsumerView):
            return RequestWithExpectation(request, ExpectAnyOf())
        expect, stated = or_rejection(expect), readings[-1]
    elif ("reject" in row) != (damage is not None):
        raise NotationError(f"reject: the log is damaged: {damage}" if damage else "reject: the log is not damaged")
    elif not isinstance(expect, ExpectConsumerView) or expect.open:
        raise NotationError("the documents leave open how these bytes are read: say `either`")
    if stated is not None and isinstance(expect, ExpectConsumerView):
        _check_stated(VIEW_NOTATION, stated, {"records": expect.view.records, "nextOffset": expect.view.next_offset})
    return RequestWithExpectation(request, expect)


def _readings(row: Request) -> list[object]:
    """The value among the readings of an open place, as [value]; [] where any outcome will do."""
    match row["either"]:
        case "any":
            return []
        case ["reject", {"value": value, **further}] if not further:
            return [value]
    raise NotationError("either: expected `any`, or [reject, {value: ...}]")


def _conversion(row: Request, parts: Request) -> RequestWithExpectation:
    if "either" in row:
        if _readings(row):
            raise NotationError("either: expected `any` for a conversion")
        data: bytes = parts["hex"]
        base = {"baseOffset": str(parts["baseOffset"])} if "baseOffset" in parts else {}
        return RequestWithExpectation({"hex": data.hex(), "magic": parts["magic"], **base}, ExpectAnyOf())
    try:
        question = _asked(row, parts)
    except NotTestable as error:
        raise NotationError(f"{error}: say `either: any`") from None
    expect = question.expect
    if (
        isinstance(expect, ExpectConvertedRecords) != ("value" in row)
        or row.get("reject", "invalid-value") != "invalid-value"
    ):
        there = "this conversion exists: say `value`"
        none = "this conversion does not exist: say `reject: invalid-value`"
        raise NotationError(there if isinstance(expect, ExpectConvertedRecords) else none)
    if isinstance(expect, ExpectConvertedRecords):
        _check_stated(CONVERTED, row["value"], expect.records)
    return question


def _sequence(row: Request, parts: Request) -> RequestWithExpectation:
    question = _asked(row, parts)
    assert isinstance(question.expect, ExpectSequenceResults)
    due = ["either" if len(right) > 1 else next(iter(right)) for right in question.expect.answers]
    if row.get("value") != due:
        raise NotationError(f"value: by the rules it is {', '.join(due)} (of {', '.join(ANSWERS)}, either)")
    return question


def _append(row: Request, parts: Request) -> RequestWithExpectation:
    question = _asked(row, parts)
    due = {ExpectRejection: "reject", ExpectAnyOf: "either"}.get(type(question.expect), "value")
    if due not in row:
        raise NotationError(f"what a broker makes of these bytes by the rules: say `{due}`")
    if isinstance(question.expect, ExpectAppend):
        _check_stated(CONVERTED, row["value"], question.expect.records)
    return question


def _scenario(row: Request, parts: Request) -> RequestWithExpectation:
    question = _asked(row, parts)
    assert isinstance(question.expect, ExpectScenario)
    if row.get("value") != list(question.expect.expected):
        raise NotationError(f"value: by the rules it is {list(question.expect.expected)}")
    return question


def _asked(row: Request, parts: Request) -> RequestWithExpectation:
    ask = OPERATIONS[row["op"]].question
    assert ask is not None
    return ask(parts)


def _check_stated(notation: ObjectOf | ListOf, stated: object, computed: Value) -> None:
    """Raise NotationError where a stated answer has unknown fields, or differs from the computed one."""
    try:
        value = parse_known(notation, stated, "the answer")
    except NotationError as error:
        raise NotationError(f"value: {error}") from None
    path = next(notation.mismatches(value, computed), None)
    if path:
        raise NotationError(f"value: it differs from the bytes at {path}")


def _exchange(row: Request, parts: Request) -> RequestWithExpectation:
    from conformance.cases import raw_requests

    question = _asked(row, parts)
    is_of_answer = row["requirement"] == raw_requests.RULES[raw_requests.PLAIN]
    assert isinstance(question.expect, ExpectResponses)
    return question._replace(
        expect=structs.replace(question.expect, unanswered=raw_requests.UNANSWERED if is_of_answer else "")
    )


def of_every_version(vector: Vector) -> Iterator[Vector]:
    """The vectors that a vector of `exchange` with `values` stands for: for each version, and each kind of edges.

    Raises FileError.
    """
    from conformance.cases import raw_requests

    row, wire = vector.row, vector.wire
    assert isinstance(wire, codec.MessageType)
    shared = {name: row[name] for name in row if name not in OF_A_MESSAGE}
    for version in range(row.get("first-version", wire.message.valid.low), wire.version + 1):
        for kind, rule in raw_requests.RULES.items():
            try:
                frames = list(
                    raw_requests.frames_for(wire.message, version, row["body"], row.get("fixed-fields", ()), kind)
                )
            except (NotationError, codec.Unencodable) as error:
                raise vector.error(f"version {version}: {error}") from None
            if frames:
                name = f"{vector.id}-{version}" + (f"-{kind}" if kind != raw_requests.PLAIN else "")
                of = YamlMapping({**shared, "id": name, "version": version, "requirement": rule, "frames": frames})
                of.line = row.line
                yield replace(vector, id=name, wire=wire_of(wire.message, version), row=of)


_QUESTIONS = {
    "read": _fetch,
    "convert": _conversion,
    "sequence": _sequence,
    "send": _asked,
    "append": _append,
    "exchange": _exchange,
    "scenario": _scenario,
}
