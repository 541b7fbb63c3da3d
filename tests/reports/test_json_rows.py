"""The JSON report is written incrementally: its end joins the rows, for any end of a run."""

import io
import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from conformance.cases.model import Accepted, NoAnswer, Rejected, Unsupported, Verdict, VerdictKind
from conformance.cli import main
from conformance.judging.judge import judge
from conformance.reports import json_report, junit
from conformance.reports.formats import Report
from conformance.reports.json_report import JsonRowFile, render
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.strategies.seeded.cases import generated_cases

WRONG = """
def describe():
    return {"name": "one", "version": "1", "language": "python", "supports": {"decode": ["VARINT"]}}

def decode(type, data, **_):
    return 0, 1
"""


@pytest.fixture
def results(catalog):
    """Return results of every kind, including an unclaimed generated case, which has no row."""
    vectors = [case for case in catalog.cases.values() if case.id.startswith("varint/")][:12]
    generated = list(generated_cases(["VARINT"], 4, 0, catalog))
    outcomes = [Accepted({"value": 0}), Rejected("malformed"), NoAnswer("crash", "line\nof text"), Unsupported("no")]
    policy = FailurePolicy()
    made = [
        policy.result("t", case, outcomes[at % 4], judge(case, outcomes[at % 4]), catalog.requirements)
        for at, case in enumerate(vectors)
    ]
    made += [
        policy.result("t", case, Unsupported("no"), Verdict(VerdictKind.SKIP, "not claimed"), catalog.requirements)
        for case in generated
    ]
    assert {result.verdict.kind for result in made} >= {VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.SKIP}
    return [*made, made[0]]


@pytest.fixture
def file(tmp_path):
    with closing(JsonRowFile(tmp_path / "report.json")) as file:
        yield file


def text_of(run, **rows):
    return "".join(render(Report([run], 0, rows=rows)))


def run_of(results, file):
    run = TargetRun("t", on_result=file.add)
    for result in results:
        run.add(result)
    return run


def test_incremental_rows_equal_the_rows_at_the_end(results, file, tmp_path):
    run = run_of(results, file)
    assert file.count == len(results)
    text = text_of(run, t=file)
    assert text == text_of(run)
    assert [row["id"] for row in json.loads(text)["results"]] == [
        result.summary.id for result in results if not result.summary.is_shrinkable
    ]
    assert list(tmp_path.iterdir()) == []


def test_cases_of_clients_and_brokers_have_a_row_if_claimed(catalog, file):
    case = catalog.cases["batch/three-records:append"]
    skipped = [
        Verdict(VerdictKind.SKIP, "append is not claimed"),
        Verdict(VerdictKind.SKIP, "unsupported: a policy of the broker"),
    ]
    policy = FailurePolicy()
    made = [policy.result("t", case, Unsupported("no"), verdict, catalog.requirements) for verdict in skipped]
    report = json.loads(text_of(run_of(made, file), t=file))
    assert [row["detail"] for row in report["results"]] == ["unsupported: a policy of the broker"]
    assert report["summary"]["t"]["skip"] == 2


def test_a_row_is_written_once_with_its_result(results, file, monkeypatch):
    run = run_of(results, file)
    whole = text_of(run)
    monkeypatch.setattr(json_report, "_result", None)
    assert text_of(run, t=file) == whole


class Full(io.BytesIO):
    """A file that accepts some bytes, then writes half of the next part and raises."""

    def __init__(self, room, error):
        super().__init__()
        self.room, self.error = room, error

    def write(self, data):
        if self.tell() + len(data) > self.room:
            super().write(data[: len(data) // 2])
            raise self.error
        return super().write(data)


@pytest.mark.parametrize("room", [0, 400, 3000])
def test_rows_without_disk_space_are_written_at_the_end(results, file, room):
    file.close()
    file._file = Full(room, OSError("no room"))
    run = run_of(results, file)
    assert file.count < len(results)
    assert text_of(run, t=file) == text_of(run)


def test_a_row_cut_by_an_interrupt_is_written_at_the_end(results, file):
    file.close()
    file._file = Full(3000, KeyboardInterrupt())
    run = TargetRun("t", on_result=file.add)

    def add_all():
        for result in results:
            run.add(result)

    with pytest.raises(KeyboardInterrupt):
        add_all()
    assert 0 < file.count == len(run.results) - 1
    assert text_of(run, t=file) == text_of(run)


def test_rows_that_cannot_be_flushed_are_written_at_the_end(results, file):
    class Unflushed(io.BytesIO):
        def seek(self, *_):
            raise OSError("no room")

    file.close()
    file._file = Unflushed()
    run = run_of(results, file)
    assert file.count == len(results)
    assert text_of(run, t=file) == text_of(run)


def report_of(path, *arguments):
    """Return the exit status of a run, and its report."""
    done = CliRunner().invoke(main, ["run", *arguments, "--generated", "0", "--json", str(path)])
    return done.exit_code, json.loads(path.read_text())


def test_a_run_with_a_target_that_cannot_start_has_a_complete_report(tmp_path):
    status, report = report_of(tmp_path / "r", "reference", "command:false", "--select", "varint/*")
    assert status == 3
    assert {row["target"] for row in report["results"]} == {"reference"}
    assert sum(report["summary"]["reference"].values()) == len(report["results"]) > 10
    assert [target["status"] for target in report["targets"]] == ["judged", "not started"]


def test_a_run_with_another_unwritable_file_has_a_complete_report(tmp_path, monkeypatch):
    def failing(_):
        yield "<"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(junit, "render", failing)
    status, report = report_of(tmp_path / "r", "reference", "--select", "varint/*", "--junit", str(tmp_path / "j"))
    assert status == 2
    assert sum(report["summary"]["reference"].values()) == len(report["results"]) > 10


def test_failures_added_by_an_update_are_known_in_the_report(tmp_path):
    (tmp_path / "one.py").write_text(WRONG)
    known = ("--known-failures", str(tmp_path / "known.yaml"), "--update-known-failures")
    status, report = report_of(tmp_path / "r", f"module:{tmp_path}/one.py", "--select", "varint/*", *known)
    failing = [row["known"] for row in report["results"] if row["verdict"] == "fail" and row["level"] == "must"]
    assert status == 0
    assert len(failing) > 3
    assert all(failing)
