"""The interpreter of layouts: fields in order, with lengths, counts and checksums derived from the rest.

A layout is data. Reading runs from the first field to the last. Writing runs from the last to the first, because a
length or checksum depends only on the bytes that follow it in its own structure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from conformance.codec import json_notation as n
from conformance.codec.cursor import Cursor, Unencodable
from conformance.codec.derived_fields import ByteLength, DerivedValue, Values
from conformance.codec.wire_type import WireType


class BitField(Struct, frozen=True):
    """A named part of a number: `width` bits from `shift` upwards."""

    name: str
    shift: int
    width: int
    notation: Any
    rule: str = ""
    """The requirement that defines the part; a value that does not fit breaks it."""

    @property
    def mask(self) -> int:
        """The number in which exactly the bits of the part are set."""
        return (1 << self.width) - 1 << self.shift

    def read(self, number: int) -> Any:
        """Return the part of a number: a bool for a flag, else a number."""
        part = number >> self.shift & (1 << self.width) - 1
        return bool(part) if self.notation is n.TRUTH else part

    def write(self, part: Any) -> int:
        """Return the part at its place. Raises Unencodable, with the part's rule, if it does not fit."""
        if not isinstance(part, int) or not 0 <= int(part) < 1 << self.width:
            raise Unencodable(self.rule, f"{self.name} {part!r} does not fit in {self.width} bits")
        return int(part) << self.shift


class DependentField(Protocol):
    """A field that needs earlier fields to be read or written (a count, a codec)."""

    @property
    def notation(self) -> Any:
        """The JSON notation of its value."""

    @property
    def smallest(self) -> int:
        """Its least size in bytes."""

    def read(self, cursor: Cursor, values: Values) -> Any:
        """Read the field, given the fields before it."""

    def write(self, values: Values) -> bytes:
        """Return its bytes, given all fields."""


class Field(Struct, frozen=True):
    """One row of a layout."""

    name: str
    wire: WireType | DependentField
    rule: str = ""
    """The requirement that defines the field; a reader that shows another value breaks it."""
    derive: DerivedValue | None = None
    bits: tuple[BitField, ...] = ()
    check: Callable[[Cursor, Any, int], None] | None = None
    """Called with the cursor, the value and its start."""
    refuse: Callable[[Any], None] | None = None
    """Called with the value before writing; raises Unencodable for a value that a writer must not write."""


class CompiledField(NamedTuple):
    """The steps to read one field without a trail."""

    name: str
    decode: Callable[[Cursor], Any] | None
    """None for a dependent field, which has a `region`."""
    region: Callable[[Cursor, Values], Any] | None
    hold: Callable[[Cursor, int, Any], None] | None
    """Checks a derived field."""
    bits: tuple[BitField, ...]
    check: Callable[[Cursor, Any, int], None] | None


