"""Disagreements of targets: their rows, their order, and their display in each report."""

from __future__ import annotations

import html
import io
import itertools
import json
import re
import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from json_reports import VALIDATOR
from msgspec import structs
from rich.console import Console

from conformance import codec
from conformance.cases.model import (
    FAILURES,
    Accepted,
    Case,
    CaseOrigin,
    ExpectAnyOf,
    ExpectRejection,
    ExpectValue,
    NoAnswer,
    Rejected,
    Unsupported,
    VerdictKind,
)
from conformance.cli import main
from conformance.judging.judge import judge
from conformance.reports.formats import Report
from conformance.reports.html import render as page
from conformance.reports.json_report import render as as_json
from conformance.reports.markdown import render as markdown
from conformance.reports.screen import texts
from conformance.reports.target_differences import TargetDifferencesView, disagreements
from conformance.runner.results import Result, ShrunkFailure, TargetRun, tally

OPEN = ExpectAnyOf((ExpectValue(0, 1), ExpectValue(1, 1), ExpectRejection()))
EXPECTED = {"plain": ExpectValue(0, 1), "bad": ExpectRejection(), "open": OPEN, "any": ExpectAnyOf()}
OUTCOMES = [
    Accepted({"value": 0, "consumed": 1}),
    Accepted({"value": 1, "consumed": 1}),
    Accepted({"value": 0, "consumed": 2}),
    Accepted({"consumed": 1}),
    Rejected("malformed", "too long"),
    Rejected("other", "no"),
    NoAnswer("crash", "KeyError: 1"),
    Unsupported("no"),
]


def case(id, expect, *, kind=CaseOrigin.VECTOR, data=b"\x00", requirement="varint.examples"):
    request = {"op": "decode", "type": "VARINT", "hex": data.hex()}
    return Case(id, "decode", codec.wire("VARINT"), requirement, "must", request, expect, data, kind=kind)


def result(target, one, outcome):
    return Result(target, one, outcome, judge(one, outcome), "must", "stated", counts=True)


def runs(table, cases):
    """Return a run for each target: `table` has the outcome of each case, None for one that was not sent."""
    return [
        TargetRun(
            name,
            results=[
                result(name, one, outcome) for one, outcome in zip(cases, row, strict=True) if outcome is not None
            ],
        )
        for name, row in table.items()
    ]


CASES = [case(f"varint/{name}-{number}", expect) for name, expect in EXPECTED.items() for number in range(3)]
tables = st.lists(
    st.lists(st.none() | st.sampled_from(OUTCOMES), min_size=len(CASES), max_size=len(CASES)), min_size=1, max_size=4
).map(lambda rows: dict(zip("abcd", rows, strict=False)))


def stated(rows):
    """Return the content of rows, independent of their order and of the order of targets."""
    return {
        (one.cases, one.is_open, one.level, frozenset((frozenset(each.targets), each.behavior) for each in one.groups))
        for one in rows
    }


# --- rows ---------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(tables, st.randoms())
def test_the_order_of_the_targets_changes_nothing(table, random):
    names = [*table]
    random.shuffle(names)
    turned = disagreements(runs({name: table[name] for name in names}, CASES))
    assert stated(disagreements(runs(table, CASES))) == stated(turned)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(OUTCOMES), min_size=len(CASES), max_size=len(CASES)))
def test_a_target_never_differs_from_itself(row):
    assert disagreements(runs({"a": row, "b": row, "c": row}, CASES)) == ()


@settings(max_examples=40)
@given(tables)
def test_a_case_with_different_verdicts_is_in_one_row_and_each_row_has_a_difference(table):
    target_runs = runs(table, CASES)
    rows = disagreements(target_runs)
    places = [name for row in rows for name in row.cases]
    assert len(places) == len(set(places))
    kinds = {}
    for run in target_runs:
        for one in run.results:
            kinds.setdefault(one.summary.id, set()).add(one.verdict.kind)
    for name, found in kinds.items():
        if found & {*FAILURES} and found & {VerdictKind.PASS, VerdictKind.EITHER}:
            assert name in places
    for row in rows:
        assert len(row.groups) > 1
        assert row.count == len(row.cases) == row.vectors


