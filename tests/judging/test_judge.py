"""`judge`: each kind of expectation with each possible outcome."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from conformance import codec
from conformance.cases.model import (
    Accepted,
    Case,
    ExpectAnyOf,
    ExpectBytes,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    NoAnswer,
    Rejected,
    Unsupported,
    VerdictKind,
)
from conformance.codec.checksums import CRC32C
from conformance.codec.json_notation import UNSHOWN
from conformance.codec.layout import write
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.message_set import entry_of
from conformance.judging.judge import judge, more_serious

PLAIN = bytes.fromhex(
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)
BATCH = codec.decode("RECORD_BATCH", PLAIN).value
SHOWN = codec.wire("RECORD_BATCH").notation.render(BATCH)
FREE = ("batchLength", "crc", "attributes", "partitionLeaderEpoch")


def case(expect, *, type="VARINT", op=None, level="must", about=(), requirement="varint.examples", data=b"\x7e"):
    if op is None:
        op = {ExpectBytes: "encode", ExpectEquivalentBytes: "encode", ExpectSize: "size"}.get(
            expect.__class__, "decode"
        )
    return Case(
        "x/y", op, codec.wire(type), requirement, level, {"op": op, "type": type}, expect, data, checked_fields=about
    )


def summary(verdict):
    """Return kind, level and requirement; the last two only if they differ from the case's."""
    return str(verdict.kind), verdict.level, verdict.requirement


READS = ExpectValue(63, 1)
REFUSES = ExpectRejection()
CORRUPT = ExpectRejection("corrupt", "corrupt")
ANY = ExpectAnyOf()
OPEN = ExpectAnyOf((ExpectRejection(), ExpectValue(0, 2)))
VALUES = ExpectAnyOf((ExpectValue(0, 2), ExpectValue(5, 2)))
WRITES = ExpectBytes(b"\x7e")
SIZE = ExpectSize(1)
AS = ExpectEquivalentBytes({name: value for name, value in BATCH.items() if name not in FREE})

TABLE = [
    # expectation, outcome, verdict
    (READS, Accepted({"value": 63, "consumed": 1}), ("pass", "", "")),
    (READS, Accepted({"value": 63}), ("pass", "", "")),
    (READS, Accepted({"value": 62, "consumed": 1}), ("fail", "", "")),
    (READS, Accepted({"value": 63, "consumed": 2}), ("fail", "", "")),
    (READS, Accepted({"consumed": 1}), ("skip", "", "")),
    (READS, Accepted({"consumed": 2}), ("fail", "", "")),
    (READS, Accepted({}), ("skip", "", "")),
    (READS, Rejected("malformed"), ("fail", "", "")),
    (READS, Rejected("other", "why"), ("fail", "", "")),
    (REFUSES, Rejected("malformed"), ("pass", "", "")),
    (REFUSES, Rejected("other"), ("pass", "", "")),
    (REFUSES, Accepted({"value": 63}), ("fail", "", "")),
    (REFUSES, Accepted({}), ("fail", "", "")),
    (CORRUPT, Rejected("corrupt"), ("pass", "", "")),
    (CORRUPT, Rejected("malformed"), ("fail", "should", "")),
    (CORRUPT, Accepted({"value": 63}), ("fail", "", "")),
    (ANY, Rejected("other"), ("either", "", "")),
    (ANY, Accepted({"value": 63, "consumed": 1}), ("either", "", "")),
    (ANY, Accepted({}), ("either", "", "")),
    (OPEN, Rejected("malformed"), ("either", "", "")),
    (OPEN, Accepted({"value": 0, "consumed": 2}), ("either", "", "")),
    (OPEN, Accepted({"value": 0}), ("either", "", "")),
    (OPEN, Accepted({"value": 0, "consumed": 1}), ("fail", "", "")),
    (OPEN, Accepted({"value": 1, "consumed": 2}), ("fail", "", "")),
    (OPEN, Accepted({"consumed": 2}), ("skip", "", "")),
    (OPEN, Accepted({"consumed": 1}), ("fail", "", "")),
    (VALUES, Accepted({"value": 5, "consumed": 2}), ("either", "", "")),
    (VALUES, Rejected("malformed"), ("fail", "", "")),
    (ExpectAnyOf((ExpectValue(UNSHOWN, 2),)), Accepted({"value": 9, "consumed": 2}), ("either", "", "")),
    (ExpectAnyOf((ExpectValue(UNSHOWN, 2),)), Accepted({"value": 9, "consumed": 3}), ("fail", "", "")),
    (WRITES, Accepted({"hex": "7e"}), ("pass", "", "")),
    (WRITES, Accepted({"hex": "7E"}), ("pass", "", "")),
    (WRITES, Accepted({"hex": "fe00"}), ("fail", "", "")),
    (WRITES, Accepted({"hex": ""}), ("fail", "", "")),
    (WRITES, Rejected("invalid-value"), ("fail", "", "")),
    (SIZE, Accepted({"size": 1}), ("pass", "", "")),
    (SIZE, Accepted({"size": 2}), ("fail", "", "")),
    (SIZE, Accepted({"size": -1}), ("fail", "", "")),
    (SIZE, Rejected("invalid-value"), ("fail", "", "")),
]
SHAPES = [
    (READS, {"value": "63"}),
    (READS, {"value": None}),
    (READS, {"value": 63.0}),
    (READS, {"value": 63, "consumed": "1"}),
    (READS, {"value": 63, "consumed": True}),
    (READS, {"value": 63, "consumed": None}),
    (REFUSES, {"value": "63"}),
    (ANY, {"value": []}),
    (OPEN, {"value": {}}),
    (WRITES, {}),
    (WRITES, {"hex": None}),
    (WRITES, {"hex": "7"}),
    (WRITES, {"hex": "zz"}),
    (SIZE, {}),
    (SIZE, {"size": "1"}),
    (SIZE, {"size": True}),
]
ALL = [READS, REFUSES, CORRUPT, ANY, OPEN, VALUES, WRITES, SIZE, AS]


