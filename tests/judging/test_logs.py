"""Verdicts on answers about whole logs: correct ones, and each kind of error alone."""

from __future__ import annotations

import struct
import zlib

import pytest
from log_bytes import ABORT, COMMIT, batch, marker, message, part, record, wrapper

from conformance import codec
from conformance.cases.log_requests import conversion_of, first_offset, read_expectation, sequence_question
from conformance.cases.model import Accepted, Case, ExpectConsumerView, Rejected, VerdictKind
from conformance.catalog._log_vector_cases import question_of
from conformance.codec.checksums import CRC32C
from conformance.codec.compression import CODECS
from conformance.judging.judge import judge
from conformance.semantics.format_conversion import convert

LOG = (
    batch(0, [record(0, headers=({"key": "h", "value": b"1"}, {"key": "h", "value": None})), 1])
    + part(2)
    + marker(4, ABORT)
    + batch(5, [5, 7])
)
"""Offsets 0 to 7: 2 and 3 are aborted, 4 is a marker, 6 is a gap."""
COMMITTED = {"isolation": "read_committed", "aborted": [{"producerId": 7, "firstOffset": 2}]}


def read_case(data, **how):
    """Return a case that reads a log."""
    request, expect = read_expectation(data, **how)
    return Case("x/y", "read", codec.wire("LOG"), "x.y", "must", {"op": "read", **request}, expect, data)


def seen(offset, **fields):
    return {"offset": str(offset), "timestamp": str(1000 + offset), "timestampType": "CreateTime"} | {
        **{"key": "6b", "value": "76", "headers": []},
        **fields,
    }


HEADERS = [{"key": "h", "value": "31"}, {"key": "h", "value": None}]
RIGHT = [seen(0, headers=HEADERS), seen(1), seen(5), seen(7)]


def shown(records=RIGHT, stop="8", **further):
    return {"records": records, **({} if stop is None else {"nextOffset": stop}), **further}


def summary(case, value):
    verdict = judge(case, Accepted({"value": value}))
    return str(verdict.kind), verdict.level, verdict.requirement


CASE = read_case(LOG, **COMMITTED)
PASS = ("pass", "", "")


def without(name):
    return [{key: part for key, part in row.items() if key != name} for row in RIGHT]


@pytest.mark.parametrize(
    "value",
    [
        shown(),
        shown(stop=None),
        shown(RIGHT[:2], "2"),
        shown(RIGHT[:2], "4"),
        shown(RIGHT[:2], "5"),
        shown(stop=8),
        shown(without("headers")),
        shown(without("offset")),
        shown(further=1),
    ],
    ids=["all", "no next offset", *("stops at 2", "stops at 4", "stops at 5"), "number", "less shown", "", "more"],
)
def test_complete_and_partial_views_of_a_log_pass(value):
    assert summary(CASE, value) == PASS


NEXT = "offset.next-formula"


@pytest.mark.parametrize(
    ("value", "requirement"),
    [
        (shown([*RIGHT[:2], seen(2), *RIGHT[2:]]), "consumer.filters-aborted"),
        (shown([*RIGHT[:2], seen(4, key="00000000"), *RIGHT[2:]]), "consumer.handles-control-batches"),
        (shown(RIGHT[:3]), ""),
        (shown(RIGHT[:2], None), ""),
        (shown(RIGHT[1:]), ""),
        (shown([RIGHT[0], *RIGHT[2:]]), ""),
        (shown([]), ""),
        (shown([*RIGHT, seen(9)]), ""),
        (shown([*RIGHT, RIGHT[-1]]), ""),
        (shown([RIGHT[1], RIGHT[0], *RIGHT[2:]]), "offset.record-formula"),
        (shown([*RIGHT[:2], seen(6), RIGHT[3]]), "offset.record-formula"),
        (shown(RIGHT[:3], "6"), (NEXT, "should")),
        (shown(stop="9"), NEXT),
        (shown(stop="7"), ""),
        (shown([], "0"), NEXT),
        (shown([], "-1"), NEXT),
        (shown(RIGHT[:2], "3"), (NEXT, "should")),
        (shown([RIGHT[0], seen(1, timestamp="5"), *RIGHT[2:]]), "timestamp.record-formula"),
        (shown([RIGHT[0], seen(1, timestampType="LogAppendTime"), *RIGHT[2:]]), "attributes.timestamp-type-bit"),
        (shown([RIGHT[0], seen(1, timestampType=8), *RIGHT[2:]]), "attributes.timestamp-type-bit"),
        (shown([RIGHT[0], seen(1, key=None), *RIGHT[2:]]), "record.key-length"),
        (shown([RIGHT[0], seen(1, value=""), *RIGHT[2:]]), "record.value-length"),
        (shown([seen(0, headers=HEADERS[:1]), *RIGHT[1:]]), "header.duplicate-keys-kept"),
        (shown([seen(0, headers=[]), *RIGHT[1:]]), "record.headers-follow-count"),
        (shown([seen(0, headers=HEADERS[::-1]), *RIGHT[1:]]), "record.headers-follow-count"),
        (shown(error="corrupt"), ""),
        (shown(RIGHT[:2], "2", error="malformed"), ""),
    ],
)
def test_a_wrong_view_of_a_log_fails_under_the_violated_requirement(value, requirement, catalog):
    name, level = requirement if isinstance(requirement, tuple) else (requirement, "")
    assert summary(CASE, value) == ("fail", level, name)
    assert not name or name in catalog.requirements