def _step(field: Field) -> CompiledField:
    hold = field.derive.check if field.derive is not None else None
    if isinstance(field.wire, WireType):
        return CompiledField(field.name, field.wire.decode, None, hold, field.bits, field.check)
    return CompiledField(field.name, None, field.wire.read, hold, field.bits, field.check)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A structure: its fields in order, and rules over the whole of it."""

    name: str
    fields: tuple[Field, ...]
    rules: tuple[Callable[[Cursor, Values, int], None], ...] = ()
    """Called after reading with the cursor, the values and the start of the structure."""
    hidden: tuple[str, ...] = ()
    """Fields that are not in the notation."""
    shown: tuple[tuple[str, Any], ...] = ()
    """Further names in the notation, whose values come from the rules."""
    bound: str = dataclasses.field(init=False)
    """The requirement of the field with the length of the rest; empty if there is none."""
    _places: Mapping[str, tuple[slice, WireType | DependentField]] = dataclasses.field(init=False)
    """The place of each field, up to the first of variable width (its slice has no end)."""
    steps: tuple[CompiledField, ...] = dataclasses.field(init=False)
    """The steps to read each field, computed once."""

    def __post_init__(self) -> None:
        bounds = (one.derive.rule for one in self.fields if isinstance(one.derive, ByteLength))
        object.__setattr__(self, "bound", next(bounds, ""))
        object.__setattr__(self, "_places", dict(_places(self.fields)))
        object.__setattr__(self, "steps", tuple(map(_step, self.fields)))

    def span(self, name: str) -> slice:
        """Return the bytes of a field in the structure. Raises KeyError if they depend on earlier values."""
        return self._places[name][0]

    def offset(self, name: str) -> int:
        """Return the first byte of a field. Raises KeyError if it depends on earlier values."""
        return int(self._places[name][0].start)

    def part(self, name: str) -> BitField:
        """Return the row of a named part of a field. Raises KeyError."""
        return self._part(name)[1]

    def read_field(self, name: str, data: bytes, at: int = 0) -> int:
        """Return the number in a field (of fixed width), or in a part of one, of the structure at byte `at`.

        The bytes are not checked: if some are missing, the number is made of the others.
        """
        if name in self._places:
            span, wire = self._places[name]
            signed = isinstance(wire, WireType) and wire.shape.signed
            return int.from_bytes(data[at + span.start : at + span.stop], "big", signed=signed)
        field, bits = self._part(name)
        return int(bits.read(self.read_field(field, data, at)))

    def with_field(self, name: str, data: bytes, number: int) -> bytes:
        """Return the structure with another number in a field (of fixed width), or in a part of one."""
        if name not in self._places:
            field, bits = self._part(name)
            return self.with_field(field, data, self.read_field(field, data) & ~bits.mask | bits.write(number))
        span, wire = self._places[name]
        assert isinstance(wire, WireType)
        return data[: span.start] + wire.encode(number) + data[span.stop :]

    def with_checksums(self, data: bytes, names: Collection[str]) -> bytes:
        """Return the structure with correct lengths and checksums, for the fields in `names`.

        A field that is not complete stays unchanged.
        """
        for field in reversed(self.fields):
            if field.name in names and field.derive is not None and len(data) >= self.span(field.name).stop:
                data = self.with_field(field.name, data, field.derive.compute({}, data[self.span(field.name).stop :]))
        return data

    def _part(self, name: str) -> tuple[str, BitField]:
        parts = {bits.name: (field.name, bits) for field in self.fields for bits in field.bits}
        return parts[name]

    def notation(self) -> n.ObjectOf:
        """Return the value notation that follows from the fields."""
        rows: dict[str, Any] = {}
        for field in self.fields:
            if field.name not in self.hidden:
                rows[field.name] = field.wire.notation
            rows.update((bits.name, bits.notation) for bits in field.bits)
        rows.update(self.shown)
        return n.ObjectOf(rows)

    def rules_by_name(self) -> dict[str, str]:
        """Return the requirement that defines each name of the notation."""
        rows = {field.name: field.rule for field in self.fields}
        rows.update((bits.name, bits.rule) for field in self.fields for bits in field.bits)
        return rows

    def smallest(self) -> int:
        """Return the least size of the structure in bytes."""
        return smallest(self.fields)


def smallest(fields: Iterable[Field]) -> int:
    """Return the least size of consecutive fields, in bytes."""
    return sum(field.wire.smallest for field in fields)


def _places(fields: Iterable[Field]) -> Iterator[tuple[str, tuple[slice, WireType | DependentField]]]:
    at = 0
    for field in fields:
        if not (isinstance(field.wire, WireType) and field.wire.fixed):
            yield field.name, (slice(at, None), field.wire)
            return
        yield field.name, (slice(at, at + field.wire.smallest), field.wire)
        at += field.wire.smallest


def wire_of(layout: Layout) -> WireType:
    """Return a layout as a type."""

    def decode(cursor: Cursor) -> Values:
        return read(layout, cursor)

    def encode(value: Any) -> bytes:
        return write(layout, value)

    return WireType(layout.name, decode, encode, layout.notation(), layout.smallest(), shape=layout)


def read(layout: Layout, cursor: Cursor) -> Values:
    """Read a structure. A field with its byte length bounds the rest, which must fill it exactly."""
    outer, begin = cursor.end, cursor.pos
    values = _traced_fields(layout, cursor) if cursor.tracing else _fields(layout, cursor)
    _expect_end(layout, cursor, outer)
    cursor.end = outer
    for rule in layout.rules:
        rule(cursor, values, begin)
    return values


def _fields(layout: Layout, cursor: Cursor) -> Values:
    """Read the fields in order, without a trail."""
    values: Values = {}
    for name, decode, region, hold, bits, check in layout.steps:
        start = cursor.pos
        value = decode(cursor) if decode is not None else region(cursor, values)  # type: ignore[misc]
        values[name] = value
        if hold is not None:
            hold(cursor, start, value)
        for part in bits:
            values[part.name] = part.read(value)
        if check is not None:
            check(cursor, value, start)
    return values


def _traced_fields(layout: Layout, cursor: Cursor) -> Values:
    """Read the fields in order, each with its span."""
    base = cursor.path
    values: Values = {}
    for field in layout.fields:
        start = cursor.pos
        cursor.path = f"{base}.{field.name}" if base else field.name
        wire = field.wire
        value = wire.decode(cursor) if isinstance(wire, WireType) else wire.read(cursor, values)
        values[field.name] = value
        if field.derive is not None:
            _checked(field, cursor, start, value)
        cursor.span("", start, value, wire.name if isinstance(wire, WireType) else "")
        if field.bits:
            _split_bits(field, cursor, base, start=start, values=values)
        if field.check is not None:
            field.check(cursor, value, start)
    cursor.path = base
    return values


def _checked(field: Field, cursor: Cursor, start: int, value: Any) -> None:
    """Check a derived field. Record its span also if the check fails."""
    assert field.derive is not None
    try:
        field.derive.check(cursor, start, value)
    except Exception:
        cursor.span("", start, value)
        raise


def _split_bits(field: Field, cursor: Cursor, base: str, *, start: int, values: Values) -> None:
    for bits in field.bits:
        values[bits.name] = bits.read(values[field.name])
        cursor.path = f"{base}.{bits.name}" if base else bits.name
        cursor.span("", start, bits.notation.render(values[bits.name]))


def _expect_end(layout: Layout, cursor: Cursor, outer: int) -> None:
    if layout.bound and cursor.pos != cursor.end:
        left, cursor.end = cursor.left, outer
        cursor.fail(layout.bound, f"{left} bytes are left over inside {layout.name}")


def write(layout: Layout, values: Values) -> bytes:
    """Write a structure from its last field to its first; derived fields in `values` are ignored."""
    tail = b""
    for field in reversed(layout.fields):
        if isinstance(field.wire, WireType):
            tail = field.wire.encode(_to_write(field, values, tail)) + tail
        else:
            tail = field.wire.write(values) + tail
    return tail


def _to_write(field: Field, values: Values, tail: bytes) -> Any:
    if field.derive is not None:
        return field.derive.compute(values, tail)
    if any(bits.name in values for bits in field.bits):
        return sum(bits.write(values.get(bits.name, 0)) for bits in field.bits)
    if field.name not in values:
        raise Unencodable("general.exact-encoding", f"{field.name} is missing")
    if field.refuse is not None:
        field.refuse(values[field.name])
    return values[field.name]
