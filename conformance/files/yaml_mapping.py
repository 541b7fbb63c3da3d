"""A mapping with its line in a file; separate from the YAML loader, which most commands never load."""

from __future__ import annotations

from typing import Any


class YamlMapping(dict[str, Any]):
    """A mapping with the line where it starts."""

    line: int = 0