@pytest.mark.parametrize(("expect", "outcome", "verdict"), TABLE)
def test_each_answer_has_the_verdict_of_the_table(expect, outcome, verdict):
    assert summary(judge(case(expect), outcome)) == verdict


def test_a_wrong_value_of_unspecified_bytes_is_compared_with_the_only_accepted_value():
    found = judge(case(OPEN), Accepted({"value": 0, "consumed": 1}))
    assert found.detail.endswith("gives this value: 1 bytes consumed instead of 2")
    assert found.path == "consumed"
    assert judge(case(VALUES), Accepted({"value": 1})).detail.endswith("gives this value")


@pytest.mark.parametrize("level", ["should", "may", "informative"])
def test_the_level_is_that_of_the_requirement_unless_only_the_error_class_is_wrong(level):
    assert summary(judge(case(READS, level=level), Accepted({"value": 1}))) == ("fail", "", "")
    assert summary(judge(case(CORRUPT, level=level), Rejected("other"))) == ("fail", "should", "")


@pytest.mark.parametrize(("expect", "answer"), SHAPES)
def test_an_answer_of_the_wrong_form_is_a_protocol_fault(expect, answer):
    verdict = judge(case(expect), Accepted(answer))
    assert summary(verdict) == ("protocol", "", "")
    assert "VARINT" in verdict.detail


@pytest.mark.parametrize("expect", ALL)
def test_unsupported_is_always_a_skip_with_its_reason(expect):
    verdict = judge(case(expect), Unsupported("no such type"))
    assert summary(verdict) == ("skip", "", "")
    assert "no such type" in verdict.detail


@pytest.mark.parametrize("expect", ALL)
@pytest.mark.parametrize("how", ["crash", "timeout"])
def test_a_crash_or_timeout_counts_at_must_for_every_expectation(expect, how):
    verdict = judge(case(expect, level="may"), NoAnswer(how, "gone", flaky=True))
    assert summary(verdict) == (how, "must", "")
    assert (verdict.detail, verdict.flaky) == ("gone", True)


def test_a_protocol_fault_keeps_the_level_of_the_case():
    assert summary(judge(case(READS, level="should"), NoAnswer("protocol", "no JSON"))) == ("protocol", "should", "")


@pytest.mark.parametrize(
    ("type", "requirement", "rule"),
    [
        ("RECORD_BATCH", "batch.crc", "memory.in-proportion"),
        ("ARRAY<STRING>", "array.layout", "memory.array-count-bounded"),
        ("COMPACT_NULLABLE_STRING", "string.layout", "memory.string-length-bounded"),
        ("BYTES", "memory.array-count-bounded", "memory.array-count-bounded"),
    ],
)
def test_excessive_memory_fails_the_memory_considerations_at_should(type, requirement, rule, catalog):
    verdict = judge(case(READS, type=type, requirement=requirement), NoAnswer("memory", "2 GiB"))
    assert summary(verdict) == ("fail", "should", rule)
    assert catalog.requirements[rule].level == "should"


