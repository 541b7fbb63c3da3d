"""How a broker answered frames, judged."""

import pytest

from conformance import codec
from conformance.cases.model import Case, ExpectedResponse, ExpectResponses, VerdictKind
from conformance.cases.raw_requests import answer_to, due_for
from conformance.judging.judge import judge
from conformance.judging.raw_requests import MOST_GROWN, judge_exchanged
from conformance.targets import reference
from conformance.targets.protocol import outcome

FRAMES = (
    {"message": "ApiVersionsRequest", "version": 3},
    {"message": "MetadataRequest", "version": 9, "body": {"Topics": []}},
    {"message": "MetadataRequest", "version": 8, "header": {"CorrelationId": -5}, "body": {"Topics": None}},
)
ANSWERS = [answer_to(due) for due in due_for(FRAMES)]
CLOSED, SILENT = {"hex": None, "end": "closed"}, {"hex": None, "end": "silent"}


def rows(**changed):
    """What came of each frame, some of it changed (`at1=...`)."""
    return [changed.get(f"at{at}", {"hex": answer.hex()}) for at, answer in enumerate(ANSWERS)]


def verdict(value, frames=FRAMES, **beside):
    expect = ExpectResponses(due_for(frames))
    case = Case("x/y", "exchange", codec.wire("LOG"), "x.y", "must", {"op": "exchange", "frames": frames}, expect)
    return judge(case, outcome({"ok": True, "value": value, **beside}))


def test_what_the_reference_answers_passes():
    assert verdict(reference.answer({"op": "exchange", "frames": FRAMES})["value"]).kind is VerdictKind.PASS


FLAWS = {
    "a byte more": (1, ANSWERS[1] + b"\0", "1 byte after the end of MetadataResponse 9", "response.size"),
    "another header": (1, ANSWERS[1][:4] + ANSWERS[1][5:], "is of version 0, not 1", "tagged.only-in-flexible"),
    "tagged header": (0, ANSWERS[0][:4] + b"\0" + ANSWERS[0][4:], "is of version 1, not 0", "tagged.only-in-flexible"),
    "cut": (2, ANSWERS[2][:-1], "MetadataResponse 8 breaks its definition", "definitions.response-version-matches"),
    "no header": (2, b"\0\0", "has 2 bytes", "definitions.response-version-matches"),
    "another id": (0, b"\1\0\0\0" + ANSWERS[0][4:], "correlation id 16777216 in", "response.correlation-id"),
    "the id of another": (0, b"\0\0\0\2" + ANSWERS[0][4:], "correlation id 2 in", "response.order"),
}  # fmt: skip


@pytest.mark.parametrize(("at", "data", "detail", "requirement"), FLAWS.values(), ids=FLAWS)
def test_a_flaw_is_named_with_the_frame_and_charged_to_the_requirement_it_breaks(at, data, detail, requirement):
    found = verdict(rows(**{f"at{at}": {"hex": data.hex()}}))
    assert (found.kind, found.path, found.requirement) == (VerdictKind.FAIL, f"[{at}]", requirement)
    assert detail in found.detail


def test_a_request_that_is_not_answered_is_a_failure_and_one_that_hangs_a_timeout():
    closed, silent = verdict(rows(at1=CLOSED)), verdict(rows(at1=SILENT))
    assert (closed.kind, silent.kind, silent.level) == (VerdictKind.FAIL, VerdictKind.TIMEOUT, "must")
    assert "without an answer to Metadata 9" in closed.detail


NEGATIVE = ({"hex": "ffffffff00120000000000010000"},)
CUT = ({"hex": "0000006400120000000000010000"},)


@pytest.mark.parametrize("frames", [NEGATIVE, CUT], ids=["negative size", "cut"])
def test_what_cannot_be_read_may_be_refused(frames):
    assert verdict([CLOSED], frames).kind is VerdictKind.PASS


def test_only_a_broker_that_was_told_of_more_bytes_may_wait():
    assert [verdict([SILENT], frames).kind for frames in (NEGATIVE, CUT)] == [VerdictKind.TIMEOUT, VerdictKind.PASS]


def test_memory_that_grows_out_of_proportion_is_charged():
    assert verdict(rows(), grown=MOST_GROWN).kind is VerdictKind.PASS
    found = verdict(rows(), grown=MOST_GROWN + 1)
    assert (found.kind, found.requirement, found.level) == (VerdictKind.FAIL, "robustness.answers", "should")


@pytest.mark.parametrize(
    "value",
    [None, 5, [], [{}], rows()[:2], [*rows(), CLOSED], rows(at0={"hex": None}), rows(at0={"hex": None, "end": "x"}),
     rows(at0={"hex": "0"}), rows(at0={"hex": 7}), rows(at0=[]), rows(at0={"end": []})],
    ids=str,
)  # fmt: skip
def test_what_is_not_an_answer_is_a_fault_of_the_target(value):
    assert verdict(value).kind is VerdictKind.PROTOCOL


@pytest.mark.parametrize(("must_answer", "level"), [(True, "must"), (False, "should")])
def test_silence_is_charged_at_must_only_where_an_answer_is_due(must_answer, level):
    due = ExpectedResponse("ApiVersions", 0, 1, must_answer=must_answer)
    found = judge_exchanged(ExpectResponses((due,)), {"value": [{"hex": None, "end": "silent"}]})
    assert (found.kind, found.level) == (VerdictKind.TIMEOUT, level)
