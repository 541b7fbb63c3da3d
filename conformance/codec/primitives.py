"""The table of primitive types (primitive-types.md): a row per type, both directions side by side.

A wire type reads itself from a cursor and writes itself as bytes. Everything else (size, notation, edges for
strategies and mutations) hangs on the same row, so a new primitive is one row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import c_int32
from dataclasses import dataclass
from typing import Any

from conformance.codec import notation as n
from conformance.codec.cursor import Cursor, Openness, Unencodable


@dataclass(frozen=True, slots=True)
class Wire:
    """A type on the wire.

    `decode` reads one value (raising Malformed inside the codec), `encode` writes one or raises Unencodable,
    `notation` is its JSON form, `smallest` its least size in bytes, `edges` the values at which its encoding changes
    (of a number the least first), `fixed` whether all values have the least size.
    """

    name: str
    decode: Callable[[Cursor], Any]
    encode: Callable[[Any], bytes]
    notation: Any
    smallest: int
    edges: tuple[Any, ...] = ()
    fixed: bool = False


# --- numbers of fixed width ---------------------------------------------------------------------------


def _integer(name: str, size: int, *, signed: bool, notation: n.Notation = n.NUMBER) -> Wire:
    """A big-endian integer of `size` bytes (primitive-types#fixed-width-signed-integers and -unsigned-integers)."""
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)

    def decode(cursor: Cursor) -> int:
        return int.from_bytes(cursor.take(size, "int.truncated-rejected", name), "big", signed=signed)

    def encode(value: Any) -> bytes:
        if type(value) is not int or not low <= value <= high:
            raise Unencodable("int.out-of-range-unencodable", f"{value!r} is no {name} ({low} to {high})")
        return value.to_bytes(size, "big", signed=signed)

    edges = (low, -1, 0, 1, high) if signed else (0, 1, high >> 1, high)
    return Wire(name, decode, encode, notation, size, edges, fixed=True)


def _fixed(name: str, size: int, rule: str, *, notation: n.Notation, convert: tuple[Any, Any], edges: Any) -> Wire:
    """Raw bytes of a fixed size with a pair of conversions (bytes to value, value to bytes)."""
    read, write = convert

    def decode(cursor: Cursor) -> Any:
        return read(cursor.take(size, rule, name))

    return Wire(name, decode, write, notation, size, edges, fixed=True)


def _write_boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise Unencodable("boolean.size", f"{value!r} is neither true nor false")
    return b"\1" if value else b"\0"


def _write_uuid(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise Unencodable("uuid.layout", f"{value!r} are no bytes")
    return value


INT8 = _integer("INT8", 1, signed=True)
INT16 = _integer("INT16", 2, signed=True)
INT32 = _integer("INT32", 4, signed=True)
INT64 = _integer("INT64", 8, signed=True, notation=n.DECIMAL)
UINT16 = _integer("UINT16", 2, signed=False)
UINT32 = _integer("UINT32", 4, signed=False)
_UINT64 = _integer("UINT64", 8, signed=False)


def _write_float(bits: Any) -> bytes:
    raw = _UINT64.encode(bits)
    return b"\x7f\xf8\0\0\0\0\0\0" if n.is_nan(bits) else raw


FLOAT64 = _fixed(
    "FLOAT64",
    8,
    "float64.layout",
    notation=n.FLOAT_BITS,
    convert=(lambda raw: int.from_bytes(raw, "big"), _write_float),
    edges=(0, 1 << 63, 1, 0x7FEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 0x7FF8_0000_0000_0000),
)
UUID = _fixed(
    "UUID", 16, "uuid.layout", notation=n.DASHED, convert=(bytes, _write_uuid), edges=(bytes(16), bytes(range(16)))
)
BOOLEAN = _fixed(
    "BOOLEAN",
    1,
    "boolean.size",
    notation=n.TRUTH,
    convert=(lambda raw: raw != b"\0", _write_boolean),
    edges=(False, True),
)


# --- numbers of variable width ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Groups:
    """Numbers in 7-bit groups, low group first: width in bits, bytes at most, and the requirements at each edge."""

    bits: int
    limit: int
    too_long: str
    excess: str
    padded: str

    def read(self, cursor: Cursor) -> int:
        data, start, end = cursor.data, cursor.pos, cursor.end
        raw = shift = 0
        at = start
        while True:
            if at >= end:
                cursor.fail("varint.truncated-rejected", "the bytes end before the number does", at=at)
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
                self.excess, f"bits beyond {self.bits} in byte {self.limit}", at=at - 1, openness=Openness.ELSEWHERE
            )
        elif byte == 0 and at - start > 1:
            cursor.remark(self.padded, "not the shortest form", at=at - 1)
        cursor.pos = at
        return raw % (1 << self.bits)

    @staticmethod
    def write(raw: int) -> bytes:
        out = bytearray()
        while raw > 0x7F:
            out.append(raw & 0x7F | 0x80)
            raw >>= 7
        out.append(raw)
        return bytes(out)