def test_excessive_memory_for_a_batch_is_disputed_only_if_apache_kafka_runs_out_of_memory(catalog):
    for name, disputed in {
        "robustness/batch-zstd-frame-of-2-gib": False,
        "snappy/xerial-block-length-max": True,
    }.items():
        verdict = judge(catalog.cases[name], NoAnswer("memory", "2 GiB"))
        assert ("fail" in catalog.requirements[verdict.requirement].disputed("decode")) == disputed, name


CUT = case(ExpectRejection(), type="STRING", requirement="string.truncated-rejected", level="must")


@pytest.mark.parametrize("how", ["memory", "slow"])
def test_a_wrong_answer_at_must_is_more_serious_than_its_cost(how):
    accepted = Accepted({"ok": True, "value": "", "consumed": 2})
    dear = NoAnswer(how, "2 GiB", answered=accepted)
    assert more_serious(CUT, dear) is accepted
    for lenient in (replace(CUT, level="should"), replace(CUT, disputed=frozenset({"fail"}))):
        assert more_serious(lenient, dear) is dear
    right = replace(dear, answered=Rejected("malformed"))
    assert more_serious(CUT, right) is right
    no_text = replace(dear, answered=Accepted({"ok": True, "value": 5, "consumed": 2}))
    assert more_serious(replace(CUT, expect=READS), no_text) is no_text.answered


def test_memory_exhausted_by_a_small_request_fails_robustness_at_must(catalog):
    hog = NoAnswer("memory", "1024 MiB", unprovoked=True)
    for requirement in ("batch.crc", "memory.array-count-bounded"):
        verdict = judge(case(READS, type="RECORD_BATCH", requirement=requirement, level="should"), hog)
        assert summary(verdict) == ("fail", "must", "robustness.answers")
    assert catalog.requirements["robustness.answers"].disputed("decode") == frozenset()


def test_exhausted_memory_stays_disputed_if_apache_kafka_runs_out_of_memory(catalog):
    hard = catalog.cases["compression/gzip-record-length-max"]
    assert "crash" in hard.disputed
    verdict = judge(hard, NoAnswer("memory", "1024 MiB", unprovoked=True))
    assert summary(verdict) == ("fail", "should", "memory.message-size-limit")


# --- batches ------------------------------------------------------------------------------------------


def batch_case(*about, expect=None, level="must"):
    expect = expect or ExpectValue(BATCH, len(PLAIN))
    return case(expect, type="RECORD_BATCH", about=about, data=PLAIN, requirement="batch.crc", level=level)


def shown(**changes):
    return {**SHOWN, **changes}


def without(*names):
    return {name: value for name, value in SHOWN.items() if name not in names}


def records(**changes):
    """Return all records as shown, with the last one changed."""
    *rest, last = SHOWN["records"]
    return [*rest, {**last, **changes}]


def test_missing_fields_are_unobserved_and_shown_fields_are_judged():
    verdict = judge(batch_case("crc"), Accepted({"value": without("baseSequence", "records"), "consumed": 88}))
    assert summary(verdict) == ("pass", "", "")
    assert verdict.unobserved == ("baseSequence", "records")
    verdict = judge(batch_case("crc"), Accepted({"value": shown(magic=3), "consumed": 88}))
    assert verdict.kind is VerdictKind.FAIL


KEYLESS = [{name: value for name, value in record.items() if name != "key"} for record in SHOWN["records"]]


@pytest.mark.parametrize(
    ("about", "answer"),
    [
        ("crc", without("crc")),
        ("crc", {}),
        ("records.key", without("records")),
        ("records.key", shown(records=KEYLESS)),
        ("records.key", shown(records=[*SHOWN["records"][:2], KEYLESS[2]])),
        ("records.headers.key", without("records")),
    ],
)
def test_a_case_is_skipped_if_its_field_is_not_shown(about, answer):
    verdict = judge(batch_case(about), Accepted({"value": answer, "consumed": 88}))
    assert summary(verdict) == ("skip", "", "")
    assert verdict.detail == f"unobserved: {about}"


def test_a_wrong_field_fails_even_if_the_field_of_the_case_is_not_shown():
    verdict = judge(batch_case("crc"), Accepted({"value": {"magic": 1}, "consumed": 88}))
    assert summary(verdict) == ("fail", "", "batch.magic")


@pytest.mark.parametrize("expect", [READS, ANY, OPEN, ExpectAnyOf((ExpectValue(0, None),)), ExpectValue(0, None)])
@pytest.mark.parametrize("consumed", [-1, -2147483644, 5])
def test_an_impossible_number_of_consumed_bytes_fails(expect, consumed):
    verdict = judge(case(expect), Accepted({"value": 63 if expect is READS else 0, "consumed": consumed}))
    assert summary(verdict) == ("fail", "", "")
    assert str(consumed) in verdict.detail


