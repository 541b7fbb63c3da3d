"""With any faulty target the command line judges the other cases, reports the fault, ends, and leaves no process."""

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
ONCE = [target.name for target in BAD_TARGETS.values() if target.once]
ON_EVERY_PYTHON = ("hangs", "exits", "segfaults", "leaves-a-session", "long-line", "wrong-id")
"""One bad target of each kind with a single fault; it is also run by a separate process, which must end."""
STATUS = {"pass": 0, "fail": 1, "crash": 1, "timeout": 1, "protocol": 3}
"""Exit status for the single bad verdict."""


class Suite:
    """Runs the command line on targets, in this process or a separate one, and reads its JSON report."""

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
def command_target(python_target):
    """Return a function from the code of a target to its name on the command line."""
    return lambda body: "command:" + shlex.join(python_target(body))


def bad_target(name):
    return f"command:{shlex.quote(sys.executable)} -m conformance.selftest.bad_targets {name}"


def wait_for(path):
    """Wait for a file that a target writes."""
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
    "name", [name if name in ON_EVERY_PYTHON else pytest.param(name, marks=pytest.mark.integration) for name in ONCE]
)
def test_one_bad_answer_is_one_bad_verdict_and_the_other_cases_are_judged(name, suite, catalog):
    run = suite.run_apart if name in ON_EVERY_PYTHON else suite.run
    ended = run(bad_target(name), "--select", SELECT, "--timeout", "1", "--memory", "200", "--jobs", "1")
    bad = next((str(catch.kind) for catch in BAD_TARGETS[name].caught), "pass")
    cases = select(catalog.cases.values(), [SELECT])
    assert [row["id"] for row in suite.report["results"]] == [case.id for case in cases]
    assert suite.verdicts["varint/63"] == bad
    assert set(suite.others("varint/63").values()) <= {"pass", "either"}
    assert ended.returncode == STATUS[bad], ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_several_parallel_processes_are_isolated_like_one(suite, catalog):
    patterns = [pattern for kind in ("VARINT", "VARLONG", "INT16") for pattern in ("--select", f"type:{kind}")]
    ended = suite.run(bad_target("segfaults"), *patterns, "--jobs", "4")
    assert ended.returncode == 1
    cases = select(catalog.cases.values(), patterns[1::2])
    assert [row["id"] for row in suite.report["results"]] == [case.id for case in cases]
    assert suite.verdicts["varint/63"] == "crash"
    assert set(suite.others("varint/63").values()) <= {"pass", "either"}
    assert "SIGSEGV" in next(row["detail"] for row in suite.report["results"] if row["id"] == "varint/63")


def test_the_last_error_line_of_a_crashed_target_is_shown(suite, command_target):
    body = "for request in requests():\n    sys.stderr.write('the table is empty\\n'); sys.exit(4)\n"
    assert suite.run(command_target(body), "--select", "varint/63").returncode == 1
    detail = suite.report["results"][0]["detail"]
    assert "exited with status 4" in detail
    assert "the table is empty" in detail


RUST_ERROR = """
thread '<unnamed>' panicked at src/lib.rs:3:5:
index 9 is out of bounds
stack backtrace:
   0: rust_begin_unwind
             at ./library/std/src/panicking.rs:665:5
note: run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""


GO_ERROR = """
fatal error: runtime: out of memory

goroutine 1 gp=0xc000002380 m=0 mp=0x8a2f40 [running]:
main.main()
	/src/adapter.go:9 +0x1d
created by runtime.gcBgMarkStartWorkers in goroutine 1
	/go/src/runtime/mgc.go:1339 +0x105
"""


NODE_ERROR = """
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
        (NODE_ERROR, "Error: no table"),
        (RUST_ERROR, "index 9 is out of bounds"),
        (GO_ERROR, "fatal error: runtime: out of memory"),
        ("E: no table\n\tat Main.java\n", "E: no table"),
        ("  a\n  b\n", "b"),
    ],
    ids=["an error of Node", "a panic of Rust", "a fatal error of Go", "an exception of Java", "indented lines alone"],
)
def test_the_shown_error_line_is_the_message_and_no_stack_frame(suite, command_target, printed, shown):
    body = f"for request in requests():\n    sys.stderr.write({printed!r}); sys.exit(4)\n"
    assert suite.run(command_target(body), "--select", "varint/63").returncode == 1
    assert suite.report["results"][0]["detail"].endswith(f"standard error ends: {shown}")


def test_memory_of_child_processes_counts(suite, command_target):
    body = """
from conformance.selftest.bad_targets import allocate
for request in requests():
    if os.fork() == 0:
        allocate()
    os.wait()
"""
    assert suite.run(command_target(body), "--select", "varint/63", "--memory", "200").returncode == 1
    result = suite.report["results"][0]
    assert (result["verdict"], result["level"], result["requirement"]) == ("fail", "must", "robustness.answers")
    assert "200 MiB are allowed" in result["detail"]


