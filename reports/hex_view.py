"""Annotated bytes and the page of `conformance show`, as rich renderables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from conformance.cases.model import Case
from conformance.cases.requirement import Requirement
from conformance.codec import Violation
from conformance.codec.hex_dump import DumpLine

_LONGEST = 8192
"""Characters of a line at most. The longest line of the suite itself is a command with 1 KiB of hex digits."""


def printable(text: str) -> str:
    """Return a text with control characters escaped, cut if long: text of a target must not control a terminal."""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def dump(lines: Sequence[DumpLine], place: int = -1) -> RenderableType:
    """Return annotated bytes, one line per field: position, bytes, field, value. Violations and remarks follow it."""
    wide = max((len(line.hex) for line in lines), default=0)
    named = max((len(line.path) for line in lines), default=0)
    rows: list[RenderableType] = []
    layer = 0
    for index, line in enumerate(lines):
        if line.layer != layer:
            layer = line.layer
            rows.append(Text(f"decompressed stream {layer}", style="dim"))
        row = Text.assemble(
            ("→ " if index == place else "  ", "bold"),
            (f"{line.start:>5}", "dim"),
            "  ",
            (f"{line.hex:<{wide}}", "cyan"),
        )
        row.append(f"  {line.path:<{named}}  {printable(line.value)}".rstrip())
        rows.append(row)
        rows += [_mark(mark) for mark in line.marks]
    return Group(*rows)


def _mark(mark: Violation) -> Text:
    kind, style = ("unspecified", "yellow") if mark.open else ("violation", "red")
    return Text(f"         ^ {kind}: {mark.requirement}: {printable(mark.hint)}", style=style)


def case_report(case: Case, requirement: Requirement, lines: Sequence[DumpLine], expected: str) -> RenderableType:
    """Return the page of `conformance show`: the case, its expectation, its requirement, and the annotated bytes."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    judged = f"{requirement.level}, {requirement.basis}{', upstream differs' if case.disputed else ''}"
    rows = {
        "case": f"{case.id} ({case.op} {case.type})",
        "expected": expected,
        "requirement": f"{requirement.id} ({judged})",
        "statement": requirement.statement,
        "documents": ", ".join(requirement.source),
        "settled": f"{requirement.settled} {requirement.why}" if requirement.settled else "",
        "about": ", ".join(case.checked_fields),
        "catches": case.comment,
        "found in": case.found_in,
        "source": case.source,
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, Text(value))
    return Group(table, Text(""), dump(lines))
