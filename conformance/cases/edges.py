"""Values of a message for each of its versions: a plain one, and those with one field at one of its edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from conformance.cases.model import Value
from conformance.codec.json_notation import ListOf
from conformance.codec.message_spec import FIXED, SCALARS, SIZED, UNKNOWN, Member, Message, default_of
from conformance.codec.primitives import PRIMITIVES

KINDS = ("edges", "null", "tags")
"""Which edges: the least and the most, empty and many; null, where a field may be null; tags that nobody knows."""

LONG = 300
"""Characters of a long text: its compact length takes two bytes."""
_MANY = 3
_UNKNOWN = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": (1 << 31) - 1, "data": b""})


class Values(Struct, frozen=True):
    """A message in one version, with what stands in its plain value."""

    message: Message
    version: int
    given: Mapping[str, object]
    """By the names of fields, in notation; other fields have something that is not their default."""
    fixed: frozenset[str] = frozenset()
    """The names of fields that no edge is tried of, and single edges that are not tried."""

    def plain(self, structure: str = "") -> dict[str, Value]:
        """The value of the message, or of a structure of it: one element in each array."""
        return {member.name: self._plain(member) for member in self._members(structure)}

    def varied(self, kind: str) -> Iterator[tuple[str, dict[str, Value]]]:
        """Each edge of a kind: what is at it, and the value that is plain but for that."""
        yield from self._varied(self.message.name, self.plain(), kind)

    def _members(self, structure: str) -> list[Member]:
        members = self.message.structures[structure or self.message.name]
        return [member for member in members if self.version in member.versions]

    def _plain(self, member: Member) -> Value:
        if member.name in self.given and member.type not in SCALARS:
            return default_of(self.message, member)
        if member.type not in SCALARS:
            inner = self.plain(member.type)
            return (inner,) if member.is_array else inner
        notation = PRIMITIVES[FIXED.get(member.type) or SIZED[member.type]].notation
        if member.name in self.given:
            return (ListOf(notation) if member.is_array else notation).parse(self.given[member.name])
        if member.is_array:
            return (_PLAIN.get(member.type, 1),)
        return _PLAIN.get(member.type, 1) if member.type in SIZED else default_of(self.message, member)

    def _varied(self, structure: str, value: dict[str, Value], kind: str) -> Iterator[tuple[str, dict[str, Value]]]:
        if kind == "tags" and self.version in self.message.flexible:
            yield "unknown tags", {**value, UNKNOWN: _UNKNOWN}
        for member in self._members(structure):
            if member.name in self.fixed:
                continue
            for edge, at_edge in self._edges(member, value[member.name], kind):
                if f"{member.name}{edge}" not in self.fixed:
                    yield f"{member.name}{edge}", {**value, member.name: at_edge}

    def _edges(self, member: Member, plain: Value, kind: str) -> Iterator[tuple[str, Value]]:
        """The edges of a field, and those inside of it, each with what it is called."""
        if kind == "null" and self.version in member.nullable:
            yield " null", None
        if kind == "edges" and member.is_array:
            yield from ((" empty", ()), (" many", plain * _MANY))
        elif kind == "edges" and member.type in SCALARS:
            yield from _scalar_edges(member, plain)
        if member.type not in SCALARS:
            inner = plain[0] if member.is_array else plain
            for path, changed in self._varied(member.type, inner, kind):
                yield f".{path}", (changed,) if member.is_array else changed


_PLAIN: dict[str, Value] = {"string": "conformance", "bytes": b"conformance", "records": b"", "uuid": bytes(16)}


def _scalar_edges(member: Member, plain: Value) -> Iterator[tuple[str, Value]]:
    if member.type in SIZED:
        long = "conformance-".ljust(LONG, "x")
        yield from (
            ((" empty", ""), (" long", long))
            if member.type == "string"
            else ((" empty", b""), (" long", long.encode()))
        )
    elif member.type == "uuid":
        yield from ((" zero", bytes(16)), (" ones", b"\xff" * 16))
    elif member.type == "bool":
        yield f" {not plain}".lower(), not plain
    else:
        edges = PRIMITIVES[FIXED[member.type]].edges
        yield from ((" least", edges[0]), (" most", edges[-1]))
