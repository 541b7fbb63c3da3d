"""The codec reads, writes and compares a run of equal array elements once."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from conformance import codec
from conformance.codec import json_notation as n
from conformance.codec._length_prefixed import LengthPrefix, array
from conformance.codec.compare import compare
from conformance.codec.primitives import INT32, VARINT

ELEMENTS = {
    "ARRAY<INT8>": ("00", "07", "ff"),
    "ARRAY<VARINT>": ("02", "8000", "8100", "ffffffff1f"),
    "ARRAY<STRING>": ("0000", "000161", "0001c3", "0003e282ac"),
    "ARRAY<NULLABLE_STRING>": ("0000", "ffff", "000161", "fffe"),
    "ARRAY<ARRAY<INT8>>": ("00000000", "0000000107"),
}
"""Elements of a type: valid ones, and elements with a remark or a violation."""


def in_runs(name, seed):
    """Return the bytes of an array of several hundred elements, with runs of equal ones, sometimes cut."""
    rng = random.Random(seed)
    parts = []
    while len(parts) < 300:
        parts += [bytes.fromhex(rng.choice(ELEMENTS[name]))] * rng.choice((1, 2, 3, 100))
    data = len(parts).to_bytes(4, "big") + b"".join(parts)
    return data[: -rng.randrange(1, 9)] if rng.random() < 0.3 else data + bytes(rng.randrange(3))


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("seed", range(10))
def test_an_array_with_runs_of_equal_elements_is_read_as_with_a_trail(name, seed):
    data = in_runs(name, seed)
    read, traced = codec.decode(name, data), codec.decode(name, data, trail=True)
    places = [(mark.requirement, mark.at, mark.hint) for mark in (*traced.violations, *traced.remarks)]
    assert [(mark.requirement, mark.at, mark.hint) for mark in (*read.violations, *read.remarks)] == places
    assert (read.value, read.consumed, read.rests_on) == (traced.value, traced.consumed, traced.rests_on)


def test_equal_headers_that_break_a_rule_are_each_noted():
    plain, with_nul = b"\x02h\x01", b"\x02\x00\x01"
    headers = VARINT.encode(400) + plain * 100 + with_nul * 200 + plain * 100
    content = bytes.fromhex("0000000101") + headers
    read = codec.decode("RECORD", VARINT.encode(len(content)) + content)
    assert len(read.value["headers"]) == 400
    assert [mark.requirement for mark in read.remarks] == ["header.key-no-nul"] * 200
    assert len({mark.at for mark in read.remarks}) == 200


def counting():
    """Return an array of VARINT, and the lists of values that were read and written singly."""
    seen, written = [], []

    def decode(cursor):
        seen.append(VARINT.decode(cursor))
        return seen[-1]

    def encode(value):
        written.append(value)
        return VARINT.encode(value)

    element = replace(VARINT, decode=decode, encode=encode, shape=None)
    return array("ARRAY<VARINT>", LengthPrefix(INT32), element, "array.layout"), seen, written


def test_equal_elements_one_after_another_are_read_and_written_once():
    wire, seen, written = counting()
    data = (130_000).to_bytes(4, "big") + b"\x02" * 65_000 + b"\x80\x08" + b"\x02" * 64_999
    value = codec.decode(wire, data).value
    assert value == (1,) * 65_000 + (512,) + (1,) * 64_999
    assert seen == [1, 512, 1]
    assert codec.encode(wire, value) == data
    assert written == [1, 512, 1]


def test_elements_that_differ_are_each_read():
    wire, seen, _ = counting()
    data = (200).to_bytes(4, "big") + b"\x02\x04" * 100
    assert codec.decode(wire, data).value == (1, 2) * 100
    assert seen == [1, 2] * 100


def test_equal_lists_are_compared_as_a_whole():
    compared = []
    element = replace(n.NUMBER, same=lambda one, other: compared.append(one) or one == other)
    expected = tuple(range(1000))
    assert compare(n.ListOf(element), expected, tuple(range(1000))).mismatches == ()
    assert compared == []
    assert compare(n.ListOf(element), expected, (*range(999), 5)).mismatches == ("[999]",)


def test_blanks_between_hex_digits_are_refused():
    for given in ("00 01", " 0001", "0001\n", "0\t1"):
        with pytest.raises(n.NotationError):
            n.HEX.parse(given)
    assert n.HEX.parse("") == b""
