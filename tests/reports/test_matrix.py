"""The number of met requirements: all judged cases of a requirement must pass."""

import pytest

from conformance.cases.model import ROBUSTNESS, Verdict, VerdictKind
from conformance.judging.failure_causes import FailureCause
from conformance.reports.matrix import requirements_met
from conformance.runner.results import NO_ANSWER, Result, TargetRun

CASE = "varint/zero"


@pytest.mark.parametrize(
    ("kinds", "shares"),
    [
        ([VerdictKind.PASS, VerdictKind.PASS], (1, 1)),
        ([VerdictKind.PASS, VerdictKind.FAIL], (0, 1)),
        ([VerdictKind.FAIL, VerdictKind.PASS], (0, 1)),
        ([VerdictKind.EITHER], (1, 1)),
        ([VerdictKind.PASS, VerdictKind.SKIP], (1, 1)),
        ([VerdictKind.SKIP, VerdictKind.PASS], (1, 1)),
        ([VerdictKind.PROTOCOL], (0, 1)),
        ([VerdictKind.PASS, VerdictKind.CRASH], (0, 2)),
        ([VerdictKind.SKIP], None),
        ([], None),
    ],
    ids=str,
)
def test_a_requirement_is_met_if_all_its_judged_cases_pass(kinds, shares, catalog):
    case = catalog.cases[CASE]
    assert {catalog.requirements[name].level for name in (case.requirement, ROBUSTNESS)} == {case.level}
    results = [Result("t", case, NO_ANSWER, Verdict(kind), case.level, cause=FailureCause(kind, "")) for kind in kinds]
    run = TargetRun("t", results=results)
    assert requirements_met(run, catalog.requirements).get(case.level) == shares
