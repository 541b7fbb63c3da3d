"""The failing request if a target crashes, times out or sends invalid lines with many requests in flight."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from conformance.cases.model import Accepted, NoAnswer, Rejected, Unsupported
from conformance.errors import CannotStart
from conformance.process import _process_tree as process_tree
from conformance.process.child_process import GRACE_PERIOD_S, ChildProcess
from conformance.process.errors import AnswerTimeout, TargetExited
from conformance.process.launcher import LaunchSpec
from conformance.targets import protocol
from conformance.targets.limits import FAULT_LIMITS, FAULT_LIMITS_BEFORE_FIRST_ANSWER, ResourceLimits
from conformance.targets.protocol import ProtocolError
from conformance.targets.session import WINDOW, TargetSession, outcome_of_line


def question(number):
    return protocol.body({"op": "decode", "type": "VARINT", "hex": f"{number:04x}"})


def questions(count):
    return [question(number) for number in range(count)]


@pytest.fixture
def session(python_target, traces):
    """Return a function that starts a session with a target of the test."""
    running = []

    def start(body, **terms):
        launch = LaunchSpec("t", python_target(body), traces.env)
        running.append(TargetSession(launch, ResourceLimits(**{"timeout": 20, "startup": 20, **terms})))
        return running[-1]

    yield start
    for each in running:
        each.finish()


def request_counts(tmp_path):
    """Return how many times each request reached the target, from the target's log."""
    log = tmp_path / "log"
    return Counter(int(line, 16) for line in log.read_text().split()) if log.exists() else Counter()


LOGS = """
for request in requests():
    log(request["hex"]); number = int(request["hex"], 16)
"""
ANSWERS = "    say(request, ok=True, value=number, consumed=1)\n"


def until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def broken(outcomes):
    return {number: outcome for number, outcome in enumerate(outcomes) if isinstance(outcome, NoAnswer)}


def honestly(numbers):
    return [Accepted({"value": number, "consumed": 1}) for number in numbers]


def honest(outcomes):
    return [number for number, outcome in enumerate(outcomes) if [outcome] == honestly([number])]


# --- a single request as the cause --------------------------------------------------------------------


@pytest.mark.parametrize("killer", [0, 30, WINDOW - 1, WINDOW, 99])
def test_of_many_requests_in_flight_only_the_crashing_one_is_a_crash(killer, session, tmp_path):
    outcomes = list(session(LOGS + f"    if number == {killer}: os._exit(5)\n" + ANSWERS).ask(questions(100)))
    assert list(broken(outcomes)) == [killer]
    assert outcomes[killer] == NoAnswer("crash", "exited with status 5")
    assert honest(outcomes) == [number for number in range(100) if number != killer]
    assert max(request_counts(tmp_path).values()) <= 2


def test_each_of_several_crashing_requests_is_a_crash(session, tmp_path):
    outcomes = list(session(LOGS + "    if number % 7 == 3: os.kill(os.getpid(), 11)\n" + ANSWERS).ask(questions(40)))
    assert list(broken(outcomes)) == [3, 10, 17, 24, 31, 38]
    assert {outcome.detail for outcome in broken(outcomes).values()} == {"was killed by SIGSEGV"}
    assert len(honest(outcomes)) == 34
    assert max(request_counts(tmp_path).values()) <= 2


def test_an_unanswered_request_is_a_timeout(session):
    outcomes = list(session(LOGS + "    if number == 5: time.sleep(3600)\n" + ANSWERS, timeout=1).ask(questions(20)))
    assert broken(outcomes) == {5: NoAnswer("timeout", "no answer within 1 s")}
    assert len(honest(outcomes)) == 19


def test_a_request_with_an_invalid_answer_is_a_protocol_fault(session):
    outcomes = list(session(LOGS + '    if number == 5: print("<html>")\n' + ANSWERS).ask(questions(20)))
    assert list(broken(outcomes)) == [5]
    assert outcomes[5].how == "protocol"
    assert "<html>" in outcomes[5].detail
    assert len(honest(outcomes)) == 19


