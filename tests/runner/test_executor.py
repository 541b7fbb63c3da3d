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


def test_the_record_of_a_target_counts_its_failures(catalog, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    counts = []
    run = TargetRun("wrong", on_result=lambda _: counts.append((len(run.results), run.failures)))
    cases = select(catalog.cases.values(), ["type:INT32", "type:VARINT"])
    spec = target_spec(f"module:{path}", None, ResourceLimits())
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    assert not run.problem
    assert [done for done, _ in counts] == [*range(1, len(run.results) + 1)]
    assert counts[-1][1] > 0
    for done, failures in counts:
        assert failures == sum(result.is_unexpected for result in run.results[:done])


def test_the_waiting_time_is_measured_per_type_without_other_work(catalog, monkeypatch):
    clock = count()
    monkeypatch.setattr(target_runner.time, "monotonic", lambda: next(clock))
    run = TargetRun("reference")
    cases = select(catalog.cases.values(), ["type:INT32", "type:VARINT"])
    spec = target_spec("reference", None, ResourceLimits())
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    assert run.waited == Counter(case.type for case in cases)
