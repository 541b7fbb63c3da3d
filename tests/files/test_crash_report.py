"""An unexpected error: one line with the place, a saved traceback, the results so far, its own exit status."""

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cases.stored_cases import passes
from conformance.cli import main
from conformance.commands import show
from conformance.errors import ExitStatus, SuiteBug
from conformance.runner import target_runner


def broken(*_):
    raise ZeroDivisionError("a\nbug" + "!" * 10_000)


def test_a_crash_is_one_line_with_the_place_and_the_traceback_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(show, "read_catalog", broken)
    done = CliRunner().invoke(main, ["show", "varint/zero"])
    assert done.exit_code == ExitStatus.DEFECT == 70
    assert "a defect of the suite, at show.py:" in done.output
    assert "ZeroDivisionError: a bug!!!" in done.output
    assert len(done.output.splitlines()) == 1
    assert len(done.output) < 500
    (saved,) = tmp_path.iterdir()
    assert str(saved) in done.output
    assert "Traceback" in saved.read_text()


def test_the_traceback_is_printed_if_no_file_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setattr(show, "read_catalog", broken)
    done = CliRunner().invoke(main, ["show", "varint/zero"])
    assert done.exit_code == 70
    assert "Traceback" in done.output


def test_a_suite_bug_is_a_defect_too(tmp_path, monkeypatch):
    def contradict(*_):
        raise SuiteBug("two and two are five")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(show, "read_catalog", contradict)
    done = CliRunner().invoke(main, ["show", "varint/zero"])
    assert done.exit_code == 70
    assert "two and two are five" in done.output


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["show"]])
def test_wrong_usage_is_not_a_defect(arguments):
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_a_run_stopped_by_a_defect_reports_its_results_so_far(tmp_path, monkeypatch):
    judged = []

    def pass_three(case, outcome):
        judged.append(case)
        return passes(case, outcome) if len(judged) <= 3 else broken()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(target_runner, "passes", pass_three)
    path = tmp_path / "report.json"
    done = CliRunner().invoke(main, ["run", "reference", "--select", "varint/*", "--json", str(path)])
    assert done.exit_code == 70
    assert "must" in done.output
    assert "stopped by a bug in the suite: ZeroDivisionError" in done.output
    report = json.loads(path.read_text())
    assert len(report["results"]) == 3
    assert report["targets"][0]["status"] == "stopped early"
    assert any("Traceback" in saved.read_text() for saved in Path(tmp_path).glob("conformance-*.txt"))
