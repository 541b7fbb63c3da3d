"""`conformance compare`: new failures, fixed failures, and cases that are no longer judged."""

import json
import sys

import pytest
from click.testing import CliRunner

from conformance.cli import main


def result(name, verdict, **fields):
    given = {"target": "t", "id": name, "type": "VARINT", "requirement": "varint.range", "level": "must"}
    return {**given, "verdict": verdict, "known": False, "upstream": None, "detail": "", **fields}


@pytest.fixture
def compared(tmp_path):
    """Return a function that compares two lists of results and returns the exit status and the output."""

    def run(old, new, *options, targets=([], [])):
        for name, results, listed in zip(("old", "new"), (old, new), targets, strict=True):
            (tmp_path / name).write_text(json.dumps({"suite": {}, "targets": listed, "results": results}))
        done = CliRunner().invoke(main, ["compare", str(tmp_path / "old"), str(tmp_path / "new"), *options])
        return done.exit_code, done.output

    return run


def counts(output):
    return [int(line.split(": ")[1].split()[0]) for line in output.splitlines() if line.endswith(" cases")]


@pytest.mark.parametrize(
    ("before", "after", "status", "numbers"),
    [
        ("pass", "pass", 0, [0, 0, 0]),
        ("pass", "fail", 1, [1, 0, 0]),
        ("either", "crash", 1, [1, 0, 0]),
        ("skip", "timeout", 1, [1, 0, 0]),
        ("pass", "protocol", 1, [1, 0, 0]),
        ("fail", "fail", 0, [0, 0, 0]),
        ("fail", "crash", 1, [1, 0, 0]),
        ("crash", "fail", 0, [0, 0, 0]),
        ("fail", "pass", 0, [0, 1, 0]),
        ("crash", "either", 0, [0, 1, 0]),
        ("pass", "skip", 0, [0, 0, 1]),
        ("fail", "skip", 0, [0, 0, 1]),
        ("skip", "pass", 0, [0, 0, 0]),
    ],
)
def test_a_case_of_both_reports(compared, before, after, status, numbers):
    found, output = compared([result("varint/zero", before)], [result("varint/zero", after)])
    assert (found, counts(output)) == (status, numbers)


@pytest.mark.parametrize(
    ("fields", "options", "status"),
    [
        ({"level": "should"}, [], 0),
        ({"level": "should"}, ["--fail-on", "should"], 1),
        ({"upstream": "differs"}, [], 0),
        ({"upstream": "differs"}, ["--strict"], 1),
    ],
)
def test_a_failure_that_does_not_count_in_a_run_is_listed_but_does_not_count(compared, fields, options, status):
    found, output = compared([result("a/b", "pass")], [result("a/b", "fail", **fields)], *options)
    assert (found, counts(output)[0]) == (status, 1)


def test_a_failure_with_a_new_cause_is_listed_and_is_no_new_failure(compared):
    old = [result("a/b", "fail", cause="off by 1: RECORD.offset"), result("a/c", "crash", cause="crash: E")]
    new = [result("a/b", "fail", cause="another value: RECORD.key"), result("a/c", "crash", cause="crash: E")]
    status, output = compared(old, new)
    assert (status, counts(output)) == (0, [0, 0, 0, 1])
    assert "new cause: 1 cases" in output
    assert "another value: RECORD.key, before: off by 1: RECORD.offset  (must, 1)" in output
    assert "a/c" not in output


def test_a_known_failure_is_no_new_one(compared):
    assert compared([result("a/b", "pass")], [result("a/b", "fail", known=True)])[0] == 0


def test_one_target_with_two_names_is_compared_and_several_are_matched_by_name(compared):
    old, new = result("a/b", "fail", target="t 1.0"), result("a/b", "fail", target="t 2.0")
    other = result("a/b", "pass", target="u")
    assert compared([old], [new]) == (0, compared([], [])[1])
    status, output = compared([old, other], [new, other])
    assert (status, counts(output)) == (1, [1, 0, 1])


def test_a_failing_case_only_in_the_newer_report_is_a_new_failure(compared):
    assert compared([], [result("a/b", "fail")])[0] == 1