@settings(max_examples=40)
@given(tables)
def test_two_interpretations_of_unspecified_bytes_are_a_row(table):
    target_runs = runs(table, CASES)
    open_rows = {name: row for row in disagreements(target_runs) for name in row.cases if row.is_open}
    for at, one in enumerate(CASES):
        behaviours = {
            json.dumps(row[at].answer) if isinstance(row[at], Accepted) else "refused"
            for row in table.values()
            if row[at] in (OUTCOMES[0], OUTCOMES[1], OUTCOMES[4])
        }
        judged = [row[at] for row in table.values() if row[at] is not None]
        if (
            one.expect is OPEN
            and len(behaviours) > 1
            and all(outcome in (*OUTCOMES[:2], OUTCOMES[4]) for outcome in judged)
        ):
            row = open_rows[one.id]
            assert all(stand.is_right for stand in row.groups)


RIGHT, OTHER, REFUSED, CRASH = OUTCOMES[0], OUTCOMES[1], OUTCOMES[4], OUTCOMES[6]


def test_failures_of_one_cause_are_one_row_for_all_requirements_and_targets():
    cases = [
        case(f"varint/{n}", ExpectValue(0, 1), requirement=f"varint.r{n % 2}", data=bytes(9 - n)) for n in range(5)
    ]
    table = {"a": [CRASH] * 5, "b": [RIGHT] * 5, "c": [RIGHT, None, RIGHT, RIGHT, None]}
    (row,) = disagreements(runs(table, cases))
    assert (row.requirements, row.count, row.level) == (("varint.r0", "varint.r1"), 5, "must")
    # The smallest case with a verdict of each target, not the smallest case.
    assert row.example == "varint/3"
    assert row.reproduce == "conformance run a b c --select varint/3"
    assert [(stand.targets, stand.text) for stand in row.groups] == [
        (("b", "c"), "accepts: 0"),
        (("a",), "crashes: KeyError: 1"),
    ]


def test_the_example_of_equal_cases_does_not_depend_on_the_order():
    cases = [case("varint/1", ExpectValue(0, 1)), case("varint/2", ExpectValue(0, 1))]
    table = {"a": [RIGHT, None], "b": [None, RIGHT], "c": [CRASH, CRASH]}
    for names in itertools.permutations(table):
        (row,) = disagreements(runs({name: table[name] for name in names}, cases))
        assert (row.example, row.cases) == ("varint/1", ("varint/1", "varint/2"))


def test_another_cause_is_another_row_and_must_failures_come_first():
    cases = [
        case("varint/open", OPEN),
        case("varint/crash", ExpectValue(0, 1)),
        case("varint/value", ExpectValue(0, 1)),
    ]
    table = {"a": [REFUSED, CRASH, OTHER], "b": [RIGHT, RIGHT, RIGHT]}
    rows = disagreements(runs(table, cases))
    assert [row.is_open for row in rows] == [False, False, True]
    assert {row.example for row in rows[:2]} == {"varint/crash", "varint/value"}
    assert [stand.text for stand in rows[2].groups] == ["rejects: malformed: too long", "accepts: 0"]


def test_a_failure_of_only_apache_kafka_is_disputed():
    target_runs = runs({"a": [REFUSED], "b": [RIGHT]}, [case("varint/one", ExpectValue(0, 1))])
    target_runs[0].results[0] = structs.replace(target_runs[0].results[0], disputed=True)
    (row,) = disagreements(target_runs)
    assert (row.is_disputed, row.kind) == (True, "disputed must")


def test_a_generated_example_names_its_shrunk_case():
    one = case("gen/2/VARINT/0/1", ExpectValue(0, 1), kind=CaseOrigin.GENERATED, data=bytes(8))
    target_runs = runs({"a": [CRASH], "b": [RIGHT]}, [one])
    small = result("a", case("bytes/VARINT/1", ExpectValue(0, 1), kind=CaseOrigin.SHRUNK, data=b"\x01"), CRASH)
    target_runs[0].shrunk.append(ShrunkFailure(small, 1, one.id))
    (row,) = disagreements(target_runs)
    assert (row.example, row.shrunk) == (one.id, "conformance run a b --case VARINT:01")
    assert row.generated == 1


