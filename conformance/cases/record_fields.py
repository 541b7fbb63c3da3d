"""Fields that hold record batches as bytes: some readers take them for bytes, others for batches, and look inside."""

from __future__ import annotations

from collections.abc import Iterator

from conformance import codec
from conformance.cases.model import Value
from conformance.codec.message_spec import Message

_RECORDS = ("RECORDS", "COMPACT_RECORDS")


def holds_other_bytes(wire: codec.Wire, value: Value) -> bool:
    """Whether a value has such a field with bytes that are no whole batches: only a reader of bytes takes them."""
    if wire.name in _RECORDS:
        return not _is_clean_log(value)
    if not isinstance(wire, codec.MessageWire):
        return False
    return not all(map(_is_clean_log, _record_sets(wire.message, wire.message.name, value)))


def _record_sets(message: Message, structure: str, value: Value) -> Iterator[bytes | None]:
    """The bytes of all fields of records in a structure of a message."""
    for member in message.structures[structure]:
        held = value.get(member.name)
        if member.type == "records":
            yield held
        elif member.type in message.structures and held is not None:
            for part in held if member.is_array else (held,):
                yield from _record_sets(message, member.type, part)


def _is_clean_log(data: bytes | None) -> bool:
    read = codec.decode("LOG", data or b"")
    return read.ok and not read.remarks and not read.value["partial"]
