"""A record of a record batch and its headers (record-batch#record-format), as tables."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from conformance.codec._length_prefixed import CHARACTERS, OCTETS, LengthPrefix, array, sized, write_text
from conformance.codec.cursor import Cursor, Unencodable
from conformance.codec.derived_fields import ByteLength, ExpectedRange
from conformance.codec.layout import Field, Layout, wire_of
from conformance.codec.primitives import INT8, VARINT, VARLONG
from conformance.codec.wire_type import WireType

# --- header -------------------------------------------------------------------------------------------

_HEADER_KEY = sized(
    "header key",
    LengthPrefix(VARINT, null_rule="header.key-not-nullable", negative_rule="header.key-not-nullable"),
    replace(CHARACTERS, write=partial(write_text, rule="header.key-surrogate-unwritable")),
    "header.key-length",
)


def _nullable_bytes(rule: str, truncated: str) -> WireType:
    prefix = LengthPrefix(VARINT, nullable=True, negative_rule=rule, negative_open=True)
    return sized("bytes", prefix, OCTETS, truncated)


def _nul_in_key(cursor: Cursor, key: str, start: int) -> None:
    if "\0" in key:
        cursor.remark("header.key-no-nul", "the header key contains U+0000", at=start)


HEADER_LAYOUT = Layout(
    "Header",
    (
        Field("key", _HEADER_KEY, "header.key-bytes", check=_nul_in_key),
        Field(
            "value", _nullable_bytes("header.value-absent-when-negative", "header.value-length"), "header.value-length"
        ),
    ),
)
HEADER = wire_of(HEADER_LAYOUT)

# --- record -------------------------------------------------------------------------------------------


_UNUSED = ExpectedRange("record.attributes-zero", 0, 0, "attributes are {}, expected 0")
_RISING = ExpectedRange("record.offset-delta", 0, None, "offsetDelta is {}, expected 0 or more")


def _refuse_attributes(value: Any) -> None:
    if value != 0:
        raise Unencodable("record.attributes-zero", f"attributes are {value!r}, expected 0")


RECORD_LAYOUT = Layout(
    "RECORD",
    (
        Field(
            "length",
            VARINT,
            "record.length-covers-attributes-to-headers",
            derive=ByteLength("record.length-mismatch-rejected"),
        ),
        Field("attributes", INT8, "record.attributes-zero", check=_UNUSED, refuse=_refuse_attributes),
        Field("timestampDelta", VARLONG, "record.timestamp-delta"),
        Field("offsetDelta", VARINT, "record.offset-delta", check=_RISING),
        Field("key", _nullable_bytes("record.key-absent-when-negative", "record.key-length"), "record.key-length"),
        Field(
            "value", _nullable_bytes("record.value-absent-when-negative", "record.value-length"), "record.value-length"
        ),
        Field(
            "headers",
            array(
                "headers",
                LengthPrefix(VARINT, null_rule="record.headers-count", negative_rule="record.headers-count"),
                HEADER,
                "record.headers-follow-count",
            ),
            "record.headers-follow-count",
        ),
    ),
    hidden=("length",),
)
RECORD = wire_of(RECORD_LAYOUT)
