"""Types with a length or count: the prefix, the content, and the types made of both."""

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
    """A length or count before its content: its type, the number added to it, and whether null exists."""

    wire: WireType
    plus: int = 0
    """1 in the compact forms: the number on the wire is one higher, and 0 is null."""
    nullable: bool = False
    null_rule: str = ""
    """The requirement that null breaks; in a nullable type, the disputed requirement that allows null."""
    long_rule: str = ""
    """The requirement that allows more than a signed 16-bit length, if it is disputed."""
    negative_rule: str = ""
    """The requirement that a number below the null form breaks."""
    negative_open: bool = False
    """True if Apache Kafka reads such a number as null; it is then unspecified."""

    def read(self, cursor: Cursor) -> int | None:
        """Return the length in bytes or elements, or None for null."""
        start = cursor.pos
        number: int = self.wire.decode(cursor) - self.plus
        if 0 <= number <= 32767:
            return number
        # Java has no unsigned numbers, so it reads a compact length above 31 bits as negative.
        if (c_int32(number).value if self.negative_open else number) < -1:
            if not self.negative_open:
                cursor.fail(self.negative_rule, f"length or count is {number}, expected 0 or more", at=start)
            cursor.remark(self.negative_rule, f"length or count is {number}, for Java below -1 (null)", at=start)
            return None
        if number < 0:
            if not self.nullable:
                cursor.fail(self.null_rule, "found null, which this type does not allow", at=start)
            if self.null_rule:
                cursor.findings.rests_on.append(self.null_rule)
            return None
        if number > 32767 and self.long_rule:
            cursor.findings.rests_on.append(self.long_rule)
        return number

    def write(self, number: int | None) -> bytes:
        """Return the bytes of a length or count. Raises Unencodable for null in a type without null."""
        if number is None:
            if not self.nullable:
                raise Unencodable(self.null_rule, "null has no encoding in this type")
            return self.wire.encode(-1 + self.plus)
        return self.wire.encode(number + self.plus)


class ContentCodec(Struct, frozen=True):
    """The content of a length-prefixed type, with both directions."""

    notation: n.Notation
    read: Callable[[Cursor, bytes], Any]
    write: Callable[[Any], bytes]
    kind: type
    expression: str
    """Source for the value of bytes (`{}`); it raises ValueError where the interpreter has a remark."""
    writing: str
    """Source for the bytes of a value (`{}`) of the kind; it raises ValueError if there are none."""


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
    """Encode text as UTF-8. Raises Unencodable for anything else, which breaks `rule`."""
    if not isinstance(value, str):
        raise Unencodable(rule, f"{value!r:.60} is not a string")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise Unencodable(rule, "a lone surrogate has no UTF-8 form") from None


def _same_bytes(_: Cursor, raw: bytes) -> bytes:
    return raw


def write_bytes(value: Any) -> bytes:
    """Return bytes unchanged. Raises Unencodable for anything else."""
    if not isinstance(value, bytes):
        raise Unencodable("general.exact-encoding", f"{value!r:.60} is not bytes")
    return value


class SizedShape(Struct, frozen=True):
    """The shape of a type with a length and as many bytes."""

    prefix: LengthPrefix
    content: ContentCodec


class CountedShape(Struct, frozen=True):
    """The shape of a type with a count and as many elements."""

    prefix: LengthPrefix
    element: WireType


CHARACTERS = ContentCodec(n.TEXT, _read_text, write_text, str, expression="{}.decode()", writing="{}.encode()")
OCTETS = ContentCodec(n.HEX, _same_bytes, write_bytes, bytes, expression="{}", writing="{}")


def sized(name: str, prefix: LengthPrefix, content: ContentCodec, truncated: str) -> WireType:
    """Return a type with a length and as many bytes; missing bytes break `truncated`."""

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
    """Return a type with a count and as many elements. The count is checked before any element is created."""

    def decode(cursor: Cursor) -> Any:
        start = cursor.pos
        count = prefix.read(cursor)
        cursor.span("#count", start, count, prefix.wire.name)
        if not count:
            return None if count is None else ()
        if count * element.smallest > cursor.left:
            cursor.fail(truncated, f"count is {count}, but {cursor.left} bytes are left", at=start)
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
"""The number of elements above which the search for equal ones saves time."""


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
    """Read numbers, for which there are enough bytes, each with its span."""
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
    """Read elements. Consecutive equal bytes without findings are read once.

    They share one value, because an element depends on its bytes alone.
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
    """Return how often, at most `most` times, the `size` bytes before the position repeat after it."""
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
