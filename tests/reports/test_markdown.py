"""The summary in Markdown and the badge: their content, and escaped text of targets."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from conformance import codec
from conformance.cases.model import Accepted, Case, ExpectValue, NoAnswer, Rejected, Unsupported, VerdictKind
from conformance.judging.judge import judge
from conformance.reports.badge import render as badge
from conformance.reports.formats import Report
from conformance.reports.markdown import fenced, plain, render
from conformance.runner.results import Result, TargetRun
from conformance.targets.protocol import description

EVIL = "`x` | [a](http://h) <b> @someone #1 *y* _z_ ~~s~~ ![i](u) \\ https://h.example &amp; $m$"


def result(number, outcome, level="must"):
    wire, request = codec.wire("VARINT"), {"op": "decode", "type": "VARINT", "hex": "7e"}
    case = Case(f"varint/n-{number}", "decode", wire, "varint.examples", level, request, ExpectValue(63, 1), b"\x7e")
    verdict = judge(case, outcome)
    bad = verdict.kind in (VerdictKind.FAIL, VerdictKind.CRASH)
    return Result("t", case, outcome, verdict, level, "stated", counts=bad and level == "must")


def run(*results, name="t", problem=""):
    described = {
        "ok": True,
        "protocol": 1,
        "name": EVIL,
        "version": EVIL,
        "language": EVIL,
        "supports": {"decode": ["INT8"]},
    }
    return TargetRun(name, description(described), problem, list(results))


RIGHT = result(0, Accepted({"value": 63, "consumed": 1}))
WRONG = [result(number, Rejected("other", f"{EVIL} kind {chr(97 + number)}")) for number in range(9)]
CRASH = result(20, NoAnswer("crash", f"TypeError: {EVIL}"))


def markdown(runs, requirements, stale=()):
    return "".join(render(Report(runs, 0, list(stale), requirements)))


# --- Markdown -----------------------------------------------------------------------------------------


def test_each_target_has_a_row_with_its_verdict_and_met_requirements(catalog):
    document = markdown([run(RIGHT, name="good"), run(RIGHT, *WRONG, name="bad")], catalog.requirements)
    rows = [line.split("|")[2:4] for line in document.splitlines() if re.search(" as (good|bad) ", line)]
    assert rows == [[" conforms ", " 1/1 "], [" does not conform ", " 0/1 "]]


def test_the_first_causes_have_an_example_and_each_has_a_row(catalog):
    document = markdown([run(*WRONG, CRASH)], catalog.requirements)
    assert document.count("<details>") == document.count("</details>") == 5
    assert len(re.findall(r"^\| must \| \d+ \|", document, re.MULTILINE)) == len({one.cause for one in (*WRONG, CRASH)})
    assert "conformance run t --select varint/n-" in document


def test_a_target_that_was_not_judged_shows_the_reason(catalog):
    document = markdown([run(result(1, Unsupported("no")), problem="it does not start")], catalog.requirements)
    assert "not judged" in document
    assert "it does not start" in document


def test_stale_known_failures_are_listed(catalog):
    document = markdown([], catalog.requirements, [("varint/*", "no case has this id")])
    assert "Stale known failure varint/&#42;: no case has this id" in document


def test_text_of_a_target_is_not_interpreted(catalog):
    document = markdown([run(*WRONG, CRASH, name=EVIL, problem=EVIL)], catalog.requirements)
    outside = re.sub(r"^(`{3,})\n.*?\n\1$", "", document, flags=re.MULTILINE | re.DOTALL)
    outside = outside.replace("`--html FILE`", "")
    for part in ("`", "](", "<b>", "@someone", "#1 ", "*y*", "_z_", "~~", "![", "https://h"):
        assert part not in outside, part
    for line in outside.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            assert len(line.split("|")) in (6, 8), line


@given(st.text())
def test_no_text_ends_a_code_block_or_a_row(text):
    first, *inner, last = fenced(text).split("\n")
    assert first == last
    assert len(first) >= 3
    assert not any(line.startswith(first) for line in inner)
    assert not set(plain(text)) & set("|`<>[]*_~@\\\n\r")


# --- the badge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "label"),
    [
        ([run(RIGHT)], "conforms"),
        ([run(RIGHT), run(RIGHT, *WRONG)], "1 of 2 musts"),
        ([run(RIGHT), run(problem="gone")], "not judged"),
        ([], "not judged"),
    ],
)
def test_the_badge_shows_the_worst_verdict(runs, label, catalog):
    (text,) = badge(Report(runs, 0, requirements=catalog.requirements))
    root = ET.fromstring(text)
    assert root.get("aria-label") == f"Kafka wire format: {label}"
    assert [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")] == ["Kafka wire format", label]
    assert float(root.get("width")) > 100


def test_a_known_failure_does_not_count_for_the_verdict(catalog):
    known = replace(WRONG[0], known=True)
    assert "does not conform" not in markdown([run(RIGHT, known)], catalog.requirements)
