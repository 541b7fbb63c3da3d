"""Where the targets differ, for the console: on one screen, or every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from conformance.reports.annotated import printable
from conformance.reports.text import STYLES

if TYPE_CHECKING:
    from conformance.reports.disagreements import Disagreement

_IN_FULL = 3
"""Rows of each part that are shown with their command."""
_STANDS = 4
"""Readings of such a row that are shown."""
_LISTED = 6
"""Further rows of each part, in a line. All numbers together keep the section within a screen of 60 lines."""
_LONGEST = 200
"""Characters of what a target did that are shown."""
_PARTS = (
    (False, "Some break a requirement"),
    (True, "The documents leave it open, and each is right"),
)


class Differences(Struct, frozen=True):
    """A section of at most a screen, in which what targets break and what is open have their own parts."""

    rows: Sequence[Disagreement]
    every: bool
    """Whether each row is shown in full."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(Text("Where the targets differ"), align="left")
        left = 0
        for is_open, headline in _PARTS:
            rows = [row for row in self.rows if row.is_open is is_open]
            if not rows:
                continue
            cases = sum(row.count for row in rows)
            yield _line(f"{headline}: {_number(cases, 'case')} in {_number(len(rows), 'row')}", "bold")
            in_full = len(rows) if self.every else _IN_FULL
            for row in rows[:in_full]:
                yield from _in_full_lines(row, cut=not self.every)
            for row in rows[in_full : in_full + _LISTED]:
                yield _head(row, row.example)
            left += max(0, len(rows) - in_full - _LISTED)
        if not self.every:
            more = f"{left} more rows; " if left else ""
            yield _line(f"{more}-v: every row, --html FILE: a page, --json FILE: with all cases", "dim")
        yield Text("")


def _in_full_lines(row: Disagreement, *, cut: bool) -> Iterator[RenderableType]:
    """A row with who made what of its smallest example, and the command that shows it."""
    yield _head(row, "")
    for stand in row.stands[: _STANDS if cut else None]:
        sign, style = ("✓", "green") if stand.is_right else ("✗", "red")
        said = printable(stand.text)
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
        text = Text.assemble((sign, style), f" {printable(', '.join(stand.targets))}: {said}")
        text.no_wrap, text.overflow = cut, "ellipsis" if cut else "fold"
        yield Padding(text, (0, 0, 0, 2), expand=False)
    if cut and len(row.stands) > _STANDS:
        yield _line(f"  and {len(row.stands) - _STANDS} more readings", "dim")
    # The whole command, whatever the width: people copy it.
    for command in filter(None, (row.reproduce, "" if cut else row.shrunk)):
        yield Text("  " + printable(command), style="green", no_wrap=True, overflow="ignore")


def _head(row: Disagreement, example: str) -> Text:
    """How many cases, at which level, for which cause or at which open place."""
    style = "dim" if row.is_open or row.is_disputed else STYLES[row.level]
    place = "" if row.is_open else row.kind + "  "
    about = printable(", ".join(row.causes) or row.requirements[0])
    text = Text.assemble(f"{row.count:>5} × ", (place, style), about)
    text.append(f"  {example or row.requirements[0] * bool(row.causes)}".rstrip(), style="dim")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _number(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"
