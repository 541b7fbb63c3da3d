"""Error codes of a broker in results."""

import pytest

from conformance.cases.model import Accepted, ExpectedResponse, NoAnswer, Rejected
from conformance.cases.raw_requests import answer_to
from conformance.codec.error_codes import named
from conformance.judging.raw_requests import codes_of


def test_an_error_code_is_shown_with_its_name():
    assert [named(code) for code in (-1, 1, 45, 136, 137, -2)] == [
        "-1 (UNKNOWN_SERVER_ERROR)", "1 (OFFSET_OUT_OF_RANGE)", "45 (OUT_OF_ORDER_SEQUENCE_NUMBER)",
        "136 (CONTROLLER_ID_NOT_REGISTERED)", "137", "-2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "codes"),
    [
        (Rejected("corrupt", "no", "2 (CORRUPT_MESSAGE)"), "2 (CORRUPT_MESSAGE)"),
        (Rejected("corrupt"), ""),
        (Accepted({"value": [], "codes": "batch 1: 45"}), "batch 1: 45"),
        (Accepted({"value": []}), ""),
        (Accepted({"value": [], "codes": 45}), ""),
        (Accepted({"value": [], "codes": "4" * 5000}), ""),
        (NoAnswer("crash", "it closed"), ""),
    ],
)
def test_the_codes_of_an_answer_are_reported(outcome, codes, catalog):
    assert codes_of(catalog.cases["sequence/gap"], outcome) == codes


def test_the_codes_of_raw_requests_are_read_from_the_responses(catalog):
    case = catalog.cases["exchange/version-not-offered"]
    frames = len(case.expect.expected)
    answers = [{"hex": None, "end": "closed"}] * frames
    assert codes_of(case, Accepted({"value": answers})) == ""
    plain = catalog.cases["exchange/metadata-9"]
    expected = plain.expect.expected[0]
    refused = answer_to(ExpectedResponse("Heartbeat", 4, expected.correlation, must_refuse=True))
    heartbeat = catalog.cases["exchange/heartbeat-4"]
    assert codes_of(heartbeat, Accepted({"value": [{"hex": refused.hex()}]})) == "frame 0: 35 (UNSUPPORTED_VERSION)"
    assert codes_of(plain, Accepted({"value": [{"hex": refused.hex()}]})) == ""
    assert codes_of(plain, Accepted({"value": "no list"})) == ""
