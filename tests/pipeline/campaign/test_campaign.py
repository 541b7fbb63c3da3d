"""Campaigns without Spark: slices, their commits, and their failures."""

import json
import re
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="campaigns need the extra spark")

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from command_line import conformance
from py4j.protocol import Py4JNetworkError
from rich.console import Console

from conformance.cases.model import NoAnswer
from conformance.catalog.catalog_builder import read_catalog
from conformance.cli import main
from conformance.errors import FileError
from conformance.pipeline.campaign import slices, spark_job
from conformance.pipeline.campaign import tables as making
from conformance.pipeline.campaign.rows import ResultRebuilder
from conformance.pipeline.campaign.slice_task import SliceTask
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.spark_job import _reason
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.summary import clusters, merged, shrunk, tallies
from conformance.pipeline.campaign.tables import failures_of, rows_of
from conformance.pipeline.options import SparkOptions
from conformance.runner.known_failures import KnownFailure
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import tally
from conformance.runner.target_runner import TargetRunner
from conformance.strategies.seeded.cases import generated_cases
from conformance.targets.limits import FAULT_LIMITS, ResourceLimits
from conformance.targets.target import TargetSpec

pytestmark = pytest.mark.integration

INTEGERS = ("INT8", "VARINT", "BOOLEAN")

BROKEN = """\
import os, sys, time
from conformance.targets.reference import answer
from conformance.targets.reference import serve
def respond(request):
    digits = request.get("hex", "") if request.get("type") == "INT8" else ""
    if digits.startswith("7f"):
        os._exit(3)
    if digits.startswith("80"):
        time.sleep(600)
    if digits.startswith("fe"):
        sys.stdout.buffer.write(b"x" * 40_000_000)
    return answer(request)
serve(sys.stdin.buffer, sys.stdout.buffer, respond)
"""
"""Answers correctly, but crashes, hangs or floods its output for certain bytes."""

