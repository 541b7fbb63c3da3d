"""Messages: from a parsed definition to the layout of one message version (message-definitions.md).

A definition gives the versions of a message and of each field, the versions in which a field may be null, and the
flexible versions. These have compact types, and a section of tagged fields at the end of every structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from conformance.codec import json_notation as n
from conformance.codec._length_prefixed import LengthPrefix, array
from conformance.codec.cursor import Cursor, Definedness, Unencodable
from conformance.codec.derived_fields import Values
from conformance.codec.layout import Field, Layout, read, write
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
    """The type of a message version. Its pickled form is the message and the version."""

    message: MessageSpec
    version: int

    def __reduce__(self) -> tuple[Callable[[MessageSpec, int], MessageType], tuple[MessageSpec, int]]:
        return wire_of, (self.message, self.version)


def wire_of(message: MessageSpec, version: int) -> MessageType:
    """Return the type of a message version. Raises Unencodable if the message does not have the version."""
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
    """Return the notation of a structure, by its name, for all versions; each version checks for null itself."""
    rows: dict[str, Any] = {}
    for member in message.structures[name]:
        if member.type in SCALARS:
            one: Any = PRIMITIVES[FIXED.get(member.type) or SIZED[member.type]].notation
        else:
            one = notation_of(message, member.type)
        rows[member.name] = n.ListOf(one) if member.is_array else one
    return n.ObjectOf({**rows, UNKNOWN: TAGGED_FIELDS.notation}, nullable=name != message.name)


def with_absent(message: MessageSpec, name: str, value: Values | None) -> Values | None:
    """Return a structure as a reader's object has it, with defaults for the fields of other versions."""
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
    """The shape of a structure in a message version."""

    message: MessageSpec
    version: int
    members: tuple[FieldSpec, ...]
    """All members, including those of other versions."""
    layout: Layout
    """The fields before the tagged ones."""
    section: TaggedSection | None
    """The tagged fields of a flexible version."""


class KeyedArrayShape(Struct, frozen=True, eq=False):
    """The shape of an array whose elements form a set by key fields."""

    elements: WireType
    keys: tuple[str, ...]


class NullableStructShape(Struct, frozen=True, eq=False):
    """The shape of a structure after the byte that marks null."""

    structure: WireType


class _LayoutCompiler(Struct, frozen=True):
    """The compiler of the layouts of one message version."""

    message: MessageSpec
    version: int
    made: dict[str, WireType] = field(default_factory=dict)

    @property
    def flexible(self) -> bool:
        """True if this version has compact types and tagged sections."""
        return self.version in self.message.flexible

    def structure(self, name: str) -> WireType:
        """Return a structure of the message; each is built once."""
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
                # An array may hold many empty structures, and arrays of such arrays many more.
                cursor.count_in(1)
            values = read(layout, cursor)
            values.update(values.pop(UNKNOWN, {}))
            return values

        def encode(value: Any) -> bytes:
            if value is None:
                raise Unencodable(_NULL, f"{name} is null, which its type does not allow")
            return write(layout, self._complete(members, value))

        # The least size is 1, whatever the fields: Apache Kafka accepts as many elements as there are bytes.
        return WireType(name, decode, encode, notation_of(self.message, name), 1, shape=shape)

    def _section(self, members: Sequence[FieldSpec], tagged: Sequence[FieldSpec]) -> TaggedSection | None:
        """Return the section of tagged fields of a structure; None if this version is not flexible."""
        if not self.flexible:
            return None
        known = {member.tag: (member, self._wire(member)) for member in tagged if member.tag is not None}
        others = frozenset(member.tag for member in members if member.tag is not None) - set(known)
        return TaggedSection(self.message, known, others)

    def _wire(self, member: FieldSpec) -> WireType:
        """Return the type of a field in this version."""
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
        """Return the fields that this version writes; missing fields get their default. Raises Unencodable."""
        out: Values = {}
        for member in members:
            value = given[member.name] if member.name in given else default_of(self.message, member)
            if self.version not in member.versions:
                if not member.ignorable and not is_default(self.message, member, value):
                    hint = f"{member.name} is set, but version {self.version} does not have it"
                    raise Unencodable("definitions.non-ignorable-non-default-error", hint)
                continue
            if value is None and self.version not in member.nullable:
                raise Unencodable(_NULL, f"{member.name} is null, which version {self.version} does not allow")
            out[member.name] = value
        unknown = given.get(UNKNOWN) or ()
        if unknown and not self.flexible:
            raise Unencodable("tagged.only-in-flexible", f"version {self.version} has no tagged fields")
        return {**out, UNKNOWN: unknown}


