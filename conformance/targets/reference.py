"""The reference codec as a target: answers requests of the protocol, in process or behind `conformance serve`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from conformance import __version__, codec
from conformance.cases.model import Case, Outcome
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.messages import type_name
from conformance.codec.notation import DECIMAL, HEX, NUMBER, Fields, ListOf, Names, NotationError, unknown_fields
from conformance.codec.primitives import ARRAYS
from conformance.definitions.files import parse_definition
from conformance.semantics.conversion import Unconvertible, convert
from conformance.semantics.sequences import BATCHES, judged
from conformance.semantics.visibility import ISOLATIONS, VIEW, Aborted, view
from conformance.targets.protocol import PROTOCOL, Description, description, outcome

_NO_ENCODING = ("LOG",)
CODEC = Names(CODEC_NAMES)


def describe() -> dict[str, Any]:
    """What the reference supports: every type, every codec."""
    types = [*codec.TYPES, *ARRAYS, "MESSAGE"]
    written = [name for name in types if name not in _NO_ENCODING]
    return {
        "ok": True,
        "protocol": PROTOCOL,
        "name": "reference",
        "version": __version__,
        "language": "python",
        "supports": {
            "decode": types,
            "encode": written,
            "size": written,
            "read": True,
            "convert": True,
            "sequence": True,
        },
        "codecs": list(CODEC_NAMES),
        "magics": [0, 1, 2],
    }


def answer(request: dict[str, Any], types: codec.Types = codec.BUILT_IN) -> dict[str, Any]:
    """The answer to a request, without its id. Never raises, whatever the request holds.

    A request about a message brings its definition, unless the message is one of `types`.
    """
    op = request.get("op")
    if op == "describe":
        return describe()
    if not isinstance(op, str) or op not in _TYPED | _WHOLE_LOG:
        return {"unsupported": f"no operation {op!r}"}
    try:
        if op in _WHOLE_LOG:
            return _WHOLE_LOG[op](request)
        return _TYPED[op](request, types)
    except codec.UnknownType as error:
        return {"unsupported": str(error)}
    except (codec.Unencodable, NotationError) as error:
        return {"ok": False, "error": "invalid-value", "message": str(error)}
    except Unconvertible as error:
        return {"ok": False, "error": _class(error.violation), "message": str(error)}


def _type(request: dict[str, Any], types: codec.Types) -> codec.Wire:
    name = request.get("type")
    if not isinstance(name, str):
        raise codec.UnknownType("a request names a type")
    if name != "MESSAGE":
        return types.wire(name)
    if isinstance(request.get("definition"), dict):
        types = _with_definition(types, json.dumps(request["definition"]))
    version = request.get("version")
    if type(version) is not int:
        raise NotationError("version: expected a number")
    return types.wire(type_name(str(request.get("message")), version))


@lru_cache(maxsize=1 << 12)
def _with_definition(types: codec.Types, definition: str) -> codec.Types:
    """The types with the message of a definition that came with a request."""
    message, findings = parse_definition(json.loads(definition))
    if message is None:
        raise NotationError(f"definition: {findings[0].path}: {findings[0].problem}")
    try:
        return types.adding([message])
    except ValueError as error:
        raise NotationError(f"definition: {error}") from None


def _decode(request: dict[str, Any], types: codec.Types) -> dict[str, Any]:
    wire, data = _type(request, types), _bytes(request)
    read = codec.decode(wire, data)
    if read.ok:
        return {"ok": True, "value": wire.notation.render(read.value), "consumed": read.consumed}
    first = read.violations[0]
    return {"ok": False, "error": _class(first), "message": str(first)}


def _bytes(request: dict[str, Any]) -> bytes:
    found = HEX.parse(request.get("hex"))
    if found is None:
        raise NotationError("hex is missing")
    return bytes(found)


def _class(violation: codec.Violation) -> str:
    if violation.requirement in CHECKSUM_RULES:
        return "corrupt"
    return "unsupported-codec" if violation.requirement == "codec.unassigned-values" else "malformed"


def _written(request: dict[str, Any], types: codec.Types) -> bytes:
    wire = _type(request, types)
    name = wire.name
    if name in _NO_ENCODING:
        raise codec.UnknownType(f"{name} is not encoded")
    if "value" not in request:
        raise NotationError("value is missing")
    notation = wire.notation
    if isinstance(wire, codec.MessageWire) and unknown_fields(notation, request["value"]):
        raise NotationError(f"{unknown_fields(notation, request['value'])[0]} is no field of the message")
    value = notation.parse(request["value"])
    if name != "MESSAGE_SET":
        return codec.encode(wire, value)
    magic, compression = NUMBER.parse(request.get("magic")), CODEC.parse(request.get("compression", "none"))
    return codec.encode(wire, value, magic=magic, compression=compression)


def _encode(request: dict[str, Any], types: codec.Types) -> dict[str, Any]:
    return {"ok": True, "hex": _written(request, types).hex()}


def _size(request: dict[str, Any], types: codec.Types) -> dict[str, Any]:
    return {"ok": True, "size": len(_written(request, types))}


# --- whole logs ---------------------------------------------------------------------------------------

_ABORTED = ListOf(Fields({"producerId": DECIMAL, "firstOffset": DECIMAL}), nullable=False)


def _read(request: dict[str, Any]) -> dict[str, Any]:
    isolation = request.get("isolation")
    if isolation not in ISOLATIONS:
        raise NotationError(f"isolation is one of {', '.join(ISOLATIONS)}")
    listed = _ABORTED.parse(request.get("aborted"))
    found = view(
        _bytes(request),
        DECIMAL.parse(request.get("fetchOffset")),
        isolation=isolation,
        aborted=[Aborted(entry["producerId"], entry["firstOffset"]) for entry in listed],
        check_crcs=request.get("checkCrcs", True) is not False,
    )
    value = VIEW.render({"records": found.records, "nextOffset": found.next_offset})
    if found.damage is not None:
        value["error"] = _class(found.damage)
    return {"ok": True, "value": value}


def _convert(request: dict[str, Any]) -> dict[str, Any]:
    magic, given = NUMBER.parse(request.get("magic")), request.get("baseOffset")
    base = None if given is None else DECIMAL.parse(given)
    return {"ok": True, "hex": convert(_bytes(request), magic, base).hex()}


def _sequence(request: dict[str, Any]) -> dict[str, Any]:
    # Where several answers are right, the reference gives Apache Kafka's: what lies behind is out of order.
    answers = judged(BATCHES.parse(request.get("batches")))
    return {"ok": True, "value": [min(found) if len(found) == 1 else "out-of-order" for found in answers]}


_TYPED = {"decode": _decode, "encode": _encode, "size": _size}
_WHOLE_LOG = {"read": _read, "convert": _convert, "sequence": _sequence}


class ReferenceTarget:
    """The reference as a target, in this process."""

    def describe(self) -> Description:
        """What it says of itself."""
        return description(describe())

    def ask(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """The outcomes of cases, in their order."""
        return (outcome(answer(case.request)) for case in cases)

    def forget_faults(self) -> None:
        """It has no faults that are counted."""

    def close(self) -> None:
        """Nothing runs."""
