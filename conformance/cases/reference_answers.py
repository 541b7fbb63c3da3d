"""The answers of the reference to parsed requests: one function per operation."""

from __future__ import annotations

import msgspec

from conformance import codec
from conformance.cases.log_requests import first_offset, transactions
from conformance.cases.model import Answer, Request, Value
from conformance.codec.json_notation import NotationError
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.message_layout import with_absent
from conformance.semantics.consumer_view import VIEW_NOTATION, consumer_view
from conformance.semantics.format_conversion import convert
from conformance.semantics.producer_state import kafka_results

NOT_ENCODED = ("LOG",)
"""Types that are only decoded."""


def error_class(violation: codec.Violation) -> str:
    """Return the error class of a violation."""
    if violation.requirement in CHECKSUM_RULES:
        return "corrupt"
    return "unsupported-codec" if violation.requirement == "codec.unassigned-values" else "malformed"


def decoded(wire: codec.WireType, parts: Request) -> Answer:
    """Return the value and the number of consumed bytes, or the error class of the first violation."""
    read = codec.decode(wire, parts["hex"])
    if read.ok:
        return {"ok": True, "value": wire.notation.render(_whole(wire, read.value)), "consumed": read.consumed}
    first = read.violations[0]
    return {"ok": False, "error": error_class(first), "message": str(first)}


def _whole(wire: codec.WireType, value: Value) -> Value:
    """Return a value with all fields of a message: those that its version does not have are at their default."""
    if not isinstance(wire, codec.MessageType):
        return value
    return with_absent(wire.message, wire.message.name, value)


def encoded(wire: codec.WireType, parts: Request) -> Answer:
    """Return the bytes of a value. Raises codec.Unencodable."""
    return {"ok": True, "hex": _written(wire, parts).hex()}


def measured(wire: codec.WireType, parts: Request) -> Answer:
    """Return the encoded size of a value in bytes. Raises codec.Unencodable."""
    return {"ok": True, "size": len(_written(wire, parts))}


def _written(wire: codec.WireType, parts: Request) -> bytes:
    if wire.name in NOT_ENCODED:
        raise codec.UnknownType(f"{wire.name} is not encoded")
    if wire.name != "MESSAGE_SET":
        return codec.encode(wire, parts["value"])
    if "magic" not in parts:
        raise NotationError("magic is missing")
    return codec.encode(wire, parts["value"], magic=parts["magic"], compression=parts.get("compression", 0))


def seen(_: codec.WireType, parts: Request) -> Answer:
    """Return the records of a fetch up to the first damaged entry, and the error class of the damage."""
    data: bytes = parts["hex"]
    view = consumer_view(
        data,
        parts["fetchOffset"] if "fetchOffset" in parts else first_offset(data),
        isolation=parts["isolation"],
        aborted=transactions(parts.get("aborted", ())),
        check_crcs=parts.get("checkCrcs", True),
    )
    value = VIEW_NOTATION.render({"records": view.records, "nextOffset": view.next_offset})
    if view.damage is not None:
        value["error"] = error_class(view.damage)
    return {"ok": True, "value": value}


def converted(_: codec.WireType, parts: Request) -> Answer:
    """Return the log in another magic. Raises Unconvertible or codec.Unencodable."""
    return {"ok": True, "hex": convert(parts["hex"], parts["magic"], parts.get("baseOffset")).hex()}


def sequenced(_: codec.WireType, parts: Request) -> Answer:
    """Return the result of each batch, as in Apache Kafka."""
    return {"ok": True, "value": kafka_results(parts["batches"])}


def played(_: codec.WireType, parts: Request) -> Answer:
    """Return the result of each step on the reference broker."""
    from conformance.semantics.reference_broker import ReferenceBroker

    return {"ok": True, "value": [msgspec.to_builtins(result) for result in ReferenceBroker().play(parts["steps"])]}
