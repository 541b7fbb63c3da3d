"""What somebody wrote or showed of a value, held against the whole of it: what differs, lacks or is unknown."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec import Struct

from conformance.codec.cursor import Cursor, Findings, Malformed
from conformance.codec.derived_fields import Values
from conformance.codec.json_notation import UNSHOWN, ListOf, NotationError, ObjectOf, each
from conformance.codec.length_prefixed import CountedShape
from conformance.codec.message_layout import (
    KeyedArrayShape,
    MessageType,
    NullableStructShape,
    StructShape,
    TaggedSection,
)
from conformance.codec.message_spec import UNKNOWN
from conformance.codec.wire_type import WireType


def compare_shown(wire: WireType, expected: Any, actual: Any) -> ValueComparison:
    """Hold what a target shows of a value of a type against the expected one, whatever names it has for tags."""
    comparison = compare(wire.notation, expected, actual)
    if comparison.mismatches and isinstance(wire, MessageType):
        return compare(wire.notation, expected, by_name(wire, actual))
    return comparison


def by_name(wire: WireType, value: Any) -> Any:
    """The value of a message, or of a part of one, with the fields of known tags under their names."""
    if value is None or value is UNSHOWN:
        return value
    match wire.shape:
        case KeyedArrayShape(elements=inner) | NullableStructShape(structure=inner):
            return by_name(inner, value)
        case CountedShape(element=element):
            return tuple(by_name(element, one) for one in value)
        case StructShape(layout=layout, section=section):
            parts = [(field.name, field.wire) for field in layout.fields if isinstance(field.wire, WireType)]
            if section is not None:
                value = _named(section, value)
                parts += [(member.name, inner) for member, inner in section.known.values()]
            return value | {name: by_name(inner, value[name]) for name, inner in parts if name in value}
    return value


def _named(section: TaggedSection, value: Values) -> Values:
    """The value of a structure with those fields that it shows by their tags alone."""
    named: Values = {}
    others = []
    for entry in value.get(UNKNOWN) or ():
        member, wire = section.known.get(entry.get("tag"), (None, None))
        read = _whole(wire, entry.get("data") or b"") if wire else UNSHOWN
        if member is None or member.name in value or read is UNSHOWN:
            others.append(entry)
        else:
            named[member.name] = read
    return value | named | {UNKNOWN: tuple(others)} if named else value


def _whole(wire: WireType, data: bytes) -> Any:
    """What the data of a tagged field holds; UNSHOWN where it is not one sound value and nothing more."""
    cursor = Cursor(data, Findings())
    try:
        value = wire.decode(cursor)
    except Malformed:
        return UNSHOWN
    return UNSHOWN if cursor.left or cursor.findings.violations else value


_MOST = 100
"""Differences that a comparison tells at most: the one that a case is about is among them."""


class ValueComparison(Struct, frozen=True):
    """What a target showed of a value, held against the value that was expected."""

    mismatches: tuple[str, ...]
    """The paths at which they differ, the first hundred."""
    unshown: tuple[str, ...]
    """Dotted paths, without indexes, of what was expected and left out."""
    observed: bool
    """Whether the target showed anything of the value."""


def compare(notation: Any, expected: Any, actual: Any) -> ValueComparison:
    """Hold a value, which may be UNSHOWN or lack parts, against the expected one, of which nothing may be known."""
    observed = notation.observed(actual)
    if actual is UNSHOWN:
        return ValueComparison((), ("value",), observed)
    if expected is UNSHOWN:
        return ValueComparison((), (), observed)
    mismatches = tuple(islice(notation.mismatches(expected, actual), _MOST))
    return ValueComparison(mismatches, tuple(unshown_paths(notation, expected, actual)), observed)


def parse_known(notation: Any, given: Any, what: str) -> Any:
    """Parse a value that may name no field but those of the notation; `what` it is a value of. Raises NotationError."""
    unknown = unknown_fields(notation, given)
    if unknown:
        raise NotationError(f"{unknown[0]} is not a field of {what}")
    return notation.parse(given)


def unshown_paths(notation: Any, expected: Any, actual: Any, path: str = "") -> list[str]:
    """Dotted paths (without indexes) of what `expected` has and `actual` leaves out, each once."""
    missing: dict[str, None] = {}
    _collect_unshown(notation, expected, actual, path, missing)
    return list(missing)


def _collect_unshown(notation: Any, expected: Any, actual: Any, path: str, missing: dict[str, None]) -> None:
    if expected is None or actual is None:
        return
    if isinstance(notation, ObjectOf):
        is_whole = expected.keys() <= actual.keys()
        for name in notation.with_parts if is_whole else notation.fields:
            if name not in expected:
                continue
            deeper = f"{path}.{name}" if path else name
            if name not in actual:
                missing[deeper] = None
            elif name in notation.with_parts and expected[name] != actual[name]:
                _collect_unshown(notation.fields[name], expected[name], actual[name], deeper, missing)
    elif isinstance(notation, ListOf) and expected and actual:
        for one, other in zip(expected, actual, strict=False):
            if one != other:
                _collect_unshown(notation.element, one, other, path, missing)


def unknown_fields(notation: Any, given: Any, path: str = "") -> list[str]:
    """Dotted paths of names in `given` (JSON) that the notation does not know, each once."""
    unknown: dict[str, None] = {}
    if isinstance(notation, ObjectOf) and isinstance(given, dict):
        for name, entry in given.items():
            deeper = f"{path}.{name}" if path else str(name)
            inner = notation.fields.get(name)
            unknown.update(dict.fromkeys([deeper] if inner is None else unknown_fields(inner, entry, deeper)))
    elif isinstance(notation, ListOf) and isinstance(given, list):
        for names in each(lambda entry: unknown_fields(notation.element, entry, path), given):
            unknown.update(dict.fromkeys(names))
    return list(unknown)
