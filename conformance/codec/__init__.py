"""The reference codec: bytes to values and back, strictly, with every violation named. Pure: no I/O anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from conformance.codec.cursor import Cursor, Findings, Limits, Malformed, Openness, Span, Unencodable, Violation
from conformance.codec.log import LOG, Entry, entries
from conformance.codec.message_set import MESSAGE_SET, encode_set
from conformance.codec.messages import Message, wire_of
from conformance.codec.primitives import ARRAYS, PRIMITIVES, Wire, array_of
from conformance.codec.record_batch import CONTROL_RECORD, RECORD, RECORD_BATCH, encode_built
from conformance.errors import UserError

__all__ = [
    "TYPES",
    "Decoded",
    "Entry",
    "Limits",
    "Openness",
    "Span",
    "Unencodable",
    "UnknownType",
    "Violation",
    "Wire",
    "decode",
    "encode",
    "entries",
    "know",
    "message_of",
    "wire",
]

TYPES: dict[str, Wire] = PRIMITIVES | {
    row.name: row for row in (RECORD, RECORD_BATCH, MESSAGE_SET, CONTROL_RECORD, LOG)
}
"""Every type that takes no parameter, by name."""


class UnknownType(UserError, ValueError):
    """A type name that the codec does not know."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What strict decoding made of bytes: a value, or violations (the first is the one to report); and remarks."""

    value: Any
    consumed: int
    violations: tuple[Violation, ...]
    remarks: tuple[Violation, ...]
    rests_on: tuple[str, ...] = ()
    """Requirements by which the value stands that Apache Kafka does not meet."""
    spans: tuple[Span, ...] = ()
    layers: tuple[bytes, ...] = ()
    """The decompressed streams, layer 1 first."""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.violations


_MESSAGES: dict[str, Message] = {}
"""Messages whose definitions were read, by name: with them grows what `wire` knows, and nothing else does."""
_MESSAGE = re.compile(r"MESSAGE<([A-Za-z][A-Za-z0-9]*),([0-9]{1,5})>\Z")


def know(messages: Iterable[Message]) -> None:
    """Make messages known as types, `MESSAGE<name,version>`. Raises ValueError where a name has another definition."""
    for message in messages:
        if _MESSAGES.setdefault(message.name, message).digest != message.digest:
            raise ValueError(f"there is another definition of {message.name} already")


def message_of(name: str) -> tuple[Message, int] | None:
    """The message and version of a type `MESSAGE<name,version>`; None for other types. Raises UnknownType."""
    match = _MESSAGE.match(name)
    if match is None:
        return None
    if match[1] not in _MESSAGES:
        raise UnknownType(f"there is no definition of the message {match[1]} (see --definitions)")
    return _MESSAGES[match[1]], int(match[2])


_PARAMETRISED = re.compile(r"([A-Z_]+)<(.{1,200})>\Z")


@lru_cache(maxsize=512)
def wire(name: str) -> Wire:
    """The type called `name`, arrays of any element included (`ARRAY<INT32>`), messages too. Raises UnknownType."""
    found = TYPES.get(name)
    if found is not None:
        return found
    message = message_of(name)
    if message is not None:
        return _message_wire(*message)
    match = _PARAMETRISED.match(name)
    if match and match[1] in ARRAYS:
        element = wire(match[2])
        if element.smallest:
            return array_of(match[1], element)
        raise UnknownType(f"{element.name} takes all bytes there are, so there is no array of it")
    known = ", ".join([*TYPES, *(f"{form}<T>" for form in ARRAYS)])
    raise UnknownType(f"there is no type {name!r}; there are {known}")


def _message_wire(message: Message, version: int) -> Wire:
    try:
        return wire_of(message, version)
    except Unencodable as error:
        raise UnknownType(str(error)) from None


def decode(name: str, data: bytes, *, trail: bool = False, limits: Limits | None = None) -> Decoded:
    """Decode one value of type `name` from the front of `data`; with `trail`, spans are kept. Raises UnknownType."""
    findings = Findings(spans=[] if trail else None, limits=limits or Limits())
    cursor = Cursor(data, findings)
    value: Any = None
    try:
        value = wire(name).decode(cursor)
        if trail and not findings.spans:
            cursor.span("", 0, value, name)
    except Malformed as stop:
        findings.violations.append(stop.violation)
    if findings.violations:
        value = None
    return Decoded(
        value,
        cursor.pos,
        tuple(findings.violations),
        tuple(findings.remarks),
        tuple(findings.rests_on),
        tuple(findings.spans or ()),
        tuple(findings.layers),
    )


def encode(name: str, value: Any, *, magic: int | None = None, compression: int = 0) -> bytes:
    """Encode a wire value. A RECORD_BATCH is made from an application's choices (see record_batch.build).

    A MESSAGE_SET is told its magic and codec besides. Raises UnknownType, or Unencodable for a value that has no
    encoding.
    """
    if name == "RECORD_BATCH":
        return encode_built(value)
    if name == "MESSAGE_SET" and magic is not None:
        return encode_set(value, magic, compression)
    return wire(name).encode(value)
