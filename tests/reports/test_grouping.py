"""Which failures are one group, in which order the groups stand, and which examples of each are shown."""

import pytest

from conformance import codec
from conformance.cases.model import Accepted, Case, CaseKind, Kind, Reads, Verdict
from conformance.reports.grouping import Section, grouped, section_of
from conformance.running.results import Result, Shrunk, TargetRun


def result(id="a/b", kind=Kind.FAIL, *, requirement="int8.layout", level="must", generated=False, **fields):
    origin = CaseKind.GENERATED if generated else CaseKind.VECTOR
    case = Case(id, "decode", codec.wire("INT8"), requirement, level, {}, Reads(0, 1), b"\0", kind=origin)
    return Result("t", case, Accepted({}), Verdict(kind, "the value differs"), level, **fields)


def groups(*results, shrunk=()):
    return grouped(TargetRun("t", results=list(results), shrunk=list(shrunk)))


def ids(results):
    return [one.case.id for one in results]


def shown(group):
    return ids(example.result for example in group.examples)


@pytest.mark.parametrize(
    ("one", "section"),
    [
        (result(kind=Kind.PASS), None),
        (result(kind=Kind.SKIP), None),
        (result(kind=Kind.EITHER), None),
        (result(), Section.FAILURES),
        (result(kind=Kind.CRASH), Section.FAILURES),
        (result(kind=Kind.TIMEOUT), Section.FAILURES),
        (result(level="may"), Section.FAILURES),
        (result(disputed=True), Section.DISPUTED),
        (result(known=True), Section.KNOWN),
        (result(known=True, disputed=True), Section.KNOWN),
        (result(kind=Kind.PROTOCOL), Section.FAULTS),
    ],
)
def test_a_failure_belongs_to_one_section_and_nothing_else_to_any(one, section):
    assert section_of(one) is section


def test_failures_of_one_requirement_at_one_level_are_one_group_in_the_order_of_the_run():
    (group,) = groups(result("a/z"), result("a/passed", Kind.PASS), result("a/b"))
    assert (group.target, group.section, group.level, group.requirement) == ("t", "failures", "must", "int8.layout")
    assert ids(group.members) == shown(group) == ["a/z", "a/b"]
    assert group.count == 2


def test_groups_stand_by_section_then_level_then_requirement():
    fault = result("f", Kind.PROTOCOL)
    known, disputed = result("k", known=True), result("d", disputed=True)
    may, should = result("c", level="may"), result("b", level="should")
    later, first = result("z", requirement="varint.layout"), result("a", requirement="array.layout")
    order = [ids(group.members) for group in groups(fault, known, disputed, may, should, later, first)]
    assert order == [["a"], ["z"], ["b"], ["c"], ["d"], ["k"], ["f"]]


def test_shrunk_cases_are_shown_instead_of_the_generated_ones_and_vectors_beside_them():
    members = [result("gen/1", generated=True), result("a/b"), result("gen/2", generated=True)]
    smallest = Shrunk(result("bytes/x", generated=True), 2, "gen/1", flaky=True)
    (group,) = groups(*members, shrunk=[smallest])
    assert ids(group.members) == ["gen/1", "a/b", "gen/2"]
    assert shown(group) == ["a/b", "bytes/x"]
    assert [(example.count, example.origin, example.flaky) for example in group.examples] == [
        (1, "", False),
        (2, "gen/1", True),
    ]
    assert group.count == 3


def test_generated_failures_are_shown_themselves_where_nothing_was_shrunk():
    (group,) = groups(result("gen/1", generated=True))
    assert shown(group) == ["gen/1"]


def test_a_shrunk_case_counts_all_it_stands_for_though_a_campaign_keeps_only_some_of_them():
    smallest = Shrunk(result("bytes/x", generated=True), 1000, "gen/1")
    (group,) = groups(result("gen/1", generated=True), shrunk=[smallest])
    assert (len(group.members), group.count) == (1, 1000)


def test_known_failures_are_counted_and_none_of_them_is_shown():
    (group,) = groups(result("a/b", known=True), result("a/c", known=True))
    assert (group.section, group.count, group.examples) == (Section.KNOWN, 2, ())


def test_faults_of_the_adapter_are_one_group_whatever_the_requirement():
    (group,) = groups(
        result("a/z", Kind.PROTOCOL), result("a/b", Kind.PROTOCOL, requirement="array.layout", level="may")
    )
    assert (group.requirement, group.level) == ("", "")
    assert shown(group) == ["a/z", "a/b"]
