"""Whatever a target does, and whatever becomes of the suite, no process of it is left; nobody else's is ended."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from conformance.cases.model import Broke
from conformance.targets import keeper, protocol
from conformance.targets.process import Launch
from conformance.targets.session import Allowance, Session

QUESTION = protocol.body({"op": "decode", "type": "VARINT", "hex": "7e"})
HELPERS = """
def orphan(deed):
    # Runs `deed` in a process that has lost its parents, its session and its environment.
    begun, begins = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            log(str(os.getpid()))
            os.write(begins, b"%8d" % os.getpid()); os.close(begins); os.close(begun)
            deed()
        os._exit(0)
    os.wait()
    os.close(begins)
    return int(os.read(begun, 8)), os.close(begun)
def sleeper():
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(3600)"], {})
def answer(request):
    say(request, ok=True, value=63, consumed=1)
"""
ESCAPES = {
    "double fork, no environment": "orphan(sleeper)",
    "several generations": "orphan(lambda: orphan(lambda: orphan(sleeper)))",
    "its keeper is stopped": "orphan(sleeper); os.kill(os.getppid(), signal.SIGSTOP)",
    "its keeper is told to stop": "orphan(sleeper); os.kill(os.getppid(), signal.SIGHUP)",
    "its keeper is killed": "orphan(sleeper); time.sleep(0.5); os.kill(os.getppid(), signal.SIGKILL)",
    "it kills its group": "orphan(sleeper); os.kill(0, signal.SIGKILL)",
    "it dies": "orphan(sleeper); os._exit(3)",
    "each starts the other again": """
def watch(other):
    # A process that starts the other one again as soon as it is gone, some hundred times in all.
    while os.path.getsize(os.path.join(HERE, "log")) < 4000:
        try:
            os.kill(other, 0)
        except OSError:
            other = born(os.getpid())
def born(other):
    return orphan(lambda: watch(other))[0]
orphan(lambda: watch(born(os.getpid())))
time.sleep(0.2)
""",
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
def keepers(request, tmp_path, monkeypatch):
    """With a control group where this system lets the suite make one, and without."""
    if request.param == "no control group":
        text = Path(keeper.__file__).read_text()
        (tmp_path / "keeper.py").write_text(text.replace("if __name__", "group_of = lambda _: None\nif __name__"))
        monkeypatch.setattr(keeper, "__file__", str(tmp_path / "keeper.py"))
        monkeypatch.setattr(keeper, "group_of", lambda _: None)


@pytest.fixture
def launch(python_target, traces):
    """A launch of a target of the test's own."""
    return lambda body: Launch("t", python_target(HELPERS + body), traces.env)


def left(tmp_path):
    """Processes that wrote down their ids and still run; those that are about to go are given a moment."""
    until = time.monotonic() + 5
    while (found := list(filter(runs, written(tmp_path)))) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def written(tmp_path):
    log = tmp_path / "log"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def runs(pid):
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.exe() == os.path.realpath(sys.executable)
    except psutil.Error:
        return False


def awaited(true):
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.usefixtures("keepers")
@pytest.mark.parametrize("deed", ESCAPES.values(), ids=ESCAPES)
def test_no_process_of_a_target_outlives_its_session(deed, launch, tmp_path):
    body = "for request in requests():\n" + "".join(f"    {line}\n" for line in f"{deed}\nanswer(request)".splitlines())
    with Session(launch(body), Allowance(timeout=2)) as session:
        assert len(list(session.ask([QUESTION]))) == 1
    assert written(tmp_path)
    assert left(tmp_path) == []


def test_the_memory_of_processes_that_left_the_target_counts(launch, tmp_path):
    body = """
def hoard():
    kept = []
    while True:
        kept.append(b"x" * (32 << 20)); time.sleep(0.02)
for request in requests():
    os.environ.clear(); orphan(hoard); time.sleep(3600)
"""
    with Session(launch(body), Allowance(timeout=30, memory=200 << 20)) as session:
        (outcome,) = session.ask([QUESTION])
    assert isinstance(outcome, Broke)
    assert (outcome.how, outcome.unprovoked) == ("memory", True)
    assert left(tmp_path) == []
