"""Seeded values of messages: every field of the version at and between its edges, nulls, tags, structures."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from conformance.codec.json_notation import is_nan
from conformance.codec.message_spec import FIXED, SIZED, UNKNOWN, FieldSpec, MessageSpec, default_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.codec.derived_fields import Values
from conformance.strategies.seeded._random_choices import RandomChoices

Scalar: TypeAlias = "Callable[[str, RandomChoices], object]"
"""Draws a value of a primitive type, by its name."""

_COUNTS = (0, 0, 1, 1, 1, 2, 3)
_DEEP_COUNTS = (0, 1, 1)
_MANY = (127, 128)
"""Counts around the step where the count of a compact array takes a second byte."""
_UNSUPPORTED_VERSION = 35
_CANONICAL_NAN = 0x7FF8_0000_0000_0000


def draw_message(message: MessageSpec, version: int, choices: RandomChoices, scalar: Scalar) -> Values:
    """Return a wire value of a message version; `scalar` draws a value of a primitive type."""
    drawn = _MessageGenerator(message, version, choices, scalar).structure(message.name, depth=0)
    if message.name == "ApiVersionsResponse" and version > 0 and drawn["ErrorCode"] == _UNSUPPORTED_VERSION:
        # A broker sends this error only in version 0, and clients read it in version 0 after any request.
        drawn["ErrorCode"] = 0
    return drawn


class _MessageGenerator:
    """Draws the fields of one message version."""

    def __init__(self, message: MessageSpec, version: int, choices: RandomChoices, scalar: Scalar) -> None:
        self._message, self._version, self._dice, self._scalar = message, version, choices, scalar

    def structure(self, name: str, depth: int) -> Values:
        """Return a value of a structure with all fields of the version; some tagged ones are at their default."""
        values: Values = {}
        for member in self._message.structures[name]:
            if self._version not in member.versions:
                continue
            tagged = self._version in member.tagged
            if tagged and self._dice.chance(50):
                values[member.name] = default_of(self._message, member)
            else:
                values[member.name] = self._member(member, depth)
        return values

    def _member(self, member: FieldSpec, depth: int) -> object:
        # The zero UUID means an absent one, so null is not a separate value.
        nullable = self._version in member.nullable and (member.type != "uuid" or member.is_array)
        if nullable and self._dice.chance(20):
            return None
        if not member.is_array:
            return self._one(member, depth)
        counts = _COUNTS if depth == 0 else _DEEP_COUNTS
        count = self._dice.pick(counts)
        if member.type in FIXED and self._dice.chance(5):
            count = self._dice.pick(_MANY)
        return tuple(self._one(member, depth) for _ in range(count))

    def _one(self, member: FieldSpec, depth: int) -> object:
        if member.type in FIXED:
            drawn = self._scalar(FIXED[member.type], self._dice)
            # A NaN has one expected encoding, for any payload.
            return _CANONICAL_NAN if member.type == "float64" and isinstance(drawn, int) and is_nan(drawn) else drawn
        if member.type in SIZED:
            return self._scalar(SIZED[member.type], self._dice)
        return self.structure(member.type, depth + 1)


def with_unknown_tags(value: Values, message: MessageSpec, version: int, choices: RandomChoices) -> Values:
    """Return the value with tagged fields that the definition does not have, if the version is flexible."""
    if version not in message.flexible:
        return value
    known = [member.tag for member in message.members if member.tag is not None]
    first = max(known, default=-1) + 1 + choices.below(100)
    tags = (first, *((first + 1 + choices.below(1 << 20),) if choices.chance(30) else ()))
    return {**value, UNKNOWN: tuple({"tag": tag, "data": choices.octets(choices.pick((0, 1, 5, 127)))} for tag in tags)}


def message_of_another_version(message: MessageSpec, version: int, choices: RandomChoices, scalar: Scalar) -> object:
    """Return a value of another version of a message, near or far, to be written in this one.

    A writer drops or rejects the fields that this version lacks, and writes fields that the other version lacks at
    their default. Ellipsis if the message has no other version.
    """
    others = [other for other in message.valid if other != version]
    if not others:
        return ...
    near = [other for other in others if abs(other - version) == 1]
    drawn = draw_message(message, choices.pick(near if choices.chance(50) else others), choices, scalar)
    return completed(message, version, writable(message, version, drawn) if choices.chance(70) else drawn)


def completed(message: MessageSpec, version: int, value: Values, name: str = "") -> Values:
    """Return a structure with all untagged fields of the version, because a library may have other defaults."""
    whole = dict(value)
    for member in message.structures[name or message.name]:
        if version not in member.versions:
            continue
        if member.name not in whole and version not in member.tagged:
            whole[member.name] = default_of(message, member)
        held = whole.get(member.name)
        if held is not None and member.type in message.structures:
            parts = held if isinstance(held, tuple) else (held,)
            parts = tuple(completed(message, version, part, member.type) for part in parts)
            whole[member.name] = parts if isinstance(held, tuple) else parts[0]
    return whole


def writable(message: MessageSpec, version: int, value: Values, name: str = "") -> Values:
    """Return a structure in which fields that the version lacks and that no writer may drop are at their default."""
    written: Values = {}
    for member in message.structures[name or message.name]:
        if member.name not in value:
            continue
        held = value[member.name]
        if version not in member.versions and not member.ignorable:
            held = default_of(message, member)
        if version in member.versions and member.type in message.structures:
            if isinstance(held, tuple):
                held = tuple(writable(message, version, one, member.type) for one in held)
            elif held is not None:
                held = writable(message, version, held, member.type)
        written[member.name] = held
    return written


def unencodable_message(message: MessageSpec, version: int, choices: RandomChoices) -> object:
    """Return a value of a message that this version cannot write; Ellipsis if the definition permits none.

    Either a field that cannot be null is null, or a field is set that the version lacks and no writer may drop.
    """
    wrong: list[Values] = []
    for member in message.members:
        there = version in member.versions
        if there and version not in member.nullable and (member.is_array or member.type in SIZED or member.is_struct):
            wrong.append({member.name: None})
        other = _OTHERS.get(member.type) if not member.is_array else None
        if not there and not member.ignorable and other is not None:
            wrong += [{member.name: one} for one in other if one != member.default][:1]
    return completed(message, version, choices.pick(tuple(wrong))) if wrong else ...


_OTHERS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), (5, 6)),
    **{"bool": (True, False), "string": ("x", "y"), "uuid": (bytes(15) + b"\1",)},
}
"""Values, at least one of which is not the default."""
