"""Known failures: the results that an entry excuses, and stale entries."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance import codec
from conformance.cases.model import Accepted, Case, CaseOrigin, ExpectValue, Rejected, Verdict, VerdictKind
from conformance.errors import FileError
from conformance.runner.known_failures import KnownFailure, known_text, read_known, stale, unseen, update_lines, updated
from conformance.runner.results import Result

RULE, TOO_LONG = "int8.layout", "rejected: too long"


def result(
    id="a/b", kind=VerdictKind.FAIL, *, target="t", known=False, counts=True, flaky=False, message=None, name=""
):
    made = CaseOrigin.GENERATED if id.startswith("gen/") else CaseOrigin.VECTOR
    case = Case(id, "decode", codec.wire("INT8"), RULE, "must", {}, ExpectValue(0, 1), b"\0", kind=made)
    verdict = Verdict(kind, "the value differs", flaky=flaky)
    outcome = Accepted({}) if message is None else Rejected("malformed", message)
    return Result(target, case, outcome, verdict, "must", known=known, counts=counts, name=name)


def entry(id="a/b", **rest):
    return KnownFailure(id, "why", **rest)


def by_cause(cause=TOO_LONG, **rest):
    return KnownFailure("", "why", requirement=RULE, cause=cause, **rest)


# --- reading ------------------------------------------------------------------------------------------


def read(tmp_path, text):
    path = tmp_path / "known.yaml"
    path.write_text(text)
    return read_known(path)


def test_an_entry_is_read_with_all_its_keys(tmp_path):
    text = "- {id: a/b, reason: why}\n- {id: 'c/*', reason: x, verdict: crash, target: kio, flaky: true}\n"
    assert read(tmp_path, text) == (
        KnownFailure("a/b", "why", line=1),
        KnownFailure("c/*", "x", "crash", "kio", flaky=True, line=2),
    )
    assert read(tmp_path, "[]") == ()


def test_an_entry_is_read_by_requirement_and_cause(tmp_path):
    text = f"- {{requirement: {RULE}, cause: '{TOO_LONG}', reason: why, target: t}}\n"
    assert read(tmp_path, text) == (by_cause(target="t", line=1),)


def test_a_file_that_does_not_exist_yet_is_an_empty_one(tmp_path):
    assert read_known(tmp_path / "known.yaml") == ()


def test_a_file_in_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileError):
        read_known(tmp_path / "nowhere" / "known.yaml")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 0, "list"),
        ("id: a", 0, "list"),
        ("- a/b", 1, "mapping"),
        ("\n- {reason: x}", 2, "id"),
        ("- {id: 5, reason: x}", 1, "id"),
        ("- {id: a/b}", 1, "reason"),
        ("- {id: a/b, reason: [x]}", 1, "reason"),
        ("- {id: a/b, reason: x}\n- {id: a/b, reason: x, verdict: pass}", 2, "verdict"),
        ("- {id: a/b, reason: x, verdict: skip}", 1, "verdict"),
        ("- {id: a/b, reason: x, target: 5}", 1, "target"),
        ("- {id: a/b, reason: x, flaky: 'yes'}", 1, "flaky"),
        ("- {id: a/b, reason: x, since: '1'}", 1, "since"),
        ("- {id: a/b, reason: x, id: a/b}", 1, "twice"),
        ("- {requirement: int8.layout, reason: x}", 1, "or a requirement and a cause"),
        ("- {id: a/b, requirement: int8.layout, cause: x, reason: x}", 1, "or a requirement and a cause"),
        ("- {id: a/b, requirement: '', reason: x}", 1, "not empty"),
        ("- {requirement: int8.layout, cause: '', reason: x}", 1, "not empty"),
        ("- {id: '', reason: x}", 1, "not empty"),
    ],
)
def test_a_malformed_file_is_an_error_with_path_and_line(tmp_path, text, line, problem):
    with pytest.raises(FileError, match=problem) as caught:
        read(tmp_path, text)
    assert caught.value.path == str(tmp_path / "known.yaml")
    assert caught.value.line == line


# --- excusing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "case", "covers"),
    [
        *[("a/b", "a/b", True), ("a/b", "a/bc", False), ("a/*", "a/b", True), ("a/*", "b/a", False)],
        *[("a/b", "a/b:encode", False), ("a/b*", "a/b:encode", True), ("*", "x/y/z", True), ("a/?", "a/b", True)],
        *[("A/b", "a/b", False), ("gen/4/RECORD/0/[5]", "gen/4/RECORD/0/[5]", True)],
    ],
)
def test_an_id_may_be_a_glob(pattern, case, covers):
    assert entry(pattern).covers("t", case) is covers


def test_an_entry_from_an_update_does_not_excuse_another_cause():
    (written,) = updated([], [result()], []).entries
    assert written.excuses(result())
    assert not replace(written, requirement="int16.layout").excuses(result())
    assert replace(written, requirement="").excuses(result()), "an entry written by hand may excuse any"


def test_an_entry_may_be_narrowed_to_a_target_and_a_symptom():
    assert entry().excuses(result())
    assert entry(target="t").excuses(result())
    assert not entry(target="u").excuses(result())
    assert entry(verdict="fail").excuses(result())
    assert not entry(verdict="fail").excuses(result(kind=VerdictKind.CRASH))
    assert not entry(verdict="crash").excuses(result(kind=VerdictKind.TIMEOUT))
    assert entry().excuses(result(kind=VerdictKind.CRASH))


def test_an_entry_by_requirement_and_cause_applies_to_every_seed():
    for case in ("gen/4/INT8/0/5", "gen/4/INT8/77/123", "a/b"):
        assert by_cause().excuses(result(case, message="too long"))
    assert not by_cause().excuses(result("gen/4/INT8/0/5", message="too short"))
    assert not replace(by_cause(), requirement="int16.layout").excuses(result("gen/4/INT8/0/5", message="too long"))
    assert not by_cause(verdict="crash").excuses(result("gen/4/INT8/0/5", message="too long"))


def test_a_target_is_named_by_its_reported_name_and_not_by_the_command_line():
    for command in ("module:./adapter.py", "module:other/adapter.py", "command:python adapter.py"):
        failure = result("gen/4/INT8/0/5", target=command, name="my-varints", message="too long")
        assert by_cause(target="my-varints").excuses(failure)
        assert entry("gen/*", target="my-varints").excuses(failure)
        assert not by_cause(target=command).excuses(failure)
        assert not entry("gen/*", target=command).excuses(failure)


# --- stale --------------------------------------------------------------------------------------------

CATALOGUE = ("a/b", "a/c", "a/c:encode", "d/e")


def found(entries, results=(), catalogue=CATALOGUE):
    return [(str(old), why) for old, why in stale(entries, catalogue, results, {RULE})]


def test_an_entry_is_stale_when_no_case_of_the_whole_catalogue_has_its_id():
    assert found([entry("z/z")]) == [("z/z", "no case has this id")]
    assert found([entry("z/*", flaky=True)]) == [("z/*", "no case has this id")]
    assert found([entry("a/*"), entry("a/b")]) == []


def test_an_entry_is_stale_when_all_its_cases_ran_and_passed():
    passed = [result(name, VerdictKind.PASS) for name in CATALOGUE]
    assert found([entry()], passed) == [("a/b", "all its cases passed")]
    assert found([entry("a/*")], passed) == [("a/*", "all its cases passed")]
    assert found([entry("a/*")], [*passed[:2], result("a/c:encode")]) == []


def test_entries_that_were_not_selected_or_skipped_are_not_stale():
    assert found([entry()], [result("d/e", VerdictKind.PASS)]) == []
    assert found([entry("a/*")], [result("a/b", VerdictKind.PASS)]) == []
    assert found([entry()], [result(kind=VerdictKind.SKIP)]) == []
    assert found([entry("a/*")], [result("a/b", VerdictKind.PASS), result("a/c", VerdictKind.SKIP)]) == []


@pytest.mark.parametrize(
    "kind", [VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT, VerdictKind.EITHER, VerdictKind.PROTOCOL]
)
def test_an_entry_whose_case_did_not_pass_is_not_stale(kind):
    assert found([entry(verdict="fail")], [result(kind=kind)]) == []


def test_flaky_and_generated_entries_are_never_stale_for_passing():
    assert found([entry(flaky=True)], [result(kind=VerdictKind.PASS)]) == []
    for name in ("gen/4/RECORD_BATCH/0/5", "bytes/RECORD/abc", "gen/*"):
        assert found([entry(name)]) == []


def test_an_entry_by_cause_is_stale_only_when_there_is_no_such_requirement():
    assert found([by_cause()], [result("gen/4/INT8/0/5", VerdictKind.PASS)]) == []
    gone = replace(by_cause(), requirement="int9.layout")
    assert found([gone]) == [(f"int9.layout, {TOO_LONG}", "no requirement has this id")]
    assert found([entry(requirement="int9.layout")], [result()]) == [("a/b", "no requirement has this id")]


def test_an_entry_by_cause_is_unseen_if_no_generated_case_of_its_requirement_shows_it():
    passed, other = result("gen/4/INT8/0/5", VerdictKind.PASS), result("gen/4/INT8/0/6", message="too short")
    assert unseen([by_cause()], [passed]) == [by_cause()]
    assert unseen([by_cause(target="t")], [passed, other]) == [by_cause(target="t")]
    assert unseen([by_cause()], [passed, result("gen/4/INT8/0/7", message="too long")]) == []
    assert unseen([by_cause()], [passed, result("a/b", message="too long")]) == []
    assert unseen([by_cause()], [result("a/b", VerdictKind.PASS)]) == []
    assert unseen([by_cause()], [result("gen/4/INT8/0/5", VerdictKind.SKIP)]) == []
    assert unseen([by_cause(target="u"), by_cause(flaky=True), entry()], [passed]) == []
    assert unseen([replace(by_cause(), requirement="int16.layout")], [passed]) == []


def test_an_entry_of_one_target_is_not_stale_because_of_another():
    assert found([entry(target="u")], [result(kind=VerdictKind.PASS)]) == []
    assert found([entry(target="t")], [result(kind=VerdictKind.PASS), result(target="u")]) == [
        ("a/b", "all its cases passed")
    ]
    assert found([entry()], [result(kind=VerdictKind.PASS), result(target="u")]) == []


# --- updating -----------------------------------------------------------------------------------------


def test_an_update_keeps_valid_drops_stale_and_adds_new_entries(tmp_path):
    kept, gone = entry("a/c", flaky=True, target="t"), entry("z/z")
    results = [
        result(),
        result("a/c", known=True),
        result("d/e", counts=False),
        result("d/e", VerdictKind.PASS, counts=False),
    ]
    update = updated([kept, gone], results, [gone])
    new = KnownFailure("a/b", "the value differs", "fail", "t", requirement=RULE)
    assert (update.entries, update.added, update.dropped) == ((kept, new), (new,), (gone,))
    (tmp_path / "known.yaml").write_text(known_text(update.entries), encoding="utf-8")
    again = read_known(tmp_path / "known.yaml")
    assert tuple(replace(one, line=0) for one in again) == update.entries
    assert any(one.excuses(results[0]) for one in again)


def test_generated_failures_are_added_by_requirement_and_cause_once_for_all_seeds(tmp_path):
    results = [
        result(f"gen/4/INT8/0/{number}", message="too long", target="module:./a.py", name="mine") for number in range(9)
    ]
    entries = updated([], results, []).entries
    assert entries == (KnownFailure("", "the value differs", "fail", "mine", requirement=RULE, cause=TOO_LONG),)
    (tmp_path / "known.yaml").write_text(known_text(entries), encoding="utf-8")
    (again,) = read_known(tmp_path / "known.yaml")
    assert again.excuses(result("gen/4/INT8/4711/0", message="too long", target="command:a", name="mine"))


def test_an_update_reports_added_and_dropped_entries():
    update = updated(
        [entry("z/z"), entry("y/y")], [result("a/b"), result("gen/4/INT8/0/1", message="too long")], [entry("z/z")]
    )
    assert update_lines(update, "known.yaml") == [
        "known.yaml: 2 added, 1 dropped, 3 in all",
        "  + a/b  (int8.layout: the value differs)",
        f"  + int8.layout, {TOO_LONG}  (the value differs)",
        "  - z/z  (why)",
    ]


def test_a_long_update_shows_the_number_of_further_entries():
    lines = update_lines(updated([], [result(f"a/{number}") for number in range(25)], []), "k.yaml")
    assert lines[0] == "k.yaml: 25 added, 0 dropped, 25 in all"
    assert len(lines) == 22
    assert lines[-1] == "  + 5 more"


def test_an_empty_list_is_written_so_that_it_can_be_read(tmp_path):
    (tmp_path / "known.yaml").write_text(known_text([]), encoding="utf-8")
    assert read_known(tmp_path / "known.yaml") == ()


def test_only_existing_keys_of_an_entry_are_written(tmp_path):
    (tmp_path / "known.yaml").write_text(known_text([entry("a/c", target="t", flaky=True, line=7)]), encoding="utf-8")
    assert (tmp_path / "known.yaml").read_text() == "- id: a/c\n  reason: why\n  target: t\n  flaky: true\n"
