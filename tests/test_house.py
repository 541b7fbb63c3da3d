"""Rules of the code: sizes, import cycles, and modules named in strings.

`lint-imports` checks that a package imports only from lower ranks.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import conformance

ROOT = Path(__file__).parent.parent
FOLDERS = {"conformance": "conformance", "strategies": "conformance.strategies", "reports": "conformance.reports"}
"""The folders of the package, and the import names of their modules."""
MAX_MODULES = 300
"""The number of modules may only decrease."""
MIN_PRIVATE = 29
"""The number of modules that start with `_`, which only their own package imports, may only grow."""
MAX_CYCLES = 0
"""Groups of modules that import each other."""
MAX_LINES = 800
TABLES = {"conformance.cases.client_scenarios"}
"""Data modules, which may be longer."""


def modules() -> dict[str, Path]:
    """Return the modules of the package by name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT / folder)
            if not any(part.is_symlink() for part in path.parents) and "adapters" not in relative.parts:
                found[".".join((package, *relative.with_suffix("").parts)).removesuffix(".__init__")] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


# --- imports ------------------------------------------------------------------------------------------


def is_of_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported(name: str) -> Iterator[tuple[str, bool]]:
    """Yield the imports of a module, including deferred ones, and True for those only for types."""
    tree = TREES[name]
    of_types = {id(inner) for node in ast.walk(tree) if is_of_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in of_types) for alias in node.names if alias.name in MODULES)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found = next((one for one in (f"{node.module}.{alias.name}", node.module) if one in MODULES), None)
                if found not in (None, "conformance"):
                    yield found, id(node) in of_types


def package_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


def graph() -> dict[str, set[str]]:
    """Return the imports of each module, without those only for types inside a package."""
    return {
        name: {
            other
            for other, of_types in imported(name)
            if other != name and not (of_types and package_of(other) == package_of(name))
        }
        for name in MODULES
    }


def cycles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Return groups of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for start, first in edges.items():
        seen, left = set[str](), [*first]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += edges[one]
        reached[start] = seen
    groups = {frozenset({start, *(one for one in seen if start in reached[one])}) for start, seen in reached.items()}
    return [set(group) for group in groups if len(group) > 1 or any(one in edges[one] for one in group)]


def test_modules_have_no_import_cycles():
    edges = graph()
    assert sum(map(len, edges.values())) > 1500
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [{"b", "c"}]
    assert len(cycles(edges)) <= MAX_CYCLES, cycles(edges)


def is_private(name: str) -> bool:
    """Return True if the file of a module starts with `_`. The `__main__` of a package is an entry point."""
    stem = MODULES[name].stem
    return stem.startswith("_") and not stem.startswith("__")


def test_only_its_own_package_imports_a_private_module():
    private = {name for name in MODULES if is_private(name)}
    assert len(private) >= MIN_PRIVATE
    users = {(name, other) for name in MODULES for other, _ in imported(name) if other in private}
    assert {other for _, other in users} == private, "no module imports these"
    assert [pair for pair in users if package_of(pair[0]) != package_of(pair[1])] == []


# --- sizes --------------------------------------------------------------------------------------------


def test_the_number_of_modules_does_not_grow():
    assert len(MODULES) <= MAX_MODULES


def test_only_tables_are_longer_than_800_lines():
    long = {name: lines for name, path in MODULES.items() if (lines := len(path.read_text().splitlines())) > MAX_LINES}
    assert {*long} <= TABLES, long


def test_functions_are_short():
    functions = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    lengths = sorted(functions.values())
    assert len(lengths) > 1000
    assert lengths[int(len(lengths) * 0.95)] <= 40
    assert [name for name, lines in functions.items() if lines > 60] == []


# --- names in strings ---------------------------------------------------------------------------------

DOTTED = re.compile(r"(?<![\w./-])conformance(?:\.\w+)+(?![\w/-])")
IMPORT = re.compile(r"from (conformance(?:\.\w+)*) import (\w+(?:, *\w+)*)")
"""An import in a program that is written as a string."""
NO_MODULES = re.compile(r"conformance\.(none|end|before|py|yaml|xml|json|html|md|svg|example)\b")
"""Strings that start like a module: metrics, keys of records, files."""


def named_in_strings() -> Iterator[tuple[str, str]]:
    """Yield our dotted names in strings of the package and its tests, without docstrings, with their places."""
    files = [*MODULES.values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py"), ROOT / "setup.py"]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for module, names in IMPORT.findall(node.value):
                    yield from ((f"{module}.{name}", str(path.relative_to(ROOT))) for name in re.split(r", *", names))
                for found in DOTTED.findall(node.value):
                    if not NO_MODULES.match(found):
                        yield found, str(path.relative_to(ROOT))


def resolves(name: str) -> bool:
    """Return True if a dotted name is a module or a member of a module."""
    module, _, rest = name, "", ""
    while module:
        try:
            if find_spec(module) is not None:
                break
        except ModuleNotFoundError:
            pass
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}".rstrip(".")
    if not rest:
        return True
    value = __import__(module, fromlist=["_"])
    for part in rest.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


@pytest.mark.integration  # it imports modules that need Spark
def test_each_module_named_in_a_string_exists():
    named = {*named_in_strings()}
    assert len(named) > 20
    assert {one for one in named if not resolves(one[0])} == set()


def test_each_operation_finds_its_functions():
    from conformance.cases.operations import OPERATIONS

    for row in OPERATIONS.values():
        for field in row.__struct_fields__:
            later = getattr(row, field)
            if callable(later) and getattr(later, "__closure__", None) and "later" in later.__qualname__:
                module, name = sorted(str(cell.cell_contents) for cell in later.__closure__)
                assert any(resolves(f"conformance.cases.{one}.{two}") for one, two in ((module, name), (name, module)))


def names_in(function: object, seen: set[int]) -> Iterator[str]:
    """Yield the names in the closures of a function and of the functions that it calls."""
    for cell in getattr(function, "__closure__", None) or ():
        value = cell.cell_contents
        if isinstance(value, str) and value.startswith("conformance."):
            yield value
        elif callable(value) and id(value) not in seen:
            yield from names_in(value, seen | {id(value)})


def test_each_function_patched_by_a_seeded_fault_exists():
    from conformance.selftest import FAULTS

    patched = {name for fault in FAULTS.values() for name in names_in(fault.mutate, set())}
    assert len(patched) > 10
    assert {name for name in patched if not resolves(name)} == set()


@pytest.mark.parametrize("command", ["run", "serve-broker", "scan", "campaign", "lint", "selftest"])
def test_each_command_loads(command, tmp_path):
    assert conformance(command, "--help", cwd=tmp_path).returncode == 0


def test_the_project_file_lists_each_package_and_each_pattern_of_data_matches():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert packages <= {*project["packages"]}
    for package in project["packages"]:
        assert (ROOT / "conformance" / Path(*package.split(".")[1:])).is_dir(), package
    for package, patterns in project["package-data"].items():
        folder = ROOT / "conformance" / Path(*package.split(".")[1:])
        for pattern in patterns:
            assert any(folder.glob(pattern)), (package, pattern)
