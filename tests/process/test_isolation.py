"""Whatever a target does, the command line judges the rest, ends, says so, and leaves no process behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from command_line import conformance

from conformance.catalog.catalog import select
from conformance.selftest.bad_targets import BAD_TARGETS

SUITE = (sys.executable, "-m", "conformance")
SELECT = "requirement:varint.[ces]*"
ONCE = [liar.name for liar in BAD_TARGETS.values() if liar.once]
ON_EVERY_PYTHON = ("hangs", "exits", "segfaults", "leaves-a-session", "long-line", "wrong-id")
"""Of those that are wrong once, one of each kind: they are judged by a process of its own, too, which has to end."""
STATUS = {"pass": 0, "fail": 1, "crash": 1, "timeout": 1, "protocol": 3}
"""Exit status by the one bad verdict."""


class Suite:
    """Runs the command line on targets, in this process or in one of its own, and reads its JSON report."""

    def __init__(self, folder, env):
        self.folder, self.env = folder, env
        self.report_file = folder / "report.json"

    def arguments(self, target, *options):
        return ["run", target, "--generated", "0", "--json", str(self.report_file), *options]

    def command(self, target, *options):
        return [*SUITE, *self.arguments(target, *options)]

    def run(self, target, *options):
        return conformance(*self.arguments(target, *options), cwd=self.folder, env=self.env)

    def run_apart(self, target, *options):
        return subprocess.run(
            self.command(target, *options), env=self.env, capture_output=True, text=True, timeout=120, check=False
        )

    def start(self, target, *options, **pipes):
        return subprocess.Popen(self.command(target, *options), env=self.env, text=True, **pipes)

    @property
    def report(self):
        return json.loads(self.report_file.read_text())

    @property
    def verdicts(self):
        return {row["id"]: row["verdict"] for row in self.report["results"]}

    def others(self, but):
        return {name: kind for name, kind in self.verdicts.items() if name != but}


@pytest.fixture
def suite(tmp_path, traces):
    return Suite(tmp_path, traces.env)


@pytest.fixture
def said(python_target):
    """A target of the test's own, as the command line names it."""
    return lambda body: "command:" + shlex.join(python_target(body))


def liar(name):
    return f"command:{shlex.quote(sys.executable)} -m conformance.selftest.bad_targets {name}"


def awaited(path):
    """Waits for a file that a target writes."""
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


ANSWER = """
for request in requests():
    say(request, ok=True, value=63, consumed=1)
"""


# --- one bad answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name if name in ON_EVERY_PYTHON else pytest.param(name, marks=pytest.mark.once) for name in ONCE]
)
def test_one_bad_answer_is_one_bad_verdict_and_the_rest_is_judged(name, suite, catalog):
    run = suite.run_apart if name in ON_EVERY_PYTHON else suite.run
    ended = run(liar(name), "--select", SELECT, "--timeout", "1", "--memory", "200", "--jobs", "1")
    bad = next((str(catch.kind) for catch in BAD_TARGETS[name].caught), "pass")
    cases = select(catalog.cases.values(), [SELECT])
    assert [row["id"] for row in suite.report["results"]] == [case.id for case in cases]
    assert suite.verdicts["varint/63"] == bad
    assert set(suite.others("varint/63").values()) <= {"pass", "either"}
    assert ended.returncode == STATUS[bad], ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_several_processes_at_once_are_as_isolated_as_one(suite, catalog):
    patterns = [pattern for kind in ("VARINT", "VARLONG", "INT16") for pattern in ("--select", f"type:{kind}")]
    ended = suite.run(liar("segfaults"), *patterns, "--jobs", "4")
    assert ended.returncode == 1
    cases = select(catalog.cases.values(), patterns[1::2])
    assert [row["id"] for row in suite.report["results"]] == [case.id for case in cases]
    assert suite.verdicts["varint/63"] == "crash"
    assert set(suite.others("varint/63").values()) <= {"pass", "either"}
    assert "SIGSEGV" in next(row["detail"] for row in suite.report["results"] if row["id"] == "varint/63")


