"""The progress of a run, and its waiting times."""

from collections import Counter
from itertools import count

from conformance.catalog.catalog import select
from conformance.runner import target_runner
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import target_spec

WRONG = """
def describe():
    return {"name": "wrong", "version": "1", "language": "python", "supports": {"decode": ["INT32", "VARINT"]},
            "via": {"decode": "public: decode"}}
def decode(type, data, **_):
    return {"value": 3, "consumed": len(data)}
"""


def test_the_progress_gets_the_number_of_finished_cases_and_of_failures(catalog, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    run, counts = TargetRun("wrong"), []
    cases = select(catalog.cases.values(), ["type:INT32", "type:VARINT"])
    spec = target_spec(f"module:{path}", None, ResourceLimits())
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy(), progress=lambda **now: counts.append(now))
    assert not run.problem
    shown = [now["completed"] for now in counts]
    assert shown == sorted(set(shown))
    assert shown[-1] > 0
    for now in counts:
        assert now["failures"] == sum(result.is_unexpected for result in run.results[: now["completed"] + 1])
    assert counts[-1]["failures"] > 0


def test_the_waiting_time_is_measured_per_type_without_other_work(catalog, monkeypatch):
    clock = count()
    monkeypatch.setattr(target_runner.time, "monotonic", lambda: next(clock))
    run = TargetRun("reference")
    cases = select(catalog.cases.values(), ["type:INT32", "type:VARINT"])
    spec = target_spec("reference", None, ResourceLimits())
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy(), progress=lambda **_: next(clock))
    assert run.waited == Counter(case.type for case in cases)
