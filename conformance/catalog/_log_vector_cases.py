"""Turns vectors of whole-log operations into requests, and checks their stated results against the reference."""

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
from conformance.catalog.vector_files import MESSAGE_KEYS, Vector
from conformance.codec.compare import parse_known
from conformance.codec.json_notation import ListOf, NotationError, ObjectOf
from conformance.codec.message_layout import wire_of
from conformance.files.yaml_mapping import YamlMapping
from conformance.semantics.consumer_view import ISOLATIONS, VIEW_NOTATION
from conformance.semantics.format_conversion import CONVERTED
from conformance.semantics.producer_state import ANSWERS

_DEFAULTS = {"isolation": ISOLATIONS[0]}
"""The default values of a `read` vector."""


def question_of(row: Request, data: bytes | None) -> RequestWithExpectation:
    """Return the request and the expected result of a whole-log vector; `data` is its log, if any.

    Raises NotationError for a part with invalid notation, or for a stated result that differs from the reference's.
    """
    if row.get("reject", "other") not in ERRORS:
        raise NotationError(f"reject: expected one of {', '.join(ERRORS)}, found {row['reject']!r}")
    if data is not None and row["op"] in ("sequence", "scenario"):
        raise NotationError(f"hex: a {row['op']} request has none")
    given = {**_DEFAULTS, **row, **({} if data is None else {"hex": data.hex()})}
    return _QUESTIONS[row["op"]](row, OPERATIONS[row["op"]].parse(given, codec.TYPES["LOG"]))


def _fetch(row: Request, parts: Request) -> RequestWithExpectation:
    request, expect = _reference_question(row, parts)
    stated = row.get("value")
    damage = expect.view.damage if isinstance(expect, ExpectConsumerView) else None
    if "either" in row:
        readings = _readings(row)
        if not readings or not isinstance(expect, ExpectConsumerView):
            return RequestWithExpectation(request, ExpectAnyOf())
        expect, stated = or_rejection(expect), readings[-1]
    elif ("reject" in row) != (damage is not None):
        raise NotationError(
            f"reject: missing, but the log is damaged: {damage}" if damage else "reject: the log is not damaged"
        )
    elif not isinstance(expect, ExpectConsumerView) or expect.open:
        raise NotationError("the documents do not define the result for these bytes: use `either`")
    if stated is not None and isinstance(expect, ExpectConsumerView):
        _check_stated(VIEW_NOTATION, stated, {"records": expect.view.records, "nextOffset": expect.view.next_offset})
    return RequestWithExpectation(request, expect)


def _readings(row: Request) -> list[object]:
    """Return the value under `either`, as [value]; [] if any result is correct."""
    match row["either"]:
        case "any":
            return []
        case ["reject", {"value": value, **further}] if not further:
            return [value]
    raise NotationError("either: expected `any`, or [reject, {value: ...}]")


def _conversion(row: Request, parts: Request) -> RequestWithExpectation:
    if "either" in row:
        if _readings(row):
            raise NotationError("either: a conversion accepts only `any`")
        data: bytes = parts["hex"]
        base = {"baseOffset": str(parts["baseOffset"])} if "baseOffset" in parts else {}
        return RequestWithExpectation({"hex": data.hex(), "magic": parts["magic"], **base}, ExpectAnyOf())
    try:
        question = _reference_question(row, parts)
    except NotTestable as error:
        raise NotationError(f"{error}: use `either: any`") from None
    expect = question.expect
    if (
        isinstance(expect, ExpectConvertedRecords) != ("value" in row)
        or row.get("reject", "invalid-value") != "invalid-value"
    ):
        exists = "this conversion exists: use `value`"
        missing = "this conversion does not exist: use `reject: invalid-value`"
        raise NotationError(exists if isinstance(expect, ExpectConvertedRecords) else missing)
    if isinstance(expect, ExpectConvertedRecords):
        _check_stated(CONVERTED, row["value"], expect.records)
    return question


def _sequence(row: Request, parts: Request) -> RequestWithExpectation:
    question = _reference_question(row, parts)
    assert isinstance(question.expect, ExpectSequenceResults)
    expected = ["either" if len(right) > 1 else next(iter(right)) for right in question.expect.answers]
    if row.get("value") != expected:
        raise NotationError(f"value: expected {', '.join(expected)} (of {', '.join(ANSWERS)}, either)")
    return question


def _append(row: Request, parts: Request) -> RequestWithExpectation:
    question = _reference_question(row, parts)
    expected = {ExpectRejection: "reject", ExpectAnyOf: "either"}.get(type(question.expect), "value")
    if expected not in row:
        raise NotationError(f"a broker has another result for these bytes: use `{expected}`")
    if isinstance(question.expect, ExpectAppend):
        _check_stated(CONVERTED, row["value"], question.expect.records)
    return question


def _scenario(row: Request, parts: Request) -> RequestWithExpectation:
    question = _reference_question(row, parts)
    assert isinstance(question.expect, ExpectScenario)
    if row.get("value") != list(question.expect.expected):
        raise NotationError(f"value: expected {list(question.expect.expected)}")
    return question


def _reference_question(row: Request, parts: Request) -> RequestWithExpectation:
    question = OPERATIONS[row["op"]].question
    assert question is not None
    return question(parts)


def _check_stated(notation: ObjectOf | ListOf, stated: object, computed: Value) -> None:
    """Raise NotationError if a stated result has unknown fields or differs from the computed one."""
    try:
        value = parse_known(notation, stated, "the answer")
    except NotationError as error:
        raise NotationError(f"value: {error}") from None
    path = next(notation.mismatches(value, computed), None)
    if path:
        raise NotationError(f"value: it differs from the bytes at {path}")


def _exchange(row: Request, parts: Request) -> RequestWithExpectation:
    from conformance.cases import raw_requests

    question = _reference_question(row, parts)
    is_of_answer = row["requirement"] == raw_requests.RULES[raw_requests.PLAIN]
    assert isinstance(question.expect, ExpectResponses)
    return question._replace(
        expect=structs.replace(question.expect, unanswered=raw_requests.UNANSWERED if is_of_answer else "")
    )


def of_every_version(vector: Vector) -> Iterator[Vector]:
    """Yield one vector per version and kind of boundary values for a vector of `exchange` with `body`.

    Raises FileError.
    """
    from conformance.cases import raw_requests

    row, wire = vector.row, vector.wire
    assert isinstance(wire, codec.MessageType)
    shared = {name: row[name] for name in row if name not in MESSAGE_KEYS}
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
    "send": _reference_question,
    "append": _append,
    "exchange": _exchange,
    "scenario": _scenario,
}