def test_what_a_dying_target_said_last_is_shown(suite, said):
    body = "for request in requests():\n    sys.stderr.write('the table is empty\\n'); sys.exit(4)\n"
    assert suite.run(said(body), "--select", "varint/63").returncode == 1
    detail = suite.report["results"][0]["detail"]
    assert "exited with status 4" in detail
    assert "the table is empty" in detail


RUST_SAYS = """
thread '<unnamed>' panicked at src/lib.rs:3:5:
index 9 is out of bounds
stack backtrace:
   0: rust_begin_unwind
             at ./library/std/src/panicking.rs:665:5
note: run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""


GO_SAYS = """
fatal error: runtime: out of memory

goroutine 1 gp=0xc000002380 m=0 mp=0x8a2f40 [running]:
main.main()
	/src/adapter.go:9 +0x1d
created by runtime.gcBgMarkStartWorkers in goroutine 1
	/go/src/runtime/mgc.go:1339 +0x105
"""


NODE_SAYS = """
node:internal/modules/run_main:123
    triggerUncaughtException(
    ^
Error: no table
    at Object.<anonymous> (/src/adapter.mjs:3:7) {
  code: 'NO_TABLE'
}

Node.js v20.20.2
"""


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (NODE_SAYS, "Error: no table"),
        (RUST_SAYS, "index 9 is out of bounds"),
        (GO_SAYS, "fatal error: runtime: out of memory"),
        ("E: no table\n\tat Main.java\n", "E: no table"),
        ("  a\n  b\n", "b"),
    ],
    ids=["an error of Node", "a panic of Rust", "a fatal error of Go", "an exception of Java", "indented lines alone"],
)
def test_the_line_shown_says_what_went_wrong_and_is_no_frame_and_no_advice(suite, said, printed, shown):
    body = f"for request in requests():\n    sys.stderr.write({printed!r}); sys.exit(4)\n"
    assert suite.run(said(body), "--select", "varint/63").returncode == 1
    assert suite.report["results"][0]["detail"].endswith(f"standard error ends: {shown}")


def test_memory_of_children_counts(suite, said):
    body = """
from conformance.selftest.bad_targets import allocate
for request in requests():
    if os.fork() == 0:
        allocate()
    os.wait()
"""
    assert suite.run(said(body), "--select", "varint/63", "--memory", "200").returncode == 1
    result = suite.report["results"][0]
    assert (result["verdict"], result["level"], result["requirement"]) == ("fail", "must", "robustness.answers")
    assert "200 MiB are allowed" in result["detail"]


HOARDS = """
from conformance.selftest.bad_targets import allocate
for request in requests(): allocate()
"""


def test_a_target_that_uses_up_its_memory_at_every_case_does_not_conform(suite, said):
    ended = suite.run(said(HOARDS), "--select", SELECT, "--memory", "200", "--jobs", "1", "--timeout", "60")
    assert ended.returncode == 1
    assert set(suite.verdicts.values()) == {"fail", "skip"}
    assert suite.report["summary"][said(HOARDS)]["disputed"] == 0
    assert suite.report["targets"][0]["status"] == "answered nothing"
    assert "It does not conform: it answered none of its requests." in ended.stdout


def test_a_target_that_answers_nothing_does_not_conform_whatever_is_known(suite, said, tmp_path):
    (tmp_path / "known.yaml").write_text("- {id: '*', reason: all of them}\n")
    known = ("--known-failures", str(tmp_path / "known.yaml"), "--junit", str(tmp_path / "junit.xml"))
    ended = suite.run(said("for request in requests(): os._exit(1)\n"), "--select", "varint/63", *known)
    assert ended.returncode == 1
    assert "\ndoes not conform" in ended.stdout
    assert [row["known"] for row in suite.report["results"]] == [True]
    assert "answered none of its requests" in (tmp_path / "junit.xml").read_text()


def test_a_plain_target_beside_a_hostile_one_gets_the_results_of_a_run_alone(suite, said):
    plain = liar("varint-off-by-one")
    options = ("--select", "type:*VAR*", "--jobs", "2")
    suite.run(plain, *options)
    alone = [row for row in suite.report["results"] if row["target"] == plain]
    assert {row["verdict"] for row in alone} >= {"pass", "fail"}
    hostile = """
for request in requests():
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                hoard = [b"x" * (8 << 20) for _ in range(8)]
                time.sleep(3600)
            os._exit(0)
    os.close(1); time.sleep(3600)
"""
    suite.run(said(hostile), plain, *options)
    assert [row for row in suite.report["results"] if row["target"] == plain] == alone


# --- pipes --------------------------------------------------------------------------------------------


def test_errors_written_without_end_disturb_no_answer(suite, said):
    body = """
for request in requests():
    sys.stderr.write("debug " * 200_000); sys.stderr.flush()
    say(request, ok=True, value=63, consumed=1)
"""
    assert suite.run(said(body), "--select", "varint/63").returncode == 0


@pytest.mark.parametrize(("megabytes", "verdict", "status"), [(30, "pass", 0), (33, "protocol", 3)])
def test_an_answer_may_take_32_megabytes(megabytes, verdict, status, suite, said):
    body = f"""
for request in requests():
    say(request, ok=True, value=63, consumed=1, more="x" * ({megabytes} << 20 if request["hex"] == "7e" else 0))
"""
    assert suite.run(said(body), "--select", "varint/63", "--timeout", "20").returncode == status
    assert list(suite.verdicts.values()) == [verdict]


@pytest.mark.parametrize("op", ["decode", "encode"])
def test_a_request_of_four_megabytes_is_answered(op, suite, tmp_path):
    given = tmp_path / "given"
    data = b"\x00\x1f\xff\xfc" + b"k" * 0x1FFFFC
    given.write_bytes(data if op == "decode" else json.dumps(data[4:].hex()).encode())
    target = f"command:{shlex.quote(sys.executable)} -m conformance serve reference"
    ended = suite.run(target, "--case", f"BYTES:@{given}", "--op", op, "--timeout", "30")
    assert (ended.returncode, list(suite.verdicts.values())) == (0, ["pass"]), ended.stdout


def test_a_target_that_writes_and_never_reads_is_a_protocol_fault(suite, said):
    body = """
for request in requests():
    while True:
        sys.stdout.write('{"id": 0, "ok": true}\\n' * 1000)
"""
    ended = suite.run(said(body), "--select", "varint/*", "--jobs", "1")
    assert ended.returncode == 3
    assert {"protocol", "skip"} >= set(suite.verdicts.values()) > {"skip"}


LARGE = """
- id: large/zeros
  type: INT8
  requirement: int8.layout
  hex: [{repeat: 1000000, hex: "00"}]
  either: any
"""


def test_a_target_that_neither_reads_nor_writes_times_out_on_a_large_request(suite, said, tmp_path):
    (tmp_path / "large.yaml").write_text(LARGE)
    body = "say(json.loads(sys.stdin.readline()), **DESCRIBED)\ntime.sleep(3600)\n"
    options = ("--vectors", str(tmp_path / "large.yaml"), "--select", "large/zeros", "--timeout", "0.5")
    assert suite.run(said(body), *options).returncode == 1
    assert suite.verdicts["large/zeros"] == "timeout"


def test_a_target_that_goes_on_after_the_end_of_its_input_is_ended(suite, said):
    assert suite.run(said(ANSWER + "time.sleep(3600)\n"), "--select", "varint/63").returncode == 0


# --- starting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dies-at-start", "describes-nonsense"])
def test_a_target_that_does_not_start_is_exit_status_3_and_says_why(name, suite):
    ended = suite.run(liar(name), "--select", SELECT)
    assert ended.returncode == 3
    (target,) = suite.report["targets"]
    assert (target["status"], suite.report["results"]) == ("not started", [])
    assert BAD_TARGETS[name].problem in target["problem"]
    assert BAD_TARGETS[name].problem in " ".join(ended.stdout.split())


def test_a_start_that_fails_is_tried_three_times(suite, said, tmp_path):
    assert suite.run(said('log("started")\nsys.exit("no luck")\n'), "--select", SELECT).returncode == 3
    assert (tmp_path / "log").read_text().split() == ["started"] * 3
    assert "no luck" in suite.report["targets"][0]["problem"]


def test_a_target_that_starts_at_the_third_attempt_is_judged(suite, said):
    body = 'log("started")\nif open(os.path.join(HERE, "log")).read().count("started") < 3: sys.exit(1)\n'
    assert suite.run(said(body + ANSWER), "--select", "varint/63").returncode == 0


def test_a_target_that_cannot_be_judged_does_not_keep_others_from_it(suite):
    ended = subprocess.run(
        [*suite.command(liar("dies-at-start"), "--select", SELECT), "reference", liar("exits")],
        env=suite.env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 3
    assert [target["status"] for target in suite.report["targets"]] == ["not started", "judged", "judged"]
    assert suite.report["summary"]["reference"]["pass"] > 0
    assert suite.report["summary"][liar("exits")]["crash"] == 1


# --- ending early -------------------------------------------------------------------------------------


HANGS_AT_TEN = """
for number, request in enumerate(requests()):
    if number == 10:
        time.sleep(1)  # what was answered so far is read meanwhile
        log("hanging"); time.sleep(3600)
    say(request, ok=True, value=63, consumed=1)
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_reports_what_was_gathered(told, suite, said, tmp_path):
    options = ("--select", "varint/*", "--timeout", "600", "--jobs", "1")
    running = suite.start(said(HANGS_AT_TEN), *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    awaited(tmp_path / "log")
    running.send_signal(told)
    shown, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in errors
    assert "must" in shown
    assert 1 <= len([kind for kind in suite.verdicts.values() if kind != "skip"]) <= 10


def test_a_terminal_that_hangs_up_keeps_no_file_from_being_written(suite, said, tmp_path):
    terminal, seen = os.openpty()
    options = ("--select", "varint/*", "--timeout", "600", "--jobs", "1")
    running = suite.start(said(HANGS_AT_TEN), *options, stdout=seen, stderr=seen)
    os.close(seen)
    awaited(tmp_path / "log")
    os.close(terminal)
    running.send_signal(signal.SIGHUP)
    assert running.wait(60) == 130
    assert set(suite.verdicts.values()) > {"skip"}


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGQUIT, signal.SIGABRT])
def test_a_suite_that_is_killed_leaves_no_process_of_several(ended, suite, said, tmp_path):
    options = ("--select", "type:*VAR*", "--timeout", "600", "--jobs", "3")
    running = suite.start(said(HANGS_AT_TEN), *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    awaited(tmp_path / "log")
    running.send_signal(ended)
    assert running.wait(60) == -ended
    # The fixture `traces` sees that nothing is left.


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_stop_leaves_no_process_of_several(told, suite, said, tmp_path):
    options = ("--select", "type:*VAR*", "--timeout", "600", "--jobs", "3")
    running = suite.start(said(HANGS_AT_TEN), *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    awaited(tmp_path / "log")
    running.send_signal(told)
    running.communicate(timeout=60)
    assert running.returncode == 130


def test_an_interrupt_reports_what_several_gathered(suite, said, tmp_path):
    options = ("--select", "type:*VAR*", "--timeout", "600", "--jobs", "3")
    running = suite.start(said(HANGS_AT_TEN), *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    awaited(tmp_path / "log")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert set(suite.verdicts.values()) > {"skip"}


def test_an_output_that_nobody_reads_changes_neither_report_nor_status(suite):
    running = suite.start("reference", "--select", SELECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.close()
    errors = running.stderr.read()
    running.stderr.close()
    assert (running.wait(60), errors) == (0, "")
    assert suite.report["summary"]["reference"]["pass"] > 50


def test_a_wrong_answer_is_told_at_must_also_where_it_took_too_much_memory(suite, tmp_path):
    body = """
def describe():
    return {"name": "greedy", "version": "1", "language": "python", "supports": {"decode": ["BYTES"]}}

def decode(type, data, **_):
    taken = b"x" * (200 << 20)
    return {"value": "61", "consumed": 5}
"""
    (tmp_path / "greedy.py").write_text(body)
    select = ["--select", "byte-string/length-max", "--generated", "0"]
    assert suite.run(f"module:{tmp_path}/greedy.py", *select).returncode == 1
    result = suite.report["results"][0]
    assert (result["level"], result["requirement"]) == ("must", "bytes.truncated-rejected")
    assert "memory" not in result["detail"]
