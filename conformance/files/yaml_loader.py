"""A strict YAML loader with size limits; its errors contain the line.

It rejects duplicate keys, and unquoted scalars that YAML reads as another value (`00`, `no`, `12:30`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from conformance.errors import FileError
from conformance.files.bounded_json import read_json
from conformance.files.yaml_mapping import YamlMapping

JSON_TAG = "!json"
"""The tag of a value in JSON text. A lone surrogate needs it: JSON can escape one, but libyaml rejects it."""
DEEPEST = 100
"""The deepest nesting of lists and mappings."""
MOST_NODES = 300_000
"""The most scalars, lists, mappings and aliases of one file. The largest bundled file has 5,000."""
LARGEST = 16 * 2**20
"""The largest file in bytes. After the expansion of every alias, twice as many characters are allowed."""

_OF_NODE = 50
"""The weight of a node in characters, in addition to its text."""

_EventLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlLimitExceeded(yaml.MarkedYAMLError):
    """A document that exceeds a limit, or has a forbidden tag or a recursive alias."""


def check_yaml(text: bytes | str) -> None:
    """Reject a document that could exhaust the stack or the memory. Raises yaml.YAMLError, if possible with a mark."""
    if len(text) > LARGEST:
        raise YamlLimitExceeded(problem=f"more than {LARGEST >> 20} MiB")
    bounds = _YamlLimits()
    for event in yaml.parse(text, Loader=_EventLoader):
        try:
            bounds.take(event)
        except ValueError as error:
            raise YamlLimitExceeded(
                problem=str(error), problem_mark=cast("yaml.Mark | None", event.start_mark)
            ) from None


class _YamlLimits:
    """The depth, nodes and weight so far. The weight is in characters, with every alias expanded."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        """The anchor of each open list or mapping, and the weight before it."""
        self._weights: dict[str, int] = {}
        self._weight = self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        """Count the next event. Raises ValueError."""
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            self._remember(anchor, before)
            return
        if not isinstance(event, yaml.NodeEvent):
            return
        before, self._nodes = self._weight, self._nodes + 1
        self._weight += self._weight_of(event)
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, before))
        elif not isinstance(event, yaml.AliasEvent):
            self._remember(event.anchor, before)
        if len(self._open) > DEEPEST:
            raise ValueError(f"lists and mappings are nested more than {DEEPEST} deep")
        if self._nodes > MOST_NODES:
            raise ValueError(f"more than {MOST_NODES:,} values")
        if self._weight > 2 * LARGEST:
            raise ValueError(f"more than {2 * LARGEST >> 20} MiB after the expansion of every alias")

    def _weight_of(self, event: yaml.NodeEvent) -> int:
        """Return the weight of a node. Raises ValueError for an unexpected tag, or an alias inside its own anchor."""
        anchor, tag = event.anchor or "", getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent):
            if any(name == anchor for name, _ in self._open):
                raise ValueError(f"the alias {anchor[:40]!r} is inside its own anchor")
            return self._weights.get(anchor, 0) + _OF_NODE
        if tag not in (None, JSON_TAG):
            raise ValueError(f"the tag is {tag[:40]!r}, expected {JSON_TAG} or no tag")
        return _OF_NODE + len(getattr(event, "value", ""))

    def _remember(self, anchor: str | None, before: int) -> None:
        if anchor is not None:
            self._weights[anchor] = self._weight - before


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader that adds lines, and rejects duplicate keys and misread scalars."""


class _AmbiguousScalar(yaml.MarkedYAMLError):
    """A scalar that YAML reads differently from its text."""


_PLAIN = {
    "tag:yaml.org,2002:int": re.compile(r"-?(0|[1-9][0-9]*)\Z"),
    "tag:yaml.org,2002:bool": re.compile(r"(true|false)\Z"),
    "tag:yaml.org,2002:null": re.compile(r"null\Z"),
}


def misread(tag: str, text: str) -> bool:
    """Return True if the value of an unquoted scalar, read as `tag`, differs from its text."""
    allowed = _PLAIN.get(tag)
    return allowed is None or not allowed.match(text)


def _scalar(loader: Any, node: yaml.ScalarNode) -> Any:
    if misread(node.tag, node.value):
        kind = node.tag.rpartition(":")[2]
        raise _AmbiguousScalar(
            problem=f"unquoted {node.value!r:.60} is read as a {kind}: put it in quotes", problem_mark=node.start_mark
        )
    try:
        return yaml.constructor.SafeConstructor.yaml_constructors[node.tag](loader, node)
    except ValueError:
        raise _AmbiguousScalar(problem=f"{node.value:.40} is not a number", problem_mark=node.start_mark) from None


def _mapping(loader: Any, node: yaml.MappingNode) -> YamlMapping:
    row = YamlMapping()
    row.line = node.start_mark.line + 1
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise _AmbiguousScalar(problem=f"the key {key!r:.60} is not a string", problem_mark=key_node.start_mark)
        if key in row:
            raise _AmbiguousScalar(problem=f"the key {key!r:.60} occurs twice", problem_mark=key_node.start_mark)
        row[key] = loader.construct_object(value_node, deep=True)
    return row


def _json(loader: Any, node: yaml.Node) -> Any:
    try:
        return read_json(loader.construct_scalar(node).encode())
    except ValueError as error:
        raise _AmbiguousScalar(problem=f"not JSON text: {error}", problem_mark=node.start_mark) from None


_Loader.add_constructor(JSON_TAG, _json)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag in ("int", "bool", "null", "float", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar)


def load(path: Path) -> Any:
    """Return the document in a file (lists, YamlMappings, strings, ints, bools, None). Raises FileError."""
    text = content_of(path)
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, made stricter
    except yaml.YAMLError as error:
        raise in_file(path, error) from None


def content_of(path: Path) -> bytes:
    """Check the limits of a YAML file and return its bytes. Raises FileError with the line."""
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
    """Convert an error of PyYAML to a FileError with its line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or f"not YAML: {error}"
    return FileError(path, " ".join(problem.split())[:_LONGEST], mark.line + 1 if mark else 0)


_LONGEST = 300
"""The most characters of a PyYAML problem in a FileError."""


# --- the shape of a document --------------------------------------------------------------------------

T = TypeVar("T")
_PROBLEM = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_WORDS = {
    **{"Object missing": "missing", "`object`": "a mapping", "`array`": "a list"},
    **{"`str`": "text", "`int`": "a number", "`bool`": "true or false"},
}
"""Words for errors, by the words of msgspec."""


def convert(path: Path, document: object, shape: type[T]) -> T:
    """Convert the document of a file to a type. Raises FileError with the place and line of a mismatch."""
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        found = _PROBLEM.fullmatch(str(error))
        assert found is not None
        what, place = found["what"], found["place"] or ""
        if unknown := _UNKNOWN.fullmatch(what):
            what, place = "Unknown key", f"{place}.{unknown[1]}".lstrip(".")
        for name, word in _WORDS.items():
            what = what.replace(name, word)
        what = what[:1].lower() + what[1:]
        raise FileError(path, f"{place}: {what}" if place else what, line_of(path, place)) from None


def line_of(path: Path, place: str) -> int:
    """Return the line of a value like `tls.ca` or `[3].id`; if it is missing, the line of its nearest parent."""
    node: Any = yaml.compose(path.read_bytes(), Loader=_EventLoader)
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", place):
        values = node.value if index else [value for key, value in node.value if key.value == name]
        if len(values) <= int(index or 0):
            break
        node = values[int(index or 0)]
    return int(node.start_mark.line) + 1 if node else 1
