"""Bridges to clients of tiny_client.py, and these clients, forked from a process with their modules loaded.

A new interpreter with its imports would take longer than most tests. `main` runs in that process: each message on its
socket contains the arguments of a bridge and its pipes. The bridge has a supervisor like any target, and the clients
are its children, as usual.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import psutil
import tiny_client

from conformance.live_clients import __main__ as bridge
from conformance.live_clients import case_run, client_pool
from conformance.process import child_process, supervisor
from conformance.process.launcher import TOKEN, fork_child, own_python, start

BRIDGE = own_python(bridge.__spec__.parent)
OURS = f"from {tiny_client.__name__} import"
"""The text in a program that may be forked, because all its imports are loaded."""
DESCRIPTORS = 1 << 12
"""More descriptors than such a process has."""
FOLDER = str(Path(__file__).parent)
ENV = {**os.environ}
"""The environment without the mark of a test, because this process lives longer."""
_one_at_a_time = threading.Lock()


@contextmanager
def forked_bridges(**limits):
    """Fork the bridges started in the context, if the system supports it, with these limits."""

    def begin(launch, token, report):
        is_bridge = launch.command[: len(BRIDGE)] == BRIDGE
        return _forked(launch, token, report, limits) if is_bridge else start(launch, token, report)

    with patch.object(child_process, "start", begin if hasattr(os, "pidfd_open") else start):
        yield


@cache
def parent():
    """Return the parent process of the forks and its socket; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        program = f"import sys; sys.path.insert(0, {FOLDER!r}); import {__name__}; {__name__}.main({theirs.fileno()})"
        loaded = subprocess.Popen([sys.executable, "-c", program], pass_fds=(theirs.fileno(),), cwd=FOLDER, env=ENV)
    atexit.register(loaded.wait)
    atexit.register(ours.close)
    return loaded.pid, ours


def descendants():
    """Kill the forked processes and their descendants at the end of a command."""
    if not parent.cache_info().currsize:
        return []
    loaded, _ = parent()
    return psutil.Process(loaded).children(recursive=True)


def _forked(launch, token, report, limits):
    """Return the supervisor of a bridge."""
    message = {
        "arguments": launch.command[len(BRIDGE) - 1 :],
        "env": {**os.environ, **launch.env, TOKEN: token},
        "cwd": str(Path.cwd()),
        "limits": limits,
    }
    with _one_at_a_time:
        _, channel = parent()
        return fork_child(channel, json.dumps(message).encode(), report, lambda: channel.recv(32))


# --- in the process that forks ------------------------------------------------------------------------


def main(descriptor):
    """Fork a bridge for each message on a socket, until it is closed."""
    channel = socket.socket(fileno=descriptor)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become children
    handlers = {number: signal.getsignal(number) for number in supervisor.RESET_SIGNALS}
    itself = os.getpid()
    gc.freeze()
    while True:
        message, pipes, *_ = socket.recv_fds(channel, 1 << 20, 4)
        if not message:
            return
        child = os.fork()
        if child == 0:
            _run(partial(_keep, pipes, itself, partial(_become, json.loads(message), pipes, handlers)))
        for pipe in pipes:
            os.close(pipe)
        channel.send(b"%d" % child)
        _reap()


def _reap():
    """Reap ended processes."""
    while True:
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return


def _keep(pipes, suite, become):
    """Run as the supervisor of a bridge."""
    os.setsid()
    supervisor.supervise(pipes[3], suite, become, pipes[:3])


def _become(message, pipes, handlers):
    """Run as the bridge; never returns."""
    for pipe, place in zip(pipes, range(3), strict=False):
        os.dup2(pipe, place)
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    os.chdir(message["cwd"])
    subprocess.Popen = _Started
    for module, (name, seconds) in (
        (one, limit) for one in (client_pool, case_run) for limit in message["limits"].items()
    ):
        if hasattr(module, name):
            setattr(module, name, seconds)
    _be(message["arguments"], message["env"], bridge.main)


class _Started(subprocess.Popen):
    """The processes started by a bridge: clients of the tests are forked."""

    def __init__(self, command, **how):
        program = Path(command[-1])
        if program.suffix == ".py" and OURS in program.read_text():
            how["preexec_fn"] = partial(_be, command[1:], how["env"], partial(_execute, program))
        super().__init__(command, **how)


def _execute(program):
    """Run a program like an interpreter."""
    sys.path[0] = str(program.parent)
    namespace = {"__name__": "__main__", "__file__": str(program)}
    exec(compile(program.read_text(), program, "exec"), namespace)


def _be(arguments, env, work):
    """Run a program with these arguments and variables; never returns."""
    gc.freeze()  # objects from before the fork are not collected here, because their descriptors are other files now
    os.closerange(3, DESCRIPTORS)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [*arguments]
    kept = sys.stdin, sys.stdout  # noqa: F841 - to close them would wait for a thread that there is not any more
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    _run(work)


def _run(work):
    """Run it, and end like an interpreter."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as ended:
        status = ended.code
        if isinstance(status, str):
            sys.stderr.write(f"{status}\n")
    except BaseException:  # noqa: BLE001 - whatever it is, an interpreter prints it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status if isinstance(status, int) else 1 if status else 0)
