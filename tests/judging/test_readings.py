"""What targets made of a case: the act, what it came to, and who did the same."""

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
    one = case(expect, **rest)
    return reading_of(one, outcome, judge(one, outcome))


def says(value, consumed=1):
    return Accepted({"value": value, "consumed": consumed})


@pytest.mark.parametrize(
    ("expect", "outcome", "act"),
    [
        (ExpectValue(63, 1), says(63), Behavior.ACCEPTS),
        (ExpectValue(63, 1), says(62), Behavior.OTHER_VALUE),
        (ExpectValue(63, 1), says(63, 2), Behavior.OTHER_LENGTH),
        (ExpectValue(63, 1), Rejected("malformed"), Behavior.REFUSES),
        (ExpectValue(63, 1), NoAnswer("crash", "KeyError"), Behavior.CRASHES),
        (ExpectValue(63, 1), NoAnswer("timeout", "5 s"), Behavior.TIMES_OUT),
        (ExpectValue(63, 1), NoAnswer("memory", "2 GiB"), Behavior.MEMORY),
        (ExpectValue(63, 1), NoAnswer("slow", "9 s"), Behavior.SLOW),
        (ExpectRejection(), Rejected("other"), Behavior.REFUSES),
        (ExpectRejection(), says(63), Behavior.ACCEPTS),
        (ExpectRejection("corrupt"), Rejected("other"), Behavior.OTHER_CLASS),
        (ExpectAnyOf((ExpectValue(63, 1), ExpectRejection())), says(63), Behavior.ACCEPTS),
        (ExpectAnyOf((ExpectValue(63, 1), ExpectRejection())), Rejected("other"), Behavior.REFUSES),
        (ExpectAnyOf((ExpectValue(63, 1), ExpectRejection())), says(62), Behavior.OTHER_VALUE),
        (ExpectAnyOf(), says(62), Behavior.ACCEPTS),
    ],
)
def test_what_a_decoder_did_has_a_name(expect, outcome, act):
    one = case(expect)
    verdict = judge(one, outcome)
    found = reading_of(one, outcome, verdict)
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
def test_what_an_encoder_did_has_a_name(expect, op, answer, act):
    assert reading(expect, Accepted(answer), op=op).behavior is act


def numbers(expect, *outcomes, **rest):
    return group_equal([reading(expect, outcome, **rest) for outcome in outcomes])


NULL_OR_EMPTY = ExpectAnyOf((ExpectValue(None, 4), ExpectValue((), 4), ExpectRejection()))


def test_at_an_open_place_the_readings_of_the_documents_are_told_apart():
    told = [says(None, 4), says([], 4), Rejected("malformed"), says([], 4), Rejected("other", "no")]
    assert numbers(NULL_OR_EMPTY, *told, type=ARRAY, data=bytes(4)) == (0, 1, 2, 1, 2)


def test_where_no_reading_is_listed_null_is_not_empty_and_a_list_is_not_a_longer_one():
    told = [says(None), says([]), says([1]), says([1, 2]), says([1])]
    assert numbers(ExpectAnyOf(), *told, type=ARRAY) == (0, 1, 2, 3, 2)


def test_one_value_in_two_spellings_is_one_reading():
    assert numbers(ExpectAnyOf(), says("5"), says(5), type="INT64", data=bytes(8)) == (0, 0)


def test_nobody_differs_by_what_he_does_not_show():
    batch = {"baseOffset": "0", "magic": 2}
    told = [says(batch), says({"magic": 2}), says({**batch, "producerId": "9"})]
    assert numbers(ExpectAnyOf(), *told, type="RECORD_BATCH", data=bytes(61)) == (0, 0, 0)
    assert numbers(ExpectAnyOf(), *told, says({"magic": 1}), type="RECORD_BATCH", data=bytes(61)) == (0, 0, 0, 1)
    assert numbers(NULL_OR_EMPTY, Accepted({"consumed": 4}), says([], 4), type=ARRAY, data=bytes(4))[1] == 0


@pytest.mark.parametrize("order", [*itertools.permutations(["0", "1", None])])
def test_who_may_stand_with_either_of_two_makes_them_not_one(order):
    told = group_equal([ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=said) for said in order])
    assert len({*told}) == 3


def test_two_that_are_wrong_may_be_wrong_in_the_same_way():
    assert numbers(ExpectValue(63, 1), says(62), says(62), says(61), says(63, 9), says(63, 9)) == (0, 0, 1, 2, 2)


def test_a_wrong_answer_is_never_one_with_a_right_one():
    assert numbers(ExpectRejection("corrupt"), Rejected("corrupt"), Rejected("other"), Rejected("malformed")) == (
        0,
        1,
        2,
    )


def test_a_fetch_that_ends_with_an_error_refuses():
    wrong = {"records": [], "nextOffset": "0", "error": "corrupt"}
    found = reading(ExpectAnyOf(), Accepted({"value": wrong}), op="read", type="LOG")
    assert (found.behavior, found.is_right) == (Behavior.REFUSES, True)


def test_a_batch_refused_without_the_name_of_the_error_met_the_refusal_that_is_due():
    expect = ExpectSequenceResults((frozenset({"accept", "out-of-order"}), frozenset({"fenced"})))
    told = [["out-of-order", "fenced"], ["refused", "refused"], ["accept", "fenced"]]
    one = case(expect, op="sequence", type="LOG", data=None)
    outcomes = [Accepted({"value": fates}) for fates in told]
    assert all(judge(one, outcome).kind is VerdictKind.EITHER for outcome in outcomes)
    assert group_equal([reading_of(one, outcome, judge(one, outcome)) for outcome in outcomes]) == (0, 0, 1)


json = st.recursive(
    st.none() | st.integers(0, 1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
)
leaves = json.map(lambda value: shown_of(ExpectRejection(), says(value)).text)


def shown_of(expect, outcome):
    """What a target showed that should have refused, whatever it is."""
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
def test_who_is_one_with_whom_does_not_follow_from_the_order(given, data):
    order = data.draw(st.permutations(range(len(given))))
    turned = group_equal([given[at] for at in order])
    assert partition(group_equal(given), range(len(given))) == partition(turned, order)
    assert [number is None for number in group_equal(given)] == [one is None for one in given]


@given(readings, st.integers(1, 4))
def test_a_reading_is_one_with_itself(one, times):
    assert len({*group_equal([one] * times)}) == 1
