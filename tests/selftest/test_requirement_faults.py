"""Each requirement has a fault that breaks only its statement, and one of its own cases detects it."""

from __future__ import annotations

import types
from collections import defaultdict

import pytest

from conformance.selftest import FAULTS
from conformance.selftest.mutators import unchanged
from conformance.selftest.requirement_faults import REQUIREMENT_FAULTS, UNTESTED_REQUIREMENTS, catching_cases


@pytest.fixture(scope="module")
def own_cases(catalog):
    """Return the cases of each requirement."""
    cases = defaultdict(list)
    for case in catalog.cases.values():
        cases[case.requirement].append(case)
    return cases


@pytest.mark.parametrize("requirement", REQUIREMENT_FAULTS)
def test_a_fault_is_detected_by_a_case_of_its_requirement(requirement, catalog, own_cases):
    level = catalog.requirements[requirement].level
    caught = catching_cases(REQUIREMENT_FAULTS[requirement], requirement, level, own_cases[requirement])
    assert next(caught, None) is not None


def test_every_requirement_with_cases_has_a_fault_or_a_reason(own_cases):
    assert set(REQUIREMENT_FAULTS) | set(UNTESTED_REQUIREMENTS) == set(own_cases)
    assert set(REQUIREMENT_FAULTS).isdisjoint(UNTESTED_REQUIREMENTS)


def test_the_reference_fails_no_case(catalog, own_cases):
    for requirement, cases in [*own_cases.items()][::10]:
        level = catalog.requirements[requirement].level
        assert list(catching_cases(unchanged, requirement, level, cases)) == []


def test_a_fault_attributed_to_another_requirement_does_not_count(own_cases):
    fault = REQUIREMENT_FAULTS["batch.base-offset"]
    assert list(catching_cases(fault, "batch.producer-epoch", "must", own_cases["batch.producer-epoch"])) == []


# --- seeded faults ------------------------------------------------------------------------------------


def test_every_seeded_fault_has_a_requirement_or_link_as_source(catalog):
    for defect in FAULTS.values():
        assert defect.source in catalog.requirements or defect.source.startswith("https://"), defect.id
        assert defect.description or defect.source in catalog.requirements, defect.id
        assert set(defect.try_first) <= set(catalog.requirements), defect.id


def shape(value, depth=24):
    """Return the code and the closure of a function as a value, equal for two functions with the same behaviour."""
    inner = depth - 1
    if not depth:
        return None
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return shape(value.__code__, inner), *(shape(part, inner) for part in (cells, value.__defaults__))
    if isinstance(value, types.CodeType):
        return value.co_code, value.co_names, shape(value.co_consts, inner)
    if isinstance(value, tuple | list):
        return tuple(shape(part, inner) for part in value)
    return tuple((key, shape(part, inner)) for key, part in value.items()) if isinstance(value, dict) else repr(value)


def test_no_two_seeded_faults_are_equal():
    # SAME_FAULT (conformance/selftest) lists a fault that also breaks another requirement.
    alike = defaultdict(list)
    for defect in FAULTS.values():
        alike[shape(defect.mutate)].append(defect.id)
    assert [ids for ids in alike.values() if len(ids) > 1] == []


def test_each_omitted_fault_equals_a_seeded_one():
    left_out = set(REQUIREMENT_FAULTS) - {
        defect.source for defect in FAULTS.values() if defect.id.startswith("requirement/")
    }
    there = {shape(defect.mutate) for defect in FAULTS.values()}
    assert left_out
    assert [name for name in left_out if shape(REQUIREMENT_FAULTS[name]) not in there] == []
