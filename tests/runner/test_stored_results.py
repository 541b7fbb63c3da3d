"""The stored part of an answer: an answer may have 32 MB, and a run 100,000 of them."""

import json
import pickle
import tracemalloc
from hashlib import sha256

import pytest
from msgspec.structs import replace

from conformance import codec
from conformance.cases.model import Accepted, Case, ExpectClientRequests, ExpectValue, Rejected, VerdictKind
from conformance.judging.judge import judge
from conformance.reports.explain import actual_json, actual_text
from conformance.reports.formats import FORMATS, Report
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import MAX_ANSWER_BYTES, Result, StoredAnswer, TargetRun
from conformance.targets import protocol

LONG = "ab" * 500_000
DECODE = Case(
    "a/b",
    "decode",
    codec.wire("ARRAY<STRING>"),
    "array.encoding",
    "must",
    {"op": "decode", "type": "ARRAY<STRING>", "hex": "00000001000161"},
    ExpectValue(("a",), 7),
    bytes.fromhex("00000001000161"),
)


def result(answer, case=DECODE):
    outcome = protocol.outcome({"id": 1, **answer})
    return FailurePolicy().result("t", case, outcome, judge(case, outcome), {})


def plain(answer, case=DECODE):
    """Return the result with the whole answer."""
    outcome = protocol.outcome({"id": 1, **answer})
    return Result("t", case, outcome, judge(case, outcome), "must")


def test_a_passing_answer_is_not_stored():
    kept = result({"ok": True, "value": ["a"], "consumed": 7, "more": LONG})
    assert kept.verdict.kind is VerdictKind.PASS
    assert kept.outcome == Accepted({})


def test_a_short_answer_is_stored_completely():
    answer = {"ok": True, "value": ["b"], "consumed": 7}
    kept, before = result(answer), plain(answer)
    assert isinstance(kept.outcome, StoredAnswer)
    assert actual_json(kept) == actual_json(before) == {"value": ["b"], "consumed": 7}
    assert actual_text(kept, kept.verdict.path) == actual_text(before, before.verdict.path) == '[0] = "b"'
    assert kept.cause == before.cause


def test_further_fields_of_a_read_answer_are_shown(catalog):
    read = catalog.cases["batch/three-records:read"]
    answer = {"ok": True, "value": {"records": [{"offset": "3"}], "nextOffset": "4"}}
    cut = plain({**answer, "message": "where everything is offered"}, read)
    shown = actual_text(cut, cut.verdict.path)
    assert shown == f"{actual_text(plain(answer, read), cut.verdict.path)} (where everything is offered)"


def test_a_long_answer_is_stored_as_length_and_digest_with_the_same_cause():
    value = ["b", *("x" for _ in range(100_000))]
    answer = {"ok": True, "value": value, "consumed": 7, "hex": LONG}
    kept = result(answer)
    text = json.dumps(value, separators=(",", ":")).encode()
    assert actual_json(kept) == {
        "value": {"length": len(text), "sha256": sha256(text).hexdigest()},
        "consumed": 7,
        "hex": {"length": 500_000, "sha256": sha256(bytes.fromhex(LONG)).hexdigest()},
    }
    assert kept.cause == plain(answer).cause
    assert actual_text(kept, kept.verdict.path) == '[0] = "b"', "the differing place is still shown"
    assert "sha256" in actual_text(kept)
    assert actual_text(kept, "consumed") == "consumed 7"


def test_a_long_text_of_a_target_is_cut_with_its_length_and_digest():
    digest = sha256(LONG.encode()).hexdigest()[:16]
    left = f"{LONG[: protocol.LONGEST_TEXT]}… (1000000 characters, sha256 {digest})"
    assert protocol.outcome({"crash": LONG}).detail == left
    assert protocol.outcome({"unsupported": LONG}).reason == left
    assert protocol.outcome({"ok": False, "error": "other", "message": LONG}) == Rejected("other", left)
    assert protocol.shorten("x" * protocol.LONGEST_TEXT) == "x" * protocol.LONGEST_TEXT


