"""The reference codec: strict encoding and decoding that reports every violation. Pure: no I/O."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from conformance.codec import dispatch
from conformance.codec.control_record import CONTROL_RECORD
from conformance.codec.cursor import Cursor, Definedness, Findings, Limits, Malformed, Span, Unencodable, Violation
from conformance.codec.log import LOG, LogEntry, entries
from conformance.codec.message_layout import MessageType, wire_of
from conformance.codec.message_set import MESSAGE_SET, encode_set
from conformance.codec.message_spec import MessageSpec
from conformance.codec.primitives import ARRAYS, PRIMITIVES, array_of
from conformance.codec.record import RECORD
from conformance.codec.record_batch import RECORD_BATCH, encode_built
from conformance.codec.wire_type import WireType
from conformance.errors import UserError

__all__ = [
    "BUILT_IN",
    "REQUEST",
    "TYPES",
    "DecodeResult",
    "Definedness",
    "Limits",
    "LogEntry",
    "MessageType",
    "Span",
    "TypeRegistry",
    "Unencodable",
    "UnknownType",
    "Violation",
    "WireType",
    "decode",
    "encode",
    "entries",
    "wire",
]

TYPES: dict[str, WireType] = PRIMITIVES | {
    row.name: row for row in (RECORD, RECORD_BATCH, MESSAGE_SET, CONTROL_RECORD, LOG)
}
"""Every type that takes no parameter, by name."""
REQUEST = replace(PRIMITIVES["BYTES"], name="REQUEST")
"""The type of cases about the requests of a client. It is not in TYPES: no target decodes or encodes it."""


class UnknownType(UserError, ValueError):
    """An unknown type name."""


class DecodeResult(Struct, frozen=True):
    """The result of strict decoding: a value or violations (the first one is reported), and remarks."""

    value: Any
    consumed: int
    violations: tuple[Violation, ...]
    remarks: tuple[Violation, ...]
    rests_on: tuple[str, ...] = ()
    """Requirements that a reader must meet to read the value; some readers do not meet them."""
    spans: tuple[Span, ...] = ()
    layers: tuple[bytes, ...] = ()
    """The decompressed streams, layer 1 first."""

    @property
    def ok(self) -> bool:
        """True if there is a value."""
        return not self.violations


# --- types by name ------------------------------------------------------------------------------------

_MESSAGE = re.compile(r"MESSAGE<([A-Za-z][A-Za-z0-9]*),([0-9]{1,5})>\Z")
_PARAMETRISED = re.compile(r"([A-Z_]+)<(.{1,200})>\Z")


class TypeRegistry(Struct, frozen=True, eq=False):
    """All known types: the built-in types, their arrays, and the given messages in each version."""

    messages: Mapping[str, MessageSpec] = field(default_factory=dict)

    def adding(self, messages: Iterable[MessageSpec]) -> TypeRegistry:
        """Return a registry with more messages. A definition replaces the shipped one of the same name.

        Raises ValueError if a name already has a different definition that is not shipped.
        """
        known = dict(self.messages)
        for message in messages:
            if known.get(message.name, message).is_shipped:
                known[message.name] = message
            if known.setdefault(message.name, message).digest != message.digest:
                raise ValueError(f"message {message.name} has two different definitions")
        return TypeRegistry(known)

    def wire(self, name: str) -> WireType:
        """Return the type with this name: `INT32`, `ARRAY<INT32>`, `MESSAGE<FetchRequest,12>`. Raises UnknownType."""
        return _resolved(self, name)


BUILT_IN = TypeRegistry()
"""The types that need no message definition."""


def wire(given: WireType | str) -> WireType:
    """Return the built-in type with this name (`ARRAY<INT32>` included), or the given type itself.

    Raises UnknownType. Messages need a `TypeRegistry` with their definitions.
    """
    return BUILT_IN.wire(given) if isinstance(given, str) else given


@lru_cache(maxsize=512)
def _resolved(types: TypeRegistry, name: str) -> WireType:
    built_in = REQUEST if name == REQUEST.name else TYPES.get(name)
    if built_in is not None:
        return built_in
    match = _MESSAGE.match(name)
    if match is not None:
        return _message_wire(types, match[1], int(match[2]))
    match = _PARAMETRISED.match(name)
    if match and match[1] in ARRAYS:
        element = types.wire(match[2])
        if element.smallest:
            return array_of(match[1], element)
        raise UnknownType(f"{element.name} cannot be an array element: it reads all remaining bytes")
    known = ", ".join([*TYPES, *(f"{form}<T>" for form in ARRAYS)])
    raise UnknownType(f"unknown type {name!r}; known types: {known}")


def _message_wire(types: TypeRegistry, name: str, version: int) -> MessageType:
    if name not in types.messages:
        raise UnknownType(f"message {name} has no definition (add one with --definitions)")
    try:
        return wire_of(types.messages[name], version)
    except Unencodable as error:
        raise UnknownType(str(error)) from None


def _pickled(type_: WireType) -> tuple[Callable[[str], WireType], tuple[str]]:
    return wire, (type_.name,)


# A type is pickled by its name, because every process has the same built-in table.
copyreg.pickle(WireType, _pickled)

# --- bytes and values ---------------------------------------------------------------------------------


_USUAL_LIMITS = Limits()


def decode(type_: WireType | str, data: bytes, *, trail: bool = False, limits: Limits | None = None) -> DecodeResult:
    """Decode one value from the front of `data`; `trail` records spans. Raises UnknownType."""
    row = wire(type_)
    findings = Findings(spans=[] if trail else None, limits=limits or _USUAL_LIMITS, size=len(data))
    cursor = Cursor(data, findings)
    value: Any = None
    try:
        value = dispatch.decode(row, cursor)
        if trail and not findings.spans:
            cursor.span("", 0, value, row.name)
    except Malformed as stop:
        findings.violations.append(stop.violation)
    if findings.violations:
        value = None
    return DecodeResult(
        value,
        cursor.pos,
        tuple(findings.violations),
        tuple(findings.remarks),
        tuple(findings.rests_on),
        tuple(findings.spans or ()),
        tuple(findings.layers),
    )


def encode(type_: WireType | str, value: Any, *, magic: int | None = None, compression: int = 0) -> bytes:
    """Encode a wire value. Raises UnknownType, or Unencodable for a value without an encoding.

    A RECORD_BATCH is built from an application's choices (see record_batch.build). `magic` and `compression` apply to a
    MESSAGE_SET.
    """
    row = wire(type_)
    if row is RECORD_BATCH:
        return encode_built(value)
    if row is MESSAGE_SET and magic is not None:
        return encode_set(value, magic, compression)
    return dispatch.encode(row, value)