def _zigzag(name: str, groups: _Groups, rule: str, notation: n.Notation) -> Wire:
    """A signed number, zig-zag mapped and then written in groups (primitive-types#varint, #varlong)."""
    low, high = -(1 << groups.bits - 1), (1 << groups.bits - 1) - 1

    def decode(cursor: Cursor) -> int:
        raw = groups.read(cursor)
        return raw >> 1 ^ -(raw & 1)

    def encode(value: Any) -> bytes:
        if type(value) is not int or not low <= value <= high:
            raise Unencodable(rule, f"{value!r} is no {name} ({low} to {high})")
        return groups.write(value << 1 ^ -(value < 0))

    steps = [sign * (1 << 7 * k - 1) + nudge for k in range(1, groups.limit) for sign in (1, -1) for nudge in (-1, 0)]
    return Wire(name, decode, encode, notation, 1, (0, -1, 1, *steps, low, high))


_32 = _Groups(32, 5, "varint.max-five-bytes", "varint.fifth-byte-excess-bits", "varint.non-minimal")
_64 = _Groups(64, 10, "varlong.max-ten-bytes", "varlong.tenth-byte-excess-bits", "varlong.non-minimal")
_U32 = _Groups(32, 5, "uvarint.max-five-bytes", "uvarint.fifth-byte-excess-bits", "uvarint.non-minimal")


def _encode_uvarint(value: Any, rule: str = "uvarint.range") -> bytes:
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise Unencodable(rule, f"{value!r} is no UNSIGNED_VARINT (0 to 4294967295)")
    return _U32.write(value)


VARINT = _zigzag("VARINT", _32, "varint.range", n.NUMBER)
VARLONG = _zigzag("VARLONG", _64, "varlong.range", n.DECIMAL)
UNSIGNED_VARINT = Wire(
    "UNSIGNED_VARINT",
    _U32.read,
    _encode_uvarint,
    n.NUMBER,
    1,
    tuple((1 << 7 * k) + nudge for k in range(5) for nudge in (-1, 0)) + ((1 << 31) - 1, 1 << 31, (1 << 32) - 1),
)


# --- lengths and counts -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prefix:
    """How a length or count stands before its content: in which type, how much is added, whether null exists."""

    wire: Wire
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
    """Apache Kafka takes such a number for null; where it does not (nullable compact arrays), it is open still."""

    def read(self, cursor: Cursor) -> int | None:
        """The length in bytes or elements, or None for null."""
        start = cursor.pos
        number: int = self.wire.decode(cursor) - self.plus
        # A compact one beyond 31 bits is negative to Java, which has no unsigned numbers.
        if (c_int32(number).value if self.nullable else number) < -1:
            if not self.negative_open:
                cursor.fail(self.negative_rule, f"length or count {number}", at=start, open=self.nullable)
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


@dataclass(frozen=True, slots=True)
class Content:
    """What a length-prefixed type holds: bytes to value and back."""

    notation: n.Notation
    read: Callable[[Cursor, bytes], Any]
    write: Callable[[Any], bytes]


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
        cursor.remark("utf8.invalid-implementation-defined", "ill-formed UTF-8", at=at, openness=Openness.ANY_VALUE)


def _write_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise Unencodable("utf8.encoded-valid", f"{value!r:.60} is no string")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise Unencodable("utf8.encoded-valid", "a lone surrogate has no UTF-8 form") from None


def _same_bytes(_: Cursor, raw: bytes) -> bytes:
    return raw


def _write_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise Unencodable("general.exact-encoding", f"{value!r:.60} are no bytes")
    return value


CHARACTERS = Content(n.TEXT, _read_text, _write_text)
OCTETS = Content(n.HEX, _same_bytes, _write_bytes)


def sized(name: str, prefix: Prefix, content: Content, truncated: str) -> Wire:
    """A type made of a length and as many bytes; `truncated` is broken when they are not all there."""

    def decode(cursor: Cursor) -> Any:
        start = cursor.pos
        length = prefix.read(cursor)
        if cursor.tracing:
            cursor.span("#length", start, length, prefix.wire.name)
        if length is None:
            return None
        found = content.read(cursor, cursor.take(length, truncated, name, at=start))
        if cursor.tracing:
            cursor.span("", cursor.pos - length, found)
        return found

    def encode(value: Any) -> bytes:
        if value is None:
            return prefix.write(None)
        raw = content.write(value)
        return prefix.write(len(raw)) + raw

    smallest = prefix.wire.smallest
    empty: Any = "" if content is CHARACTERS else b""
    return Wire(name, decode, encode, content.notation, smallest, (empty, None) if prefix.nullable else (empty,))


