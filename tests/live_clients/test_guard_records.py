"""Guard records before and after a case in one response, and verdicts on clients that lose or change them."""

import pytest
from log_bytes import ABORT, batch, marker, message, part, record, wrapper

from conformance import codec
from conformance.cases.log_requests import fetch_expectation, read_expectation
from conformance.cases.operations import OPERATIONS
from conformance.codec.log import LOG
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.live_clients.guard_records import with_guard_records
from conformance.mock_broker.topic import BEFORE_KEY, END_KEY, LAST_OFFSET, can_serve_one_entry_per_fetch
from conformance.semantics.consumer_view import RECORD_NOTATION

THREE = batch(5, range(5, 8))
BROKEN = THREE[:-1] + b"?"
GONE = with_checksums(BATCH_LAYOUT.with_field("lastOffsetDelta", THREE, 9))
NEXT_TOO_LOW = BATCH_LAYOUT.with_field("baseOffset", BROKEN, 0)
TOO_MANY = with_checksums(BATCH_LAYOUT.with_field("recordCount", THREE, 4))


def request_and_expectation(data, **options):
    """Return a parsed `read` request and its expectation."""
    parts = OPERATIONS["read"].parse(read_expectation(data, **options).parts, LOG)
    return parts, fetch_expectation(parts).expect


def guard_entries(data, **options):
    """Return the offsets and magics of the entries before and after the bytes; check that the bytes are unchanged."""
    sides = with_guard_records(*request_and_expectation(data, **options))
    if sides is None:
        return None
    before, behind = sides.parts["hex"].split(data)
    shown = [entry for side in (before, behind) for entry in codec.decode("LOG", side).value["batches"]]
    return [(entry.get("baseOffset", entry.get("offset")), entry["magic"]) for entry in shown]


@pytest.mark.parametrize(
    ("data", "options", "entries"),
    [
        (THREE, {}, [(4, 2), (8, 2)]),
        (batch(0), {}, [(1, 2)]),
        (THREE, {"fetch_offset": 3}, [(2, 2), (8, 2)]),
        (THREE, {"fetch_offset": 6}, [(8, 2)]),
        (GONE, {}, [(4, 2), (15, 2)]),
        (part(5) + marker(7, ABORT), {"isolation": "read_committed", "aborted": [{"producerId": 7, "firstOffset": 5}]},
         [(4, 2), (8, 2)]),
        (message(5, 0), {}, [(4, 0), (6, 0)]),
        (wrapper(5, 6) + batch(7), {"fetch_offset": 5}, [(4, 1), (8, 2)]),
        (BROKEN, {}, [(8, 2)]),
        (THREE + BATCH_LAYOUT.with_field("baseOffset", BROKEN, 8), {}, [(11, 2)]),
        (TOO_MANY, {}, [(8, 2)]),
        (NEXT_TOO_LOW, {"fetch_offset": 5}, [(6, 2)]),
    ],
    ids=["room", "no-room", "gap-below", "begin-inside", "gap-above", "transaction", "magic-0", "mixed", "damage",
         "damage-second", "count", "damage-below"],
)  # fmt: skip
def test_a_case_is_between_two_guard_records_of_its_magic(data, options, entries):
    assert guard_entries(data, **options) == entries


@pytest.mark.parametrize(
    "data",
    [
        THREE[:-1],
        THREE + THREE[:30],
        BATCH_LAYOUT.with_field("batchLength", THREE, len(THREE) - 11),
        BATCH_LAYOUT.with_field("batchLength", THREE, len(THREE) - 13),
        BATCH_LAYOUT.with_field("batchLength", THREE, -1),
        BATCH_LAYOUT.with_field("batchLength", THREE[:60], 48),
        BATCH_LAYOUT.with_field("magic", THREE, 3),
        batch(LAST_OFFSET),
        batch(0, [record(3), record(1)]),
        b"",
    ],
    ids=["cut", "cut-second", "longer", "shorter", "negative", "header-cut", "magic", "no-room", "open", "nothing"],
)
def test_a_case_with_an_unknown_end_is_served_alone(data):
    assert guard_entries(data) is None


def test_the_reference_reads_the_case_and_both_guard_records():
    sides = with_guard_records(*request_and_expectation(THREE))
    seen = fetch_expectation(sides.parts).expect.view.records
    assert [row["key"] for row in seen] == [BEFORE_KEY, b"k", b"k", b"k", END_KEY]
    assert sides.parts["highWatermark"] == 9


@pytest.mark.parametrize("log", [THREE, message(5)], ids=["batch", "message"])
def test_guard_records_survive_a_client_without_timestamp_0(log):
    sides = with_guard_records(*request_and_expectation(log))
    rows = [{**row, "timestamp": row["timestamp"] or -1} for row in (sides.before, sides.after)]
    assert sides.guard_violation([RECORD_NOTATION.render(row) for row in rows]) == ""


def given(sides, **changed):
    return [RECORD_NOTATION.render({**row, **changed}) for row in (sides.before, sides.after)]


def test_missing_or_changed_guard_records_are_reported():
    sides = with_guard_records(*request_and_expectation(THREE))
    before, after = given(sides)
    assert sides.guard_violation([before, after]) == ""
    assert sides.guard_violation([after]) == "the record before the bytes of the case, at offset 4, was not handed out"
    assert sides.guard_violation([before]) == "the record behind the bytes of the case, at offset 8, was not handed out"
    assert sides.guard_violation([before, before, after]).endswith("at offset 4, was handed out 2 times")
    assert sides.guard_violation([before, {**after, "offset": "9"}]).endswith("at offset 8, was not handed out")
    assert sides.guard_violation(given(sides, timestamp=7)).endswith(
        "at offset 4, was handed out with another timestamp"
    )
    assert sides.guard_violation([{"key": row["key"]} for row in (before, after)]) == ""


@pytest.mark.parametrize(
    ("data", "by_entry"),
    [(THREE, False), (GONE, True), (part(0) + marker(2, ABORT), True), (marker(0, ABORT), True), (BROKEN, False)],
    ids=["without-gap", "gap", "several", "hidden", "damage"],
)
def test_an_entry_with_an_unknown_end_is_also_served_alone(data, by_entry):
    assert can_serve_one_entry_per_fetch(*request_and_expectation(data), between_guards=True) == by_entry
    several = data.startswith(part(0))
    assert can_serve_one_entry_per_fetch(*request_and_expectation(data), between_guards=False) == several
