"""The answer that is due: whoever gives it, in whatever order of fields, has passed in full, as `judge` would say."""

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


def test_the_answer_that_is_due_passes_in_full(cases):
    due = [(case, answer) for case in cases if (answer := expected_answer(case)) is not None]
    assert len(due) > 0.5 * len(cases)
    assert [case.id for case, answer in due if judge(case, accepted(answer)) != PASSED] == []


def test_the_refusal_that_is_due_passes_and_another_class_does_not_where_one_is_named(cases):
    due = [(case, refusal) for case in cases if (refusal := expected_error(case)) is not None]
    assert {refusal for _, refusal in due} >= {"", "corrupt"}
    for case, refusal in due:
        passing = [error for error in ERRORS if judge(case, Rejected(error)).kind is VerdictKind.PASS]
        assert passing == [error for error in ERRORS if refusal in ("", error)], case.id


def test_whether_a_refusal_passes_is_known_of_every_case_that_is_refused(cases):
    asked = [case for case in cases if case.op in PLAIN_OPS]
    unknown = [case.id for case in asked if expected_error(case) is None and judge(case, Rejected("other")) == PASSED]
    assert unknown == []


def test_the_order_of_fields_does_not_matter(cases):
    for case in cases[::50]:
        answer = expected_answer(case)
        if answer is not None:
            turned = json.loads(json.dumps(answer, sort_keys=True))
            turned = dict(reversed(turned.items()))
            assert digest_of_answer(turned) == expected_digest(case)


def test_any_other_answer_is_left_to_the_judge(cases):
    for case in cases[::50]:
        answer = expected_answer(case) or {}
        for name in answer:
            without = {key: entry for key, entry in answer.items() if key != name}
            for other in ({**answer, name: "another"}, without, {**answer, "more": None}):
                assert digest_of_answer(other) != expected_digest(case)


def test_what_the_reference_answers_is_due_where_it_accepts(cases):
    """Only of a message it shows more than is due, which the version does not have; and a NaN is as good as another."""
    told = [(case, accepted(reference_answer(case.request)).answer) for case in cases if expected_digest(case)]
    unlike = [case.id for case, answer in told if digest_of_answer(answer) != expected_digest(case)]
    assert {case.type.partition("<")[0] for case in cases if case.id in {*unlike}} == {"MESSAGE", "FLOAT64"}


def test_an_answer_with_a_lone_surrogate_is_never_taken_for_the_one_that_is_due():
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
