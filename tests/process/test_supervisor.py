"""No process of a target survives its session or the suite, and no other process is ended."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from conformance.cases.model import NoAnswer
from conformance.process import supervisor
from conformance.process.child_process import ChildProcess
from conformance.process.launcher import LaunchSpec
from conformance.targets import protocol
from conformance.targets.limits import ResourceLimits
from conformance.targets.session import TargetSession

QUESTION = protocol.body({"op": "decode", "type": "VARINT", "hex": "7e"})
HELPERS = """
import fcntl
# All descendants of this process share the lock, in any session and environment.
shared = os.open(os.path.join(HERE, "lock"), os.O_CREAT | os.O_RDWR)
os.set_inheritable(shared, True)
fcntl.flock(shared, fcntl.LOCK_SH)
def orphan(work):
    # Runs `work` in a process without its parents, its session and its environment.
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            log(str(os.getpid()))
            os.write(writer, b"%8d" % os.getpid()); os.close(writer); os.close(reader)
            work()
        os._exit(0)
    os.wait()
    os.close(writer)
    return int(os.read(reader, 8)), os.close(reader)
def sleeper():
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(100)"], {})
def twin(other):
    os.execve(sys.executable, [sys.executable, __file__, str(other)], {})
def watch(other):
    # Starts another process as soon as the other is gone, some hundred times in all; it begins with itself.
    this = os.getpid()
    until = time.monotonic() + 60
    while os.path.getsize(os.path.join(HERE, "log")) < 2000 and time.monotonic() < until:
        if other == this or not os.path.exists("/proc/%d" % other):
            other, _ = orphan(lambda: twin(this))
        time.sleep(0.001)
def answer(request):
    say(request, ok=True, value=63, consumed=1)
if sys.argv[1:]:
    watch(int(sys.argv[1]))
    sys.exit()
"""
ESCAPES = {
    "double fork, no environment": "orphan(sleeper)",
    "several generations": "orphan(lambda: orphan(lambda: orphan(sleeper)))",
    "its supervisor is stopped": "orphan(sleeper); os.kill(os.getppid(), signal.SIGSTOP)",
    "its supervisor gets SIGHUP": "orphan(sleeper); os.kill(os.getppid(), signal.SIGHUP)",
    # It starts no more processes: one started after the watcher's last poll and before the kill would be unknown.
    "its supervisor dies": "orphan(sleeper); time.sleep(1.5); os.kill(os.getppid(), signal.SIGKILL); time.sleep(100)",
    "it kills its group": "orphan(sleeper); os.kill(0, signal.SIGKILL)",
    "it dies": "orphan(sleeper); os._exit(3)",
    "each starts the other again": "orphan(lambda: twin(os.getpid())); time.sleep(0.5)",
    "each process dies at once and leaves another": """
def hop():
    for _ in range(3000):
        if os.fork():
            os._exit(0)
        os.setsid()
    log(str(os.getpid())); sleeper()
