"""Messages: parsed definitions → the layout of one message in one version (message-definitions.md).

A definition says which versions a message and each of its fields has, where a field may be null, and from which version
on everything is flexible: compact types, and a section of tagged fields at the end of every structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from conformance.codec import json_notation as n
from conformance.codec.cursor import Cursor, Definedness, Unencodable
from conformance.codec.derived_fields import Values
from conformance.codec.layout import Field, Layout, read, write
from conformance.codec.length_prefixed import LengthPrefix, array
from conformance.codec.message_spec import (
    FIXED,
    SCALARS,
    SIZED,
    UNKNOWN,
    FieldSpec,
    MessageSpec,
    default_of,
    is_default,
    type_name,
)
from conformance.codec.primitives import INT8, INT32, PRIMITIVES, TAGGED_FIELDS, UNSIGNED_VARINT, read_tagged
from conformance.codec.wire_type import WireType

# --- layouts ------------------------------------------------------------------------------------------

_NULL = "definitions.null-in-non-nullable"
_SIZE = "tagged.size-bounds-data"
_NEGATIVE = "array.negative-count"
_TOO_FEW = "array.too-few-elements-rejected"


class MessageType(WireType, frozen=True, kw_only=True, eq=False):
    """A message in a version as a type: it knows both. Pickled as these, and made anew from them."""

    message: MessageSpec
    version: int

    def __reduce__(self) -> tuple[Callable[[MessageSpec, int], MessageType], tuple[MessageSpec, int]]:
        return wire_of, (self.message, self.version)


def wire_of(message: MessageSpec, version: int) -> MessageType:
    """A message in a version as a type. Raises Unencodable for a version that it does not have."""
    if version not in message.valid:
        raise Unencodable("definitions.valid-versions", f"{message.name} has versions {message.valid}, not {version}")
    return _made(message, version)


@lru_cache(maxsize=1 << 13)
def _made(message: MessageSpec, version: int) -> MessageType:
    one = _LayoutCompiler(message, version).structure(message.name)
    name = type_name(message.name, version)
    return MessageType(
        name, one.decode, one.encode, one.notation, one.smallest, shape=one.shape, message=message, version=version
    )


def notation_of(message: MessageSpec, name: str) -> n.ObjectOf:
    """The value notation of a message's structure, by its name, in any version; null is each version's to judge."""
    rows: dict[str, Any] = {}
    for member in message.structures[name]:
        if member.type in SCALARS:
            one: Any = PRIMITIVES[FIXED.get(member.type) or SIZED[member.type]].notation
        else:
            one = notation_of(message, member.type)
        rows[member.name] = n.ListOf(one) if member.is_array else one
    return n.ObjectOf({**rows, UNKNOWN: TAGGED_FIELDS.notation}, nullable=name != message.name)


def with_absent(message: MessageSpec, name: str, value: Values | None) -> Values | None:
    """A structure as a reader's object holds it: the fields that its version does not have are at their defaults."""
    if value is None:
        return None
    out: Values = {}
    for member in message.structures[name]:
        if member.name not in value:
            out[member.name] = default_of(message, member)
        elif member.type in SCALARS or value[member.name] is None:
            out[member.name] = value[member.name]
        elif member.is_array:
            out[member.name] = tuple(with_absent(message, member.type, entry) for entry in value[member.name])
        else:
            out[member.name] = with_absent(message, member.type, value[member.name])
    return {**value, **out}


class StructShape(Struct, frozen=True, eq=False):
    """What a structure of a message in a version is."""

    message: MessageSpec
    version: int
    members: tuple[FieldSpec, ...]
    """All of them, also those that the version does not have."""
    layout: Layout
    """The fields before the tagged ones."""
    section: TaggedSection | None
    """The tagged fields of a flexible version."""


class KeyedArrayShape(Struct, frozen=True, eq=False):
    """What an array is whose elements are a set by these fields."""

    elements: WireType
    keys: tuple[str, ...]


class NullableStructShape(Struct, frozen=True, eq=False):
    """What a structure is behind the byte that says whether it is null."""

    structure: WireType