def test_a_vector_missing_in_the_newer_report_is_no_longer_judged(compared):
    status, output = compared([result("a/b", "pass")], [])
    assert (status, counts(output)) == (0, [0, 0, 1])
    assert "the newer report has no such case" in output


def test_generated_cases_of_another_seed_are_compared_by_cause(compared):
    old = [result("gen/4/VARINT/0/1", "fail", cause="off by 1: VARINT"), result("gen/4/VARINT/0/2", "pass")]
    same = [result("gen/4/VARINT/7/3", "fail", cause="off by 1: VARINT")]
    other = [result("gen/4/VARINT/7/4", "fail", cause="null: VARINT")]
    assert counts(compared(old, same)[1]) == [0, 0, 0]
    status, output = compared(old, same + other)
    assert (status, counts(output)) == (1, [1, 0, 0])
    assert "null: VARINT" in output


def test_changes_are_grouped_by_cause_with_the_largest_group_first(compared):
    new = [result("a/one", "fail", cause="few")] + [result(f"b/{n}", "fail", cause="many") for n in range(5)]
    lines = compared([], new)[1].splitlines()
    assert [line.split()[1] for line in lines if line.startswith("  t ")] == ["many", "few"]
    assert "    and 2 more" in lines


def test_text_of_a_target_cannot_control_the_terminal(compared):
    output = compared([], [result("a/b", "fail", cause="\x1b[31mred")])[1]
    assert "\x1b" not in output
    assert "\\x1b" in output


@pytest.mark.parametrize("text", ["", "[]", "{", '{"results": 3}', '{"results": [{"id": 3}]}', '{"results": [', "\xff"])
def test_a_file_that_is_no_report_is_one_line(tmp_path, text):
    (tmp_path / "f").write_text(text, encoding="latin-1")
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "f"), str(tmp_path / "f")])
    assert done.exit_code == 2
    assert f"{tmp_path / 'f'}: expected a report written by --json" in done.output.replace("\n", "")
    assert len(done.output.splitlines()) == 1


def test_a_missing_file_is_one_line(tmp_path):
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "f"), str(tmp_path / "f")])
    assert done.exit_code == 2
    assert "No such file" in done.output


def test_reports_of_real_runs_compare(tmp_path):
    run = ["run", "reference", "--select", "varint/*", "--generated", "0", "-q", "--json"]
    assert CliRunner().invoke(main, [*run, str(tmp_path / "one")]).exit_code == 0
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "one"), str(tmp_path / "one")])
    assert done.exit_code == 0
    assert counts(done.output) == [0, 0, 0]


def target(line, name):
    return {"target": line, "describe": name if name is None else {"name": name}}


def test_a_target_is_matched_by_its_reported_name_for_every_command_line(compared):
    old = [result("a/b", "fail", target="command:./old"), result("a/c", "pass", target="command:./old")]
    new = [result("a/b", "pass", target="module:new"), result("a/c", "crash", target="module:new")]
    targets = [target("command:./old", "mine")], [target("module:new", "mine")]
    status, output = compared(old, new, targets=targets)
    assert (status, counts(output)) == (1, [1, 1, 0])
    assert "  mine  " in output
    assert "command:" not in output


@pytest.mark.parametrize("name", [None, "", 7, "mine"])
def test_a_target_without_a_reported_name_is_matched_by_its_command_line(compared, name):
    old, new = [result("a/b", "pass", target="one")], [result("a/b", "fail", target="one")]
    listed = [target("one", name), target("two", name)]
    status, output = compared(old, new, targets=(listed, listed))
    assert (status, counts(output)) == (1, [1, 0, 0])
    assert "  one  " in output


def test_reports_of_runs_are_compared_by_the_reported_name(tmp_path):
    program = tmp_path / "serve.py"
    program.write_text("from conformance.cli import main\nmain(['serve', 'reference'])\n")
    for line, name in (("reference", "old"), (f"command:{sys.executable} {program}", "new")):
        options = ["--select", "varint/*", "--generated", "0", "--json", str(tmp_path / name)]
        assert CliRunner().invoke(main, ["run", line, *options]).exit_code == 0
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "old"), str(tmp_path / "new")])
    assert (done.exit_code, counts(done.output)) == (0, [0, 0, 0])


# --- reports of interrupted runs ----------------------------------------------------------------------


