"""Sessions of pytest, each a fork of a process with pytest and the plugin imported, which saves most of their time."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

LONGEST = 600
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["conformance.pytest_plugin.session_hooks"])


def forked(arguments, cwd, env, folder):
    """Return the result of `python -m pytest`, like that of `subprocess.run`. Its output goes to the folder."""
    out, err = folder / "out", folder / "err"
    process = FORKS.Process(target=_session, args=(arguments, cwd, env, out, err))
    process.start()
    process.join(LONGEST)
    process.kill()
    return CompletedProcess(arguments, process.exitcode, *(path.read_text(encoding="utf-8") for path in (out, err)))


def _session(arguments, cwd, env, *outputs):
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["pytest", *arguments]
    sys.path.insert(0, str(Path(cwd)))
    sys.exit(pytest.console_main())