def test_an_invalid_answer_on_its_own_line_needs_no_restart(session, tmp_path):
    body = LOGS + '    if number == 5: say(request, ok="perhaps"); continue\n' + ANSWERS
    outcomes = list(session(body).ask(questions(20)))
    assert list(broken(outcomes)) == [5]
    assert request_counts(tmp_path) == Counter(range(20))


def test_a_crash_caught_by_the_adapter_needs_no_restart(session, tmp_path):
    body = LOGS + '    if number == 5: say(request, crash="NullPointerException"); continue\n' + ANSWERS
    outcomes = list(session(body).ask(questions(20)))
    assert broken(outcomes) == {5: NoAnswer("crash", "NullPointerException")}
    assert request_counts(tmp_path) == Counter(range(20))


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "signal 40")])
def test_a_crash_names_its_signal_if_it_has_a_name(number, name, session):
    (outcome,) = session(f"for request in requests(): os.kill(os.getpid(), {number})\n").ask(questions(1))
    assert outcome == NoAnswer("crash", f"was killed by {name}")


# --- no single request as the cause -------------------------------------------------------------------

STARTS = """
with open(os.path.join(HERE, "starts"), "a") as file:
    file.write("x")
start = os.path.getsize(os.path.join(HERE, "starts"))
"""
"""The number of the process: the first gets all requests, the second single ones, the third all again."""


OTHERS = [number for number in range(20) if number != 7]


def test_a_crash_that_needs_several_requests_is_attributed_to_the_first_unanswered_one(session, tmp_path):
    body = STARTS + LOGS + "    if number == 7 and start != 2: os._exit(5)\n" + ANSWERS
    outcomes = list(session(body).ask(questions(20)))
    assert list(broken(outcomes)) == [7]
    assert outcomes[7].detail.startswith("exited with status 5 (no request causes this alone: attributed to the first")
    assert "again when all were replayed" in outcomes[7].detail
    assert not outcomes[7].flaky
    assert honest(outcomes) == OTHERS
    assert max(request_counts(tmp_path).values()) == 3


def test_a_later_crash_in_a_replay_is_attributed_to_its_first_unanswered_request(session):
    body = STARTS + LOGS + "    if number == {1: 7, 2: -1}.get(start, 9): os._exit(5)\n" + ANSWERS
    outcomes = list(session(body).ask(questions(20)))
    assert list(broken(outcomes)) == [9]
    assert not outcomes[9].flaky


def test_a_crash_caused_by_an_earlier_request_is_not_attributed_to_the_current_one(session):
    body = "spoilt = False\n" + LOGS + "    if number == 13: spoilt = True\n"
    body += "    if number == 7 or (number == 15 and spoilt): os._exit(5)\n" + ANSWERS
    outcomes = list(session(body).ask(questions(20)))
    assert list(broken(outcomes)) == [7]
    assert honest(outcomes) == OTHERS


def test_a_crash_that_does_not_repeat_is_flaky(session, tmp_path):
    body = STARTS + LOGS + "    if number == 7 and start == 1: os._exit(5)\n" + ANSWERS
    outcomes = list(session(body).ask(questions(20)))
    assert list(broken(outcomes)) == [7]
    assert "it did not happen again" in outcomes[7].detail
    assert outcomes[7].flaky
    assert request_counts(tmp_path)[6] == 1
    assert request_counts(tmp_path)[19] <= 3


def test_a_target_that_crashes_at_every_second_request_is_given_up(session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, "crash", 6)
    body = LOGS.replace("for request in requests()", "for count, request in enumerate(requests())")
    running = session(body + "    if count: os._exit(5)\n" + ANSWERS)
    outcomes = list(running.ask(questions(3 * WINDOW)))
    skipped = [outcome for outcome in outcomes if isinstance(outcome, Unsupported)]
    assert len(skipped) > 2 * WINDOW
    assert skipped[0].reason == "not sent: the target was given up after 6 faults (crash)"
    assert running.starts < 30
    assert all("no request causes this alone" in outcomes[place].detail for place in broken(outcomes))


def test_a_timeout_that_does_not_repeat_is_ignored(session, tmp_path):
    body = STARTS + LOGS + "    if number == 7 and start == 1: time.sleep(3600)\n" + ANSWERS
    assert honest(session(body, timeout=1).ask(questions(20))) == list(range(20))
    assert request_counts(tmp_path)[6] == 1
    assert request_counts(tmp_path)[7] == request_counts(tmp_path)[19] + 1 == 3


