"""The house: how many rooms there are, how often the way of one case goes from one into another, how large things are.

A room is a folder or module right below the package. That no room imports from a higher one is told by `lint-imports`.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shutil
import statistics
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import conformance
from conformance import cli
from conformance.cases import catalog, kept
from conformance.cases.yaml_files import load
from conformance.targets.resolve import adapters

ROOT = Path(__file__).parent.parent
PACKAGE = Path(conformance.__file__).parent
SOURCES = [
    path
    for folder in ("conformance", "strategies", "reports")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(part.is_symlink() for part in (path, *path.parents))
]


# --- the way of one case ------------------------------------------------------------------------------

ASIDE = {"<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}
"""Not calls of functions with a name: the body of a module, and the parts of a function that Python calls itself."""


def rooms_called(run):
    """The room of each call of a function of the package, in order, while `run` goes on in this process."""
    rooms = []

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name not in ASIDE and code.co_filename.startswith(f"{PACKAGE}/"):
            rooms.append(Path(code.co_filename).relative_to(PACKAGE).parts[0])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return rooms


@pytest.fixture
def one_vector(tmp_path, monkeypatch):
    """A catalogue of nothing but the vector `batch/three-records`, made from YAML for each command and not kept."""
    folder = tmp_path / "vectors"
    folder.mkdir()
    for path in (catalog.VECTORS / "record-batch").glob("*.yaml"):
        document = load(path)
        vectors = [vector for vector in document["vectors"] if vector["id"] == "batch/three-records"]
        if vectors:
            (folder / path.name).write_text(json.dumps({**document, "vectors": vectors}), encoding="utf-8")
    shutil.copy(catalog.VECTORS / "requirements.yaml", folder)
    monkeypatch.setattr(catalog, "VECTORS", folder)
    monkeypatch.setattr(catalog, "stored", lambda: None)  # a wheel comes with cases
    nowhere = tmp_path / "file"
    nowhere.touch()
    monkeypatch.setattr(kept, "user_cache_path", lambda *_, **__: nowhere)


@pytest.mark.usefixtures("one_vector")
def test_the_way_of_a_vector_to_the_console_goes_from_room_to_room_fewer_than_70_times(capsys):
    """Each piece of work is done whole in one room before the next begins.

    Counted are the pairs of consecutive calls of functions that lie in different rooms, in one process with its modules
    loaded, from the command line to the exit status. kio fails the case, so causes and explanations are on the way.
    """
    if lacking := adapters()["kio"].missing():
        pytest.skip(f"kio lacks {', '.join(lacking)}")

    def run():
        with contextlib.suppress(SystemExit):
            cli.main(
                ["run", "kio", "--select", "batch/three-records", "--generated", "0", "--jobs", "1"],
                standalone_mode=False,
            )

    run()  # loads the modules
    capsys.readouterr()
    rooms = rooms_called(run)
    assert "cut to whole seconds: RECORD.timestamp" in capsys.readouterr().out
    changes = sum(one != other for one, other in pairwise(rooms))
    assert {"cases", "codec", "semantics", "targets", "judging", "reports"} <= set(rooms)
    assert 30 < changes < 70, rooms


# --- sizes --------------------------------------------------------------------------------------------


def test_the_package_has_at_most_20_rooms():
    rooms = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    rooms |= {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert {"cases", "codec", "judging", "reports", "strategies", "cli.py"} <= rooms
    assert len(rooms) <= 20, sorted(rooms)


def lines_of_functions():
    """The number of lines of each function, its docstring included, its decorators not."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_functions_are_short():
    functions = lines_of_functions()
    lengths = sorted(functions.values())
    assert len(lengths) > 1000
    assert statistics.median(lengths) <= 8
    assert lengths[int(len(lengths) * 0.95)] <= 30
    assert [name for name, lines in functions.items() if lines > 60] == []


def test_modules_have_at_most_350_lines():
    long = {path.name: lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > 350}
    assert long == {}


def test_values_of_any_type_are_the_codecs_alone_but_for_100_lines():
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        if path.parent != ROOT / "conformance" / "codec"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\bAny\b", line.partition("#")[0])
    ]
    assert len(lines) < 100, lines