class _LayoutCompiler(Struct, frozen=True):
    """Makes the layouts of one message in one version."""

    message: MessageSpec
    version: int
    made: dict[str, WireType] = field(default_factory=dict)

    @property
    def flexible(self) -> bool:
        """Whether this version has compact types and tagged sections."""
        return self.version in self.message.flexible

    def structure(self, name: str) -> WireType:
        """A structure of the message, made once."""
        if name not in self.made:
            self.made[name] = self._structure(name)
        return self.made[name]

    def _structure(self, name: str) -> WireType:
        members = self.message.structures[name]
        present = [member for member in members if self.version in member.versions]
        tagged = [member for member in present if self.version in member.tagged]
        fields = [
            Field(member.name, self._wire(member), "definitions.field-order-is-wire-order")
            for member in present
            if member not in tagged
        ]
        shape = StructShape(
            self.message, self.version, members, Layout(name, tuple(fields)), self._section(members, tagged)
        )
        if shape.section is not None:
            fields.append(Field(UNKNOWN, shape.section, "tagged.section-layout"))
        layout = Layout(name, tuple(fields))

        def decode(cursor: Cursor) -> Values:
            if not fields:
                cursor.count_in(1)  # an array may hold many, and arrays of such arrays many more
            values = read(layout, cursor)
            values.update(values.pop(UNKNOWN, {}))
            return values

        def encode(value: Any) -> bytes:
            if value is None:
                raise Unencodable(_NULL, f"a null {name}, where the type has none")
            return write(layout, self._complete(members, value))

        # As Apache Kafka: an array has no more elements than bytes, whatever their size.
        return WireType(name, decode, encode, notation_of(self.message, name), 1, shape=shape)

    def _section(self, members: Sequence[FieldSpec], tagged: Sequence[FieldSpec]) -> TaggedSection | None:
        """The section of tagged fields at the end of a structure; None where this version has none."""
        if not self.flexible:
            return None
        known = {member.tag: (member, self._wire(member)) for member in tagged if member.tag is not None}
        others = frozenset(member.tag for member in members if member.tag is not None) - set(known)
        return TaggedSection(self.message, known, others)

    def _wire(self, member: FieldSpec) -> WireType:
        """How a field stands in this version."""
        nullable = self.version in member.nullable
        if member.is_array:
            element = self._scalar(member, nullable=False) if member.type in SCALARS else self.structure(member.type)
            wire = array(f"[]{member.type}", self._count(nullable=nullable), element, _TOO_FEW)
            members = self.message.structures.get(member.type, ())
            keys = tuple(one.name for one in members if one.is_map_key and self.version in one.versions)
            return _set_by(keys, wire) if keys else wire
        if member.type in SCALARS:
            return self._scalar(member, nullable=nullable)
        return _nullable(self.structure(member.type)) if nullable else self.structure(member.type)

    def _scalar(self, member: FieldSpec, *, nullable: bool) -> WireType:
        if member.type in FIXED:
            return PRIMITIVES[FIXED[member.type]]
        compact = "COMPACT_" if self.flexible and not member.rigid else ""
        return PRIMITIVES[f"{compact}{'NULLABLE_' if nullable else ''}{SIZED[member.type]}"]

    def _count(self, *, nullable: bool) -> LengthPrefix:
        rule = "" if nullable else _NULL
        wire, plus = (UNSIGNED_VARINT, 1) if self.flexible else (INT32, 0)
        return LengthPrefix(wire, plus, nullable, null_rule=rule, negative_rule=_NEGATIVE, negative_open=nullable)

    def _complete(self, members: tuple[FieldSpec, ...], given: Values) -> Values:
        """The fields that this version writes, missing ones at their default. Raises Unencodable."""
        out: Values = {}
        for member in members:
            value = given[member.name] if member.name in given else default_of(self.message, member)
            if self.version not in member.versions:
                if not member.ignorable and not is_default(self.message, member, value):
                    hint = f"{member.name} is set, which version {self.version} does not have"
                    raise Unencodable("definitions.non-ignorable-non-default-error", hint)
                continue
            if value is None and self.version not in member.nullable:
                raise Unencodable(_NULL, f"{member.name} is null, which it cannot be in version {self.version}")
            out[member.name] = value
        unknown = given.get(UNKNOWN) or ()
        if unknown and not self.flexible:
            raise Unencodable("tagged.only-in-flexible", f"tagged fields in version {self.version}")
        return {**out, UNKNOWN: unknown}