def test_a_repeated_timeout_in_a_replay_is_attributed_to_the_first_unanswered_request(session):
    body = STARTS + LOGS + "    if number == 7 and start != 2: time.sleep(3600)\n" + ANSWERS
    outcomes = list(session(body, timeout=1).ask(questions(20)))
    assert list(broken(outcomes)) == [7]
    assert (outcomes[7].how, outcomes[7].flaky) == ("timeout", False)
    assert "again when all were replayed" in outcomes[7].detail
    assert honest(outcomes) == OTHERS


def test_a_timeout_that_does_not_repeat_does_not_count_towards_the_limit(session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, "timeout", 1)
    body = STARTS + LOGS + "    if number == 7 and start == 1: time.sleep(3600)\n" + ANSWERS
    assert honest(session(body, timeout=1).ask(questions(2 * WINDOW))) == list(range(2 * WINDOW))


def test_after_many_unrepeated_timeouts_the_other_cases_are_skipped(session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, "silence", 2)
    body = LOGS.replace("for request in requests()", "for count, request in enumerate(requests())")
    body += f"    if count > {WINDOW}: time.sleep(3600)\n" + ANSWERS
    running = session(body, timeout=1)
    outcomes = list(running.ask(questions(10 * WINDOW)))
    skipped = [outcome for outcome in outcomes if isinstance(outcome, Unsupported)]
    assert not broken(outcomes)
    assert honest(outcomes) == list(range(len(outcomes) - len(skipped)))
    assert len(skipped) > 4 * WINDOW
    (reason,) = {outcome.reason for outcome in skipped}
    assert reason.startswith("not sent: the target timed out 2 times on cases that it answered when they were")


def test_slow_requests_wait_in_parallel_and_others_continue(session, tmp_path):
    body = (
        LOGS
        + """
    if number in (3, 4, 6):
        log_silent = open(os.path.join(HERE, "silent"), "a")
        log_silent.write(f"{number} begins\\n"); log_silent.flush()
        time.sleep(3600)
    with open(os.path.join(HERE, "silent"), "a") as file:
        file.write(f"{number} answers\\n")
"""
        + ANSWERS
    )
    outcomes = list(session(body, timeout=3).ask(questions(9)))
    assert broken(outcomes) == dict.fromkeys((3, 4, 6), NoAnswer("timeout", "no answer within 3 s"))
    assert honest(outcomes) == [0, 1, 2, 5, 7, 8]
    steps = (tmp_path / "silent").read_text().splitlines()
    # In flight together until the first timeout; then each alone, without the pending ones.
    assert steps == [*(f"{number} answers" for number in range(3)), "3 begins",
                     "3 begins", "4 begins", "5 answers", "6 begins", "7 answers", "8 answers"]  # fmt: skip


def test_the_number_of_pending_requests_has_a_limit(session, monkeypatch, tmp_path):
    monkeypatch.setitem(FAULT_LIMITS, "timeout", 2)
    outcomes = list(session(LOGS + "    if number > 2: time.sleep(3600)\n" + ANSWERS, timeout=1).ask(questions(9)))
    assert list(broken(outcomes)) == [3, 4]
    assert set(outcomes[5:]) == {Unsupported("not sent: the target was given up after 2 faults (timeout)")}
    assert max(request_counts(tmp_path)) == 4


def test_a_late_answer_within_the_timeout_counts(session):
    body = (
        STARTS
        + LOGS
        + """
    if number == 3: time.sleep(3600) if start == 1 else time.sleep(0.8)
    if number == 4: time.sleep(3600)
"""
        + ANSWERS
    )
    outcomes = list(session(body, timeout=3).ask(questions(9)))
    assert list(broken(outcomes)) == [4]
    assert honest(outcomes) == [0, 1, 2, 3, 5, 6, 7, 8]


