"""Annotated bytes: each byte is in one line, each mark at its field, and each path leads to its field."""

from __future__ import annotations

import random
import struct

import pytest

from conformance import codec
from conformance.codec.checksums import CRC32C
from conformance.codec.hex_dump import annotate, line_at, line_of, place_of

PLAIN = bytes.fromhex(
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)
HEADED = bytes.fromhex("30 00 d00f 0a 06 6b6579 0a 76616c7565 04 04 6831 02 61 04 6832 01")


def sealed(data):
    return data[:17] + struct.pack(">I", CRC32C.compute(data[21:])) + data[21:]


def compressed(count=3):
    return codec.encode("RECORD_BATCH", {**codec.decode("RECORD_BATCH", PLAIN).value, "compression": count})


SAMPLES = {
    "batch": ("RECORD_BATCH", PLAIN),
    "gzip batch": ("RECORD_BATCH", compressed(1)),
    "snappy batch": ("RECORD_BATCH", compressed(2)),
    "log with a tail": ("LOG", PLAIN + compressed(4) + PLAIN[:30]),
    "empty log": ("LOG", b""),
    "record": ("RECORD", HEADED),
    "number": ("INT32", bytes(4)),
    "number and more": ("INT32", bytes(9)),
    "string": ("STRING", b"\0\3abc"),
    "empty string": ("STRING", b"\0\0"),
    "null": ("NULLABLE_BYTES", b"\xff" * 4),
    "array": ("ARRAY<COMPACT_ARRAY<NULLABLE_STRING>>", bytes.fromhex("00000002 00 03 ffff 000161")),
    "tagged fields": ("TAGGED_FIELDS", bytes.fromhex("020901610a0162")),
    "control record": ("CONTROL_RECORD", bytes.fromhex("0001000299")),
    "nothing": ("INT8", b""),
    "cut batch": ("RECORD_BATCH", PLAIN[:70]),
    "cut header": ("RECORD_BATCH", PLAIN[:30]),
    "bad payload": ("RECORD_BATCH", sealed(compressed(1)[:61] + b"\x99" * (len(compressed(1)) - 61))),
    "wrong checksum": ("RECORD_BATCH", PLAIN[:17] + bytes(4) + PLAIN[21:]),
}


def test_every_byte_of_a_value_belongs_to_a_field():
    records = [
        bytes.fromhex(data) for data in ("0c000000000100", "0c000000010000", "1000000000000200 00".replace(" ", ""))
    ]
    for data in (*records, HEADED):
        read, lines = annotate("RECORD", data)
        assert read.ok
        assert "(not read)" not in [line.path for line in lines]


def test_a_single_value_is_shown_next_to_its_bytes():
    for name, data, value in (("BOOLEAN", b"\0", "false"), ("BOOLEAN", b"\1", "true"), ("INT8", b"\0", "0")):
        assert [(line.path, line.value) for line in annotate(name, data)[1]] == [("value", value)]


def covered(lines, layers):
    for number, layer in enumerate(layers):
        mine = [line for line in lines if line.layer == number]
        assert b"".join(line.data for line in mine) == layer
        assert [line.start for line in mine] == [0, *(line.stop for line in mine)][: len(mine)]
        assert all(line.data == layer[line.start : line.stop] for line in mine)


@pytest.mark.parametrize(("name", "data"), SAMPLES.values(), ids=SAMPLES)
def test_the_lines_contain_every_byte_once_in_order(name, data):
    read, lines = annotate(name, data)
    covered(lines, [data, *read.layers])


@pytest.mark.parametrize(("name", "data"), SAMPLES.values(), ids=SAMPLES)
def test_every_mark_is_once_on_the_line_of_its_byte(name, data):
    read, lines = annotate(name, data)
    placed = [(mark, line) for line in lines for mark in line.marks]
    if lines:
        assert sorted(str(mark) for mark, _ in placed) == sorted(map(str, (*read.violations, *read.remarks)))
    layers = [data, *read.layers]
    for mark, line in placed:
        assert mark.layer == line.layer
        assert line.start <= mark.at
        assert mark.at < line.stop or mark.at == len(layers[mark.layer])


def test_damaged_bytes_are_laid_out_too():
    rng = random.Random(1)
    for _ in range(400):
        name, data = rng.choice(list(SAMPLES.values()))
        data = bytearray(data)
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        data = bytes(data[: rng.randrange(len(data) + 1)]) if rng.random() < 0.3 else bytes(data)
        read, lines = annotate(name, data)
        covered(lines, [data, *read.layers])


def texts(name, data):
    return [(line.path, line.hex, line.value) for line in annotate(name, data)[1]]


def test_the_fields_of_a_header_have_a_line_each_under_their_documented_names():
    lines = annotate("RECORD_BATCH", PLAIN)[1]
    assert [(line.path, line.start) for line in lines[:13]] == [
        *[("baseOffset", 0), ("batchLength", 8), ("partitionLeaderEpoch", 12), ("magic", 16), ("crc", 17)],
        *[("attributes", 21), ("lastOffsetDelta", 23), ("baseTimestamp", 27), ("maxTimestamp", 35)],
        *[("producerId", 43), ("producerEpoch", 51), ("baseSequence", 53), ("recordCount", 57)],
    ]
    attributes = lines[5].value
    assert "compression none" in attributes
    assert "timestampType CreateTime" in attributes
    assert "isControlBatch" not in attributes


