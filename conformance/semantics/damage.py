"""Damage in a fetch: whether a consumer has to meet it, and what stands whole in front of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance import codec
from conformance.codec.derivations import Values
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.log import CHECKSUM_RULES, extents
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, sealed, stored_magic, stored_offset

_BATCHES = 2
"""The magic of record batches."""
_NO_SIZE = "batch.length-wrong-rejected"
"""What is found wrong with a size that is below that of any entry."""


def need_not_be_met(
    data: bytes,
    entry: codec.Entry,
    faults: Sequence[codec.Violation],
    position: int,
    passes_over: Callable[[Values], bool] | None,
) -> bool:
    """Whether faults may lie in records that are not to be seen: hidden ones, or those before a consumer's position.

    That goes for records and messages; a length, a magic or a checksum of a batch is met by every reader.
    `passes_over` says of the header of a batch whether a transaction hides it.
    """
    whole = data[entry.start : entry.stop]
    if stored_magic(whole) != _BATCHES:
        return _is_passed_over(whole, next(iter(entry.beside_checksums or faults)), position)
    header = _header(whole)
    if header is None or any(one.requirement in CHECKSUM_RULES for one in faults):
        return False
    hidden = header["isControlBatch"] or (passes_over is not None and passes_over(header))
    return bool(hidden) or header["baseOffset"] < position


def _header(data: bytes) -> Values | None:
    """The header of a batch by itself, whatever its records are; None when that is not sound either."""
    if len(data) < HEADER_SIZE:
        return None
    uncompressed = BATCH_LAYOUT.put("compression", data[:HEADER_SIZE], 0)
    header: Values | None = codec.decode("RECORD_BATCH", sealed(BATCH_LAYOUT.put("recordCount", uncompressed, 0))).value
    return header


def _is_passed_over(entry: bytes, damage: codec.Violation, position: int) -> bool:
    """Whether damage lies in a message of magic 0 or 1 with an offset below a consumer's position.

    The messages before it in a wrapper move the position on. A size that no entry has keeps everybody from going on.
    """
    magic = stored_magic(entry)
    if magic not in LAYOUTS or damage.requirement == _NO_SIZE:
        return False
    offset = stored_offset(entry)
    if damage.layer == 0:
        return offset < position
    inner = codec.decode("LOG", entry).layers[damage.layer - 1]
    stored = {start: stored_offset(inner, start) for start, _ in extents(inner)}
    origin = offset - list(stored.values())[-1] if magic and stored else 0
    *before, own = [at + origin for start, at in stored.items() if start <= damage.at] or [origin]
    return own < max((position, *(at + 1 for at in before)))


def whole_records(batch: bytes, damage: codec.Violation, start: int) -> int | None:
    """How many records stand whole in front of damage in a record of a batch, which begins at byte `start` of a log.

    None where the damage lies elsewhere.
    """
    is_plain = not BATCH_LAYOUT.peek("compression", batch) if len(batch) >= HEADER_SIZE else True
    at = damage.at - start if is_plain else damage.at
    if stored_magic(batch) != _BATCHES or _header(batch) is None or damage.layer != 1 - is_plain:
        return None
    records = batch if is_plain else codec.decode("RECORD_BATCH", batch).layers[0]
    position = HEADER_SIZE if is_plain else 0
    if at < position:
        return None
    found = 0
    while position < at:
        length = codec.decode("VARINT", records[position : position + 5])
        if not length.ok or length.value < 0:
            break
        position += length.consumed + length.value
        found += position <= at
    return found
