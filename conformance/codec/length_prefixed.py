"""Types behind a length or count: how the prefix stands, what it is a length of, and the types made of both."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int32
from struct import unpack_from
from typing import Any

from msgspec import Struct

from conformance.codec import json_notation as n
from conformance.codec.cursor import Cursor, Definedness, Span, Unencodable
from conformance.codec.wire_type import NumberShape, WireType


class LengthPrefix(Struct, frozen=True):
    """How a length or count stands before its content: in which type, how much is added, whether null exists."""

    wire: WireType
    plus: int = 0
    """1 in the compact forms, where the number on the wire is one higher and 0 stands for null."""
    nullable: bool = False
    null_rule: str = ""
    """Broken by null where there is none; where there is one, the requirement that gives it, if that is disputed."""
    long_rule: str = ""
    """The requirement that allows more than a signed 16-bit length, if that is disputed."""
    negative_rule: str = ""
    """Broken by a number below the null form, or open where the type is nullable."""
    negative_open: bool = False
    """Apache Kafka takes such a number for null."""

    def read(self, cursor: Cursor) -> int | None:
        """The length in bytes or elements, or None for null."""
        start = cursor.pos
        number: int = self.wire.decode(cursor) - self.plus
        if 0 <= number <= 32767:
            return number
        # A compact one beyond 31 bits is negative to Java, which has no unsigned numbers.
        if (c_int32(number).value if self.negative_open else number) < -1:
            if not self.negative_open:
                cursor.fail(self.negative_rule, f"length or count {number}", at=start)
            cursor.remark(self.negative_rule, f"length or count {number}, below the null form", at=start)
            return None
        if number < 0:
            if not self.nullable:
                cursor.fail(self.null_rule, "null where the type has none", at=start)
            if self.null_rule:
                cursor.findings.rests_on.append(self.null_rule)
            return None
        if number > 32767 and self.long_rule:
            cursor.findings.rests_on.append(self.long_rule)
        return number

    def write(self, number: int | None) -> bytes:
        """The bytes of a length or count; raises Unencodable for what the type cannot say."""
        if number is None:
            if not self.nullable:
                raise Unencodable(self.null_rule, "null has no encoding in this type")
            return self.wire.encode(-1 + self.plus)
        return self.wire.encode(number + self.plus)


class ContentCodec(Struct, frozen=True):
    """What a length-prefixed type holds: bytes to value and back."""

    notation: n.Notation
    read: Callable[[Cursor, bytes], Any]
    write: Callable[[Any], bytes]
    kind: type
    expression: str
    """What bytes (`{}`) are, where there is nothing to note about them; else it raises ValueError."""
    writing: str
    """The bytes of a value (`{}`) of the kind; it raises ValueError for one that has none."""


def _read_text(cursor: Cursor, raw: bytes) -> str:
    text = raw.decode("utf-8", "surrogateescape")
    _note_ill_formed(cursor, raw, text)
    return text


def _note_ill_formed(cursor: Cursor, raw: bytes, text: str) -> None:
    if text.isascii():
        return
    lone = n.LONE.search(text)
    if lone:
        at = cursor.pos - len(raw) + len(text[: lone.start()].encode())
        cursor.remark("utf8.invalid-implementation-defined", "ill-formed UTF-8", at=at, openness=Definedness.ANY_VALUE)


def write_text(value: Any, rule: str = "utf8.encoded-valid") -> bytes:
    """Text in UTF-8. Raises Unencodable for anything else, breaking `rule`."""
    if not isinstance(value, str):
        raise Unencodable(rule, f"{value!r:.60} is not a string")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise Unencodable(rule, "a lone surrogate has no UTF-8 form") from None


def _same_bytes(_: Cursor, raw: bytes) -> bytes:
    return raw


def write_bytes(value: Any) -> bytes:
    """Bytes as they are. Raises Unencodable for anything else."""
    if not isinstance(value, bytes):
        raise Unencodable("general.exact-encoding", f"{value!r:.60} is not bytes")
    return value


class SizedShape(Struct, frozen=True):
    """What a type made of a length and as many bytes is."""

    prefix: LengthPrefix
    content: ContentCodec


class CountedShape(Struct, frozen=True):
    """What a type made of a count and as many elements is."""

    prefix: LengthPrefix
    element: WireType


CHARACTERS = ContentCodec(n.TEXT, _read_text, write_text, str, expression="{}.decode()", writing="{}.encode()")
OCTETS = ContentCodec(n.HEX, _same_bytes, write_bytes, bytes, expression="{}", writing="{}")


def sized(name: str, prefix: LengthPrefix, content: ContentCodec, truncated: str) -> WireType:
    """A type made of a length and as many bytes; `truncated` is broken when they are not all there."""

    def decode(cursor: Cursor) -> Any:
        start = cursor.pos
        length = prefix.read(cursor)
        if cursor.tracing:
            cursor.span("#length", start, length, prefix.wire.name)
        if length is None:
            return None
        value = content.read(cursor, cursor.take(length, truncated, name, at=start))
        if cursor.tracing:
            cursor.span("", cursor.pos - length, value)
        return value

    def encode(value: Any) -> bytes:
        if value is None:
            return prefix.write(None)
        raw = content.write(value)
        return prefix.write(len(raw)) + raw

    smallest = prefix.wire.smallest
    empty: Any = "" if content.notation is n.TEXT else b""
    edges = (empty, None) if prefix.nullable else (empty,)
    return WireType(name, decode, encode, content.notation, smallest, edges, shape=SizedShape(prefix, content))


def array(name: str, prefix: LengthPrefix, element: WireType, truncated: str) -> WireType:
    """A count and as many elements; the count is held against the bytes left before anything is made of it."""

    def decode(cursor: Cursor) -> Any:
        start = cursor.pos
        count = prefix.read(cursor)
        cursor.span("#count", start, count, prefix.wire.name)
        if not count:
            return None if count is None else ()
        if count * element.smallest > cursor.left:
            cursor.fail(truncated, f"count {count}, but {cursor.left} bytes are left", at=start)
        cursor.count(count)
        return tuple(_elements(cursor, element, count))

    def encode(value: Any) -> bytes:
        if value is None:
            return prefix.write(None)
        if not isinstance(value, (list, tuple)):
            raise Unencodable("general.exact-encoding", f"{value!r:.60} is not a list")
        return prefix.write(len(value)) + b"".join(n.each(element.encode, value))

    edges: tuple[Any, ...] = ((), None) if prefix.nullable else ((),)
    notation, shape = n.ListOf(element.notation, prefix.nullable), CountedShape(prefix, element)
    return WireType(name, decode, encode, notation, prefix.wire.smallest, edges, shape=shape)


MANY = 64
"""Elements from which on it pays to look for equal ones."""


def _elements(cursor: Cursor, element: WireType, count: int) -> list[Any]:
    if not cursor.tracing:
        return _many(cursor, element, count) if count > MANY else [element.decode(cursor) for _ in range(count)]
    if isinstance(element.shape, NumberShape):
        return _traced_numbers(cursor, element.shape, count)
    base, out = cursor.path, []
    for index in range(count):
        cursor.path, start = f"{base}[{index}]", cursor.pos
        out.append(element.decode(cursor))
        cursor.span("", start, out[-1])
    cursor.path = base
    return out


def _traced_numbers(cursor: Cursor, shape: NumberShape, count: int) -> list[int]:
    """So many numbers, for which there are bytes enough, each with its span."""
    start, size, layer, path = cursor.pos, shape.size, cursor.layer, cursor.path
    cursor.pos += count * size
    out = list(unpack_from(f">{count}{shape.code}", cursor.data, start))
    assert cursor.findings.spans is not None
    cursor.findings.spans += [
        Span(layer, f"{path}[{index}]", at, at + size, number)
        for index, (at, number) in enumerate(zip(range(start, cursor.pos, size), out, strict=True))
    ]
    return out


def _many(cursor: Cursor, element: WireType, count: int) -> list[Any]:
    """So many elements; the same bytes one after another, about which nothing is noted, are read once.

    They then stand for the same value, whoever reads them: what an element is hangs on its bytes alone.
    """
    out: list[Any] = []
    while len(out) < count:
        start, noted = cursor.pos, cursor.findings.noted
        out.append(element.decode(cursor))
        if cursor.findings.noted == noted:
            size = cursor.pos - start
            alike = repeats(cursor, size, count - len(out))
            cursor.pos += size * alike
            out += out[-1:] * alike
    return out


def repeats(cursor: Cursor, size: int, most: int) -> int:
    """How often, `most` times at most, the `size` bytes before the position stand after it again, one after another."""
    data, at, alike, step = cursor.data, cursor.pos, 0, 1
    most = min(most, cursor.left // size) if size else most
    while step and alike < most:
        step = min(step, most - alike)
        stop = at + step * size
        if data[at:stop] == data[at - size : stop - size]:
            at, alike, step = stop, alike + step, step * 2
        else:
            step //= 2
    return alike
