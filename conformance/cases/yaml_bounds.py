"""YAML of strangers, looked through before anything is made of it: libyaml's events need no stack, its nodes do."""

from __future__ import annotations

from typing import cast

import yaml

JSON_TAG = "!json"
"""Stands before a value that is written as JSON text: libyaml refuses a lone surrogate, JSON's escapes hold it."""
DEEPEST = 100
"""Lists and mappings within one another, at most."""
MOST_NODES = 300_000
"""Scalars, lists, mappings and aliases of one file, at most. The largest bundled file has 5,000."""
LARGEST = 16 * 2**20
"""Bytes of one file, at most; and half the characters that there may be once every alias is replaced."""

_OF_NODE = 50
"""Characters that a node counts for besides those in it."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class OutOfBounds(yaml.MarkedYAMLError):
    """A document that is larger, or nested deeper, than any that a person writes."""


def check_yaml(text: bytes | str) -> None:
    """Refuse a document that could exhaust the stack or the memory. Raises yaml.YAMLError, with a mark where it can."""
    if len(text) > LARGEST:
        raise OutOfBounds(problem=f"more than {LARGEST >> 20} MiB")
    bounds = _Bounds()
    for event in yaml.parse(text, Loader=_Loader):
        try:
            bounds.take(event)
        except ValueError as error:
            raise OutOfBounds(problem=str(error), problem_mark=cast("yaml.Mark | None", event.start_mark)) from None


class _Bounds:
    """How deep, how many and how much so far. An anchor weighs what its node does, with all that aliases in it name."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        """The anchor of each list or mapping that is open, and the weight before it."""
        self._weights: dict[str, int] = {}
        self._weight = self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        """The next event. Raises ValueError."""
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
            raise ValueError(f"more than {2 * LARGEST >> 20} MiB once every alias is replaced")

    def _weight_of(self, event: yaml.NodeEvent) -> int:
        """Characters, and some for each node. Raises ValueError for an alias of what it stands in, and for a tag."""
        anchor, tag = event.anchor or "", getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent):
            if any(name == anchor for name, _ in self._open):
                raise ValueError(f"the alias {anchor[:40]!r} stands in what it names")
            return self._weights.get(anchor, 0) + _OF_NODE
        if tag not in (None, JSON_TAG):
            raise ValueError(f"the tag {tag[:40]!r}: no tag but {JSON_TAG} is used here")
        return _OF_NODE + len(getattr(event, "value", ""))

    def _remember(self, anchor: str | None, before: int) -> None:
        if anchor is not None:
            self._weights[anchor] = self._weight - before