orphan(hop)
""",
}


@pytest.fixture(params=["control group", "no control group"])
def supervisors(request, tmp_path, monkeypatch):
    """Supervisors with a control group, if this system allows one, and without."""
    if request.param == "no control group":
        text = Path(supervisor.__file__).read_text()
        (tmp_path / "supervisor.py").write_text(text.replace("if __name__", "group_of = lambda _: None\nif __name__"))
        monkeypatch.setattr(supervisor, "__file__", str(tmp_path / "supervisor.py"))
        monkeypatch.setattr(supervisor, "group_of", lambda _: None)


@pytest.fixture
def launch(python_target, traces):
    """Return a function from the code of a target to its launch."""
    return lambda body: LaunchSpec("t", python_target(HELPERS + body), traces.env)


def is_process_left(tmp_path):
    """Return True if a process of the target still runs after at most 60 s."""
    until = time.monotonic() + 60
    with (tmp_path / "lock").open() as lock:
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
            time.sleep(0.05)
    return True


@pytest.mark.usefixtures("supervisors")
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_no_process_of_a_target_outlives_its_session(escape, launch, tmp_path):
    body = "for request in requests():\n" + "".join(
        f"    {line}\n" for line in f"{escape}\nanswer(request)".splitlines()
    )
    with TargetSession(launch(body), ResourceLimits(timeout=2)) as session:
        assert len(list(session.ask([QUESTION]))) == 1
    assert (tmp_path / "log").exists()
    assert not is_process_left(tmp_path)


@pytest.mark.usefixtures("supervisors")
def test_descendants_are_ended_after_their_supervisor_was_killed(launch, tmp_path):
    process = ChildProcess(launch("orphan(sleeper)\ntime.sleep(100)\n"), 1 << 30)
    until = time.monotonic() + 60
    while not (tmp_path / "log").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)  # the watcher polls for children ten times a second, less often on a busy machine
    os.kill(process._popen.pid, signal.SIGKILL)
    time.sleep(0.5)
    process.close()
    assert not is_process_left(tmp_path)


def test_no_unrelated_process_is_ended(launch, python_target):
    """The others are a child of the suite, an orphan of that child, and another target of the suite."""
    left = "left = os.fork()\nif left: print(left, flush=True)\ntime.sleep(100)"
    child = subprocess.Popen(python_target(left, "child.py"), stdout=subprocess.PIPE, text=True, start_new_session=True)
    others = [
        psutil.Process(child.pid),
        psutil.Process(int(child.stdout.readline())),
    ]
    try:
        with TargetSession(launch("for request in requests(): answer(request)\n"), ResourceLimits()) as other:
            other.describe()
            others += psutil.Process(other._process._popen.pid).children()
            with TargetSession(
                launch("for request in requests(): orphan(sleeper); os._exit(1)\n"), ResourceLimits()
            ) as session:
                assert len(list(session.ask([QUESTION]))) == 1
            assert len(others) == 3
            assert all(process.is_running() for process in others)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.mark.usefixtures("supervisors")
def test_every_process_of_a_fork_bomb_is_ended(launch, tmp_path):
    """Each process has its own session and starts others as fast as possible, 150 in total."""
    body = """
tokens, supply = os.pipe()
os.write(supply, b"x" * 150)
os.set_blocking(tokens, False)
def bomb():
    try:
        while os.read(tokens, 1):
            if os.fork() == 0:
                os.setsid()
    except BlockingIOError:
        while True: pass
for request in requests():
    orphan(bomb); time.sleep(0.1); answer(request)
"""
    with TargetSession(launch(body), ResourceLimits(timeout=60, memory=64 << 30)) as session:
        assert len(list(session.ask([QUESTION]))) == 1
    assert not is_process_left(tmp_path)


@pytest.mark.parametrize(("more_come", "looks_everywhere"), [(False, 0), (True, 1)])
def test_the_supervisor_waits_for_slow_exits_and_stops_forking_processes_first(
    more_come, looks_everywhere, monkeypatch
):
    """Repeated scans of all processes would take the CPU time that a large process needs to exit."""
    pids = iter(range(10**6, 2 * 10**6))
    there = [next(pids)]
    left, everywhere, hurried = iter([True] * 25), [], []

    def children(_):
        return [next(pids)] if more_come else there

    monkeypatch.setattr(supervisor, "children_of", children)
    monkeypatch.setattr(supervisor, "_signal", lambda *_: None)
    monkeypatch.setattr(supervisor, "kill_descendants", lambda root, **_: everywhere.append(root))
    monkeypatch.setattr(supervisor, "_raise_priority", lambda: hurried.append(True))
    kept = supervisor._Supervisor(None)
    monkeypatch.setattr(kept, "reap", lambda: next(left, False))
    monkeypatch.setattr(supervisor.os, "killpg", lambda *_: None)
    kept.end()
    assert len(everywhere) == len(hurried) == looks_everywhere


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux supervisors raise their priority")
def test_a_supervisor_has_normal_priority_while_its_target_runs(launch):
    """A high-priority process that reaps a process being read in /proc can block a core for a second."""
    process = ChildProcess(launch("time.sleep(100)\n"), 1 << 30)
    try:
        assert os.sched_getscheduler(process._popen.pid) == os.SCHED_OTHER
    finally:
        process.close()


def test_memory_of_orphaned_processes_counts(launch, tmp_path):
    body = """
from conformance.selftest.bad_targets import allocate
for request in requests():
    os.environ.clear(); orphan(allocate); time.sleep(3600)
"""
    with TargetSession(launch(body), ResourceLimits(timeout=30, memory=200 << 20)) as session:
        (outcome,) = session.ask([QUESTION])
    assert isinstance(outcome, NoAnswer)
    assert (outcome.how, outcome.unprovoked) == ("memory", True)
    assert not is_process_left(tmp_path)