def test_cpu_time_of_other_processes_does_not_count_for_a_target(session, monkeypatch):
    began = time.monotonic()
    monkeypatch.setattr(ChildProcess, "cpu_wait_s", lambda _: (time.monotonic() - began) * 0.7)
    body = STARTS + LOGS + "    if number == 3: time.sleep(3600 if start == 1 else 1.5)\n" + ANSWERS
    assert honest(session(body, timeout=1).ask(questions(9))) == list(range(9))


def test_a_timeout_ends_on_a_permanently_busy_machine(session, monkeypatch):
    began = time.monotonic()
    monkeypatch.setattr(ChildProcess, "cpu_wait_s", lambda _: time.monotonic() - began)
    body = STARTS + LOGS + "    if number == 3: time.sleep(3600)\n" + ANSWERS
    assert list(broken(session(body, timeout=1).ask(questions(9)))) == [3]


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux does not tell who waited for a core")
def test_processes_on_one_core_delay_each_other(python_target):
    core = {min(os.sched_getaffinity(0))}
    body = f"os.sched_setaffinity(0, {core})\nwhile True: pass\n"
    targets = [ChildProcess(LaunchSpec("t", python_target(body)), 1 << 30) for _ in range(3)]
    idle = ChildProcess(LaunchSpec("t", python_target(LOGS, "idle.py")), 1 << 30)
    until(lambda: sum(target.cpu_wait_s() for target in targets) > 1)
    assert idle.cpu_wait_s() < 60
    for target in (*targets, idle):
        target.close()


def test_a_target_with_a_late_exit_report_did_not_continue(python_target):
    target = ChildProcess(LaunchSpec("t", python_target("sys.stdin.readline()\nos._exit(3)\n")), 1 << 30)
    keeper = target._popen.pid
    os.kill(keeper, signal.SIGSTOP)
    threading.Timer(1.5 * GRACE_PERIOD_S, os.kill, (keeper, signal.SIGCONT)).start()
    target.send(b"\n")
    with pytest.raises(TargetExited) as gone:
        target.line(time.monotonic() + 60)
    assert (gone.value.lingers, str(gone.value)) == (False, "exited with status 3")
    target.close()


def test_a_session_ended_while_it_waits_leaves_no_process(session):
    running = session(LOGS + "    if number > 2: time.sleep(3600)\n" + ANSWERS, timeout=600)
    thread = threading.Thread(target=lambda: [*map(running._send_alone, questions(6))], daemon=True)
    thread.start()
    until(lambda: len(running._slow.requests) == 3)
    running.abort()
    thread.join(60)
    assert not thread.is_alive()
    # The fixture `traces` checks that no process is left.


def test_a_crash_after_the_last_answer_is_no_failure(session, tmp_path):
    running = session(LOGS + ANSWERS + "    if number == 19: os._exit(5)\n")
    first = list(running.ask(questions(20)))
    until(lambda: not running._process.alive)
    outcomes = [*first, *running.ask([question(number) for number in range(20, 40)])]
    assert honest(outcomes) == list(range(40))
    assert request_counts(tmp_path) == Counter(range(40))


# --- time ---------------------------------------------------------------------------------------------


def test_slow_requests_in_flight_have_separate_timeouts(session):
    outcomes = list(session(LOGS + "    time.sleep(0.04)\n" + ANSWERS, timeout=1).ask(questions(WINDOW)))
    assert honest(outcomes) == list(range(WINDOW))


def test_the_timeout_runs_only_while_the_session_waits(session):
    outcomes = session(LOGS + ANSWERS, timeout=1).ask(questions(20))
    first = next(outcomes)
    time.sleep(1.5)
    assert honest([first, *outcomes]) == list(range(20))


def test_standard_error_and_partial_lines_extend_no_timeout(python_target, monkeypatch):
    target = ChildProcess(LaunchSpec("t", python_target(LOGS)), 1 << 30)
    turns = iter([True] * 100)
    monkeypatch.setattr(target, "_turn", lambda _: next(turns))
    with pytest.raises(AnswerTimeout):
        target.line(time.monotonic())
    target.close()


# --- excessive time and memory ------------------------------------------------------------------------


