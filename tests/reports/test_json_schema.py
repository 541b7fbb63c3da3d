"""The schema of the JSON report; tests/conftest.py checks every report of any test against it."""

import json
import re
import subprocess
import sys
from typing import get_args

import jsonschema_rs
import pytest
from click.testing import CliRunner
from json_reports import VALIDATOR, broken_reports
from traces import ROOT

from conformance.cli import main
from conformance.reports.json_schema import Status


@pytest.fixture
def report(tmp_path):
    """Return a report with a result of every kind."""
    path = tmp_path / "report"
    (tmp_path / "wrong.py").write_text(WRONG)
    arguments = ["run", f"module:{tmp_path}/wrong.py", "--generated", "20", "--json", str(path)]
    selected = ("type:VARINT", "type:VARLONG", "covering/sequence/*")
    CliRunner().invoke(main, [*arguments, *(part for pattern in selected for part in ("--select", pattern))])
    return path


WRONG = """
from conformance import Unsupported

def describe():
    return {"name": "wrong", "version": "1", "language": "python", "supports": {"decode": ["VARINT"]}}

def decode(type, data, **_):
    if len(data) == 1:
        return {"value": (data[0] >> 1) ^ -(data[0] & 1), "consumed": 1}
    if len(data) == 3:
        raise Unsupported("three bytes")
    raise KeyError(5) if len(data) == 2 else ValueError(6)

REJECTIONS = [ValueError]
"""


def test_the_printed_schema_is_valid(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "run", "--json-schema"], cwd=tmp_path, capture_output=True, check=True
    )
    schema = json.loads(done.stdout)
    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert not done.stderr


def test_a_report_follows_the_schema_and_has_all_its_parts(report):
    shown = json.loads(report.read_text())
    VALIDATOR.validate(shown)
    assert {row["verdict"] for row in shown["results"]} >= {"pass", "fail", "crash", "skip"}
    named = json.loads(CliRunner().invoke(main, ["run", "--json-schema"]).output)["$defs"]["Result"]["properties"]
    of_brokers = {"codes"}  # tests/live_brokers/test_lying_brokers.py
    assert set().union(*shown["results"], *shown["shrunk"]) == {*named, "of", "count"} - of_brokers


def test_the_docs_list_every_status_of_a_target():
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    listed = re.search(r"`describe`, `status` \((.*?)\)", text)[1]
    assert set(listed.split(", ")) == {f"`{status}`" for status in get_args(Status)}


SPOILT = {
    "a key that no type names": lambda shown: shown["results"][0].update(extra=1),
    "a verdict that does not exist": lambda shown: shown["results"][0].update(verdict="passed"),
    "a result without a level": lambda shown: shown["results"][0].pop("level"),
    "a number below zero": lambda shown: shown["causes"][0].update(vectors=-1),
    "a summary that is missing": lambda shown: shown.pop("summary"),
    "a status of its own": lambda shown: shown["targets"][0].update(status="good"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_report_that_violates_the_schema_is_found_in_any_folder(spoil, report):
    assert broken_reports(report.parent) == []
    shown = json.loads(report.read_text())
    spoil(shown)
    # In its written form: the first line identifies a report.
    begin = '{"suite": ' + json.dumps(shown.pop("suite"), separators=(",", ":"))
    report.write_text(begin + "," + json.dumps(shown)[1:])
    (line,) = broken_reports(report.parent)
    report.unlink()  # conftest.py does the same with every file of this session
    assert line.startswith(str(report))


def test_results_without_a_failure_have_short_rows(report):
    rows = json.loads(report.read_text())["results"]
    full = {"reproduce", "via", "hex", "expected", "actual"}
    for row in rows:
        expected_keys = {"pass": set(), "skip": set(), "either": {"actual"}}.get(row["verdict"], full)
        assert {"flaky", "upstream"} <= set(row)
        assert full & set(row) == expected_keys, row["id"]
        assert ("detail" not in row) == (row["verdict"] == "pass"), row["id"]
        assert ("known" in row) == (expected_keys == full and row["verdict"] != "protocol"), row["id"]


def test_unclaimed_generated_cases_are_counted_by_reason_without_rows(report):
    shown = json.loads(report.read_text())
    (target,), (summary,), rows = shown["targets"], shown["summary"].values(), shown["results"]
    skips = [row for row in rows if row["verdict"] == "skip"]
    assert {row["kind"] for row in skips} == {"vector", "generated"}
    assert {row["detail"] for row in skips if row["kind"] == "generated"} == {"unsupported: three bytes"}
    assert sum(target["skipped"].values()) == summary["skip"] > len(skips) > 0
    left_out = summary["skip"] - len(skips)
    generated = left_out - target["skipped"]["sequence is not claimed"]
    assert target["skipped"]["decode of VARLONG is not claimed"] > generated > 20
    assert not any(row["id"].startswith("covering/") for row in rows)
    assert sum(summary[kind] for kind in summary if kind != "disputed") == len(rows) + left_out
