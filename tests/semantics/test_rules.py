"""Rules over whole logs: the records that a fetch returns, format conversion, producer sequences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_bytes import ABORT, COMMIT, batch, marker, message, part, record, wrapper

from conformance import codec
from conformance.semantics.consumer_view import READ_COMMITTED, AbortedTransaction, consumer_view
from conformance.semantics.format_conversion import NotConvertible, convert, converted_records, records_of
from conformance.semantics.producer_state import ANY_RESULT, allowed_results, next_sequence


def offsets(seen):
    return [row["offset"] for row in seen.records]


def batches(data):
    return codec.decode("LOG", data).value["batches"]


# --- fetches ------------------------------------------------------------------------------------------


def test_records_from_the_fetch_offset_are_visible_and_the_next_offset_follows_the_last_entry():
    log = batch(0, [0, 2]) + batch(5, [5, 6, 7]) + message(9) + wrapper(11, 13)
    seen = consumer_view(log, 1)
    assert offsets(seen) == [2, 5, 6, 7, 9, 11, 13]
    assert (seen.next_offset, seen.ends, seen.legacy) == (14, (3, 8, 10, 14), {9, 11, 13})
    assert (seen.damage, seen.remarks, seen.partial) == (None, (), False)


def test_a_magic_0_message_has_no_timestamp():
    (seen,) = consumer_view(message(3, 0), 0).records
    assert (seen["timestamp"], seen["timestampType"], seen["headers"]) == (-1, "NoTimestampType", ())


def test_without_a_whole_entry_no_record_is_visible_and_the_next_offset_is_the_same():
    for log in (b"", batch(0)[:40]):
        seen = consumer_view(log, 5)
        assert (seen.records, seen.next_offset, seen.partial) == ((), 5, bool(log))


def test_a_cut_entry_is_no_damage_and_does_not_move_the_next_offset():
    log = batch(0) + batch(1)
    assert [consumer_view(log[:stop], 0).next_offset for stop in (len(log), len(log) - 1, len(batch(0)) + 1)] == [
        2,
        1,
        1,
    ]
    assert consumer_view(log[:-1], 0).damage is None


def test_entries_after_damage_are_not_read():
    broken = bytearray(batch(1))
    broken[-2] ^= 1
    seen = consumer_view(batch(0) + broken + batch(2), 0)
    assert (offsets(seen), seen.next_offset, seen.damage.requirement) == ([0], 1, "crc.mismatch-corrupt")
    assert offsets(consumer_view(batch(0) + broken + batch(2), 0, check_crcs=False)) == [0, 1, 2]
    worse = batch(1)[:8] + bytes(4) + batch(1)[12:]
    assert consumer_view(batch(0) + worse, 0, check_crcs=False).damage.requirement == "batch.length-wrong-rejected"


def test_a_whole_entry_before_the_fetch_offset_followed_by_others_allows_any_outcome():
    log = batch(0, [0, 2]) + batch(5)
    assert [
        any(remark.openness is codec.Definedness.ANY_VALUE for remark in consumer_view(log, fetch).remarks)
        for fetch in (2, 3, 5)
    ] == [False, True, True]
    assert consumer_view(batch(0), 50).remarks == consumer_view(batch(0) + batch(1)[:-1], 50).remarks == ()


def test_an_entry_that_overlaps_the_previous_one_allows_any_outcome():
    for log in (batch(5) + batch(0), batch(0) + batch(0), message(3) + message(2)):
        assert any(remark.openness is codec.Definedness.ANY_VALUE for remark in consumer_view(log, 0).remarks)


@pytest.mark.parametrize("log", [batch((1 << 63) - 1), message((1 << 63) - 1)])
def test_the_offset_after_the_largest_allows_any_outcome(log):
    assert any(
        remark.requirement == "offset.next-formula" and remark.openness is codec.Definedness.ANY_VALUE
        for remark in consumer_view(log, 0).remarks
    )


def test_without_checksum_checks_hidden_records_are_not_decoded():
    cut = bytearray(part(0))
    cut[-1] = 20  # more headers than bytes, after a checksum that no longer matches
    for fetch, aborted in ((0, [AbortedTransaction(7, 0)]), (1, [])):
        open_ends = [
            any(remark.openness is codec.Definedness.ANY_VALUE for remark in seen.remarks)
            for check in (False, True)
            for seen in [consumer_view(bytes(cut), fetch, isolation=READ_COMMITTED, aborted=aborted, check_crcs=check)]
            if seen.damage is not None
        ]
        assert open_ends == [True, False]
    assert not consumer_view(bytes(cut), 0, check_crcs=False).remarks


# --- transactions -------------------------------------------------------------------------------------


def committed(log, *aborted, fetch=0):
    return consumer_view(
        log, fetch, isolation=READ_COMMITTED, aborted=[AbortedTransaction(*entry) for entry in aborted]
    )


MIXED = part(0) + part(2, 8) + marker(4, ABORT) + part(5) + marker(7, COMMIT, 8) + marker(8, COMMIT) + batch(9)


def test_an_aborted_transaction_ends_at_its_marker():
    seen = committed(MIXED, (7, 0))
    assert (offsets(seen), seen.next_offset, seen.remarks) == ([2, 3, 5, 6, 9], 10, ())
    control, filtered = "consumer.handles-control-batches", "consumer.filters-aborted"
    assert seen.hidden == {0: filtered, 1: filtered, 4: control, 7: control, 8: control}


def test_markers_are_hidden_at_every_isolation_level_and_records_only_with_an_aborted_list():
    for seen in (consumer_view(MIXED, 0, aborted=[AbortedTransaction(7, 0)]), committed(MIXED)):
        assert offsets(seen) == [0, 1, 2, 3, 5, 6, 9]
        assert set(seen.hidden) == {4, 7, 8}


def test_the_order_of_the_list_does_not_matter():
    log = part(0) + marker(2, ABORT) + part(3, 8) + part(5) + marker(7, ABORT) + marker(8, ABORT, 8) + part(9)
    listed = [(7, 0), (8, 3), (7, 5)]
    assert [offsets(committed(log, *order)) for order in (listed, listed[::-1])] == [[9, 10], [9, 10]]


def test_a_batch_outside_transactions_is_visible():
    log = part(0) + batch(2, [2], producer=7) + batch(3) + marker(4, ABORT)
    assert offsets(committed(log, (7, 0))) == [2, 3]


@pytest.mark.parametrize(
    ("log", "aborted"),
    [
        (part(0, count=3) + marker(3, ABORT), (7, 1)),
        (part(0) + marker(2, COMMIT) + part(3), (7, 0)),
        (part(0) + marker(2, bytes((0, 0, 0, 9))) + part(3), (7, 0)),
        (part(0) + marker(2, bytes((0, 1, 0, 0))) + part(3), (7, 0)),
        (part(0) + marker(2, bytes(3)) + part(3), (7, 0)),
        (part(0) + batch(2, [record(2, key=ABORT)], producer=7, control=True) + part(3), (7, 0)),
    ],
    ids=["begins inside a batch", "COMMIT", "unknown type", "version 1", "no marker's key", "not transactional"],
)
def test_an_aborted_transaction_that_depends_on_unspecified_bytes_allows_any_outcome(log, aborted):
    assert any(remark.openness is codec.Definedness.ANY_VALUE for remark in committed(log, aborted).remarks)
    assert not any(remark.openness is codec.Definedness.ANY_VALUE for remark in consumer_view(log, 0).remarks)


def test_an_unknown_marker_of_an_unlisted_producer_may_be_rejected_and_changes_no_record():
    seen = committed(part(0) + marker(2, bytes((0, 0, 0, 9))) + part(3))
    assert offsets(seen) == [0, 1, 3, 4]
    assert {remark.openness is codec.Definedness.ANY_VALUE for remark in seen.remarks} == {False}


entries = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 7, 8, -7, -8]), st.booleans()), max_size=12)


def drawn_log(rows):
    """Return a log of gaps, batches, transactions of two producers (negative: a marker) and messages."""
    at, log = 0, b""
    for gap, producer, old in rows:
        at += gap
        if producer is None:
            log += message(at) if old else batch(at, [at, at + 2])
        elif producer < 0:
            log += marker(at, ABORT if old else COMMIT, -producer)
        else:
            log += part(at, producer)
        at += 3
    return log


@given(entries)
def test_without_markers_all_records_of_a_log_are_visible(rows):
    log = drawn_log([row for row in rows if (row[1] or 0) >= 0])
    every = [entry["offset"] for entry in records_of(batches(log))]
    assert offsets(consumer_view(log, 0)) == offsets(committed(log)) == every


@given(entries, st.sets(st.sampled_from([7, 8])), st.integers(0, 40))
def test_two_fetches_return_the_same_records_as_one(rows, aborted, cut):
    log = drawn_log(rows)
    listed = [(producer, 0) for producer in sorted(aborted)]
    whole = committed(log, *listed)
    stop = next((end for end in whole.ends if end > cut), whole.next_offset)
    first = [offset for offset in offsets(whole) if offset < stop]
    assert [*first, *offsets(committed(log, *listed, fetch=stop))] == offsets(whole)
    assert committed(log, *listed, fetch=stop).next_offset == whole.next_offset


@given(entries)
def test_the_next_offset_increases_with_the_entries_and_is_above_all_records(rows):
    seen = consumer_view(drawn_log(rows), 0)
    assert list(seen.ends) == sorted(set(seen.ends))
    assert all(offset < seen.next_offset for offset in (*offsets(seen), *seen.hidden))


# --- conversion ---------------------------------------------------------------------------------------

LOG = batch(0, [0, 2]) + message(3, 0) + message(4) + wrapper(5, 8) + marker(9, COMMIT) + part(10)


def kept(data, *names):
    return [tuple(entry.get(name) for name in names) for entry in records_of(batches(data))]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_conversion_keeps_offsets_keys_and_values_and_drops_markers(magic):
    names = ("offset", "key", "value")
    before = [entry for entry in kept(LOG, *names) if entry[0] != 9 or magic == 2]
    assert kept(convert(LOG, magic), *names) == before
    records = converted_records(batches(LOG), magic)
    assert [entry["offset"] for entry in records] == [0, 2, 3, 4, 5, 8, 10, 11]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_converting_a_log_twice_changes_nothing(magic):
    once = convert(LOG, magic)
    assert convert(once, magic) == once
    assert {entry["magic"] for entry in batches(once)} <= set(range(magic + 1)) if magic < 2 else {2}


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8), st.sampled_from([0, 1, 2]))
def test_a_converted_log_contains_the_expected_records(rows, magic):
    log = drawn_log([(gap, None, old) for gap, old in rows])
    actual, expected = records_of(batches(convert(log, magic))), converted_records(batches(log), magic)
    assert [{**record, "entry": 0} for record in actual] == [{**record, "entry": 0} for record in expected]


def test_down_conversion_drops_fields_that_old_messages_lack():
    rich = batch(5, [record(5, headers=({"key": "h", "value": None},))], producer=7, transactional=True)
    (converted,) = converted_records(batches(rich), 1)
    assert converted == {
        **{"magic": 1, "compression": 0, "offset": 5, "timestampType": 0, "timestamp": 1005, "key": b"k", "value": b"v"}
    }
    (converted,) = converted_records(batches(rich), 0)
    assert converted == {"magic": 0, "compression": 0, "offset": 5, "key": b"k", "value": b"v"}


def test_appending_renumbers_offsets_into_one_batch_with_create_time():
    appended = message(100, timestampType=1) + message(105)
    records = converted_records(batches(appended), 2, 7)
    assert [(entry["offset"], entry["timestampType"]) for entry in records] == [(7, 0), (8, 0)]
    assert kept(convert(appended, 2, 7), "offset", "entry") == [(7, 0), (8, 0)]
    assert [entry["timestamp"] for entry in converted_records(batches(message(3, 0)), 2, 7)] == [-1]
    assert convert(b"", 2, 7) == b""


def test_zstd_is_not_converted_down_and_offsets_are_not_renumbered_below_magic_2():
    packed = batch(0, compression=4)
    for magic in (0, 1):
        with pytest.raises(codec.Unencodable, match="codec zstd is not defined for magic"):
            convert(packed, magic)
        with pytest.raises(codec.Unencodable, match="magic 2"):
            convert(message(0), magic, 5)
    assert convert(packed, 2) == packed


def test_a_damaged_log_is_not_converted():
    with pytest.raises(NotConvertible, match=r"batch\.length"):
        convert(batch(0) + bytes(8) + b"\xff" * 8, 1)
    assert convert(batch(0) + batch(1)[:30], 1) == convert(batch(0), 1)


# --- sequences ----------------------------------------------------------------------------------------

TOP = (1 << 31) - 1


def fates(*rows):
    names = ("producerId", "producerEpoch", "baseSequence", "recordCount")
    return [
        "any" if found == ANY_RESULT else " or ".join(sorted(found))
        for found in allowed_results(dict(zip(names, row, strict=True)) for row in rows)
    ]


def test_sequences_wrap_to_zero():
    assert [next_sequence(*pair) for pair in ((0, 1), (TOP, 1), (TOP - 1, 3), (0, 0))] == [1, 0, 1, 0]


@given(st.integers(0, TOP), st.lists(st.integers(1, 1 << 20), min_size=1, max_size=8))
def test_consecutive_batches_are_accepted_and_the_last_five_are_known_as_duplicates(first, counts):
    rows, at = [(7, 0, 0, first)] if first else [], first
    for count in counts:
        rows.append((7, 0, at, count))
        at = next_sequence(at, count)
    again = rows[-5:]
    assert fates(*rows, *again, (7, 0, at, 1)) == ["accept"] * len(rows) + ["duplicate"] * len(again) + ["accept"]
    is_stored = first + sum(counts) + 1 > TOP
    assert fates(*rows, (7, 0, next_sequence(at, 1), 1))[-1] == ("any" if is_stored else "out-of-order")


def test_the_first_sequence_of_an_unknown_producer_is_unspecified_unless_zero():
    either = "accept or out-of-order"
    assert fates((7, 0, 5, 3), (7, 0, 8, 1)) == [either, either]
    assert fates((7, 0, 5, 3), (7, 0, 0, 1)) == [either, "any"]
    assert fates((7, 3, 5, 3), (7, 4, 0, 1), (7, 4, 1, 1), (7, 3, 8, 1)) == [either, "accept", "accept", "fenced"]


def test_a_sequence_stored_before_the_wrap_is_not_a_gap():
    assert fates((7, 0, 0, TOP), (7, 0, TOP, 1), (7, 0, 1, 1)) == ["accept", "accept", "any"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(-1, -1, -1, 3), (-1, -1, -1, 3)], ["accept", "accept"]),
        ([(7, 0, 0, 3), (8, 0, 0, 1), (7, 0, 3, 1)], ["accept"] * 3),
        (
            [(7, 0, 0, 3), (7, 0, 4, 1), (7, 0, 4, 1), (7, 0, 3, 1)],
            ["accept", "out-of-order", "out-of-order", "accept"],
        ),
        ([(7, 1, 0, 1), (7, 0, 1, 1), (7, 2, 1, 1), (7, 2, 0, 1)], ["accept", "fenced", "out-of-order", "accept"]),
        ([(7, 0, 0, 3), (7, 1, 0, 3), (7, 1, 0, 3)], ["accept", "accept", "duplicate"]),
        ([(7, 0, 0, 3), (7, 0, 0, 2), (7, 0, 3, 1), (7, 0, 9, 1)], ["accept", "any", "any", "any"]),
        (
            [(7, 0, 0, 3), (7, 0, 1, 1), (7, 1, 5, 1), (7, 1, 0, 1), (7, 1, 1, 1)],
            ["accept", "any", "out-of-order", "accept", "accept"],
        ),
        ([(7, -1, 5, 1), (7, -1, 9, 1), (7, 0, 9, 1)], ["any"] * 3),
        ([(7, 0, -1, 1), (7, 0, 0, 1)], ["any"] * 2),
        ([(7, 0, 0, 0), (7, 0, 0, 1)], ["any"] * 2),
    ],
)
def test_each_batch_has_its_allowed_results(rows, expected):
    assert fates(*rows) == expected
