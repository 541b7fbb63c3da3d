"""No process of the suite imports a file of the working folder."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from traps import Traps, without_safe_path

from conformance.process import launcher
from conformance.targets.resolve import adapters, brokers, drivers

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(sys.executable).parent / "conformance"
"""The installed command: `python -m conformance` would itself import from the working folder."""

ONE_READ = ("--select", "read/markers-of-every-kind", "--generated", "0")
COMMANDS = {
    "a broker at an address": (3, "Connection refused", "run", "broker:127.0.0.1:1"),
    "a broker of the suite": (0, "1 pass", "run", "broker:librdkafka-mock", "--select", "append/one-record"),
    "kafka-python, live": (0, "1 pass", "run", "live:kafka-python", *ONE_READ),
    "aiokafka, live": (0, "1 pass", "run", "live:aiokafka", *ONE_READ),
    "a module of the suite": (0, "13 pass", "run", "kafka-python", "--select", "int8/*"),
    "generated cases": (0, "pass", "run", "reference", "--select", "type:INT8", "--generated", "2500"),
    "seeded defects": (0, "6 of 6", "selftest", "--area", "control records", "--jobs", "2"),
}


def skip_without(target):
    """Skip the test if a target of the suite cannot run here."""
    known = [*adapters().values(), *drivers().values(), *brokers().values()]
    if lacking := [lack for one in known if one.target == target for lack in one.missing()]:
        pytest.skip(f"{target} lacks {', '.join(lacking)}")


@pytest.mark.parametrize(
    ("status", "output", "arguments"), [(*one[:2], one[2:]) for one in COMMANDS.values()], ids=COMMANDS
)
@pytest.mark.integration
def test_a_command_imports_nothing_from_the_working_folder(status, output, arguments, tmp_path):
    skip_without(arguments[1])
    traps = Traps(tmp_path)
    done = subprocess.run(
        [PROGRAM, *arguments], cwd=tmp_path, env=without_safe_path(), capture_output=True, text=True, check=False
    )
    assert traps.imported == []
    assert done.returncode == status, done.stdout + done.stderr
    assert output in done.stdout


# --- own_python, the only function that starts our modules --------------------------------------------

PRINTS_COMMAND = "from conformance.process.launcher import own_python; print(own_python('conformance.cli', 'a b'))"
SHOWS = "import sys, threading, yaml, conformance; print((conformance.__file__, sys.argv[1:], sys.path))"


@pytest.fixture
def checkout(tmp_path):
    """Return a folder with the part of the package that starts a module, not installed."""
    folder = tmp_path / "checkout"
    package = folder / "conformance"
    (package / "process").mkdir(parents=True)
    for name in ("__init__.py", "process/__init__.py", "process/supervisor.py", "process/launcher.py"):
        (package / name).write_text((Path(launcher.__file__).parent.parent / name).read_text())
    (package / "cli.py").write_text(SHOWS)
    return folder


def test_a_process_imports_the_package_of_its_parent_and_nothing_else_of_that_folder(checkout):
    def printed(*command):
        done = subprocess.run(
            command, cwd=checkout, env=without_safe_path(), capture_output=True, text=True, check=True
        )
        return ast.literal_eval(done.stdout)

    # This parent finds the package in the working folder, as `python -m conformance` does.
    command = printed(sys.executable, "-c", PRINTS_COMMAND)
    traps = Traps(checkout, ("threading", "yaml"))
    package, arguments, path = printed(*command)
    assert traps.imported == []
    assert package == str(checkout / "conformance" / "__init__.py")
    assert arguments == ["a b"]
    assert str(checkout) not in path


ALLOWED = {
    ("conformance/process/launcher.py", "own_python"): "the one way to start a module of ours",
    ("conformance/process/launcher.py", "_started"): "the supervisor, a script with -I",
    ("conformance/targets/resolve.py", "resolve"): "without --python, the interpreter of the shim, which is a script",
    ("conformance/live_brokers/bundled_broker.py", "__init__"): "the same for a broker, which is a script",
    ("conformance/live_brokers/__main__.py", "_arguments"): "the same",
    ("conformance/selftest/runner.py", ""): "imports the pool of processes",
    ("conformance/pipeline/spark_session.py", "_variables"): "the workers of Spark, with PYTHONSAFEPATH",
    ("setup.py", "run"): "a build, with -P; the package cannot be imported yet",
    ("benchmarks/commands.py", "command"): "measures a bare Python, with -P",
    ("benchmarks/memory.py", "main"): "measures itself, with -P",
    ("benchmarks/mutants.py", "_launch"): "a damaged copy of the package, with PYTHONSAFEPATH",
    ("benchmarks/mutants.py", "_check_import"): "the same",
    ("benchmarks/judge_mutants.py", ""): "forks; starts no interpreter",
    ("benchmarks/hour.py", ""): "the same",
    ("benchmarks/harness.py", "trivial"): "a script",
    ("benchmarks/harness.py", "right"): "a script",
    ("benchmarks/hostile_results.py", "judged"): "a script",
}
"""Functions that name an interpreter or an option to run code; "" is the body of a module."""


def starts_in(tree, function=""):
    """Yield the functions of a file that may start a Python."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from starts_in(node, name)
                continue
            case ast.Attribute(attr="executable") | ast.Constant(value="-m" | "-c"):
                yield function
            case ast.ImportFrom(module="multiprocessing") | ast.alias(name="multiprocessing" | "ProcessPoolExecutor"):
                yield function
        yield from starts_in(node, function)


def test_no_other_function_starts_a_python():
    folders = ("conformance", "strategies", "reports", "adapters", "benchmarks")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {
        (str(path.relative_to(ROOT)), function)
        for path in (*sources, ROOT / "setup.py")
        if not any(part.is_symlink() for part in path.parents)
        for function in starts_in(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(ALLOWED)
