"""Choice between compiled functions, which are fast, and the interpreter of layouts, which explains violations.

Both follow the same tables. A type is compiled when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from conformance.codec._length_prefixed import CountedShape
from conformance.codec.compiled import readers, writers
from conformance.codec.cursor import Cursor
from conformance.codec.layout import Layout
from conformance.codec.message_layout import StructShape
from conformance.codec.wire_type import WireType

T = TypeVar("T")

COMPILED = True
"""False disables all compiled functions."""

_COMPOSED = (CountedShape, Layout)
"""Shapes of types whose values have parts; for other types the interpreter is fast enough."""
USES_BEFORE_COMPILING = 100
"""Uses of a message version before it is compiled: hundreds exist, and compilation takes time."""
_uses: dict[WireType, int] = {}


def _is_worth_compiling(wire: WireType) -> bool:
    """Return True if a type uses compiled functions."""
    if not COMPILED:
        return False
    if isinstance(wire.shape, StructShape):
        _uses[wire] = uses = _uses.get(wire, 0) + 1
        return uses > USES_BEFORE_COMPILING
    return isinstance(wire.shape, _COMPOSED)


def decode(wire: WireType, cursor: Cursor) -> Any:
    """Read one value of a type, as `wire.decode` reads it. Raises Malformed."""
    if cursor.explaining or not _is_worth_compiling(wire):
        return wire.decode(cursor)
    return _attempted(cursor, readers.reader_of(wire), wire.decode)


def decode_many(wire: WireType, cursor: Cursor, count: int, one: Callable[[Cursor, int], T]) -> list[T]:
    """Read `count` values of a type, as `one` reads them (given the cursor and an index). Raises Malformed."""

    def explain(cursor: Cursor) -> list[T]:
        return [one(cursor, index) for index in range(count)]

    if cursor.tracing or not COMPILED:
        return explain(cursor)
    read, was = readers.several_of(wire), cursor.explaining
    # `explaining` may be set because of bytes outside of these values, so the compiled reader gets another attempt.
    cursor.explaining = False
    try:
        return _attempted(cursor, lambda cursor: read(cursor, count), explain)
    finally:
        cursor.explaining = was


def encode(wire: WireType, value: Any) -> bytes:
    """Return the bytes of a value, as `wire.encode` writes them. Raises Unencodable."""
    if _is_worth_compiling(wire):
        try:
            return writers.writer_of(wire)(value)
        except writers.DOUBTS:
            pass
    return wire.encode(value)


def encode_many(wire: WireType, values: Sequence[Any]) -> bytes:
    """Return the bytes of consecutive values, as `wire.encode` writes each. Raises Unencodable."""
    if _is_worth_compiling(wire):
        try:
            return writers.several_of(wire)(values)
        except writers.DOUBTS:
            pass
    return b"".join(map(wire.encode, values))


def _attempted(cursor: Cursor, quick: Callable[[Cursor], T], explain: Callable[[Cursor], T]) -> T:
    """Read with a compiled reader; if it gives up or notes anything, read again with the interpreter."""
    if cursor.hurried:
        return quick(cursor)
    findings, start, end = cursor.findings, cursor.pos, cursor.end
    mark = findings.mark()
    cursor.hurried = True
    try:
        value = quick(cursor)
        if findings.mark()[:2] == mark[:2]:
            return value
    except readers.DOUBTS:
        pass
    finally:
        cursor.hurried = False
    findings.rollback(mark)
    cursor.pos, cursor.end, cursor.explaining = start, end, True
    try:
        return explain(cursor)
    finally:
        cursor.explaining = False