def test_an_impossible_number_of_consumed_bytes_is_reported_at_consumed():
    verdict = judge(case(ANY), Accepted({"value": 0, "consumed": -2147483644}))
    assert (verdict.path, verdict.detail) == ("consumed", "-2147483644 bytes consumed, but the input has 1")


def test_a_case_about_consumed_is_skipped_without_it():
    assert summary(judge(batch_case("consumed"), Accepted({"value": SHOWN}))) == ("skip", "", "")
    assert summary(judge(batch_case("consumed"), Accepted({"value": SHOWN, "consumed": 88}))) == ("pass", "", "")
    assert summary(judge(batch_case("consumed"), Accepted({"consumed": 88}))) == ("pass", "", "")
    assert summary(judge(batch_case("consumed"), Accepted({"consumed": 87}))) == ("fail", "", "")


def test_an_empty_object_is_skipped():
    for empty in ({}, {"records": [{}, {}, {}]}):
        assert judge(batch_case(), Accepted({"value": empty, "consumed": 88})).kind is VerdictKind.SKIP


@pytest.mark.parametrize(
    ("change", "path", "rule"),
    [
        ({"crc": 5}, "crc", "batch.crc"),
        ({"producerId": "7"}, "producerId", "batch.producer-id"),
        ({"compression": "gzip"}, "compression", "attributes.compression-bits"),
        ({"isControlBatch": True}, "isControlBatch", "attributes.control-bit"),
        ({"timestampType": 8}, "timestampType", "attributes.timestamp-type-bit"),
        ({"records": SHOWN["records"][:2]}, "records[2]", "batch.record-count"),
        ({"records": records(offset="9")}, "records[2].offset", "offset.record-formula"),
        ({"records": records(timestamp="9")}, "records[2].timestamp", "timestamp.record-formula"),
        ({"records": records(key=None)}, "records[2].key", "record.key-length"),
        ({"records": records(headers=[{}])}, "records[2].headers[0]", "record.headers-follow-count"),
    ],
)
def test_a_difference_in_another_field_is_attributed_to_its_requirement(change, path, rule, catalog):
    verdict = judge(batch_case("magic"), Accepted({"value": shown(**change), "consumed": 88}))
    assert summary(verdict) == ("fail", "", rule)
    assert verdict.path == path
    assert rule in catalog.requirements
    about = path.replace("[2]", "").replace("[0]", "")
    verdict = judge(batch_case(about), Accepted({"value": shown(**change), "consumed": 88}))
    assert summary(verdict) == ("fail", "", "")


def test_the_difference_in_the_field_of_the_case_is_reported_first():
    verdict = judge(batch_case("producerId"), Accepted({"value": shown(magic=1, crc=1, producerId="7")}))
    assert (verdict.path, verdict.requirement) == ("producerId", "")
    assert "2 further" in verdict.detail


def test_a_field_of_the_wrong_form_is_a_protocol_fault():
    for wrong in ({"records": None}, {"records": [5]}, {"crc": "5"}, {"compression": "lzma"}, {"producerId": 1.5}):
        assert judge(batch_case("magic"), Accepted({"value": shown(**wrong)})).kind is VerdictKind.PROTOCOL


def test_unknown_field_names_are_ignored():
    assert judge(batch_case("magic"), Accepted({"value": shown(extra=5), "consumed": 88})).kind is VerdictKind.PASS


# --- written batches ----------------------------------------------------------------------------------


def sealed(data):
    return data[:17] + struct.pack(">I", CRC32C.compute(data[21:])) + data[21:]


def written(data, expect=AS):
    return judge(case(expect, type="RECORD_BATCH", data=PLAIN, requirement="batch.crc"), Accepted({"hex": data.hex()}))


def test_bytes_outside_the_compared_range_may_differ():
    other = PLAIN[:12] + b"\0\0\0\x4d" + PLAIN[16:]
    assert written(other, ExpectBytes(PLAIN, (12, 16))).kind is VerdictKind.PASS
    assert written(other, ExpectBytes(PLAIN)).kind is VerdictKind.FAIL
    assert written(PLAIN[:12] + PLAIN[16:], ExpectBytes(PLAIN, (12, 16))).kind is VerdictKind.FAIL


