"""Every requirement proves itself: a lie that breaks its statement alone fails one of its own cases."""

from __future__ import annotations

from collections import defaultdict

import pytest

from conformance.targets import lies
from conformance.targets.violations import UNPROVEN, VIOLATIONS, catches


@pytest.fixture(scope="module")
def own_cases(catalog):
    """The cases of each requirement."""
    cases = defaultdict(list)
    for case in catalog.cases.values():
        cases[case.requirement].append(case)
    return cases


@pytest.mark.parametrize("requirement", VIOLATIONS)
def test_a_violation_is_caught_by_a_case_of_its_requirement(requirement, catalog, own_cases):
    level = catalog.requirements[requirement].level
    caught = catches(VIOLATIONS[requirement], requirement, level, own_cases[requirement])
    assert next(caught, None) is not None


def test_every_requirement_with_cases_has_a_violation_or_a_reason(own_cases):
    assert set(VIOLATIONS) | set(UNPROVEN) == set(own_cases)
    assert set(VIOLATIONS).isdisjoint(UNPROVEN)


def test_an_honest_target_violates_nothing(catalog, own_cases):
    for requirement, cases in own_cases.items():
        level = catalog.requirements[requirement].level
        assert list(catches(lies.nothing, requirement, level, cases)) == []


def test_what_only_a_broker_can_break_has_no_case(catalog, own_cases):
    waiting = {name: row.judged_by for name, row in catalog.requirements.items() if row.judged_by}
    assert set(waiting.values()) == {"broker"}
    assert set(waiting).isdisjoint(own_cases)


def test_a_fault_charged_to_another_requirement_proves_nothing(own_cases):
    lie = VIOLATIONS["batch.base-offset"]
    assert list(catches(lie, "batch.producer-epoch", "must", own_cases["batch.producer-epoch"])) == []
