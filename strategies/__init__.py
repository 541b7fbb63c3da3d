"""Values and bytes to test with: Hypothesis strategies for people's own tests, and a seeded generator for volume.

The names of `typed` stand here; Hypothesis is imported when one of them is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_TYPED = "conformance.strategies.hypothesis.public"


def __getattr__(name: str) -> Any:
    """A public name of `conformance.strategies.hypothesis.public`."""
    # `from` asks for a module as a name first; such a question must not import Hypothesis.
    if importlib.util.find_spec(f"{__name__}.{name}"):
        raise AttributeError(f"module {__name__!r} has not imported {name!r}")
    # Not `from … import typed`, which would ask for the name here again.
    typed = importlib.import_module(_TYPED)
    if name not in typed.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(typed, name)


def __dir__() -> list[str]:
    return sorted(importlib.import_module(_TYPED).__all__)