def test_only_a_repeatedly_slow_answer_is_slow(session, tmp_path):
    outcomes = list(session(LOGS + "    if number == 5: time.sleep(1.5)\n" + ANSWERS).ask(questions(20)))
    assert list(broken(outcomes)) == [5]
    assert outcomes[5].how == "slow"
    assert re.fullmatch(r"took \d+\.\d s, and \d+\.\d s when repeated, for \d+ bytes", outcomes[5].detail)
    assert len(honest(outcomes)) == 19
    # In the sequence, then the warm-up of a separate process, and the retry.
    assert request_counts(tmp_path)[5] == 3


def test_an_answer_that_is_slow_once_is_accepted(session, tmp_path):
    body = STARTS + LOGS + "    if number == 5 and start == 1: time.sleep(1.5)\n" + ANSWERS
    assert honest(session(body).ask(questions(20))) == list(range(20))
    assert request_counts(tmp_path)[5] == 3


def test_an_answer_delayed_by_other_processes_is_not_retried(session, tmp_path, monkeypatch):
    began = time.monotonic()
    monkeypatch.setattr(ChildProcess, "cpu_wait_s", lambda _: time.monotonic() - began)
    outcomes = list(session(LOGS + "    if number == 5: time.sleep(1.5)\n" + ANSWERS).ask(questions(20)))
    assert honest(outcomes) == list(range(20))
    assert request_counts(tmp_path)[5] == 1


def test_a_process_slow_only_at_its_first_answer_is_accepted(session):
    body = LOGS + "    if not globals().get('warm'): time.sleep(1.5); warm = True\n" + ANSWERS
    assert honest(session(body).ask(questions(20))) == list(range(20))


def test_a_slow_answer_that_crashes_at_the_retry_is_accepted(session):
    body = STARTS + LOGS + "    if number == 5: time.sleep(1.5) if start == 1 else os._exit(5)\n" + ANSWERS
    assert honest(session(body).ask(questions(20))) == list(range(20))


def test_a_longer_request_may_take_longer(session):
    long = protocol.body({"op": "decode", "type": "VARINT", "hex": "0005" + "00" * 1_500_000})
    body = LOGS.replace('request["hex"]', 'request["hex"][:4]') + "    time.sleep(1.2)\n" + ANSWERS
    body = body.replace("time.sleep(1.2)", "number < 9 and time.sleep(1.2)")
    outcomes = list(session(body, base_seconds=0.1).ask([question(9), long, question(6)]))
    assert list(broken(outcomes)) == [2]


def test_the_number_of_retried_slow_answers_has_a_limit(session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, "slow", 2)
    running = session(LOGS + "    if number: time.sleep(0.3)\n" + ANSWERS, base_seconds=0.1)
    outcomes = [outcome for each in questions(5) for outcome in running.ask([each])]
    assert list(broken(outcomes)) == [1, 2]
    assert honest(outcomes) == [0, 3, 4]


def test_a_uniformly_slow_target_has_no_slow_answer(session, tmp_path):
    running = session(LOGS + "    time.sleep(0.3)\n" + ANSWERS, base_seconds=0.1)
    outcomes = [outcome for each in questions(4) for outcome in running.ask([each])]
    assert honest(outcomes) == list(range(4))
    assert request_counts(tmp_path) == Counter(range(4))


# Each allocates the MiB in the second byte of a request, and frees them before its answer.
TAKES = """
heap = b"x" * (100 << 20)
for request in requests():
    number = int(request["hex"], 16); taken = b"x" * ((number & 255) << 20); del taken
"""


def hostile(number, measured_bytes=2):
    return protocol.body({"op": "decode", "type": "VARINT", "hex": f"{number:04x}"}, measured_bytes=measured_bytes)


def test_allocated_and_freed_memory_is_found(session):
    outcomes = list(session(TAKES + ANSWERS).ask([question(90), hostile(90), hostile(1)]))
    assert list(broken(outcomes)) == [1]
    assert outcomes[1].how == "memory"
    assert not outcomes[1].unprovoked
    grown = r"memory grew by [89]\d MiB, and by [89]\d MiB when repeated in another process"
    assert re.fullmatch(grown + ", 64 MiB are allowed for 2 bytes", outcomes[1].detail)
    assert outcomes[1].answered == honestly([90])[0]


