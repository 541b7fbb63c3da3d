"""A job on GitHub: annotations that text of a target cannot forge, and the summary of the step."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from conformance import codec
from conformance.cases.model import Accepted, Case, ExpectValue, NoAnswer, Rejected, VerdictKind
from conformance.judging.judge import judge
from conformance.reports.formats import Report
from conformance.reports.github import MOST, render, step_of_job
from conformance.reports.markdown import render as markdown
from conformance.runner.results import Result, TargetRun
from conformance.targets.protocol import description

EVIL = "%0A::error::x\n::add-mask::y\r\n::error file=a,line=1::z,\u2028::stop-commands::t"
ANNOTATION = re.compile(r"::error (?:file=([^:,\r\n]*),)?title=([^:,\r\n]*)::([^\r\n]*)\n")


def result(number, outcome, *, level="must"):
    wire, request = codec.wire("VARINT"), {"op": "decode", "type": "VARINT", "hex": "7e"}
    case = Case(f"varint/n-{number}", "decode", wire, "varint.examples", level, request, ExpectValue(63, 1), b"\x7e")
    verdict = judge(case, outcome)
    bad = verdict.kind in (VerdictKind.FAIL, VerdictKind.CRASH)
    return Result("t", case, outcome, verdict, level, "stated", counts=bad and level == "must")


def run(*results, name="module:./a.py", calls_itself="mine", problem=""):
    described = {"ok": True, "protocol": 1, "name": calls_itself, "version": "1", "supports": {"decode": ["VARINT"]}}
    return TargetRun(name, description(described), problem, list(results))


RIGHT = result(0, Accepted({"value": 63, "consumed": 1}))
WRONG = [result(number, Rejected("other", f"kind {chr(97 + number)}")) for number in range(25)]
FAULT = result(30, NoAnswer("protocol", "no JSON"))


def annotations(*runs, stale=()):
    return "".join(render(Report(runs, 0, list(stale))))


def read(text):
    """Return file, title and message of each annotation, as GitHub's runner parses them."""
    assert ANNOTATION.sub("", text) == ""
    return [tuple(map(unescaped, found)) for found in ANNOTATION.findall(text)]


def unescaped(text):
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, character)
    return text


# --- annotations --------------------------------------------------------------------------------------


def test_a_cause_is_an_annotation_with_its_smallest_example_and_command():
    ((file, title, message),) = read(annotations(run(RIGHT, WRONG[1], replace(WRONG[1]))))
    assert (file, title) == ("a.py", "mine 1 as module:./a.py")
    assert message.splitlines() == [
        "rejected: kind b (2 cases)",
        "varint/n-1 breaks varint.examples (must, stated)",
        "expected: 63",
        "actual: rejected (other: kind b)",
        "conformance run t --select varint/n-1",
    ]


def test_a_failure_that_does_not_count_is_no_annotation():
    known, may = replace(WRONG[0], known=True), result(1, Rejected("other", "may"), level="may")
    assert annotations(run(RIGHT, known, may)) == ""


def test_a_target_that_is_no_module_has_no_file():
    assert read(annotations(run(WRONG[0], name="command:./a.py")))[0][0] == ""


def test_unjudged_targets_adapter_faults_and_stale_entries_are_annotations():
    text = annotations(run(RIGHT, FAULT), run(problem="it is gone"), stale=[("varint/*", "no case has this id")])
    found = re.findall(r"::error [^\n]*?title=(.*?)::([^\n%]*)", text)
    assert [message for _, message in found] == [
        "it is gone",
        "adapter: no JSON (1 cases)",
        "varint/*: no case has this id",
    ]
    assert found[-1][0] == "stale known failure"


def test_the_number_of_annotations_is_limited_and_the_last_counts_the_rest():
    lines = annotations(run(*WRONG)).splitlines()
    assert len(lines) == MOST
    assert lines[-1] == f"::error::{25 - MOST + 1} more: see the log or the summary"
    assert "more" not in annotations(run(*WRONG[:MOST]))


@given(st.text() | st.sampled_from([EVIL]), st.text() | st.sampled_from([EVIL]))
def test_text_of_a_target_neither_ends_nor_starts_an_annotation(name, message):
    text = annotations(run(result(0, Rejected("other", message)), calls_itself=name, name=f"module:{EVIL}.py"))
    assert len(text.splitlines()) == 1
    assert len(read(text)) == 1


# --- the step -----------------------------------------------------------------------------------------


@pytest.fixture
def job(monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


def printed(report, written=()):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    with step_of_job(report, console, written):
        console.print("the report: ::error::of a target", markup=False)
    return console.file.getvalue()


REPORT = Report([run(RIGHT, WRONG[0])], 0)


@pytest.mark.usefixtures("job")
def test_the_report_is_between_a_stop_command_and_an_unguessable_token():
    lines = printed(REPORT).splitlines()
    token = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", lines[0])[1]
    assert lines[1:4] == ["the report: ::error::of a target", "", f"::{token}::"]
    assert len(read("\n".join(lines[4:]) + "\n")) == 1
    assert token != re.search("[0-9a-f]{32}", printed(REPORT))[0]


def test_the_summary_of_the_step_is_appended(job):
    job.write_text("# before\n")
    printed(REPORT)
    assert job.read_text() == "# before\n" + "".join(markdown(REPORT))


def test_a_requested_summary_is_not_added_again(job):
    printed(REPORT, [Path(str(job))])
    assert not job.exists()


def test_an_unwritable_summary_is_reported(job):
    job.mkdir()
    assert printed(REPORT).splitlines()[-1].startswith(f"::error::the step summary {job} could not be written: ")


def test_outside_github_no_summary_is_added(job, monkeypatch):
    for value in ("", "false"):
        monkeypatch.setenv("GITHUB_ACTIONS", value)
        assert printed(REPORT) == "the report: ::error::of a target\n"
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert printed(REPORT) == "the report: ::error::of a target\n"
    assert not job.exists()
