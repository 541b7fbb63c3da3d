"""A wrong field is attributed to the unspecified bytes that explain it, otherwise to its own requirement."""

import pytest

from conformance import codec
from conformance.cases.model import Accepted, VerdictKind
from conformance.catalog.case_builder import ad_hoc_case, log_case
from conformance.catalog.vector_formatter import recomputed
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.judging.failure_causes import cause_of
from conformance.judging.judge import judge
from conformance.targets import reference

LOWEST_BASE_OFFSET = (
    "8000000000000000000000380000000002d3f8b32e00000000000000000e235a4d228100000e235a4d2281"
    "0000000000000000000000000000000000010c000000000000"
)
"""A batch of one record with the timestamp 15545001648769; its baseOffset of -2^63 is unspecified."""
SIZE_BELOW_NULL = "0000000000000001000000174a4ef2a7012800ffffffffffffffffffffffff00000000"
"""A message of magic 1 with undefined attribute bits and a value length of -256; both are unspecified."""
EXCESS_BITS = (
    "00000000000000000000003effffffff02c5a23da500000000000000000000000003e800000000000003e8"
    "ffffffffffffffffffffffffffff000000011800008080808010026b027600"
)
"""A batch of one record with the offsetDelta 8080808010: 0 without the excess bit, 2147483648 with it."""


BELOW_THE_RECORD = (
    "000000000000000000000038ffffffff0270d53dc200000000000000000000000003e800000000000003e8"
    "ffffffffffffffffffffffffffff000000010c000002010100"
)
"""A batch of one record with the timestamp 1000 and the offsetDelta 1; its lastOffsetDelta of 0 is unspecified."""


def decoded(name, digits, catalog):
    return ad_hoc_case("decode", codec.wire(name), {"hex": digits}, catalog)


def judged(case, change):
    """Return the requirement and the cause of the verdict on the changed answer of the reference."""
    outcome = Accepted(change(reference.answer(case.request)))
    verdict = judge(case, outcome)
    assert verdict.kind is VerdictKind.FAIL
    return verdict.requirement or case.requirement, cause_of(case, outcome, verdict).text


