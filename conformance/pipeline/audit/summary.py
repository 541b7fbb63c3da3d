"""The report of a scan: as data, as console text, and as exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec
from msgspec import Struct
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from conformance import __version__
from conformance.errors import ExitStatus
from conformance.pipeline.audit.part_state import NOTE, UNREAD, LogStatistics
from conformance.reports.hex_view import printable

SHOWN = 20
"""Findings in a report; the table of findings contains all."""

_COUNTING = {"must": {"must"}, "should": {"must", "should"}}
_ORDER = ("must", "should", "may", "informative", UNREAD, NOTE)


class Suite(TypedDict):
    """The suite that wrote the report."""

    name: str
    version: str


class PartitionRow(TypedDict):
    """The counts of a partition."""

    topic: str | None
    partition: int | None
    directory: str
    segments: int
    bytes: int
    batches: int
    records: int


class SummaryRow(TypedDict):
    """The number of findings of one kind."""

    topic: str | None
    partition: int | None
    requirement: str
    level: str
    findings: int


class FindingRow(TypedDict):
    """A finding: a row of the table of findings."""

    topic: str | None
    partition: int | None
    path: str
    position: int
    base_offset: int | None
    requirement: str
    level: str
    detail: str


class ScanReport(TypedDict):
    """The report that `--json` writes and the console shows."""

    suite: Suite
    partitions: list[PartitionRow]
    summary: list[SummaryRow]
    first: list[FindingRow]
    """The first findings that are not notes, SHOWN at most."""


SUITE = Suite(name="kafka-conformance", version=__version__)

_Rows = Sequence[Mapping[str, object]]


ON_PAGE = 200
"""Findings on the page."""


class ScanResult(Struct, frozen=True):
    """The results of a scan besides its tables."""

    report: ScanReport
    findings: Sequence[FindingRow]
    """The first findings that are not notes, ON_PAGE at most."""
    logs: Sequence[LogStatistics]
    """The statistics of the logs; empty without a page."""


def scanned(partitions: _Rows, summary: _Rows, first: _Rows, logs: Sequence[LogStatistics]) -> ScanResult:
    """Return the result for the rows of the tables; `first` has at most ON_PAGE findings."""
    rows = {"partitions": partitions, "summary": summary, "first": first[:SHOWN]}
    report = msgspec.convert({"suite": SUITE, **rows}, ScanReport)
    return ScanResult(report, msgspec.convert(first, list[FindingRow]), logs)


def exit_status(report: ScanReport, fail_on: str) -> ExitStatus:
    """Return the exit status; an unread file has precedence over findings."""
    levels = {row["level"] for row in report["summary"]}
    if UNREAD in levels:
        return ExitStatus.WRONG_INPUT
    return ExitStatus.FAILED if levels & _COUNTING[fail_on] else ExitStatus.OK


def as_text(report: ScanReport, out: str, *, quiet: bool) -> RenderableType:
    """Return the report for the console; `out` is the folder of the tables, `quiet` omits the findings."""
    parts: list[RenderableType] = []
    if not quiet:
        parts += [Text(printable(_line(row)), no_wrap=True, overflow="ignore") for row in report["first"]]
        more = sum(row["findings"] for row in report["summary"] if row["level"] != NOTE) - len(report["first"])
        if more > 0:
            parts.append(Text(f"and {more} more in {printable(out)}/findings"))
    if report["summary"]:
        parts.append(_table(report["summary"]))
    parts.append(Text(_totals(report)))
    return Group(*parts)


def _line(row: FindingRow) -> str:
    place = f"{row['path']}, byte {row['position']}"
    batch = "" if row["base_offset"] is None else f" (offset {row['base_offset']})"
    return f"{row['level']} {row['requirement']} {place}{batch}: {row['detail']}".replace("  ", " ")


def _table(rows: Sequence[SummaryRow]) -> Table:
    table = Table("topic", "partition", "requirement", "level", "findings", box=None, pad_edge=False)
    for row in sorted(rows, key=lambda row: _ORDER.index(row["level"])):
        partition = "" if row["partition"] is None else str(row["partition"])
        cells = (row["topic"] or "", partition, row["requirement"], row["level"], f"{row['findings']:,}")
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _totals(report: ScanReport) -> str:
    partitions = report["partitions"]
    levels: Counter[str] = Counter()
    for row in report["summary"]:
        levels[row["level"]] += row["findings"]
    counts = [
        f"{len(partitions)} partitions",
        f"{sum(row['segments'] for row in partitions):,} segments",
        f"{sum(row['bytes'] for row in partitions):,} bytes",
        f"{sum(row['batches'] for row in partitions):,} batches",
        f"{sum(row['records'] for row in partitions):,} records",
    ]
    findings = ", ".join(f"{levels[level]:,} {level}" for level in _ORDER if levels[level]) or "no findings"
    return f"{', '.join(counts)}: {findings}"