def test_a_campaign_shows_no_disagreements():
    target_runs = runs({"a": [CRASH], "b": [RIGHT]}, [case("varint/one", ExpectValue(0, 1))])
    target_runs[1].counted = tally(target_runs[1].results)
    assert disagreements(target_runs) == ()


# --- reports ------------------------------------------------------------------------------------------

EVIL = "<script>a</script> | `x` [a](http://h) [bold]b[/bold] \x1b[31m\x07 ${x} @someone"


@pytest.fixture(scope="module")
def hostile():
    """Return the report of targets with hostile text, also in their names."""
    cases = [case(f"varint/n-{n}", expect) for n, expect in enumerate((ExpectValue(0, 1), OPEN, ExpectRejection()))]
    table = {
        EVIL: [NoAnswer("crash", EVIL), Rejected("other", EVIL), Accepted({"value": 3})],
        "b": [RIGHT, RIGHT, REFUSED],
    }
    return Report(runs(table, cases), 0)


def printed(report, *, verbosity=0, width=80, quiet=False):
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    for shown in texts(report, verbosity, quiet=quiet):
        console.print(shown, crop=False)
    return console.file.getvalue()


def section(text):
    """Return the lines from the headline."""
    return text[text.index("Where the targets differ") :].splitlines()


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_control_codes_and_markup_of_a_target_do_not_reach_the_terminal(hostile, verbosity):
    shown = printed(hostile, verbosity=verbosity, width=300)
    assert not set(shown) & {"\x1b", "\x07"}
    part = "\n".join(section(shown))
    assert "[bold]b[/bold]" in part
    assert "rejects: other: <script>" in part


def test_the_page_escapes_text_of_a_target(hostile, catalog):
    shown = "".join(page(replace(hostile, requirements=catalog.requirements)))
    part = shown[shown.index('<h2 id="disagreements">') : shown.index('<h2 id="target-0">')]
    assert "<script>" not in part
    assert "\x1b" not in part
    assert "crashes: &lt;script&gt;a&lt;/script&gt;" in part
    assert len(re.findall("<tr>", part)) == 1 + 3
    # The shown command can be typed.
    words = shlex.split(html.unescape(re.search("<pre[^>]*>(.*?)</pre>", part, re.DOTALL)[1]))
    assert words[:2] == ["conformance", "run"]
    assert words[3:] == ["b", "--select", "varint/n-0"]


