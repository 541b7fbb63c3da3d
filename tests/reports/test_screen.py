"""One screen per target: at most 60 lines, the largest causes first, and each failure complete."""

from __future__ import annotations

import io

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.console import Console

from conformance.cases.model import PASSED, VerdictKind
from conformance.cli import main
from conformance.reports.grouping import Section, grouped
from conformance.reports.screen import LINES, TargetScreen, keys_shown_in_full
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import target_spec

WRONG = """
import zlib

def describe():
    every = ["INT8", "INT32", "VARINT", "STRING", "BYTES", "RECORD", "RECORD_BATCH", "MESSAGE_SET", "LOG", "ARRAY"]
    return {"name": "wrong", "version": "1", "language": "python", "supports": {"decode": every, "encode": every},
            "via": {"decode": "public: Wrong.decode", "encode": "public: Wrong.encode"}}

def decode(type, data, **_):
    if zlib.crc32(data) % 2:
        raise {0: KeyError, 1: IndexError, 2: TypeError, 3: OSError}[len(data) % 4](type + " is wrong" * len(data))
    return {"value": ..., "consumed": len(data) + 1}

def encode(type, value, **_):
    return b"wrong"
"""


@pytest.fixture(scope="module")
def wrong(catalog, tmp_path_factory):
    """Return the record of a target that fails each case, in many ways."""
    path = tmp_path_factory.mktemp("wrong") / "wrong.py"
    path.write_text(WRONG)
    run = TargetRun("wrong")
    cases = [case for case in catalog.cases.values() if not case.type.startswith("MESSAGE<")][::3]
    judge_target(
        target_spec(f"module:{path}", None, ResourceLimits()), run, cases, catalog.requirements, FailurePolicy()
    )
    assert sum(one.failed for one in run.results) > 400
    return run


def screen(run, catalog, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    console.print(TargetScreen(run, catalog.requirements), crop=False)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 140, 400])
def test_a_target_takes_at_most_a_screen(wrong, catalog, width):
    lines = screen(wrong, catalog, width)
    assert 40 < len(lines) <= LINES == 60
    assert sum(line.startswith("  conformance run ") for line in lines) in range(1, 6)
    for line in lines:
        assert len(line) <= width or line.startswith("  conformance run ")


def test_a_failure_shows_all_that_a_failure_always_shows(wrong, catalog):
    lines = screen(wrong, catalog, 160)
    (first,) = [at for at, line in enumerate(lines) if line.startswith("  conformance run ")][:1]
    shown = "\n".join(lines[: first + 1])
    result = next(one for one in wrong.results if one.failed and f"  {one.case.id}  " in shown)
    for part in (
        result.requirement,
        f"{result.level}, {result.basis}",
        "via public: Wrong.",
        "expected ",
        "actual ",
    ):
        assert part in shown, part


def test_the_cause_with_the_most_cases_is_first_and_each_cause_counts_its_cases(wrong, catalog):
    counts = [
        int(line.split(" × ")[0].split()[-1]) for line in screen(wrong, catalog) if " × " in line and "must" in line
    ]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) >= 5


def test_the_failures_to_shrink_are_those_shown_in_full(wrong):
    failures = [group for group in grouped(wrong) if group.section in (Section.FAILURES, Section.DISPUTED)]
    chosen = keys_shown_in_full(wrong)
    assert 0 < len(chosen) <= 5 < len(failures)
    assert {one.cause for one in chosen} == {group.cause for group in failures[: len(chosen)]}


def test_hidden_parts_are_counted_with_the_option_that_shows_them(wrong, catalog):
    assert "more causes; -v: an example of each, -vv: every case, --html FILE: HTML page" in screen(wrong, catalog)[-2]


def test_a_target_that_conforms_takes_a_few_lines(wrong, catalog):
    good = TargetRun("good", wrong.description, "", [])
    good.results += [replace(one, verdict=PASSED) for one in wrong.results if not one.counts]
    lines = screen(good, catalog)
    assert lines[1].startswith("conforms: meets requirements must ")
    assert len(lines) < 10


def test_a_target_that_did_not_start_shows_the_reason(catalog):
    lines = screen(TargetRun("none", problem="no such file " * 30), catalog)
    assert lines[1] == "not judged"
    assert lines[2].rstrip() == ("no such file " * 30).rstrip()


def test_faults_of_the_adapter_come_before_failures(wrong, catalog):
    first = next(one for one in wrong.results if one.failed)
    fault = replace(first, verdict=replace(first.verdict, kind=VerdictKind.PROTOCOL, detail="no JSON"))
    lines = screen(TargetRun("t", wrong.description, "", [*wrong.results, fault]), catalog)
    assert next(line for line in lines[4:] if line.startswith(("adapter: ", "crash"))).startswith("adapter: no JSON")


# --- the command --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    path = tmp_path_factory.mktemp("target") / "wrong.py"
    path.write_text(WRONG)
    return f"module:{path}"


def run(target, *options, columns=80):
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(
        main, ["run", target, "--select", "varint/*", "--generated", "0", *options]
    )
    assert done.exit_code == 1, done.output
    return done.output.splitlines()


def test_v_shows_an_example_of_every_cause_and_vv_every_case(target):
    few, more, every = run(target), run(target, "-v"), run(target, "-vv")
    assert len(few) <= 60
    commands = [sum("conformance run module:" in line for line in lines) for lines in (few, more)]
    assert commands[0] <= 5 <= commands[1]
    failing = {word for line in every for word in line.split() if word.startswith("varint/")}
    assert len(failing) > 50
    assert not {"varint/zero"} - failing or "varint/zero" in " ".join(every)


def test_the_table_fits_in_80_columns(target):
    table = run(target, "-q")
    head = next(line.split() for line in table if line.startswith("level"))
    assert head == ["level", "pass", "fail", "skip", "crash", "timeout", "either", "protocol", "known", "disputed"]
    assert all(len(line) <= 80 for line in table)


def test_the_variable_columns_applies_if_the_output_is_no_terminal(target):
    assert max(len(line) for line in run(target, columns=70) if "conformance run" not in line) <= 70