def _set_by(keys: tuple[str, ...], elements: WireType) -> WireType:
    """An array whose elements are a set by these fields; two with the same keys are an open place.

    A null is no key: Apache Kafka tells of several topics without names, asked for by ids that nobody has.
    """

    def decode(cursor: Cursor) -> Any:
        start = cursor.pos
        values = elements.decode(cursor)
        known = [key for one in values or () if None not in (key := tuple(one[name] for name in keys))]
        if len(set(known)) < len(known):
            hint = f"two elements with the same {', '.join(keys)}"
            cursor.remark("definitions.map-key-makes-set", hint, at=start, openness=Definedness.ANY_VALUE)
        return values

    return replace(elements, decode=decode, shape=KeyedArrayShape(elements, keys))


def _nullable(structure: WireType) -> WireType:
    """A structure behind an INT8: below 0 it is null (decisions#tagged-fields-and-messages)."""

    def decode(cursor: Cursor) -> Values | None:
        start = cursor.pos
        mark: int = INT8.decode(cursor)
        cursor.span("#present", start, mark, "INT8")
        if mark not in (-1, 1):
            cursor.remark("definitions.type-unknown", f"{mark} before a structure, -1 or 1 is written", at=start)
        return None if mark < 0 else structure.decode(cursor)

    def encode(value: Any) -> bytes:
        return INT8.encode(-1) if value is None else INT8.encode(1) + structure.encode(value)

    return WireType(structure.name, decode, encode, structure.notation, 1, shape=NullableStructShape(structure))


class TaggedSection(Struct, frozen=True):
    """The tagged fields at the end of a structure: those that the definition knows, and the rest as they are."""

    message: MessageSpec
    known: Mapping[int, tuple[FieldSpec, WireType]]
    others: frozenset[int] = frozenset()
    """Tags that the definition gives to fields which this version does not have."""
    notation: Any = TAGGED_FIELDS.notation
    smallest: int = TAGGED_FIELDS.smallest

    def read(self, cursor: Cursor, values: Values) -> Values:
        """Every known field, those that are not there at their default; the unknown ones under UNKNOWN if any."""
        del values
        start = cursor.pos
        readers = {tag: _within(member.name, wire) for tag, (member, wire) in self.known.items()}
        entries = read_tagged(cursor, readers)
        there = {entry["tag"]: entry["value"] for entry in entries if "value" in entry}
        known: Values = {
            member.name: there[tag] if tag in there else default_of(self.message, member)
            for tag, (member, _) in self.known.items()
        }
        unknown = tuple(entry for entry in entries if "value" not in entry)
        if any(entry["tag"] in self.others for entry in unknown):
            # No document speaks of it; Apache Kafka's code refuses to read one, and writes it.
            cursor.remark("tagged.unknown-skipped", "a tag of a field that this version does not have", at=start)
        return {**known, UNKNOWN: unknown} if unknown else known

    def write(self, values: Values) -> bytes:
        """Known fields that are not at their default, by tag, and the unknown ones among them."""
        TAGGED_FIELDS.encode(values[UNKNOWN])  # raises for tags that are out of order or stand twice
        entries = [
            {"tag": tag, "data": wire.encode(values[member.name])}
            for tag, (member, wire) in self.known.items()
            if not is_default(self.message, member, values[member.name])
        ]
        return self.joined(entries, values[UNKNOWN])

    def joined(self, entries: list[Values], unknown: tuple[Values, ...]) -> bytes:
        """The bytes of known and unknown fields together. Raises Unencodable for an unknown one that is known."""
        known = {entry["tag"] for entry in unknown} & set(self.known)
        if known:
            raise Unencodable("tagged.duplicate-rejected", f"tag {min(known)} is given as unknown, but it is known")
        return TAGGED_FIELDS.encode(tuple(sorted((*entries, *unknown), key=lambda entry: int(entry["tag"]))))


def _within(name: str, wire: WireType) -> Callable[[Cursor, int], Any]:
    """Reads a known tagged field from the bytes that its size gives.

    A size that its value does not fill is open: Apache Kafka does not look at it, and reads on behind the value.
    """

    def value(cursor: Cursor, start: int) -> Any:
        stop, base = cursor.pos, cursor.path
        cursor.path = f"{base}.{name}" if base else name
        cursor.pos = start
        content = wire.decode(cursor)
        if cursor.pos > stop:
            cursor.fail(_SIZE, f"the value of {name} does not end with its size", at=start, open=True)
        if cursor.pos < stop:
            cursor.fail(_SIZE, f"the value of {name} ends before its size", open=True)
        cursor.path = base
        return content

    return value