def halted(line, name, cases="interrupted after 1 of 3 cases"):
    return {**target(line, name), "status": "interrupted", "problem": cases}


THREE = [result("a/one", "pass"), result("a/two", "pass"), result("a/three", "fail", cause="off by 1: VARINT")]


def test_cases_that_an_interrupted_newer_report_lacks_are_missing(compared, tmp_path):
    newer = [result("a/one", "skip")]
    older = [*THREE, result("gen/4/VARINT/0/1", "pass"), result("a/skipped", "skip")]
    status, output = compared(older, newer, targets=([target("t", "t")], [halted("t", "t")]))
    assert (status, counts(output)) == (0, [0, 0, 1]), "only the case that the newer report skipped"
    halt = "t: interrupted after 1 of 3 cases; 2 cases"
    assert output.splitlines()[0] == f"{tmp_path}/new: {halt} of {tmp_path}/old are missing"


def test_a_failure_that_an_interrupted_older_report_lacks_is_new_and_the_reason_contains_that(compared, tmp_path):
    status, output = compared(THREE[:1], THREE, targets=([halted("t", "t")], [target("t", "t")]))
    assert (status, counts(output)) == (1, [1, 0, 0])
    halt = "t: interrupted after 1 of 3 cases; 2 cases"
    assert output.splitlines()[0] == f"{tmp_path}/old: {halt} of {tmp_path}/new are missing"
    assert "  t  off by 1: VARINT, not judged in the older report  (must, 1)" in output.splitlines()
    _, output = compared([result("a/three", "pass")], THREE, targets=([halted("t", "t")], [target("t", "t")]))
    assert "  t  off by 1: VARINT  (must, 1)" in output.splitlines()


def test_a_report_compared_with_itself_has_no_missing_cases(compared):
    listed = [halted("t", "t")]
    status, output = compared(THREE[:1], THREE[:1], targets=(listed, listed))
    assert (status, counts(output)) == (0, [0, 0, 0])
    assert [line.split("; ")[1].split()[0] for line in output.splitlines()[:2]] == ["0", "0"]


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("others", [[], ["u"]])
def test_a_target_not_started_after_an_interrupt_lacks_all_its_cases(compared, is_old, others):
    whole = [{**one, "target": "command:./t"} for one in THREE]
    alike = [result("a/one", "pass", target=name) for name in others]
    listed = [target(name, name) for name in others]
    reports = [
        ([*whole, *alike], [target("command:./t", "mine"), *listed]),
        (alike, [halted("command:./t", None, "interrupted after 0 of 3 cases"), *listed]),
    ]
    (old, of_old), (new, of_new) = reversed(reports) if is_old else reports
    status, output = compared(old, new, targets=(of_old, of_new))
    assert (status, counts(output)) == (int(is_old), [int(is_old), 0, 0])
    assert "mine: interrupted after 0 of 3 cases; 3 cases" in output


def test_two_releases_are_compared_when_one_was_interrupted(compared):
    older = [{**one, "target": "t 1.0"} for one in THREE]
    newer = [result("a/three", "pass", target="t 2.0")]
    for flip in (False, True):
        pair = [(older, [target("t 1.0", "t 1.0")]), (newer, [halted("t 2.0", "t 2.0")])]
        (old, of_old), (new, of_new) = pair[::-1] if flip else pair
        _, output = compared(old, new, targets=(of_old, of_new))
        assert counts(output) == ([1, 0, 0] if flip else [0, 1, 0])
        assert "interrupted after 1 of 3 cases; 2 cases" in output


def test_two_releases_are_compared_when_one_did_not_start(compared):
    older = [{**one, "target": "t 1.0"} for one in THREE], [target("t 1.0", "t 1.0")]
    newer = [], [halted("command:./t2", None)]
    for (old, of_old), (new, of_new) in ((older, newer), (newer, older)):
        _, output = compared(old, new, targets=(of_old, of_new))
        assert counts(output)[2] == 0
        assert "interrupted after 1 of 3 cases; 3 cases" in output


def test_the_name_of_an_interrupted_target_cannot_control_the_terminal(compared):
    output = compared([], [], targets=([], [halted("t", "\x1b[31mred")]))[1]
    assert "\x1b" not in output
    assert "\\x1b" in output
