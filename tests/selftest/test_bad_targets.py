"""Each bad target is detected as its row states.

tests/commands/test_commands.py tests that a correct target passes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from conformance.cases.model import VerdictKind
from conformance.cases.operations import WHOLE_LOG
from conformance.catalog.catalog import select
from conformance.process.launcher import LaunchSpec
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.selftest.bad_targets import BAD_TARGETS, LOGS, TRIGGER_REQUEST, ExpectedDetection
from conformance.targets.limits import ResourceLimits
from conformance.targets.target import TargetSpec

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent.parent
BAD = (VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT, VerdictKind.PROTOCOL)
THE_ONE = "varint/63"


def judged(bad, cases, catalog, env, jobs=1):
    """Return the record of a run of a bad target over cases."""
    launch = LaunchSpec(bad.name, (sys.executable, "-m", "conformance.selftest.bad_targets", bad.name), env, str(ROOT))
    startup = bad.seconds if bad.problem else 30
    limits = ResourceLimits(bad.seconds, startup, memory=(400 if bad.once else 1024) << 20)
    return run_of(TargetSpec(bad.name, launch, limits, jobs), cases, catalog)


def run_of(spec, cases, catalog):
    run = TargetRun(spec.name)
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    return run


def cases_for(bad, catalog):
    """Return the cases of the requirements in its row; for one with a single fault, or none, cases of that type.

    They include all cases with an expectation in `never_passes`, for a fault in logs only those of whole logs.
    """
    if bad.once or bad.problem or bad.name == "out-of-order":
        return select(catalog.cases.values(), ["requirement:varint.[ces]*"])
    named = {
        case.id
        for case in select(catalog.cases.values(), [f"requirement:{detection.requirement}" for detection in bad.caught])
    }
    cases = [case for case in catalog.cases.values() if case.id in named or isinstance(case.expect, bad.never_passes)]
    return [case for case in cases if case.op in WHOLE_LOG] if bad in LOGS else cases


def catches(results):
    """Return all possible detections in results."""
    return {
        ExpectedDetection(result.verdict.kind, requirement, result.level)
        for result in results
        for requirement in ("", result.requirement, *result.also)
    }


def escapes(bad, record):
    """Return the expected detections of a bad target that are missing, and the false ones."""
    passed = [
        result.case.id
        for result in record.results
        if isinstance(result.case.expect, bad.never_passes) and result.verdict.kind is VerdictKind.PASS
    ]
    unreported = [] if bad.problem in record.problem and bool(bad.problem) == bool(record.problem) else [bad.problem]
    return [*(set(bad.caught) - catches(record.results)), *passed, *unreported, *other_failures(bad, record)]


def other_failures(bad, record):
    """Return the failures of a bad target with a single fault in other cases, and flaky ones."""
    wrong = [result for result in record.results if result.verdict.kind in BAD]
    return [result.case.id for result in wrong if bad.once and (result.case.id != THE_ONE or result.verdict.flaky)]


@pytest.mark.parametrize("bad", BAD_TARGETS.values(), ids=lambda bad: bad.name)
def test_a_bad_target_is_detected_as_its_row_states(bad, catalog, traces):
    assert escapes(bad, judged(bad, cases_for(bad, catalog), catalog, traces.env)) == []


def test_exactly_one_case_has_the_trigger_request(catalog):
    op, name, digits = TRIGGER_REQUEST
    triggers = [
        case.id
        for case in catalog.cases.values()
        if (case.op, case.type, case.request.get("hex")) == (op, name, digits)
    ]
    assert triggers == [THE_ONE]


def test_an_undetected_bad_target_is_found(catalog, traces):
    cases = select(catalog.cases.values(), ["type:VARINT"])
    wrong_size = judged(BAD_TARGETS["wrong-size"], cases, catalog, traces.env)
    for wanted in (
        ExpectedDetection(VerdictKind.FAIL, "varint.max-five-bytes"),
        ExpectedDetection(VerdictKind.CRASH, "varint.examples"),
        ExpectedDetection(VerdictKind.FAIL, "varint.examples", "should"),
    ):
        assert escapes(replace(BAD_TARGETS["wrong-size"], caught=(wanted,)), wrong_size) == [wanted]
    assert escapes(replace(BAD_TARGETS["wrong-size"], caught=(), problem="dies"), wrong_size) == ["dies"]
    assert "varint/63:size" in escapes(replace(BAD_TARGETS["wrong-size"], once=True), wrong_size)
    assert THE_ONE in escapes(replace(BAD_TARGETS["wrong-size"], caught=(), never_passes=(object,)), wrong_size)


def test_bad_targets_are_listed_and_have_a_detection():
    assert all(bad.caught or bad.problem or bad.name.startswith("leaves-a-") for bad in BAD_TARGETS.values())
    listed = subprocess.run(
        [sys.executable, "-m", "conformance.selftest.bad_targets"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 2
    assert listed.stderr.count("\n") == 1 + len(BAD_TARGETS)


def test_a_seeded_fault_is_served_as_a_target(catalog, traces):
    name = "requirement/boolean.read-nonzero-true"
    launch = LaunchSpec(name, (sys.executable, "-m", "conformance.selftest.bad_targets", name), traces.env, str(ROOT))
    cases = select(catalog.cases.values(), ["type:BOOLEAN"])
    failed = {
        result.requirement for result in run_of(TargetSpec(name, launch), cases, catalog).results if result.failed
    }
    assert failed == {"boolean.read-nonzero-true"}


def test_requirements_of_detections_exist(catalog):
    named = {catch.requirement for bad in BAD_TARGETS.values() for catch in bad.caught} - {""}
    assert named <= set(catalog.requirements)
