"""Ten times the input costs at most twelve times the work, for each kind of element."""

import gzip

import lz4.frame
import pytest
from growing import GROWING, PLAIN
from log_bytes import batch, record
from work import work_of

from conformance import codec
from conformance.codec.compression_formats import with_header_checksum
from conformance.codec.hex_dump import annotate
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, with_checksums
from conformance.targets.reference import answer

SMALL, LARGE = 100, 1000


@pytest.mark.parametrize("name", GROWING)
def test_ten_times_the_input_costs_at_most_twelve_times_the_work(name, monkeypatch):
    row = GROWING[name]
    row(3)()  # fills the caches before the count
    small, large = (work_of(row(size), monkeypatch) for size in (SMALL, LARGE))
    assert large <= 12 * small, f"{small:,} became {large:,}"


def test_element_counts_are_limited_by_the_size_of_the_input():
    headers = bytes.fromhex("0000000101") + codec.encode("VARINT", 500_000) + bytes(1_000_000)
    payload = gzip.compress(codec.encode("VARINT", len(headers)) + headers, mtime=0)
    read = codec.decode("RECORD_BATCH", with_checksums(batch(0, compression=1)[:HEADER_SIZE] + payload))
    assert [violation.requirement for violation in read.violations] == ["memory.message-size-limit"]
    assert read.violations[0].open
    assert codec.decode("RECORD", codec.encode("VARINT", len(headers)) + headers).ok


def test_a_dump_accepts_denser_batches_than_a_decode():
    data = _batch(gzip.compress(PLAIN * 10_000, mtime=0), 10_000)
    assert not codec.decode("RECORD_BATCH", data).ok
    assert annotate("RECORD_BATCH", data)[0].ok


def _batch(payload, count):
    head = BATCH_LAYOUT.with_field("recordCount", batch(0, compression=1)[:HEADER_SIZE], count)
    return with_checksums(BATCH_LAYOUT.with_field("lastOffsetDelta", head, count - 1) + payload)


def test_the_total_limit_applies_to_all_payloads_of_a_log_together():
    bomb = batch(0, [record(0, value=bytes(1 << 20))], compression=1)
    limits = codec.Limits(total=3 << 20)
    assert codec.decode("LOG", bomb * 2, limits=limits).ok
    (violation,) = codec.decode("LOG", bomb * 4, limits=limits).violations
    assert violation.requirement == "memory.message-size-limit"
    assert len(bomb) * 2 < violation.at


@pytest.mark.parametrize("size", [5, 13, 14])
def test_the_checksum_of_an_lz4_frame_header_matches_the_library(size):
    options = {5: {"block_size": 7}, 13: {"store_size": True}, 14: {"store_size": True, "content_checksum": True}}
    frame = lz4.frame.compress(b"content", **{"store_size": False, **options[size]})
    assert with_header_checksum(frame) == frame
    at = 14 if size > 5 else 6
    assert with_header_checksum(frame[:at] + bytes((frame[at] ^ 1,)) + frame[at + 1 :]) == frame
    assert with_header_checksum(frame[:at]) == frame[:at]


def test_a_known_tagged_field_is_read_once_at_any_depth(monkeypatch):
    # A reader once read a short field again at each level: at depth 20, one number was read a million times.
    shallow, deep = (work_of(_reading_a_cut_field(depth), monkeypatch) for depth in (2, 20))
    assert deep <= 12 * shallow


def _reading_a_cut_field(depth):
    fields = [{"name": "Last", "type": "int32", "versions": "0+"}]
    data = b"\1"
    for level in range(depth):
        row = {"name": f"Deep{level}", "type": f"Deep{level}", "versions": "0+", "taggedVersions": "0+", "tag": 0}
        fields = [{**row, "fields": fields}]
        data = b"\1\0" + codec.encode("UNSIGNED_VARINT", len(data)) + data
    definition = {"name": "Deep", "type": "data", "validVersions": "0", "flexibleVersions": "0+", "fields": fields}
    request = {"op": "decode", "type": "MESSAGE", "message": "Deep", "version": 0, "definition": definition}
    answered = answer({**request, "hex": data.hex()})
    assert answered["ok"] is False
    return lambda: answer({**request, "hex": data.hex()})