HOARDS = """
from conformance.selftest.bad_targets import allocate
for request in requests(): allocate()
"""


def test_a_target_that_exceeds_its_memory_in_every_case_does_not_conform(suite, command_target):
    ended = suite.run(command_target(HOARDS), "--select", SELECT, "--memory", "200", "--jobs", "1", "--timeout", "60")
    assert ended.returncode == 1
    assert set(suite.verdicts.values()) == {"fail", "skip"}
    assert suite.report["summary"][command_target(HOARDS)]["disputed"] == 0
    assert suite.report["targets"][0]["status"] == "answered nothing"
    assert "It does not conform: it answered no request." in ended.stdout


def test_a_target_without_answers_does_not_conform_even_with_known_failures(suite, command_target, tmp_path):
    (tmp_path / "known.yaml").write_text("- {id: '*', reason: all of them}\n")
    known = ("--known-failures", str(tmp_path / "known.yaml"), "--junit", str(tmp_path / "junit.xml"))
    ended = suite.run(command_target("for request in requests(): os._exit(1)\n"), "--select", "varint/63", *known)
    assert ended.returncode == 1
    assert "\ndoes not conform" in ended.stdout
    assert [row["known"] for row in suite.report["results"]] == [True]
    assert "answered no request" in (tmp_path / "junit.xml").read_text()


def test_a_target_next_to_a_hostile_one_gets_the_results_of_a_separate_run(suite, command_target):
    plain = bad_target("varint-off-by-one")
    options = ("--select", "type:VARINT", "--jobs", "2")
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
    suite.run(command_target(hostile), plain, *options)
    assert [row for row in suite.report["results"] if row["target"] == plain] == alone


# --- pipes --------------------------------------------------------------------------------------------


def test_endless_output_on_standard_error_disturbs_no_answer(suite, command_target):
    body = """
for request in requests():
    sys.stderr.write("debug " * 200_000); sys.stderr.flush()
    say(request, ok=True, value=63, consumed=1)
"""
    assert suite.run(command_target(body), "--select", "varint/63").returncode == 0


@pytest.mark.parametrize(("megabytes", "verdict", "status"), [(30, "pass", 0), (33, "protocol", 3)])
def test_an_answer_may_have_32_megabytes(megabytes, verdict, status, suite, command_target):
    body = f"""
for request in requests():
    say(request, ok=True, value=63, consumed=1, more="x" * ({megabytes} << 20 if request["hex"] == "7e" else 0))
"""
    assert suite.run(command_target(body), "--select", "varint/63", "--timeout", "20").returncode == status
    assert list(suite.verdicts.values()) == [verdict]


@pytest.mark.parametrize("op", ["decode", "encode"])
def test_a_request_of_four_megabytes_is_answered(op, suite, tmp_path):
    given = tmp_path / "given"
    data = b"\x00\x1f\xff\xfc" + b"k" * 0x1FFFFC
    given.write_bytes(data if op == "decode" else json.dumps(data[4:].hex()).encode())
    target = f"command:{shlex.quote(sys.executable)} -m conformance serve reference"
    ended = suite.run(target, "--case", f"BYTES:@{given}", "--op", op, "--timeout", "30")
    assert (ended.returncode, list(suite.verdicts.values())) == (0, ["pass"]), ended.stdout


def test_a_target_that_writes_and_never_reads_is_a_protocol_fault(suite, command_target):
    body = """
for request in requests():
    while True:
        sys.stdout.write('{"id": 0, "ok": true}\\n' * 1000)
"""
    ended = suite.run(command_target(body), "--select", "varint/*", "--jobs", "1")
    assert ended.returncode == 3
    assert {"protocol", "skip"} >= set(suite.verdicts.values()) > {"skip"}


LARGE = """
- id: large/zeros
  type: INT8
  requirement: int8.layout
  hex: [{repeat: 1000000, hex: "00"}]
  either: any
"""


def test_a_target_that_neither_reads_nor_writes_times_out_on_a_large_request(suite, command_target, tmp_path):
    (tmp_path / "large.yaml").write_text(LARGE)
    body = "say(json.loads(sys.stdin.readline()), **DESCRIBED)\ntime.sleep(3600)\n"
    options = ("--vectors", str(tmp_path / "large.yaml"), "--select", "large/zeros", "--timeout", "0.5")
    assert suite.run(command_target(body), *options).returncode == 1
    assert suite.verdicts["large/zeros"] == "timeout"


