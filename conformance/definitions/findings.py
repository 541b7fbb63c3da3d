"""Findings: the rules that a definition breaks, each with its place."""

from __future__ import annotations

from msgspec import Struct


class LintFinding(Struct, frozen=True):
    """A rule of the document that a definition breaks, with its place."""

    file: str
    path: str
    """Field names from the message down, joined by dots; empty for the message itself."""
    requirement: str
    problem: str

    open: bool = False
    """True if the document is silent or contradicts itself here, so that another interpretation finds no problem."""

    def __str__(self) -> str:
        return self.text("open" if self.open else "")

    def text(self, level: str) -> str:
        """Return the finding as one printable line; `level` follows the requirement."""
        where = f"{self.file}: {self.path}: " if self.path else f"{self.file}: "
        line = f"{where}{self.problem} ({', '.join(filter(None, (self.requirement, level)))})"
        # File names from archives and folders can contain any character.
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


SOME = 5
"""The most problems of one kind in a report; a broken file can have any number."""


def shown(value: object) -> str:
    """Return a value of a definition as text that is short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