OFF_BY_ONE = f"command:{sys.executable} -m conformance.selftest.bad_targets varint-off-by-one"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Use slices of a hundred cases, so that a test has several."""
    monkeypatch.setattr(slices, "SLICE", 100)


def judged(folder, campaign, catalog, numbers=None):
    """Return the folder of a campaign with its slices judged in this process, in this order."""
    store = CampaignFolder(folder)
    task = SliceTask(campaign, store, catalog.requirements, {})
    with store.opened(campaign):
        assert sorted(task(range(campaign.slices) if numbers is None else numbers)) == sorted(
            range(campaign.slices) if numbers is None else numbers
        )
    return store


def tables(store):
    return [sorted(map(json.dumps, rows_of(path))) for path in (store.counts, store.failures)]


# --- slices -------------------------------------------------------------------------------------------


def test_the_slices_of_a_campaign_have_the_cases_of_run_with_the_same_ids(catalog):
    campaign = Campaign(("t",), INTEGERS, 250, seed=7)
    assert campaign.slices == 3
    found = [case for number in range(3) for case in campaign.cases_of(number, catalog)]
    # 250 in rotation: 84 of the first type, 83 of each other.
    expected = [*generated_cases(INTEGERS[:1], 84, 7, catalog), *generated_cases(INTEGERS[1:], 83, 7, catalog)]
    assert sorted(case.id for case in found) == sorted(case.id for case in expected)
    assert {case.id: case for case in found} == {case.id: case for case in expected}


def test_a_corpus_fills_the_first_slices(catalog):
    vectors = tuple(case for case in catalog.cases.values() if case.type == "VARINT")
    campaign = Campaign(("t",), INTEGERS, 100, corpus=vectors)
    replayed = -(-len(vectors) // 100)
    assert campaign.slices == replayed + 1
    assert [case for number in range(replayed) for case in campaign.cases_of(number, catalog)] == list(vectors)
    assert all(case.id.startswith("gen/") for case in campaign.cases_of(replayed, catalog))


# --- judging ------------------------------------------------------------------------------------------


def test_the_tables_contain_the_results_of_a_runner_for_the_same_cases(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE, "reference"), INTEGERS, 300)
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    target_runner = SliceTask(campaign, store, catalog.requirements, {}).examiner(OFF_BY_ONE, catalog)
    cases = [case for number in range(3) for case in campaign.cases_of(number, catalog)]
    results = list(target_runner.results(cases))
    target_runner.target.close()
    assert {row["id"] for row in rows_of(store.failures)} == {one.case.id for one in results if one.failed}
    assert all(row["target"] == OFF_BY_ONE and row["type"] == "VARINT" for row in rows_of(store.failures))
    assert tallies(rows_of(store.counts))[OFF_BY_ONE].verdicts == tally(results).verdicts
    assert sum(row["count"] for row in rows_of(store.counts)) == 2 * len(cases)
    mutations = {row["mutation"] for row in rows_of(store.counts)}
    assert {"", "cut", "overlong-varint"} <= mutations


def test_the_order_of_slices_changes_no_table(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE,), INTEGERS, 300)
    ahead = judged(tmp_path / "ahead", campaign, catalog, [0, 1, 2])
    back = judged(tmp_path / "back", campaign, catalog, [2, 0, 1])
    ahead.finish()
    back.finish()
    assert ahead.counts.read_bytes() == back.counts.read_bytes()
    assert ahead.failures.read_bytes() == back.failures.read_bytes()
    assert not ahead.slices.exists()


def test_a_finished_slice_is_not_judged_again(tmp_path, catalog):
    campaign = Campaign(("reference",), INTEGERS, 200)
    store = judged(tmp_path / "out", campaign, catalog)
    before = {path: path.stat().st_mtime_ns for path in store.slices.iterdir()}
    judged(tmp_path / "out", campaign, catalog)
    assert {path: path.stat().st_mtime_ns for path in store.slices.iterdir()} == before


def test_a_crash_a_timeout_or_a_flood_is_the_verdict_of_only_its_case(tmp_path, catalog):
    program = tmp_path / "broken.py"
    program.write_text(BROKEN)
    target = f"command:{sys.executable} {program}"
    campaign = Campaign((target,), ("INT8", "INT16"), 120, terms=ResourceLimits(timeout=0.5))
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    expected = {}
    for case in (case for number in range(2) for case in campaign.cases_of(number, catalog)):
        digits = case.request.get("hex", "")
        if case.type == "INT8" and digits[:2] in ("7f", "80", "fe"):
            expected[case.id] = {"7f": "crash", "80": "timeout", "fe": "protocol"}[digits[:2]]
    assert {"crash", "timeout", "protocol"} == set(expected.values())
    assert {row["id"]: row["verdict"] for row in rows_of(store.failures)} == expected


def test_a_target_given_up_in_one_slice_is_tested_again_in_the_next(tmp_path, catalog, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, "timeout", 1)
    program = tmp_path / "broken.py"
    program.write_text(BROKEN)
    campaign = Campaign((f"command:{sys.executable} {program}",), ("INT8",), 200, terms=ResourceLimits(timeout=0.2))
    both = judged(tmp_path / "both", campaign, catalog)
    alone = judged(tmp_path / "alone", campaign, catalog, [1])
    assert both.path_of(1).read_bytes() == alone.path_of(1).read_bytes()
    for number in (0, 1):
        rows = pq.read_table(both.path_of(number))["counts"][0].as_py()
        assert [row["count"] for row in rows if row["verdict"] == "timeout"] == [1]
        assert [row for row in rows if row["verdict"] == "skip"]


def test_the_tables_have_the_documented_columns():
    docs = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    for name, schema in (("failures", making.FAILURES), ("counts", making.COUNTS)):
        (cells,) = re.findall(rf"^\| `{name}.parquet` \| (.*) \|$", docs, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", cells)) == set(schema.names) - {"count"}


# --- clusters -----------------------------------------------------------------------------------------


def smallest(store, campaign, catalog, target):
    """Return the smallest failure of each cluster of a target, converted from its row."""
    ids = [cluster.smallest.id for cluster in clusters(rows_of(store.failures), (), {target: target}).of(target)]
    return ResultRebuilder(campaign, catalog, FailurePolicy()).results(failures_of(store.failures, target, ids))


def test_failures_are_clustered_by_requirement_layout_field_mutation_and_verdict(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE,), ("VARINT", "INT8"), 400)
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    found = clusters(rows_of(store.failures), (), {OFF_BY_ONE: "liar"})
    rows = list(rows_of(store.failures))
    parts = ("requirement", "type", "op", "field", "mutation", "verdict")
    assert {tuple(getattr(one.signature, part) for part in parts) for one in found.of(OFF_BY_ONE)} == {
        tuple(row[part] for part in parts) for row in rows
    }
    assert sum(one.count for one in found.of(OFF_BY_ONE)) == len(rows) > len(found.of(OFF_BY_ONE))
    assert not found.known
    for one in found.of(OFF_BY_ONE):
        size, _, identity = one.smallest
        same = [row for row in rows if all(row[part] == getattr(one.signature, part) for part in parts)]
        assert size == min(row["size"] for row in same)
        assert identity in {row["id"] for row in same}


def test_known_failures_are_counted_and_belong_to_no_cluster(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE,), ("VARINT",), 100)
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    rows = list(rows_of(store.failures))
    found = clusters(rows, (KnownFailure("gen/*/VARINT/*", "known to be off", verdict="fail"),), {OFF_BY_ONE: "liar"})
    assert found.by_target == {}
    assert found.known[OFF_BY_ONE].total() == len(rows) > 0


def test_a_known_failure_of_a_campaign_has_requirement_cause_and_the_reported_target_name(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE,), ("VARINT",), 100)
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    rows = list(rows_of(store.failures))
    first = rows[0]
    entry = KnownFailure("", "why", target="mine", requirement=first["requirement"], cause=first["cause"])
    same = [row for row in rows if (row["requirement"], row["cause"]) == (entry.requirement, entry.cause)]
    assert clusters(rows, (entry,), {OFF_BY_ONE: "mine"}).known[OFF_BY_ONE].total() == len(same) > 1
    assert clusters(rows, (entry,), {OFF_BY_ONE: "other"}).known == {}


def _reported(outcome):
    """Return the outcome; for a timeout without the parallel requests, which depend on the clock."""
    return replace(outcome, detail="") if isinstance(outcome, NoAnswer) else outcome


def test_a_row_is_converted_back_to_its_result(tmp_path, catalog):
    program = tmp_path / "broken.py"
    program.write_text(BROKEN)
    for target in (OFF_BY_ONE, f"command:{sys.executable} {program}"):
        campaign = Campaign((target,), ("VARINT", "INT8"), 80, terms=ResourceLimits(timeout=0.5))
        store = judged(tmp_path / str(len(target)), campaign, catalog)
        store.finish()
        target_runner = SliceTask(campaign, store, catalog.requirements, {}).examiner(target, catalog)
        wanted = {one.case.id: one for one in target_runner.results(list(campaign.cases_of(0, catalog)))}
        target_runner.target.close()
        rebuilt = smallest(store, campaign, catalog, target)
        assert rebuilt
        for one in rebuilt:
            before = wanted[one.case.id]
            assert (one.case, one.level) == (before.case, before.level)
            assert _reported(one.outcome) == _reported(before.outcome)
            assert (one.counts, one.disputed, one.requirement) == (before.counts, before.disputed, before.requirement)
            assert (one.verdict.kind, one.verdict.path) == (before.verdict.kind, before.verdict.path)


def test_a_failure_is_shrunk_and_marked_flaky_if_it_does_not_repeat(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE,), ("VARINT",), 100)
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    results = smallest(store, campaign, catalog, OFF_BY_ONE)
    pairs = [(result, 1) for result in results]
    target_runner = SliceTask(campaign, store, catalog.requirements, {}).examiner(OFF_BY_ONE, catalog)
    honest = TargetRunner(TargetSpec(OFF_BY_ONE), catalog.requirements, FailurePolicy())
    try:
        small = merged(list(shrunk(pairs, target_runner, catalog)))
        flaky = list(shrunk(pairs, honest, catalog))
    finally:
        target_runner.target.close()
    assert small[0].result.case.data == b"\0"
    assert len(small) < len(pairs) == sum(one.count for one in small)
    assert all(one.flaky for one in flaky)
    assert len(flaky) == len(pairs)


# --- the folder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other, message",
    [
        ({"seed": 1}, "expected seed 0, found 1"),
        ({"cases": 200}, "expected cases 100, found 200"),
        ({"targets": ("reference", "t")}, 'expected targets ["t"], found ["reference", "t"]'),
        ({"names": ("INT8",)}, "expected types"),
        ({"terms": ResourceLimits(timeout=1)}, "expected timeout 5.0, found 1"),
    ],
)
def test_another_campaign_is_not_continued(tmp_path, other, message):
    given = {"targets": ("t",), "names": INTEGERS, "cases": 100}
    with CampaignFolder(tmp_path).opened(Campaign(**given)):
        pass
    with (
        pytest.raises(FileError, match="the folder has another campaign") as error,
        CampaignFolder(tmp_path).opened(Campaign(**{**given, **other})),
    ):
        pass
    assert message in str(error.value)


def test_a_folder_with_other_content_is_left_unchanged(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with (
        pytest.raises(FileError, match="expected a new or empty folder or a campaign"),
        CampaignFolder(tmp_path).opened(Campaign(("t",), INTEGERS, 1)),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("text", ["[]", "5", "null", "{", "[" * 50_000, "\0"])
def test_a_foreign_manifest_is_one_error(tmp_path, text):
    (tmp_path / "campaign.json").write_text(text)
    with pytest.raises(FileError, match="expected the JSON manifest of a campaign"):
        CampaignFolder(tmp_path).opened(Campaign(("t",), INTEGERS, 1)).__enter__()
    assert (tmp_path / "campaign.json").read_text() == text


def test_a_manifest_is_written_atomically(tmp_path, monkeypatch):
    def full(path, text, encoding):
        with path.open("w", encoding=encoding) as stream:
            stream.write(text[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    campaign = Campaign(("t",), INTEGERS, 1)
    with pytest.raises(OSError, match="No space"):
        CampaignFolder(tmp_path).opened(campaign).__enter__()
    monkeypatch.undo()
    with CampaignFolder(tmp_path).opened(campaign):
        assert json.loads((tmp_path / "campaign.json").read_text())["cases"] == 1


def test_a_second_process_on_a_running_campaign_is_rejected(tmp_path):
    campaign = Campaign(("t",), INTEGERS, 1)
    with (
        CampaignFolder(tmp_path).opened(campaign),
        pytest.raises(FileError, match="another process runs a campaign"),
        CampaignFolder(tmp_path).opened(campaign),
    ):
        pass


def test_a_campaign_killed_while_it_wrote_tables_writes_them_again(tmp_path, catalog, monkeypatch):
    campaign = Campaign((OFF_BY_ONE,), INTEGERS, 200)
    store = judged(tmp_path / "out", campaign, catalog)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(making, "_summed", killed)
        with pytest.raises(KeyboardInterrupt):
            store.finish()
    assert not store.complete
    assert store.done() == {0, 1}
    (store.folder / ".counts.parquet.0123abcd").touch()
    judged(tmp_path / "out", campaign, catalog)
    store.finish()
    other = judged(tmp_path / "other", campaign, catalog)
    other.finish()
    assert tables(store) == tables(other)
    assert sorted(path.name for path in store.folder.iterdir()) == [
        "campaign.json",
        "counts.parquet",
        "failures.parquet",
    ]


def test_a_campaign_killed_before_it_removed_the_slices_removes_them(tmp_path, catalog):
    campaign = Campaign((OFF_BY_ONE,), INTEGERS, 100)
    store = judged(tmp_path / "out", campaign, catalog)
    store.finish()
    before = tables(store)
    with store.opened(campaign):
        store.path_of(0).write_bytes(b"half of it was dropped")
        store.finish()
    assert tables(store) == before
    assert not store.slices.exists()


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "empty": lambda path: path.write_bytes(b""),
    "a byte changed": lambda path: path.write_bytes(path.read_bytes()[:60] + b"\xff" * 40 + path.read_bytes()[100:]),
    "another table": lambda path: pq.write_table(pa.table({"x": [1]}), path),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


THREE_SLICES = Campaign((OFF_BY_ONE,), INTEGERS, 300)


@pytest.fixture(scope="module")
def three_slices(tmp_path_factory, catalog):
    """Return the folder of a campaign with all slices judged, as a template."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slices, "SLICE", 100)
        return judged(tmp_path_factory.mktemp("campaign") / "whole", THREE_SLICES, catalog).folder


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_slice_file_is_removed_and_judged_again(three_slices, tmp_path, catalog, name):
    whole, store = (CampaignFolder(shutil.copytree(three_slices, tmp_path / copy)) for copy in ("whole", "out"))
    (store.slices / "notes.parquet").touch()
    DAMAGES[name](store.path_of(1))
    assert store.remove_damaged() == [1]
    assert store.done() == {0, 2}
    judged(tmp_path / "out", THREE_SLICES, catalog, [1])
    assert store.remove_damaged() == []
    whole.finish()
    store.finish()
    assert tables(store) == tables(whole)


