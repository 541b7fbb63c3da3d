"""Every format of an interrupted run contains its progress and its failures."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import pytest
from json_reports import VALIDATOR
from rich.console import Console

from conformance import codec
from conformance.cases.model import Accepted, Case, ExpectValue
from conformance.files.atomic import OutputFiles
from conformance.judging.judge import judge
from conformance.reports.badge import render as badge
from conformance.reports.formats import FORMATS, Report, write_files
from conformance.reports.github import render as annotations
from conformance.reports.screen import texts
from conformance.runner.results import Result, TargetRun
from conformance.targets.protocol import description

DESCRIBED = {"ok": True, "protocol": 1, "name": "t", "version": "1", "supports": {"decode": ["VARINT"]}}
HALT = "interrupted after 1 of 2 cases"
NAMES = [form.name for form in FORMATS if not form.is_verdict]


def result(value):
    request = {"op": "decode", "type": "VARINT", "hex": "7e"}
    case = Case(
        "varint/n", "decode", codec.wire("VARINT"), "varint.examples", "must", request, ExpectValue(63, 1), data=b"\x7e"
    )
    outcome = Accepted({"value": value, "consumed": 1})
    verdict = judge(case, outcome)
    return Result("t", case, outcome, verdict, "must", counts=verdict.kind == "fail")


def report(value, requirements, planned=2):
    """Return the report of a run that was interrupted after one result."""
    run = TargetRun("t", description(DESCRIBED), "", [result(value)])
    run.interrupt(planned)
    return Report([run], 0, requirements=requirements)


def printed(whole_report, verbosity=0, *, quiet=False):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    for shown in texts(whole_report, verbosity, quiet=quiet):
        console.print(shown, crop=False)
    return console.file.getvalue()


def written(name, whole_report):
    (form,) = (form for form in FORMATS if form.name == name)
    return "".join(form.pieces(whole_report))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_contains_how_far_the_target_came_and_no_verdict(name, catalog):
    text = written(name, report(63, catalog.requirements))
    assert text.count(HALT) == 1
    assert "conforms" not in text
    assert HALT not in written(name, report(63, catalog.requirements, planned=1))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_contains_the_failures_that_were_found(name, catalog):
    text = written(name, report(62, catalog.requirements))
    assert text.count(HALT) == 1
    assert "varint/n" in text
    assert "conformance run t --select varint/n" in text


def test_the_json_report_has_a_status_for_it(catalog):
    whole_report = json.loads(written("json", report(63, catalog.requirements)))
    VALIDATOR.validate(whole_report)
    assert (whole_report["targets"][0]["status"], whole_report["targets"][0]["problem"]) == ("interrupted", HALT)


def test_junit_has_an_error_for_it(catalog):
    (error,) = ET.fromstring(written("junit", report(63, catalog.requirements))).iter("error")
    assert error.get("message") == HALT


@pytest.mark.parametrize(("verbosity", "quiet"), [(0, False), (1, False), (2, False), (0, True)])
def test_the_screen_contains_it_once(verbosity, quiet, catalog):
    text = printed(report(62, catalog.requirements), verbosity, quiet=quiet)
    assert text.count(HALT) == 1
    assert "conform:" not in text
    assert ("conformance run t --select varint/n" in text) is not quiet


def test_the_screen_begins_with_it(catalog):
    assert printed(report(63, catalog.requirements)).splitlines()[1] == f"{HALT}: meets requirements must 1/1"


def test_an_annotation_contains_it(catalog):
    assert list(annotations(report(63, catalog.requirements))) == [f"::error title=t 1::{HALT}\n"]


@pytest.mark.parametrize("before", [None, "the badge of yesterday"])
def test_no_badge_is_written(before, catalog, tmp_path):
    path, outputs = tmp_path / "badge.svg", OutputFiles()
    if before is not None:
        path.write_text(before)
    write_files({"badge": path, "json": tmp_path / "r.json"}, report(63, catalog.requirements), outputs)
    assert (path.read_text() if path.exists() else None) == before
    assert outputs.problems == [f"{path}: no badge was written, because the run was interrupted"]
    assert (tmp_path / "r.json").exists()


def test_a_target_that_has_all_its_results_has_a_badge(catalog, tmp_path):
    path, whole_report = tmp_path / "badge.svg", report(63, catalog.requirements, planned=1)
    write_files({"badge": path}, whole_report, OutputFiles())
    assert path.read_text() == "".join(badge(whole_report))
    assert "conforms" in path.read_text()
