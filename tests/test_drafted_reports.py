"""Each drafted report shows a vector that is pinned or found on its target, with its bytes."""

import ast
import re
import shutil
import subprocess
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "findings"
REPORTS = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
CHECKERS = {
    "go": ("go", "gofmt", "-e"),
    "javascript": ("mjs", "node", "--check"),
    "rust": ("rs", "rustfmt", "--check", "--edition", "2021", "--config", "max_width=110"),
}
"""By language other than Python: the suffix of a program, and the command that checks its syntax."""
SECTIONS = ["Version", "Bytes", "Reproduction", "What came", "What is due", "Searched"]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def programs(text):
    """Yield each program of a report, and its language."""
    return [(language, program) for language in ("python", *CHECKERS) for program in blocks(text, language)]


@cache
def failing(target):
    """Return globs of the cases that are known to fail, through an adapter, live, or of a broker."""
    file = DOCS.parent / "tests" / "known" / f"{target}.yaml"
    pins = [pin["id"] for pin in yaml.safe_load(file.read_text(encoding="utf-8"))] if file.exists() else []
    parts = re.split(r"^## (.+)\n", (DOCS / "live-findings.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    under = [text for title, text in zip(parts[1::2], parts[2::2], strict=True) if target in title.split(", ")]
    cases = [line for text in under for line in re.findall(r"^cases: (.+)$", text, re.MULTILINE)]
    brokers = (DOCS / "brokers.md").read_text(encoding="utf-8")
    cases += re.findall(rf"^broker: {target}\n\ncases: (.+)$", brokers, re.MULTILINE)
    return pins + [glob for line in cases for glob in line.split(", ")]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_drafted_report_has_all_parts_for_its_reader(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    ((_, program),) = programs(text)
    assert "conformance" not in program, "it shows the fault without this suite"


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_the_program_of_a_drafted_report_has_no_syntax_error(path, tmp_path):
    ((language, program),) = programs(path.read_text(encoding="utf-8"))
    if language == "python":
        ast.parse(program)
        return
    suffix, *checker = CHECKERS[language]
    if shutil.which(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not there")
    file = tmp_path / f"program.{suffix}"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run([*checker, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_the_bytes_of_a_drafted_report_belong_to_a_failing_vector(path, catalog):
    text = path.read_text(encoding="utf-8")
    target, case = re.search(r"<!-- target: (\S+); case: (\S+) -->", text).groups()
    asked = catalog.cases[case].request
    if "scenario" not in asked:  # the bytes of a broker's response belong to no case
        assert "".join(blocks(text, "")[0].split()) == asked["hex"]
    names = [case, *(f"{case}:{op}" for op in ("read", "encode", "append"))]
    assert any(fnmatchcase(name, glob) for glob in failing(target) for name in names)


def test_every_drafted_report_is_in_the_list():
    page = (FOLDER / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[.+\]\((\S+)\.md\) \| `", page, re.MULTILINE)
    assert sorted(listed) == [one.stem for one in REPORTS]
    (broker,) = blocks(page, "python")
    ast.parse(broker)