def test_a_target_that_continues_after_the_end_of_its_input_is_ended(suite, command_target):
    assert suite.run(command_target(ANSWER + "time.sleep(3600)\n"), "--select", "varint/63").returncode == 0


# --- starting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dies-at-start", "describes-nonsense"])
def test_a_target_that_does_not_start_is_exit_status_3_with_a_reason(name, suite):
    ended = suite.run(bad_target(name), "--select", SELECT)
    assert ended.returncode == 3
    (target,) = suite.report["targets"]
    assert (target["status"], suite.report["results"]) == ("not started", [])
    assert BAD_TARGETS[name].problem in target["problem"]
    assert BAD_TARGETS[name].problem in " ".join(ended.stdout.split())


def test_a_failed_start_is_tried_three_times(suite, command_target, tmp_path):
    assert suite.run(command_target('log("started")\nsys.exit("no luck")\n'), "--select", SELECT).returncode == 3
    assert (tmp_path / "log").read_text().split() == ["started"] * 3
    assert "no luck" in suite.report["targets"][0]["problem"]


def test_a_target_that_starts_at_the_third_attempt_is_judged(suite, command_target):
    body = 'log("started")\nif open(os.path.join(HERE, "log")).read().count("started") < 3: sys.exit(1)\n'
    assert suite.run(command_target(body + ANSWER), "--select", "varint/63").returncode == 0


def test_a_target_that_cannot_be_judged_does_not_stop_the_others(suite):
    ended = subprocess.run(
        [*suite.command(bad_target("dies-at-start"), "--select", SELECT), "reference", bad_target("exits")],
        env=suite.env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 3
    assert [target["status"] for target in suite.report["targets"]] == ["not started", "judged", "judged"]
    assert suite.report["summary"]["reference"]["pass"] > 0
    assert suite.report["summary"][bad_target("exits")]["crash"] == 1


# --- ending early -------------------------------------------------------------------------------------


HANGS_AT_TEN = """
for number, request in enumerate(requests()):
    if number == 10:
        time.sleep(1)  # what was answered so far is read meanwhile
        log("hanging"); time.sleep(3600)
    say(request, ok=True, value=63, consumed=1)
"""


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_reports_its_results_so_far(signal_number, suite, command_target, tmp_path):
    options = ("--select", "varint/*", "--timeout", "600", "--jobs", "1")
    running = suite.start(command_target(HANGS_AT_TEN), *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path / "log")
    running.send_signal(signal_number)
    shown, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in errors
    assert "must" in shown
    assert 1 <= len([kind for kind in suite.verdicts.values() if kind != "skip"]) <= 10


def test_after_a_terminal_hangup_the_report_is_written(suite, command_target, tmp_path):
    terminal, seen = os.openpty()
    options = ("--select", "varint/*", "--timeout", "600", "--jobs", "1")
    running = suite.start(command_target(HANGS_AT_TEN), *options, stdout=seen, stderr=seen)
    os.close(seen)
    wait_for(tmp_path / "log")
    os.close(terminal)
    running.send_signal(signal.SIGHUP)
    assert running.wait(60) == 130
    assert set(suite.verdicts.values()) > {"skip"}


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGQUIT, signal.SIGABRT])
def test_a_killed_run_with_several_processes_leaves_no_process(ended, suite, command_target, tmp_path):
    options = ("--select", "type:*VAR*", "--timeout", "600", "--jobs", "3")
    running = suite.start(command_target(HANGS_AT_TEN), *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(tmp_path / "log")
    running.send_signal(ended)
    assert running.wait(60) == -ended
    # The fixture `traces` checks that no process is left.


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_with_several_processes_leaves_no_process(signal_number, suite, command_target, tmp_path):
    options = ("--select", "type:*VAR*", "--timeout", "600", "--jobs", "3")
    running = suite.start(command_target(HANGS_AT_TEN), *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path / "log")
    running.send_signal(signal_number)
    running.communicate(timeout=60)
    assert running.returncode == 130


def test_an_interrupted_run_reports_the_results_of_several_processes(suite, command_target, tmp_path):
    options = ("--select", "type:*VAR*", "--timeout", "600", "--jobs", "3")
    running = suite.start(command_target(HANGS_AT_TEN), *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path / "log")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert set(suite.verdicts.values()) > {"skip"}


def test_a_closed_output_changes_neither_report_nor_status(suite):
    running = suite.start("reference", "--select", SELECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.close()
    errors = running.stderr.read()
    running.stderr.close()
    assert (running.wait(60), errors) == (0, "")
    assert suite.report["summary"]["reference"]["pass"] > 50


def test_a_wrong_answer_fails_at_must_even_with_excessive_memory(suite, tmp_path):
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
