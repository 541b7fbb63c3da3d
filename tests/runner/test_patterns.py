"""A selection without a possible match is an early error, before cases are generated and targets start."""

import pytest

from conformance.errors import UserError
from conformance.runner import selection as running_selection
from conformance.runner.selection import Selection, check_patterns, selected_cases
from conformance.strategies.seeded import cases as seeded
from conformance.strategies.seeded.generator import VERSION

TYPOS = {
    "varnt/six-bytes": "varint/six-bytes",
    "varnt/*": "varint/*",
    "varint/six-byts*": "varint/six-bytes",
    "type:VARIN": "type:VARINT",
    "type:varint": "type:VARINT",
    "type:MESSAGE<FetchReqest,4>": "type:MESSAGE<FetchRequest,4>",
    "requirement:varint.max-five-byte": "requirement:varint.max-five-bytes",
    "level:mus": "level:must",
    f"gen/{VERSION}/VARIN/*": f"gen/{VERSION}/VARINT/0/*",
    f"gen/{VERSION}/LARGE_BITES/0/1*": f"gen/{VERSION}/LARGE_BYTES/0/*",
    f"gen/{VERSION}/VARINT/1/*": f"gen/{VERSION}/VARINT/0/*",
    "*six-bites": "see `conformance list`",
    "MESSAGE*": "see `conformance list`",
}


@pytest.mark.parametrize("typo, near", TYPOS.items(), ids=TYPOS)
def test_a_pattern_without_a_match_is_rejected_early_with_similar_names(typo, near, catalog, monkeypatch):
    monkeypatch.setattr(seeded, "cases_at", lambda *_: pytest.fail("a case was made"))
    monkeypatch.setattr(running_selection, "_descriptions", lambda _: pytest.fail("a target was started"))
    with pytest.raises(UserError) as refused:
        selected_cases(Selection((typo,)), catalog, [])
    assert near in str(refused.value)
    assert repr(typo) in str(refused.value)


def test_a_wrong_pattern_next_to_a_right_one_is_reported(catalog):
    with pytest.raises(UserError, match=r"--select: no case matches 'varnt/\*' \(nearest: varint/\*"):
        selected_cases(Selection(("varint/*", "varnt/*")), catalog, [])


@pytest.mark.parametrize(
    "pattern",
    [
        "varint/six-bytes",
        "varint/*:encode",
        "type:ARRAY",
        "type:MESSAGE",
        "type:MESSAGE<Fetch*,4>",
        "level:m*",
        "requirement:varint.*",
        f"gen/{VERSION}/VARINT/0/3",
        f"gen/{VERSION}/VARINT/17/3",
        "gen/*/MESSAGE<FetchRequest,4>/*:skewed",
        "gen/*/LARGE_STRING/0/1[0-9]:*",
        "*:encode",
    ],
)
def test_a_pattern_with_a_possible_match_is_accepted(pattern, catalog):
    check_patterns([pattern], catalog, 200, 0)


def test_a_large_number_of_generated_cases_accepts_every_index(catalog):
    late = f"gen/{VERSION}/VARINT/0/12345[67]"
    check_patterns([late], catalog, 200_000, 0)
    with pytest.raises(UserError):
        check_patterns([late], catalog, 200, 0)


def test_every_generated_case_has_one_of_the_checked_ids(catalog):
    names = ["VARINT", "LARGE_STRING", "SURROGATE_STRING", "READ_COMMITTED", "MESSAGE<SaslHandshakeRequest,1>"]
    names = [name for name in names if name in seeded.types_for([], ["MESSAGE<SaslHandshakeRequest,1>"])]
    assert len(names) >= 4
    ids = {case.id for case in seeded.generated_cases(names, 160, 3, catalog)}
    assert ids <= set(seeded.generated_ids(names, 160, 3, catalog))
    assert any(name.endswith(":skewed") for name in ids)
