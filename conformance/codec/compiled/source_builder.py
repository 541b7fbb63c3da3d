"""The source of a function that is generated from a table: its lines, its names, and the outside objects in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class NeedsInterpreter(Exception):
    """Raised by a compiled reader or writer if the interpreter has to explain the input."""


_DEEP = 12
"""The deepest block: Python allows 20 nested loops, and types can be nested deeper."""


class FunctionBuilder:
    """The lines of one function."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._known: dict[str, Any] = {"Doubt": NeedsInterpreter}
        self._names = 0

    def __call__(self, *lines: str) -> None:
        """Add lines at the depth of the open blocks."""
        self._lines += [" " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Put the lines that are added inside the context below `head`."""
        self(f"{head}:")
        self._depth += 1
        yield
        self._depth -= 1

    def doubt(self, condition: str) -> None:
        """Add lines that give up if a condition holds."""
        self(f"if {condition}: raise Doubt")

    @property
    def is_deep(self) -> bool:
        """True if the next part should be a separate function."""
        return self._depth > _DEEP

    def name(self, stem: str = "v") -> str:
        """Return an unused name."""
        self._names += 1
        return f"{stem}{self._names}"

    def known(self, value: Any, stem: str = "k") -> str:
        """Return the name of an outside object."""
        name = next((name for name, other in self._known.items() if other is value), None) or self.name(stem)
        self._known[name] = value
        return name

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function of this name, which the lines define."""
        exec(compile("\n".join(self._lines), f"<{name}>", "exec"), self._known)  # noqa: S102 - made from our tables
        return self._known[name]  # type: ignore[no-any-return]
