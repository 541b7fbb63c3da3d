"""Trails to annotated bytes: which field lies where, what it says, and what is wrong there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.codec import Decoded, Violation, decode
from conformance.codec.cursor import Span

_SHOWN_BY = {"offset": "offsetDelta", "timestamp": "timestampDelta"}
"""Values of the notation that are computed, and the field whose bytes carry them."""

_ROW = 16
"""Bytes shown of a field; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a dump: the field, its bytes, and the marks that stand at it."""

    layer: int
    start: int
    stop: int
    path: str
    data: bytes
    value: str
    marks: tuple[Violation, ...] = ()

    @property
    def hex(self) -> str:
        """Its bytes as digits, cut after a row."""
        shown = self.data[:_ROW].hex(" ")
        return shown + (f" … {len(self.data)} bytes" if len(self.data) > _ROW else "")


def annotate(name: str, data: bytes) -> tuple[Decoded, list[Line]]:
    """Decode with a trail and lay the bytes out line by line, every violation and remark at its place.

    Bytes that no field covers (after a stop, or after the value) stand in lines of their own.
    """
    read = decode(name, data, trail=True)
    layers = [data, *read.layers]
    lines: list[Line] = []
    for number, layer in enumerate(layers):
        lines += _layer_lines(number, layer, [span for span in read.spans if span.layer == number], read)
    return read, _with_marks(lines, [*read.violations, *read.remarks])


def _layer_lines(number: int, layer: bytes, spans: list[Span], read: Decoded) -> list[Line]:
    leaves = _leaves(spans)
    lines, at = [], 0
    for (start, stop), group in leaves.items():
        if start > at:
            lines.append(_gap(number, at, start, layer, read))
        # A flag that is not set says nothing beside the number it is a part of.
        text = ", ".join(_describe(span, first=span is group[0]) for span in group if span.value is not False)
        lines.append(Line(number, start, stop, pretty(group[0].path), layer[start:stop], text))
        at = max(at, stop)
    if at < len(layer):
        lines.append(_gap(number, at, len(layer), layer, read))
    return lines


def _gap(number: int, start: int, stop: int, layer: bytes, read: Decoded) -> Line:
    if number == 0 and read.ok and start >= read.consumed:
        what = "(after the value)"
    else:
        what = "(compressed records)" if number == 0 and read.layers and start == 61 else "(not read)"
    return Line(number, start, stop, what, layer[start:stop], "")


def _leaves(spans: list[Span]) -> dict[tuple[int, int], list[Span]]:
    """Spans that hold no smaller one, by their range, in order; those of one range together."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.stop))
    found: dict[tuple[int, int], list[Span]] = {}
    for index, span in enumerate(ordered):
        following = next(
            (other for other in ordered[index + 1 :] if (other.start, other.stop) != (span.start, span.stop)), None
        )
        holds = following is not None and following.start < span.stop and following.stop <= span.stop
        if not holds and span.stop > span.start:
            found.setdefault((span.start, span.stop), []).append(span)
    return found


def pretty(path: str) -> str:
    """A span's path as people write it: `key#length` is keyLength, `headers#count` headersCount."""
    head, mark, kind = path.rpartition("#")
    if not mark:
        return path or "value"
    return head.rstrip(".") + kind.capitalize() if head.strip(".") else kind


def _describe(span: Span, *, first: bool) -> str:
    value = span.value if isinstance(span.value, str) and not first else _plain(span.value)
    return value if first else f"{pretty(span.path).rpartition('.')[2]} {value}"


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return repr(value)[1:] if len(value) <= _ROW else f"{len(value)} bytes"
    if isinstance(value, str):
        shown = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return repr(shown if len(shown) <= 40 else shown[:39] + "…")
    if isinstance(value, tuple):
        return f"{len(value)} elements" if value else "empty"
    return "" if isinstance(value, dict) else str(value)


def _with_marks(lines: list[Line], marks: list[Violation]) -> list[Line]:
    placed: dict[int, list[Violation]] = {}
    for mark in marks:
        where = line_at(lines, mark.layer, mark.at)
        placed.setdefault(where, []).append(mark)
    return [
        Line(line.layer, line.start, line.stop, line.path, line.data, line.value, tuple(placed.get(index, ())))
        for index, line in enumerate(lines)
    ]


def line_at(lines: list[Line], layer: int, at: int) -> int:
    """The index of the line that holds a byte, or the last one before it; -1 when there is none."""
    found = -1
    for index, line in enumerate(lines):
        if line.layer == layer and line.start <= at:
            found = index
    return found


def line_of(lines: list[Line], path: str) -> int:
    """The index of the line of a field (a path as `judge` gives it); -1 when there is none."""
    head, _, last = path.rpartition(".")
    wanted = f"{head}.{_SHOWN_BY.get(last, last)}" if head else _SHOWN_BY.get(last, last)
    names = [wanted, f"{wanted}Length", f"{wanted}Count"]
    for name in names:
        for index, line in enumerate(lines):
            if line.path == name:
                return index
    return next((index for index, line in enumerate(lines) if line.path.startswith(wanted)), -1)
