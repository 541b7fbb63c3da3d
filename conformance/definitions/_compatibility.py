"""Changes of messages since an older set: each old structure and field with its successor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct, field

from conformance.codec.message_spec import NONE, FieldSpec, MessageSpec, VersionRange
from conformance.definitions.lint_rules import PLAIN, commons_of, joined, over
from conformance.definitions.loader import Definitions


class MessageChange(Struct, frozen=True):
    """A message of an older set and its successor."""

    old: MessageSpec
    new: MessageSpec
    released: VersionRange
    """The versions of the old message without an unstable one."""

    @property
    def kept(self) -> VersionRange:
        """The released versions that the new message also has."""
        return over(self.released, self.new.valid)


@dataclass(frozen=True)
class StructureChange:
    """A structure of an older message (or the message itself) and its successor."""

    message: MessageChange
    old: tuple[FieldSpec, ...]
    new: tuple[FieldSpec, ...]
    kept: VersionRange
    """The versions in which both were written; these must not change."""

    @cached_property
    def pairs(self) -> list[tuple[FieldSpec, FieldSpec]]:
        """The old fields with their successors, in the old order."""
        names = {member.name: member for member in self.new}
        pairs = {member.name: names[member.name] for member in self.old if member.name in names}
        # A renamed field has the same bytes on the wire, so the bytes identify it.
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
        """Old fields without a successor under any name."""
        kept = {old.name for old, _ in self.pairs}
        return [member for member in self.old if member.name not in kept]

    @property
    def fresh(self) -> list[FieldSpec]:
        """New fields without a predecessor under any name."""
        kept = {new.name for _, new in self.pairs}
        return [member for member in self.new if member.name not in kept]


class FieldChange(Struct, frozen=True):
    """A field of an older message and its successor."""

    message: MessageChange
    old: FieldSpec
    new: FieldSpec
    kept: VersionRange = field(default=NONE)
    """The kept versions of the surrounding structure."""

    @property
    def shared(self) -> VersionRange:
        """The kept versions in which both fields exist."""
        return over(over(self.kept, self.old.versions), self.new.versions)


def released_versions(message: MessageSpec, old: Definitions) -> VersionRange:
    """Return the versions of a message, except one that it (or its request) marks as unstable."""
    request = old.messages.get(message.name.removesuffix("Response") + "Request", message)
    unstable = any(
        one.source.get("latestVersionUnstable") is True and one.valid.high == message.valid.high
        for one in (message, request)
    )
    return VersionRange(message.valid.low, message.valid.high - unstable)


def successor_of(message: MessageSpec, new: Definitions) -> MessageSpec | None:
    """Return the message with the same name, or the one with the same API key and kind."""
    if message.name in new.messages or message.api_key is None:
        return new.messages.get(message.name)
    place = (message.kind, message.api_key)
    return next((one for one in new.messages.values() if (one.kind, one.api_key) == place), None)


def structures_of(evolution: MessageChange) -> Iterator[tuple[str, StructureChange]]:
    """Yield the message and its inner structures with their predecessors, once for each set of versions."""
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
    """Return True if two fields exist in the same versions and have the same form there."""
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
