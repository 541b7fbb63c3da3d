"""Verdicts on the responses of a broker to raw requests."""

import pytest

from conformance import codec
from conformance.cases.model import Case, ExpectedResponse, ExpectResponses, VerdictKind
from conformance.cases.raw_requests import answer_to, expected_responses
from conformance.judging.judge import judge
from conformance.judging.raw_requests import MOST_GROWN, judge_exchanged
from conformance.targets import reference
from conformance.targets.protocol import outcome

FRAMES = (
    {"message": "ApiVersionsRequest", "version": 3},
    {"message": "MetadataRequest", "version": 9, "body": {"Topics": []}},
    {"message": "MetadataRequest", "version": 8, "header": {"CorrelationId": -5}, "body": {"Topics": None}},
)
ANSWERS = [answer_to(expected) for expected in expected_responses(FRAMES)]
CLOSED, SILENT = {"hex": None, "end": "closed"}, {"hex": None, "end": "silent"}


def rows(**changed):
    """Return the response to each frame, some of them changed (`at1=...`)."""
    return [changed.get(f"at{at}", {"hex": answer.hex()}) for at, answer in enumerate(ANSWERS)]


def verdict(value, frames=FRAMES, **further):
    expect = ExpectResponses(expected_responses(frames))
    case = Case("x/y", "exchange", codec.wire("LOG"), "x.y", "must", {"op": "exchange", "frames": frames}, expect)
    return judge(case, outcome({"ok": True, "value": value, **further}))


def test_responses_of_the_reference_pass():
    assert verdict(reference.answer({"op": "exchange", "frames": FRAMES})["value"]).kind is VerdictKind.PASS


FLAWS = {
    "a byte more": (1, ANSWERS[1] + b"\0", "1 byte after the end of MetadataResponse 9", "response.size"),
    "another header": (1, ANSWERS[1][:4] + ANSWERS[1][5:], "header version 0 instead of 1", "tagged.only-in-flexible"),
    "tagged header": (0, ANSWERS[0][:4] + b"\0" + ANSWERS[0][4:], "version 1 instead of 0", "tagged.only-in-flexible"),
    "cut": (2, ANSWERS[2][:-1], "MetadataResponse 8 breaks its definition", "definitions.response-version-matches"),
    "no header": (2, b"\0\0", "has only 2 bytes", "definitions.response-version-matches"),
    "another id": (0, b"\1\0\0\0" + ANSWERS[0][4:], "correlation id 16777216 instead", "response.correlation-id"),
    "the id of another": (0, b"\0\0\0\2" + ANSWERS[0][4:], "correlation id 2 instead", "response.order"),
}  # fmt: skip


@pytest.mark.parametrize(("at", "data", "detail", "requirement"), FLAWS.values(), ids=FLAWS)
def test_a_wrong_response_fails_at_its_frame_under_the_violated_requirement(at, data, detail, requirement):
    found = verdict(rows(**{f"at{at}": {"hex": data.hex()}}))
    assert (found.kind, found.path, found.requirement) == (VerdictKind.FAIL, f"[{at}]", requirement)
    assert detail in found.detail


def test_a_closed_connection_is_a_failure_and_a_missing_response_a_timeout():
    closed, silent = verdict(rows(at1=CLOSED)), verdict(rows(at1=SILENT))
    assert (closed.kind, silent.kind, silent.level) == (VerdictKind.FAIL, VerdictKind.TIMEOUT, "must")
    assert "without a response to Metadata 9" in closed.detail


NEGATIVE = ({"hex": "ffffffff00120000000000010000"},)
CUT = ({"hex": "0000006400120000000000010000"},)


@pytest.mark.parametrize("frames", [NEGATIVE, CUT], ids=["negative size", "cut"])
def test_an_unreadable_frame_may_be_rejected(frames):
    assert verdict([CLOSED], frames).kind is VerdictKind.PASS


def test_a_broker_may_wait_only_for_the_rest_of_a_frame():
    assert [verdict([SILENT], frames).kind for frames in (NEGATIVE, CUT)] == [VerdictKind.TIMEOUT, VerdictKind.PASS]


def test_excessive_memory_growth_of_a_broker_fails():
    assert verdict(rows(), memoryGrowth=MOST_GROWN).kind is VerdictKind.PASS
    found = verdict(rows(), memoryGrowth=MOST_GROWN + 1)
    assert (found.kind, found.requirement, found.level) == (VerdictKind.FAIL, "robustness.answers", "should")


@pytest.mark.parametrize(
    "value",
    [None, 5, [], [{}], rows()[:2], [*rows(), CLOSED], rows(at0={"hex": None}), rows(at0={"hex": None, "end": "x"}),
     rows(at0={"hex": "0"}), rows(at0={"hex": 7}), rows(at0=[]), rows(at0={"end": []})],
    ids=str,
)  # fmt: skip
def test_an_invalid_answer_to_raw_requests_is_a_protocol_fault(value):
    assert verdict(value).kind is VerdictKind.PROTOCOL


@pytest.mark.parametrize(("must_answer", "level"), [(True, "must"), (False, "should")])
def test_a_missing_response_fails_at_must_only_if_one_is_required(must_answer, level):
    expected = ExpectedResponse("ApiVersions", 0, 1, must_answer=must_answer)
    found = judge_exchanged(ExpectResponses((expected,)), {"value": [{"hex": None, "end": "silent"}]})
    assert (found.kind, found.level) == (VerdictKind.TIMEOUT, level)
