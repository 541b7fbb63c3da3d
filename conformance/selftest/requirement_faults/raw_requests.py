"""One fault for each requirement on the responses of a broker."""

from __future__ import annotations

from collections.abc import Callable

from conformance.cases.model import Answer, ExpectedResponse, Request
from conformance.cases.raw_requests import answer_to, due_for
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Change, Mutator, on, put

_CLOSED = {"hex": None, "end": "closed"}


def _each(change: Callable[[Values, ExpectedResponse, Values], Values]) -> Mutator:
    """Change each response, given the frame, the expected response and the response."""

    @on("exchange", accepted=None)
    def mutate(request: Request, answer: Answer) -> Answer:
        rows = zip(request["frames"], due_for(request["frames"]), answer["value"], strict=True)
        return {**answer, "value": [change(*row) for row in rows]}

    return mutate


def _change_bytes(change: Change) -> Mutator:
    return _each(lambda _, __, row: {"hex": change(bytes.fromhex(row["hex"])).hex()} if row["hex"] else row)


def _respond_in_version(due: ExpectedResponse, version: int) -> Values:
    return {"hex": answer_to(ExpectedResponse(due.name, version, due.correlation)).hex()}


def _contains(value: object, name: str, wanted: object) -> bool:
    """Return true if a field with this name has this value anywhere in a value."""
    if isinstance(value, dict):
        return any((key == name and one == wanted) or _contains(one, name, wanted) for key, one in value.items())
    return isinstance(value, list | tuple) and any(_contains(one, name, wanted) for one in value)


EXCHANGES: dict[str, Mutator] = {
    "definitions.response-version-matches": _each(
        lambda _, due, row: _respond_in_version(due, due.version - 1) if due.version else row
    ),
    "response.size": _change_bytes(lambda data: data + b"\0"),
    "response.correlation-id": _change_bytes(put(0, b"\x12\x34\x56\x78")),
    "request.version-rejected": _each(lambda _, due, row: _respond_in_version(due, 0) if due.must_refuse else row),
    "api-versions.unknown-version": _change_bytes(put(4, b"\0\0")),
    "response.order": on("exchange", when=lambda request, _: bool(request.get("pipelined")), accepted=None)(
        lambda _, answer: {**answer, "value": answer["value"][::-1]}
    ),
    "response.each-request": _each(
        lambda frame, _, row: _CLOSED if row["hex"] and _contains(frame, "ClientId", "") else row
    ),
}
