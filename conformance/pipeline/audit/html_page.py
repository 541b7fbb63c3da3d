"""`scan --html`: the results of an audit as one HTML page that works offline. Needs pyarrow, numpy.

The input is not trusted: the template escapes all text, and control characters are shown as hex digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pyarrow as pa
from jinja2 import Environment, StrictUndefined
from msgspec import Struct

from conformance import __version__
from conformance.cases.requirement import Requirement
from conformance.codec.hex_dump import DumpLine, annotate
from conformance.codec.record_batch import HEADER_SIZE, MAGIC_AT
from conformance.pipeline.audit.part_state import BatchStatistics, BatchTotals, LogStatistics
from conformance.pipeline.audit.segment_reader import FileWindow, entry_end
from conformance.pipeline.audit.segments import file_system_of
from conformance.pipeline.audit.summary import FindingRow, ScanResult
from conformance.reports.hex_view import printable

_MOST_LOGS, _MOST_SEGMENTS = 40, 100
"""Logs with their own table, and segments in each table."""
_LONGEST_SHOWN = 1 << 16
"""Bytes of the largest batch that is decoded; of a larger one only the header is."""
_HEADER_LINES, _AROUND, _MOST_LINES = 14, 2, 48
_EPOCH, _LAST = datetime(1970, 1, 1, tzinfo=UTC), 253_402_300_799_999
"""The last millisecond that has a date."""


class ChartBar(Struct, frozen=True):
    """A row of a table with a bar: name, totals, and length in percent of the longest bar."""

    name: str
    sum: BatchTotals
    share: float


class FindingView(Struct, frozen=True):
    """A finding with the bytes of its batch."""

    anchor: str
    row: FindingRow
    statement: str
    lines: tuple[DumpLine, ...]


class LogView(Struct, frozen=True):
    """One log on the page."""

    anchor: str
    log: LogStatistics
    places: Sequence[FindingView]

    @property
    def segments(self) -> Sequence[object]:
        """Return the first segments of the log."""
        return self.log.segments[:_MOST_SEGMENTS]

    def places_of(self, path: str, size: int) -> Iterator[tuple[FindingView, float]]:
        """Yield the findings in a segment, each with its position in percent of the segment."""
        for place in self.places:
            if place.row["path"] == path and size:
                yield place, 100 * min(place.row["position"] / size, 1)


def render(done: ScanResult, requirements: Mapping[str, Requirement]) -> Iterator[str]:
    """Yield the text of the page, in pieces."""
    folder = files("conformance.reports")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["printable"] = printable
    whole = BatchStatistics()
    for log in done.logs:
        whole.add(log.shape)
    places = [_place(number, row, requirements) for number, row in enumerate(done.findings)]
    logs = _shown_logs(done, places)
    yield from environment.from_string((folder / "page.audit.html").read_text("utf-8")).generate(
        version=__version__,
        report=done.report,
        places=places,
        of=sum(row["findings"] for row in done.report["summary"] if row["level"] != "note"),
        logs=logs,
        left=len(done.logs) - len(logs),
        periods=[
            _bar(_period(number, whole.width), part, whole.periods) for number, part in sorted(whole.periods.items())
        ],
        width=_span(whole.width),
        sizes=[_bar(f"up to {size:,}", part, whole.sizes) for size, part in sorted(whole.sizes.items())],
        kinds=[_bar(kind, part, whole.kinds) for kind, part in sorted(whole.kinds.items())],
        style=(folder / "page.css").read_text("utf-8"),
    )


def _shown_logs(done: ScanResult, places: Sequence[FindingView]) -> list[LogView]:
    """Return the logs with the most findings, or the largest logs at equal numbers, ordered by name."""
    by_path: dict[str, list[FindingView]] = {}
    for place in places:
        by_path.setdefault(place.row["path"], []).append(place)
    pages = [(log, [place for segment in log.segments for place in by_path.get(segment.path, [])]) for log in done.logs]
    pages.sort(key=lambda page: (-len(page[1]), -sum(segment.size for segment in page[0].segments)))
    shown = sorted(pages[:_MOST_LOGS], key=lambda page: page[0].directory)
    return [LogView(f"log-{number}", *page) for number, page in enumerate(shown)]


# --- charts -------------------------------------------------------------------------------------------


def _bar(name: str, part: BatchTotals, parts: Mapping[int, BatchTotals] | Mapping[str, BatchTotals]) -> ChartBar:
    return ChartBar(name, part, 100 * part.bytes / max(other.bytes for other in parts.values()))


def _period(number: int, width: int) -> str:
    """Return the start of a period as text."""
    millis = number * width
    if millis > _LAST:
        return f"{millis} ms"
    return (_EPOCH + timedelta(milliseconds=millis)).strftime("%Y-%m-%d %H:%M:%S")


def _span(millis: int) -> str:
    """Return a duration as text."""
    for name, unit in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if millis >= 2 * unit:
            return f"{millis / unit:,.1f} {name}"
    return f"{millis / 1000:,.1f} seconds"


# --- findings with their bytes ------------------------------------------------------------------------


def _place(number: int, row: FindingRow, requirements: Mapping[str, Requirement]) -> FindingView:
    requirement = requirements.get(row["requirement"])
    lines = _lines(row["path"], row["position"]) if row["path"].endswith(".log") else ()
    return FindingView(f"finding-{number}", row, requirement.statement if requirement else "", lines)


def _lines(path: str, position: int) -> tuple[DumpLine, ...]:
    """Return the annotated bytes of a batch: its header, and the lines around violations."""
    data = _bytes_at(path, position)
    if len(data) <= MAGIC_AT:
        return ()
    _, lines = annotate("RECORD_BATCH" if data[MAGIC_AT] == 2 else "LOG", data)
    marked = [number for number, line in enumerate(lines) if line.marks]
    wanted = {near for number in marked for near in range(number - _AROUND, number + _AROUND + 1)}
    return tuple(
        [line for number, line in enumerate(lines) if number < _HEADER_LINES or number in wanted][:_MOST_LINES]
    )


def _bytes_at(path: str, position: int) -> bytes:
    """Return the bytes of a batch; only the header if it is large or incomplete, no bytes if it is unreadable."""
    try:
        system, inner = file_system_of(path)
        window = FileWindow(path, system.get_file_info(inner).size or 0)
        try:
            end = entry_end(window, position)
            size = HEADER_SIZE if end is None or end - position > _LONGEST_SHOWN else end - position
            return window.take(position, size)
        finally:
            window.close()
    except (OSError, ValueError, pa.ArrowException):
        return b""
