"""The reference codec as a target: it answers requests in this process or behind `conformance serve`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import BinaryIO

import msgspec

from conformance import __version__, codec
from conformance.cases.model import Answer, CaseSummary, Outcome, Request
from conformance.cases.operations import OPERATIONS, WHOLE_LOG
from conformance.cases.reference_answers import NOT_ENCODED, error_class
from conformance.codec import BUILT_IN, TypeRegistry
from conformance.codec.compare import unknown_fields
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import NotationError
from conformance.codec.message_spec import type_name
from conformance.codec.primitives import ARRAYS
from conformance.definitions.loader import parse_definition, shipped_types
from conformance.files.bounded_json import read_json
from conformance.semantics.format_conversion import NotConvertible
from conformance.targets.protocol import PROTOCOL, RequestMaker, TargetDescription, description, outcome


def describe() -> Answer:
    """Return the description of the reference: every type, every codec."""
    types = [*codec.TYPES, *ARRAYS, "MESSAGE"]
    encoded = [name for name in types if name not in NOT_ENCODED]
    typed = {"decode": types, "encode": encoded, "size": encoded}
    return {
        "ok": True,
        "protocol": PROTOCOL,
        "name": "reference",
        "version": __version__,
        "language": "python",
        "supports": {**typed, **dict.fromkeys(WHOLE_LOG, True)},
        "codecs": list(CODEC_NAMES),
        "magics": [0, 1, 2],
        "surrogates": True,
    }


def answer(request: Request, types: codec.TypeRegistry | None = None) -> Answer:
    """Return the answer to a request, without its id. Any request gets an answer; no error is raised.

    A request about a message contains its definition, unless the message is one of `types` (default: the shipped ones).
    """
    op = request.get("op")
    if op == "describe":
        return describe()
    operation = OPERATIONS.get(op) if isinstance(op, str) else None
    if operation is None:
        return {"unsupported": f"no operation {op!r}"}
    try:
        wire = codec.wire("LOG") if operation.question else _type(request, types or shipped_types())
        _check_fields(wire, request)
        result: Answer = operation.answer(wire, operation.parse(request, wire))
    except codec.UnknownType as error:
        return {"unsupported": str(error)}
    except (codec.Unencodable, NotationError) as error:
        return {"ok": False, "error": "invalid-value", "message": str(error)}
    except NotConvertible as error:
        return {"ok": False, "error": error_class(error.violation), "message": str(error)}
    return result


def _type(request: Request, types: codec.TypeRegistry) -> codec.WireType:
    name = request.get("type")
    if not isinstance(name, str):
        raise codec.UnknownType("type: expected a name")
    if name != "MESSAGE":
        return types.wire(name)
    if isinstance(request.get("definition"), dict):
        types = _with_definition(types, json.dumps(request["definition"]))
    version = request.get("version")
    if type(version) is not int:
        raise NotationError("version: expected a number")
    return types.wire(type_name(str(request.get("message")), version))


@lru_cache(maxsize=1 << 12)
def _with_definition(types: codec.TypeRegistry, definition: str) -> codec.TypeRegistry:
    """Return the types with the message of a definition in a request."""
    message, findings = parse_definition(json.loads(definition))
    if message is None:
        raise NotationError(f"definition: {findings[0].path}: {findings[0].problem}")
    try:
        return types.adding([message])
    except ValueError as error:
        raise NotationError(f"definition: {error}") from None


def _check_fields(wire: codec.WireType, request: Request) -> None:
    """Raise NotationError for a field that the message does not have: the encoder would ignore it."""
    unknown = unknown_fields(wire.notation, request.get("value")) if isinstance(wire, codec.MessageType) else []
    if unknown:
        raise NotationError(f"{unknown[0]} is not a field of the message")


class ReferenceTarget:
    """The reference as a target, in this process."""

    starts = 0
    unjudged = 0

    def describe(self) -> TargetDescription:
        """Return the description of the reference."""
        return description(describe())

    def ask(
        self,
        cases: Sequence[CaseSummary],
        request_for: RequestMaker,
        *,
        forget_faults: bool = False,  # noqa: ARG002 - no fault is counted
    ) -> Iterator[Outcome]:
        """Return the outcomes of cases, in their order."""
        requests = (request_for(case).line for case in cases)
        return (outcome(answer(request if isinstance(request := read_json(line), dict) else {})) for line in requests)

    def stop(self) -> None:
        """Do nothing: no thread waits for an answer."""

    def close(self) -> None:
        """Do nothing: there is no process."""


def serve_reference(source: BinaryIO, sink: BinaryIO, types: TypeRegistry = BUILT_IN) -> None:
    """Answer every line of `source` on `sink` with the reference codec and `types`, until the input ends."""
    serve(iter(source.readline, b""), sink, lambda request: answer(request, types))


def serve(lines: Iterable[bytes], sink: BinaryIO, respond: Callable[[Request], Answer]) -> None:
    """Answer every line on `sink`. An answer without an id gets the id of its request."""
    encoder = msgspec.json.Encoder()
    for line in lines:
        if not line.strip():
            continue
        request = _request(line)
        sink.write(encoder.encode({"id": request.get("id"), **respond(request)}) + b"\n")
        sink.flush()


def _request(line: bytes) -> Request:
    """Return the request in a line. A line without a request becomes an unknown operation."""
    try:
        request = read_json(line)
    except ValueError as error:
        return {"op": f"of a line that is not JSON ({error})"}
    return request if isinstance(request, dict) else {"op": "of a line that is not an object"}
