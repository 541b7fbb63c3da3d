"""Compressed payloads: valid, unspecified, invalid and hostile frames of each codec."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard

from conformance import codec
from conformance.codec import Limits
from conformance.codec.checksums import CRC32C
from conformance.codec.compression import CODEC_NAMES, CODECS

RECORDS = b"".join(
    codec.encode(
        "RECORD",
        {
            **{"attributes": 0, "timestampDelta": index, "offsetDelta": index, "headers": ()},
            **{"key": b"key", "value": b"value " * index},
        },
    )
    for index in range(40)
)
COUNT = 40
HALF = len(RECORDS) // 2
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def batch(number, payload, count=COUNT):
    header = struct.pack(">hiqqqhii", number, max(count - 1, 0), 1000, 1000, -1, -1, -1, count)
    covered = header + payload
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, CRC32C.compute(covered)) + covered


def read(number, payload, count=COUNT, **limits):
    return codec.decode("RECORD_BATCH", batch(number, payload, count), limits=Limits(**limits))


def gz(data, *, flags=0, fields=b""):
    """Return a gzip member with optional header fields."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflater.compress(data) + deflater.flush()
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(4) + b"\0\xff" + fields
    if flags & 2:
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    return head + body + struct.pack("<II", zlib.crc32(data), len(data))


def snap(data):
    return bytes(cramjam.snappy.compress_raw(data))


def unsnap(raw):
    return bytes(cramjam.snappy.decompress_raw(raw))


def block(data):
    """Return a length and a raw Snappy block, as in the xerial stream."""
    raw = snap(data)
    return struct.pack(">i", len(raw)) + raw


def lz(data=RECORDS, **options):
    return lz4.frame.compress(data, **{"block_linked": False, "store_size": False} | options)


LZ4_HEAD = lz(b"")[:7]


def lz_frame(*blocks, end=bytes(4)):
    """Return an LZ4 frame of blocks of at most 64 KiB, given as (stored, bytes)."""
    parts = [struct.pack("<I", len(data) | stored << 31) + data for stored, data in blocks]
    return LZ4_HEAD + b"".join(parts) + end


def zs(data=RECORDS, **options):
    return zstandard.ZstdCompressor(**options).compress(data)


def zs_window(descriptor, data=RECORDS):
    """Return a Zstandard frame of one raw block, with a window descriptor."""
    head = struct.pack("<I", len(data) << 3 | 1)[:3]
    return b"\x28\xb5\x2f\xfd\0" + bytes([descriptor]) + head + data


def zs_long_block(data):
    """Return a last raw block whose length field is larger than its content."""
    return struct.pack("<I", (len(data) + 9) << 3 | 1)[:3] + data


SKIPPABLE = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at != -1 else data[:-1] + bytes([data[-1] ^ 1])


