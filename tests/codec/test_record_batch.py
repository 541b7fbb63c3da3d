"""Records, batches, control records and logs of the reference codec."""

from __future__ import annotations

import random
import struct
import tracemalloc
from itertools import pairwise

import pytest

from conformance import codec
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.record_batch import ENCODE_FIELDS, build

PLAIN = bytes.fromhex(
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)
RECORD = bytes.fromhex("10000000026b027600")
HEADER = ">qiibIhiqqqhii"
NAMES = (
    *("baseOffset", "batchLength", "partitionLeaderEpoch", "magic", "crc", "attributes", "lastOffsetDelta"),
    *("baseTimestamp", "maxTimestamp", "producerId", "producerEpoch", "baseSequence", "recordCount"),
)
PLACES = {
    **{"baseOffset": (0, "q"), "batchLength": (8, "i"), "partitionLeaderEpoch": (12, "i"), "magic": (16, "b")},
    **{"crc": (17, "I"), "attributes": (21, "h"), "lastOffsetDelta": (23, "i"), "baseTimestamp": (27, "q")},
    **{"maxTimestamp": (35, "q"), "producerId": (43, "q"), "producerEpoch": (51, "h"), "baseSequence": (53, "i")},
    "recordCount": (57, "i"),
}


def crc32c(data):
    """Return the CRC-32C, computed bit by bit without the codec's library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(data):
    """Return the batch with a correct length and checksum."""
    data = data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def patched(data=PLAIN, *, seal=True, **fields):
    """Return the batch with replaced header fields, by default with a correct length and checksum."""
    for name, value in fields.items():
        at, form = PLACES[name]
        raw = struct.pack(">" + form, value)
        data = data[:at] + raw + data[at + len(raw) :]
    return sealed(data) if seal else data


def batch(*records, **fields):
    """Return a batch of records given as bytes or hex."""
    body = b"".join(bytes.fromhex(record) if isinstance(record, str) else record for record in records)
    return patched(PLAIN[:61] + body, **{"recordCount": len(records), "lastOffsetDelta": 0, **fields})


def decode(data, name="RECORD_BATCH", **options):
    return codec.decode(name, bytes.fromhex(data) if isinstance(data, str) else data, **options)


def rejection(data, name="RECORD_BATCH"):
    """Return the requirement of the first violation, which must be certain."""
    read = decode(data, name)
    assert not read.ok
    assert not read.violations[0].open
    return read.violations[0].requirement


def remarks(data, name="RECORD_BATCH"):
    """Return the requirements of the remarks on bytes that have a value."""
    read = decode(data, name)
    assert read.ok, read.violations
    assert all(mark.open for mark in read.remarks)
    return [mark.requirement for mark in read.remarks]


def random_record(rng, index, base):
    def octets(most):
        return rng.choice((None, b"", rng.randbytes(rng.randrange(most)), b"x" * rng.randrange(300)))

    headers = tuple(
        {"key": rng.choice(("", "k", "\u00e9", "h" * 70)), "value": octets(20)} for _ in range(rng.randrange(4))
    )
    stamp = rng.choice((-1, 0, 1000, 1 << 40, (1 << 63) - 2, rng.getrandbits(62)))
    fields = {"timestamp": stamp, "key": octets(80), "value": octets(200), "headers": headers}
    return {"offset": base + index * rng.choice((1, 1, 1, 70)), **fields}


def random_request(rng, codec_number=0):
    base = rng.choice((0, 1, 1000, 1 << 40, (1 << 62)))
    records = [random_record(rng, index, base) for index in range(rng.randrange(1, 12))]
    records.sort(key=lambda record: record["offset"])
    records = [one for one, after in pairwise([*records, None]) if after is None or one["offset"] < after["offset"]]
    producer = rng.choice(((-1, -1, -1), (0, 0, 0), ((1 << 63) - 1, 32767, (1 << 31) - 1)))
    return {
        "baseOffset": base,
        "partitionLeaderEpoch": rng.choice((-1, 0, 77)),
        "compression": codec_number,
        "timestampType": 0,
        "isTransactional": producer[0] >= 0 and rng.random() < 0.5,
        "isControlBatch": False,
        **dict(zip(("producerId", "producerEpoch", "baseSequence"), producer, strict=True)),
        "records": tuple(records),
    }


# --- round trips --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(CODEC_NAMES)))
def test_a_built_batch_is_read_back_with_the_same_fields(number):
    rng = random.Random(number)
    for _ in range(60):
        request = random_request(rng, number)
        data = codec.encode("RECORD_BATCH", request)
        read = decode(data)
        assert (read.ok, read.remarks, read.consumed) == (True, (), len(data))
        for name in ENCODE_FIELDS[:-1]:
            assert read.value[name] == request[name]
        for found, wanted in zip(read.value["records"], request["records"], strict=True):
            assert {name: found[name] for name in wanted} == wanted
        assert codec.encode("RECORD_BATCH", read.value) == data


def test_derived_fields_of_a_batch_follow_the_documents():
    records = [
        {"offset": 100 + index, "timestamp": stamp, "key": None, "value": b"", "headers": ()}
        for index, stamp in enumerate((3000, 5000, 1000))
    ]
    built = build(random_request(random.Random(1)) | {"baseOffset": 100, "records": tuple(records)})
    assert (built["baseTimestamp"], built["maxTimestamp"], built["lastOffsetDelta"]) == (3000, 5000, 2)
    assert [record["timestampDelta"] for record in built["records"]] == [0, 2000, -2000]
    assert [record["offsetDelta"] for record in built["records"]] == [0, 1, 2]


def test_every_byte_of_the_header_is_at_its_documented_place():
    rng = random.Random(3)
    assert struct.calcsize(HEADER) == 61
    for _ in range(50):
        data = codec.encode("RECORD_BATCH", random_request(rng))
        found = dict(zip(NAMES, struct.unpack(HEADER, data[:61]), strict=True))
        value = decode(data).value
        assert {name: value[name] for name in NAMES} == found
        assert found["batchLength"] == len(data) - 12
        assert found["magic"] == 2
        assert found["crc"] == crc32c(data[21:])
        assert found["recordCount"] == len(value["records"])


def test_attributes_contain_the_flags_at_their_bits():
    for bits in range(128):
        if bits & 7 < 5:
            # Without records the payload of any codec is ignored.
            value = decode(batch(attributes=bits)).value
            flags = [value[name] for name in ("isTransactional", "isControlBatch", "hasDeleteHorizonMs")]
            assert (value["compression"], value["timestampType"]) == (bits & 7, bits >> 3 & 1)
            assert flags == [bool(bits >> shift & 1) for shift in (4, 5, 6)]
            assert value["attributes"] == bits


def test_records_keep_null_and_empty_apart():
    for key in (None, b""):
        for value in (None, b""):
            for header in (None, b""):
                record = {"attributes": 0, "timestampDelta": 0, "offsetDelta": 0, "key": key, "value": value}
                record["headers"] = ({"key": "", "value": header}, {"key": "", "value": header})
                data = codec.encode("RECORD", record)
                read = decode(data, "RECORD")
                assert {name: read.value[name] for name in record} == record
                assert read.remarks == ()


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": 1},
        {"headers": ({"key": None, "value": b""},)},
        {"headers": ({"value": b""},)},
        {"headers": None},
        {"key": "k"},
        {"offsetDelta": 1 << 31},
        {"timestampDelta": 1 << 63},
        {"offsetDelta": None},
    ],
)
def test_a_record_that_a_writer_must_not_write_is_unencodable(change):
    record = {"attributes": 0, "timestampDelta": 0, "offsetDelta": 0, "key": b"", "value": b"", "headers": ()}
    codec.encode("RECORD", record)
    with pytest.raises(codec.Unencodable):
        codec.encode("RECORD", record | change)


@pytest.mark.parametrize(
    "change",
    [
        *[{"records": ()}, {"compression": 5}, {"compression": 8}, {"compression": "gzip"}, {"timestampType": 2}],
        *[{"producerId": 1 << 63}, {"producerEpoch": 1 << 15}, {"baseSequence": 1 << 31}, {"baseOffset": -(1 << 63)}],
    ],
)
def test_a_batch_with_an_invalid_field_is_unencodable(change):
    with pytest.raises(codec.Unencodable):
        codec.encode("RECORD_BATCH", random_request(random.Random(4)) | change)


def test_a_batch_request_without_one_of_its_fields_is_unencodable():
    request = random_request(random.Random(5))
    for name in request:
        with pytest.raises(codec.Unencodable, match=name):
            codec.encode("RECORD_BATCH", {key: value for key, value in request.items() if key != name})
    for name in request["records"][0]:
        first = {key: value for key, value in request["records"][0].items() if key != name}
        with pytest.raises(codec.Unencodable, match=name):
            codec.encode("RECORD_BATCH", request | {"records": (first, *request["records"][1:])})


# --- damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(CODEC_NAMES)))
def test_any_single_bit_flip_covered_by_the_checksum_is_rejected_as_corrupt(number):
    data = codec.encode("RECORD_BATCH", random_request(random.Random(6), number))
    for at in range(17, min(len(data), 300)):
        for bit in range(8):
            flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            found = decode(flipped)
            assert not found.ok
            assert "crc.mismatch-corrupt" in [violation.requirement for violation in found.violations]


def test_a_wrong_checksum_alone_is_the_only_violation():
    read = decode(patched(seal=False, crc=1))
    assert [violation.requirement for violation in read.violations] == ["crc.mismatch-corrupt"]
    assert (read.value, read.violations[0].at) == (None, 17)


def test_fields_before_the_checksum_are_not_covered_by_it():
    for change in ({"baseOffset": 7}, {"partitionLeaderEpoch": 77}):
        read = decode(patched(seal=False, **change))
        assert (read.ok, read.remarks) == (True, ())
    assert [record["offset"] for record in decode(patched(seal=False, baseOffset=7)).value["records"]] == [7, 8, 9]


@pytest.mark.parametrize("number", range(len(CODEC_NAMES)))
def test_a_batch_cut_anywhere_is_rejected(number):
    data = codec.encode("RECORD_BATCH", random_request(random.Random(7), number))
    for size in range(len(data)):
        assert rejection(data[:size])


def test_a_record_cut_anywhere_or_with_another_length_is_rejected():
    record = bytes.fromhex("30 00 d00f 0a 06 6b6579 0a 76616c7565 04 04 6831 02 61 04 6832 01")
    assert decode(record, "RECORD").ok
    for size in range(len(record)):
        assert rejection(record[:size], "RECORD")
    for length in range(-64, 64):
        if length != len(record) - 1:
            other = codec.encode("VARINT", length) + record[1:]
            assert rejection(other, "RECORD")
            assert rejection(other + bytes(64), "RECORD")


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 14, 48, 75, 77, (1 << 31) - 13, (1 << 31) - 1])
def test_a_wrong_batch_length_is_rejected(length):
    rule = rejection(patched(seal=False, batchLength=length))
    assert rule == ("crc.mismatch-corrupt" if length == 75 else "batch.length-wrong-rejected")
    if length == 77:
        assert rejection(patched(seal=False, batchLength=77) + b"\0") == "crc.mismatch-corrupt"


@pytest.mark.parametrize("count", [-(1 << 31), -1, 1, 2, 4, 1000, (1 << 31) - 1])
def test_a_record_count_that_differs_from_the_records_is_rejected(count):
    assert rejection(patched(recordCount=count)) == "batch.record-count-mismatch"


def test_bytes_after_the_last_record_are_rejected():
    assert rejection(sealed(PLAIN + b"\0")) == "batch.record-count-mismatch"
    assert rejection(sealed(PLAIN + RECORD)) == "batch.record-count-mismatch"


@pytest.mark.parametrize("magic", [0, 1, 3, 4, 127, -1, -128])
def test_an_unknown_magic_is_rejected(magic):
    assert rejection(patched(seal=False, magic=magic)) == "batch.magic"


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codecs_are_rejected_for_any_batch_content(number):
    assert rejection(patched(attributes=number)) == "codec.unassigned-values"
    assert rejection(batch(attributes=number)) == "codec.unassigned-values"


@pytest.mark.parametrize(
    "record",
    [
        *["00", "01", "ffffffff0f", "feffffff0f00", "0e000000026b027600", "12000000026b027600"],
        *["12000000026b02760000", "10000000026b027601", "18000000026b0276feffffff0f", "18000000026b0276ffffffff0f"],
        *["10000000026b027602", "16000000026b027602010278", "16000000026b027602030278", "120000000080808080800100"],
        *["14000000026b0276020100", "100000000e6b027600", "10000000026b0e7600"],
    ],
)
def test_records_that_their_layout_forbids_are_rejected_alone_and_in_a_batch(record):
    assert rejection(record, "RECORD")
    assert rejection(batch(record))


# --- unspecified behaviour ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "rules", "field", "value"),
    [
        ("107f0000026b027600", ["record.attributes-zero"], "attributes", 0x7F),
        ("10ff0000026b027600", ["record.attributes-zero"], "attributes", -1),
        ("0c000000030100", ["record.key-absent-when-negative"], "key", None),
        ("0c000000010d00", ["record.value-absent-when-negative"], "value", None),
        ("12000000010102026103", ["header.value-absent-when-negative"], "headers", ({"key": "a", "value": None},)),
        ("9000000000026b027600", ["varint.non-minimal"], "key", b"k"),
        ("1000000082006b0100", ["varint.non-minimal"], "key", b"k"),
        ("10000001026b027600", ["record.offset-delta"], "offsetDelta", -1),
        ("12000000010102020001", ["header.key-no-nul"], "headers", ({"key": "\0", "value": None},)),
    ],
)
def test_unspecified_fields_of_a_record_are_read_like_kafka_and_leave_a_remark(record, rules, field, value):
    read = decode(record, "RECORD")
    assert [mark.requirement for mark in read.remarks] == rules
    assert read.value[field] == value
    assert [mark for mark in remarks(batch(record)) if mark in rules]


def test_the_timestamp_delta_has_64_bits():
    read = decode("2200" + "ff" * 9 + "01" + "00026b027600", "RECORD")
    assert (read.value["timestampDelta"], read.remarks) == (-(1 << 63), ())


def test_a_header_key_that_is_no_utf8_is_unspecified():
    read = decode("1a000000026b02760204fffe0278", "RECORD")
    assert [mark.requirement for mark in read.remarks] == ["utf8.invalid-implementation-defined"]
    shown = codec.wire("RECORD").notation.render(read.value)
    assert set(shown["headers"][0]["key"]) == {"\ufffd"}


OPEN = [
    ({"lastOffsetDelta": 1}, "batch.last-offset-delta"),
    ({"lastOffsetDelta": -1}, "batch.last-offset-delta"),
    ({"baseOffset": -1}, "batch.base-offset"),
    ({"baseTimestamp": -100}, "timestamp.record-formula"),
    ({"maxTimestamp": -2}, "timestamp.record-formula"),
    ({"recordCount": 0}, "batch.record-count-mismatch"),
    ({"producerId": 7}, "non-idempotent.producer-id"),
    ({"producerId": -2}, "non-idempotent.producer-id"),
    ({"producerEpoch": 0}, "non-idempotent.producer-id"),
    ({"baseSequence": 0}, "non-idempotent.producer-id"),
    ({"producerId": 7, "producerEpoch": 0}, "non-idempotent.producer-id"),
    ({"attributes": 0x10}, "non-idempotent.producer-id"),
    ({"attributes": 0x20}, "control.single-record"),
    *[({"attributes": value}, "attributes.reserved-bits") for value in (0x80, 0x100, 0x1000, -0x8000)],
]
SETTLED = [
    *[{"lastOffsetDelta": 9}, {"lastOffsetDelta": (1 << 31) - 1}, {"maxTimestamp": 1}, {"maxTimestamp": 99999}],
    *[{"baseTimestamp": -1}, {"maxTimestamp": -1}, {"attributes": 0x40}, {"partitionLeaderEpoch": -7}],
    {"producerId": 7, "producerEpoch": 0, "baseSequence": 0},
    {"producerId": 7, "producerEpoch": 0, "baseSequence": 0, "attributes": 0x10},
    {"producerId": (1 << 63) - 1, "producerEpoch": 32767, "baseSequence": (1 << 31) - 1},
]


@pytest.mark.parametrize(("change", "rule"), OPEN)
def test_unspecified_fields_of_a_batch_keep_the_value_and_leave_a_remark(change, rule):
    data = patched(**change)
    assert rule in remarks(data)
    value = decode(data).value
    assert {name: value[name] for name in change} == change


@pytest.mark.parametrize("change", SETTLED)
def test_a_batch_that_every_reader_accepts_leaves_no_remark(change):
    data = patched(**change)
    assert remarks(data) == []
    value = decode(data).value
    assert {name: value[name] for name in change} == change


def test_a_batch_without_records_is_valid_and_unspecified_with_ignored_bytes():
    assert remarks(batch()) == []
    read = decode(patched(recordCount=0))
    assert (read.value["records"], read.consumed) == ((), len(PLAIN))


@pytest.mark.parametrize(("first", "second"), [(2, 0), (0, 0), (1, 0), (0, -1)])
def test_offset_deltas_that_do_not_increase_are_unspecified_and_kept(first, second):
    records = [
        codec.encode(
            "RECORD",
            {"attributes": 0, "timestampDelta": 0, "offsetDelta": delta, "key": None, "value": None, "headers": ()},
        )
        for delta in (first, second)
    ]
    data = batch(*records, lastOffsetDelta=5)
    assert "record.offset-delta" in remarks(data)
    assert [record["offset"] for record in decode(data).value["records"]] == [first, second]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"baseTimestamp": (1 << 63) - 5}, "timestamp.record-formula"),
        ({"baseOffset": (1 << 63) - 1}, "offset.record-formula"),
        ({"baseOffset": (1 << 63) - 5, "lastOffsetDelta": 9}, "offset.next-formula"),
        ({"baseOffset": (1 << 63) - 3}, "offset.next-formula"),
    ],
)
def test_sums_beyond_64_bits_allow_any_outcome(change, rule):
    read = decode(patched(**change))
    assert read.ok
    assert rule in [mark.requirement for mark in read.remarks if mark.openness is codec.Definedness.ANY_VALUE]
    for record in read.value["records"]:
        assert all(-(1 << 63) <= record[name] < 1 << 63 for name in ("offset", "timestamp"))


def test_log_append_time_gives_every_record_the_max_timestamp_for_any_deltas():
    value = decode(patched(attributes=8, maxTimestamp=5555)).value
    assert [record["timestamp"] for record in value["records"]] == [5555] * 3
    assert [record["timestampDelta"] for record in value["records"]] == [0, 5, 10]
    assert remarks(patched(attributes=8, baseTimestamp=(1 << 63) - 1, maxTimestamp=5555)) == []


def marker(key="00000001", value="0000" + "00000000"):
    record = {"attributes": 0, "timestampDelta": 0, "offsetDelta": 0, "headers": ()}
    octets = {"key": None if key is None else bytes.fromhex(key), "value": bytes.fromhex(value)}
    return codec.encode("RECORD", record | octets)


def test_a_transaction_marker_is_valid_and_unusual_ones_are_unspecified():
    fields = {"attributes": 0x30, "producerId": 7, "producerEpoch": 0, "baseSequence": -1}
    assert remarks(batch(marker(), **fields)) == []
    assert remarks(batch(marker("00000000"), **fields)) == []
    assert "control.single-record" in remarks(batch(marker(), marker(), **fields))
    assert remarks(batch(**fields)) == []  # compaction emptied it
    assert remarks(batch(marker("00000006"), attributes=0x20)) == []
    for key in (None, "", "000000", "0000000000", "00010001", "00000007", "ffff0000"):
        assert "control.key-layout" in remarks(batch(marker(key), **fields))


@pytest.mark.parametrize(
    ("data", "value", "rules"),
    [
        ("00000000", (0, 0), []),
        ("00000001", (0, 1), []),
        ("00000002", (0, 2), ["control.type-unknown"]),
        ("0000ffff", (0, -1), ["control.type-unknown"]),
        ("00010001", (1, 1), ["control.version-zero"]),
        ("ffff0000", (-1, 0), ["control.version-zero"]),
        ("0000000000", (0, 0), ["control.key-layout"]),
    ],
)
def test_a_control_record_is_its_first_four_bytes(data, value, rules):
    read = decode(data, "CONTROL_RECORD")
    assert (read.value["version"], read.value["type"]) == value
    assert remarks(data, "CONTROL_RECORD") == rules
    for size in range(4):
        assert rejection(data[: 2 * size], "CONTROL_RECORD") == "control.key-layout"


# --- logs ---------------------------------------------------------------------------------------------


def log_of(*sizes):
    base, out = 0, []
    for size in sizes:
        out.append(patched(baseOffset=base, seal=False) if size == 3 else batch(baseOffset=base))
        base += 3 if size == 3 else 1
    return b"".join(out)


def test_a_log_cut_anywhere_reports_the_cut_entry_as_partial_without_a_remark():
    data = log_of(3, 0, 3)
    ends = [0, 88, 149, 237]
    for size in range(len(data) + 1):
        read = decode(data[:size], "LOG")
        whole = max(index for index, end in enumerate(ends) if end <= size)
        assert (read.ok, read.remarks, read.consumed) == (True, (), size)
        assert (len(read.value["batches"]), read.value["partial"]) == (whole, size - ends[whole])


def test_damage_inside_a_log_is_rejected_at_every_position():
    for index in range(3):
        parts = [log_of(3)] * 3
        parts = [patched(parts[at], seal=False, baseOffset=3 * at) for at in range(3)]
        parts[index] = patched(parts[index], seal=False, crc=5)
        assert rejection(b"".join(parts), "LOG") == "crc.mismatch-corrupt"


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0, 13])
def test_a_size_too_small_for_any_entry_is_rejected_even_at_the_end_of_a_log(size):
    bad = struct.pack(">qi", 3, size)
    for data in (bad, PLAIN + bad, bad + bytes(80)):
        assert rejection(data, "LOG") == "batch.length-wrong-rejected"


@pytest.mark.parametrize(
    ("tail", "open_rule"),
    [
        (struct.pack(">qi", 3, 77), ""),
        (struct.pack(">qi", 3, (1 << 31) - 13), ""),
        (struct.pack(">qi", 3, (1 << 31) - 12), "batch.length-wrong-rejected"),
        (struct.pack(">qi", 3, (1 << 31) - 1), "batch.length-wrong-rejected"),
        (struct.pack(">qi", 3, 48), "batch.length-wrong-rejected"),
        (struct.pack(">qiib", 3, 77, 0, 2), ""),
        (struct.pack(">qiib", 3, 77, 0, 9), "format.magic-versions"),
    ],
)
def test_the_existing_bytes_of_a_cut_entry_are_checked(tail, open_rule):
    read = decode(PLAIN + tail, "LOG")
    assert (len(read.value["batches"]), read.value["partial"], read.consumed) == (1, len(tail), 88 + len(tail))
    assert [mark.requirement for mark in read.remarks] == [open_rule] * bool(open_rule)


# --- spans --------------------------------------------------------------------------------------------


def traced():
    rng = random.Random(9)
    for number in range(len(CODEC_NAMES)):
        for _ in range(6):
            yield "RECORD_BATCH", codec.encode("RECORD_BATCH", random_request(rng, number))
    yield "LOG", log_of(3, 0, 3, 3)
    yield "RECORD", RECORD
    yield "CONTROL_RECORD", bytes(4)
    yield "TAGGED_FIELDS", bytes.fromhex("020901610a0162")
    yield "ARRAY<NULLABLE_STRING>", bytes.fromhex("00000003 ffff 0000 000161")


@pytest.mark.parametrize(("name", "data"), list(traced()))
def test_spans_lie_in_their_layer_and_their_leaves_cover_every_byte_once(name, data):
    read = decode(data, name, trail=True)
    assert read.value == decode(data, name).value
    layers = [data, *read.layers]
    for span in read.spans:
        assert 0 <= span.start <= span.stop <= len(layers[span.layer])
        assert span.path or name == "RECORD"
    for number, layer in enumerate(layers):
        places = {(span.start, span.stop) for span in read.spans if span.layer == number and span.stop > span.start}
        leaves = sorted(
            (start, stop)
            for start, stop in places
            if not any(start <= one and other <= stop and (one, other) != (start, stop) for one, other in places)
        )
        assert [leaves[0][0], *(stop for _, stop in leaves)] == [*(start for start, _ in leaves), len(layer)]
    names = [(span.layer, span.path, span.start, span.stop) for span in read.spans]
    assert len({name for name in names if name[3] > name[2]}) == sum(name[3] > name[2] for name in names)


def test_violations_and_remarks_point_into_their_layer():
    rng = random.Random(10)
    for _ in range(400):
        data = bytearray(codec.encode("RECORD_BATCH", random_request(rng, rng.randrange(5))))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(21, len(data))] = rng.randrange(256)
        read = decode(sealed(bytes(data)), trail=True)
        layers = [bytes(data), *read.layers]
        for mark in (*read.violations, *read.remarks):
            assert 0 <= mark.at <= len(layers[mark.layer])


# --- memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [patched(recordCount=(1 << 31) - 1), patched(seal=False, batchLength=(1 << 31) - 1), batch("feffffff0f00")],
)
def test_hostile_counts_and_lengths_cost_no_memory(data):
    rejection(data)
    tracemalloc.start()
    try:
        rejection(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
