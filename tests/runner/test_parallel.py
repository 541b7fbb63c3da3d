"""Several targets in parallel: each one has its single results, for any behaviour of the others."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from command_line import conformance

from conformance.errors import CannotStart
from conformance.process.launcher import LaunchSpec
from conformance.runner.parallel import StopEvent, run_parallel
from conformance.runner.policy import FailurePolicy
from conformance.runner.target_runner import TargetRunner
from conformance.targets import protocol
from conformance.targets._worker_pool import WorkerPool
from conformance.targets.limits import ResourceLimits
from conformance.targets.reference import ReferenceTarget

SUITE = (sys.executable, "-m", "conformance", "run")


def test_work_runs_in_parallel():
    barrier = threading.Barrier(3, timeout=30)
    run_parallel([lambda _: barrier.wait() and None] * 3)


def test_single_work_runs_in_the_calling_thread():
    threads = []
    run_parallel([lambda _: threads.append(threading.current_thread())])
    assert threads == [threading.current_thread()]


def test_an_exception_is_raised_after_the_other_work_is_done():
    failed, done = threading.Event(), []

    def fail(_):
        failed.set()
        raise ZeroDivisionError

    def work(stop):
        failed.wait(30)
        time.sleep(0.1)
        done.append(stop.is_set)

    with pytest.raises(ZeroDivisionError):
        run_parallel([fail, work, work])
    assert done == [False, False]


def test_a_stop_ends_current_and_later_targets(catalog):
    stops = []

    class Target(ReferenceTarget):
        def stop(self):
            stops.append(True)

    spec, stop = SimpleNamespace(name="t", open=Target), StopEvent()
    runner = TargetRunner(spec, catalog.requirements, FailurePolicy(), stop)
    results = runner.results([catalog.cases["varint/63"]] * 2)
    assert next(results).verdict.kind == "pass"
    stop.set()
    assert stops == [True]
    TargetRunner(spec, catalog.requirements, FailurePolicy(), stop)
    assert stops == [True, True]
    with pytest.raises(CannotStart):
        next(results)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stop_wakes_threads_that_wait_for_a_target(jobs, python_target, traces, catalog):
    launch = LaunchSpec("t", python_target("for request in requests(): log('asked'); time.sleep(3600)\n"), traces.env)
    target, raised = WorkerPool(launch, ResourceLimits(timeout=600), jobs), threading.Event()
    cases = [catalog.cases["varint/63"]] * 300

    def ask():
        with pytest.raises(CannotStart):
            list(target.ask(cases, lambda case: protocol.body(case.request)))
        raised.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    time.sleep(0.5)
    target.stop()
    assert raised.wait(60)
    thread.join()
    target.close()


HANGS_AT_TEN = """
for number, request in enumerate(requests()):
    if number == 10:
        time.sleep(1)  # what was answered so far is read meanwhile
        open(os.path.join(HERE, NAME), "w").close(); time.sleep(3600)
    say(request, ok=True, value=63, consumed=1)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_reports_the_results_of_all_targets(number, python_target, traces, tmp_path):
    names = ["one", "two", "three"]
    targets = [
        "command:" + shlex.join(python_target(f"NAME = {name!r}\n{HANGS_AT_TEN}", f"{name}.py")) for name in names
    ]
    report = tmp_path / "report.json"
    options = ("--select", "varint/*", "--timeout", "600", "--jobs", "1", "--json", str(report), "--generated", "0")
    running = subprocess.Popen([*SUITE, *targets, *options], env=traces.env, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not all((tmp_path / name).exists() for name in names):
        assert time.monotonic() < until, "all of them got requests, and none has ended"
        time.sleep(0.05)
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == 130
    found = json.loads(report.read_text())
    assert [target["target"] for target in found["targets"]] == targets
    assert [target["status"] for target in found["targets"]] == ["interrupted"] * 3
    for target in targets:
        rows = [row["verdict"] for row in found["results"] if row["target"] == target]
        assert len(rows) == sum(found["summary"][target].values()) - found["summary"][target]["disputed"]
        verdicts = [verdict for verdict in rows if verdict != "skip"]
        assert 1 <= len(verdicts) <= 10


def test_parallel_targets_have_their_single_results_in_the_order_of_the_command(tmp_path, traces):
    faulty_targets = [
        f"command:{shlex.quote(sys.executable)} -m conformance.selftest.bad_targets {name}"
        for name in ("varint-off-by-one", "segfaults", "exits", "dies-at-start")
    ]

    def rows(*targets):
        report = tmp_path / "report.json"
        options = ("--select", "type:VARINT", "--generated", "5", "--json", str(report))
        conformance("run", *targets, *options, cwd=tmp_path, env=traces.env)
        found = json.loads(report.read_text())
        return [target["target"] for target in found["targets"]], found["results"], found["shrunk"]

    alone = [rows(faulty_target) for faulty_target in faulty_targets]
    together = rows(*faulty_targets)
    assert together[0] == faulty_targets
    assert together[1] == [row for _, results, _ in alone for row in results]
    assert together[2] == [row for _, _, shrunk in alone for row in shrunk]
