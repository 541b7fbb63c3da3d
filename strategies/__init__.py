"""Test values and bytes: Hypothesis strategies for users' own tests, and a seeded generator for large numbers of cases.

The names of `hypothesis.public` are available here; Hypothesis is imported when one of them is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_TYPED = "conformance.strategies.hypothesis.public"


def __getattr__(name: str) -> Any:
    """Return a public name of `conformance.strategies.hypothesis.public`."""
    # `from` first looks for a module with the name; this must not import Hypothesis.
    if importlib.util.find_spec(f"{__name__}.{name}"):
        raise AttributeError(f"module {__name__!r} has not imported {name!r}")
    # Not `from … import`, which would look for the name here again.
    typed = importlib.import_module(_TYPED)
    if name not in typed.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(typed, name)


def __dir__() -> list[str]:
    return sorted(importlib.import_module(_TYPED).__all__)