def array(name: str, prefix: Prefix, element: Wire, truncated: str) -> Wire:
    """A count and as many elements; the count is held against the bytes left before anything is made of it."""

    def decode(cursor: Cursor) -> Any:
        start = cursor.pos
        count = prefix.read(cursor)
        cursor.span("#count", start, count, prefix.wire.name)
        if count is None:
            return None
        if count * element.smallest > cursor.left:
            cursor.fail(truncated, f"count {count}, but {cursor.left} bytes are left", at=start)
        cursor.count(count)
        return tuple(_elements(cursor, element, count))

    def encode(value: Any) -> bytes:
        if value is None:
            return prefix.write(None)
        if not isinstance(value, (list, tuple)):
            raise Unencodable("general.exact-encoding", f"{value!r:.60} is no list")
        return prefix.write(len(value)) + b"".join(map(element.encode, value))

    edges: tuple[Any, ...] = ((), None) if prefix.nullable else ((),)
    return Wire(name, decode, encode, n.ListOf(element.notation, prefix.nullable), prefix.wire.smallest, edges)


def _elements(cursor: Cursor, element: Wire, count: int) -> list[Any]:
    if not cursor.tracing:
        return [element.decode(cursor) for _ in range(count)]
    base, out = cursor.path, []
    for index in range(count):
        cursor.path, start = f"{base}[{index}]", cursor.pos
        out.append(element.decode(cursor))
        cursor.span("", start, out[-1])
    cursor.path = base
    return out


_FORMS = ("", "NULLABLE_", "COMPACT_", "COMPACT_NULLABLE_")


def _sized_rows() -> list[Wire]:
    """The four strings, the four bytes and the two record fields (primitive-types#string to #compact-records)."""
    rows = []
    for form in _FORMS:
        compact, nullable = form.startswith("COMPACT"), form.endswith("NULLABLE_")
        stem = form.lower().replace("_", "-")
        cut = "compact-string.truncated-rejected" if compact else "string.truncated-rejected"
        prefix = Prefix(
            UNSIGNED_VARINT if compact else INT16,
            plus=int(compact),
            nullable=nullable,
            null_rule="" if nullable else f"{stem}string.null-rejected",
            long_rule="compact-string.max-length" if compact else "",
            negative_rule="string.negative-length" if nullable else f"{stem}string.layout",
            negative_open=nullable,
        )
        rows.append(sized(f"{form}STRING", prefix, CHARACTERS, cut))
        rows.append(sized(f"{form}BYTES", _bytes_prefix(f"{stem}bytes", compact, nullable), OCTETS, _CUT_BYTES))
        if not nullable:
            records = _bytes_prefix(f"{stem}records", compact, nullable=True)
            rows.append(sized(f"{form}RECORDS", records, OCTETS, _CUT_BYTES))
    return rows


_CUT_BYTES = "bytes.truncated-rejected"


def _bytes_prefix(layout: str, compact: bool, nullable: bool) -> Prefix:  # noqa: FBT001 - two independent facts of a row
    return Prefix(
        UNSIGNED_VARINT if compact else INT32,
        plus=int(compact),
        nullable=nullable,
        null_rule=_null_rule(layout, nullable=nullable),
        negative_rule="bytes.negative-length" if nullable else f"{layout}.layout",
        negative_open=nullable,
    )


def _null_rule(layout: str, *, nullable: bool) -> str:
    """What null breaks; the null of RECORDS and COMPACT_RECORDS is one that Apache Kafka has under other names only."""
    if not nullable:
        return f"{layout}.null-rejected"
    return {"records": "records.null-minus-one", "compact-records": "compact-records.null-zero"}.get(layout, "")


# --- tagged fields ------------------------------------------------------------------------------------


Known = Mapping[int, Callable[[Cursor, int], Any]]
"""Tag to what reads a field's value, given the cursor behind its bytes and where they begin."""


