"""Violations of the requirements on how a broker answers requests."""

from __future__ import annotations

from collections.abc import Callable

from conformance.cases.model import ExpectedResponse
from conformance.cases.raw_requests import answer_to, due_for
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator

_CLOSED = {"hex": None, "end": "closed"}


def _each(change: Callable[[Values, Values], Values]) -> Mutator:
    """Answer each frame otherwise: made of the frame and what came of it."""

    def told(request: Values, answer: Values) -> Values:
        if request["op"] != "exchange":
            return answer
        rows = zip(request["frames"], answer["value"], strict=True)
        return {**answer, "value": [change(frame, row) if row["hex"] else row for frame, row in rows]}

    return told


def _bytes(change: Callable[[bytes], bytes]) -> Mutator:
    """Answer with other bytes."""
    return _each(lambda _, row: {"hex": change(bytes.fromhex(row["hex"])).hex()})


def _closes(when: Callable[[Values], bool]) -> Mutator:
    """Close the connection instead of an answer."""
    return _each(lambda frame, row: _CLOSED if when(frame) else row)


def _before(due: ExpectedResponse) -> ExpectedResponse:
    """The same answer in the version before."""
    return ExpectedResponse(due.name, due.version - 1, due.correlation)


def _of_another_version(request: Values, answer: Values) -> Values:
    if request["op"] != "exchange":
        return answer
    rows = zip(due_for(request["frames"]), answer["value"], strict=True)
    return {**answer, "value": [{"hex": answer_to(_before(one)).hex()} if one.version else row for one, row in rows]}


def _answers_all(request: Values, answer: Values) -> Values:
    """Answer in version 0 what is in no version of ours."""
    if request["op"] != "exchange":
        return answer
    rows = zip(due_for(request["frames"]), answer["value"], strict=True)
    return {**answer, "value": [{"hex": answer_to(_first(one)).hex()} if one.must_refuse else row for one, row in rows]}


def _first(due: ExpectedResponse) -> ExpectedResponse:
    return ExpectedResponse(due.name, 0, due.correlation)


def _in_another_order(request: Values, answer: Values) -> Values:
    if request["op"] != "exchange" or not request.get("pipelined"):
        return answer
    return {**answer, "value": answer["value"][::-1]}


def _has(name: str, value: object) -> Callable[[Values], bool]:
    """Whether a frame has a field with a value somewhere."""

    def when(given: object) -> bool:
        if isinstance(given, dict):
            return any((key == name and entry == value) or when(entry) for key, entry in given.items())
        return isinstance(given, list | tuple) and any(map(when, given))

    return when


EXCHANGES: dict[str, Mutator] = {
    "definitions.response-version-matches": _of_another_version,
    "response.size": _bytes(lambda data: data + b"\0"),
    "response.correlation-id": _bytes(lambda data: b"\x12\x34\x56\x78" + data[4:]),
    "request.version-rejected": _answers_all,
    "api-versions.unknown-version": _bytes(lambda data: data[:4] + b"\0\0" + data[6:]),
    "response.order": _in_another_order,
    "response.each-request": _closes(_has("ClientId", "")),
}