def test_a_next_offset_that_does_not_advance_is_named():
    stays = judge(read_case(batch(0, [0, 1, 9]), fetch_offset=5), Accepted({"value": shown([], "5")}))
    assert "does not advance" in stays.detail


def test_rejecting_a_valid_log_fails():
    assert str(judge(CASE, Rejected("malformed")).kind) == "fail"


def test_records_before_the_fetch_offset_fail():
    case = read_case(LOG, fetch_offset=1, **COMMITTED)
    assert summary(case, shown(RIGHT[1:])) == PASS
    assert summary(case, shown()) == ("fail", "", "offset.fetch-absolute")
    assert summary(case, shown([], "1")) == ("fail", "", NEXT)


def test_a_whole_entry_before_the_fetch_offset_followed_by_others_allows_any_outcome():
    case = read_case(LOG, fetch_offset=5, **COMMITTED)
    for value in (shown(RIGHT[2:]), shown(RIGHT[1:]), shown([], "0")):
        assert summary(case, value)[0] == "either"


def sealed(data):
    return data[:17] + CRC32C.compute(data[21:]).to_bytes(4) + data[21:]


def longer(data):
    """Return the batch with one byte too much in the length of its first record."""
    return sealed(data[:61] + bytes((data[61] + 2,)) + data[62:])


def test_damage_in_hidden_records_may_be_ignored():
    for hidden in (longer(part(2)), longer(marker(2, COMMIT))):
        log = batch(0, [0, 1]) + hidden + batch(5)
        case = read_case(log, **COMMITTED)
        over, stopped = shown([*TWO, seen(5)], "6"), shown(TWO, "2", error="malformed")
        assert [summary(case, value)[0] for value in (over, stopped)] == ["either", "either"]
        assert judge(case, Rejected("malformed")).kind is VerdictKind.EITHER


def wrapped(offset, plain, magic=1):
    """Return a wrapper around these bytes."""
    packed = CODECS[1].write(plain)
    stamp = struct.pack(">q", 1000) if magic else b""
    body = bytes((magic, 1)) + stamp + struct.pack(">ii", -1, len(packed)) + packed
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_damage_in_records_before_the_fetch_offset_may_be_ignored():
    damaged = message(0)[:12] + bytes(4) + message(0)[16:]
    inner = wrapped(5, damaged + message(1) + message(2))
    last = [seen(5, timestamp=stamp) for stamp in ("1005", "1002")]
    for log, record_seen in zip((longer(batch(3, [3, 4, 5])), inner), last, strict=True):
        case = read_case(log, fetch_offset=5)
        assert summary(case, shown([record_seen], "6"))[0] == "either"
        assert summary(case, shown([], "5", error="other"))[0] == "either"
        assert summary(read_case(log, fetch_offset=0), shown([seen(3), seen(4), record_seen], "6"))[0] == "fail"


