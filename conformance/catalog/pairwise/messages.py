"""The covering set of messages: every version of every message, its fields null, empty, one, many and at their edges.

Each field of a value has another of its shapes, in turn; so every shape of every kind of field meets every version,
flexible or not, and the field in front of it and behind it in other shapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance import codec
from conformance.cases.model import Value
from conformance.catalog.pairwise import entries
from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.codec.builders import START_MS, batch_bytes
from conformance.codec.message_spec import FIXED, SCALARS, SIZED, UNKNOWN, FieldSpec, MessageSpec, default_of, type_name
from conformance.codec.primitives import PRIMITIVES
from conformance.definitions.loader import shipped_types

_TURNS = ("0", "1", "2", "3")
"""By how many shapes each field is ahead of its first one."""
_WITH_UNKNOWN_TAGS = _TURNS[-1]
_TAGS = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": (1 << 31) - 2, "data": b""})
"""Apache Kafka's generated classes use the tag after these for a tag that is not there."""
_UUID = bytes(range(16, 32))
_ERRORS, _TIMES = (0, 3, 6), (-1, 0, START_MS)
"""Numbers that libraries may read into types of their own, which hold no others."""
_FLEXIBLE = " flexible"
_DEEP = 2
"""From here on an array has two elements at most."""
_TEXTS = ("", "a", "x" * 127, "\u20ac" * 43)
"""Two of these have a compact length of two bytes."""


def messages() -> dict[str, MessageSpec]:
    """The messages that the suite ships, by name."""
    return {name: message for name, message in shipped_types().messages.items() if message.valid}


def table() -> FactorTable:
    """Every message with every version it has, its flexible versions apart, and the turn of its fields."""
    levels = {
        f"{name}{suffix}": tuple(str(version) for version in message.valid if (version in message.flexible) == flexible)
        for name, message in messages().items()
        for suffix, flexible in (("", False), (_FLEXIBLE, True))
    }
    levels = {name: versions for name, versions in levels.items() if versions}
    every = sorted({int(version) for versions in levels.values() for version in versions})
    return FactorTable(
        {"message": tuple(levels), "version": tuple(map(str, every)), "turn": _TURNS},
        tuple(
            Constraint(("message", name), {"version": versions}, f"it is not a version of {name}")
            for name, versions in levels.items()
        ),
    )


def asked(row: Row, number: int) -> Iterator[RowRequest]:
    """The message of a row is decoded and encoded."""
    del number
    message, version = messages()[row["message"].removesuffix(_FLEXIBLE)], int(row["version"])
    value = RotatingFieldValues(message, version).structure(message.name, int(row["turn"]))
    if row["turn"] == _WITH_UNKNOWN_TAGS and version in message.flexible:
        value = {**value, UNKNOWN: _TAGS}
    yield from both_ways(type_name(message.name, version), value)


def both_ways(name: str, value: Value) -> Iterator[RowRequest]:
    """The value of a message, to be decoded and to be encoded."""
    wire = shipped_types().wire(name)
    yield RowRequest("", "decode", name, {"hex": codec.encode(wire, value).hex()})
    yield RowRequest(":encode", "encode", name, {"value": wire.notation.render(value)})


def may_be_null(member: FieldSpec, version: int) -> bool:
    """Whether a field that a version has may be null in it; a UUID by itself has no null."""
    return version in member.nullable and (member.is_array or member.type != "uuid")


class RotatingFieldValues:
    """Values of a message in a version whose fields have their shapes in turn."""

    def __init__(self, message: MessageSpec, version: int) -> None:
        self._message, self._version = message, version

    def structure(self, name: str, turn: int, depth: int = 0) -> dict[str, Value]:
        """A value of a structure; each field is one shape further than the one before it."""
        members = [member for member in self._message.structures[name] if self._version in member.versions]
        return {member.name: self._member(member, turn + at, depth) for at, member in enumerate(members)}

    def _member(self, member: FieldSpec, turn: int, depth: int) -> Value:
        """A field: null where it may be, or empty, one and many elements; a tagged structure also at its default."""
        shapes: list[Value] = []
        if may_be_null(member, self._version):
            shapes.append(None)
        if self._version in member.tagged and not (member.is_array or member.type in SCALARS):
            shapes.append(default_of(self._message, member))
        if member.is_array:
            counts = (0, 1, 2 if depth >= _DEEP else 3)
            shapes += (tuple(self._one(member, turn + at, depth + 1) for at in range(count)) for count in counts)
        else:
            shapes += self._several(member, turn, depth)
        return shapes[turn % len(shapes)]

    def _one(self, member: FieldSpec, turn: int, depth: int) -> Value:
        several = self._several(member, turn, depth)
        return several[turn % len(several)]

    def _several(self, member: FieldSpec, turn: int, depth: int) -> list[Value]:
        """What stands in a field or an element that is there."""
        if "ErrorCode" in member.name:
            return [*_ERRORS]
        if "Time" in member.name and member.type == "int64":
            return [*_TIMES]
        if member.type in FIXED:
            edges = PRIMITIVES[FIXED[member.type]].edges
            plain = edges[0] if member.is_array else default_of(self._message, member)
            return [*dict.fromkeys((plain, edges[0], edges[-1], *([_UUID] if member.type == "uuid" else [])))]
        if member.type == "records":
            return [b"", batch_bytes(entries.batch(0, [{}, {"key": None}]))]
        if member.type in SIZED:
            return [*_TEXTS] if member.type == "string" else [text.encode() for text in _TEXTS]
        return [self.structure(member.type, turn, depth + 1)]
