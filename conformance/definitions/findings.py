"""A rule that a definition breaks, and where: what reading and linting definitions end in."""

from __future__ import annotations

from msgspec import Struct


class LintFinding(Struct, frozen=True):
    """A rule of the document that a definition breaks, and where."""

    file: str
    path: str
    """Names of fields from the message down, joined by dots; empty for the message itself."""
    requirement: str
    problem: str

    open: bool = False
    """The document is silent here, or in conflict with itself: another reading finds no fault."""

    def __str__(self) -> str:
        return self.text("open" if self.open else "")

    def text(self, level: str) -> str:
        """One printable line; `level` stands behind the requirement."""
        where = f"{self.file}: {self.path}: " if self.path else f"{self.file}: "
        line = f"{where}{self.problem} ({', '.join(filter(None, (self.requirement, level)))})"
        # Names out of archives and folders may hold anything.
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


SOME = 5
"""At most so many problems of one kind are reported; a broken file could have any number."""


def shown(value: object) -> str:
    """Any value of a definition, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
