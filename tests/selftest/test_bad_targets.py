"""Every bad target is detected as its row says.

tests/commands/test_commands.py has the test that a correct target passes.
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

ROOT = Path(__file__).parent.parent.parent
BAD = (VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT, VerdictKind.PROTOCOL)
THE_ONE = "varint/63"


def judged(liar, cases, catalog, env, jobs=1):
    """The record of a run of a liar over cases."""
    launch = LaunchSpec(
        liar.name, (sys.executable, "-m", "conformance.selftest.bad_targets", liar.name), env, str(ROOT)
    )
    startup = liar.seconds if liar.problem else 30
    allowance = ResourceLimits(liar.seconds, startup, memory=(400 if liar.once else 1024) << 20)
    return run_of(TargetSpec(liar.name, launch, allowance, jobs), cases, catalog)


def run_of(spec, cases, catalog):
    run = TargetRun(spec.name)
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    return run


def cases_for(liar, catalog):
    """The cases of what its row names; some of the one question's type for those who are wrong at one or at none.

    A liar that must not pass any case of some is asked all of those too; of whole logs only, where it lies about these.
    """
    if liar.once or liar.problem or liar.name == "out-of-order":
        return select(catalog.cases.values(), ["requirement:varint.[ces]*"])
    named = {
        case.id for case in select(catalog.cases.values(), [f"requirement:{one.requirement}" for one in liar.caught])
    }
    asked = [case for case in catalog.cases.values() if case.id in named or isinstance(case.expect, liar.never_passes)]
    return [case for case in asked if case.op in WHOLE_LOG] if liar in LOGS else asked


def catches(results):
    """All that could give a liar away."""
    return {
        ExpectedDetection(result.verdict.kind, requirement, result.level)
        for result in results
        for requirement in ("", result.requirement, *result.also)
    }


def escapes(liar, record):
    """What the row of a liar says must come of it and did not."""
    passed = [
        result.case.id
        for result in record.results
        if isinstance(result.case.expect, liar.never_passes) and result.verdict.kind is VerdictKind.PASS
    ]
    unsaid = [] if liar.problem in record.problem and bool(liar.problem) == bool(record.problem) else [liar.problem]
    return [*(set(liar.caught) - catches(record.results)), *passed, *unsaid, *beside(liar, record)]


def beside(liar, record):
    """Where a liar that is wrong at one question only was found wrong at another, or not for certain."""
    wrong = [result for result in record.results if result.verdict.kind in BAD]
    return [result.case.id for result in wrong if liar.once and (result.case.id != THE_ONE or result.verdict.flaky)]


@pytest.mark.parametrize("liar", BAD_TARGETS.values(), ids=lambda liar: liar.name)
def test_a_liar_is_caught_by_what_its_row_names(liar, catalog, traces):
    assert escapes(liar, judged(liar, cases_for(liar, catalog), catalog, traces.env)) == []


def test_one_case_asks_the_one_question(catalog):
    op, name, digits = TRIGGER_REQUEST
    asked = [
        case.id
        for case in catalog.cases.values()
        if (case.op, case.type, case.request.get("hex")) == (op, name, digits)
    ]
    assert asked == [THE_ONE]


def test_a_liar_that_nothing_catches_is_noticed(catalog, traces):
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


def test_liars_have_names_of_their_own_and_something_to_be_caught_by():
    assert all(liar.caught or liar.problem or liar.name.startswith("leaves-a-") for liar in BAD_TARGETS.values())
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


def test_requirements_that_liars_are_caught_by_exist(catalog):
    named = {catch.requirement for liar in BAD_TARGETS.values() for catch in liar.caught} - {""}
    assert named <= set(catalog.requirements)