def test_the_memory_limit_grows_with_the_case_and_the_option(session):
    assert not broken(session(TAKES + ANSWERS).ask([question(1), hostile(90, measured_bytes=1 << 17)]))
    assert not broken(session(TAKES + ANSWERS, base_memory_growth=120 << 20).ask([question(1), hostile(90)]))
    assert list(broken(session(TAKES + ANSWERS, base_memory_growth=20 << 20).ask([question(1), hostile(90)]))) == [1]


def test_a_heap_allocated_at_the_start_is_no_growth(session):
    (outcome,) = session(TAKES + ANSWERS, base_memory_growth=10 << 20).ask([hostile(1)])
    assert outcome == honestly([1])[0]


def test_memory_allocated_once_is_no_finding(session):
    body = STARTS + TAKES.replace("(number & 255)", "(number & 255 if start == 1 else 0)") + ANSWERS
    assert not broken(session(body).ask([question(1), hostile(90)]))


def test_without_peaks_from_the_system_memory_is_sampled(session, monkeypatch):
    monkeypatch.setattr(process_tree, "_RESET_PEAK_RSS", "no number")
    held = TAKES.replace("del taken", "time.sleep(0.3); del taken")
    outcomes = list(session(held + ANSWERS).ask([question(1), hostile(90)]))
    assert list(broken(outcomes)) == [1]


HOARDS = """
for request in requests():
    kept = []
    while True:
        kept.append(b"x" * (8 << 20)); time.sleep(0.02)
"""


@pytest.mark.parametrize(("size", "small"), [(1, True), (30_000, True), (40_000, False)])
def test_exhausted_memory_is_unprovoked_at_a_thousand_times_the_request(size, small, session):
    (outcome,) = session(HOARDS, memory=64 << 20).ask([protocol.body({"op": "decode", "hex": "00" * size})])
    assert (outcome.how, outcome.unprovoked) == ("memory", small)
    assert re.fullmatch(r"used \d+ MiB of memory, 64 MiB are allowed, for a request of \d+ bytes", outcome.detail)


# --- giving up ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "how"),
    [("os._exit(1)", "crash"), ("time.sleep(3600)", "timeout"), ("print(flush=True); continue", "protocol")],
)
def test_after_many_faults_the_other_cases_are_skipped_with_a_reason(fault, how, session, tmp_path, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, how, 3)
    outcomes = list(session(LOGS + f"    if number > 9: {fault}\n" + ANSWERS, timeout=1).ask(questions(300)))
    assert list(broken(outcomes)) == [10, 11, 12]
    assert honest(outcomes) == list(range(10))
    assert set(outcomes[13:]) == {Unsupported(f"not sent: the target was given up after 3 faults ({how})")}
    assert max(request_counts(tmp_path)) < 10 + WINDOW


def test_faults_are_counted_over_all_requests_of_a_session(session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS, "crash", 2)
    running = session(LOGS + "    if number % 10 == 5: os._exit(1)\n" + ANSWERS)
    outcomes = [outcome for number in range(30) for outcome in running.ask([question(number)])]
    assert list(broken(outcomes)) == [5, 15]
    assert honest(outcomes) == [*range(5), *range(6, 15)]


def test_a_closed_output_is_tolerated_a_few_times(session, tmp_path):
    outcomes = list(session(LOGS + "    if number > 9: os.close(1); time.sleep(3600)\n" + ANSWERS).ask(questions(40)))
    assert list(broken(outcomes)) == [10, 11, 12, 13]
    assert {outcome.detail for outcome in broken(outcomes).values()} == {"closed its output and continued to run"}
    assert honest(outcomes) == list(range(10))
    assert set(outcomes[14:]) == {Unsupported("not sent: the target was given up after 4 faults (closed output)")}
    assert request_counts(tmp_path).total() == 10 + 1 + 4


@pytest.mark.parametrize(
    ("fault", "how", "faults"),
    [("os._exit(1)", "crash", 6), ("time.sleep(3600)", "timeout", 3), ("print(flush=True)", "protocol", 3)],
)
def test_a_target_without_any_answer_is_given_up_sooner(fault, how, faults, session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS_BEFORE_FIRST_ANSWER, "crash", 6)
    outcomes = list(session(f"for request in requests(): {fault}\n", timeout=0.5).ask(questions(60)))
    assert list(broken(outcomes)) == list(range(faults))
    assert set(outcomes[faults:]) == {Unsupported(f"not sent: the target was given up after {faults} faults ({how})")}


