"""Which codecs and magics the entries of a log have."""

from __future__ import annotations

import pytest

from conformance.codec.log import codecs_and_magics

PLAIN = (
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)


@pytest.mark.parametrize(
    ("name", "data", "codecs", "magics"),
    [
        ("RECORD_BATCH", PLAIN, {"none"}, {2}),
        ("RECORD_BATCH", PLAIN + PLAIN.replace("0000 00000002", "0003 00000002"), {"none"}, {2}),
        ("LOG", PLAIN + PLAIN.replace("0000 00000002", "0003 00000002"), {"none", "lz4"}, {2}),
        ("LOG", PLAIN + PLAIN[:60].replace(" 02 ", " 01 "), {"none", "zstd"}, {2, 1}),
        ("LOG", PLAIN + PLAIN[:16], {"none"}, {2}),
        ("RECORD_BATCH", PLAIN.replace("0000 00000002", "0005 00000002"), set(), {2}),
        ("RECORD_BATCH", PLAIN.replace(" 02 ", " 09 "), set(), set()),
        ("RECORD_BATCH", PLAIN.replace(" 02 ", " 01 "), set(), set()),
        ("MESSAGE_SET", PLAIN, set(), set()),
        ("RECORD_BATCH", PLAIN[:16], set(), set()),
        ("LOG", "", set(), set()),
        ("LOG", PLAIN.replace("0000004c", "ffffffff") + PLAIN, {"none"}, {2}),
        ("BYTES", PLAIN, set(), set()),
    ],
)
def test_codecs_and_magics_are_found_up_to_the_end_of_the_bytes(name, data, codecs, magics):
    assert codecs_and_magics(name, bytes.fromhex(data)) == (codecs, magics)


def test_codecs_and_magics_neither_hangs_nor_raises_for_odd_sizes():
    for size in (-1, 0, 1, 12, (1 << 31) - 1):
        codecs_and_magics("LOG", (bytes(8) + size.to_bytes(4, "big", signed=True) + b"\2" * 20) * 20)