@pytest.mark.parametrize("table", ["counts", "failures"])
def test_a_damaged_table_of_a_complete_campaign_is_one_line(tmp_path, catalog, table):
    store = judged(tmp_path / "out", Campaign((OFF_BY_ONE,), INTEGERS, 100), catalog)
    store.finish()
    path = getattr(store, table)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileError, match=r"damaged: .*; remove the folder to start again$") as error:
        list(rows_of(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
        Exception("<exception str() failed>"),
    ],
)
def test_a_crashed_java_is_one_line_with_the_command_to_continue(error):
    assert _reason(error) == "Spark stopped: its Java has ended (repeat the command to continue)"


def test_the_error_of_spark_is_read_before_the_session_ends(tmp_path, catalog, monkeypatch):
    state = {"open": False}

    class OfSpark(Exception):
        def __str__(self):
            assert state["open"]
            return "ValueError: no such row"

    @contextmanager
    def opened(*_):
        state["open"] = True
        yield None
        state["open"] = False

    def fail(*_):
        raise OfSpark

    monkeypatch.setattr(spark_job, "session", opened)
    monkeypatch.setattr(spark_job, "spread", fail)
    work = SliceTask(Campaign(("reference",), INTEGERS, 100), CampaignFolder(tmp_path), catalog.requirements, {})
    with work.store.opened(work.campaign), pytest.raises(spark_job.JobFailed, match=r"^ValueError: no such row"):
        spark_job.judge_slices(work, SparkOptions(), Console())


