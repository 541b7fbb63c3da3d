"""The expected answer: a target that returns it, with fields in any order, passes without a call of `judge`."""

import json

import pytest

from conformance.cases.model import ERRORS, PASSED, Accepted, Rejected, Unsupported, VerdictKind
from conformance.cases.stored_cases import (
    PLAIN_OPS,
    digest_of_answer,
    expected_answer,
    expected_digest,
    expected_error,
    passes,
    store,
    store_with_digest,
)
from conformance.judging.judge import judge
from conformance.strategies.seeded.cases import TYPES, generated_cases, message_types
from conformance.targets.reference import answer as reference_answer
from conformance.targets.session import outcome_of_line


@pytest.fixture(scope="module")
def cases(catalog):
    names = [*TYPES, *message_types(catalog.types.messages.values())[::5]]
    return [*catalog.cases.values(), *generated_cases(names, 20, 3, catalog)]


def accepted(answer):
    return Accepted({name: entry for name, entry in answer.items() if name != "ok"})


def test_the_expected_answer_passes(cases):
    expected = [(case, answer) for case in cases if (answer := expected_answer(case)) is not None]
    assert len(expected) > 0.5 * len(cases)
    assert [case.id for case, answer in expected if judge(case, accepted(answer)) != PASSED] == []


def test_the_expected_rejection_passes_and_another_class_fails_if_one_is_named(cases):
    expected = [(case, error) for case in cases if (error := expected_error(case)) is not None]
    assert {error for _, error in expected} >= {"", "corrupt"}
    for case, wanted in expected:
        passing = [error for error in ERRORS if judge(case, Rejected(error)).kind is VerdictKind.PASS]
        assert passing == [error for error in ERRORS if wanted in ("", error)], case.id


def test_every_case_that_passes_with_a_rejection_has_an_expected_error(cases):
    plain = [case for case in cases if case.op in PLAIN_OPS]
    unknown = [case.id for case in plain if expected_error(case) is None and judge(case, Rejected("other")) == PASSED]
    assert unknown == []


def test_the_order_of_fields_does_not_matter(cases):
    for case in cases[::50]:
        answer = expected_answer(case)
        if answer is not None:
            turned = json.loads(json.dumps(answer, sort_keys=True))
            turned = dict(reversed(turned.items()))
            assert digest_of_answer(turned) == expected_digest(case)


def test_any_other_answer_has_another_digest(cases):
    for case in cases[::50]:
        answer = expected_answer(case) or {}
        for name in answer:
            without = {key: entry for key, entry in answer.items() if key != name}
            for other in ({**answer, name: "another"}, without, {**answer, "more": None}):
                assert digest_of_answer(other) != expected_digest(case)


def test_accepted_answers_of_the_reference_are_the_expected_ones(cases):
    """Exceptions: the reference also shows message fields that the version lacks, and any NaN equals another."""
    answers = [(case, accepted(reference_answer(case.request)).answer) for case in cases[::3] if expected_digest(case)]
    unlike = [case.id for case, answer in answers if digest_of_answer(answer) != expected_digest(case)]
    exceptions = {case.type.partition("<")[0] for case in cases if case.id in {*unlike}}
    assert {"MESSAGE"} <= exceptions <= {"MESSAGE", "FLOAT64"}


def test_an_answer_with_a_lone_surrogate_never_equals_the_expected_one():
    line = json.dumps({"id": 1, "ok": True, "value": "\ud800", "consumed": 1}).encode()
    outcome = outcome_of_line(line, 1)
    assert set(outcome.answer["value"]) == {"\ufffd"}
    assert digest_of_answer({"value": "\ud800"}) == b""


def test_a_stored_case_passes_an_outcome_only_where_the_judge_passes_it(catalog):
    known = set()
    for stored in list(catalog.cases.summaries.values())[::5]:
        case = stored.to_case()
        for error in ERRORS:
            if passes(stored, Rejected(error)):
                assert judge(case, Rejected(error)) == PASSED, (case.id, error)
                known.add(error)
    assert known == set(ERRORS)


def test_a_stored_case_passes_no_answer_but_the_expected_one(catalog):
    case = catalog.cases["int8/zero"]
    expected = Accepted({"value": 0, "consumed": 1})
    assert passes(store_with_digest(case), expected)
    assert not passes(store(case), expected)
    assert not passes(store_with_digest(case), Accepted({"value": 1, "consumed": 1}))
    assert not passes(store_with_digest(case), Unsupported("not mine"))


def test_without_an_expected_answer_no_answer_passes_unjudged(catalog):
    case = catalog.cases["varint/six-bytes"]
    assert expected_digest(case) == b""
    assert not passes(store_with_digest(case), Accepted({"value": "\ud800"}))
