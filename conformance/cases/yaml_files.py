"""YAML as people write it here: read through the C loader, with lines, and without its surprises.

Duplicate keys, and unquoted scalars that YAML reads as something other than what stands there (`00`, `no`, `12:30`),
are errors that name the line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from conformance.cases.rows import Row
from conformance.cases.yaml_bounds import JSON_TAG, LARGEST, check_yaml
from conformance.errors import FileError
from conformance.safety.json_text import read_json


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Adds lines, refuses duplicate keys and misread scalars."""


class _Misread(yaml.MarkedYAMLError):
    """A scalar that YAML reads as something else."""


_PLAIN = {
    "tag:yaml.org,2002:int": re.compile(r"-?(0|[1-9][0-9]*)\Z"),
    "tag:yaml.org,2002:bool": re.compile(r"(true|false)\Z"),
    "tag:yaml.org,2002:null": re.compile(r"null\Z"),
}


def misread(tag: str, text: str) -> bool:
    """Whether an unquoted scalar resolved to `tag` does not say what its text says."""
    allowed = _PLAIN.get(tag)
    return allowed is None or not allowed.match(text)


def _scalar(loader: Any, node: yaml.ScalarNode) -> Any:
    if misread(node.tag, node.value):
        kind = node.tag.rpartition(":")[2]
        raise _Misread(
            problem=f"unquoted {node.value!r:.60} is read as a {kind}: put it in quotes", problem_mark=node.start_mark
        )
    try:
        return yaml.constructor.SafeConstructor.yaml_constructors[node.tag](loader, node)
    except ValueError:
        raise _Misread(problem=f"{node.value:.40} is not a number", problem_mark=node.start_mark) from None


def _mapping(loader: Any, node: yaml.MappingNode) -> Row:
    row = Row()
    row.line = node.start_mark.line + 1
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise _Misread(problem=f"the key {key!r:.60} is not a string", problem_mark=key_node.start_mark)
        if key in row:
            raise _Misread(problem=f"the key {key!r:.60} is given twice", problem_mark=key_node.start_mark)
        row[key] = loader.construct_object(value_node, deep=True)
    return row


def _json(loader: Any, node: yaml.Node) -> Any:
    """A value written as JSON text."""
    try:
        return read_json(loader.construct_scalar(node).encode())
    except ValueError as error:
        raise _Misread(problem=f"not JSON text: {error}", problem_mark=node.start_mark) from None


_Loader.add_constructor(JSON_TAG, _json)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag in ("int", "bool", "null", "float", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar)


def load(path: Path) -> Any:
    """The document in a file: lists, Rows, strings, ints, bools, None. Raises FileError with the line."""
    text = content_of(path)
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, made stricter
    except yaml.YAMLError as error:
        raise in_file(path, error) from None


def content_of(path: Path) -> bytes:
    """The bytes of a file of YAML that is within bounds. Raises FileError with the line."""
    try:
        with path.open("rb") as stream:
            text = stream.read(LARGEST + 1)
        check_yaml(text)
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None
    except yaml.YAMLError as error:
        raise in_file(path, error) from None
    return text


def in_file(path: Path, error: yaml.YAMLError) -> FileError:
    """What is wrong with the YAML of a file, and on which line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or f"not YAML: {error}"
    return FileError(path, " ".join(problem.split())[:_LONGEST], mark.line + 1 if mark else 0)


_LONGEST = 300
"""Characters of a problem that are told."""