def test_a_failure_with_a_lone_surrogate_is_stored(tmp_path, catalog):
    faulty = f"command:{sys.executable} -m conformance.selftest.bad_targets requirement/header.key-surrogate-unwritable"
    campaign = Campaign((faulty,), ("SURROGATE_STRING",), 20)
    store = judged(tmp_path, campaign, catalog)
    store.finish()
    requests = [json.loads(row["request"]) for row in rows_of(store.failures)]
    assert any(re.search("[\ud800-\udfff]", request["value"]) for request in requests)


def test_intermediate_tables_exist_while_they_are_read_and_are_removed(tmp_path, catalog):
    campaign = Campaign(("reference",), INTEGERS, 300)
    store = judged(tmp_path, campaign, catalog, [1])
    with store.so_far() as part:
        assert sum(row["count"] for row in rows_of(part.counts)) == len(list(campaign.cases_of(1, catalog)))
    assert not part.folder.exists()
    assert not store.complete
    assert store.done() == {1}


# --- the command line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--select", "level:must"], "expected type:…, found 'level:must'"),
        (["--select", "type:NONESUCH"], "no type matches 'type:NONESUCH'"),
        (["--seed", "x"], "--seed: expected a number of at most 18 digits or random"),
        (["--corpus", "nowhere"], "nowhere: this file or folder does not exist"),
        (["--known-failures", "nowhere/k.yaml"], "nowhere/k.yaml"),
        (["--conf", "spark"], "--conf: expected KEY=VALUE, found 'spark'"),
    ],
)
def test_bad_input_is_one_error_and_status_2_and_creates_no_file(tmp_path, arguments, message):
    out = tmp_path / "out"
    done = CliRunner().invoke(main, ["campaign", "reference", "--cases", "10", "--out", str(out), *arguments])
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.splitlines()) == 1
    assert not out.exists()


