"""Tagged fields that a target shows by their tags, as its definition of the message is older than ours.

A tag comes without a new version (message-definitions.md#tagged-fields), so such a target is right.
"""

from __future__ import annotations

from typing import Any

from conformance.codec.cursor import Cursor, Findings, Malformed
from conformance.codec.derivations import Values
from conformance.codec.lengths import Counted
from conformance.codec.message_definition import UNKNOWN
from conformance.codec.messages import Keyed, Marked, MessageWire, Section, Structure
from conformance.codec.notation import UNSHOWN
from conformance.codec.observation import Comparison, compare
from conformance.codec.wire import Wire


def compare_shown(wire: Wire, expected: Any, actual: Any) -> Comparison:
    """Hold what a target shows of a value of a type against the expected one, whatever names it has for tags."""
    comparison = compare(wire.notation, expected, actual)
    if comparison.mismatches and isinstance(wire, MessageWire):
        return compare(wire.notation, expected, by_name(wire, actual))
    return comparison


def by_name(wire: Wire, value: Any) -> Any:
    """The value of a message, or of a part of one, with the fields of known tags under their names."""
    if value is None or value is UNSHOWN:
        return value
    match wire.shape:
        case Keyed(elements=inner) | Marked(structure=inner):
            return by_name(inner, value)
        case Counted(element=element):
            return tuple(by_name(element, one) for one in value)
        case Structure(layout=layout, section=section):
            parts = [(field.name, field.wire) for field in layout.fields if isinstance(field.wire, Wire)]
            if section is not None:
                value = _named(section, value)
                parts += [(member.name, inner) for member, inner in section.known.values()]
            return value | {name: by_name(inner, value[name]) for name, inner in parts if name in value}
    return value


def _named(section: Section, value: Values) -> Values:
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


def _whole(wire: Wire, data: bytes) -> Any:
    """What the data of a tagged field holds; UNSHOWN where it is not one sound value and nothing more."""
    cursor = Cursor(data, Findings())
    try:
        value = wire.decode(cursor)
    except Malformed:
        return UNSHOWN
    return UNSHOWN if cursor.left or cursor.findings.violations else value
