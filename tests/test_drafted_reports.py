"""The pages of findings are up to date, and each drafted report shows a case that its finding covers."""

import ast
import re
import shutil
import subprocess
from fnmatch import fnmatchcase

import finding_pages
import pytest
from finding_pages import DOCS, FOLDER, findings

from conformance.files.yaml_loader import load

REPORTS = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
CHECKERS = {
    "go": ("go", "gofmt", "-e"),
    "javascript": ("mjs", "node", "--check"),
    "rust": ("rs", "rustfmt", "--check", "--edition", "2021", "--config", "max_width=110"),
}
"""By language other than Python: the suffix of a program, and the command that checks its syntax."""
SECTIONS = ["Version", "Bytes", "Steps", "Actual", "Expected", "Why it matters", "Source", "Requirements", "Searched"]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def programs(text):
    """Return each program of a report, with its language."""
    return [(language, program) for language in ("python", *CHECKERS) for program in blocks(text, language)]


def test_the_pages_of_findings_are_up_to_date():
    changed = [path.name for path, text in finding_pages.pages().items() if path.read_text(encoding="utf-8") != text]
    assert changed == [], "run tests/shared/finding_pages.py"
    assert [path.stem for path in REPORTS] == sorted(one.page for one in findings() if one.report)


def test_the_basis_of_a_requirement_on_a_page_is_that_of_the_register():
    register = {row["id"]: row["basis"] for row in load(DOCS.parent / "vectors" / "requirements.yaml")}
    for path in finding_pages.pages():
        shown = re.findall(r"`([a-z0-9-]+\.[a-z0-9-]+)`\s\((stated|implied|settled)", path.read_text(encoding="utf-8"))
        assert shown or path.stem == "index"
        assert [(name, basis) for name, basis in shown if register[name] != basis] == [], path.name


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_drafted_report_has_all_parts_for_its_reader(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    ((_, program),) = programs(text)
    assert "conformance" not in program, "it shows the fault without this suite"


@pytest.mark.integration
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


@pytest.mark.parametrize("finding", [one for one in findings() if one.report], ids=lambda one: one.page)
def test_the_case_of_a_drafted_report_is_covered_by_its_finding(finding):
    case = finding.report["case"]
    names = [case, *(f"{case}:{op}" for op in ("read", "encode", "append"))]
    assert any(fnmatchcase(name, pattern) for pattern in finding.cases for name in names)


def test_the_program_of_the_broker_has_no_error_of_syntax():
    (broker,) = blocks((FOLDER / "index.md").read_text(encoding="utf-8"), "python")
    ast.parse(broker)
