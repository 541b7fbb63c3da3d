"""The table of primitive types (primitive-types.md): one row per type, with both directions.

The row also has the size, the notation, and the edges for strategies and mutations. A new primitive is one row of
PRIMITIVES; it needs a constant only if other tables use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.codec import json_notation as n
from conformance.codec._length_prefixed import CHARACTERS, OCTETS, LengthPrefix, array, sized, write_bytes
from conformance.codec.cursor import Cursor, Definedness, Unencodable
from conformance.codec.wire_type import (
    VarintFormat,
    VarintShape,
    WireType,
    fixed,
    integer,
    write_boolean,
    write_float,
    write_uuid,
    zigzag,
)

# --- numbers -------------------------------------------------------------------------------------------

INT8 = integer("INT8", 1, signed=True)
INT16 = integer("INT16", 2, signed=True)
INT32 = integer("INT32", 4, signed=True)
INT64 = integer("INT64", 8, signed=True, notation=n.DECIMAL)
UINT16 = integer("UINT16", 2, signed=False)
UINT32 = integer("UINT32", 4, signed=False)

_32 = VarintFormat(32, 5, "varint.max-five-bytes", "varint.fifth-byte-excess-bits", "varint.non-minimal")
_64 = VarintFormat(64, 10, "varlong.max-ten-bytes", "varlong.tenth-byte-excess-bits", "varlong.non-minimal")
_U32 = VarintFormat(32, 5, "uvarint.max-five-bytes", "uvarint.fifth-byte-excess-bits", "uvarint.non-minimal")


def _encode_uvarint(value: Any, rule: str = "uvarint.range") -> bytes:
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise Unencodable(rule, f"{value!r} is not in the range of UNSIGNED_VARINT (0 to 4294967295)")
    return _U32.write(value)


VARINT = zigzag("VARINT", _32, "varint.range", n.NUMBER)
VARLONG = zigzag("VARLONG", _64, "varlong.range", n.DECIMAL)
UNSIGNED_VARINT = WireType(
    "UNSIGNED_VARINT",
    _U32.read,
    _encode_uvarint,
    n.NUMBER,
    1,
    tuple((1 << 7 * k) + nudge for k in range(5) for nudge in (-1, 0)) + ((1 << 31) - 1, 1 << 31, (1 << 32) - 1),
    shape=VarintShape(_U32, signed=False),
)


# --- tagged fields -------------------------------------------------------------------------------------


Known = Mapping[int, Callable[[Cursor, int], Any]]
"""The readers of field values by tag; a reader receives the cursor, after the data, and the start of the data."""


def read_tagged(cursor: Cursor, known: Known | None = None) -> tuple[dict[str, Any], ...]:
    """Read a tagged-field section (primitive-types#structure, #behavioral-requirements).

    Every field has its raw `data`; a field with a known tag also has a `value`.
    """
    start, base = cursor.pos, cursor.path
    count = UNSIGNED_VARINT.decode(cursor)
    cursor.span("#count", start, count, "UNSIGNED_VARINT")
    if count >= 1 << 31:
        # Kafka's Java has a signed loop bound, so it reads no field (decisions#tagged-fields-and-messages).
        hint = f"count is {count}, which is negative for a signed reader"
        cursor.remark("tagged.section-layout", hint, at=start, openness=Definedness.ELSEWHERE)
        return ()
    # The count is not compared with the bytes left: an earlier field may have a worse error.
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
        cursor.fail(_unordered(tag, before), f"tag is {tag}, expected more than {before[-1]['tag']}", at=start)
    if tag >= 1 << 31:
        cursor.remark(
            "tagged.non-negative",
            f"tag {tag} is negative for a signed reader",
            at=start,
            openness=Definedness.ANY_VALUE,
        )
    start = cursor.pos
    size = UNSIGNED_VARINT.decode(cursor)
    cursor.span("size", start, size, "UNSIGNED_VARINT")
    # Apache Kafka crashes on a size that is negative for a signed reader, but ignores that of a known field.
    rule = "robustness.tagged-field-size" if size >= 1 << 31 and tag not in known else "tagged.size-bounds-data"
    data = cursor.take(size, rule, "tagged field", at=start, open=tag in known)
    cursor.span("data", cursor.pos - size, data)
    value = {"value": known[tag](cursor, cursor.pos - size)} if tag in known else {}
    return {"tag": tag, "data": data, **value}


def _unordered(tag: int, before: list[dict[str, Any]]) -> str:
    """Return the requirement that a tag breaks if it is not above the one before it."""
    duplicate = any(entry["tag"] == tag for entry in before)
    return "tagged.duplicate-rejected" if duplicate else "tagged.strictly-ascending"


def _write_tagged(value: Any) -> bytes:
    out = [_encode_uvarint(len(value))]
    for index, entry in enumerate(value):
        tag, data = entry.get("tag"), entry.get("data")
        out += _encode_uvarint(tag, "tagged.non-negative"), _encode_uvarint(len(write_bytes(data))), data
        if index and tag <= value[index - 1]["tag"]:
            hint = f"tag is {tag}, expected more than {value[index - 1]['tag']}"
            raise Unencodable(_unordered(tag, value[:index]), hint)
    return b"".join(out)


TAGGED_FIELDS = WireType(
    "TAGGED_FIELDS",
    read_tagged,
    _write_tagged,
    n.ListOf(n.ObjectOf({"tag": n.NUMBER, "data": n.HEX}), nullable=False),
    UNSIGNED_VARINT.smallest,
    ((),),
)


# --- the table -----------------------------------------------------------------------------------------

PRIMITIVES: dict[str, WireType] = {
    row.name: row
    for row in (
        *(INT8, INT16, INT32, INT64, UINT16, UINT32, VARINT, VARLONG, UNSIGNED_VARINT),
        fixed(
            "FLOAT64",
            8,
            "float64.layout",
            notation=n.FLOAT_BITS,
            convert=(lambda raw: int.from_bytes(raw, "big"), write_float),
            edges=(0, 1 << 63, 1, 0x7FEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 0x7FF8_0000_0000_0000),
        ),
        fixed(
            "UUID",
            16,
            "uuid.layout",
            notation=n.DASHED,
            convert=(bytes, write_uuid),
            edges=(bytes(16), bytes(range(16))),
        ),
        fixed(
            "BOOLEAN",
            1,
            "boolean.size",
            notation=n.TRUTH,
            convert=(lambda raw: raw != b"\0", write_boolean),
            edges=(False, True),
        ),
        sized(
            "STRING",
            LengthPrefix(INT16, null_rule="string.null-rejected", negative_rule="string.layout"),
            CHARACTERS,
            "string.truncated-rejected",
        ),
        sized(
            "BYTES",
            LengthPrefix(INT32, null_rule="bytes.null-rejected", negative_rule="bytes.layout"),
            OCTETS,
            "bytes.truncated-rejected",
        ),
        sized(
            "RECORDS",
            LengthPrefix(INT32, nullable=True, negative_rule="bytes.negative-length", negative_open=True),
            OCTETS,
            "bytes.truncated-rejected",
        ),
        sized(
            "NULLABLE_STRING",
            LengthPrefix(INT16, nullable=True, negative_rule="string.negative-length", negative_open=True),
            CHARACTERS,
            "string.truncated-rejected",
        ),
        sized(
            "NULLABLE_BYTES",
            LengthPrefix(INT32, nullable=True, negative_rule="bytes.negative-length", negative_open=True),
            OCTETS,
            "bytes.truncated-rejected",
        ),
        sized(
            "COMPACT_STRING",
            LengthPrefix(
                UNSIGNED_VARINT,
                plus=1,
                null_rule="compact-string.null-rejected",
                long_rule="compact-string.max-length",
                negative_rule="compact-string.layout",
            ),
            CHARACTERS,
            "compact-string.truncated-rejected",
        ),
        sized(
            "COMPACT_BYTES",
            LengthPrefix(
                UNSIGNED_VARINT, plus=1, null_rule="compact-bytes.null-rejected", negative_rule="compact-bytes.layout"
            ),
            OCTETS,
            "bytes.truncated-rejected",
        ),
        sized(
            "COMPACT_RECORDS",
            LengthPrefix(
                UNSIGNED_VARINT, plus=1, nullable=True, negative_rule="bytes.negative-length", negative_open=True
            ),
            OCTETS,
            "bytes.truncated-rejected",
        ),
        sized(
            "COMPACT_NULLABLE_STRING",
            LengthPrefix(
                UNSIGNED_VARINT,
                plus=1,
                nullable=True,
                long_rule="compact-string.max-length",
                negative_rule="string.negative-length",
                negative_open=True,
            ),
            CHARACTERS,
            "compact-string.truncated-rejected",
        ),
        sized(
            "COMPACT_NULLABLE_BYTES",
            LengthPrefix(
                UNSIGNED_VARINT, plus=1, nullable=True, negative_rule="bytes.negative-length", negative_open=True
            ),
            OCTETS,
            "bytes.truncated-rejected",
        ),
        TAGGED_FIELDS,
    )
}
_COUNT = "array.too-few-elements-rejected"
_NEGATIVE = "array.negative-count"

ARRAYS: dict[str, tuple[LengthPrefix, str]] = {
    "ARRAY": (
        LengthPrefix(
            INT32, nullable=True, null_rule="array.null-minus-one", negative_rule=_NEGATIVE, negative_open=True
        ),
        _COUNT,
    ),
    "NULLABLE_ARRAY": (LengthPrefix(INT32, nullable=True, negative_rule=_NEGATIVE, negative_open=True), _COUNT),
    "COMPACT_ARRAY": (
        LengthPrefix(
            UNSIGNED_VARINT,
            plus=1,
            nullable=True,
            null_rule="compact-array.null-zero",
            negative_rule=_NEGATIVE,
            negative_open=True,
        ),
        _COUNT,
    ),
    "COMPACT_NULLABLE_ARRAY": (
        LengthPrefix(UNSIGNED_VARINT, plus=1, nullable=True, negative_rule=_NEGATIVE, negative_open=True),
        _COUNT,
    ),
}
"""The array types: the count, and the requirement for too few elements (primitive-types#array, #compact-array)."""


def array_of(form: str, element: WireType) -> WireType:
    """Return the array type `form` (a key of ARRAYS) of an element type."""
    prefix, truncated = ARRAYS[form]
    return array(f"{form}<{element.name}>", prefix, element, truncated)
