"""What became of a message of an older set: its structures and fields, each beside the one in its place now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct, field

from conformance.codec.message_spec import NONE, FieldSpec, MessageSpec, VersionRange
from conformance.definitions.lint_rules import PLAIN, commons_of, joined, over
from conformance.definitions.loader import Definitions


class MessageChange(Struct, frozen=True):
    """A message of an older set, and what became of it."""

    old: MessageSpec
    new: MessageSpec
    released: VersionRange
    """The versions of the old one, without one that it calls unstable."""

    @property
    def kept(self) -> VersionRange:
        """The released versions that the new one has as well."""
        return over(self.released, self.new.valid)


@dataclass(frozen=True)
class StructureChange:
    """A structure of an older message, and the one in its place; the message itself is one."""

    message: MessageChange
    old: tuple[FieldSpec, ...]
    new: tuple[FieldSpec, ...]
    kept: VersionRange
    """The versions in which bytes of both were written: in these nothing may change."""

    @cached_property
    def pairs(self) -> list[tuple[FieldSpec, FieldSpec]]:
        """Fields with what became of them, in the old order."""
        names = {member.name: member for member in self.new}
        pairs = {member.name: names[member.name] for member in self.old if member.name in names}
        lost = [member for member in self.old if member.name not in pairs]
        fresh = [member for member in self.new if member.name not in pairs]
        for member in lost:
            other = next((one for one in fresh if self._is_renamed(member, one)), None)
            if other is not None:
                pairs[member.name] = other
                fresh.remove(other)
        return [(member, pairs[member.name]) for member in self.old if member.name in pairs]

    def _is_renamed(self, old: FieldSpec, new: FieldSpec) -> bool:
        there = bool(old.versions.shared(self.kept))
        return there and old.tag is None and new.tag is None and is_written_alike(self.message, old, new, self.kept)

    @property
    def gone(self) -> list[FieldSpec]:
        """Fields of the old one that the new one does not have under any name."""
        kept = {old.name for old, _ in self.pairs}
        return [member for member in self.old if member.name not in kept]

    @property
    def fresh(self) -> list[FieldSpec]:
        """Fields of the new one that the old one did not have under any name."""
        kept = {new.name for _, new in self.pairs}
        return [member for member in self.new if member.name not in kept]


class FieldChange(Struct, frozen=True):
    """A field of an older message, and the one in its place."""

    message: MessageChange
    old: FieldSpec
    new: FieldSpec
    kept: VersionRange = field(default=NONE)
    """As of the structure around it."""

    @property
    def shared(self) -> VersionRange:
        """The kept versions in which both exist."""
        return over(over(self.kept, self.old.versions), self.new.versions)


def released_versions(message: MessageSpec, old: Definitions) -> VersionRange:
    """The versions of a message but for one that it, or the request that it answers, calls unstable."""
    request = old.messages.get(message.name.removesuffix("Response") + "Request", message)
    unstable = any(
        one.source.get("latestVersionUnstable") is True and one.valid.high == message.valid.high
        for one in (message, request)
    )
    return VersionRange(message.valid.low, message.valid.high - unstable)


def successor_of(message: MessageSpec, new: Definitions) -> MessageSpec | None:
    """The message of that name, or the one that has its place on the wire now."""
    if message.name in new.messages or message.api_key is None:
        return new.messages.get(message.name)
    place = (message.kind, message.api_key)
    return next((one for one in new.messages.values() if (one.kind, one.api_key) == place), None)


def structures_of(evolution: MessageChange) -> Iterator[tuple[str, StructureChange]]:
    """The message and the structures inside it, each beside the old one, once for the versions it is there in."""
    commons = commons_of(evolution.new)
    seen: set[tuple[str, str, VersionRange]] = set()
    todo = [("", evolution.old.name, evolution.new.name, evolution.kept)]
    while todo:
        path, old, now, kept = todo.pop(0)
        if (old, now, kept) in seen:
            continue
        seen.add((old, now, kept))
        change = StructureChange(evolution, evolution.old.structures[old], evolution.new.structures[now], kept)
        yield path, change
        for one, other in change.pairs:
            if PLAIN.isdisjoint((one.type, other.type)):
                inner = other.type if other.type in commons else joined(path, other.name)
                todo.append((inner, one.type, other.type, FieldChange(evolution, one, other, kept).shared))


def is_written_alike(message: MessageChange, old: FieldSpec, new: FieldSpec, kept: VersionRange) -> bool:
    """Whether two fields are there in the same versions, and written alike in them."""
    shared = over(old.versions, kept)
    looks = ((old, old.versions, old.nullable), (new, new.versions, new.nullable))
    one, other = ((m.is_array, m.rigid, over(there, kept), over(null, shared)) for m, there, null in looks)
    if one != other:
        return False
    if {old.type, new.type} & PLAIN:
        return old.type == new.type
    inner = (message.old.structures[old.type], message.new.structures[new.type])
    left, right = ([member for member in members if over(member.versions, shared)] for members in inner)
    return len(left) == len(right) and all(
        a.tag == b.tag and over(a.tagged, shared) == over(b.tagged, shared) and is_written_alike(message, a, b, shared)
        for a, b in zip(left, right, strict=True)
    )