def read_tagged(cursor: Cursor, known: Known | None = None) -> tuple[dict[str, Any], ...]:
    """A tagged-field section (primitive-types#structure, #behavioral-requirements).

    Every field is there with its raw `data`; those with a known tag have a `value` besides.
    """
    start, base = cursor.pos, cursor.path
    count = UNSIGNED_VARINT.decode(cursor)
    cursor.span("#count", start, count, "UNSIGNED_VARINT")
    if count >= 1 << 31:
        # A signed loop bound: Kafka's Java sees no field at all (decisions#tagged-fields-and-messages).
        hint = f"{count} fields is a negative number for a signed reader"
        cursor.remark("tagged.section-layout", hint, at=start, openness=Openness.ELSEWHERE)
        return ()
    # A count beyond the bytes shows at the field that is not there: what stands before that may be worse.
    fields: list[dict[str, Any]] = []
    for index in range(count):
        if cursor.tracing:
            cursor.path = f"{base}[{index}]"
        fields.append(_read_tag(cursor, fields, known or {}))
    cursor.path = base
    return tuple(fields)


def _read_tag(cursor: Cursor, before: list[dict[str, Any]], known: Known) -> dict[str, Any]:
    start = cursor.pos
    tag: int = UNSIGNED_VARINT.decode(cursor)
    cursor.span("tag", start, tag, "UNSIGNED_VARINT")
    if before and tag <= before[-1]["tag"]:
        cursor.fail(_unordered(tag, before), f"tag {tag} after tag {before[-1]['tag']}", at=start)
    if tag >= 1 << 31:
        cursor.remark(
            "tagged.non-negative", f"tag {tag} is negative for a signed reader", at=start, openness=Openness.ANY_VALUE
        )
    start = cursor.pos
    size = UNSIGNED_VARINT.decode(cursor)
    cursor.span("size", start, size, "UNSIGNED_VARINT")
    # Of a size that is negative to a signed reader Apache Kafka's messages die; that of a known field it passes over.
    rule = "robustness.tagged-field-size" if size >= 1 << 31 and tag not in known else "tagged.size-bounds-data"
    data = cursor.take(size, rule, "tagged field", at=start, open=tag in known)
    cursor.span("data", cursor.pos - size, data)
    value = {"value": known[tag](cursor, cursor.pos - size)} if tag in known else {}
    return {"tag": tag, "data": data, **value}


def _unordered(tag: int, before: list[dict[str, Any]]) -> str:
    """What a tag breaks that is not above the one before it."""
    duplicate = any(entry["tag"] == tag for entry in before)
    return "tagged.duplicate-rejected" if duplicate else "tagged.strictly-ascending"


def _write_tagged(value: Any) -> bytes:
    out = [_encode_uvarint(len(value))]
    for index, entry in enumerate(value):
        tag, data = entry.get("tag"), entry.get("data")
        out += _encode_uvarint(tag, "tagged.non-negative"), _encode_uvarint(len(_write_bytes(data))), data
        if index and tag <= value[index - 1]["tag"]:
            raise Unencodable(_unordered(tag, value[:index]), f"tag {tag} after tag {value[index - 1]['tag']}")
    return b"".join(out)


TAGGED_FIELDS = Wire(
    "TAGGED_FIELDS",
    read_tagged,
    _write_tagged,
    n.ListOf(n.Fields({"tag": n.NUMBER, "data": n.HEX}), nullable=False),
    UNSIGNED_VARINT.smallest,
    ((),),
)


# --- the table ----------------------------------------------------------------------------------------

PRIMITIVES: dict[str, Wire] = {
    row.name: row
    for row in (
        *(INT8, INT16, INT32, INT64, UINT16, UINT32, VARINT, VARLONG, UNSIGNED_VARINT, FLOAT64, UUID, BOOLEAN),
        *_sized_rows(),
        TAGGED_FIELDS,
    )
}

_COUNT = "array.too-few-elements-rejected"
_NEGATIVE = "array.negative-count"

ARRAYS: dict[str, tuple[Prefix, str]] = {
    "ARRAY": (
        Prefix(INT32, nullable=True, null_rule="array.null-minus-one", negative_rule=_NEGATIVE, negative_open=True),
        _COUNT,
    ),
    "NULLABLE_ARRAY": (Prefix(INT32, nullable=True, negative_rule=_NEGATIVE, negative_open=True), _COUNT),
    "COMPACT_ARRAY": (
        Prefix(
            UNSIGNED_VARINT,
            plus=1,
            nullable=True,
            null_rule="compact-array.null-zero",
            negative_rule=_NEGATIVE,
        ),
        _COUNT,
    ),
    "COMPACT_NULLABLE_ARRAY": (
        Prefix(UNSIGNED_VARINT, plus=1, nullable=True, negative_rule=_NEGATIVE),
        _COUNT,
    ),
}
"""The array types: how the count stands, and what too few elements break (primitive-types#array, #compact-array)."""


def array_of(form: str, element: Wire) -> Wire:
    """The array type `form` (a key of ARRAYS) of any element type."""
    prefix, truncated = ARRAYS[form]
    return array(f"{form}<{element.name}>", prefix, element, truncated)
