"""Repair after damage: from the place outwards, through records, inner messages, payloads and entries to the input.

Lengths, sizes and checksums on this way are corrected, except a damaged one; compressed payloads are stored again. If
damage is not to be sealed, the checksum next to it stays wrong, and no other.
"""

from __future__ import annotations

import re

from msgspec import Struct

from conformance import codec
from conformance.codec import Span
from conformance.codec.compression import CODECS
from conformance.codec.legacy_message import LAYOUTS, message_with_checksums
from conformance.codec.log import extents
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, MAGIC_AT, stored_magic, with_checksums


class MutationSubject(Struct, frozen=True):
    """Valid bytes with their layers (the input, then each decompressed stream) and their spans."""

    name: str
    layers: tuple[bytes, ...]
    spans: tuple[Span, ...]
    other: MutationSubject | None = None
    """Another value of the type, as a source of parts."""

    def numbers(self) -> list[Span]:
        """Return the spans of numbers whose type is known."""
        return [span for span in self.spans if span.kind in _NUMBERS and span.stop > span.start]

    def lengths(self) -> list[Span]:
        """Return the spans of lengths, sizes and counts."""
        return [span for span in self.numbers() if _LENGTH.search(span.path)]

    def varints(self) -> list[Span]:
        """Return the spans of numbers in 7-bit groups."""
        return [span for span in self.numbers() if span.kind in GROUPS]

    def pieces(self) -> list[Span]:
        """Return every span that has bytes."""
        return [span for span in self.spans if span.stop > span.start]

    def raw(self, span: Span) -> bytes:
        """Return the bytes of a span."""
        return self.layers[span.layer][span.start : span.stop]


class ByteEdit(Struct, frozen=True):
    """The replacement of bytes start to stop of a layer, with a seal afterwards or without."""

    layer: int
    start: int
    stop: int
    new: bytes
    seal: bool = True


def lay_out(type_: codec.WireType | str, data: bytes) -> MutationSubject:
    """Return the subject of some bytes, as far as the reference can read them."""
    wire = codec.wire(type_)
    read = codec.decode(wire, data, trail=True)
    return MutationSubject(wire.name, (data, *read.layers), read.spans)


_NUMBERS = {row.name for row in codec.TYPES.values() if all(type(edge) is int for edge in row.edges) and row.edges}
_NUMBERS -= {"FLOAT64"}
GROUPS = {"VARINT": 5, "UNSIGNED_VARINT": 5, "VARLONG": 10}
"""Bytes of the longest form of a number in 7-bit groups."""
_LENGTH = re.compile(r"(#length|#count|(^|\.)(length|batchLength|recordCount|messageSize))\Z")

# --- outwards -----------------------------------------------------------------------------------------

IN_ENTRIES = ("RECORD_BATCH", "MESSAGE_SET", "LOG")
"""Types that consist of entries, each with a size and a checksum."""


def apply(subject: MutationSubject, damage: ByteEdit) -> bytes:
    """Return the whole input with the damage, and repair it outwards if the damage is sealed."""
    if damage.seal:
        damage = _with_record_length(subject, damage)
    layer = subject.layers[damage.layer]
    if subject.name not in IN_ENTRIES:
        return layer[: damage.start] + damage.new + layer[damage.stop :]
    if damage.layer == 0:
        return _in_entry(layer, damage, whole=subject.name == "RECORD_BATCH")
    path = next(span.path for span in subject.spans if span.layer == damage.layer)
    return _repacked(subject, damage, path)


def _in_entry(layer: bytes, damage: ByteEdit, *, whole: bool = False) -> bytes:
    """Return a layer of entries with the damage; seal the entry around it, unless whole entries came or went."""
    changed = layer[: damage.start] + damage.new + layer[damage.stop :]
    entries = [(0, len(layer))] if whole else list(extents(layer))
    added = damage.start == damage.stop
    around = [(start, stop) for start, stop in entries if start + added <= damage.start < stop + added]
    if not damage.seal or not around:
        return changed
    start, stop = around[0]
    # A cut from inside this entry to the end of the layer leaves its beginning, which can be sealed.
    cut = damage.stop == len(layer) and not damage.new and damage.start > start
    if (damage.start, damage.stop) == (start, stop) or (damage.stop > stop and not cut):
        return changed
    stop = max(stop + len(changed) - len(layer), damage.start)
    entry = _sealed(changed[start:stop], layer[start : start + MAGIC_AT + 1], damage.start - start)
    return changed[:start] + entry + changed[stop:]


def _sealed(entry: bytes, before: bytes, at: int) -> bytes:
    """Seal an entry, except the field at position `at`; `before` are its first bytes before the damage."""
    message = stored_magic(before) in LAYOUTS
    layout, names = (LAYOUTS[0], ("messageSize", "crc")) if message else (BATCH_LAYOUT, ("batchLength", "crc"))
    return layout.with_checksums(entry, [name for name in names if not _covers(layout.span(name), at)])


def _covers(span: slice, at: int) -> bool:
    return bool(span.start <= at < span.stop)


_PREFIX = re.compile(r"(?:batches)?\[(\d+)\]")


def _repacked(subject: MutationSubject, damage: ByteEdit, path: str) -> bytes:
    """Return the input with damage in the payload of the entry that contains the span at `path`."""
    whole, layer = subject.layers[0], subject.layers[damage.layer]
    prefix = _PREFIX.match(path)
    start, stop = list(extents(whole))[int(prefix[1])] if prefix else (0, len(whole))
    entry = whole[start:stop]
    magic = stored_magic(entry)
    if prefix and magic in LAYOUTS:
        length = next(span for span in subject.spans if span.path == f"{prefix[0]}.value#length")
        head, at = entry[: length.start - start], length.stop - start
        size = int.from_bytes(entry[at - 4 : at], "big", signed=True)
        payload = CODECS[LAYOUTS[magic].read_field("compression", entry)].forms[0](_in_entry(layer, damage))
        entry = message_with_checksums(head + len(payload).to_bytes(4, "big") + payload + entry[at + size :])
    else:
        changed = layer[: damage.start] + damage.new + layer[damage.stop :]
        entry = entry[:HEADER_SIZE] + CODECS[BATCH_LAYOUT.read_field("compression", entry)].forms[0](changed)
        entry = with_checksums(entry) if damage.seal else entry
    return whole[:start] + entry + whole[stop:]


def _with_record_length(subject: MutationSubject, damage: ByteEdit) -> ByteEdit:
    """Return the damage, widened to correct the length of the record around it, unless that length is damaged."""
    record = next((span for span in subject.spans if _holds(span, damage)), None)
    if record is None:
        return damage
    prefix = f"{record.path}." if record.path else ""
    length = next(
        (span for span in subject.spans if span.path == f"{prefix}length" and span.layer == damage.layer), None
    )
    if length is None or damage.start < length.stop:
        return damage
    layer = subject.layers[damage.layer]
    body = layer[length.stop : damage.start] + damage.new + layer[damage.stop : record.stop]
    return ByteEdit(damage.layer, length.start, record.stop, codec.encode("VARINT", len(body)) + body)


def _holds(span: Span, damage: ByteEdit) -> bool:
    """Return True if a span is a record that contains the damage."""
    inside = span.layer == damage.layer and span.start <= damage.start and damage.stop <= span.stop
    return inside and re.search(r"(^|\.)records\[\d+\]\Z", span.path) is not None