def test_after_a_reset_of_its_faults_a_target_counts_as_unanswered_again(session, monkeypatch):
    monkeypatch.setitem(FAULT_LIMITS_BEFORE_FIRST_ANSWER, "crash", 6)
    running = session(LOGS + "    if number > 9: os._exit(1)\n" + ANSWERS)
    assert honest(list(running.ask(questions(10)))) == list(range(10))
    running.forget_faults()
    assert len(broken(list(running.ask([question(10)] * 20)))) == 6


# --- starting and ending ------------------------------------------------------------------------------


def test_a_failed_restart_is_attributed_to_the_request(session):
    body = STARTS + "if start > 1: sys.exit('gone for good')\n" + LOGS + "    if number == 5: os._exit(1)\n" + ANSWERS
    outcomes = []
    with pytest.raises(CannotStart, match=r"could not be started in 3 attempts: .*gone for good"):
        outcomes.extend(session(body).ask(questions(20)))
    assert outcomes == [*honestly(range(5)), NoAnswer("crash", "exited with status 1")]


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"ok": False, "error": "other"}, "describe: expected ok: true, found"),
        ({"ok": True, "protocol": 2}, "describe: protocol: expected 1, found 2"),
        ({"ok": True, "supports": ["INT8"]}, "supports: expected an object"),
        ({"ok": True, "supports": {"decode": "INT8"}}, "describe: supports.decode: expected a list of names"),
        ({"ok": True, "codecs": [1]}, "describe: codecs: expected a list of names"),
        ({"ok": True, "magics": ["2"]}, "describe: magics: expected a list of numbers"),
        ({"ok": True, "via": {"decode": "mine"}}, "via: 'decode': expected public, internal or unused"),
    ],
)
def test_an_invalid_description_is_reported_and_not_retried(described, message, session, tmp_path):
    with pytest.raises(CannotStart, match=message):
        session(f"log('0')\nDESCRIBED = {described!r}\n" + LOGS).describe()
    assert request_counts(tmp_path) == {0: 1}


def test_a_program_that_cannot_run_is_one_line(tmp_path):
    (tmp_path / "plain").write_text("no program")
    for command, message in (("/no/such/program", "No such file"), (str(tmp_path / "plain"), "Permission denied")):
        with pytest.raises(CannotStart, match=message):
            TargetSession(LaunchSpec("t", (command,))).describe()


def test_an_abort_ends_waiting_threads(session, tmp_path):
    running = session(LOGS + "    time.sleep(3600)\n", timeout=3600)
    running.describe()
    waiting = threading.Thread(target=lambda: (until(lambda: request_counts(tmp_path)), running.abort()))
    waiting.start()
    with pytest.raises(CannotStart, match="stopped"):
        list(running.ask(questions(3)))
    waiting.join()


def test_an_unfinished_target_ends_with_the_suite(python_target, traces):
    command = python_target(LOGS + "    time.sleep(3600)\n")
    program = f"""
import os
from conformance.targets.limits import FAULT_LIMITS, FAULT_LIMITS_BEFORE_FIRST_ANSWER
from conformance.process.launcher import LaunchSpec
from conformance.targets.session import TargetSession
session = TargetSession(LaunchSpec("t", {command!r}))
session.describe()
session._process.send(b'{{"op": "decode", "hex": "00"}}\\n')
raise SystemExit("forgot to close it")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], env=traces.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr.strip()) == (1, "forgot to close it")


# --- pipes --------------------------------------------------------------------------------------------


def test_long_requests_and_answers_do_not_deadlock(session):
    body = 'for request in requests():\n    say(request, ok=True, value=1, more="x" * 300_000)\n'
    requests = [protocol.body({"op": "decode", "type": "VARINT", "hex": "00" * 15_000})] * 12
    outcomes = list(session(body).ask([*requests, protocol.body({"op": "decode", "hex": "00" * 300_000})]))
    assert [len(outcome.answer["more"]) for outcome in outcomes] == [300_000] * 13


def test_a_large_request_is_sent_alone(session, tmp_path):
    body = """