def overlong(offset, magic):
    """Return a message with a correct checksum and a value length beyond its end."""
    body = message(offset, magic)[16:-5] + struct.pack(">i", 1799) + b"v"
    return message(offset, magic)[:12] + struct.pack(">I", zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("low", [1, 9])
def test_damage_in_a_message_below_the_next_offset_may_be_ignored(low, magic):
    """Apache Kafka's consumer does not validate messages below its next offset."""
    stamps = {} if magic else {"timestamp": "-1", "timestampType": "NoTimestampType"}
    before, over = message(0, magic) + message(9, magic), shown([seen(at, **stamps) for at in (0, 9)], "10")
    for log in (before + overlong(low, magic), wrapped(low, before + overlong(low, magic), magic)):
        case = read_case(log, fetch_offset=0)
        assert summary(case, over)[0] == "either"
        assert summary(case, shown([], "0", error="corrupt"))[0] == "either"
    rising = message(0, magic) + message(1, magic)
    over = shown([seen(at, **stamps) for at in (0, 1)], "3")
    for log in (rising + overlong(2, magic), wrapped(2, rising + overlong(2, magic), magic)):
        assert summary(read_case(log, fetch_offset=0), over)[0] == "fail"


@pytest.mark.parametrize("log", [batch(3), message(3, 0), message(3, 1)], ids=["batch", "magic 0", "magic 1"])
def test_zeros_after_an_entry_stop_a_consumer_even_at_a_higher_offset(log):
    case = read_case(log + bytes(80), fetch_offset=3)
    assert judge(case, Rejected("corrupt")).kind is VerdictKind.PASS
    assert summary(case, shown([], "9"))[0] == "fail"


def test_damage_in_visible_records_and_every_wrong_checksum_must_be_detected():
    over = shown([*TWO, seen(5)], "6")
    assert summary(read_case(batch(0, [0, 1]) + longer(part(2)) + batch(5)), over)[0] == "fail"
    corrupted = read_case(batch(0, [0, 1]) + corrupt(part(2)) + batch(5), **COMMITTED)
    assert summary(corrupted, over) == ("fail", "should", "crc.mismatch-corrupt")
    short = part(2)[:8] + bytes(3) + b"\5" + part(2)[12:]
    assert summary(read_case(batch(0, [0, 1]) + short, **COMMITTED), shown([*TWO], "5"))[0] == "fail"


def test_a_fetch_beyond_the_end_may_keep_its_offset_or_return_to_the_end():
    case = read_case(batch(0), fetch_offset=50)
    assert [summary(case, shown([], stop)) for stop in ("50", "1")] == [PASS, PASS]
    assert summary(case, shown([seen(0)], "1"))[0] == "fail"


def test_a_wrong_field_of_an_old_message_is_attributed_to_its_requirement(catalog):
    case = read_case(message(0) + wrapper(1, 2) + batch(3))
    right = [seen(offset) for offset in range(4)]
    assert summary(case, shown(right, "4")) == PASS
    for field, wrong, rule in (
        ("offset", "9", "message-set.v1-relative-offsets"),
        ("timestamp", "9", "legacy.timestamp-milliseconds"),
        ("timestampType", "LogAppendTime", "legacy.v1-attributes"),
        ("key", None, "legacy.key-nullable"),
        ("value", None, "legacy.value-nullable"),
        ("headers", HEADERS, "legacy.v1-features"),
    ):
        assert summary(case, shown([right[0], {**right[1], field: wrong}, *right[2:]], "4")) == ("fail", "", rule)
        assert rule in catalog.requirements
    assert summary(case, shown([*right[:3], {**right[3], "key": None}], "4"))[2] == "record.key-length"


def test_a_wrong_log_append_time_is_attributed_to_its_requirement():
    log = bytearray(batch(0))
    log[22] |= 8
    log = bytes(log[:17]) + CRC32C.compute(log[21:]).to_bytes(4) + bytes(log[21:])
    appended = seen(0, timestampType="LogAppendTime")
    assert summary(read_case(log), shown([appended], "1")) == PASS
    verdict = summary(read_case(log), shown([{**appended, "timestamp": "7"}], "1"))
    assert verdict == ("fail", "", "timestamp.log-append-overwritten")


def test_a_wrong_log_append_time_of_old_messages_is_attributed_to_its_requirement(catalog):
    """The wrapper's timestamp for inner messages is settled; milliseconds are stated."""
    case = catalog.cases["read/log-append-time-v1-wrapper"]
    right = [seen(offset, timestamp="500", timestampType="LogAppendTime") for offset in range(2)]
    assert summary(case, shown(right, "2")) == PASS
    verdict = summary(case, shown([right[0], {**right[1], "timestamp": "2"}], "2"))
    assert verdict == ("fail", "", "legacy.log-append-overwrites")


def test_an_answer_without_records_is_skipped():
    for value in ({"nextOffset": "8"}, {}, shown([{}, {}, {}, {}])):
        assert summary(CASE, value) == ("skip", "", "")
    assert summary(CASE, {"nextOffset": "9"}) == ("fail", "", NEXT)
    assert summary(read_case(marker(0, COMMIT)), shown([], "1")) == PASS


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "records",
        {"records": None},
        {"records": [5]},
        {"records": [{"offset": "x"}]},
        {"records": [], "nextOffset": None},
        {"records": [], "nextOffset": 1.5},
        {"records": [], "nextOffset": "8", "error": "broken"},
        {"records": [], "nextOffset": "8", "error": 5},
        {"records": [{"timestampType": "Sometime"}]},
    ],
)
def test_an_answer_of_another_form_is_a_protocol_fault(value):
    assert judge(CASE, Accepted({"value": value})).kind is VerdictKind.PROTOCOL
    assert judge(CASE, Accepted({})).kind is VerdictKind.PROTOCOL


