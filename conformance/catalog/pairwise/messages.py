"""The covering set of messages: every version of every message, with fields null, empty, one, many and at their limits.

Each next field of a value has the next of its forms. So every form of every kind of field occurs in every version,
flexible or not, next to fields in other forms.
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
"""The offset of the first field in the cycle of forms."""
_WITH_UNKNOWN_TAGS = _TURNS[-1]
_TAGS = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": (1 << 31) - 2, "data": b""})
"""For a missing tag, Apache Kafka's generated classes use the tag after these."""
_UUID = bytes(range(16, 32))
_ERRORS, _TIMES = (0, 3, 6), (-1, 0, START_MS)
"""Numbers that libraries may convert to enums or times, which reject others."""
_FLEXIBLE = " flexible"
_SHORT_ARRAY_DEPTH = 2
"""The depth from which on an array has at most two elements."""
_TEXTS = ("", "a", "x" * 127, "\u20ac" * 43)
"""Two of these have a compact length of two bytes."""


def messages() -> dict[str, MessageSpec]:
    """Return the messages that the suite ships, by name."""
    return {name: message for name, message in shipped_types().messages.items() if message.valid}


def table() -> FactorTable:
    """Return the factors: every message with its versions (flexible ones separately), and the turn of its fields."""
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


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield requests to decode and to encode the message of a row."""
    del number
    message, version = messages()[row["message"].removesuffix(_FLEXIBLE)], int(row["version"])
    value = RotatingFieldValues(message, version).structure(message.name, int(row["turn"]))
    if row["turn"] == _WITH_UNKNOWN_TAGS and version in message.flexible:
        value = {**value, UNKNOWN: _TAGS}
    yield from both_ways(type_name(message.name, version), value)


def both_ways(name: str, value: Value) -> Iterator[RowRequest]:
    """Yield requests to decode and to encode a value of a message."""
    wire = shipped_types().wire(name)
    yield RowRequest("", "decode", name, {"hex": codec.encode(wire, value).hex()})
    yield RowRequest(":encode", "encode", name, {"value": wire.notation.render(value)})


def may_be_null(member: FieldSpec, version: int) -> bool:
    """Return whether a field may be null in a version that has it; a single UUID has no null."""
    return version in member.nullable and (member.is_array or member.type != "uuid")


class RotatingFieldValues:
    """Makes values of a message in a version; their fields cycle through their forms."""

    def __init__(self, message: MessageSpec, version: int) -> None:
        self._message, self._version = message, version

    def structure(self, name: str, turn: int, depth: int = 0) -> dict[str, Value]:
        """Return a value of a structure; each field is one form ahead of the one before it."""
        members = [member for member in self._message.structures[name] if self._version in member.versions]
        return {member.name: self._member(member, turn + at, depth) for at, member in enumerate(members)}

    def _member(self, member: FieldSpec, turn: int, depth: int) -> Value:
        """Return a field: null if possible, or empty, one and many elements; a tagged structure also at its default."""
        shapes: list[Value] = []
        if may_be_null(member, self._version):
            shapes.append(None)
        if self._version in member.tagged and not (member.is_array or member.type in SCALARS):
            shapes.append(default_of(self._message, member))
        if member.is_array:
            counts = (0, 1, 2 if depth >= _SHORT_ARRAY_DEPTH else 3)
            shapes += (tuple(self._one(member, turn + at, depth + 1) for at in range(count)) for count in counts)
        else:
            shapes += self._values(member, turn, depth)
        return shapes[turn % len(shapes)]

    def _one(self, member: FieldSpec, turn: int, depth: int) -> Value:
        values = self._values(member, turn, depth)
        return values[turn % len(values)]

    def _values(self, member: FieldSpec, turn: int, depth: int) -> list[Value]:
        """Return the values of a present field or element."""
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
