"""A log: record batches end to end, possibly with a last one cut off (message-format#record-batch)."""

from __future__ import annotations

from typing import Any

from conformance.codec import notation as n
from conformance.codec.cursor import Cursor, Unencodable
from conformance.codec.primitives import Wire
from conformance.codec.record_batch import HEADER_SIZE, OVERHEAD, RECORD_BATCH

_MAGIC_AT = 16
_SMALLEST = 14
"""Bytes of the smallest entry of any magic after offset and size; Apache Kafka refuses less without looking further."""
_FIT = (1 << 31) - 1 - OVERHEAD
"""A batchLength above this overflows a signed 32-bit size once the 12 bytes before it are added."""


def _decode(cursor: Cursor) -> dict[str, Any]:
    batches: list[Any] = []
    base = cursor.path
    while cursor.left:
        if _is_partial(cursor):
            break
        if cursor.tracing:
            cursor.path = f"{base}batches[{len(batches)}]"
        start = cursor.pos
        batch = RECORD_BATCH.decode(cursor)
        cursor.span("", start)
        if batches and batch["baseOffset"] <= batches[-1]["baseOffset"] + batches[-1]["lastOffsetDelta"]:
            cursor.remark("offset.record-formula", "a batch does not begin after the one before it", at=start)
        batches.append(batch)
    cursor.path = base
    partial, cursor.pos = cursor.left, cursor.end
    return {"batches": tuple(batches), "partial": partial}


def _is_partial(cursor: Cursor) -> bool:
    """Whether the rest is an entry cut off at the end; a size too small is refused wherever it stands."""
    start, rest = cursor.pos, cursor.left
    if rest < OVERHEAD:
        return True
    size = int.from_bytes(cursor.data[start + 8 : start + OVERHEAD], "big", signed=True)
    if size < _SMALLEST:
        cursor.fail("batch.length-wrong-rejected", f"size {size} is below that of any entry", at=start + 8)
    if rest > _MAGIC_AT and cursor.data[start + _MAGIC_AT] in (0, 1):
        # Such entries are read by a later part; until then nobody is judged on them.
        cursor.fail_open("format.legacy-still-met", "a message of magic 0 or 1", at=start + _MAGIC_AT)
    if size <= rest - OVERHEAD:
        return False
    if size < HEADER_SIZE - OVERHEAD:
        cursor.remark("batch.length-wrong-rejected", f"size {size} of the cut entry is below a batch's", at=start + 8)
    if size > _FIT:
        cursor.remark("batch.length-wrong-rejected", f"batchLength {size} overflows a 32-bit size", at=start + 8)
    if rest > _MAGIC_AT and cursor.data[start + _MAGIC_AT] != 2:
        cursor.remark("batch.magic", "the cut batch has no known magic", at=start + _MAGIC_AT)
    return True


def _encode(value: Any) -> bytes:
    if value.get("partial"):
        raise Unencodable("batch.length-wrong-rejected", "a cut batch is not written")
    return b"".join(map(RECORD_BATCH.encode, value["batches"]))


LOG = Wire(
    "LOG",
    _decode,
    _encode,
    n.Fields({"batches": n.ListOf(RECORD_BATCH.notation, nullable=False), "partial": n.NUMBER}),
    0,
)
