"""The source of a function that is made from a table: lines, names of its own, and what it knows from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class NeedsInterpreter(Exception):
    """Raised by a quick reader or writer where there is anything to say: the interpreter says it."""


_DEEP = 12
"""Blocks inside one another: Python takes 20 loops, and types may hold more types than that."""


class FunctionBuilder:
    """Gathers the lines of one function."""

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
        """What is added inside stands below `head`."""
        self(f"{head}:")
        self._depth += 1
        yield
        self._depth -= 1

    def doubt(self, condition: str) -> None:
        """Give up where a condition holds."""
        self(f"if {condition}: raise Doubt")

    @property
    def is_deep(self) -> bool:
        """Whether what is inside is better a function of its own."""
        return self._depth > _DEEP

    def name(self, stem: str = "v") -> str:
        """A name that stands for nothing yet."""
        self._names += 1
        return f"{stem}{self._names}"

    def known(self, value: Any, stem: str = "k") -> str:
        """The name of something from outside."""
        name = next((name for name, other in self._known.items() if other is value), None) or self.name(stem)
        self._known[name] = value
        return name

    def function(self, name: str) -> Callable[..., Any]:
        """The function of that name, which the lines define."""
        exec(compile("\n".join(self._lines), f"<{name}>", "exec"), self._known)  # noqa: S102 - made from our tables
        return self._known[name]  # type: ignore[no-any-return]