PLAIN = {
    "gzip": (GZIP, gz(RECORDS)),
    "gzip stored": (GZIP, gzip.compress(RECORDS, 0, mtime=0)),
    "gzip two members, split inside a record": (GZIP, gz(RECORDS[:HALF]) + gz(RECORDS[HALF:])),
    "gzip empty members between": (GZIP, gz(b"") + gz(RECORDS[:HALF]) + gz(b"") + gz(RECORDS[HALF:]) + gz(b"")),
    "gzip file name": (GZIP, gz(RECORDS, flags=8, fields=b"name\0")),
    "gzip extra, name, comment, header checksum": (
        GZIP,
        gz(RECORDS, flags=0x1F, fields=b"\x02\0abname\0comment\0"),
    ),
    "snappy raw": (SNAPPY, snap(RECORDS)),
    "snappy xerial": (SNAPPY, XERIAL + block(RECORDS)),
    "snappy xerial of several blocks": (SNAPPY, XERIAL + block(RECORDS[:HALF]) + block(RECORDS[HALF:])),
    "snappy xerial with odd versions": (SNAPPY, XERIAL[:8] + struct.pack(">ii", 9, -1) + block(RECORDS)),
    "lz4": (LZ4, lz()),
    "lz4 content size": (LZ4, lz(store_size=True)),
    "lz4 content checksum": (LZ4, lz(content_checksum=True)),
    "lz4 block checksums": (LZ4, lz(block_checksum=True)),
    "lz4 everything": (LZ4, lz(store_size=True, content_checksum=True, block_checksum=True)),
    "lz4 blocks of 4 MiB": (LZ4, lz(block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4 stored block": (LZ4, lz_frame((1, RECORDS))),
    "lz4 stored and compressed blocks": (
        LZ4,
        lz_frame((1, RECORDS[:HALF]), (0, lz4.block.compress(RECORDS[HALF:], store_size=False))),
    ),
    "zstd": (ZSTD, zs()),
    "zstd without content size": (ZSTD, zs(write_content_size=False)),
    "zstd with checksum": (ZSTD, zs(write_checksum=True)),
    "zstd two frames": (ZSTD, zs(RECORDS[:HALF]) + zs(RECORDS[HALF:])),
    "zstd empty and skippable frames": (ZSTD, SKIPPABLE + zs(b"") + zs() + SKIPPABLE),
    "zstd window of 128 MiB": (ZSTD, zs_window(17 << 3)),
}

REMARKED = {
    "gzip trailing garbage": (GZIP, gz(RECORDS) + b"garbage"),
    "gzip trailing zeros": (GZIP, gz(RECORDS) + bytes(30)),
    "gzip trailing bytes that begin like a member": (GZIP, gz(RECORDS) + b"\x1f\x8b\x09" + bytes(30)),
    "gzip broken member after all records": (GZIP, gz(RECORDS) + gz(b"x" * 99)[:14]),
    "snappy joined xerial streams": (SNAPPY, XERIAL + block(RECORDS[:HALF]) + XERIAL + block(RECORDS[HALF:])),
    "snappy fewer than 4 trailing bytes": (SNAPPY, XERIAL + block(RECORDS) + b"abc"),
    "snappy trailing bytes read as a block length": (SNAPPY, XERIAL + block(RECORDS) + b"abcd"),
    "snappy trailing bytes read as a block": (SNAPPY, XERIAL + block(RECORDS) + struct.pack(">i", 4) + b"\xff" * 4),
    "lz4 wrong content checksum": (LZ4, flip(lz(content_checksum=True), -1)),
    "lz4 wrong content size": (LZ4, lz(RECORDS + b"\0", store_size=True)[:15] + lz()[7:]),
    "lz4 second frame": (LZ4, lz() + lz()),
    "lz4 trailing garbage": (LZ4, lz() + b"garbage"),
    "zstd cut in its checksum": (ZSTD, zs(write_checksum=True)[:-1]),
    "zstd without its checksum": (ZSTD, zs(write_checksum=True)[:-4]),
    "zstd without a last block": (ZSTD, zs_window(80)[:6] + bytes([zs_window(80)[6] & 0xFE]) + zs_window(80)[7:]),
}

UNSPECIFIED_REJECTIONS = {
    "gzip zlib stream": (GZIP, zlib.compress(RECORDS)),
    "gzip wrong checksum": (GZIP, flip(gz(RECORDS), -6)),
    "gzip wrong size": (GZIP, flip(gz(RECORDS), -1)),
    "gzip cut trailer": (GZIP, gz(RECORDS)[:-3]),
    "gzip no trailer": (GZIP, gz(RECORDS)[:-8]),
    "gzip wrong header checksum": (GZIP, gz(RECORDS, flags=2)[:10] + b"xx" + gz(RECORDS, flags=2)[12:]),
    "gzip reserved flags": (GZIP, gz(RECORDS, flags=0x80)),
    "snappy framing format": (SNAPPY, b"\xff\x06\x00\x00sNaPpY" + bytes(20)),
    "lz4 wrong header checksum": (LZ4, flip(lz(), 6)),
    "lz4 wrong block checksum": (LZ4, flip(lz(block_checksum=True), -5)),
    "lz4 linked blocks": (LZ4, lz(RECORDS * 40, block_linked=True)),
    "lz4 no end mark": (LZ4, lz()[:-4]),
    "lz4 half an end mark": (LZ4, lz()[:-2]),
    "lz4 cut content checksum": (LZ4, lz(content_checksum=True)[:-1]),
    "lz4 block above the frame's size": (LZ4, lz_frame((1, bytes(70_000)))),
    "lz4 dictionary": (LZ4, LZ4_HEAD[:4] + b"\x61" + LZ4_HEAD[5:] + bytes(20)),
    "lz4 reserved flag": (LZ4, LZ4_HEAD[:4] + b"\x62" + LZ4_HEAD[5:] + bytes(20)),
    "lz4 legacy frame": (LZ4, b"\x02\x21\x4c\x18" + bytes(20)),
    "lz4 skippable frame": (LZ4, SKIPPABLE + lz()),
    "zstd trailing garbage": (ZSTD, zs() + b"garbage"),
    "zstd one trailing byte": (ZSTD, zs() + b"\0"),
    "zstd wrong checksum": (ZSTD, flip(zs(write_checksum=True), -1)),
    "zstd reserved bit": (ZSTD, zs_window(80)[:4] + b"\x08" + zs_window(80)[5:]),
    "zstd window of 256 MiB": (ZSTD, zs_window(18 << 3)),
    "zstd window just above 128 MiB": (ZSTD, zs_window(17 << 3 | 1)),
}

REJECTED = {
    **{f"{name}: nothing": (number, b"") for number, name in enumerate(CODEC_NAMES) if number},
    **{f"{name}: garbage": (number, b"\x99garbage" * 5) for number, name in enumerate(CODEC_NAMES) if number},
    "gzip cut in its data": (GZIP, gz(RECORDS)[:-12]),
    "gzip cut in its header": (GZIP, gz(RECORDS, flags=8, fields=b"name\0")[:12]),
    "gzip cut in its extra field": (GZIP, gz(RECORDS, flags=4, fields=b"\xff\xffab")),
    "gzip second member cut before all records": (GZIP, gz(RECORDS[:HALF]) + gz(RECORDS[HALF:])[:-20]),
    "gzip bare deflate": (GZIP, gz(RECORDS)[10:-8]),
    "snappy bytes after the first of two blocks": (SNAPPY, XERIAL + block(RECORDS[:HALF]) + b"abcd"),
    "snappy trailing bytes after a raw block": (SNAPPY, snap(RECORDS) + b"abc"),
    "snappy cut block": (SNAPPY, XERIAL + block(RECORDS)[:-1]),
    "snappy negative block length": (SNAPPY, XERIAL + struct.pack(">i", -1) + block(RECORDS)),
    "snappy cut xerial header": (SNAPPY, XERIAL[:12]),
    "snappy raw block cut": (SNAPPY, snap(RECORDS)[:-1]),
    "lz4 cut in a block": (LZ4, lz()[:-6]),
    "lz4 cut in the header": (LZ4, lz()[:6]),
    "lz4 bare block": (LZ4, lz4.block.compress(RECORDS, store_size=False)),
    "lz4 garbage in a block": (LZ4, lz_frame((0, b"\xff" * 40))),
    "zstd cut": (ZSTD, zs()[:-1]),
    "zstd second frame cut": (ZSTD, zs(RECORDS[:HALF]) + zs(RECORDS[HALF:])[:-1]),
    "zstd block longer than the payload": (ZSTD, zs_window(80)[:6] + zs_long_block(RECORDS)),
    "zstd cut inside a raw block": (ZSTD, zs_window(80)[:-1]),
    "lz4 other version": (LZ4, LZ4_HEAD[:4] + b"\xa0" + lz()[5:]),
    "zstd reserved block type": (ZSTD, zs_window(80)[:6] + b"\x07\0\0"),
}


@pytest.mark.parametrize(("number", "payload"), PLAIN.values(), ids=PLAIN)
def test_payloads_that_apache_kafka_reads_leave_no_remark(number, payload):
    found = read(number, payload)
    assert (found.ok, found.remarks) == (True, ()), found
    assert found.layers == (RECORDS,)
    assert len(found.value["records"]) == COUNT


@pytest.mark.parametrize(("number", "payload"), REMARKED.values(), ids=REMARKED)
def test_unspecified_payloads_with_all_records_leave_a_remark(number, payload):
    found = read(number, payload)
    assert found.ok, found.violations
    assert found.layers == (RECORDS,)
    (mark,) = found.remarks
    assert mark.requirement in (f"codec.{CODEC_NAMES[number]}", "robustness.snappy-block-length")
    assert all(mark.open for mark in found.remarks)


@pytest.mark.parametrize(("number", "payload"), UNSPECIFIED_REJECTIONS.values(), ids=UNSPECIFIED_REJECTIONS)
def test_unspecified_payloads_that_apache_kafka_rejects_allow_any_outcome(number, payload):
    found = read(number, payload)
    assert not found.ok
    assert [(mark.open, mark.openness is codec.Definedness.ANY_VALUE) for mark in found.violations] == [(True, True)], (
        found
    )


@pytest.mark.parametrize(("number", "payload"), REJECTED.values(), ids=REJECTED)
def test_invalid_payloads_are_rejected_with_a_certain_violation(number, payload):
    found = read(number, payload)
    assert not found.ok
    assert not found.violations[0].open, found


@pytest.mark.parametrize("number", range(1, len(CODECS)))
def test_a_written_payload_is_decompressed_to_the_same_bytes(number):
    rng = random.Random(number)
    for size in (0, 1, 100, 32 * 1024, 32 * 1024 + 1, 200_000):
        for data in (rng.randbytes(size), bytes(size)):
            found = read(number, CODECS[number].write(data), count=1 if size else 0)
            assert not any(violation.requirement.startswith("codec.") for violation in found.violations)
            assert found.layers == ((data,) if size else ())


def test_written_payloads_stay_within_the_limits_of_apache_kafka():
    data = bytes(100_000)
    assert CODECS[GZIP].write(data) == CODECS[GZIP].write(data)
    framed = CODECS[SNAPPY].write(data)
    assert framed.startswith(XERIAL)
    assert max(map(len, blocks_of(framed))) == 32 * 1024
    info = lz4.frame.get_frame_info(CODECS[LZ4].write(data))
    assert (info["block_linked"], info["content_checksum"], info["block_size_id"]) == (False, False, 4)
    assert zstandard.get_frame_parameters(CODECS[ZSTD].write(data)).window_size <= 1 << 27


def blocks_of(framed):
    at, out = 16, []
    while at < len(framed):
        (size,) = struct.unpack_from(">i", framed, at)
        out.append(unsnap(framed[at + 4 : at + 4 + size]))
        at += 4 + size
    return out


@pytest.mark.parametrize("number", range(1, len(CODECS)))
def test_a_payload_longer_or_shorter_than_its_records_is_rejected(number):
    write = CODECS[number].write
    for data, rule in (
        (RECORDS + b"\0", "batch.record-count-mismatch"),
        (RECORDS[:-1], "record.length-mismatch-rejected"),
        (b"", "batch.record-count-mismatch"),
    ):
        found = read(number, write(data))
        assert [violation.requirement for violation in found.violations] == [rule]
        assert not found.violations[0].open
        assert len(found.layers) == 1


@pytest.mark.parametrize("number", range(1, len(CODECS)))
def test_a_batch_without_records_may_hold_an_empty_stream_and_other_payloads_leave_a_remark(number):
    assert read(number, CODECS[number].write(b""), count=0).remarks == ()
    for payload in (b"", b"\x99garbage", CODECS[number].write(RECORDS)):
        found = read(number, payload, count=0)
        assert (found.ok, found.value["records"]) == (True, ())
        assert found.remarks


# --- hostile payloads ---------------------------------------------------------------------------------

MEGABYTE = 1 << 20


def gzip_bomb(megabytes):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(MEGABYTE)) for _ in range(megabytes)) + packer.flush()