import select
for line in iter(sys.stdin.buffer.raw.readline, b""):
    request = json.loads(line)
    if len(line) > 50_000:
        log(str(len(select.select([0], [], [], 0.3)[0])))
    say(request, **(DESCRIBED if request["op"] == "describe" else {"ok": True}))
"""
    large = protocol.body({"op": "decode", "hex": "00" * 30_000})
    assert len(list(session(body).ask([*questions(5), large, *questions(5), large, *questions(5)]))) == 17
    assert request_counts(tmp_path) == {0: 2}


def test_partial_and_combined_answers_are_read_equally(session):
    body = """
waiting = []
for request in requests():
    answer = {"id": request["id"], "ok": True, "value": int(request["hex"], 16), "consumed": 1}
    waiting.append(json.dumps(answer) + "\\n")
    if len(waiting) == 4:
        text = "".join(waiting).encode()
        for at in range(0, len(text), 7):
            os.write(1, text[at : at + 7])
        waiting = []
"""
    assert honest(list(session(body).ask(questions(20)))) == list(range(20))


# --- lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (b'{"id":1,"ok":true,"value":63}', Accepted({"value": 63})),
        (b'{"id":1,"ok":false,"error":"corrupt","message":"crc"}', Rejected("corrupt", "crc")),
        (b'{"id":1,"unsupported":"not yet"}', Unsupported("not yet")),
        (b'{"id":1,"crash":"TypeError"}', NoAnswer("crash", "TypeError")),
        (b'{"id":1,"ok":true,"value":"a\\udcffb"}', Accepted({"value": "a\ufffd\ufffd\ufffdb"})),
        (b'{"id":1,"ok":true,"value":"\\ud83d\\ude00"}', Accepted({"value": "\U0001f600"})),
    ],
)
def test_each_answer_has_the_outcome_of_the_protocol(line, outcome):
    assert protocol.outcome(protocol.fields(line, 1)) == outcome


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"hello", "not a line of JSON"),
        (b'{"id":1', "not a line of JSON"),
        (b"", "not a line of JSON"),
        (b"[" * 100_000, "not a line of JSON"),
        (b"\xff\xfe", "not a line of JSON"),
        (b'{"id":1,"value":"\\udcff', "not a line of JSON"),
        (b'{"id":1,"ok":true,"value":' + b"[" * 500 + b"]" * 500 + b"}", "nested more than 128 deep"),
        (b'{"id":1,"ok":true,"value":"\\udcff","more":' + b"[" * 500 + b"]" * 500 + b"}", "nested more than 128 deep"),
        (b'{"id":1,"ok":true,"value":[' + b"0," * 1_000_000 + b"0]}", "more than 1,000,000 values"),
        (b"[1]", "not a JSON object"),
        (b'{"ok":true}', "expected the answer to request 1"),
        (b'{"id":2,"ok":true}', "expected the answer to request 1"),
        (b'{"id":"1","ok":true}', "expected the answer to request 1"),
        (b'{"id":true,"ok":true}', "expected the answer to request 1"),
    ],
)
def test_an_invalid_line_is_shown_in_the_error(line, message):
    with pytest.raises(ProtocolError, match=message):
        protocol.fields(line, 1)


def test_an_answer_with_too_many_values_is_excessive_memory():
    line = b'{"id":1,"ok":true,"value":[' + b"0," * 1_000_000 + b"0]}"
    found = outcome_of_line(line, 1)
    assert (found.how, found.detail) == ("memory", "answered with more than 1,000,000 values, 1 MiB")
    assert found.answered == Accepted({}, len(line))


@pytest.mark.parametrize("answer", [{}, {"ok": 1}, {"ok": None}, {"ok": False}, {"ok": False, "error": "bad"}])
def test_an_invalid_answer_is_a_protocol_fault(answer):
    assert protocol.outcome({"id": 1, **answer}).how == "protocol"


def test_a_shown_line_is_cut_and_has_no_control_characters():
    assert protocol.printable_line(b"\x1b[31mred\n" + b"x" * 500) == "\\x1b[31mred\\n" + "x" * 191 + "…"
    assert protocol.printable_line("grün".encode()) == "grün"
