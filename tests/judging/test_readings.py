"""The behaviour of targets in a case: its kind, its value, and the targets with equal behaviour."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import codec
from conformance.cases.model import (
    FAILURES,
    Accepted,
    Case,
    ExpectAnyOf,
    ExpectBytes,
    ExpectRejection,
    ExpectSequenceResults,
    ExpectSize,
    ExpectValue,
    NoAnswer,
    Rejected,
    Verdict,
    VerdictKind,
)
from conformance.judging.judge import judge
from conformance.judging.target_comparison import Behavior, ObservedBehavior, group_equal, reading_of

ARRAY = "NULLABLE_ARRAY<INT8>"


def case(expect, op="decode", type="VARINT", data=b"\x7e"):
    return Case("varint/one", op, codec.wire(type), "varint.examples", "must", {"op": op, "type": type}, expect, data)


def reading(expect, outcome, **rest):
    varint = case(expect, **rest)
    return reading_of(varint, outcome, judge(varint, outcome))


def accepted(value, consumed=1):
    return Accepted({"value": value, "consumed": consumed})


@pytest.mark.parametrize(
    ("expect", "outcome", "act"),
    [
        (ExpectValue(63, 1), accepted(63), Behavior.ACCEPTS),
        (ExpectValue(63, 1), accepted(62), Behavior.OTHER_VALUE),
        (ExpectValue(63, 1), accepted(63, 2), Behavior.OTHER_LENGTH),
        (ExpectValue(63, 1), Rejected("malformed"), Behavior.REFUSES),
        (ExpectValue(63, 1), NoAnswer("crash", "KeyError"), Behavior.CRASHES),
        (ExpectValue(63, 1), NoAnswer("timeout", "5 s"), Behavior.TIMES_OUT),
        (ExpectValue(63, 1), NoAnswer("memory", "2 GiB"), Behavior.MEMORY),
        (ExpectValue(63, 1), NoAnswer("slow", "9 s"), Behavior.SLOW),
        (ExpectRejection(), Rejected("other"), Behavior.REFUSES),
        (ExpectRejection(), accepted(63), Behavior.ACCEPTS),
        (ExpectRejection("corrupt"), Rejected("other"), Behavior.OTHER_CLASS),
        (ExpectAnyOf((ExpectValue(63, 1), ExpectRejection())), accepted(63), Behavior.ACCEPTS),
        (ExpectAnyOf((ExpectValue(63, 1), ExpectRejection())), Rejected("other"), Behavior.REFUSES),
        (ExpectAnyOf((ExpectValue(63, 1), ExpectRejection())), accepted(62), Behavior.OTHER_VALUE),
        (ExpectAnyOf(), accepted(62), Behavior.ACCEPTS),
    ],
)
def test_each_outcome_of_a_decoder_has_a_behavior(expect, outcome, act):
    varint = case(expect)
    verdict = judge(varint, outcome)
    found = reading_of(varint, outcome, verdict)
    assert (found.behavior, found.is_right) == (act, verdict.kind not in FAILURES)


@pytest.mark.parametrize(
    ("expect", "op", "answer", "act"),
    [
        (ExpectBytes(b"\x7e"), "encode", {"hex": "7e"}, Behavior.WRITES),
        (ExpectBytes(b"\x7e"), "encode", {"hex": "7f"}, Behavior.OTHER_BYTES),
        (ExpectRejection(), "encode", {"hex": "7f"}, Behavior.WRITES),
        (ExpectAnyOf((ExpectBytes(b"\x7e"), ExpectRejection())), "encode", {"hex": "7e"}, Behavior.WRITES),
        (ExpectSize(1), "size", {"size": 1}, Behavior.ACCEPTS),
        (ExpectSize(1), "size", {"size": 2}, Behavior.OTHER_VALUE),
    ],
)
def test_each_outcome_of_an_encoder_has_a_behavior(expect, op, answer, act):
    assert reading(expect, Accepted(answer), op=op).behavior is act


def numbers(expect, *outcomes, **rest):
    return group_equal([reading(expect, outcome, **rest) for outcome in outcomes])


NULL_OR_EMPTY = ExpectAnyOf((ExpectValue(None, 4), ExpectValue((), 4), ExpectRejection()))


def test_the_accepted_interpretations_of_unspecified_bytes_are_distinguished():
    outcomes = [accepted(None, 4), accepted([], 4), Rejected("malformed"), accepted([], 4), Rejected("other", "no")]
    assert numbers(NULL_OR_EMPTY, *outcomes, type=ARRAY, data=bytes(4)) == (0, 1, 2, 1, 2)


def test_without_listed_interpretations_different_values_are_distinguished():
    outcomes = [accepted(None), accepted([]), accepted([1]), accepted([1, 2]), accepted([1])]
    assert numbers(ExpectAnyOf(), *outcomes, type=ARRAY) == (0, 1, 2, 3, 2)


def test_one_value_in_two_notations_is_one_behavior():
    assert numbers(ExpectAnyOf(), accepted("5"), accepted(5), type="INT64", data=bytes(8)) == (0, 0)


def test_a_field_that_a_target_does_not_show_is_not_compared():
    batch = {"baseOffset": "0", "magic": 2}
    outcomes = [accepted(batch), accepted({"magic": 2}), accepted({**batch, "producerId": "9"})]
    assert numbers(ExpectAnyOf(), *outcomes, type="RECORD_BATCH", data=bytes(61)) == (0, 0, 0)
    assert numbers(ExpectAnyOf(), *outcomes, accepted({"magic": 1}), type="RECORD_BATCH", data=bytes(61)) == (
        0,
        0,
        0,
        1,
    )
    assert numbers(NULL_OR_EMPTY, Accepted({"consumed": 4}), accepted([], 4), type=ARRAY, data=bytes(4))[1] == 0


@pytest.mark.parametrize("order", [*itertools.permutations(["0", "1", None])])
def test_an_unknown_value_does_not_join_two_different_values(order):
    groups = group_equal([ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=text) for text in order])
    assert len({*groups}) == 3


def test_equal_wrong_answers_are_one_behavior():
    assert numbers(ExpectValue(63, 1), accepted(62), accepted(62), accepted(61), accepted(63, 9), accepted(63, 9)) == (
        0,
        0,
        1,
        2,
        2,
    )


def test_a_wrong_answer_is_never_equal_to_a_correct_one():
    assert numbers(ExpectRejection("corrupt"), Rejected("corrupt"), Rejected("other"), Rejected("malformed")) == (
        0,
        1,
        2,
    )


def test_a_read_that_ends_with_an_error_is_a_rejection():
    wrong = {"records": [], "nextOffset": "0", "error": "corrupt"}
    found = reading(ExpectAnyOf(), Accepted({"value": wrong}), op="read", type="LOG")
    assert (found.behavior, found.is_right) == (Behavior.REFUSES, True)


def test_a_rejected_batch_without_an_error_name_equals_the_expected_rejection():
    expect = ExpectSequenceResults((frozenset({"accept", "out-of-order"}), frozenset({"fenced"})))
    results = [["out-of-order", "fenced"], ["refused", "refused"], ["accept", "fenced"]]
    sequence = case(expect, op="sequence", type="LOG", data=None)
    outcomes = [Accepted({"value": result}) for result in results]
    assert all(judge(sequence, outcome).kind is VerdictKind.EITHER for outcome in outcomes)
    assert group_equal([reading_of(sequence, outcome, judge(sequence, outcome)) for outcome in outcomes]) == (0, 0, 1)


json = st.recursive(
    st.none() | st.integers(0, 1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
)
leaves = json.map(lambda value: shown_of(ExpectRejection(), accepted(value)).text)


def shown_of(expect, outcome):
    """Return the behaviour of a target that should have rejected the input."""
    return reading_of(case(expect), outcome, Verdict(VerdictKind.FAIL))


readings = st.one_of(
    st.none(),
    st.builds(
        ObservedBehavior,
        st.sampled_from([Behavior.ACCEPTS, Behavior.REFUSES]),
        st.booleans(),
        st.sampled_from(["", "1", None]),
    ),
    st.builds(ObservedBehavior, st.just(Behavior.OTHER_VALUE), is_right=st.just(value=False), text=st.none() | leaves),
)


def partition(numbers, names):
    groups = {}
    for number, name in zip(numbers, names, strict=True):
        if number is not None:
            groups.setdefault(number, set()).add(name)
    return {frozenset(group) for group in groups.values()}


@given(st.lists(readings, max_size=6), st.data())
def test_groups_of_equal_behavior_do_not_depend_on_the_order(given, data):
    order = data.draw(st.permutations(range(len(given))))
    turned = group_equal([given[at] for at in order])
    assert partition(group_equal(given), range(len(given))) == partition(turned, order)
    assert [number is None for number in group_equal(given)] == [behavior is None for behavior in given]


@given(readings, st.integers(1, 4))
def test_a_behavior_is_equal_to_itself(behavior, times):
    assert len({*group_equal([behavior] * times)}) == 1