def test_text_of_a_target_breaks_no_markdown_cell(hostile):
    part = "".join(markdown(hostile)).partition("### Where the targets differ\n")[2]
    rows = [line for line in part.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3
    assert all(line.count("|") == 6 for line in rows)
    outside = re.sub(r"^(`{3,})\n.*?\n\1$", "", part, flags=re.MULTILINE | re.DOTALL)
    for forbidden in ("<script>", "](", "@someone", "`", "\x1b"):
        assert forbidden not in outside


def test_the_json_report_contains_every_row_and_follows_the_schema(hostile):
    shown = json.loads("".join(as_json(hostile)))
    VALIDATOR.validate(shown)
    assert [row["example"] for row in shown["disagreements"]] == ["varint/n-0", "varint/n-2", "varint/n-1"]
    row = shown["disagreements"][2]
    assert row["open"]
    assert [(group["targets"], group["behavior"], group["conforms"]) for group in row["groups"]] == [
        ([EVIL], "rejects", True),
        (["b"], "accepts", True),
    ]
    shown["disagreements"][0]["groups"][0]["behavior"] = "dances"
    assert not VALIDATOR.is_valid(shown)


def many(targets):
    """Return many rows of both parts, with a different behaviour of each target."""
    cases = [case(f"varint/wrong-{n}", ExpectValue(0, 1)) for n in range(30)]
    cases += [case(f"varint/open-{n}", ExpectAnyOf(), requirement=f"varint.r{n}") for n in range(30)]
    table = {
        f"target-{at}": [NoAnswer("crash", f"Error{'abcdefghij'[at % 10]}{n % 10} " + "x" * 300) for n in range(30)]
        + [Accepted({"value": at, "consumed": 1}) for _ in range(30)]
        for at in range(targets)
    }
    words = itertools.cycle(["one", "two", "six", "ten", "red", "sun", "sea", "sky", "oak", "elm", "ash"])
    table["target-0"][:30] = [Rejected("other", next(words) * (n + 1)) for n in range(30)]
    return Report(runs(table, cases), 0)


@pytest.mark.parametrize("targets", [2, 3, 9])
def test_the_section_is_one_screen_of_80_columns_and_all_of_it_with_v(targets):
    report = many(targets)
    lines = section(printed(report))
    assert len(lines) <= 60
    for line in lines[1:]:
        assert len(line) <= 80 or line.startswith("  conformance run ")
    assert sum(line.startswith("  conformance run ") for line in lines) == 6
    left = len(report.disagreements) - 2 * 9
    assert left > 0
    assert lines[-2].startswith(f"{left} more rows; -v: every row, --html FILE: ")
    every = section(printed(report, verbosity=1))
    assert sum(line.startswith("  conformance run ") for line in every) == len(report.disagreements)


def test_one_target_and_quiet_show_no_section(hostile):
    assert "differ" not in printed(Report(hostile.runs[:1], 0), verbosity=1)
    assert "differ" not in printed(hostile, quiet=True)
    assert "disagreements" not in "".join(page(Report(hostile.runs[:1], 0)))
    assert "differ" not in "".join(markdown(Report(hostile.runs[:1], 0)))
    assert json.loads("".join(as_json(Report(hostile.runs[:1], 0))))["disagreements"] == []


def test_a_full_row_shows_the_behaviour_of_each_target(hostile):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(TargetDifferencesView(hostile.disagreements[-1:], every=False))
    lines = console.file.getvalue().splitlines()
    assert lines[1] == "The documents specify no behavior, so every target is right: 1 case in 1 row"
    assert lines[2] == "    1 × varint.examples"
    assert lines[4] == "  ✓ b: accepts: 0"


# --- the command --------------------------------------------------------------------------------------

STRINGS = """
def describe():
    return {"name": "NAME", "version": "1", "language": "python", "supports": {"decode": ["NULLABLE_STRING"]}}

def decode(type, data, **_):
    length = int.from_bytes(data[:2], "big", signed=True)
    if length < LEAST or len(data) < 2 + length:
        raise ValueError("wrong length")
    text = None if length < 0 else data[2 : 2 + length].decode("utf-8", "replace")
    return {"value": text, "consumed": 2 + max(length, 0)}

REJECTIONS = [ValueError]
"""


def test_a_run_of_two_targets_and_the_shown_command_list_the_disagreement(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, least in (("strict", "-1"), ("lax", "-99999")):
        (tmp_path / f"{name}.py").write_text(STRINGS.replace("NAME", name).replace("LEAST", least))
    runner, targets = CliRunner(env={"COLUMNS": "100"}), ["module:./strict.py", "module:./lax.py"]
    done = runner.invoke(main, ["run", *targets, "--select", "type:NULLABLE_STRING", "--generated", "20"])
    lines = section(done.output)
    at = next(at for at, line in enumerate(lines) if line.startswith("The documents specify no behavior"))
    assert any(line.startswith("  ✓ module:./lax.py: accepts: null") for line in lines[at:])
    assert any(line.startswith("  ✓ module:./strict.py: rejects: other: ") for line in lines[at:])
    command = next(line for line in lines[at:] if line.startswith("  conformance run "))
    again = runner.invoke(main, shlex.split(command)[1:])
    assert section(again.output)[1].startswith(
        "The documents specify no behavior, so every target is right: 1 case in 1 row"
    )
