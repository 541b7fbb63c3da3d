"""The glossary of docs/concepts.md has every term that reports print."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from conformance.cases.model import BASES, LEVELS, CaseOrigin, VerdictKind
from conformance.judging import differences, failure_causes
from conformance.reports.grouping import Section
from conformance.reports.json_schema import Status

PAGE = (Path(__file__).parent.parent / "docs" / "concepts.md").read_text(encoding="utf-8")


def section(heading):
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def terms():
    """Return the terms in the first column of the glossary."""
    rows = re.findall(r"^\| (.+?) \| .+ \|$", section("Glossary"), re.MULTILINE)
    return {term for row in rows for term in re.findall(r"[`*]([^`*]+)[`*]", row)}


def literals(node):
    """Return the strings that an expression can have, without the parts of an f-string that vary."""
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            return [*literals(body), *literals(orelse)]
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=[ast.Constant(value=text), *_]):
            return [text]
        case _:
            return []


def kinds_of_causes():
    """Return the kinds of causes that the source names."""
    found = set()
    for node in ast.walk(ast.parse(Path(failure_causes.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FailureCause":
            found.update(literals(node.args[0]))
    for function in ast.walk(ast.parse(Path(differences.__file__).read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef) and function.name in (
            "difference_kind",
            "_about_null",
            "_about_number",
        ):
            returned = (node.value for node in ast.walk(function) if isinstance(node, ast.Return))
            found.update(text for value in returned for text in literals(value))
    return found | {failure_causes._ACCEPTED, failure_causes._MISREAD, differences._OTHER}


@pytest.mark.parametrize(
    "printed",
    [
        *(VerdictKind, LEVELS, BASES, Section, CaseOrigin),
        pytest.param(get_args(Status), id="status of a target"),
        pytest.param(("public", "internal", "unused"), id="entry points"),
        pytest.param(("note", "unread"), id="levels that never count"),
    ],
)
def test_the_glossary_has_the_words_of_reports(printed):
    assert {str(word) for word in printed} <= terms()


def test_each_term_is_unique_and_has_one_row():
    rows = re.findall(r"^\| (.+?) \| .+ \|$", section("Glossary"), re.MULTILINE)
    named = [term for row in rows for term in re.findall(r"\*([^*]+)\*", row)]
    assert len(named) == len(set(named))
    assert named == sorted(named)


def test_the_table_of_causes_has_every_kind():
    kinds = kinds_of_causes()
    assert len(kinds) > 20
    column = " ".join(re.findall(r"^\| (.+?) \|", section("Causes"), re.MULTILINE))
    assert {kind for kind in kinds if f"`{kind}" not in column} == set()