# --- damage -------------------------------------------------------------------------------------------

BROKEN = batch(0, [0, 1]) + batch(2)[:8] + bytes(3) + b"\5" + batch(2)[12:] + batch(3)
TWO = [seen(0), seen(1)]
DAMAGE = "batch.length-wrong-rejected"


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (shown(TWO, "2", error="malformed"), PASS),
        (shown(TWO, "2", error="other"), PASS),
        (shown(TWO, None, error="malformed"), PASS),
        (shown([*TWO, seen(2)], "3", error="malformed"), PASS),
        (shown(TWO, "2"), PASS),
        (shown(TWO, None), ("fail", "", DAMAGE)),
        (shown([*TWO, seen(3)], "4"), ("fail", "", "")),
        (shown(TWO, "4"), ("fail", "", DAMAGE)),
        (shown([], "0"), ("fail", "", DAMAGE)),
        (shown(TWO[:1], "2", error="malformed"), ("fail", "", "")),
        (shown([seen(0), seen(5)], "2", error="malformed"), ("fail", "", "offset.record-formula")),
    ],
)
def test_records_before_damage_are_returned_and_the_damage_is_reported(value, verdict):
    assert summary(read_case(BROKEN), value) == verdict
    assert judge(read_case(BROKEN), Rejected("corrupt")).kind is VerdictKind.PASS


def test_damage_at_the_start_is_reported():
    case = read_case(BROKEN[len(batch(0, [0, 1])) :])
    assert summary(case, shown([], "2", error="malformed")) == PASS
    assert summary(case, shown([], "2")) == ("fail", "", DAMAGE)
    assert summary(case, shown([], None)) == ("fail", "", DAMAGE)


