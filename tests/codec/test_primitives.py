"""The primitive types of the reference codec: round trips, limits, unspecified input."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from conformance import codec
from conformance.codec.primitives import ARRAYS, PRIMITIVES

NAN = 0x7FF8_0000_0000_0000
NUMBERS = {
    "INT8": (-(1 << 7), (1 << 7) - 1),
    "INT16": (-(1 << 15), (1 << 15) - 1),
    "INT32": (-(1 << 31), (1 << 31) - 1),
    "INT64": (-(1 << 63), (1 << 63) - 1),
    "UINT16": (0, (1 << 16) - 1),
    "UINT32": (0, (1 << 32) - 1),
    "VARINT": (-(1 << 31), (1 << 31) - 1),
    "VARLONG": (-(1 << 63), (1 << 63) - 1),
    "UNSIGNED_VARINT": (0, (1 << 32) - 1),
}
FIXED = {"INT8": ">b", "INT16": ">h", "INT32": ">i", "INT64": ">q", "UINT16": ">H", "UINT32": ">I"}
STRINGS = [name for name in PRIMITIVES if name.endswith("STRING")]
BYTES = [name for name in PRIMITIVES if name.endswith(("BYTES", "RECORDS"))]
SIZED = [*STRINGS, *BYTES]
NO_NULL = ["STRING", "COMPACT_STRING", "BYTES", "COMPACT_BYTES"]


def encode(name, value):
    return codec.encode(name, value)


def decode(name, data):
    return codec.decode(name, bytes.fromhex(data) if isinstance(data, str) else data)


def marks(found):
    """Return the requirement and position of each mark of a decode."""
    return [(mark.requirement, mark.at) for mark in found]


def rejection(name, data):
    """Return the violated requirement, which must be certain."""
    read = decode(name, data)
    assert not read.ok
    assert read.value is None
    assert not read.violations[0].open
    return read.violations[0].requirement


def random_number(name, rng):
    low, high = NUMBERS[name]
    return max(low, min(high, rng.getrandbits(rng.randrange(1, 65)) * rng.choice((1, -1))))


def random_text(_, rng):
    return "".join(chr(rng.choice((0x41, 0, 0xE9, 0x20AC, 0x1F600))) for _ in range(rng.randrange(150)))


def random_bytes(_, rng):
    return rng.randbytes(rng.randrange(300))


def random_tagged(_, rng):
    tags = sorted(rng.sample(range(1 << 31), rng.randrange(5)))
    return tuple({"tag": tag, "data": rng.randbytes(rng.randrange(200))} for tag in tags)


def random_double(_, rng):
    bits = rng.getrandbits(64)
    return NAN if bits & NAN == NAN else bits


MAKERS = {
    **dict.fromkeys(NUMBERS, random_number),
    **dict.fromkeys(STRINGS, random_text),
    **dict.fromkeys(BYTES, random_bytes),
    "FLOAT64": random_double,
    "UUID": lambda _, rng: rng.randbytes(16),
    "BOOLEAN": lambda _, rng: rng.random() < 0.5,
    "TAGGED_FIELDS": random_tagged,
}


def random_edge(name, rng):
    return rng.choice(PRIMITIVES[name].edges)


def random_value(name, rng):
    return MAKERS.get(name, random_edge)(name, rng)


def values(name):
    rng = random.Random(name)
    return [*PRIMITIVES[name].edges, *(random_value(name, rng) for _ in range(150))]


# --- any type -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIMITIVES)
def test_an_encoded_value_is_read_back_without_a_remark(name):
    for value in values(name):
        read = decode(name, data := encode(name, value))
        assert (read.value, read.consumed, read.violations, read.remarks) == (value, len(data), (), ())


@pytest.mark.parametrize("name", PRIMITIVES)
def test_bytes_after_a_value_are_not_consumed(name):
    for value in values(name)[:40]:
        data = encode(name, value)
        for tail in (b"\0", b"\xff\xff\xff\xff\xff\xff"):
            read = decode(name, data + tail)
            assert (read.value, read.consumed, read.remarks) == (value, len(data), ())


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_value_cut_anywhere_is_rejected(name):
    for value in values(name)[:60]:
        data = encode(name, value)
        for size in range(min(len(data), 40)):
            assert rejection(name, data[:size])


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_smallest_size_of_a_type_is_a_tight_lower_bound(name):
    sizes = [len(encode(name, value)) for value in values(name)]
    assert min(sizes) == PRIMITIVES[name].smallest


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_decoder_never_raises_and_never_reads_beyond_the_bytes(name):
    rng = random.Random(1)
    for _ in range(300):
        data = bytes(rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256))) for _ in range(rng.randrange(12)))
        read = decode(name, data)
        assert read.consumed <= len(data)
        assert read.ok == (not read.violations)


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("value", [object(), 1.5, [None], {}])
def test_a_value_of_another_python_type_is_unencodable(name, value):
    if name == "TAGGED_FIELDS":
        value = ({"tag": value, "data": b""},)
    with pytest.raises(codec.Unencodable):
        encode(name, value)


def test_an_unknown_type_is_named_in_the_error():
    for name in ("INT7", "ARRAY", "ARRAY<INT7>", "SET<INT8>", "ARRAY<INT8", "INT8>", "ARRAY<>", "", "ARRAY<LOG>"):
        with pytest.raises(codec.UnknownType):
            codec.wire(name)
    with pytest.raises(codec.UnknownType):
        codec.wire("ARRAY<" * 1000 + "INT8" + ">" * 1000)


# --- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIXED)
def test_numbers_of_fixed_width_are_big_endian(name):
    for value in values(name):
        assert encode(name, value) == struct.pack(FIXED[name], value)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_outside_the_range_have_no_encoding(name):
    low, high = NUMBERS[name]
    for value in (low, high):
        assert decode(name, encode(name, value)).value == value
    for value in (low - 1, high + 1, low - (1 << 70), high << 70, True, None, "0"):
        with pytest.raises(codec.Unencodable):
            encode(name, value)


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        *[("INT8", 0, "00"), ("INT8", -1, "ff"), ("INT8", 127, "7f"), ("INT8", -128, "80")],
        *[("INT16", 256, "0100"), ("INT16", -1, "ffff"), ("INT32", 16909060, "01020304")],
        *[("VARINT", 0, "00"), ("VARINT", -1, "01"), ("VARINT", 1, "02"), ("VARINT", 63, "7e")],
        *[("VARINT", 64, "8001"), ("VARINT", -65, "8101"), ("VARINT", 8191, "fe7f"), ("VARINT", 8192, "808001")],
        *[("VARINT", (1 << 31) - 1, "feffffff0f"), ("VARINT", -(1 << 31), "ffffffff0f")],
        *[("UNSIGNED_VARINT", 127, "7f"), ("UNSIGNED_VARINT", 128, "8001"), ("UNSIGNED_VARINT", 16383, "ff7f")],
        *[("UNSIGNED_VARINT", 16384, "808001"), ("UNSIGNED_VARINT", (1 << 32) - 1, "ffffffff0f")],
        *[("BOOLEAN", False, "00"), ("BOOLEAN", True, "01"), ("UUID", bytes(16), "00" * 16)],
        *[("STRING", "", "0000"), ("STRING", "a", "000161"), ("STRING", "hello", "000568656c6c6f")],
        *[("NULLABLE_STRING", None, "ffff"), ("NULLABLE_STRING", "", "0000")],
        *[("NULLABLE_STRING", "test", "000474657374"), ("COMPACT_STRING", "", "01"), ("COMPACT_STRING", "a", "0261")],
        *[("COMPACT_STRING", "hello", "0668656c6c6f"), ("COMPACT_NULLABLE_STRING", None, "00")],
        *[("COMPACT_NULLABLE_STRING", "", "01"), ("COMPACT_NULLABLE_STRING", "test", "0574657374")],
        *[("NULLABLE_BYTES", None, "ffffffff"), ("BYTES", b"\1\2", "000000020102"), ("COMPACT_BYTES", b"\1", "0201")],
        *[("COMPACT_NULLABLE_BYTES", None, "00"), ("RECORDS", None, "ffffffff"), ("COMPACT_RECORDS", None, "00")],
        *[("ARRAY<INT8>", None, "ffffffff"), ("ARRAY<INT8>", (), "00000000"), ("ARRAY<INT8>", (5,), "0000000105")],
        *[
            ("COMPACT_ARRAY<INT8>", None, "00"),
            ("COMPACT_ARRAY<INT8>", (), "01"),
            ("COMPACT_ARRAY<INT8>", (5,), "0205"),
        ],
        ("TAGGED_FIELDS", ({"tag": 9, "data": b"a"},), "01090161"),
    ],
)
def test_examples_of_the_document_are_read_and_written(name, value, data):
    assert encode(name, value).hex() == data
    read = decode(name, data)
    assert (read.value, read.consumed, read.remarks) == (value, len(data) // 2, ())


def test_zigzag_is_the_shift_of_the_document():
    for value in values("VARLONG"):
        if -(1 << 31) <= value < 1 << 31:
            assert encode("VARINT", value) == encode("VARLONG", value)
        number, plain = ((value << 1) ^ (value >> 63)) & (1 << 64) - 1, []
        while True:
            number, low = number >> 7, number & 0x7F
            plain.append(low | (0x80 if number else 0))
            if not number:
                break
        assert encode("VARLONG", value) == bytes(plain)


@pytest.mark.parametrize("name", ["VARINT", "VARLONG", "UNSIGNED_VARINT"])
def test_varint_padding_is_unspecified_and_keeps_the_value(name):
    rule = {"VARINT": "varint", "VARLONG": "varlong", "UNSIGNED_VARINT": "uvarint"}[name] + ".non-minimal"
    longest = 10 if name == "VARLONG" else 5
    for value in (0, 1, 60):
        short = encode(name, value)
        for size in range(2, longest + 1):
            padded = bytes([short[0] | 0x80]) + b"\x80" * (size - 2) + b"\0"
            read = decode(name, padded)
            assert (read.value, read.consumed, marks(read.remarks)) == (value, size, [(rule, size - 1)])
            assert read.remarks[0].open


@pytest.mark.parametrize(
    ("name", "data", "value", "rule"),
    [
        ("VARINT", "ffffffff1f", -(1 << 31), "varint.fifth-byte-excess-bits"),
        ("VARINT", "ffffffff7f", -(1 << 31), "varint.fifth-byte-excess-bits"),
        ("UNSIGNED_VARINT", "ffffffff1f", (1 << 32) - 1, "uvarint.fifth-byte-excess-bits"),
        ("UNSIGNED_VARINT", "8080808010", 0, "uvarint.fifth-byte-excess-bits"),
        ("VARINT", "8080808070", 0, "varint.fifth-byte-excess-bits"),
        ("VARLONG", "ffffffffffffffffff03", -(1 << 63), "varlong.tenth-byte-excess-bits"),
        ("VARLONG", "ffffffffffffffffff02", -(1 << 62), "varlong.tenth-byte-excess-bits"),
        ("VARLONG", "80808080808080808002", 0, "varlong.tenth-byte-excess-bits"),
    ],
)
def test_varint_bits_beyond_the_width_are_dropped_and_leave_a_remark(name, data, value, rule):
    read = decode(name, data)
    assert (read.value, read.consumed) == (value, len(data) // 2)
    assert marks(read.remarks) == [(rule, len(data) // 2 - 1)]


def test_a_continuation_bit_in_the_last_byte_is_too_long_even_at_the_end_of_the_bytes():
    for name, rule in (("VARINT", "varint.max-five-bytes"), ("UNSIGNED_VARINT", "uvarint.max-five-bytes")):
        for data in ("8080808080", "808080808000", "ffffffff8f00"):
            assert rejection(name, data) == rule
    for data in ("80808080808080808080", "8080808080808080808000"):
        assert rejection("VARLONG", data) == "varlong.max-ten-bytes"
    for name in ("VARINT", "UNSIGNED_VARINT", "VARLONG"):
        assert (
            rejection(name, "") == rejection(name, "80") == rejection(name, "80808080") == "varint.truncated-rejected"
        )


def test_any_byte_but_zero_is_true():
    assert [decode("BOOLEAN", bytes([byte])).value for byte in range(256)] == [False] + [True] * 255


def test_the_bits_of_any_double_are_kept_on_reading_and_nan_is_written_canonical():
    for bits in (0x7FF8_0000_0000_0001, 0x7FF0_0000_0000_0001, (1 << 64) - 1):
        assert decode("FLOAT64", bits.to_bytes(8, "big")).value == bits
        assert encode("FLOAT64", bits).hex() == "7ff8000000000000"
    for number in (1.5, -0.0, float("inf"), float("-inf"), 5e-324):
        (bits,) = struct.unpack(">Q", struct.pack(">d", number))
        assert encode("FLOAT64", bits) == struct.pack(">d", number)
    for bits in (-1, 1 << 64):
        with pytest.raises(codec.Unencodable):
            encode("FLOAT64", bits)


# --- strings and bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NO_NULL)
def test_a_type_without_null_rejects_null_in_both_directions(name):
    wide = {"STRING": "ffff", "BYTES": "ffffffff"}.get(name, "00")
    rule = f"{name.lower().replace('_', '-')}.null-rejected"
    assert rejection(name, wide) == rule
    with pytest.raises(codec.Unencodable, match=rule):
        encode(name, None)


@pytest.mark.parametrize("name", ["STRING", "NULLABLE_STRING", "BYTES", "NULLABLE_BYTES", "RECORDS"])
def test_a_length_below_minus_one_is_rejected_or_unspecified_in_nullable_types(name):
    size = 2 if "STRING" in name else 4
    for length in (-2, -(1 << 8 * size - 1)):
        data = length.to_bytes(size, "big", signed=True)
        if name in NO_NULL:
            assert rejection(name, data) == f"{name.lower()}.layout"
        else:
            read = decode(name, data)
            rule = "string.negative-length" if "STRING" in name else "bytes.negative-length"
            assert (read.ok, read.value, read.consumed, marks(read.remarks)) == (True, None, size, [(rule, 0)])


@pytest.mark.parametrize("name", [name for name in SIZED if name.startswith("COMPACT")])
def test_a_compact_length_beyond_a_signed_int_is_null_only_in_nullable_types(name):
    for data in ("ffffffff0f", "8280808008", "8180808008"):
        if name in NO_NULL:
            assert rejection(name, data).endswith("truncated-rejected")
        else:
            read = decode(name, data)
            assert (read.value, read.consumed, len(read.remarks)) == (None, 5, 1)
    assert rejection(name, "8080808008").endswith("truncated-rejected")


@pytest.mark.parametrize("name", STRINGS)
def test_a_string_length_counts_bytes_and_has_a_limit(name):
    most = "\u00e9" * 16383
    assert decode(name, encode(name, most)).value == most
    if name.startswith("COMPACT"):
        long = "a" * 40000
        assert decode(name, encode(name, long)).value == long
    else:
        for long in ("a" * 32768, "\u00e9" * 16384):
            with pytest.raises(codec.Unencodable, match="-32768 to 32767"):
                encode(name, long)


@pytest.mark.parametrize("name", STRINGS)
@pytest.mark.parametrize("text", ["c3", "c328", "eda080", "f8888080", "ff", "c080", "61ff62"])
def test_invalid_utf8_allows_any_outcome_and_is_never_written(name, text):
    raw = bytes.fromhex(text)
    data = (bytes([len(raw) + 1]) if name.startswith("COMPACT") else len(raw).to_bytes(2, "big")) + raw
    read = decode(name, data)
    assert read.ok
    assert [(mark.requirement, mark.openness is codec.Definedness.ANY_VALUE) for mark in read.remarks] == [
        ("utf8.invalid-implementation-defined", True)
    ]
    shown = codec.wire(name).notation.render(read.value)
    shown.encode("utf-8")
    with pytest.raises(codec.Unencodable):
        encode(name, read.value)


def test_a_lone_surrogate_has_no_encoding():
    with pytest.raises(codec.Unencodable, match=r"utf8\.encoded-valid"):
        encode("STRING", "a\ud800b")


# --- arrays -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("element", [*PRIMITIVES, "ARRAY<INT16>", "COMPACT_ARRAY<ARRAY<STRING>>"])
def test_arrays_of_anything_are_read_back_and_null_differs_from_empty(form, element):
    name, rng = f"{form}<{element}>", random.Random(2)
    if "<" in element:
        inner = "INT16" if "INT16" in element else "STRING"
        one = tuple(random_value(inner, rng) for _ in range(3))
        entries = [None, (), one] if inner == "INT16" else [None, (), (one, None, ())]
    else:
        entries = [random_value(element, rng) for _ in range(5)]
    for value in (None, (), tuple(entries)):
        data = encode(name, value)
        read = decode(name, data + b"\1")
        assert (read.value, read.consumed, read.remarks) == (value, len(data), ())
        assert len(data) >= codec.wire(name).smallest
        for size in range(0, len(data), max(1, len(data) // 40)):
            assert rejection(name, data[:size])


@pytest.mark.parametrize("form", ["ARRAY", "NULLABLE_ARRAY"])
def test_a_count_below_null_is_unspecified_and_read_as_null(form):
    for data in ("fffffffe", "80000000"):
        read = decode(f"{form}<STRING>", data)
        assert (read.ok, read.value, read.consumed) == (True, None, 4)
        assert marks(read.remarks) == [("array.negative-count", 0)]


@pytest.mark.parametrize("form", ["COMPACT_ARRAY", "COMPACT_NULLABLE_ARRAY"])
def test_a_compact_count_beyond_the_bytes_is_rejected(form):
    for data in ("8080808008", "ffffffff07", "0300"):
        assert rejection(f"{form}<INT8>", data) == "array.too-few-elements-rejected"


@pytest.mark.parametrize("form", ["COMPACT_ARRAY", "COMPACT_NULLABLE_ARRAY"])
def test_a_compact_count_that_is_negative_as_a_signed_int_is_unspecified_and_read_as_null(form):
    for data in ("ffffffff0f", "8180808008"):
        read = decode(f"{form}<INT8>", data)
        assert (read.ok, read.value, read.consumed) == (True, None, 5)
        assert marks(read.remarks) == [("array.negative-count", 0)]


@pytest.mark.parametrize(
    ("name", "data", "at"),
    [
        *[("STRING", "7fff61", 0), ("COMPACT_BYTES", "0561", 0), ("ARRAY<STRING>", "00000001000261", 4)],
        *[("ARRAY<INT64>", "00000001000261", 0), ("TAGGED_FIELDS", "01090561", 2)],
    ],
)
def test_a_length_beyond_the_bytes_is_reported_at_the_length_field(name, data, at):
    assert decode(name, data).violations[0].at == at


def test_null_elements_of_a_type_without_null_are_rejected():
    assert rejection("ARRAY<STRING>", "00000001ffff") == "string.null-rejected"
    assert decode("ARRAY<NULLABLE_STRING>", "00000001ffff").value == (None,)


# --- tagged fields ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ("02010162000161", "tagged.strictly-ascending"),
        ("02000161000162", "tagged.duplicate-rejected"),
        ("03000001000000", "tagged.duplicate-rejected"),
        ("01090561", "tagged.size-bounds-data"),
        ("01098080808008", "robustness.tagged-field-size"),
        ("0201016102", "varint.truncated-rejected"),
        ("03090161", "varint.truncated-rejected"),
    ],
)
def test_tagged_fields_that_break_a_rule_are_rejected(data, rule):
    assert rejection("TAGGED_FIELDS", data) == rule


def test_a_tag_or_count_that_is_negative_as_a_signed_int_is_unspecified():
    for data, tag in (("01808080800800", 1 << 31), ("01ffffffff0f00", (1 << 32) - 1)):
        read = decode("TAGGED_FIELDS", data)
        assert read.value == ({"tag": tag, "data": b""},)
        assert marks(read.remarks) == [("tagged.non-negative", 1)]
    for data in ("ffffffff0f", "8080808008"):
        read = decode("TAGGED_FIELDS", data)
        assert (read.value, read.consumed) == ((), 5)
        assert marks(read.remarks) == [("tagged.section-layout", 0)]


def test_tags_are_written_only_in_strictly_ascending_order():
    def entry(tag):
        return {"tag": tag, "data": b""}

    for wrong in ((1, 0), (1, 1), (0, 2, 0), (-1,)):
        with pytest.raises(codec.Unencodable, match="tagged"):
            encode("TAGGED_FIELDS", tuple(map(entry, wrong)))
    with pytest.raises(codec.Unencodable):
        encode("TAGGED_FIELDS", ({"tag": 0},))


# --- memory -------------------------------------------------------------------------------------------

HOSTILE = [
    ("STRING", "7fff61"),
    ("NULLABLE_STRING", "7fff"),
    ("COMPACT_STRING", "ffffffff07"),
    ("COMPACT_STRING", "ffffffff0f"),
    ("COMPACT_NULLABLE_STRING", "8080808008"),
    ("BYTES", "7fffffff61"),
    ("NULLABLE_BYTES", "7fffffff"),
    ("COMPACT_BYTES", "ffffffff0f61"),
    ("COMPACT_NULLABLE_BYTES", "8080808008"),
    ("RECORDS", "7fffffff"),
    ("COMPACT_RECORDS", "ffffffff07"),
    ("ARRAY<INT8>", "7fffffff00000000"),
    ("ARRAY<TAGGED_FIELDS>", "7fffffff00000000"),
    ("ARRAY<ARRAY<ARRAY<INT8>>>", "0000000100000001" + "7fffffff"),
    ("COMPACT_ARRAY<COMPACT_STRING>", "ffffffff0700"),
    ("TAGGED_FIELDS", "ffffffff07"),
    ("TAGGED_FIELDS", "0100ffffffff07"),
    ("TAGGED_FIELDS", "0100ffffffff0f"),
    ("RECORD", "feffffff0f00"),
    ("RECORD", "18000000026b0276feffffff0f"),
    ("RECORD", "12000000feffffff0f00"),
    ("RECORD", "120000000001feffffff0f"),
]


@pytest.mark.parametrize(("name", "data"), HOSTILE)
def test_a_huge_length_or_count_is_rejected_before_any_allocation(name, data):
    raw = bytes.fromhex(data)
    decode(name, raw)
    tracemalloc.start()
    try:
        assert rejection(name, raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