def zstd_bomb(megabytes):
    """Return blocks of one repeated byte: 4 bytes decompress to 128 KiB."""
    repeated = struct.pack("<I", (128 * 1024) << 3 | 2)[:3] + b"\0"
    last = struct.pack("<I", 3)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\0" + bytes([10 << 3]) + repeated * (8 * megabytes) + last


def lz4_bomb(megabytes):
    return lz_frame(*[(0, lz4.block.compress(bytes(65536), store_size=False))] * (16 * megabytes))


def snappy_bomb(megabytes):
    return XERIAL + block(bytes(MEGABYTE)) * megabytes


BOMBS = {GZIP: gzip_bomb, SNAPPY: snappy_bomb, LZ4: lz4_bomb, ZSTD: zstd_bomb}


@pytest.mark.parametrize("number", BOMBS)
def test_decompression_of_a_bomb_stops_at_the_limits_in_bounded_memory(number):
    payload = BOMBS[number](40 if number == SNAPPY else 300)
    limits = {"total": 16 * MEGABYTE}
    tracemalloc.start()
    try:
        found = read(number, payload, **limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [mark.requirement for mark in found.violations] == ["memory.message-size-limit"]
    assert found.violations[0].open
    assert peak < 40 * MEGABYTE + 4 * len(payload)


def test_the_ratio_limit_applies_only_after_one_mebibyte_of_output():
    payload = gz(bytes(4 * MEGABYTE))
    assert read(GZIP, payload, ratio=10).violations[0].requirement == "memory.message-size-limit"
    assert read(GZIP, gz(bytes(MEGABYTE)), ratio=1).violations[0].requirement != "memory.message-size-limit"
    assert read(GZIP, payload).violations[0].requirement != "memory.message-size-limit"


def test_compressed_records_and_headers_are_counted_before_they_are_built():
    record = bytes.fromhex("0c000000010100")
    assert read(GZIP, gz(record * 1000), 1000).ok
    assert read(GZIP, gz(record * 1000), 1000, elements=999).violations[0].requirement == "memory.message-size-limit"
    headers = bytes.fromhex("0000000101") + codec.encode("VARINT", 500) + bytes(1000)
    whole = codec.encode("VARINT", len(headers)) + headers
    assert read(GZIP, gz(whole), 1).ok
    assert read(GZIP, gz(whole), 1, elements=500).violations[0].requirement == "memory.message-size-limit"
    assert codec.decode("RECORD", whole, limits=Limits(elements=1)).ok


@pytest.mark.parametrize("claimed", [1 << 20, (1 << 31) - 1, (1 << 32) - 1, 1 << 34])
def test_the_claimed_size_of_a_snappy_block_is_not_trusted(claimed):
    size, number = b"", claimed
    while number > 0x7F:
        size, number = size + bytes([number & 0x7F | 0x80]), number >> 7
    raw = size + bytes([number]) + b"\0" * 20
    tracemalloc.start()
    try:
        assert not read(SNAPPY, raw).ok
        assert not read(SNAPPY, XERIAL + struct.pack(">i", len(raw)) + raw).ok
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_snappy_block_beyond_the_limits_is_not_decompressed():
    raw = snap(bytes(4 * MEGABYTE))
    for damaged in (raw, raw[:-1]):
        found = read(SNAPPY, damaged, total=MEGABYTE)
        assert found.violations[0].requirement == "memory.message-size-limit"


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = min(rng.randrange(len(data) + 1), rng.choice((len(data), 24))) if data else 0
        match rng.randrange(6):
            case 0 if data:
                data[at - 1] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at - 1] = rng.choice((0, 0x7F, 0x80, 0xFF))
            case 2:
                del data[at : at + rng.randrange(6)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(6))
            case 4:
                del data[at:]
            case _:
                data += data[at:]
    return bytes(data)


@pytest.mark.parametrize("number", range(1, len(CODECS)))
def test_damaged_payloads_and_garbage_result_in_a_value_or_a_violation(number):
    rng = random.Random(number)
    good = [payload for kind, payload in (*PLAIN.values(), *REMARKED.values()) if kind == number]
    good += [form(RECORDS) for form in CODECS[number].forms] if not good else []
    for turn in range(2500):
        payload = mutated(rng, rng.choice(good)) if turn % 5 else rng.randbytes(rng.randrange(60))
        found = read(number, payload, rng.choice((COUNT, COUNT, 1, 0)), total=4 * MEGABYTE)
        assert found.ok == (not found.violations)
        assert all(mark.requirement for mark in (*found.violations, *found.remarks))