def test_a_target_that_does_not_start_is_status_3_before_the_start_of_spark(tmp_path):
    target = f"command:{sys.executable} -m conformance.selftest.bad_targets dies-at-start"
    done = CliRunner().invoke(main, ["campaign", target, "--cases", "10", "--out", str(tmp_path / "out")])
    assert done.exit_code == 3
    assert "exited with status 9" in done.output


def test_a_disproved_claim_is_an_adapter_fault_on_every_executor(tmp_path, catalog):
    target = f"command:{sys.executable} -m conformance.selftest.bad_targets empty-claims"
    campaign = Campaign((target,), ("INT8",), 100)
    work = SliceTask(campaign, CampaignFolder(tmp_path), catalog.requirements, {})
    from conformance.pipeline.campaign.driver import _probe
    from conformance.runner.results import TargetRun

    run = TargetRun(target)
    _probe(run, work, catalog)
    assert {one.verdict.kind for one in run.results} == {"protocol"}
    assert ("decode", "INT8") in work.disproved[target]


def test_a_saved_corpus_is_read_without_the_bundled_vectors(tmp_path):
    from conformance.pipeline.campaign.driver import _corpus

    (tmp_path / "one.yaml").write_text(
        "- {id: mine/one, type: INT8, requirement: general.exact-encoding, value: 1, hex: '01', source: derived}\n"
    )
    corpus = _corpus((tmp_path,), read_catalog())
    assert {case.id for case in corpus} == {"mine/one", "mine/one:encode", "mine/one:size"}


@pytest.mark.parametrize("while_it_shrinks", [False, True])
def test_an_interrupted_campaign_has_no_verdict_unless_all_cases_are_judged(while_it_shrinks, tmp_path, monkeypatch):
    from conformance.pipeline.campaign import driver, summary

    def judge(work, *_):
        assert all(number in range(2) for number in work(range(2) if while_it_shrinks else range(1)))
        return while_it_shrinks

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "judge_slices", judge)
    monkeypatch.setattr(summary, "shrunk", interrupt)
    options = ("--cases", "200", "--select", "type:VARINT", "--out", "out", "--markdown", "m.md", "--badge", "b.svg")
    done = conformance("campaign", OFF_BY_ONE, *options, cwd=tmp_path)
    assert done.returncode == 130
    shown, halt = (tmp_path / "m.md").read_text(), re.search("interrupted after [1-9][0-9]* cases", done.stdout)
    assert bool(halt) is not while_it_shrinks
    assert (f"| {halt[0]} |" if halt else "| does not conform |") in shown
    assert (tmp_path / "b.svg").exists() is while_it_shrinks
    assert ("no badge was written" in done.stderr) is not while_it_shrinks
