"""The processes of a target: limits of unjudged answers, and requests in flight."""

import contextlib
import queue
import threading

from conformance.cases.model import Accepted
from conformance.process.launcher import LaunchSpec
from conformance.process.waiting import wait_until
from conformance.targets._worker_pool import _MAX_UNJUDGED_BYTES, WorkerPool
from conformance.targets.limits import ResourceLimits
from conformance.targets.protocol import body
from conformance.targets.session import TargetSession

LARGE = [Accepted({}, _MAX_UNJUDGED_BYTES // 10)]


def give(target, number, answers, count):
    def work():
        for _ in range(count):
            target._put_outcomes(LARGE, number, answers)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(0.2)
    return thread


def test_large_answers_wait_until_earlier_ones_are_judged():
    target, answers = WorkerPool(LaunchSpec("t", ("true",)), ResourceLimits(), 2), queue.SimpleQueue()
    thread = give(target, 1, answers, 5)
    assert thread.is_alive()
    assert answers.qsize() == 2
    awaited = queue.SimpleQueue()
    assert not give(target, 0, awaited, 1).is_alive(), "there is room for the awaited one"
    for held in (awaited, answers, answers, answers, answers, answers):
        target._mark_taken(held.get(timeout=60), 0 if held is awaited else 1)
    thread.join(60)
    assert not thread.is_alive()


def test_small_answers_do_not_wait():
    target, answers = WorkerPool(LaunchSpec("t", ("true",)), ResourceLimits(), 2), queue.SimpleQueue()
    for _ in range(1000):
        target._put_outcomes([Accepted({}, 100)], 7, answers)
    assert answers.qsize() == target.unjudged == 1000


def test_outcomes_that_wait_for_an_earlier_one_are_counted(python_target, catalog):
    """The progress bar adds them to the results: a timeout at the start must not stop it."""
    cases = [case for case in catalog.cases.values() if case.op == "decode" and not case.measured_bytes][:512]
    with contextlib.closing(
        WorkerPool(LaunchSpec("t", python_target(EACH)), ResourceLimits(timeout=20.0), 2)
    ) as target:
        outcomes = target.ask(cases, lambda case: body(case.request))
        next(outcomes)
        assert wait_until(lambda: target.unjudged > 128, 20)
        assert len(list(outcomes)) == 511
        assert target.unjudged == 0


def test_a_waiting_process_continues_after_the_target_is_closed():
    target, answers = WorkerPool(LaunchSpec("t", ("true",)), ResourceLimits(), 2), queue.SimpleQueue()
    thread = give(target, 1, answers, 5)
    assert thread.is_alive()
    target.close()
    thread.join(60)
    assert not thread.is_alive()


EACH = """
for request in requests():
    say(request, ok=True)
"""

IN_TENS = """
import json, sys
numbers = []
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "describe":
        print(json.dumps({"id": request["id"], "ok": True, "protocol": 1, "name": "in tens"}), flush=True)
        continue
    numbers.append(request["id"])
    if len(numbers) == 10:
        print("\\n".join(json.dumps({"id": number, "ok": True}) for number in numbers), flush=True)
        numbers.clear()
"""


def test_some_requests_are_always_in_flight(python_target, catalog):
    """An idle target would wait until the suite builds the next requests."""
    cases = [case for case in catalog.cases.values() if case.op == "decode" and not case.measured_bytes][:300]
    target = WorkerPool(LaunchSpec("t", python_target(IN_TENS)), ResourceLimits(timeout=20.0), 1)
    with contextlib.closing(target):
        assert list(target.ask(cases, lambda case: body(case.request))) == [Accepted({})] * 300


EACH_AT_ONCE = """
import json, sys
open(FILE, "a").write("x")
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "ok": True, "protocol": 1, "name": "each at once"}), flush=True)
"""


def test_the_processes_of_the_first_cases_get_the_next_ones(python_target, catalog, tmp_path):
    """A Java takes seconds to start, and generated cases follow the vectors."""
    cases = [case for case in catalog.cases.values() if case.op == "decode" and not case.measured_bytes][:300]
    target = python_target(EACH_AT_ONCE.replace("FILE", repr(str(tmp_path / "started"))))
    with contextlib.closing(WorkerPool(LaunchSpec("t", target), ResourceLimits(timeout=20.0), 2)) as target:
        for _ in range(3):
            assert [type(outcome) for outcome in target.ask(cases, lambda case: body(case.request))] == [Accepted] * 300
        assert target.starts == len((tmp_path / "started").read_text()) <= 2


def test_processes_are_ended_in_parallel(monkeypatch):
    target, met = WorkerPool(LaunchSpec("t", ("true",)), ResourceLimits(), 3), threading.Barrier(3)
    target._sessions += [TargetSession(target._launch) for _ in range(2)]
    monkeypatch.setattr(TargetSession, "finish", lambda *_, **__: met.wait(30))
    target.close()
