"""A type on the wire, and the types of fixed and of variable width; `primitives` has the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from conformance.codec import json_notation as n
from conformance.codec.cursor import Cursor, Definedness, Unencodable

_LETTERS = {1: "b", 2: "h", 4: "i", 8: "q"}
"""The letters of `struct` for integers, by their bytes."""


class NumberShape(Struct, frozen=True):
    """The shape of an integer that `struct` supports: its bytes and its sign."""

    size: int
    signed: bool

    @property
    def code(self) -> str:
        """Its letter in the formats of `struct`."""
        letter = _LETTERS[self.size]
        return letter if self.signed else letter.upper()


class RawShape(Struct, frozen=True):
    """The shape of bytes of a fixed size, with the conversions from and to a value."""

    size: int
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


class WireType(Struct, frozen=True, eq=False):
    """A type on the wire, equal only to itself.

    `decode` reads one value (it raises Malformed inside the codec); `encode` writes one or raises Unencodable.
    `notation` is the JSON form, and `smallest` the least size in bytes. `edges` are the values at which the encoding
    changes (for a number, the greatest is last). `fixed` is True if all values have the least size. `shape`
    (NumberShape, RawShape, VarintShape, SizedShape, CountedShape or a Layout) is the source of compiled functions.
    """

    name: str
    decode: Callable[[Cursor], Any]
    encode: Callable[[Any], bytes]
    notation: Any
    smallest: int
    edges: tuple[Any, ...] = ()
    fixed: bool = False
    shape: Any = None


# --- fixed width ----------------------------------------------------------------------------------------


def integer(name: str, size: int, *, signed: bool, notation: n.Notation = n.NUMBER) -> WireType:
    """Return a big-endian integer of `size` bytes (primitive-types#fixed-width-signed-integers, -unsigned-integers)."""
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)

    def decode(cursor: Cursor) -> int:
        return int.from_bytes(cursor.take(size, "int.truncated-rejected", name), "big", signed=signed)

    def encode(value: Any) -> bytes:
        if type(value) is not int or not low <= value <= high:
            hint = f"{value!r} is not in the range of {name} ({low} to {high})"
            raise Unencodable("int.out-of-range-unencodable", hint)
        return value.to_bytes(size, "big", signed=signed)

    edges = (low, -1, 0, 1, high) if signed else (0, 1, high >> 1, high)
    shape = NumberShape(size, signed) if size in _LETTERS else None
    return WireType(name, decode, encode, notation, size, edges, fixed=True, shape=shape)


def fixed(name: str, size: int, rule: str, *, notation: n.Notation, convert: tuple[Any, Any], edges: Any) -> WireType:
    """Return a type of raw bytes of a fixed size, with two conversions (bytes to value, value to bytes)."""
    read, write = convert

    def decode(cursor: Cursor) -> Any:
        return read(cursor.take(size, rule, name))

    return WireType(name, decode, write, notation, size, edges, fixed=True, shape=RawShape(size, read, write))


def write_boolean(value: Any) -> bytes:
    """Return one byte, 1 or 0. Raises Unencodable."""
    if not isinstance(value, bool):
        raise Unencodable("boolean.size", f"{value!r} is neither true nor false")
    return b"\1" if value else b"\0"


def write_uuid(value: Any) -> bytes:
    """Return the 16 bytes unchanged. Raises Unencodable."""
    if not isinstance(value, bytes):
        raise Unencodable("uuid.layout", f"{value!r} is not bytes")
    return value


_UINT64 = integer("UINT64", 8, signed=False)


def write_float(bits: Any) -> bytes:
    """Return the 8 bytes of a float that is given as its bits; all NaNs become the same one. Raises Unencodable."""
    raw = _UINT64.encode(bits)
    return b"\x7f\xf8\0\0\0\0\0\0" if n.is_nan(bits) else raw


# --- variable width -------------------------------------------------------------------------------------


class VarintFormat(Struct, frozen=True):
    """Numbers in 7-bit groups, low group first: bits, largest number of bytes, and the requirement for each error."""

    bits: int
    limit: int
    too_long: str
    excess: str
    padded: str

    def read(self, cursor: Cursor) -> int:
        """Read an unsigned number at the cursor."""
        data, start, end = cursor.data, cursor.pos, cursor.end
        # Most numbers have one byte, so this case comes before the loop.
        if start < end and data[start] < 0x80:
            cursor.pos = start + 1
            return data[start]
        raw = shift = 0
        at = start
        while True:
            if at >= end:
                cursor.fail("varint.truncated-rejected", "the bytes end inside the number", at=at)
            byte = data[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            if at - start == self.limit:
                cursor.fail(self.too_long, f"byte {self.limit} has its continuation bit set", at=at - 1)
            shift += 7
        if raw >> self.bits:
            cursor.remark(
                self.excess, f"byte {self.limit} sets bits above {self.bits}", at=at - 1, openness=Definedness.ELSEWHERE
            )
        elif byte == 0 and at - start > 1:
            cursor.remark(self.padded, "the number is not in its shortest form", at=at - 1)
        cursor.pos = at
        return raw % (1 << self.bits)

    @staticmethod
    def write(raw: int) -> bytes:
        """Return the shortest form of a number."""
        out = bytearray()
        while raw > 0x7F:
            out.append(raw & 0x7F | 0x80)
            raw >>= 7
        out.append(raw)
        return bytes(out)


class VarintShape(Struct, frozen=True):
    """The shape of a number in groups, with or without zigzag."""

    groups: VarintFormat
    signed: bool


def zigzag(name: str, groups: VarintFormat, rule: str, notation: n.Notation) -> WireType:
    """Return a signed number: zigzag mapped, then written in groups (primitive-types#varint, #varlong)."""
    low, high = -(1 << groups.bits - 1), (1 << groups.bits - 1) - 1

    def decode(cursor: Cursor) -> int:
        raw = groups.read(cursor)
        return raw >> 1 ^ -(raw & 1)

    def encode(value: Any) -> bytes:
        if type(value) is not int or not low <= value <= high:
            raise Unencodable(rule, f"{value!r} is not in the range of {name} ({low} to {high})")
        return groups.write(value << 1 ^ -(value < 0))

    steps = [sign * (1 << 7 * k - 1) + nudge for k in range(1, groups.limit) for sign in (1, -1) for nudge in (-1, 0)]
    return WireType(
        name, decode, encode, notation, 1, (0, -1, 1, *steps, low, high), shape=VarintShape(groups, signed=True)
    )
