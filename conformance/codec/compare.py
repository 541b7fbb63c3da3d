"""Comparison of a shown value, which may be partial, with the expected value."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec import Struct

from conformance.codec._length_prefixed import CountedShape
from conformance.codec.cursor import Cursor, Findings, Malformed
from conformance.codec.derived_fields import Values
from conformance.codec.json_notation import UNSHOWN, ListOf, NotationError, ObjectOf, each
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
    """Compare the value that a target shows with the expected value. Known tagged fields may be shown by tag."""
    comparison = compare(wire.notation, expected, actual)
    if comparison.mismatches and isinstance(wire, MessageType):
        return compare(wire.notation, expected, by_name(wire, actual))
    return comparison


def by_name(wire: WireType, value: Any) -> Any:
    """Return a message value, or a part of one, with known tagged fields under their names."""
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
    """Move the known fields that a structure shows only by tag to their names."""
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
    """Return the value of a tagged field; UNSHOWN if the data is not exactly one valid value."""
    cursor = Cursor(data, Findings())
    try:
        value = wire.decode(cursor)
    except Malformed:
        return UNSHOWN
    return UNSHOWN if cursor.left or cursor.findings.violations else value


_MOST = 100
"""The most differences that a comparison returns; the difference that a case tests is among them."""


class ValueComparison(Struct, frozen=True):
    """The result of comparing a shown value with the expected value."""

    mismatches: tuple[str, ...]
    """The paths of the differences, at most 100."""
    unshown: tuple[str, ...]
    """Dotted paths, without indexes, of expected parts that the target did not show."""
    observed: bool
    """True if the target showed any part of the value."""


def compare(notation: Any, expected: Any, actual: Any) -> ValueComparison:
    """Compare a value, which may be UNSHOWN or partial, with the expected one (UNSHOWN if unknown)."""
    observed = notation.observed(actual)
    if actual is UNSHOWN:
        return ValueComparison((), ("value",), observed)
    if expected is UNSHOWN:
        return ValueComparison((), (), observed)
    mismatches = tuple(islice(notation.mismatches(expected, actual), _MOST))
    return ValueComparison(mismatches, tuple(unshown_paths(notation, expected, actual)), observed)


def parse_known(notation: Any, given: Any, what: str) -> Any:
    """Parse a value that may have only known fields; `what` names its type in the error. Raises NotationError."""
    unknown = unknown_fields(notation, given)
    if unknown:
        raise NotationError(f"{unknown[0]} is not a field of {what}")
    return notation.parse(given)


def unshown_paths(notation: Any, expected: Any, actual: Any, path: str = "") -> list[str]:
    """Return dotted paths (without indexes) of the parts of `expected` that `actual` lacks, each once."""
    missing: dict[str, None] = {}
    _collect_unshown(notation, expected, actual, path, missing)
    return list(missing)


def _collect_unshown(notation: Any, expected: Any, actual: Any, path: str, missing: dict[str, None]) -> None:
    if expected is None or actual is None:
        return
    if isinstance(notation, ObjectOf):
        # If every name is present, only values with parts can lack something.
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
    """Return dotted paths of the names in `given` (JSON) that the notation lacks, each once."""
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
