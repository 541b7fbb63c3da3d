"""`conformance selftest`: seeded defects, each switched on alone, and which of them a case catches."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from conformance import cli
from conformance.targets import lies
from conformance.targets.defects import DEFECTS


def selftest(*arguments):
    """The exit status and the output of the command."""
    done = CliRunner().invoke(cli.main, ["selftest", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def harmless(monkeypatch):
    """Adds a defect that does nothing, which no case can catch."""

    def add(area, why=""):
        one = replace(DEFECTS["violates/sequence.record-formula"], id="harmless", area=area, bend=lies.nothing, why=why)
        monkeypatch.setitem(DEFECTS, one.id, one)

    return add


def test_defects_of_an_area_are_caught_in_processes_and_each_is_named_with_its_case(tmp_path):
    path = tmp_path / "defects.json"
    status, output = selftest("--area", "sequences", "-v", "--jobs", "2", "--json", str(path))
    assert status == 0
    assert "violates/producer-epoch.fences  caught by sequence/older-epoch" in output
    report = json.loads(path.read_text())
    caught = [one for one in report["defects"] if one["caughtBy"]]
    assert report["summary"]["sequences"] == {"caught": len(caught), "defects": len(report["defects"])}
    assert {one["id"] for one in report["defects"]} == {
        name for name, defect in DEFECTS.items() if defect.area == "sequences"
    }


def test_a_defect_that_no_case_catches_survives_and_fails_the_command(harmless):
    harmless("sequences", "it does nothing")
    status, output = selftest("--area", "sequences", "--jobs", "1")
    assert status == 1  # below 97 %
    assert "survived: harmless" in output
    assert "it does nothing" in output


@pytest.mark.parametrize(("why", "status"), [("it does nothing", 0), ("", 1)])
def test_a_survivor_among_many_is_forgiven_when_it_is_explained(harmless, why, status):
    harmless("primitives", why)
    assert selftest("--area", "primitives", "--jobs", "1")[0] == status


def test_an_explanation_of_a_defect_that_is_caught_fails_the_command(monkeypatch):
    name = "violates/producer-epoch.fences"
    monkeypatch.setitem(DEFECTS, name, replace(DEFECTS[name], why="nobody fences"))
    status, output = selftest("--area", "sequences", "--jobs", "1")
    assert status == 1
    assert f"explained although sequence/older-epoch catches it: {name}" in output


def test_a_defect_whose_function_raises_is_a_defect_of_the_suite(monkeypatch):
    name = "violates/producer-epoch.fences"
    monkeypatch.setitem(DEFECTS, name, replace(DEFECTS[name], bend=lambda *_: 1 / 0))
    status, output = selftest("--area", "sequences", "--jobs", "1")
    assert status == 70
    assert name in output


def test_every_defect_has_a_source_of_its_own_kind(catalog):
    for defect in DEFECTS.values():
        assert defect.source in catalog.requirements or defect.source.startswith("https://"), defect.id
        assert defect.says or defect.source in catalog.requirements, defect.id
        assert set(defect.first) <= set(catalog.requirements), defect.id
