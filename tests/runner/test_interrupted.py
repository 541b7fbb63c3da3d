"""An interrupted run: every format contains the progress of each target, and no verdict."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from command_line import Done, conformance

from conformance.cases.model import PASSED, CaseOrigin, Unsupported
from conformance.catalog.catalog import select
from conformance.commands import run_pipeline
from conformance.runner import executor
from conformance.runner.known_failures import read_known
from conformance.runner.parallel import StopEvent
from conformance.runner.results import Result, ResultCounts, TargetRun
from conformance.runner.selection import Selection, selected_cases
from conformance.strategies.seeded.cases import generated_cases

HANGS = """
for number, request in enumerate(requests()):
    if number == 10:
        time.sleep(1)  # the suite reads the ten answers meanwhile
        open(os.path.join(HERE, NAME), "w").close(); time.sleep(3600)
    say(request, ok=True, value=63, consumed=1)
"""
SUITE = (sys.executable, "-m", "conformance")
TWO_AT_ONCE = """
from conformance.runner import parallel; parallel.MAX_PARALLEL_TARGETS = 2
from conformance.cli import main; main()
"""
OPTIONS = ("--select", "varint/*", "--generated", "0", "--timeout", "600", "--jobs", "1")


@pytest.fixture
def hanging(python_target):
    """Return a target that answers ten requests, writes a file with its name, and hangs."""
    return lambda name: "command:" + shlex.join(python_target(f"NAME = {name!r}\n{HANGS}", f"{name}.py"))


@pytest.fixture
def files(tmp_path):
    """Return a file for each format."""
    return {name: tmp_path / f"report.{name}" for name in ("json", "html", "markdown", "junit", "badge")}


def options_of(files):
    return [part for name, path in files.items() for part in (f"--{name}", str(path))]


def interrupted(command, number, awaited, env):
    """Start a command, wait for files, and send a signal."""
    running = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not all(path.exists() for path in awaited):
        assert time.monotonic() < until
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(number)
    texts = running.communicate(timeout=120)
    return Done(running.returncode, *texts)


def errors_of_targets(path):
    return [one.get("message") for one in ET.parse(path).getroot().iter("error") if one.get("type") == "target"]


def verdicts_in(path):
    """Return the column of verdicts in the Markdown."""
    rows = re.findall(r"^\| (.*?) \| (.*?) \|", path.read_text(), re.MULTILINE)
    return [verdict for name, verdict in rows if " as " in name or name.startswith("reference")]


# --- an interrupted process ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "option", "variables"),
    [
        (signal.SIGINT, (), {}),
        (signal.SIGTERM, ("--quiet",), {}),
        (signal.SIGHUP, ("-v",), {"GITHUB_ACTIONS": "true"}),
    ],
)
def test_every_format_contains_how_far_the_target_came(
    number, option, variables, hanging, files, traces, tmp_path, catalog
):
    files["badge"].write_text("the badge of yesterday")
    command = [*SUITE, "run", hanging("slow"), *OPTIONS, *option, *options_of(files)]
    done = interrupted(command, number, [tmp_path / "slow"], traces.env | variables)
    assert done.returncode == 130
    report = json.loads(files["json"].read_text())
    ((_, summary),) = report["summary"].items()
    results, cases = sum(summary.values()) - summary["disputed"], len(select(catalog.cases.values(), ["varint/*"]))
    assert 0 < results == len(report["results"]) < cases
    halt = f"interrupted after {results} of {cases} cases"
    assert [(one["status"], one["problem"]) for one in report["targets"]] == [("interrupted", halt)]
    assert halt in done.stdout
    assert verdicts_in(files["markdown"]) == [halt]
    assert f'<span class="verdict bad">{halt}</span>' in files["html"].read_text()
    assert errors_of_targets(files["junit"]) == [halt]
    assert files["badge"].read_text() == "the badge of yesterday"
    no_badge = f"conformance: {files['badge']}: no badge was written, because the run was interrupted\n"
    assert done.stderr == no_badge
    assert bool(re.search(f"^::error title=[^\n]*::{halt}$", done.stdout, re.MULTILINE)) is bool(variables)
    shown = [done.stdout, *(files[name].read_text() for name in ("markdown", "html", "junit"))]
    assert not any(re.search("(?<!who )conforms", text) for text in shown), "the page has a headline"
    (failing, *_) = (row["id"] for row in report["results"] if row["verdict"] == "fail")
    assert all(failing in text for text in shown[option == ("--quiet",) :]), "found failures are shown"


def test_each_of_several_targets_is_reported_with_its_progress(hanging, files, traces, tmp_path, catalog):
    targets = ["reference", *map(hanging, ("one", "two", "three"))]
    command = [sys.executable, "-c", TWO_AT_ONCE, "run", *targets, *OPTIONS, *options_of(files)]
    done = interrupted(command, signal.SIGINT, [tmp_path / "one", tmp_path / "two"], traces.env)
    assert done.returncode == 130
    report = json.loads(files["json"].read_text())
    assert [one["target"] for one in report["targets"]] == targets
    assert [one["status"] for one in report["targets"]] == ["judged", *["interrupted"] * 3]
    first, *halts = verdicts_in(files["markdown"]) + [report["targets"][3]["problem"]]
    cases = len(select(catalog.cases.values(), ["varint/*"]))
    assert first == "conforms"
    assert halts[-1] == f"interrupted after 0 of {cases} cases"
    assert errors_of_targets(files["junit"]) == halts
    assert all(re.fullmatch(rf"interrupted after [1-9]\d* of {cases} cases", halt) for halt in halts[:-1])
    assert all(halt in done.stdout for halt in halts)
    assert not files["badge"].exists()


# --- an interrupt at a certain result -----------------------------------------------------------------

WRONG = """
def describe():
    return {"name": "wrong", "version": "1", "language": "python", "supports": {"decode": ["VARINT"]}}

