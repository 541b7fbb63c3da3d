"""A module target that crashes often is loaded a second time and then forked; it behaves like a program."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from msgspec.structs import replace
from traps import Traps

from conformance.cases.model import Accepted, NoAnswer
from conformance.errors import CannotStart
from conformance.process.child_process import ChildProcess
from conformance.process.fork_server import ForkServer
from conformance.targets import protocol
from conformance.targets._worker_pool import WorkerPool
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import resolve
from conformance.targets.session import TargetSession
from conformance.targets.target import TargetSpec, loaded_once

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")

MODULE = """
import os, signal, sys, threading, time
HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "loaded"), "a") as file:
    file.write("x")
ASKED = []

def describe():
    return {"name": "m", "version": "1", "language": "python", "supports": {"decode": ["INT8"]}}

def decode(type, data, **parameters):
    ASKED.append(data[0])
    if data[0] % 2:
        DEED
    return ASKED[:], 1
"""


@pytest.fixture
def launch(tmp_path, traces):
    """Return a function from a fault to the launch of a module with that fault at each odd byte."""

    def write(fault, more=""):
        (tmp_path / "target.py").write_text(MODULE.replace("DEED", fault) + more)
        spec = resolve(f"module:{tmp_path / 'target.py'}")
        return type(spec)(spec.name, spec.command, traces.env, forks=spec.forks)

    return write


def loaded(tmp_path):
    """Return how many times the module was loaded."""
    return len((tmp_path / "loaded").read_text())


def requests(*numbers):
    return [protocol.body({"op": "decode", "type": "INT8", "hex": f"{number:02x}"}) for number in numbers]


def outcomes(launch, *numbers, warm=True, **allowed):
    """Return the outcomes of requests, sent one after the other."""
    limits = ResourceLimits(**{"timeout": 20, **allowed})
    start = ForkServer(launch, 20) if warm else None
    try:
        with TargetSession(launch, limits, start) as session:
            return [outcome for each in requests(*numbers) for outcome in session.ask([each])]
    finally:
        if start is not None:
            start.close()


def test_a_crashing_module_is_loaded_twice_and_each_process_starts_fresh(launch, tmp_path):
    found = outcomes(launch("os._exit(5)"), 0, 1, 2, 3, 4, 5, 6)
    assert found[1::2] == [NoAnswer("crash", "exited with status 5")] * 3
    assert found[::2] == [Accepted({"value": [number], "consumed": 1}) for number in (0, 2, 4, 6)]
    assert loaded(tmp_path) == 2


def test_processes_of_one_target_are_forked_from_one_parent(launch, tmp_path):
    target = WorkerPool(launch("os._exit(5)"), ResourceLimits(timeout=20), 2)
    try:
        target.describe()
        sessions = [
            target._first,
            *(TargetSession(target._launch, ResourceLimits(), target._fork_server) for _ in range(2)),
        ]
        for session in sessions:
            for each in requests(1, 3):
                assert list(session.ask([each])) == [NoAnswer("crash", "exited with status 5")]
            assert list(session.ask(requests(2))) == [Accepted({"value": [2], "consumed": 1})]
        for session in sessions[1:]:
            session.finish()
    finally:
        target.close()
    assert loaded(tmp_path) == 2


def test_a_target_opened_again_is_not_loaded_again(launch, tmp_path):
    way = launch("os._exit(5)")
    with loaded_once(TargetSpec("m", way, ResourceLimits(timeout=20), 2)) as spec:
        for _ in range(3):
            with closing(spec.open()) as target:
                assert target.describe().name == "m"
        assert loaded(tmp_path) == 2
        with closing(spec.open()) as target:
            target.stop()
    with closing(TargetSpec("m", way).open()) as target:
        target.describe()
    assert loaded(tmp_path) == 3


def test_a_module_is_loaded_before_the_first_request_and_the_first_session_uses_that_process(launch, tmp_path):
    with loaded_once(TargetSpec("m", launch("os._exit(5)"), ResourceLimits(timeout=20))) as spec:
        started = spec.fork_server._started[0].result()
        while started.alive and not (tmp_path / "loaded").exists():
            time.sleep(0.01)
        with closing(spec.open()) as target:
            assert target.describe().name == "m"
            assert target._first._process is started
            assert spec.fork_server._started == []
    assert loaded(tmp_path) == 1


def test_an_unused_process_is_ended_with_its_fork_server(launch):
    with loaded_once(TargetSpec("m", launch("os._exit(5)"), ResourceLimits(timeout=20))) as spec:
        started = spec.fork_server._started[0].result()
        assert started.alive
    assert not started.alive


def test_a_program_target_is_started_at_its_first_request(launch):
    program = replace(launch("os._exit(5)"), forks=False)
    with loaded_once(TargetSpec("m", program, ResourceLimits(timeout=20))) as spec:
        assert spec.fork_server._started == []


def test_a_failed_early_start_is_raised_at_the_first_request(launch):
    nothing = replace(launch("os._exit(5)"), command=("/no/such/program",))
    spec = TargetSpec("m", nothing, ResourceLimits(timeout=20))
    with loaded_once(spec) as spec, closing(spec.open()) as target, pytest.raises(CannotStart, match="No such file"):
        target.describe()
    with loaded_once(spec):
        pass  # no request


FAULTS = {
    "it exits": "os._exit(5)",
    "it exits and says why": "sys.stderr.write('no table\\n'); sys.stderr.flush(); os._exit(5)",
    "it dies of a signal": "os.kill(os.getpid(), signal.SIGSEGV)",
    "it aborts": "os.abort()",
    "it ends itself kindly": "os.kill(os.getpid(), signal.SIGTERM)",
    "it closes its output": "os.closerange(3, 50); os.close(1); time.sleep(3600)",
    "it falls silent": "time.sleep(3600)",
    "it prints": "print('x' * 100_000); os.write(1, b'{}')",
    "it raises": "raise SystemExit(3)",
    "it leaves a child": "os.fork() or time.sleep(3600); os._exit(4)",
    "it leaves a child in a session of its own": "os.fork() or (os.setsid(), time.sleep(3600)); os._exit(4)",
    "it interrupts itself": "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "it kills its supervisor": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(3600)",
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_forked_process_has_the_same_outcomes_as_a_program(fault, launch, tmp_path):
    way = launch(fault)
    with ThreadPoolExecutor() as pool:  # both wait in parallel
        program, forked = pool.map(lambda warm: outcomes(way, 0, 1, 2, 3, 4, warm=warm, timeout=1), (False, True))
    assert forked == program
    assert loaded(tmp_path) >= 2


def test_the_shim_imports_nothing_from_the_folder_of_a_module_that_it_forks(launch, tmp_path):
    traps = Traps(tmp_path, ("select", "socket", "traceback"))
    interrupts = "os._exit(5) if len(open(HERE + '/loaded').read()) < 2 else os.kill(os.getpid(), signal.SIGINT)"
    found = outcomes(launch(f"{interrupts}; time.sleep(60)"), 1, 3)
    assert found[-1] == NoAnswer("crash", "was killed by SIGINT; standard error ends: KeyboardInterrupt")
    assert loaded(tmp_path) == 2
    assert traps.imported == []


def test_a_forked_process_has_its_memory_limit(launch):
    fault = "os.environ.get('X'); hoard = [b'x' * (8 << 20) for _ in range(60) if not time.sleep(0.02)]"
    found = outcomes(launch(fault), 1, 3, 2, memory=200 << 20)
    assert [outcome.how for outcome in found[:2]] == ["memory", "memory"]
    assert found[2] == Accepted({"value": [2], "consumed": 1})


def test_the_memory_of_the_parent_of_forked_processes_is_not_watched(launch, monkeypatch):
    watched = []
    monkeypatch.setattr(ChildProcess, "_watch", lambda process, limit: watched.append((process, limit)))
    start = ForkServer(launch("os._exit(5)"), 20)
    with closing(start), TargetSession(start._launch, ResourceLimits(timeout=20, memory=200 << 20), start) as session:
        for each in requests(1, 3, 5):
            list(session.ask([each]))
        assert session.starts == len(watched) >= 3
        assert start._parent not in [process for process, _ in watched]
    assert {limit for _, limit in watched} == {200 << 20}


STATE = {
    "a thread": "threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n",
    "an open file": "FILE = open(__file__)\n",
    "a child": "import subprocess\nCHILD = subprocess.Popen(['sleep', '60'])\n",
    "shared memory": "import mmap\nSHARED = mmap.mmap(-1, 4096)\n",
}


@pytest.mark.parametrize("more", STATE.values(), ids=STATE)
def test_a_module_with_shared_resources_is_not_forked(more, launch, tmp_path):
    found = outcomes(launch("os._exit(5)", more), 1, 3, 5)
    assert found == [NoAnswer("crash", "exited with status 5")] * 3
    # As a program twice for each request, and once to find that it cannot be forked.
    assert loaded(tmp_path) == 2 * 3 + 1


def test_a_killed_parent_loses_no_answer(launch, tmp_path):
    parent_pid = "int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])"
    fault = f"loads = len(open(HERE + '/loaded').read()); loads == 2 and os.kill({parent_pid}, 9); os._exit(5)"
    found = outcomes(launch(fault), 0, 1, 2, 3, 4)
    assert [type(outcome) for outcome in found] == [Accepted, NoAnswer, Accepted, NoAnswer, Accepted]
    # As a program, then as the parent, and after its end as a program.
    assert loaded(tmp_path) == 2 + 3
