"""Unanswered requests: the session waits for them while it sends others, and for a timeout group together."""

from __future__ import annotations

import os
import sys
import time
from itertools import chain

import psutil
import pytest

from conformance.cases.model import Accepted, NoAnswer
from conformance.process.child_process import ChildProcess
from conformance.process.errors import AnswerTimeout
from conformance.process.fork_server import ForkServer
from conformance.process.launcher import cpu_wait_s
from conformance.targets import protocol
from conformance.targets._pending import PendingRequest, ordered
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import resolve
from conformance.targets.session import TargetSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")

MODULE = """
import time

def describe():
    return {"name": "m", "version": "1", "language": "python", "supports": {"decode": ["INT8"]}}

def decode(type, data, **parameters):
    if data[0] % 2:
        DEED
    return data[0], 1
"""
SPINS = "\n        while True: pass"
TIMEOUT = "no answer within 3 s"
AT_THE_SAME_TIME = "; another case of this requirement ran at the same time with priority, and got no answer either"


@pytest.fixture
def session(tmp_path, traces):
    """Return a function that starts a session with a module that has a fault at each odd byte and is forked."""
    opened = []

    def start(fault):
        (tmp_path / "target.py").write_text(MODULE.replace("DEED", fault))
        spec = resolve(f"module:{tmp_path / 'target.py'}")
        launch = type(spec)(spec.name, spec.command, traces.env, forks=spec.forks)
        warm = ForkServer(launch, 30)
        opened.append((TargetSession(launch, ResourceLimits(timeout=3, startup=30, base_seconds=60), warm), warm))
        return opened[-1][0]

    yield start
    for each, warm in opened:
        each.finish()
        warm.close()


def question(number, timeout_group=""):
    return protocol.body({"op": "decode", "type": "INT8", "hex": f"{number:02x}"}, timeout_group)


def flat(runs):
    return [*chain.from_iterable(runs)]


def accepted(number):
    return Accepted({"value": number, "consumed": 1})


def test_later_requests_are_answered_during_a_timeout(session):
    ahead = flat(session("time.sleep(3600)").send_batches([question(number) for number in (0, 1, 2, 4)]))
    assert [ahead[0], ahead[2], ahead[3]] == [accepted(0), accepted(2), accepted(4)]
    assert isinstance(ahead[1], PendingRequest)
    assert ahead[1].outcome is None
    assert ahead[1].wait() == NoAnswer("timeout", TIMEOUT)


def test_of_a_timeout_group_only_the_first_request_runs_at_normal_priority(session):
    running = session(SPINS)
    ahead = flat(running.send_batches([question(number, "read a.b") for number in (1, 2, 3, 5)]))
    leader, *followers = (pending.process for pending in running._slow.requests)
    assert {priority for process in followers for priority in priorities(process)} == {19}
    assert 19 not in priorities(leader)
    assert flat(ordered([ahead])) == [
        NoAnswer("timeout", TIMEOUT),
        accepted(2),
        *[NoAnswer("timeout", TIMEOUT + AT_THE_SAME_TIME)] * 2,
    ]


def priorities(process):
    while not process._family:
        time.sleep(0.01)
    return [os.getpriority(os.PRIO_PROCESS, each.pid) for each in process._family]


def test_later_requests_of_a_group_are_stopped_until_the_first_one_times_out(session):
    running = session("time.sleep(3600)")
    ahead = flat(running.send_batches([question(number, "read a.b") for number in (1, 3)]))
    leader, follower = running._slow.requests
    states = {pending: set() for pending in (leader, follower)}
    while follower.outcome is None:
        for pending, seen in states.items():
            seen |= {each.status() for each in pending.process._family if pending.outcome is None}
        running._slow.poll()
    assert psutil.STATUS_STOPPED in states[follower]
    assert psutil.STATUS_STOPPED not in states[leader]
    assert flat(ordered([ahead])) == [NoAnswer("timeout", TIMEOUT), NoAnswer("timeout", TIMEOUT + AT_THE_SAME_TIME)]


