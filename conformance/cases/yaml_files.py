"""YAML as people write it here: read through the C loader, with lines, and without its surprises.

Duplicate keys, and unquoted scalars that YAML reads as something other than what stands there (`00`, `no`, `12:30`),
are errors that name the line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import FileError


class Row(dict[str, Any]):
    """A mapping that knows the line it starts on."""

    line: int = 0


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
            problem=f"unquoted {node.value!r} is read as a {kind}: put it in quotes", problem_mark=node.start_mark
        )
    return yaml.constructor.SafeConstructor.yaml_constructors[node.tag](loader, node)


def _mapping(loader: Any, node: yaml.MappingNode) -> Row:
    row = Row()
    row.line = node.start_mark.line + 1
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise _Misread(problem=f"the key {key!r} is not a string", problem_mark=key_node.start_mark)
        if key in row:
            raise _Misread(problem=f"the key {key!r} is given twice", problem_mark=key_node.start_mark)
        row[key] = loader.construct_object(value_node, deep=True)
    return row


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag in ("int", "bool", "null", "float", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar)


def load(path: Path) -> Any:
    """The document in a file: lists, Rows, strings, ints, bools, None. Raises FileError with the line."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileError(path, error.problem or str(error), mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FileError(path, f"not YAML: {error}") from None
