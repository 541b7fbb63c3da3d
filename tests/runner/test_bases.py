"""`--basis`: the selected cases and the counted failures."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.cases.attribution import basis_of
from conformance.cases.model import BASES, Accepted, Verdict, VerdictKind
from conformance.catalog.catalog import of_bases
from conformance.catalog.vector_files import read_requirements
from conformance.errors import FileError
from conformance.pipeline.campaign.slices import Campaign
from conformance.runner.policy import FailurePolicy

SIX_BYTES = "varint/six-bytes"


def result(catalog, policy, basis, *, charged_to=""):
    """Return a failure of a case with a stated requirement, attributed to a requirement with a basis."""
    case = catalog.cases[SIX_BYTES]
    charged = charged_to or case.requirement
    stated = replace(catalog.requirements[case.requirement], basis="stated")
    requirements = {case.requirement: stated}
    requirements[charged] = replace(catalog.requirements[charged], basis=basis, level="must")
    verdict = Verdict(VerdictKind.FAIL, "wrong", requirement=charged_to)
    return policy.result("t", case, Accepted({}), verdict, requirements)


def test_every_requirement_has_a_basis_and_every_basis_has_requirements(catalog):
    assert {row.basis for row in catalog.requirements.values()} == set(BASES)


@pytest.mark.parametrize(
    ("basis", "problem"),
    [
        ("basis: guessed, ", r"yaml:1: a\.b: basis: expected one of stated, implied, settled"),
        ("", r"yaml:1: \[0\]: missing required field `basis`"),
    ],
    ids=["another word", "none"],
)
def test_a_requirement_without_a_valid_basis_is_an_error_of_the_register(tmp_path, basis, problem):
    path = tmp_path / "requirements.yaml"
    path.write_text(f'- {{id: a.b, level: must, {basis}statement: "s", source: [primitive-types#varint]}}\n')
    with pytest.raises(FileError, match=problem):
        read_requirements(path)


def test_a_basis_selects_the_cases_of_its_requirements(catalog):
    cases = list(catalog.cases.values())
    by_basis = {basis: of_bases(cases, (basis,), catalog.requirements) for basis in BASES}
    for basis, chosen in by_basis.items():
        assert {basis_of(catalog.requirements[case.requirement], case) for case in chosen} == {basis}
    assert sum(map(len, by_basis.values())) == len(cases)
    assert of_bases(cases, BASES, catalog.requirements) == of_bases(cases, (), catalog.requirements) == cases


def test_a_campaign_runs_only_the_cases_of_its_bases(catalog):
    campaign = Campaign(("reference",), ("VARINT", "RECORD"), 200)
    every = campaign.cases_of(0, catalog)
    chosen = replace(campaign, bases=("implied",)).cases_of(0, catalog)
    assert chosen == of_bases(every, ("implied",), catalog.requirements) != every
    assert replace(campaign, bases=("implied",)).identity() != campaign.identity()


@pytest.mark.parametrize(
    ("identity", "basis"),
    [
        ("record/key-one-beyond", "implied"),  # key-length is stated, the result for a cut key is not
        ("record/key-of-63-bytes", "stated"),
        ("batch/record-key-one-beyond:read", "implied"),
        ("string/length-minus-2", "implied"),
        ("varint/2147483648", "implied"),
        ("tagged-fields/out-of-order", "implied"),  # the order is stated only for writers
        ("varint/six-bytes", "stated"),
        ("string/null", "stated"),
        ("string/encode-null", "stated"),
        ("crc/one", "stated"),
        ("message-set/v0-codec-5", "settled"),
    ],
)
def test_a_rejection_is_implied_unless_the_document_states_it(catalog, identity, basis):
    case = catalog.cases[identity]
    assert basis_of(catalog.requirements[case.requirement], case) == basis
    assert [case] == of_bases([case], (basis,), catalog.requirements)
    verdict = Verdict(VerdictKind.FAIL, "accepted, but it must be rejected")
    policy = FailurePolicy(bases=(basis,), strict=True)
    assert policy.result("t", case, Accepted({}), verdict, catalog.requirements).counts
    others = FailurePolicy(bases=tuple(other for other in BASES if other != basis), strict=True)
    result = others.result("t", case, Accepted({}), verdict, catalog.requirements)
    assert (result.basis, result.counts) == (basis, False)


def test_a_wrong_value_before_damage_has_the_basis_of_its_own_requirement(catalog):
    case = catalog.cases["batch/record-key-one-beyond:read"]
    verdict = Verdict(VerdictKind.FAIL, "nextOffset is wrong", requirement="offset.next-formula")
    result = FailurePolicy().result("t", case, Accepted({}), verdict, catalog.requirements)
    assert result.basis == catalog.requirements["offset.next-formula"].basis == "stated"


@pytest.mark.parametrize("basis", BASES)
def test_a_result_has_the_basis_of_its_attributed_requirement(catalog, basis):
    assert result(catalog, FailurePolicy(), basis).basis == basis
    assert result(catalog, FailurePolicy(), basis, charged_to="varint.examples").basis == basis


def test_a_failure_of_a_requirement_with_another_basis_does_not_count(catalog):
    only_stated = FailurePolicy(bases=("stated",))
    assert result(catalog, only_stated, "stated").counts
    assert not result(catalog, only_stated, "implied", charged_to="varint.examples").counts
    assert result(catalog, FailurePolicy(bases=("stated", "implied")), "implied", charged_to="varint.examples").counts
    assert result(catalog, FailurePolicy(), "settled", charged_to="varint.examples").counts
