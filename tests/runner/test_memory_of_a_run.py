"""The memory of a run: the part of each case, and all answers of a target together."""

import json
import sys

from peak import run_alone

from conformance.cases.model import VerdictKind
from conformance.catalog.catalog import select
from conformance.runner import target_runner
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import MAX_ANSWER_BYTES, MAX_ANSWER_BYTES_WHEN_FULL, StoredAnswer, TargetRun
from conformance.runner.selection import Selection, selected_cases
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import target_spec

WRONG = """
import json, sys
from conformance.targets.reference import answer
for line in sys.stdin:
    request = json.loads(line)
    told = answer(request)
    if request["op"] != "describe":
        told = {"ok": True, "value": told.get("value", 0), "consumed": 99, "hex": "ff", "more": "x" * 3000}
    print(json.dumps({"id": request["id"], **told}), flush=True)
"""


def run_of(generated, folder):
    """Return the number of results of a run of the reference, and its peak memory."""
    report = folder / f"{generated}.json"
    line = [sys.executable, "-m", "conformance", "run", "reference", "--select", "type:ARRAY<UUID>"]
    done, most = run_alone([*line, "--generated", str(generated), "--quiet", "--json", str(report)])
    assert done.returncode == 0, done.stderr
    return len(json.loads(report.read_text())["results"]), most


def test_each_case_of_a_run_takes_little_memory(tmp_path):
    few, base = run_of(1000, tmp_path)
    many, most = run_of(7000, tmp_path)
    assert many - few > 8000
    assert (most - base) / (many - few) < 2000


def wrong_results(catalog, tmp_path):
    """Return the results of a target with long and wrong answers."""
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    spec = target_spec(f"command:{sys.executable} {path}", None, ResourceLimits())
    run, cases = TargetRun("wrong"), select(catalog.cases.values(), ["type:INT32", "type:VARINT"])
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    return [result for result in run.results if isinstance(result.outcome, StoredAnswer)]


def test_the_stored_part_of_answers_decreases_with_their_total_size(catalog, tmp_path, monkeypatch):
    whole = wrong_results(catalog, tmp_path)
    monkeypatch.setattr(target_runner, "ANSWER_BUDGET_BYTES", 10_000)
    bounded = wrong_results(catalog, tmp_path)
    assert len(whole) == len(bounded) > 20
    sizes = [len(result.outcome.json) for result in bounded]
    assert sizes[:4] == [len(result.outcome.json) for result in whole[:4]]
    assert all(3000 < size <= MAX_ANSWER_BYTES for size in sizes[:4])
    assert all(size <= MAX_ANSWER_BYTES_WHEN_FULL for size in sizes[4:])
    assert [result.cause for result in bounded] == [result.cause for result in whole]
    assert [result.verdict for result in bounded] == [result.verdict for result in whole]


def test_results_share_the_bytes_of_their_cases(catalog):
    spec = target_spec("reference", None, ResourceLimits())
    cases = selected_cases(Selection(("type:VARINT",), generated=50), catalog, [spec])
    run = TargetRun("reference")
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    assert {result.verdict.kind for result in run.results} <= {VerdictKind.PASS, VerdictKind.EITHER}
    assert all(result.summary is case for result, case in zip(run.results, cases, strict=True))
    assert [result.case for result in run.results] == [case.to_case() for case in cases]
