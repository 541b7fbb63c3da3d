"""Modules of the pipeline import Spark and Arrow only if their docstrings state it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import pipeline

ROOT = Path(pipeline.__file__).parent
HEAVY = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numba")

BLOCKED = """
import sys, importlib
for name in {blocked!r}:
    sys.modules[name] = None
for name in {modules!r}:
    importlib.import_module(name)
"""


def needs():
    """Return the packages that each module needs by its docstring: none, pyarrow and numpy, or also pyspark."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(["conformance.pipeline", *(part for part in parts if part != "__init__")])
        first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).partition("\n\n")[0]
        needed = first.rpartition("Needs ")[2] if "Needs " in first else ""
        found[name] = frozenset(one for one in HEAVY if one in needed)
    return found


def imported(path):
    """Return the heavy packages that a module imports directly, without optional ones."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return names & set(HEAVY)


def test_a_docstring_names_the_heavy_imports_of_its_module():
    needed = needs()
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(["conformance.pipeline", *(part for part in parts if part != "__init__")])
        # pyspark includes py4j, pyarrow includes numpy.
        covered = needed[name] | ({"py4j", "pyarrow"} if "pyspark" in needed[name] else set())
        covered |= {"numpy"} if "pyarrow" in covered else set()
        assert imported(path) <= covered, f"{name}: the docstring says it needs {sorted(needed[name])}"


@pytest.mark.integration
@pytest.mark.parametrize("allowed", [(), ("numpy", "numba"), ("numpy", "numba", "pyarrow", "pandas")])
def test_a_module_can_be_imported_without_undeclared_packages(allowed):
    for package in allowed:
        if package not in ("numba", "pandas"):
            pytest.importorskip(package, reason="the extra spark")
    modules = [name for name, needed in needs().items() if needed <= set(allowed)]
    blocked = [name for name in HEAVY if name not in allowed]
    program = BLOCKED.format(blocked=blocked, modules=modules)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(modules) > 8