def test_a_compressed_batch_is_judged_by_its_decoded_content():
    packed = codec.encode("RECORD_BATCH", {**BATCH, "compression": 1})
    expect = ExpectEquivalentBytes({**AS.value, "compression": 1})
    assert written(packed, expect).kind is VerdictKind.PASS
    verdict = written(codec.encode("RECORD_BATCH", {**BATCH, "compression": 1, "producerId": 7}), expect)
    assert summary(verdict) == ("fail", "", "batch.producer-id")
    assert written(packed, AS).requirement == "attributes.compression-bits"


def test_a_wrong_message_set_is_compared_with_the_expected_messages():
    message = {"offset": 0, "magic": 0, "key": b"k", "value": b"v"}
    data, other = (codec.encode("MESSAGE_SET", ({**message, "value": value},)) for value in (b"v", b"w"))
    encode = case(ExpectBytes(data), type="MESSAGE_SET", op="encode", data=data)
    assert judge(encode, Accepted({"hex": data.hex()})).kind is VerdictKind.PASS
    verdict = judge(encode, Accepted({"hex": other.hex()}))
    assert (verdict.kind, verdict.path) == (VerdictKind.FAIL, "[0].value")


def test_unreadable_written_bytes_fail_under_the_violated_rule():
    for expect in (AS, ExpectBytes(PLAIN)):
        assert summary(written(PLAIN[:17] + bytes(4) + PLAIN[21:], expect)) == ("fail", "", "crc.mismatch-corrupt")
        assert summary(written(sealed(PLAIN + b"\0"), expect))[0] == "fail"
        assert summary(written(b"", expect))[0] == "fail"


def test_bytes_after_the_written_value_fail():
    assert written(PLAIN + b"\0", AS).kind is VerdictKind.FAIL
    assert written(PLAIN + b"\0", ExpectBytes(PLAIN)).kind is VerdictKind.FAIL


def test_the_first_differing_byte_of_a_plain_type_is_named():
    verdict = judge(case(ExpectBytes(b"\x80\x01"), data=b"\x80\x01"), Accepted({"hex": "8002"}))
    assert (verdict.kind, verdict.path) == (VerdictKind.FAIL, "@1")
    assert "cannot be decoded" in judge(case(ExpectBytes(b"\x80\x01")), Accepted({"hex": "80"})).detail


# --- written message sets -----------------------------------------------------------------------------

MESSAGES = tuple({"offset": at, "timestamp": 1000 + at, "key": None, "value": b"v" * 400} for at in range(3))
PLAIN_SET = codec.encode("MESSAGE_SET", MESSAGES, magic=1)
WRAPPED = codec.encode("MESSAGE_SET", MESSAGES, magic=1, compression=1)
AS_LOG = ExpectEquivalentBytes(codec.decode("LOG", WRAPPED).value, "LOG")


def judged_set(expect, data):
    return judge(case(expect, type="MESSAGE_SET"), Accepted({"hex": data.hex()}))


def changed(magic, **fields):
    """Return the set in a wrapper with changed fields."""
    return write(LAYOUTS[magic], {**entry_of(MESSAGES, magic, 1), **fields})


def test_an_uncompressed_set_is_judged_by_its_bytes_and_reported_by_its_values():
    assert judged_set(ExpectBytes(PLAIN_SET), PLAIN_SET).kind is VerdictKind.PASS
    other = codec.encode("MESSAGE_SET", ({**MESSAGES[0], "key": b"k"}, *MESSAGES[1:]), magic=1)
    verdict = judged_set(ExpectBytes(PLAIN_SET), other)
    assert (verdict.kind, verdict.path) == (VerdictKind.FAIL, "[0].key")
    assert judged_set(ExpectBytes(PLAIN_SET), WRAPPED).kind is VerdictKind.FAIL
    assert judged_set(ExpectBytes(PLAIN_SET), b"\0" * 30).kind is VerdictKind.FAIL


def test_a_compressed_set_is_judged_by_its_decoded_messages():
    assert judged_set(AS_LOG, WRAPPED).kind is VerdictKind.PASS
    for other in (PLAIN_SET, WRAPPED + WRAPPED, changed(0), WRAPPED[:-3]):
        verdict = judged_set(AS_LOG, other)
        assert (verdict.kind, verdict.level) == (VerdictKind.FAIL, ""), other.hex()


def test_duties_of_only_the_writer_of_a_wrapper_are_judged_at_should():
    keyed, from_zero = changed(1, key=b"k"), changed(1, offset=0)
    assert (judged_set(AS_LOG, keyed).level, judged_set(AS_LOG, keyed).requirement) == (
        "should",
        "recursive.wrapper-key-null",
    )
    assert judged_set(AS_LOG, from_zero).level == "should"
