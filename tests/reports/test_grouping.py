"""Groups of failures: their members, their order, and the shown examples."""

from dataclasses import replace

import pytest

from conformance import codec
from conformance.cases.model import (
    Accepted,
    Case,
    CaseOrigin,
    ExpectAnyOf,
    ExpectRejection,
    ExpectValue,
    NoAnswer,
    Verdict,
    VerdictKind,
)
from conformance.reports.grouping import Section, grouped, section_of
from conformance.reports.text import number_of_cases
from conformance.runner.results import Result, ShrunkFailure, TargetRun


def result(id="a/b", kind=VerdictKind.FAIL, *, requirement="int8.layout", level="must", generated=False, **fields):
    origin = CaseOrigin.GENERATED if generated else CaseOrigin.VECTOR
    case = Case(id, "decode", codec.wire("INT8"), requirement, level, {}, ExpectValue(0, 1), b"\0", kind=origin)
    return Result("t", case, Accepted({}), Verdict(kind, "the value differs"), level, **fields)


def crashed(id, text="IndexError: 1", *, level="must", requirement="int8.layout", size=1, generated=False, **fields):
    origin = CaseOrigin.GENERATED if generated else CaseOrigin.VECTOR
    case = Case(id, "decode", codec.wire("INT8"), requirement, level, {}, ExpectValue(0, 1), bytes(size), kind=origin)
    return Result("t", case, NoAnswer("crash", text), Verdict(VerdictKind.CRASH, text), level, **fields)


def groups(*results, shrunk=()):
    return grouped(TargetRun("t", results=list(results), shrunk=list(shrunk)))


def ids(results):
    return [one.case.id for one in results]


def shown(group):
    return ids(example.result for example in group.examples)


@pytest.mark.parametrize(
    ("one", "section"),
    [
        (result(kind=VerdictKind.PASS), None),
        (result(kind=VerdictKind.SKIP), None),
        (result(kind=VerdictKind.EITHER), None),
        (result(), Section.FAILURES),
        (result(kind=VerdictKind.CRASH), Section.FAILURES),
        (result(kind=VerdictKind.TIMEOUT), Section.FAILURES),
        (result(level="may"), Section.FAILURES),
        (result(disputed=True), Section.DISPUTED),
        (result(known=True), Section.KNOWN),
        (result(known=True, disputed=True), Section.KNOWN),
        (result(kind=VerdictKind.PROTOCOL), Section.FAULTS),
    ],
)
def test_each_failure_belongs_to_one_section_and_other_results_to_none(one, section):
    assert section_of(one) is section


def test_failures_of_one_cause_are_one_group_over_requirements_and_levels_in_the_order_of_the_run():
    (group,) = groups(
        crashed("a/z", level="may"),
        result("a/passed", VerdictKind.PASS),
        crashed("a/b", "IndexError: 2", requirement="varint.range"),
        crashed("gen/1", "IndexError: 3", requirement="varint.range", generated=True),
    )
    assert (group.target, group.section, group.level) == ("t", "failures", "must")
    assert group.cause.text == "crash: IndexError: #"
    assert group.requirements == ("varint.range", "int8.layout")
    assert ids(group.members) == ["a/z", "a/b", "gen/1"]
    assert (group.count, group.vectors, group.generated) == (3, 2, 1)


def test_failures_of_two_causes_are_two_groups_even_for_one_requirement():
    assert [ids(group.members) for group in groups(crashed("a/b"), crashed("a/c", "KeyError"))] == [["a/b"], ["a/c"]]


def test_disputed_and_known_failures_are_separate_groups_for_every_cause():
    found = groups(crashed("a/b"), crashed("a/c", disputed=True), crashed("a/d", known=True))
    assert [group.section for group in found] == ["failures", "disputed", "known"]
    assert len({group.cause for group in found}) == 1


def test_the_smallest_case_of_the_highest_level_is_shown_and_others_are_sorted_by_size():
    (group,) = groups(
        crashed("a/small", level="may", size=1), crashed("a/9", size=9), crashed("a/3", size=3), crashed("a/5", size=5)
    )
    assert shown(group) == ["a/3"]
    assert ids(group.others) == ["a/small", "a/5", "a/9"]


def test_a_larger_case_is_shown_if_the_smallest_is_unspecified():
    def at_an_open_place(one):
        case = replace(one.case, expect=ExpectAnyOf((ExpectRejection(), ExpectValue(0, 1))))
        return Result("t", case, one.outcome, one.verdict, one.level)

    small, large = at_an_open_place(crashed("a/open", size=1)), crashed("a/plain", size=3)
    (group,) = groups(small, large, crashed("a/may", level="may", size=2))
    assert shown(group) == ["a/plain"]
    assert shown(*groups(small, crashed("a/may", level="may"))) == ["a/open"]


def test_groups_are_sorted_by_section_level_and_number_of_cases():
    fault = result("f", VerdictKind.PROTOCOL)
    known, disputed = crashed("k", known=True), crashed("d", disputed=True)
    may, should = crashed("c", "C", level="may"), crashed("b", "B", level="should")
    rare, often, again = crashed("z", "A"), crashed("a", "Z"), crashed("b", "Z")
    order = [ids(group.members) for group in groups(fault, known, disputed, may, should, rare, often, again)]
    assert order == [["a", "b"], ["z"], ["b"], ["c"], ["d"], ["k"], ["f"]]


def test_a_shrunk_case_replaces_generated_ones_and_a_vector_of_at_most_its_size_is_shown():
    members = [crashed("gen/1", generated=True, size=9), crashed("a/b", size=4), crashed("gen/2", generated=True)]
    for size, expected in ((3, "bytes/x"), (4, "a/b")):
        smallest = ShrunkFailure(crashed("bytes/x", generated=True, size=size), 2, "gen/1", flaky=True)
        (group,) = groups(*members, shrunk=[smallest])
        assert ids(group.members) == ["gen/1", "a/b", "gen/2"]
        assert shown(group) == [expected]
        assert group.count == 3
    (example,) = groups(members[0], shrunk=[smallest])[0].examples
    assert (example.count, example.origin, example.flaky) == (2, "gen/1", True)


def test_generated_failures_are_shown_if_none_was_shrunk():
    (group,) = groups(result("gen/1", generated=True))
    assert shown(group) == ["gen/1"]


def test_a_shrunk_case_counts_all_failures_of_its_kind_in_a_campaign():
    smallest = ShrunkFailure(result("bytes/x", generated=True), 1000, "gen/1")
    (group,) = groups(result("gen/1", generated=True), shrunk=[smallest])
    assert (len(group.members), group.count) == (1, 1000)


def test_known_failures_are_counted_and_not_shown():
    (group,) = groups(result("a/b", known=True), result("a/c", known=True))
    assert (group.section, group.count, group.examples) == (Section.KNOWN, 2, ())


def test_faults_of_the_adapter_are_one_group_for_all_requirements():
    (group,) = groups(
        result("a/z", VerdictKind.PROTOCOL),
        result("a/b", VerdictKind.PROTOCOL, requirement="array.layout", level="may"),
    )
    assert (group.cause, group.level, group.requirements) == (None, "", ())
    assert shown(group) == ["a/z", "a/b"]


def test_a_user_case_is_not_called_generated():
    one = crashed("bytes/INT8/0")
    case = replace(one.case, kind=CaseOrigin.AD_HOC)
    (group,) = groups(Result("t", case, one.outcome, one.verdict, one.level))
    assert number_of_cases(group) == "the case of --case"
    (group,) = groups(crashed("gen/4/INT8/0/1", generated=True))
    assert number_of_cases(group) == "1 generated case"
