"""Answers that pass without a judgement also pass `judge`."""

from conformance.cases.model import ERRORS, PASSED, Accepted, Rejected, Unsupported
from conformance.cases.packed_cases import AcceptedAsExpected
from conformance.judging.judge import judge
from conformance.runner.examiner import _passes


def test_a_rejection_passes_unjudged_only_if_the_judge_passes_it(catalog):
    known = set()
    for label in list(catalog.cases.labels.values())[::5]:
        case = catalog.cases[label.id]
        for error in ERRORS:
            if _passes(label, Rejected(error)):
                assert judge(case, Rejected(error)) == PASSED, (label.id, error)
                known.add(error)
    assert known == set(ERRORS)


def test_only_the_expected_answer_passes_unjudged(catalog):
    label = catalog.cases.labels["int8/zero"]
    assert _passes(label, AcceptedAsExpected())
    assert judge(catalog.cases["int8/zero"], AcceptedAsExpected()) == PASSED
    assert not _passes(label, Accepted({"value": 0, "consumed": 1}))
    assert not _passes(label, Unsupported("not mine"))
