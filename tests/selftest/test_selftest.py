"""`conformance selftest`: seeded faults, each enabled alone, and the cases that detect them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from conformance import cli
from conformance.cases.model import Verdict, VerdictKind
from conformance.catalog.catalog_builder import read_catalog
from conformance.selftest import FAULTS
from conformance.selftest import runner as running
from conformance.selftest.mutators import encode_with, replace_function, unchanged
from conformance.selftest.mutators.logs import change_fetch, fail_at_cut_entry, refetch_same_offset, stop_at_entry
from conformance.selftest.runner import trials
from conformance.targets.reference import answer

ROOT = Path(__file__).parent.parent.parent


def selftest(*arguments):
    """Return the exit status and the output of the command."""
    done = CliRunner().invoke(cli.main, ["selftest", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def harmless(monkeypatch):
    """Return a function that adds a fault without effect, which no case can detect."""

    def add(area, why=""):
        fault = replace(
            FAULTS["requirement/sequence.record-formula"],
            id="harmless",
            area=area,
            mutate=unchanged,
            survives_because=why,
        )
        monkeypatch.setitem(FAULTS, fault.id, fault)

    return add


def test_faults_of_an_area_are_detected_and_named_with_their_cases(tmp_path):
    path = tmp_path / "defects.json"
    status, output = selftest("--area", "sequences", "-v", "--jobs", "2", "--json", str(path))
    assert status == 0
    assert "requirement/producer-epoch.fences  caught by sequence/older-epoch" in output
    report = json.loads(path.read_text())
    caught = [row for row in report["faults"] if row["caughtBy"]]
    assert report["summary"]["sequences"] == {"caught": len(caught), "faults": len(report["faults"])}
    assert {row["id"] for row in report["faults"]} == {
        name for name, defect in FAULTS.items() if defect.area == "sequences"
    }


@pytest.mark.parametrize(("attributed_to", "is_caught"), [("", True), ("varint.non-minimal", False)])
def test_a_failure_counts_at_the_level_of_its_attributed_requirement(attributed_to, is_caught, monkeypatch):
    monkeypatch.setattr(running, "judge", lambda *_: Verdict(VerdictKind.FAIL, requirement=attributed_to))
    assert read_catalog().requirements["varint.non-minimal"].level == "may"
    answered = running._answered("sequence/older-epoch")
    assert running._shows(FAULTS["requirement/producer-epoch.fences"], *answered, {"must", "should"}) is is_caught


def test_a_fault_that_no_case_detects_survives_and_fails_the_command(harmless):
    harmless("sequences", "it does nothing")
    status, output = selftest("--area", "sequences", "--jobs", "1")
    assert status == 1  # below 97 %
    assert "survived: harmless" in output
    assert "it does nothing" in output


@pytest.mark.parametrize(("why", "status"), [("it does nothing", 0), ("", 1)])
def test_an_explained_survivor_among_many_does_not_fail_the_command(harmless, why, status):
    harmless("primitives", why)
    assert selftest("--area", "primitives", "--jobs", "1")[0] == status


def test_an_explanation_of_a_detected_fault_fails_the_command(monkeypatch):
    name = "requirement/producer-epoch.fences"
    monkeypatch.setitem(FAULTS, name, replace(FAULTS[name], survives_because="nobody fences"))
    status, output = selftest("--area", "sequences", "--jobs", "1")
    assert status == 1
    assert f"explained although sequence/older-epoch catches it: {name}" in " ".join(output.split())


def test_an_exception_in_a_mutator_is_a_defect_of_the_suite(monkeypatch):
    name = "requirement/producer-epoch.fences"
    monkeypatch.setitem(FAULTS, name, replace(FAULTS[name], mutate=lambda *_: 1 / 0))
    status, output = selftest("--area", "sequences", "--jobs", "1")
    assert status == 70
    assert name in output


@pytest.mark.parametrize(
    "mutator",
    [
        replace_function("semantics.producer_state._span", lambda original, *given: original(*given), "sequence"),
        stop_at_entry(lambda *_: False),
        change_fetch(lambda *_: {}),
        fail_at_cut_entry(lambda *_: False),
        refetch_same_offset(lambda _: False),
        encode_with("VARINT", lambda _: None),
    ],
)
def test_a_mutator_that_changes_nothing_is_not_detected(mutator, monkeypatch):
    fault = replace(FAULTS["requirement/sequence.record-formula"], id="harmless", area="harmless", mutate=mutator)
    monkeypatch.setitem(FAULTS, fault.id, fault)
    assert next(trials([fault.id], 1)).caught_by == ""


def test_a_replaced_function_that_raises_is_a_crash_and_is_restored(catalog):
    mutator = replace_function("semantics.producer_state._span", lambda *_: struct.unpack("b", b""), "sequence")
    request = catalog.cases["sequence/repeat-of-the-last"].request
    right = answer(request)
    assert mutator(request, right) == {"crash": "error('unpack requires a buffer of 1 bytes')"}
    assert answer(request) == right


def test_the_figures_of_the_readme_on_seeded_faults_are_true():
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    stated = re.search(r"seeds more than (\d+) faults, one at a time, and the vectors catch more than (\d+) %", page)
    assert len(FAULTS) > int(stated[1])
    survivors = sum(bool(fault.survives_because) for fault in FAULTS.values())
    assert 1 - survivors / len(FAULTS) > int(stated[2]) / 100