def test_a_text_of_a_target_is_cut_by_bytes_between_characters():
    text = "é" + "\U0001f600" * protocol.LONGEST_TEXT
    front, cut = protocol.shorten(text).split("… ")
    assert front == text[: len(front)]
    assert protocol.LONGEST_TEXT - 4 < len(front.encode()) <= protocol.LONGEST_TEXT
    assert cut.startswith(f"({len(text)} characters, sha256 ")
    assert protocol.shorten("\U0001f600" * (protocol.LONGEST_TEXT // 4 + 1)).endswith(")")


HOSTILE = {
    "a long value": {"ok": True, "value": [LONG]},
    "many values": {"ok": True, "value": ["x"] * 100_000},
    "many fields": {"ok": True, "value": ["b"], **{f"field {number}": "x" for number in range(10_000)}},
    "a long name of a field": {"ok": True, "value": ["b"], LONG: 1},
    "long bytes": {"ok": True, "hex": LONG, "value": ["b"]},
    "a count that is a text": {"ok": True, "value": ["a"], "consumed": LONG},
    "a value in another notation": {"ok": True, "value": {LONG: LONG}},
    "a long crash": {"crash": LONG},
    "a long refusal": {"ok": False, "error": "malformed", "message": LONG},
    "a long reason": {"unsupported": LONG},
    "a long class": {"ok": False, "error": LONG},
    "no answer": {LONG: LONG},
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_the_stored_part_of_a_result_is_bounded(answer):
    kept = result(answer)
    assert len(pickle.dumps((kept.outcome, kept.verdict))) < 2 * MAX_ANSWER_BYTES
    assert len(kept.cause.text) < 500
    for form in FORMATS:
        if form.name != "html":
            assert sum(map(len, form.pieces(Report([TargetRun("t", results=[kept])], 0)))) < 5 * MAX_ANSWER_BYTES


@pytest.mark.parametrize("name", ["many values", "a long crash", "long bytes"])
def test_results_of_long_answers_take_little_memory(name):
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        results = [result(json.loads(json.dumps(HOSTILE[name]))) for _ in range(20)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(results) < 4 * MAX_ANSWER_BYTES


@pytest.mark.parametrize("name", ["json", "junit"])
def test_results_are_written_one_by_one(name):
    form = next(form for form in FORMATS if form.name == name)
    results = [replace(result(HOSTILE["a long crash"]), counts=True) for _ in range(200)]
    pieces = list(form.pieces(Report([TargetRun("t", results=results)], 0)))
    assert len(pieces) > len(results)
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 20


def sends(*frames):
    rows = [{"hex": data.hex(), "inFlight": [], "offered": None} for data in frames]
    return {"ok": True, "value": rows}


SIZED = Case(
    "a/b", "send", codec.wire("LOG"), "request.size", "must", {"op": "send"}, ExpectClientRequests("size-field", "")
)
LIES_OF_ITS_SIZE = bytes(4) + b"\0\x03\0\1" + bytes(300)


def sized(length):
    return length.to_bytes(4, "big") + b"\0\x03\0\1" + bytes(length - 4)


def test_the_judged_element_of_a_long_list_is_stored_and_shown():
    answer = sends(*[sized(700)] * 5, LIES_OF_ITS_SIZE, sized(700))
    kept = result(answer, SIZED)
    assert kept.outcome.is_cut
    rows = actual_json(kept)["value"]
    assert ["sha256" in row for row in rows] == [True] * 5 + [False, True]
    assert actual_text(kept, kept.verdict.path) == actual_text(plain(answer, SIZED), kept.verdict.path)
    assert actual_text(kept, kept.verdict.path).startswith("sent 00 00 00 00 00 03 00 01 00 ")
    assert actual_text(kept, kept.verdict.path).endswith("308 bytes")
    assert result(sends(*[LIES_OF_ITS_SIZE] * 30), SIZED).outcome.json.startswith(b'{"value":{"length"')


def test_a_long_request_is_shown_by_its_digest():
    kept = result(sends(LIES_OF_ITS_SIZE + bytes(3000)), SIZED)
    assert actual_text(kept, kept.verdict.path).startswith('accepted: {"value": {"length"')
