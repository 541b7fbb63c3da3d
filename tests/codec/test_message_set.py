"""The reference codec on messages of magic 0 and 1, message sets, and logs of several magics."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib

import pytest

from conformance import codec
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.legacy_message import SMALLEST

MAGICS = (0, 1)
WRITTEN = ("none", "gzip", "snappy", "lz4")
INT64_MAX = (1 << 63) - 1
BATCH = bytes.fromhex(
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)


def octets(value):
    """Return a length and the bytes; None is null, and a pair contains the length to write."""
    length, raw = value if isinstance(value, tuple) else (-1 if value is None else len(value), value or b"")
    return struct.pack(">i", length) + raw


def entry(offset=0, key=b"k", value=b"v", *, magic=1, stamp=1000, attributes=0, size=None, crc=None, after=b""):
    """Return an entry, written without the codec."""
    stamped = struct.pack(">q", stamp) if magic else b""
    body = struct.pack(">bB", magic, attributes) + stamped + octets(key) + octets(value) + after
    head = struct.pack(
        ">qiI", offset, len(body) + 4 if size is None else size, zlib.crc32(body) if crc is None else crc
    )
    return head + body


def wrapper(*inner, magic=1, number=1, offset=None, stamp=9000, key=None, high=0, **more):
    """Return a wrapper around entries; its default offset is that of the last entry."""
    plain = b"".join(inner)
    last = struct.unpack(">q", inner[-1][:8])[0] if offset is None else offset
    payload = CODECS[number].write(plain)
    return entry(last, key, payload, magic=magic, stamp=stamp, attributes=number | high, **more)


def decode(data, name="MESSAGE_SET", **options):
    return codec.decode(name, data, **options)


def rejection(data, name="MESSAGE_SET"):
    """Return the requirement of the first violation, which must be certain."""
    read = decode(data, name)
    assert not read.ok
    assert not read.violations[0].open, read.violations
    return read.violations[0].requirement


def open_rejection(data):
    """Return the requirement of the first violation, which must be unspecified behaviour."""
    read = decode(data)
    assert not read.ok
    assert read.violations[0].open
    assert read.violations[0].openness is codec.Definedness.ANY_VALUE
    return read.violations[0].requirement


def remarks(data, name="MESSAGE_SET"):
    """Return the requirements of the remarks on bytes that have a value."""
    read = decode(data, name)
    assert read.ok, read.violations
    assert all(mark.open for mark in read.remarks)
    return [mark.requirement for mark in read.remarks]


def seen(data, *names):
    """Return the fields of these names of each message."""
    read = decode(data)
    assert read.ok, read.violations
    return [tuple(message[name] for name in names) for message in read.value]


def random_messages(rng, magic, *, base=None):
    """Return messages as a producer could send them, with increasing offsets."""
    offset = rng.choice((0, 1, 1000, 1 << 40, 1 << 62)) if base is None else base
    out = []
    for _ in range(rng.randrange(1, 9)):
        key, value = (rng.choice((None, b"", rng.randbytes(rng.randrange(60)), b"x" * 400)) for _ in range(2))
        stamp = {"timestamp": rng.choice((-1, 0, 1000, 1 << 40, INT64_MAX))} if magic else {}
        out.append({"offset": offset, "key": key, "value": value, **stamp})
        offset += rng.choice((1, 1, 1, 70))
    return tuple(out)


def random_set(rng, magic=None, number=None):
    """Return a set as the codec writes it."""
    magic = rng.choice(MAGICS) if magic is None else magic
    messages = random_messages(rng, magic)
    return codec.encode(
        "MESSAGE_SET", messages, magic=magic, compression=rng.randrange(4) if number is None else number
    )


# --- round trips --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(WRITTEN)), ids=WRITTEN)
@pytest.mark.parametrize("magic", MAGICS)
def test_a_written_set_is_read_back_with_the_same_fields(magic, number):
    rng = random.Random(magic * 10 + number)
    for _ in range(60):
        messages = random_messages(rng, magic)
        data = codec.encode("MESSAGE_SET", messages, magic=magic, compression=number)
        read = decode(data)
        assert (read.ok, read.consumed) == (True, len(data))
        assert [
            {name: found[name] for name in message} for found, message in zip(read.value, messages, strict=True)
        ] == [*messages]
        assert {message["magic"] for message in read.value} == {magic}
        assert codec.encode("MESSAGE_SET", read.value, magic=magic, compression=number) == data


@pytest.mark.parametrize("magic", MAGICS)
def test_every_byte_of_a_message_is_at_its_documented_place(magic):
    rng = random.Random(magic)
    for _ in range(60):
        messages = random_messages(rng, magic)
        written = b"".join(
            entry(one["offset"], one["key"], one["value"], magic=magic, stamp=one.get("timestamp", 0))
            for one in messages
        )
        assert codec.encode("MESSAGE_SET", messages, magic=magic) == written
    assert len(entry(0, None, None, magic=magic)) == 12 + SMALLEST[magic]


@pytest.mark.parametrize("number", [1, 2, 3], ids=WRITTEN[1:])
@pytest.mark.parametrize("magic", MAGICS)
def test_a_written_wrapper_has_no_key_the_last_offset_the_largest_time_and_relative_offsets_from_magic_1_on(
    magic, number
):
    rng = random.Random(number)
    for _ in range(30):
        messages = random_messages(rng, magic)
        data = codec.encode("MESSAGE_SET", messages, magic=magic, compression=number)
        (outer,) = decode(data, "LOG").value["batches"]
        assert (outer["magic"], outer["compression"], outer["offset"]) == (magic, number, messages[-1]["offset"])
        at = 18 + 8 * magic
        assert data[at : at + 4] == b"\xff" * 4
        if magic:
            assert struct.unpack(">q", data[18:26])[0] == max(message["timestamp"] for message in messages)
        plain = decode(data, trail=True).layers[0]
        base = messages[0]["offset"] if magic else 0
        assert plain == codec.encode(
            "MESSAGE_SET", [{**message, "offset": message["offset"] - base} for message in messages], magic=magic
        )


def test_a_wrapper_with_log_append_time_is_written_again_unchanged():
    data = codec.encode(
        "MESSAGE_SET",
        [{"offset": at, "timestamp": 5, "timestampType": 1, "key": None, "value": b""} for at in (7, 8)],
        magic=1,
        compression=1,
    )
    assert seen(data, "offset", "timestampType", "timestamp") == [(7, 1, 5), (8, 1, 5)]
    assert remarks(data) == []
    assert codec.encode("LOG", decode(data, "LOG").value) == data


MESSAGE = {"offset": 0, "timestamp": 0, "key": b"", "value": b""}
UNENCODABLE = {
    "an offset of 65 bits": {"offset": 1 << 63},
    "a timestamp of 65 bits": {"timestamp": 1 << 63},
    "a key that is text": {"key": "k"},
    "a value that is a number": {"value": 5},
    "an offset that is null": {"offset": None},
    "a timestamp type of two bits": {"timestampType": 2},
}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("change", UNENCODABLE.values(), ids=UNENCODABLE)
def test_a_message_with_an_invalid_field_is_unencodable(change, number):
    codec.encode("MESSAGE_SET", [MESSAGE], magic=1, compression=number)
    if change == {"offset": None} and number:
        change = {"offset": 1 << 64}
    with pytest.raises(codec.Unencodable):
        codec.encode("MESSAGE_SET", [MESSAGE | change], magic=1, compression=number)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("magic", MAGICS)
def test_a_message_without_one_of_its_fields_is_unencodable(magic, number):
    for name in ("offset", "key", "value", "timestamp")[: 3 + magic]:
        partial = {field: entry for field, entry in MESSAGE.items() if field != name}
        with pytest.raises(codec.Unencodable, match=name):
            codec.encode("MESSAGE_SET", [partial], magic=magic, compression=number)


@pytest.mark.parametrize("magic", MAGICS)
def test_codecs_unknown_to_old_magics_and_empty_wrappers_are_unencodable(magic):
    for number in (4, 5, 7, -1):
        with pytest.raises(codec.Unencodable):
            codec.encode("MESSAGE_SET", [MESSAGE], magic=magic, compression=number)
    with pytest.raises(codec.Unencodable):
        codec.encode("MESSAGE_SET", [], magic=magic, compression=1)
    assert codec.encode("MESSAGE_SET", [], magic=magic) == b""


def test_a_wrapper_has_one_timestamp_type_and_one_append_time():
    for first, second in (({}, {"timestampType": 1}), ({"timestampType": 1}, {"timestampType": 1, "timestamp": 9})):
        messages = [MESSAGE | first, MESSAGE | {"offset": 1} | second]
        codec.encode("MESSAGE_SET", messages, magic=1)
        with pytest.raises(codec.Unencodable):
            codec.encode("MESSAGE_SET", messages, magic=1, compression=1)


# --- damage -------------------------------------------------------------------------------------------


def test_a_set_cut_anywhere_keeps_only_its_whole_messages():
    rng = random.Random(5)
    for _ in range(12):
        parts = [random_set(rng, number=rng.choice((0, 1))) for _ in range(2)]
        whole = [len(parts[0]), len(parts[0]) + len(parts[1])]
        data = b"".join(parts)
        ends = [0]
        while ends[-1] < whole[1]:
            ends.append(ends[-1] + 12 + struct.unpack(">i", data[ends[-1] + 8 : ends[-1] + 12])[0])
        for cut in {*ends, *(end - 1 for end in ends[1:]), *(rng.randrange(len(data)) for _ in range(40))}:
            read = decode(data[:cut])
            assert (read.ok, read.remarks) == (True, ()), cut
            assert read.consumed == max(end for end in ends if end <= cut)
            assert read.value == decode(data[: read.consumed]).value


def test_a_message_that_ends_inside_its_layout_is_rejected():
    for magic in MAGICS:
        body = entry(0, b"key", b"value", magic=magic)[16:]
        for stop in range(2, len(body)):
            cut = struct.pack(">qiI", 0, stop + 4, zlib.crc32(body[:stop])) + body[:stop]
            assert rejection(cut) in (
                *("message-set.size-mismatch-rejected", "robustness.message-size-v1"),
                "robustness.message-key-length",
            )


@pytest.mark.parametrize("number", range(len(WRITTEN)), ids=WRITTEN)
@pytest.mark.parametrize("magic", MAGICS)
def test_any_single_bit_flip_covered_by_the_checksum_is_rejected(magic, number):
    data = codec.encode("MESSAGE_SET", random_messages(random.Random(3), magic), magic=magic, compression=number)
    size = 12 + struct.unpack(">i", data[8:12])[0]
    for bit in range(12 * 8, size * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        if bit // 8 == 16:
            continue  # another magic is another layout
        found = {violation.requirement for violation in decode(bytes(flipped)).violations}
        assert found & {"legacy.crc-checked", "legacy.wrapper-crc-checked"}, bit


def test_a_wrong_checksum_is_the_only_violation_and_depends_on_the_magic():
    for magic in MAGICS:
        plain, bad = entry(0, magic=magic), entry(0, magic=magic, crc=1)
        outer = wrapper(plain, magic=magic, crc=1)
        for data, rule in (
            *((bad, "legacy.crc-checked"), (plain + bad, "legacy.crc-checked")),
            *((wrapper(bad, magic=magic), "legacy.crc-checked"), (outer, "legacy.wrapper-crc-checked")),
        ):
            assert [violation.requirement for violation in decode(data).violations] == [rule]


@pytest.mark.parametrize("name", ["MESSAGE_SET", "LOG"])
def test_mutated_bytes_are_read_or_rejected_with_a_position_inside_their_layer(name):
    rng = random.Random(11)
    outcomes = set()
    for _ in range(1500):
        data = bytearray(
            b"".join(random_set(rng) for _ in range(rng.randrange(1, 3))) + (BATCH if name == "LOG" else b"")
        )
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 9, 127, 128, 255, rng.randrange(256)))
        mutated = resealed(bytes(data)) if rng.random() < 0.8 else bytes(data)
        read = decode(mutated, name, trail=True)
        layers = [mutated, *read.layers]
        for mark in (*read.violations, *read.remarks):
            assert 0 <= mark.at <= len(layers[mark.layer])
            assert mark.requirement
        assert 0 <= read.consumed <= len(mutated)
        outcomes.add((read.ok, bool(read.remarks)))
    assert len(outcomes) == 4


def resealed(data):
    """Return old entries with corrected checksums, up to the first impossible size."""
    at, out = 0, bytearray(data)
    while at + 17 <= len(data):
        size = struct.unpack(">i", data[at + 8 : at + 12])[0]
        if size < 14 or at + 12 + size > len(data):
            break
        if data[at + 16] in MAGICS:
            out[at + 12 : at + 16] = struct.pack(">I", zlib.crc32(data[at + 16 : at + 12 + size]))
        at += 12 + size
    return bytes(out)


def test_random_bytes_are_read_or_rejected():
    rng = random.Random(12)
    for _ in range(2000):
        noise = rng.randbytes(rng.randrange(60))
        for magic in MAGICS:
            for data in (
                noise,
                entry(0, None, noise, magic=magic, attributes=rng.randrange(256)),
                wrapper(noise, offset=7),
            ):
                read = decode(data)
                assert read.ok or read.violations


# --- sizes and lengths --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0, 1, 13])
@pytest.mark.parametrize("magic", MAGICS)
def test_a_size_too_small_for_any_message_is_rejected_at_the_end_and_inside(magic, size):
    bad = entry(1, None, None, magic=magic, size=size)
    whole = entry(0, magic=magic)
    for data in (bad, bad[:12], whole + bad, whole + bad[:12], wrapper(whole, bad, magic=magic)):
        assert rejection(data) == "message-set.size-mismatch-rejected"


@pytest.mark.parametrize("size", range(14, 22))
def test_a_size_too_small_for_magic_1_is_rejected_in_a_whole_message_and_unspecified_in_a_cut_one(size):
    body = entry(0, None, None)[16 : 12 + size]
    data = struct.pack(">qiI", 0, size, zlib.crc32(body)) + body
    for whole in (data, data + entry(1), wrapper(data)):
        assert rejection(whole) == "robustness.message-size-v1"
    assert remarks(entry(0) + data[:17]) == ["message-set.size-mismatch-rejected"] * (len(data) > 17)
    assert remarks(entry(0) + data[:16]) == []


def test_an_entry_cut_before_its_magic_may_have_any_magic_of_the_type():
    for size in (14, 16, 22, 48):
        tail = struct.pack(">qi", 5, size)
        for stop in (12, 13, 16):
            assert remarks(tail.ljust(16, b"\0")[:stop]) == []
            assert remarks(tail.ljust(16, b"\0")[:stop], "LOG") == ["batch.length-wrong-rejected"]
    assert remarks(struct.pack(">qi", 5, 49), "LOG") == []


@pytest.mark.parametrize("magic", MAGICS)
def test_lengths_of_key_and_value_are_checked_against_the_message(magic):
    after = entry(1, magic=magic)
    for length in (2, 100, (1 << 31) - 1):
        for tail in (b"", after):
            assert rejection(entry(0, b"k", (length, b"v"), magic=magic) + tail) == "message-set.size-mismatch-rejected"
    for length in (10, 100, (1 << 31) - 1):
        for tail in (b"", after):
            assert rejection(entry(0, (length, b"k"), b"v", magic=magic) + tail) == "robustness.message-key-length"


@pytest.mark.parametrize("length", [-2, -(1 << 31)])
@pytest.mark.parametrize("magic", MAGICS)
def test_a_length_below_null_is_unspecified_and_read_as_null(magic, length):
    key, value = entry(0, (length, b""), b"v", magic=magic), entry(0, b"k", (length, b""), magic=magic)
    assert (remarks(key), seen(key, "key", "value")) == (["legacy.key-nullable"], [(None, b"v")])
    assert (remarks(value), seen(value, "key", "value")) == (["legacy.value-nullable"], [(b"k", None)])


@pytest.mark.parametrize("magic", MAGICS)
def test_bytes_after_the_value_are_unspecified_and_skipped(magic):
    data = entry(0, magic=magic, after=b"\0" * 5) + entry(1, magic=magic)
    assert (remarks(data), seen(data, "offset")) == (["message-set.size-mismatch-rejected"], [(0,), (1,)])
    assert rejection(entry(0, magic=magic, after=b"\0", crc=0)) == "legacy.crc-checked"


# --- attributes and magic -----------------------------------------------------------------------------


def test_attributes_contain_codec_and_timestamp_type_and_other_bits_are_unspecified():
    for magic in MAGICS:
        known = 0x0F if magic else 0x07
        for bits in range(256):
            number = bits & 7
            inner = entry(0, magic=magic)
            data = (
                entry(0, magic=magic, attributes=bits)
                if not number or number > 4
                else wrapper(inner, magic=magic, number=number, high=bits & ~7)
            )
            if number > 4:
                assert rejection(data) == "codec.unassigned-values"
            elif number == 4:
                (violation,) = decode(data, "LOG").violations
                assert (violation.requirement, violation.open) == (f"legacy.v{magic}-attributes", True)
            else:
                assert remarks(data) == ["legacy.attributes-high-bits-zero"] * bool(bits & ~known)
                assert [entry["compression"] for entry in decode(data, "LOG").value["batches"]] == [number]
                if magic:
                    assert seen(data, "timestampType") == [(bits >> 3 & 1,)]


@pytest.mark.parametrize("magic", [3, 4, 127, -1, -128])
def test_an_unknown_magic_is_rejected_and_unspecified_in_a_cut_tail(magic):
    body = struct.pack(">bBq", magic, 0, 0) + octets(None) + octets(bytes(40))
    data = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    for name, rule in (("MESSAGE_SET", "format.magic-versions"), ("LOG", "batch.magic")):
        assert rejection(data, name) == rule
        assert rejection(entry(0) + data, name) == rule
        assert remarks(entry(0) + data[:-1], name) == ["format.magic-versions"]
    assert open_rejection(wrapper(data)) == "robustness.inner-message"


def test_a_batch_in_a_message_set_is_unspecified():
    for data in (BATCH, entry(0) + BATCH):
        assert open_rejection(data) == "format.magic-versions"
    for data in (wrapper(BATCH), wrapper(BATCH, magic=0)):
        assert open_rejection(data) == "robustness.inner-message"


# --- wrappers -----------------------------------------------------------------------------------------


def inner(*offsets, magic=1, **more):
    return [entry(offset, None, b"%d" % place, magic=magic, **more) for place, offset in enumerate(offsets)]


@pytest.mark.parametrize(
    ("outer", "offsets", "absolute"),
    [
        (12, (0, 1, 2), [10, 11, 12]),
        (12, (10, 11, 12), [10, 11, 12]),
        (12, (1, 2, 3), [10, 11, 12]),
        (20, (0, 3, 10), [10, 13, 20]),
        (20, (7, 8), [19, 20]),
        (5, (5,), [5]),
        (5, (0,), [5]),
        (0, (0,), [0]),
        (INT64_MAX, (0, 1), [INT64_MAX - 1, INT64_MAX]),
        (INT64_MAX, (0, INT64_MAX), [0, INT64_MAX]),
        (1 << 33, (0, 1 << 32), [1 << 32, 1 << 33]),
    ],
)
def test_offsets_in_a_wrapper_of_magic_1_count_from_the_last_one(outer, offsets, absolute):
    data = wrapper(*inner(*offsets), offset=outer)
    assert (remarks(data), seen(data, "offset")) == ([], [(offset,) for offset in absolute])


@pytest.mark.parametrize(
    ("outer", "offsets"), [(1, (0, 1, 2)), (-1, (0,)), (-5, (0, 1)), (10, (-(1 << 63),)), (INT64_MAX, (0, -1))]
)
def test_a_wrapper_of_magic_1_with_impossible_offsets_is_unspecified_and_not_read(outer, offsets):
    assert open_rejection(wrapper(*inner(*offsets), offset=outer)) == "message-set.v1-relative-offsets"


def test_a_sum_beyond_64_bits_allows_any_outcome_and_wraps_to_64_bits():
    read = decode(wrapper(*inner(INT64_MAX, 0), offset=10))
    assert any(mark.openness is codec.Definedness.ANY_VALUE for mark in read.remarks)
    for offsets in ((INT64_MAX, 0), (INT64_MAX, -5), (INT64_MAX, -INT64_MAX + 9)):
        for message in decode(wrapper(*inner(*offsets), offset=9)).value or ():
            assert -(1 << 63) <= message["offset"] <= INT64_MAX


def test_a_wrapper_of_magic_1_at_offset_0_keeps_its_messages_and_allows_any_outcome():
    read = decode(wrapper(*inner(0, 1, 2), offset=0))
    assert [message["offset"] for message in read.value] == [0, 1, 2]
    assert [(mark.requirement, mark.openness is codec.Definedness.ANY_VALUE) for mark in read.remarks] == [
        ("message-set.v1-relative-offsets", True)
    ]


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (2, 1, 2)])
def test_inner_offsets_that_do_not_increase_are_unspecified(offsets):
    for magic in MAGICS:
        data = wrapper(*inner(*offsets, magic=magic), magic=magic, offset=offsets[-1] or 1)
        assert "message-set.v1-relative-offsets" in remarks(data)


def test_a_wrapper_of_magic_0_keeps_its_messages_and_another_offset_is_unspecified():
    for outer in (0, 5, 12, 40, -1):
        data = wrapper(*inner(10, 12, magic=0), magic=0, offset=outer)
        assert seen(data, "offset") == [(10,), (12,)]
        rules = ["message-set.entry-layout"] * (outer < 0) + ["recursive.wrapper-offset-is-last"] * (outer != 12)
        assert remarks(data) == rules


def test_the_timestamp_type_of_a_wrapper_applies_and_with_log_append_time_its_timestamp():
    entries = [entry(at, stamp=stamp, attributes=bit << 3) for at, (stamp, bit) in enumerate(((5, 0), (-1, 1), (7, 0)))]
    appended = wrapper(*entries, offset=2, high=8)
    assert (remarks(appended), seen(appended, "timestampType", "timestamp")) == ([], [(1, 9000)] * 3)
    created = wrapper(*entries, offset=2)
    assert (remarks(created), seen(created, "timestampType", "timestamp")) == (
        ["legacy.log-append-overwrites"],
        [(0, 5), (0, -1), (0, 7)],
    )


@pytest.mark.parametrize("stamp", [-2, -(1 << 63)])
def test_a_timestamp_below_minus_one_is_unspecified_and_kept(stamp):
    assert (remarks(entry(stamp=stamp)), seen(entry(stamp=stamp), "timestamp")) == (
        ["legacy.timestamp-milliseconds"],
        [(stamp,)],
    )


@pytest.mark.parametrize("magic", MAGICS)
def test_unspecified_wrappers_leave_a_remark(magic):
    two = inner(5, 6, magic=magic)
    other = 1 - magic
    for key in (b"", b"key"):
        assert remarks(wrapper(*two, magic=magic, key=key)) == ["recursive.wrapper-key-null"]
    for cut in range(1, len(two[1])):
        rule = "message-set.no-count" if cut < 12 else "robustness.inner-message"
        assert rule in remarks(wrapper(two[0], two[1][:cut], magic=magic, offset=5)), cut
    far = two[0] + entry(6, magic=magic, size=1 << 30)
    assert "robustness.inner-message" in remarks(wrapper(far, magic=magic, offset=5))
    assert open_rejection(entry(0, None, None, magic=magic, attributes=1)) == "recursive.wrapper-holds-set"
    assert open_rejection(wrapper(b"", magic=magic, offset=0)) == "recursive.wrapper-holds-set"
    assert open_rejection(wrapper(wrapper(*two, magic=magic), magic=magic)) == "recursive.wrapper-holds-set"
    assert "recursive.wrapper-holds-set" in remarks(wrapper(*inner(5, 6, magic=other), magic=magic))
    mixed = decode(wrapper(two[0], inner(0, 6, magic=other)[1], magic=magic))
    assert any(mark.openness is codec.Definedness.ANY_VALUE for mark in mixed.remarks)


@pytest.mark.parametrize("magic", MAGICS)
def test_a_size_beyond_the_payload_is_noted_after_a_broken_message_too(magic):
    broken = entry(4, size=len(entry(4, magic=magic)) - 13, magic=magic)
    far = entry(6, magic=magic, size=1 << 30)
    for messages, noted in (((broken, far), True), ((broken, *inner(5, 6, magic=magic)), True), ((broken,), False)):
        read = decode(wrapper(*messages, magic=magic, offset=6))
        assert read.violations
        assert not any(mark.open for mark in read.violations)
        assert ("robustness.inner-message" in [mark.requirement for mark in read.remarks]) is noted


@pytest.mark.parametrize(("number", "cut"), [(1, 8), (3, 1), (3, 4)])
@pytest.mark.parametrize(("size", "is_noted"), [(1 << 30, True), ((1 << 20) + 1, True), (1 << 20, False), (13, False)])
def test_a_large_size_before_the_cut_of_a_payload_is_noted(number, cut, size, is_noted):
    plain = inner(5)[0] + entry(6, value=bytes(99), size=size)
    data = entry(6, None, CODECS[number].write(plain)[:-cut], attributes=number)
    read = decode(data)
    assert read.violations[0].requirement == CODECS[number].requirement
    assert ("robustness.inner-message" in [mark.requirement for mark in read.remarks]) is is_noted


@pytest.mark.parametrize("at", [-1, -8], ids=["length", "data"])
@pytest.mark.parametrize("size", [1 << 30, 13])
@pytest.mark.parametrize("before", [b"", bytes(range(256)) * 40], ids=["one piece", "several pieces"])
def test_a_large_size_before_a_wrong_gzip_checksum_is_noted(at, size, before):
    payload = bytearray(CODECS[1].write(entry(5, value=before) + entry(6, value=bytes(99), size=size)))
    payload[at] ^= 1
    read = decode(entry(6, None, bytes(payload), attributes=1))
    assert [mark.requirement for mark in read.violations] == ["codec.gzip"]
    assert ("robustness.inner-message" in [mark.requirement for mark in read.remarks]) is (size > 13)


@pytest.mark.parametrize("number", [1, 2, 3], ids=WRITTEN[1:])
def test_a_wrapper_value_that_is_no_stream_of_its_codec_is_rejected(number):
    for magic in MAGICS:
        for payload in (b"", b"plain", entry(0, magic=magic)):
            rule = rejection(entry(0, None, payload, magic=magic, attributes=number))
            assert rule in (f"codec.{CODEC_NAMES[number]}", "robustness.snappy-block-length")


def lz4_frame(flags, checksum=None):
    """Return a frame header with these flags and one stored block."""
    plain = entry(0, magic=0)
    size = len(plain).to_bytes(8, "little") if flags & 8 else b""
    frame = bytes.fromhex("04224d18") + bytes((flags, 0x40)) + size
    stored = struct.pack("<I", len(plain) | 1 << 31) + plain + bytes(4)
    return frame + bytes((checksum,)) + stored


@pytest.mark.parametrize("flags", [0x60, 0x68])
def test_only_magic_0_accepts_every_lz4_header_checksum(flags):
    right = 0
    for checksum in range(256):
        frame = lz4_frame(flags, checksum)
        data = entry(0, None, frame, magic=0, attributes=3)
        assert (remarks(data), seen(data, "value")) == ([], [(b"v",)])
        right += decode(entry(0, None, frame, magic=1, attributes=3)).violations[:1] == ()
    assert right == 1


# --- logs ---------------------------------------------------------------------------------------------


def test_a_log_of_any_magics_cut_anywhere_reports_the_cut_entry_as_partial():
    rng = random.Random(8)
    for _ in range(12):
        parts, offset = [], 0
        for _ in range(rng.randrange(2, 5)):
            magic = rng.randrange(3)
            if magic == 2:
                parts.append(struct.pack(">q", offset) + BATCH[8:])
                offset += 3
                continue
            messages = random_messages(rng, magic, base=offset)
            number = rng.randrange(4)
            offset = messages[-1]["offset"] + 1
            sets = [messages] if number else [(message,) for message in messages]
            parts += [codec.encode("MESSAGE_SET", some, magic=magic, compression=number) for some in sets]
        data = b"".join(parts)
        ends = [sum(map(len, parts[:count])) for count in range(len(parts) + 1)]
        read = decode(data, "LOG")
        assert (read.remarks, len(read.value["batches"]), codec.encode("LOG", read.value)) == ((), len(parts), data)
        for cut in {*ends, *(end - 1 for end in ends[1:]), *(rng.randrange(len(data)) for _ in range(40))}:
            read = decode(data[:cut], "LOG")
            assert read.ok
            assert len(read.value["batches"]) == sum(end <= cut for end in ends) - 1
            assert read.value["partial"] == cut - max(end for end in ends if end <= cut)


def test_damage_in_an_old_entry_is_rejected_at_every_position_of_a_log():
    for magic in MAGICS:
        bad = entry(3, magic=magic, crc=0)
        for data in (bad + BATCH, BATCH + bad, BATCH + wrapper(bad, magic=magic), entry(0) + bad + entry(4)):
            assert rejection(data, "LOG") == "legacy.crc-checked"


def test_an_entry_with_an_offset_inside_the_previous_entry_is_unspecified():
    assert remarks(entry(5) + entry(6) + struct.pack(">q", 7) + BATCH[8:], "LOG") == []
    for data in (
        entry(5) + entry(5),
        entry(5) + BATCH,
        BATCH + entry(2, magic=0),
        BATCH + wrapper(*inner(0, 1), offset=3),
    ):
        assert remarks(data, "LOG") == ["offset.record-formula"]


# --- spans --------------------------------------------------------------------------------------------


def traced():
    rng = random.Random(9)
    for magic in MAGICS:
        for number in range(len(WRITTEN)):
            for _ in range(4):
                yield "MESSAGE_SET", random_set(rng, magic, number)
    yield "MESSAGE_SET", entry(0, None, None) + entry(1, after=b"xyz") + wrapper(*inner(0, 1), after=b"xyz")
    yield "LOG", entry(0, magic=0) + wrapper(*inner(0, 1), offset=2) + struct.pack(">q", 3) + BATCH[8:]


@pytest.mark.parametrize(("name", "data"), list(traced()))
def test_spans_lie_in_their_layer_and_their_leaves_cover_every_byte_once(name, data):
    read = decode(data, name, trail=True)
    assert read.value == decode(data, name).value
    layers = [data, *read.layers]
    for span in read.spans:
        assert 0 <= span.start <= span.stop <= len(layers[span.layer])
        assert span.path
    for number, layer in enumerate(layers):
        places = {(span.start, span.stop) for span in read.spans if span.layer == number and span.stop > span.start}
        leaves = sorted(
            (start, stop)
            for start, stop in places
            if not any(start <= one and other <= stop and (one, other) != (start, stop) for one, other in places)
        )
        assert [leaves[0][0], *(stop for _, stop in leaves)] == [*(start for start, _ in leaves), len(layer)]
    names = [(span.layer, span.path, span.start, span.stop) for span in read.spans if span.stop > span.start]
    assert len(set(names)) == len(names)


# --- hostile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        entry(0, size=(1 << 31) - 1),
        entry(0, ((1 << 31) - 1, b""), b""),
        entry(0, None, ((1 << 31) - 1, b"")),
        wrapper(entry(0, None, ((1 << 31) - 1, b""))),
        wrapper(entry(0), entry(1, size=(1 << 31) - 1)),
    ],
    ids=["size", "key", "value", "inner-value", "inner-size"],
)
def test_hostile_lengths_cost_no_memory(data):
    decode(data)
    tracemalloc.start()
    try:
        decode(data)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_the_decompressed_size_of_a_wrapper_is_bounded():
    limits = codec.Limits(total=1 << 16)
    bomb = wrapper(entry(0, None, bytes(1 << 17)))
    read = decode(bomb, limits=limits)
    assert [violation.requirement for violation in read.violations] == ["memory.message-size-limit"]
    many = wrapper(*[entry(at, None, None) for at in range(300)])
    assert len(decode(many).value) == 300
    assert open_rejection_within(many, codec.Limits(elements=200)) == "memory.message-size-limit"


def open_rejection_within(data, limits):
    read = decode(data, limits=limits)
    assert read.violations[0].open
    return read.violations[0].requirement


def test_a_wrapper_inside_a_wrapper_is_never_opened_however_deep():
    data = entry(0)
    for _ in range(200):
        data = entry(0, None, CODECS[2].write(data), attributes=2)
    read = decode(data)
    assert len(read.layers) == 1
    assert open_rejection(data) == "recursive.wrapper-holds-set"
