"""Mutations: each row damages valid bytes at a span that the reference records, in any layout.

After most damage the lengths around it and the checksum are corrected in every layer; otherwise only the checksum
would be judged. The reference computes the expectation for the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from conformance import codec
from conformance.codec import Span
from conformance.codec.log import extents
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded._repair import GROUPS, IN_ENTRIES, ByteEdit, MutationSubject, apply, lay_out

# --- the rows -----------------------------------------------------------------------------------------


def _replace(span: Span, new: bytes, *, seal: bool = True) -> ByteEdit:
    return ByteEdit(span.layer, span.start, span.stop, new, seal)


def _written(span: Span, number: int) -> ByteEdit | None:
    """Write another number in a span; None if its type does not have the number."""
    try:
        return _replace(span, codec.encode(span.kind, number))
    except codec.Unencodable:
        return None


def _to_edge(_: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Replace a number by one of the edges of its type."""
    return _replace(span, codec.encode(span.kind, choices.pick(codec.wire(span.kind).edges)))


def _nudged(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit | None:
    """Make a number larger or smaller by one."""
    return _written(span, codec.decode(span.kind, subject.raw(span)).value + choices.pick((-1, 1)))


def _hostile_length(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit | None:
    """Make a length or count negative, or larger than all existing data."""
    left = len(subject.layers[span.layer]) - span.stop
    return _written(span, choices.pick((-1, -2, 13, left + 1, left * 2, 1 << 20, (1 << 31) - 1, -(1 << 31))))


def _padded(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit | None:
    """Write a varint in more bytes than it needs, within its limit."""
    size, limit = span.stop - span.start, GROUPS[span.kind]
    return _replace(span, _stretched(subject.raw(span), choices.between(size + 1, limit))) if size < limit else None


def _overlong(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Write a varint in more bytes than its limit."""
    return _replace(span, _stretched(subject.raw(span), GROUPS[span.kind] + choices.pick((1, 1, 2, 5))))


def _excess(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Set bits beyond the range of the type in the last byte of a varint's longest form."""
    limit = GROUPS[span.kind]
    full = _stretched(subject.raw(span), limit) if span.stop - span.start < limit else subject.raw(span)
    return _replace(span, full[:-1] + bytes((full[-1] | choices.pick((0x10, 0x20, 0x40, 0x70)),)))


def _stretched(raw: bytes, size: int) -> bytes:
    body = bytes(byte | 0x80 for byte in raw)
    return body + b"\x80" * (size - len(raw) - 1) + b"\0"


def _cut(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """End the bytes at the boundary of a field, or inside of it."""
    at = choices.pick((span.start, span.stop, choices.between(span.start, span.stop)))
    return ByteEdit(span.layer, at, len(subject.layers[span.layer]), b"", seal=span.layer > 0 or choices.chance(30))


def _flipped(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Flip one bit of a field."""
    raw = bytearray(subject.raw(span)[:64])
    raw[choices.below(len(raw))] ^= 1 << choices.below(8)
    return ByteEdit(span.layer, span.start, span.start + len(raw), bytes(raw), seal=choices.chance(70))


def _dropped(_: MutationSubject, span: Span, _choices: RandomChoices) -> ByteEdit:
    """Remove a field or element."""
    return _replace(span, b"")


def _doubled(subject: MutationSubject, span: Span, _: RandomChoices) -> ByteEdit:
    """Duplicate a field or element."""
    return _replace(span, subject.raw(span) * 2)


def _swapped(subject: MutationSubject, span: Span, _: RandomChoices) -> ByteEdit:
    """Swap two neighbours."""
    second = next(one for one in subject.pieces() if (one.layer, one.start) == (span.layer, span.stop))
    return ByteEdit(span.layer, span.start, second.stop, subject.raw(second) + subject.raw(span))


def _grown(_: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Add bytes at the end of a field, an element or the whole."""
    return ByteEdit(span.layer, span.stop, span.stop, choices.octets(choices.pick((1, 1, 4))))


def _spliced(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Replace the bytes from a field on by those of another value, from the same field on, or from any."""
    other = subject.other or subject
    starts = _starts(other)
    alike = [one for one in starts if place_of(one) == place_of(span) and one != span] if choices.chance(70) else []
    begin = choices.pick(alike or starts).start if starts else 0
    return ByteEdit(0, span.start, _end(subject, span.start), other.layers[0][begin : _end(other, begin)])


def _end(subject: MutationSubject, at: int) -> int:
    """Return the end of the entry around a position, or of the whole."""
    layer = subject.layers[0]
    if subject.name not in IN_ENTRIES or subject.name == "RECORD_BATCH":
        return len(layer)
    return next((stop for start, stop in extents(layer) if start <= at < stop), len(layer))


def _checksum(_: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Make the checksum wrong."""
    return _replace(span, choices.octets(4), seal=False)


def _recoded(subject: MutationSubject, span: Span, choices: RandomChoices) -> ByteEdit:
    """Set another codec in the attributes than that of the payload, or a codec that does not exist."""
    return ByteEdit(0, span.stop - 1, span.stop, bytes((subject.raw(span)[-1] & 0xF8 | choices.below(8),)))


def _checksums(subject: MutationSubject) -> list[Span]:
    return [span for span in subject.numbers() if span.path.rpartition(".")[2] == "crc"]


def _attributes(subject: MutationSubject) -> list[Span]:
    if subject.name not in IN_ENTRIES:
        return []
    return [span for span in subject.numbers() if span.layer == 0 and _ENTRY_ATTRIBUTES.match(span.path)]


def _neighbours(subject: MutationSubject) -> list[Span]:
    """Return the spans that another span follows directly."""
    pieces = subject.pieces()
    starts = {(span.layer, span.start) for span in pieces}
    return [span for span in pieces if (span.layer, span.stop) in starts]


def _starts(subject: MutationSubject) -> list[Span]:
    """Return the spans at which one value can continue as another."""
    return [span for span in subject.pieces() if not span.layer and span.start]


_ENTRY_ATTRIBUTES = re.compile(r"((batches)?\[\d+\]\.)?attributes\Z")
"""The path of the attributes of an entry, but not of a record."""


class Mutation(Struct, frozen=True):
    """A kind of damage."""

    where: Callable[[MutationSubject], list[Span]]
    """Returns the spans that it can damage."""
    do: Callable[[MutationSubject, Span, RandomChoices], ByteEdit | None]
    """Damages one of them; None if its bytes do not allow it."""


MUTATIONS: dict[str, Mutation] = {
    "to-edge": Mutation(MutationSubject.numbers, _to_edge),
    "nudged": Mutation(MutationSubject.numbers, _nudged),
    "miscounted": Mutation(MutationSubject.lengths, _nudged),
    "hostile-length": Mutation(MutationSubject.lengths, _hostile_length),
    "padded-varint": Mutation(MutationSubject.varints, _padded),
    "overlong-varint": Mutation(MutationSubject.varints, _overlong),
    "excess-bits": Mutation(MutationSubject.varints, _excess),
    "cut": Mutation(MutationSubject.pieces, _cut),
    "bit-flipped": Mutation(MutationSubject.pieces, _flipped),
    "dropped": Mutation(MutationSubject.pieces, _dropped),
    "doubled": Mutation(MutationSubject.pieces, _doubled),
    "swapped": Mutation(_neighbours, _swapped),
    "grown": Mutation(MutationSubject.pieces, _grown),
    "spliced": Mutation(_starts, _spliced),
    "checksum-broken": Mutation(_checksums, _checksum),
    "recoded": Mutation(_attributes, _recoded),
}
"""One row per mutation: name to damage. To add a mutation, add a row."""


class FieldPath(NamedTuple):
    """A field of a layout, for any index, in the input or in a decompressed stream."""

    is_inside: bool
    path: str
    kind: str


def place_of(span: Span) -> FieldPath:
    """Return the field of a span."""
    return FieldPath(span.layer > 0, _field(span.path), span.kind)


@lru_cache(maxsize=1 << 14)
def _field(path: str) -> str:
    """Return a path without its indexes. The cache helps, because values of a type have the same paths."""
    return _INDEX.sub("[]", path)


_INDEX = re.compile(r"\[\d+\]")
_TRIES = 8


def mutate(type_: codec.WireType | str, data: bytes, choices: RandomChoices) -> tuple[bytes, str]:
    """Return damaged bytes and the name of the mutation; mutations that these bytes do not allow are skipped."""
    subject = lay_out(type_, data)
    for _ in range(_TRIES):
        row = choices.pick(tuple(MUTATIONS))
        damaged = damaged_at(subject, row, MUTATIONS[row].where(subject), choices)
        if damaged is not None and damaged != data:
            return damaged, row
    return data + b"\0", "grown"


def spans_of(subject: MutationSubject, place: FieldPath, row: str) -> list[Span]:
    """Return the spans of a field that a mutation can damage."""
    return [
        span
        for span in MUTATIONS[row].where(subject)
        if span.kind == place.kind and (span.layer > 0) == place.is_inside and _field(span.path) == place.path
    ]


def damaged_at(subject: MutationSubject, row: str, spans: Sequence[Span], choices: RandomChoices) -> bytes | None:
    """Return the bytes with one mutation at one of some spans; None if the spans do not allow it."""
    damage = MUTATIONS[row].do(subject, choices.pick(spans), choices) if spans else None
    return None if damage is None else apply(subject, damage)
