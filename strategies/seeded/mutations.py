"""Mutations: each row damages valid bytes at a span that the reference records, whatever the layout.

After most damage the lengths around it and the checksum are made right again, through every layer, so that the damage
is judged and not the checksum. The reference says what a target must make of the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from conformance import codec
from conformance.codec import Span
from conformance.strategies.seeded.choices import Choices
from conformance.strategies.seeded.repair import GROUPS, IN_ENTRIES, Damage, Subject, apply, lay_out

# --- the rows -----------------------------------------------------------------------------------------

Row = Callable[[Subject, Choices], Damage | None]


def _replace(span: Span, new: bytes, *, seal: bool = True) -> Damage:
    return Damage(span.layer, span.start, span.stop, new, seal)


def _written(kind: str, number: int) -> bytes | None:
    try:
        return codec.encode(kind, number)
    except codec.Unencodable:
        return None


def _to_edge(subject: Subject, choices: Choices) -> Damage | None:
    """A number becomes one of the edges of its type."""
    span = _any(subject.numbers(), choices)
    return _replace(span, codec.encode(span.kind, choices.pick(codec.wire(span.kind).edges))) if span else None


def _nudged(subject: Subject, choices: Choices) -> Damage | None:
    """A length, count or other number is one too many or too few."""
    span = _any(subject.lengths() if choices.chance(60) else subject.numbers(), choices)
    if span is None:
        return None
    new = _written(span.kind, codec.decode(span.kind, subject.raw(span)).value + choices.pick((-1, 1)))
    return None if new is None else _replace(span, new)


def _hostile_length(subject: Subject, choices: Choices) -> Damage | None:
    """A length or count becomes negative, or larger than anything that is there."""
    span = _any(subject.lengths(), choices)
    if span is None:
        return None
    left = len(subject.layers[span.layer]) - span.stop
    new = _written(span.kind, choices.pick((-1, -2, 13, left + 1, left * 2, 1 << 20, (1 << 31) - 1, -(1 << 31))))
    return None if new is None else _replace(span, new)


def _padded(subject: Subject, choices: Choices) -> Damage | None:
    """A varint takes more bytes than it needs, within its limit."""
    span = _any(subject.varints(), choices)
    if span is None or span.stop - span.start >= GROUPS[span.kind]:
        return None
    return _replace(span, _stretched(subject.raw(span), choices.between(span.stop - span.start + 1, GROUPS[span.kind])))


def _overlong(subject: Subject, choices: Choices) -> Damage | None:
    """A varint runs on beyond its limit."""
    span = _any(subject.varints(), choices)
    return (
        _replace(span, _stretched(subject.raw(span), GROUPS[span.kind] + choices.pick((1, 1, 2, 5)))) if span else None
    )


def _excess(subject: Subject, choices: Choices) -> Damage | None:
    """The last byte of a varint in its longest form has bits beyond the range of the type."""
    span = _any(subject.varints(), choices)
    if span is None:
        return None
    limit = GROUPS[span.kind]
    full = _stretched(subject.raw(span), limit) if span.stop - span.start < limit else subject.raw(span)
    return _replace(span, full[:-1] + bytes((full[-1] | choices.pick((0x10, 0x20, 0x40, 0x70)),)))


def _stretched(raw: bytes, size: int) -> bytes:
    body = bytes(byte | 0x80 for byte in raw)
    return body + b"\x80" * (size - len(raw) - 1) + b"\0"


def _cut(subject: Subject, choices: Choices) -> Damage | None:
    """The bytes end at the boundary of a field, or within it."""
    span = _any(subject.pieces(), choices)
    if span is None:
        return None
    at = choices.pick((span.start, span.stop, choices.between(span.start, span.stop)))
    return Damage(span.layer, at, len(subject.layers[span.layer]), b"", seal=span.layer > 0 or choices.chance(30))


def _flipped(subject: Subject, choices: Choices) -> Damage | None:
    """One bit of a field is the other way round."""
    span = _any(subject.pieces(), choices)
    if span is None:
        return None
    raw = bytearray(subject.raw(span)[:64])
    raw[choices.below(len(raw))] ^= 1 << choices.below(8)
    return Damage(span.layer, span.start, span.start + len(raw), bytes(raw), seal=choices.chance(70))


def _dropped(subject: Subject, choices: Choices) -> Damage | None:
    """A field or element is missing."""
    span = _any(subject.pieces(), choices)
    return _replace(span, b"") if span else None


def _doubled(subject: Subject, choices: Choices) -> Damage | None:
    """A field or element stands twice."""
    span = _any(subject.pieces(), choices)
    return _replace(span, subject.raw(span) * 2) if span else None


def _swapped(subject: Subject, choices: Choices) -> Damage | None:
    """Two neighbours change places."""
    first = _any(subject.pieces(), choices)
    if first is None:
        return None
    second = next((s for s in subject.pieces() if s.layer == first.layer and s.start == first.stop), None)
    if second is None:
        return None
    return Damage(first.layer, first.start, second.stop, subject.raw(second) + subject.raw(first))


def _grown(subject: Subject, choices: Choices) -> Damage | None:
    """There are more bytes than there should be at the end of a field, an element or the whole."""
    span = _any(subject.pieces(), choices)
    return Damage(span.layer, span.stop, span.stop, choices.octets(choices.pick((1, 1, 4)))) if span else None


def _checksum(subject: Subject, choices: Choices) -> Damage | None:
    """The checksum is wrong."""
    spans = [span for span in subject.numbers() if span.path.rpartition(".")[2] == "crc"]
    span = _any(spans, choices)
    return _replace(span, choices.octets(4), seal=False) if span else None


def _recoded(subject: Subject, choices: Choices) -> Damage | None:
    """The attributes name another codec than that of the payload, or a codec that does not exist."""
    span = _any([span for span in subject.numbers() if span.layer == 0 and _ENTRY_ATTRIBUTES.match(span.path)], choices)
    if span is None or subject.name not in IN_ENTRIES:
        return None
    return Damage(0, span.stop - 1, span.stop, bytes((subject.raw(span)[-1] & 0xF8 | choices.below(8),)))


_ENTRY_ATTRIBUTES = re.compile(r"((batches)?\[\d+\]\.)?attributes\Z")
"""The path of the attributes of an entry, not those of a record."""


def _any(spans: list[Span], choices: Choices) -> Span | None:
    return choices.pick(spans) if spans else None


MUTATIONS: dict[str, Row] = {
    "to-edge": _to_edge,
    "nudged": _nudged,
    "hostile-length": _hostile_length,
    "padded-varint": _padded,
    "overlong-varint": _overlong,
    "excess-bits": _excess,
    "cut": _cut,
    "bit-flipped": _flipped,
    "dropped": _dropped,
    "doubled": _doubled,
    "swapped": _swapped,
    "grown": _grown,
    "checksum-broken": _checksum,
    "recoded": _recoded,
}
"""A row each: name to damage. Adding one is adding it here."""


def mutate(type_: codec.Wire | str, data: bytes, choices: Choices) -> tuple[bytes, str]:
    """Damaged bytes and the name of the mutation; mutations that these bytes give no place for are passed over."""
    subject = lay_out(type_, data)
    for _ in range(8):
        row = choices.pick(tuple(MUTATIONS))
        damage = MUTATIONS[row](subject, choices)
        if damage is not None:
            return apply(subject, damage), row
    return data + b"\0", "grown"
