"""Causes of failures: equal for one defect, different for several."""

from functools import partial

import pytest

from conformance import codec
from conformance.cases.model import Accepted, NoAnswer, Rejected, VerdictKind
from conformance.catalog.case_builder import ad_hoc_case
from conformance.judging.failure_causes import cause_of, normalised
from conformance.judging.judge import judge
from conformance.targets import reference


@pytest.fixture
def cause(catalog):
    """Return a function from a case and an outcome to the text of the cause; bytes of a type are a case too."""

    def of(case, outcome):
        if not isinstance(case, str):
            name, digits = case
            case = ad_hoc_case("decode", codec.wire(name), {"hex": digits}, catalog)
        else:
            case = catalog.cases[case]
        outcome = outcome(case) if callable(outcome) else outcome
        verdict = judge(case, outcome)
        assert verdict.kind in (VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT), verdict
        return cause_of(case, outcome, verdict).text

    return of


def answering(change):
    """Return a function from a case to the changed answer of the reference."""
    return lambda case: Accepted(change(reference.answer(case.request)))


def with_value(value, consumed):
    return Accepted({"ok": True, "value": value, "consumed": consumed})


def on_seconds(answer):
    """Return the answer with timestamps cut to whole seconds."""
    value = answer["value"]
    cut = [{**one, "timestamp": str(int(one["timestamp"]) // 1000 * 1000)} for one in value["records"]]
    return {**answer, "value": {**value, "records": cut}}


# --- texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("year 287428 is out of range", "year -292275023 is out of range"),
        ("bad magic 0x7f", "bad magic 0xff"),
        ("no field 'a' in 'b'", "no field 'count' in 'x y'"),
        ('unknown codec "zip"', 'unknown codec "rar"'),
        ("digest deadbeef01 at 3", "digest 00c0ffee99 at 17"),
        ("crc32 checksum 1a", "crc32 checksum 7"),
        ("datetime(1969, 12, 31, 23)", "datetime(1932, 1, 3)"),
        ("cut  off\nat 3", "cut off at 12.5"),
    ],
)
def test_messages_that_differ_in_numbers_hex_and_quoted_values_are_equal(text, same):
    assert normalised(text) == normalised(same)


def test_messages_with_other_words_differ_and_names_keep_their_digits():
    assert normalised("year 1 is out of range") != normalised("day 1 is out of range")
    assert normalised("LZ4 is not supported") == "LZ4 is not supported"
    assert normalised("crc32 is 7") == "crc32 is #"
    assert normalised("it can't be 'x' as it isn't known") == "it can't be # as it isn't known"


# --- rejections, crashes, acceptances -----------------------------------------------------------------


def test_one_error_message_is_one_cause_for_every_request(cause):
    rejections = [Rejected("malformed", f"year {year} is out of range") for year in (287428, -5)]
    assert cause("batch/all-fields-distinct", rejections[0]) == cause("record/plain", rejections[1])
    assert cause("record/plain", rejections[0]) == "rejected: year # is out of range"
    assert cause("record/plain", Rejected("malformed", "no such field")) != cause("record/plain", rejections[0])


def test_the_cause_of_a_crash_is_its_text_and_the_structure_of_the_input(cause):
    text = "struct.error: unpack requires a buffer of 4 bytes"
    at_text = cause(("STRING", "0005"), NoAnswer("crash", text))
    assert at_text == cause(("BYTES", "0000"), NoAnswer("crash", text.replace("4", "9")))
    assert at_text != cause(("CONTROL_RECORD", "0000"), NoAnswer("crash", text))
    assert at_text != cause(("STRING", "0005"), NoAnswer("timeout", "no answer within 5 s"))


def test_the_cause_of_accepted_invalid_bytes_is_the_violated_rule(cause):
    accepted = Accepted({"ok": True})
    assert cause(("STRING", "ffff"), accepted) == "invalid input accepted: string.null-rejected"
    assert cause(("ARRAY<STRING>", "00000001ffff"), accepted) == cause(("STRING", "ffff"), accepted)
    assert cause(("STRING", "fffe"), accepted) != cause(("STRING", "ffff"), accepted)


def test_consuming_more_bytes_than_the_input_is_accepting_truncated_input(cause):
    beyond = Accepted({"ok": True, "value": "", "consumed": 6803230696})
    assert cause(("COMPACT_BYTES", "e49f84ac19"), beyond) == "invalid input accepted: bytes.truncated-rejected"


@pytest.mark.parametrize(
    ("case", "written", "rule"),
    [
        ("metadata/v0-null-topics", "ffffffff", "definitions.null-in-non-nullable"),
        ("record/attributes-one-unwritable", "10010000026b027600", "record.attributes-zero"),
        ("message/null-in-non-nullable-bytes", "0000", "definitions.null-in-non-nullable"),
    ],
)
def test_the_cause_of_an_encoded_invalid_value_is_the_violated_rule(case, written, rule, cause):
    assert cause(case, Accepted({"hex": written})) == f"invalid input accepted: {rule}"


def test_a_varint_inside_a_record_is_another_place_than_the_type_varint(cause):
    accepted = Accepted({"ok": True})
    alone = cause(("VARINT", "808080808000"), accepted)
    assert alone.endswith("varint.max-five-bytes")
    assert cause(("RECORD", "1c" + "00" + "00" + "808080808000" + "01" * 8), accepted) == f"{alone} in RECORD"


# --- values -------------------------------------------------------------------------------------------


def test_a_record_field_is_one_place_in_a_record_a_batch_a_log_and_a_read(cause):
    def dropping(answer):
        value = answer["value"]
        records = value.get("records") or [
            one for batch in value.get("batches", ()) for one in batch.get("records", ())
        ]
        for one in [*records, *([value] if "headers" in value else [])]:
            one["value"] = None
        return answer

    wrong = [
        cause(case, answering(dropping)) for case in ("record/plain", "batch/three-records", "batch/three-records:read")
    ]
    assert set(wrong) == {"null: RECORD.value"}


def test_timestamps_cut_to_seconds_are_one_cause_under_every_requirement(cause, catalog):
    names = ("batch/all-fields-distinct", "batch/base-timestamp-milliseconds", "timestamp/create-time-negative-delta")
    names = [name for name in names if name in catalog.cases]
    assert len({catalog.cases[name].requirement for name in names}) > 1
    assert {cause(name, answering(on_seconds)) for name in names} == {"cut to whole seconds: RECORD.timestamp"}


def test_a_wrong_timestamp_type_is_not_a_cut_timestamp(cause):
    def created(answer):
        answer["value"]["timestampType"] = "CreateTime"
        return answer

    assert cause("attributes/log-append-time", answering(created)) == "another value: RECORD_BATCH.timestampType"


def in_a_map(answer, *, keeps=-1):
    """Return the answer with the headers of each record put into a map: it keeps the last of each key, or the first."""
    value = answer["value"]
    for record in value["records"]:
        found = {}
        for header in record["headers"][:: 1 if keeps else -1]:
            found[header["key"]] = header
        record["headers"] = list(found.values())
    return answer


@pytest.mark.parametrize("keeps", [-1, 0], ids=["the last", "the first"])
def test_headers_in_a_map_are_one_cause_for_every_requirement(cause, catalog, keeps):
    names = (
        *("batch/record-header-duplicate-keys", "batch/record-header-duplicate-keys:read"),
        *(
            "batch/records-with-and-without-headers",
            "compression/zstd-recompressed",
            "compression/zstd-recompressed:read",
        ),
    )
    assert len({catalog.cases[name].requirement for name in names}) > 2
    found = {name: cause(name, answering(partial(in_a_map, keeps=keeps))) for name in names}
    assert set(found.values()) == {"missing: HEADER with a repeated key"}
    case = catalog.cases["compression/zstd-recompressed"]
    assert judge(case, answering(in_a_map)(case)).requirement == "header.duplicate-keys-kept"


def test_another_difference_is_reported_before_headers_in_a_map(cause):
    def both(answer):
        in_a_map(answer)["value"]["records"][-1]["key"] = None
        return answer

    for name in ("compression/zstd-recompressed", "compression/zstd-recompressed:read"):
        assert cause(name, answering(both)) == "null: RECORD.key"


def test_a_missing_header_and_a_missing_record_are_different_causes(cause):
    def without_a_header(answer):
        answer["value"]["records"][0]["headers"].pop()
        return answer

    def without_a_record(answer):
        answer["value"]["records"].pop()
        return answer

    name = "batch/record-header-keys-that-objects-have"
    assert cause(name, answering(without_a_header)) == "missing: HEADER"
    assert cause(name, answering(without_a_record)) == "missing: RECORD"


@pytest.mark.parametrize(
    ("name", "digits", "value", "expected"),
    [
        ("INT32", "00000005", 6, "off by 1: INT32"),
        ("UINT32", "ffffffff", -1, "off by a multiple of 2^32: UINT32"),
        ("INT32", "00000005", 50, "another value: INT32"),
        ("NULLABLE_STRING", "ffff", "", "empty instead of null: NULLABLE_STRING"),
        ("NULLABLE_STRING", "0000", None, "null instead of empty: NULLABLE_STRING"),
        ("STRING", "00026162", "a", "cut short: STRING"),
        ("ARRAY<STRING>", "0000000100026162", ["a"], "cut short: STRING"),
        ("ARRAY<INT8>", "000000020102", [1], "missing: ARRAY"),
        ("TAGGED_FIELDS", "01050161", [{"tag": 6, "data": "61"}], "off by 1: TAGGED_FIELDS.tag"),
    ],
)
def test_the_cause_of_a_wrong_value_is_its_field_and_the_kind_of_difference(cause, name, digits, value, expected):
    assert cause((name, digits), with_value(value, len(digits) // 2)) == expected


def test_a_wrong_number_of_consumed_bytes_is_a_separate_cause(cause):
    assert cause(("STRING", "000161"), with_value("a", 2)) == "wrong number of bytes consumed: STRING"


def test_all_wrong_interpretations_of_unspecified_bytes_are_one_cause(cause):
    place = "no accepted interpretation: varint.fifth-byte-excess-bits"
    assert cause(("VARINT", "8080808010"), with_value(1, 5)) == place
    assert cause(("VARINT", "8080808070"), with_value(-(1 << 34), 5)) == place


def test_the_cause_of_wrong_bytes_is_their_field(cause):
    written = cause("varint/minus-1:encode", Accepted({"ok": True, "hex": "02"}))
    assert written == "wrong bytes written: VARINT"
    tagged = cause("tagged-fields/one:encode", Accepted({"ok": True, "hex": "01000261"}))
    assert tagged == "wrong bytes written: TAGGED_FIELDS.size"


def test_the_cause_of_an_unreadable_converted_log_is_the_violated_rule(cause):
    damaged = answering(lambda answer: {**answer, "hex": f"{answer['hex'][:-2]}00"})
    assert cause("convert/v2-to-v1", damaged) == "written bytes break the format: legacy.crc-checked"


def test_every_failure_has_a_cause(catalog):
    broken = [Accepted({"ok": True, "hex": "00"}), Rejected("other"), NoAnswer("memory", "x"), Accepted({"ok": True})]
    for case in catalog.cases.values():
        for outcome in broken:
            verdict = judge(case, outcome)
            cause = cause_of(case, outcome, verdict)
            assert cause.wrong
            assert cause.place
            assert hash(cause) == hash(cause_of(case, outcome, verdict))
