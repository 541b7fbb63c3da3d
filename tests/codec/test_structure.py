"""The tables of layouts: the offset of a field, its value, and its required value."""

from __future__ import annotations

import pytest

from conformance import codec
from conformance.codec import record_batch
from conformance.codec.legacy_message import LAYOUTS, SMALLEST, message_with_checksums
from conformance.codec.message_set import encode_set
from conformance.codec.record import RECORD_LAYOUT
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, MAGIC_AT, OVERHEAD, with_checksums

PLACES = {
    **{"baseOffset": 0, "batchLength": 8, "partitionLeaderEpoch": 12, "magic": 16, "crc": 17, "attributes": 21},
    **{"lastOffsetDelta": 23, "baseTimestamp": 27, "maxTimestamp": 35, "producerId": 43, "producerEpoch": 51},
    **{"baseSequence": 53, "recordCount": 57, "records": 61},
}
"""record-batch#overview."""
MESSAGE_PLACES = {"offset": 0, "messageSize": 8, "crc": 12, "magic": 16, "attributes": 17}
"""message-format#old-message-format."""

BATCH = codec.encode(
    "RECORD_BATCH",
    {
        **{"baseOffset": 5, "partitionLeaderEpoch": -1, "compression": 1, "timestampType": 0},
        **{"isTransactional": True, "isControlBatch": False},
        **{"producerId": 7, "producerEpoch": 0, "baseSequence": 0},
        "records": ({"offset": 5, "timestamp": 9, "key": None, "value": b"v", "headers": ()},),
    },
)


def test_every_field_of_a_batch_is_at_its_documented_offset():
    assert {name: BATCH_LAYOUT.offset(name) for name in PLACES} == PLACES
    assert BATCH_LAYOUT.span("crc") == slice(17, 21)
    assert (OVERHEAD, MAGIC_AT, HEADER_SIZE, record_batch.SMALLEST) == (12, 16, 61, 49)


@pytest.mark.parametrize("magic", LAYOUTS)
def test_every_field_of_a_message_is_at_its_documented_offset(magic):
    after = {"key": 18} if magic == 0 else {"timestamp": 18, "key": 26}
    assert {name: LAYOUTS[magic].offset(name) for name in (*MESSAGE_PLACES, *after)} == MESSAGE_PLACES | after
    assert SMALLEST[magic] == (14, 22)[magic]


@pytest.mark.parametrize(
    ("layout", "name"), [(BATCH_LAYOUT, "nothing"), (RECORD_LAYOUT, "value"), (LAYOUTS[0], "value")]
)
def test_a_field_after_a_field_of_variable_length_has_no_offset(layout, name):
    with pytest.raises(KeyError):
        layout.offset(name)


def test_a_number_is_read_and_written_at_the_offset_of_its_field():
    assert [
        BATCH_LAYOUT.read_field(name, b"??" + BATCH, 2) for name in ("baseOffset", "partitionLeaderEpoch", "crc")
    ] == [*(5, -1, int.from_bytes(BATCH[17:21], "big"))]
    changed = BATCH_LAYOUT.with_field("lastOffsetDelta", BATCH, -2)
    assert changed == BATCH[:23] + b"\xff\xff\xff\xfe" + BATCH[27:]


def test_a_part_is_read_and_written_without_the_others():
    assert [BATCH_LAYOUT.read_field(name, BATCH) for name in ("compression", "timestampType", "isTransactional")] == [
        1,
        0,
        1,
    ]
    assert BATCH_LAYOUT.with_field("compression", BATCH, 4)[21:23] == b"\x00\x14"


@pytest.mark.parametrize(("name", "part"), [("compression", 8), ("timestampType", 2), ("isControlBatch", -1)])
def test_a_part_that_does_not_fit_raises_its_own_requirement(name, part):
    with pytest.raises(codec.Unencodable) as rejection:
        BATCH_LAYOUT.with_field(name, BATCH, part)
    assert (
        rejection.value.requirement
        == {
            "compression": "attributes.compression-bits",
            "timestampType": "attributes.timestamp-type-bit",
            "isControlBatch": "attributes.control-bit",
        }[name]
    )


def test_sealing_corrects_length_and_checksum_and_keeps_bytes_that_are_too_short():
    message = encode_set([{"offset": 0, "key": b"k", "value": b"v"}], 0, 0)
    for whole, seal in ((BATCH, with_checksums), (message, message_with_checksums)):
        broken = whole[:8] + bytes(4) + whole[12:]
        assert seal(broken) == whole
        assert seal(broken, length=False) == broken
        assert seal(whole[:11]) == whole[:11]
    assert with_checksums(BATCH[:17] + bytes(4) + BATCH[21:]) == BATCH


def test_bytes_are_read_alike_with_and_without_a_trail(vectors):
    """Compare the two ways to read a layout, on whole vectors and on cut ones."""
    compared = 0
    for vector in vectors:
        whole = vector.data
        if whole is None or len(whole) > 20_000:
            continue
        for data in (whole, whole[: len(whole) * 2 // 3]):
            read, traced = codec.decode(vector.wire, data), codec.decode(vector.wire, data, trail=True)
            assert (read.value, read.consumed, read.rests_on) == (traced.value, traced.consumed, traced.rests_on)
            for one, other in zip(
                (*read.violations, *read.remarks), (*traced.violations, *traced.remarks), strict=True
            ):
                assert (one.requirement, one.at, one.hint, one.layer, one.openness) == (
                    *(other.requirement, other.at, other.hint, other.layer, other.openness),
                )
            compared += 1
    assert compared > 4000
