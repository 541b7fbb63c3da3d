"""Requirement ids in the code: each is in the register and is written in full, so that a search finds its uses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from conformance.catalog.vector_files import read_requirements

PACKAGE = Path(__file__).parents[2] / "conformance"
SOURCES = [
    path
    for folder in (
        "codec",
        "semantics",
        "cases",
        "judging",
        "definitions",
        "running",
        "targets",
        "pipeline",
        "commands",
    )
    for path in sorted((PACKAGE / folder).rglob("*.py"))
] + sorted((PACKAGE.parent / "strategies").rglob("*.py"))
REGISTER = read_requirements(PACKAGE / "vectors" / "requirements.yaml")
FAMILIES = {requirement.partition(".")[0] for requirement in REGISTER}
SETTINGS = ("compression.type",)
"""Topic settings with names like an id."""
ID = re.compile(r"([a-z0-9-]+)\.[a-z0-9][a-z0-9.-]*")


def is_an_id(text):
    """Return True for a text of the form family.name, with a family of the register, that is no file name."""
    match = None if text in SETTINGS else ID.fullmatch(text)
    return match is not None and match[1] in FAMILIES and not text.endswith((".py", ".yaml", ".json", ".jar", ".log"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE.parent).as_posix())
def test_every_requirement_id_in_the_code_exists_in_the_register(path):
    parts = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    assert [text for text in texts if is_an_id(text) and text not in REGISTER] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE.parent).as_posix())
def test_no_requirement_id_is_built_from_pieces(path):
    formats = (
        part for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(part, ast.JoinedStr)
    )
    texts = (
        "".join(piece.value if isinstance(piece, ast.Constant) else "x" for piece in one.values) for one in formats
    )
    assert [
        text
        for text in texts
        if is_an_id(text) or re.fullmatch(r"x?[a-z-]*\.(layout|null-rejected|truncated-rejected)", text)
    ] == []
