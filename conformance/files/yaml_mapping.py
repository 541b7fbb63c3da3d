"""A mapping of a file that people write, with its line; apart from what reads YAML, which most commands never load."""

from __future__ import annotations

from typing import Any


class YamlMapping(dict[str, Any]):
    """A mapping that knows the line it starts on."""

    line: int = 0