def on_seconds(answer):
    [record] = answer["value"]["records"]
    record["timestamp"] = str(int(record["timestamp"]) // 1000 * 1000)
    return answer


def test_an_unspecified_offset_does_not_explain_a_wrong_timestamp(catalog):
    case = decoded("RECORD_BATCH", LOWEST_BASE_OFFSET, catalog)
    assert case.requirement == "batch.base-offset"
    assert judged(case, on_seconds) == ("timestamp.record-formula", "cut to whole seconds: RECORD.timestamp")


def test_an_unspecified_offset_explains_another_offset(catalog):
    case = decoded("RECORD_BATCH", LOWEST_BASE_OFFSET, catalog)

    def other(answer):
        return {**answer, "value": {**answer["value"], "baseOffset": "0"}}

    assert judged(case, other) == ("batch.base-offset", "no accepted interpretation: batch.base-offset")


OVERWRITTEN = "timestamp.log-append-overwritten"
ELSEWHERE = {
    "covering/marker/144": (None, "control.key-layout", OVERWRITTEN),
    "covering/marker/168": (None, "non-idempotent.producer-id", OVERWRITTEN),
    "covering/marker/172": (None, "control.single-record", OVERWRITTEN),
    "below the record": (BELOW_THE_RECORD, "batch.last-offset-delta", "timestamp.record-formula"),
}
"""Bytes, the requirement of their unspecified field, and the requirement of the timestamp."""


@pytest.mark.parametrize("name", ELSEWHERE)
def test_unspecified_keys_offsets_and_producers_explain_no_wrong_timestamp(name, catalog):
    digits, open_rule, expected_rule = ELSEWHERE[name]
    case = catalog.cases[name] if digits is None else decoded("RECORD_BATCH", digits, catalog)
    assert case.requirement == open_rule

    def later(answer):
        for record in answer["value"]["records"]:
            record["timestamp"] = str(int(record["timestamp"]) + 1)
        return answer

    assert judged(case, later) == (expected_rule, "off by 1: RECORD.timestamp")


def test_an_unspecified_key_of_a_control_record_explains_another_key(catalog):
    case = catalog.cases["covering/marker/144"]

    def without(answer):
        return {**answer, "value": {**answer["value"], "records": [{**answer["value"]["records"][0], "key": None}]}}

    assert judged(case, without) == ("control.key-layout", "no accepted interpretation: control.key-layout")


def test_of_two_unspecified_fields_only_the_wrong_one_explains_the_failure(catalog):
    case = decoded("MESSAGE_SET", SIZE_BELOW_NULL, catalog)
    assert case.requirement == "legacy.attributes-high-bits-zero"

    def empty(answer):
        return {**answer, "value": [{**answer["value"][0], "value": ""}]}

    assert judged(case, empty) == ("legacy.value-nullable", "no accepted interpretation: legacy.value-nullable")


@pytest.mark.parametrize("question", ["decode", "read"])
def test_a_read_of_unspecified_bytes_is_judged_like_a_decode(question, catalog):
    case = decoded("RECORD_BATCH", EXCESS_BITS, catalog)
    if question == "read":
        parts = {"hex": EXCESS_BITS, "isolation": "read_committed", "fetchOffset": "0", "highWatermark": "9"}
        case = log_case("gen/x", "read", {**parts, "aborted": []}, catalog)

    def kept(answer):
        answer["value"]["records"][0]["offset"] = "2147483648"
        return answer

    rule = "varint.fifth-byte-excess-bits"
    assert judged(case, kept) == (rule, f"no accepted interpretation: {rule} in RECORD")


SECOND_KEY_LENGTH = (
    "0000000000000000 00000000 ffffffff 02 00000000 0000 00000001 00000000000003e8 00000000000003e8"
    "ffffffffffffffff ffff ffffffff 00000002"
    "0c 00 00 00 01 01 00"
    "0e 00 00 02 8100 01 00"
)
"""Two records; the length of the second key, -1, has a padded varint, which is unspecified."""


@pytest.mark.parametrize("at", [0, 1])
def test_an_unspecified_field_explains_no_failure_in_earlier_records(catalog, at):
    digits = recomputed(bytes.fromhex(SECOND_KEY_LENGTH), ["batchLength", "crc"]).hex()
    case = decoded("RECORD_BATCH", digits, catalog)
    assert case.requirement == "varint.non-minimal"

    def at_the_epoch(answer):
        answer["value"]["records"][at]["timestamp"] = "1"
        return answer

    assert (
        judged(case, at_the_epoch)
        == [
            ("timestamp.record-formula", "another value: RECORD.timestamp"),
            ("varint.non-minimal", "no accepted interpretation: varint.non-minimal in RECORD"),
        ][at]
    )


def test_reserved_attribute_bits_explain_no_wrong_timestamp(catalog):
    def at_the_epoch(answer):
        answer["value"]["records"][0]["timestamp"] = "1"
        return answer

    case = decoded("RECORD_BATCH", catalog.cases["attributes/bit-7"].data.hex(), catalog)
    assert case.requirement == "attributes.reserved-bits"
    assert judged(case, at_the_epoch) == ("timestamp.record-formula", "another value: RECORD.timestamp")


def test_an_unspecified_field_at_the_end_of_a_message_explains_no_earlier_field(catalog):
    wire = shipped_types().wire(type_name("HeartbeatResponse", 4))
    case = ad_hoc_case("decode", wire, {"hex": "0000000000058000"}, catalog)
    assert (case.requirement, case.level) == ("uvarint.non-minimal", "may")

    def swapped(answer):
        return {**answer, "value": {**answer["value"], "ThrottleTimeMs": 5, "ErrorCode": 0}}

    assert judged(case, swapped) == (
        "definitions.field-order-is-wire-order",
        "another value: HeartbeatResponse.ThrottleTimeMs",
    )
