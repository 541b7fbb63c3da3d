"""The result of compaction for a batch (decisions#compaction), as Apache Kafka's own filter also returns it."""

import pytest

from conformance import codec
from conformance.semantics.partition_log import compact_batch


def batch(stamps, **fields):
    """Return the decoded batch of an idempotent producer with records at 10, 11, …"""
    plain = {
        **{"baseOffset": 10, "partitionLeaderEpoch": 5, "compression": 0, "timestampType": 0, "isTransactional": True},
        **{"isControlBatch": False, "producerId": 7, "producerEpoch": 1, "baseSequence": 3},
    }
    records = tuple(
        {"offset": 10 + index, "timestamp": stamp, "key": b"k", "value": b"v", "headers": ()}
        for index, stamp in enumerate(stamps)
    )
    return codec.decode("RECORD_BATCH", codec.encode("RECORD_BATCH", {**plain, **fields, "records": records})).value


def left(before, kept, **how):
    """Return the compacted batch, encoded and decoded again."""
    data = codec.wire("RECORD_BATCH").encode(compact_batch(before, kept, **how))
    read = codec.decode("RECORD_BATCH", data)
    assert (read.violations, read.remarks) == ((), ())
    return read.value


LASTING = ("baseOffset", "lastOffsetDelta", "producerId", "producerEpoch", "baseSequence", "partitionLeaderEpoch")


@pytest.mark.parametrize("kept", [(), (10,), (11,), (12,), (10, 12), (11, 12)])
def test_offsets_sequences_and_producer_stay_after_any_removal(kept):
    before = batch([1000, 3000, 2000], compression=1)
    after = left(before, kept)
    assert {name: after[name] for name in LASTING} == {name: before[name] for name in LASTING}
    assert [(record["offset"], record["timestamp"]) for record in after["records"]] == [
        (record["offset"], record["timestamp"]) for record in before["records"] if record["offset"] in kept
    ]
    assert after["recordCount"] == len(kept)


def test_the_first_kept_record_gives_the_base_timestamp_and_the_latest_the_maximum():
    after = left(batch([1000, 3000, 2000]), (11, 12))
    assert (after["baseTimestamp"], after["maxTimestamp"]) == (3000, 3000)
    assert [record["timestampDelta"] for record in after["records"]] == [0, -1000]
    assert left(batch([1000, 2000, 3000]), (10, 11))["maxTimestamp"] == 2000


def test_compaction_to_no_record_leaves_the_header_of_61_bytes():
    before = batch([1000, 3000, 2000], compression=4)
    after = left(before, ())
    assert after["batchLength"] == 49
    assert (after["compression"], after["baseTimestamp"], after["maxTimestamp"]) == (0, -1, 3000)
    assert (after["isTransactional"], after["recordCount"]) == (True, 0)
    assert not left(compact_batch(before, (10,), delete_horizon=9000), ())["hasDeleteHorizonMs"]


def test_a_delete_horizon_is_in_base_timestamp_and_records_keep_their_timestamps():
    after = left(batch([1000, 3000, 2000]), (10, 12), delete_horizon=9000)
    assert (after["hasDeleteHorizonMs"], after["baseTimestamp"], after["maxTimestamp"]) == (True, 9000, 2000)
    assert [record["timestamp"] for record in after["records"]] == [1000, 2000]
    assert [record["timestampDelta"] for record in after["records"]] == [-8000, -7000]


def test_an_existing_delete_horizon_stays_after_further_removals():
    once = left(batch([1000, 3000, 2000]), (10, 12), delete_horizon=9000)
    after = left(once, (12,), delete_horizon=9999)
    assert (after["baseTimestamp"], [record["timestamp"] for record in after["records"]]) == (9000, [2000])


def test_log_append_time_applies_to_every_record_and_stays():
    before = batch([1000, 3000, 2000], timestampType=1)
    after = left(before, (10,))
    assert (after["baseTimestamp"], after["maxTimestamp"]) == (3000, 3000)
    assert [(record["timestamp"], record["timestampDelta"]) for record in after["records"]] == [(3000, 0)]


def test_a_batch_without_removed_records_is_unchanged():
    before = batch([1000, 3000, 2000])
    assert compact_batch(before, (10, 11, 12)) is before