def decode(type, data, **_):
    return 0, 1
"""


@pytest.fixture
def interrupt_at(monkeypatch, tmp_path):
    """Return a function that interrupts the next runs after the first result that `chosen` accepts."""
    (tmp_path / "wrong.py").write_text(WRONG)
    add = TargetRun.add

    def interrupt(chosen, works=lambda works: works):
        def add_one(run, result):
            add(run, result)
            if chosen(run, result):
                raise KeyboardInterrupt

        def in_turn(given):
            for work in works(given):
                work(StopEvent())

        monkeypatch.setattr(TargetRun, "add", add_one)
        monkeypatch.setattr(run_pipeline, "run_parallel", in_turn)

    return interrupt


def test_cases_that_are_still_generated_have_no_number(interrupt_at, tmp_path):
    interrupt_at(lambda run, _: len(run.results) == 3, works=lambda works: works[-1:])
    done = conformance("run", "module:./wrong.py", "--quiet", cwd=tmp_path)
    assert done.returncode == 130
    assert "interrupted after 3 cases" in done.stdout.splitlines()


def test_finished_generated_cases_are_counted(interrupt_at, tmp_path, catalog):
    interrupt_at(lambda run, _: len(run.results) == 3)
    done = conformance("run", "module:./wrong.py", "--quiet", "--generated", "1", cwd=tmp_path)
    cases = len(selected_cases(Selection((), generated=1), catalog, []))
    assert cases > len(catalog.cases)
    assert f"interrupted after 3 of {cases} cases" in done.stdout.splitlines()


def test_an_interrupt_while_failures_are_shrunk_leaves_the_verdict(monkeypatch, files, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "shrink_all", interrupt)
    arguments = ("module:./wrong.py", "--select", "type:VARINT", "--generated", "5", *options_of(files))
    done = conformance("run", *arguments, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr == ""
    assert "does not conform" in done.stdout
    assert verdicts_in(files["markdown"]) == ["does not conform"]
    assert json.loads(files["json"].read_text())["targets"][0]["status"] == "judged"
    assert " musts" in files["badge"].read_text()


# --- known failures -----------------------------------------------------------------------------------

UPDATE = ("--known-failures", "known.yaml", "--update-known-failures")


def known_ids(folder):
    return [entry.id for entry in read_known(folder / "known.yaml")]


def test_an_update_keeps_entries_of_cases_that_did_not_run_on_each_target(interrupt_at, tmp_path):
    (tmp_path / "known.yaml").write_text("- {id: varint/zero, reason: why}\n")
    interrupt_at(lambda _, result: result.failed)
    arguments = ("reference", "module:./wrong.py", *OPTIONS)
    assert conformance("run", *arguments, *UPDATE[:2], "--junit", "j", cwd=tmp_path).returncode == 130
    assert "stale" not in (tmp_path / "j").read_text()
    done = conformance("run", *arguments, *UPDATE, cwd=tmp_path)
    assert done.returncode == 130
    before, added = known_ids(tmp_path)
    assert before == "varint/zero"
    assert f"  + {added}  (" in done.stdout, "a found failure is new"
    assert "known.yaml: 1 added, 0 dropped, 2 in all" in done.stdout.splitlines()


def test_an_update_keeps_an_entry_by_cause_when_not_all_generated_cases_ran(interrupt_at, tmp_path, catalog):
    case = next(generated_cases(["VARINT"], 1, 0, catalog))
    (tmp_path / "known.yaml").write_text(f"- {{requirement: {case.requirement}, cause: 'a cause', reason: why}}\n")
    interrupt_at(lambda _, result: result.summary.id == case.id)
    done = conformance("run", "module:./wrong.py", "--generated", "1", *UPDATE, cwd=tmp_path)
    assert done.returncode == 130
    assert " 0 dropped, " in done.stdout
    assert read_known(tmp_path / "known.yaml")[0].cause == "a cause"


# --- the record of a target ---------------------------------------------------------------------------


@pytest.fixture
def passed(catalog):
    """Return a result of a kind of case."""
    case = catalog.cases["varint/zero"]
    return lambda kind: Result("t", replace(case, kind=kind), Unsupported(""), PASSED, "must")


@pytest.mark.parametrize(
    ("planned", "kinds", "problem"),
    [
        (3, [CaseOrigin.VECTOR] * 2, "interrupted after 2 of 3 cases"),
        (None, [CaseOrigin.VECTOR] * 2, "interrupted after 2 cases"),
        (3, [], "interrupted after 0 of 3 cases"),
        (3, [CaseOrigin.VECTOR] * 3, ""),
        (3, [CaseOrigin.PROBE, CaseOrigin.VECTOR, CaseOrigin.GENERATED], "interrupted after 2 of 3 cases"),
        (3, [CaseOrigin.PROBE, *[CaseOrigin.VECTOR] * 3], ""),
    ],
)
def test_a_target_is_interrupted_unless_it_has_a_result_for_each_case(planned, kinds, problem, passed):
    run = TargetRun("t", results=list(map(passed, kinds)))
    run.interrupt(planned)
    assert (run.problem, run.interrupted) == (problem, bool(problem))


def test_a_target_that_has_a_problem_keeps_it(passed):
    run = TargetRun("t", problem="it is gone", results=[passed(CaseOrigin.VECTOR)])
    run.interrupt(3)
    assert (run.problem, run.interrupted) == ("it is gone", False)


def test_a_target_with_only_counted_results_includes_all_of_them(passed):
    counted = ResultCounts()
    counted.verdicts["must", "pass"] = 7
    run = TargetRun("t", results=[passed(CaseOrigin.PROBE)], counted=counted)
    run.interrupt(None)
    assert run.problem == "interrupted after 6 cases"