def _set_by(keys: tuple[str, ...], elements: WireType) -> WireType:
    """Return an array whose elements form a set by key fields; two with equal keys are unspecified.

    Null keys do not count: Apache Kafka returns several topics without names, for unknown topic ids.
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
    """Return a structure after an INT8; a negative INT8 is null (decisions#tagged-fields-and-messages)."""

    def decode(cursor: Cursor) -> Values | None:
        start = cursor.pos
        mark: int = INT8.decode(cursor)
        cursor.span("#present", start, mark, "INT8")
        if mark not in (-1, 1):
            cursor.remark("definitions.type-unknown", f"byte before a structure is {mark}, expected -1 or 1", at=start)
        return None if mark < 0 else structure.decode(cursor)

    def encode(value: Any) -> bytes:
        return INT8.encode(-1) if value is None else INT8.encode(1) + structure.encode(value)

    return WireType(structure.name, decode, encode, structure.notation, 1, shape=NullableStructShape(structure))


class TaggedSection(Struct, frozen=True):
    """The tagged fields at the end of a structure: those that the definition has, and the others as bytes."""

    message: MessageSpec
    known: Mapping[int, tuple[FieldSpec, WireType]]
    others: frozenset[int] = frozenset()
    """Tags of fields that this version does not have."""
    notation: Any = TAGGED_FIELDS.notation
    smallest: int = TAGGED_FIELDS.smallest

    def read(self, cursor: Cursor, values: Values) -> Values:
        """Read all known fields, absent ones at their default, and the unknown ones, if any, under UNKNOWN."""
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
            # No document covers this case: Apache Kafka's code writes such a tag, but rejects it when reading.
            cursor.remark("tagged.unknown-skipped", "a tag belongs to a field that the version does not have", at=start)
        return {**known, UNKNOWN: unknown} if unknown else known

    def write(self, values: Values) -> bytes:
        """Write the known fields that are not at their default, and the unknown ones, in the order of tags."""
        TAGGED_FIELDS.encode(values[UNKNOWN])  # raises for unordered or duplicate tags
        entries = [
            {"tag": tag, "data": wire.encode(values[member.name])}
            for tag, (member, wire) in self.known.items()
            if not is_default(self.message, member, values[member.name])
        ]
        return self.joined(entries, values[UNKNOWN])

    def joined(self, entries: list[Values], unknown: tuple[Values, ...]) -> bytes:
        """Return the bytes of known and unknown fields. Raises Unencodable if an unknown field has a known tag."""
        known = {entry["tag"] for entry in unknown} & set(self.known)
        if known:
            raise Unencodable("tagged.duplicate-rejected", f"tag {min(known)} belongs to a known field")
        return TAGGED_FIELDS.encode(tuple(sorted((*entries, *unknown), key=lambda entry: int(entry["tag"]))))


def _within(name: str, wire: WireType) -> Callable[[Cursor, int], Any]:
    """Return a reader of a known tagged field, for the bytes that its size gives.

    A size that the value does not fill is unspecified: Apache Kafka ignores it and continues after the value.
    """

    def value(cursor: Cursor, start: int) -> Any:
        stop, base = cursor.pos, cursor.path
        cursor.path = f"{base}.{name}" if base else name
        cursor.pos = start
        content = wire.decode(cursor)
        if cursor.pos > stop:
            cursor.fail(_SIZE, f"the value of {name} is longer than its size", at=start, open=True)
        if cursor.pos < stop:
            cursor.fail(_SIZE, f"the value of {name} is shorter than its size", open=True)
        cursor.path = base
        return content

    return value