def with_its_second_record_damaged(compression):
    """Return a batch of offsets 2 to 4 with one byte too much in the length of its second record."""
    whole = batch(2, [2, 3, 4])
    head, records = whole[:61], bytearray(whole[61:])
    records[len(records) // 3] += 2  # zig-zag
    payload = CODECS[compression].forms[0](bytes(records))
    length = struct.pack(">i", len(head) - 12 + len(payload))
    return sealed(head[:8] + length + head[12:21] + struct.pack(">h", compression) + head[23:] + payload)


@pytest.mark.parametrize("compression", range(len(CODECS)))
@pytest.mark.parametrize("before", [b"", batch(0, [0, 1])], ids=["first", "second batch"])
def test_only_the_records_before_the_damaged_one_may_be_returned(compression, before):
    case = read_case(before + with_its_second_record_damaged(compression), fetch_offset=0 if before else 2)
    sound = [seen(offset) for offset in ([0, 1] if before else [])]
    rule = "record.length-mismatch-rejected"
    for whole in ([], [seen(2)]):
        assert summary(case, shown([*sound, *whole], None, error="malformed")) == PASS
    assert summary(case, shown([*sound, seen(2), seen(3)], None, error="malformed")) == ("fail", "", rule)
    assert summary(case, shown([*sound, seen(2), {"key": "00"}], None, error="other")) == ("fail", "", rule)


def test_damage_outside_the_records_allows_any_number_of_records_before_it():
    counted = bytearray(batch(0, [0, 1]))
    counted[60] += 1  # one record too many
    assert summary(read_case(sealed(bytes(counted))), shown([seen(0), seen(1)], None, error="malformed")) == PASS
    assert summary(read_case(corrupt(batch(0, [0, 1]))), shown([seen(0), seen(1)], None, error="corrupt")) == PASS


def corrupt(data):
    return data[:17] + bytes(4) + data[21:]


def test_a_missing_checksum_check_fails_at_should_and_a_lost_batch_at_the_level_of_the_case():
    case = read_case(batch(0) + corrupt(batch(1)) + batch(2))
    rule = "crc.mismatch-corrupt"
    assert summary(case, shown([seen(0)], "1", error="corrupt")) == PASS
    assert summary(case, shown([seen(0), seen(1), seen(2)], "3")) == ("fail", "should", rule)
    assert summary(case, shown([seen(0), seen(2)], "3")) == ("fail", "", "")
    assert summary(case, shown([seen(0)], "3")) == ("fail", "", rule)
    unchecked = read_case(corrupt(batch(0)), check_crcs=False)
    assert unchecked.request["checkCrcs"] is False
    assert summary(unchecked, shown([seen(0)], "1"))[0] == "either"
    assert judge(unchecked, Rejected("corrupt")).kind is VerdictKind.EITHER
    # A reader stops at other damage before it reaches a wrong checksum.
    damaged = bytearray(batch(0))
    damaged[16] = 9  # magic
    assert (
        summary(read_case(bytes(damaged) + corrupt(batch(1)), check_crcs=False), shown([], "0", error="malformed"))
        == PASS
    )


# --- unspecified bytes --------------------------------------------------------------------------------


def test_unspecified_bytes_may_be_rejected_before_or_after_the_previous_records():
    strange = batch(0) + marker(1, bytes((0, 0, 0, 9))) + batch(2)
    case = read_case(strange)
    assert isinstance(case.expect, ExpectConsumerView)
    assert case.expect.open
    either = [shown([seen(0), seen(2)], "3"), shown([seen(0)], "1", error="other"), shown([], "0", error="other")]
    assert [summary(case, value)[0] for value in either] == ["either"] * 3
    assert judge(case, Rejected("malformed")).kind is VerdictKind.EITHER
    wrong = [
        shown([seen(0), seen(1), seen(2)], "3"),
        shown([seen(0), seen(1, key="00000009")], "2", error="other"),
        shown([seen(0, key=None)], "1", error="other"),
        shown([seen(0)], "3"),
    ]
    assert [summary(case, value)[0] for value in wrong] == ["fail"] * 4
    assert summary(case, {"nextOffset": "3"})[0] == "skip"


def test_a_log_that_allows_any_outcome_never_fails():
    case = read_case(batch(5) + batch(0), fetch_offset=0)
    for value in (shown([], "0"), shown([seen(5), seen(0)], "1"), shown([seen(5)], "6"), {}):
        assert summary(case, value)[0] == "either"
    assert judge(case, Rejected("other")).kind is VerdictKind.EITHER


def test_a_single_cut_entry_may_be_an_error():
    case = read_case(batch(0)[:40], fetch_offset=0)
    assert [summary(case, shown([], "0"))[0], summary(case, shown([], "0", error="other"))[0]] == ["either", "either"]
    assert summary(case, shown([seen(0)], "1"))[0] == "fail"


def test_a_fetch_starts_at_the_first_offset_of_the_log_by_default():
    logs = [batch(5), wrapper(3, 4), message(7, 0), BROKEN, batch(9)[:40], batch(9)[:5], b"", corrupt(batch(6))]
    assert [first_offset(log) for log in logs] == [5, 3, 7, 0, 9, 0, 0, 6]
    assert first_offset(wrapper(3, 4)[:12] + bytes(4) + wrapper(3, 4)[16:]) == 0
    assert (read_case(batch(5)).request["fetchOffset"], read_case(batch(5)).request["highWatermark"]) == ("5", "6")


# --- conversion ---------------------------------------------------------------------------------------


def conversion(data, magic, base=None):
    expect = conversion_of(codec.decode("LOG", data).value["batches"], magic, base)
    return Case("x/y", "convert", codec.wire("LOG"), "x.y", "must", {"op": "convert"}, expect, data)


OLD = message(0) + message(3, 0)
APPENDED = conversion(message(0) + message(3), 2, 7)
FIRST, SECOND = record(7, timestamp=1000), record(8, timestamp=1003)


@pytest.mark.parametrize(
    ("case", "written", "kind"),
    [
        (conversion(batch(0, [0, 2]), 1), convert(batch(0, [0, 2]), 1), "pass"),
        (conversion(batch(0, [0, 2]), 1), wrapper(0, 2), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0) + message(1), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0) + message(2) + message(3), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0, 0) + message(2, 0), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0) + message(2, timestamp=5), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0) + message(2, timestampType=1), "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0) + message(2)[:-1], "fail"),
        (conversion(batch(0, [0, 2]), 1), message(0) + message(2) + b"\0", "fail"),
        (conversion(batch(0, [0, 2]), 1), corrupt(batch(0, [0, 2])), "fail"),
        (conversion(batch(0, [0, 2]), 1), b"", "fail"),
        (conversion(marker(0, COMMIT), 1), b"", "pass"),
        (conversion(marker(0, COMMIT), 1), marker(0, COMMIT), "fail"),
        (conversion(OLD, 2), batch(0) + batch(3, [record(3, timestamp=-1)]), "pass"),
        (conversion(OLD, 2), batch(0, [0, record(3, timestamp=-1)]), "pass"),
        (conversion(OLD, 2), batch(0, [0, record(3, timestamp=-1)], producer=7), "fail"),
        (conversion(OLD, 2), batch(0, [0, record(3, timestamp=-1)], transactional=True), "fail"),
        (conversion(OLD, 2), OLD, "fail"),
        (
            conversion(message(0) + message(3), 2, 7),
            batch(7, [record(7, timestamp=1000), record(8, timestamp=1003)]),
            "pass",
        ),
        (
            conversion(message(0) + message(3), 2, 7),
            batch(7, [record(7, timestamp=1000)]) + batch(8, [record(8, timestamp=1003)]),
            "fail",
        ),
        (APPENDED, batch(0, [0, 3]), "fail"),
    ],
)
def test_a_converted_log_is_judged_by_its_records(case, written, kind):
    assert str(judge(case, Accepted({"hex": written.hex()})).kind) == kind


