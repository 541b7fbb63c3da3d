"""Annotated hex dumps: the fields of some bytes, their values, and the violations at each place."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import Any

from conformance.codec import DecodeResult, Violation, WireType, decode
from conformance.codec.cursor import OFFLINE_LIMITS, Span
from conformance.codec.record_batch import HEADER_SIZE

_SHOWN_BY = {"offset": "offsetDelta", "timestamp": "timestampDelta"}
"""Computed values of the notation, each with the field whose bytes hold it."""

_ROW = 16
"""Bytes shown of a field; a longer field is cut."""


@dataclass(frozen=True, slots=True)
class DumpLine:
    """One line of a dump: a field, its bytes, and the violations at its place."""

    layer: int
    start: int
    stop: int
    path: str
    data: bytes
    value: str
    marks: tuple[Violation, ...] = ()
    parts: tuple[str, ...] = ()
    """Further fields in the same bytes (the flags of the attributes)."""
    hex: str = field(init=False)
    """The bytes as hex digits, cut after `_ROW` bytes."""

    def __post_init__(self) -> None:
        further = f" … {len(self.data)} bytes" if len(self.data) > _ROW else ""
        object.__setattr__(self, "hex", self.data[:_ROW].hex(" ") + further)


def annotate(type_: WireType | str, data: bytes) -> tuple[DecodeResult, list[DumpLine]]:
    """Decode with a trail and return one line per field, with every violation and remark at its place.

    Bytes that no field covers (after a violation, or after the value) get separate lines.
    """
    read = decode(type_, data, trail=True, limits=OFFLINE_LIMITS)
    layers = [data, *read.layers]
    lines: list[DumpLine] = []
    spans: list[list[Span]] = [[] for _ in layers]
    for span in read.spans:
        spans[span.layer].append(span)
    for number, layer in enumerate(layers):
        lines += _layer_lines(number, layer, spans[number], read)
    return read, _with_marks(lines, [*read.violations, *read.remarks])


def _layer_lines(number: int, layer: bytes, spans: list[Span], read: DecodeResult) -> list[DumpLine]:
    leaves = _leaves(spans)
    lines, at = [], 0
    for (start, stop), group in leaves.items():
        if start > at:
            lines.append(_gap(number, at, start, layer, read))
        # A flag that is not set adds no information to the number that contains it.
        first, *parts = group
        text = ", ".join([_plain(first.value), *(_describe(span) for span in parts if span.value is not False)])
        names = tuple(pretty(span.path) for span in parts)
        lines.append(DumpLine(number, start, stop, pretty(first.path), layer[start:stop], text, parts=names))
        at = max(at, stop)
    if at < len(layer):
        lines.append(_gap(number, at, len(layer), layer, read))
    return lines


def _gap(number: int, start: int, stop: int, layer: bytes, read: DecodeResult) -> DumpLine:
    if number == 0 and read.ok and start >= read.consumed:
        what = "(after the value)"
    else:
        what = "(compressed records)" if number == 0 and read.layers and start == HEADER_SIZE else "(not read)"
    return DumpLine(number, start, stop, what, layer[start:stop], "")


def _leaves(spans: list[Span]) -> dict[tuple[int, int], list[Span]]:
    """Group the spans that contain no smaller span by their range, in order."""
    groups: dict[tuple[int, int], list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.start, -span.stop)):
        if span.stop > span.start:
            groups.setdefault((span.start, span.stop), []).append(span)
    leaves = {}
    for (start, stop), following in zip_longest(groups, islice(groups, 1, None)):
        if following is None or following[0] >= stop or following[1] > stop:
            leaves[start, stop] = groups[start, stop]
    return leaves


def pretty(path: str) -> str:
    """Return a span's path for display: `key#length` becomes keyLength, `headers#count` headersCount."""
    head, mark, kind = path.rpartition("#")
    if not mark:
        return path or "value"
    return head.rstrip(".") + kind.capitalize() if head.strip(".") else kind


def _describe(span: Span) -> str:
    value = span.value if isinstance(span.value, str) else _plain(span.value)
    return f"{pretty(span.path).rpartition('.')[2]} {value}"


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


def _with_marks(lines: list[DumpLine], marks: list[Violation]) -> list[DumpLine]:
    placed: dict[int, list[Violation]] = {}
    for mark in marks:
        where = line_at(lines, mark.layer, mark.at)
        placed.setdefault(where, []).append(mark)
    return [replace(line, marks=tuple(placed.get(index, ()))) for index, line in enumerate(lines)]


def line_at(lines: list[DumpLine], layer: int, at: int) -> int:
    """Return the index of the line with a byte, or of the last line before it; -1 if there is none."""
    index = bisect_right(lines, (layer, at), key=lambda line: (line.layer, line.start)) - 1
    return index if index >= 0 and lines[index].layer == layer else -1


def line_of(lines: list[DumpLine], path: str) -> int:
    """Return the index of the line of a field (a path from `judge`); -1 if there is none."""
    head, _, last = path.rpartition(".")
    wanted = f"{head}.{_SHOWN_BY.get(last, last)}" if head else _SHOWN_BY.get(last, last)
    # An empty or null value has no bytes of its own, only a length or count.
    names = [wanted, f"{wanted}Length", f"{wanted}Count"]
    for name in names:
        for index, line in enumerate(lines):
            if name == line.path or name in line.parts:
                return index
    return next((index for index, line in enumerate(lines) if line.path.startswith(wanted)), -1)


def place_of(lines: list[DumpLine], read: DecodeResult, path: str, about: str = "") -> int:
    """Return the index of the line of a field or byte (`@17`) at `path`, or of the last byte consumed.

    If `path` is empty, it is the first violation or remark, else the field `about`; -1 if there is none.
    """
    if path.startswith("@"):
        return line_at(lines, 0, int(path[1:]))
    if path == "consumed":
        return line_at(lines, 0, max(read.consumed - 1, 0))
    if path not in ("", "value"):
        return line_of(lines, path)
    marks = [*read.violations, *read.remarks]
    if marks:
        return line_at(lines, marks[0].layer, marks[0].at)
    return line_of(lines, about) if about else -1
