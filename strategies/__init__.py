"""Values and bytes to test with: Hypothesis strategies for people's own tests, and a seeded generator for volume.

The names of `typed` stand here; Hypothesis is imported when one of them is first used.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """A public name of `conformance.strategies.typed`."""
    from conformance.strategies import typed

    if name.startswith("_") or name not in typed.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(typed, name)


def __dir__() -> list[str]:
    from conformance.strategies import typed

    return sorted(typed.__all__)