def test_an_answer_to_convert_without_bytes_is_a_protocol_fault():
    for answer in ({}, {"hex": None}, {"hex": "0"}, {"value": []}):
        assert judge(conversion(OLD, 2), Accepted(answer)).kind is VerdictKind.PROTOCOL
    assert judge(conversion(OLD, 2), Rejected("other")).kind is VerdictKind.FAIL


# --- sequences ----------------------------------------------------------------------------------------

ROWS = [{"producerId": 7, "producerEpoch": 0, "baseSequence": base, "recordCount": 3} for base in (0, 3, 3, 9, 1)]
"""Accepted, accepted, a duplicate, a gap, an overlap."""
FATE = Case("x/y", "sequence", codec.wire("LOG"), "x.y", "must", {"op": "sequence"}, sequence_question(ROWS)[1])
ANSWER = ["accept", "accept", "duplicate", "out-of-order"]


def test_each_of_several_accepted_results_is_accepted():
    assert sequence_question(ROWS)[0]["batches"][0]["producerId"] == "7"
    for last in ("accept", "duplicate", "out-of-order", "fenced"):
        verdict = judge(FATE, Accepted({"value": [*ANSWER, last]}))
        assert (str(verdict.kind), last in verdict.detail) == ("either", True)


@pytest.mark.parametrize("at", range(4))
def test_each_result_is_judged(at):
    wrong = ["fenced" if index == at else answer for index, answer in enumerate([*ANSWER, "accept"])]
    verdict = judge(FATE, Accepted({"value": wrong}))
    assert (str(verdict.kind), verdict.path) == ("fail", f"[{at}]")


@pytest.mark.parametrize(
    "value", [None, ANSWER, [*ANSWER, "accept", "accept"], [*ANSWER, "yes"], [*ANSWER, None], [*ANSWER, 1], "accept"]
)
def test_results_of_another_length_or_with_unknown_words_are_a_protocol_fault(value):
    assert judge(FATE, Accepted({"value": value})).kind is VerdictKind.PROTOCOL


def test_only_correct_results_pass():
    case = Case("x/y", "sequence", codec.wire("LOG"), "x.y", "must", {}, sequence_question(ROWS[:2])[1])
    assert judge(case, Accepted({"value": ["accept", "accept"]})).kind is VerdictKind.PASS
    assert judge(case, Rejected("other")).kind is VerdictKind.FAIL
    assert question_of({"op": "sequence", "batches": ROWS[:1], "value": ["accept"]}, None)[1].answers