def test_the_fields_of_a_record_are_named_as_the_documents_name_them():
    assert [path for path, _, _ in texts("RECORD", HEADED)] == [
        *["length", "attributes", "timestampDelta", "offsetDelta", "keyLength", "key", "valueLength", "value"],
        *["headersCount", "headers[0].keyLength", "headers[0].key", "headers[0].valueLength", "headers[0].value"],
        *["headers[1].keyLength", "headers[1].key", "headers[1].valueLength"],
    ]


def test_bytes_outside_every_field_have_their_own_label():
    assert texts("INT32", bytes(6))[-1][0] == "(after the value)"
    assert texts("RECORD_BATCH", PLAIN[:30])[-1][0] == "(not read)"
    assert texts("RECORD_BATCH", compressed(1))[13][0] in ("records", "(compressed records)")


def test_long_fields_are_cut_and_show_their_length():
    line = annotate("BYTES", bytes.fromhex("00000064") + b"\xab" * 100)[1][-1]
    assert line.hex == "ab " * 15 + "ab … 100 bytes"
    assert line.data == b"\xab" * 100


def test_values_with_invalid_utf8_are_shown_as_valid_text():
    for _, _, value in texts("STRING", b"\0\3a\xffb"):
        value.encode("utf-8")


@pytest.mark.parametrize(
    ("path", "start"),
    [
        *[("baseOffset", 0), ("crc", 17), ("recordCount", 57), ("records[0].attributes", 62)],
        *[("records[0].key", 66), ("records[2].value", 86), ("records[1].offset", 73), ("records[2].timestamp", 81)],
        *[("records[1].timestampDelta", 72), ("records[1].headers", 78), ("timestampType", 21), ("compression", 21)],
        *[("isTransactional", 21), ("isControlBatch", 21), ("hasDeleteHorizonMs", 21)],
    ],
)
def test_the_line_of_a_field_is_found_by_its_path(path, start):
    lines = annotate("RECORD_BATCH", PLAIN)[1]
    found = line_of(lines, path)
    assert found >= 0
    assert lines[found].start == start


def test_the_line_of_a_field_in_a_log_and_in_a_decompressed_stream_is_found():
    lines = annotate("LOG", PLAIN + compressed(1))[1]
    assert lines[line_of(lines, "batches[1].baseOffset")].start == 88
    line = lines[line_of(lines, "batches[1].records[0].offset")]
    assert (line.layer, line.start) == (1, 3)


def test_an_empty_field_is_found_at_its_length_and_an_unknown_path_returns_minus_one():
    lines = annotate("RECORD", bytes.fromhex("0c000000000100"))[1]
    assert lines[line_of(lines, "key")].path == "keyLength"
    assert lines[line_of(lines, "value")].path == "valueLength"
    assert lines[line_of(lines, "headers")].path == "headersCount"
    assert line_of(lines, "nonsense") == -1
    assert line_of([], "key") == -1


@pytest.mark.parametrize(
    ("data", "path", "about", "shown"),
    [
        (PLAIN, "@18", "", "crc"),
        (PLAIN, "records[1].key", "crc", "records[1].key"),
        (PLAIN, "consumed", "", "records[2].headersCount"),
        (PLAIN, "value", "recordCount", "recordCount"),
        (PLAIN[:17] + bytes(4) + PLAIN[21:], "", "recordCount", "crc"),
    ],
)
def test_the_shown_place_is_the_path_or_the_first_violation_or_the_field_of_the_case(data, path, about, shown):
    read, lines = annotate("RECORD_BATCH", data)
    assert lines[place_of(lines, read, path, about)].path == shown


def test_valid_bytes_without_a_path_have_no_shown_place():
    read, lines = annotate("RECORD_BATCH", PLAIN)
    assert place_of(lines, read, "") == -1


def test_the_line_at_an_offset_contains_that_byte():
    lines = annotate("RECORD_BATCH", compressed(1))[1]
    for layer in (0, 1):
        for index, line in enumerate(lines):
            if line.layer == layer:
                assert {line_at(lines, layer, at) for at in range(line.start, line.stop)} == {index}
    assert line_at(lines, 2, 0) == -1
    assert line_at([], 0, 0) == -1


def test_a_batch_of_many_records_is_laid_out_in_time_that_grows_with_it():
    record = bytes.fromhex("0c000000010100")
    count = 8_000
    data = PLAIN[:57] + struct.pack(">i", count) + record * count
    data = sealed(data[:8] + struct.pack(">i", len(data) - 12) + data[12:])
    read, lines = annotate("RECORD_BATCH", data)
    assert read.ok
    assert len(lines) == 13 + 7 * count