def test_later_requests_of_a_group_are_stopped_even_with_many_other_requests(session):
    running = session("time.sleep(3600)\n    if data[0] >= 100: time.sleep(0.005)")
    numbers = [1, 3, *[2] * 70, *[100] * 400]
    _, follower, *_ = flat(running.send_batches([question(number, "read a.b" * (number % 2)) for number in numbers]))
    assert follower.outcome is not None or follower._suspended_since is not None


def test_a_stopped_process_does_not_use_up_its_timeout(monkeypatch):
    now, done = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    process = type("Process", (), {"cpu_wait_s": lambda _: 0.0, "suspend": lambda _, thaw=False: done.append(thaw)})()
    pending = PendingRequest(question(1), 1, process)
    for seconds in (2, 50):
        now[0] += seconds
        pending.suspend()
    pending.resume()
    now[0] += 1
    pending.resume()
    assert pending.elapsed_s() == pending.cpu_available_s() == 3
    assert done == [False, True]


@pytest.mark.parametrize(
    ("passed", "own", "is_over"),
    [(2.9, 2.9, False), (3.1, 3.1, True), (3.1, 1.6, True), (3.1, 1.4, False), (8, 1.4, False), (13, 0.1, True)],
)
def test_a_timeout_uses_the_wall_clock_after_half_of_it_on_the_cpu_or_four_times_the_time(
    passed, own, is_over, monkeypatch
):
    now, delay = [100.0], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def line(until):
        now[0] = until
        raise AnswerTimeout

    process = type("Process", (), {"cpu_wait_s": lambda _: delay[0], "line": lambda _, until: line(until)})()
    pending = PendingRequest(question(1), 1, process)
    now[0] += passed
    delay[0] = passed - own
    pending._last_poll = now[0]
    if is_over:
        with pytest.raises(AnswerTimeout):
            pending.line(3.0, 0)
    else:
        assert pending.line(3.0, 0) is None


def test_requests_of_different_groups_have_separate_timeouts(session):
    ahead = session(SPINS).ask([question(1, "read a.b"), question(3, "read a.c"), question(5)])
    assert [*ahead] == [NoAnswer("timeout", TIMEOUT)] * 3


def test_a_late_answer_of_the_first_request_clears_its_group(session):
    outcomes = session("time.sleep(1.5)").ask([question(number, "read a.b") for number in (1, 3, 5)])
    assert [*outcomes] == [accepted(1), accepted(3), accepted(5)]


def test_a_pending_outcome_delays_only_later_outcomes():
    pending = PendingRequest(question(1), 1, type("Process", (), {"cpu_wait_s": lambda _: 0.0})())

    def outcomes():
        yield [accepted(0), pending, accepted(2)]
        pending.outcome = accepted(1)
        yield [accepted(3)]

    taken = ordered(outcomes())
    assert next(taken) == [accepted(0)]
    assert [*taken] == [[accepted(1), accepted(2), accepted(3)]]


def test_a_process_that_ends_between_two_reads_has_not_waited(monkeypatch):
    def gone(*_):
        raise FileNotFoundError(2, "No such file or directory", "/proc/1/task")

    assert cpu_wait_s([os.getpid()]) >= 0
    monkeypatch.setattr(os, "listdir", gone)
    monkeypatch.setattr(os, "scandir", gone)
    assert cpu_wait_s([os.getpid()]) == 0
    monkeypatch.setattr(os, "listdir", lambda _: [])
    assert cpu_wait_s([os.getpid()]) == 0


def test_a_process_that_ends_during_a_priority_change_is_no_error(monkeypatch, python_target):
    target = ChildProcess(resolve("command:" + " ".join(python_target("for request in requests(): pass\n"))), 1 << 30)
    try:
        priorities(target)
        monkeypatch.setattr(os, "listdir", lambda _: [str(2**22 + 1)])
        target.lower_priority()
    finally:
        monkeypatch.undo()
        target.close()
