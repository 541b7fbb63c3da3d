"""Nobody is accused of what nobody has seen: each pinned failure belongs to an entry of docs/confirmed.md."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from conformance.cases.vector_files import read_requirements

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "confirmed.md").read_text(encoding="utf-8")
PINNED = {path.stem: path for path in sorted((ROOT / "tests" / "known").glob("*.yaml"))}


def entries(page, target):
    """The globs of the entries under the heading that names a target, by the title of the entry."""
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    texts = [text for heading, text in zip(parts[1::2], parts[2::2], strict=True) if target in heading.split(", ")]
    found = [match for text in texts for match in re.findall(r"^### (.+)\n\ncases: (.+)\n", text, re.MULTILINE)]
    return {title: globs.split(", ") for title, globs in found}


def without_entry(pins, globs_by_title):
    globs = [glob for globs in globs_by_title.values() for glob in globs]
    return [pin for pin in pins if not any(fnmatchcase(pin, glob) for glob in globs)]


def pins(target):
    return [pin["id"] for pin in yaml.safe_load(PINNED[target].read_text(encoding="utf-8"))]


@pytest.mark.parametrize("target", PINNED)
def test_each_pinned_failure_belongs_to_an_entry(target):
    assert without_entry(pins(target), entries(PAGE, target)) == []


@pytest.mark.parametrize("target", PINNED)
def test_a_pinned_failure_without_an_entry_is_found(target):
    assert without_entry(["no-such-family/case"], entries(PAGE, target)) == ["no-such-family/case"]


def test_each_entry_names_cases_that_are_pinned():
    headings = {name for line in re.findall(r"^## (.+)$", PAGE, re.MULTILINE) for name in line.split(", ")}
    assert headings <= set(PINNED)
    for line in re.findall(r"^## (.+)$", PAGE, re.MULTILINE):
        pinned = [pin for target in line.split(", ") for pin in pins(target)]
        for title, globs in entries(PAGE, line.split(", ")[0]).items():
            unused = [glob for glob in globs if not any(fnmatchcase(pin, glob) for pin in pinned)]
            assert unused == [], title


def test_each_entry_has_its_line_of_cases():
    assert len(re.findall(r"^### ", PAGE, re.MULTILINE)) == len(re.findall(r"^cases: ", PAGE, re.MULTILINE))


def test_the_basis_of_each_requirement_is_that_of_the_register():
    told = re.findall(r"(stated|implied|settled):\s(`[^;)]+`)", PAGE)
    pairs = [(requirement, basis) for basis, names in told for requirement in re.findall(r"`([^`]+)`", names)]
    register = read_requirements(ROOT / "vectors" / "requirements.yaml")
    assert [pair for pair in pairs if pair[1] != register[pair[0]].basis] == []
    assert len(pairs) > len(re.findall(r"^### ", PAGE, re.MULTILINE))
