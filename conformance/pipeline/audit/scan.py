"""`conformance scan`, step by step: find segments, audit them, write what was found, and say how it went."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from conformance import __version__
from conformance.cases.catalog import read_catalog
from conformance.errors import FileError
from conformance.exit_status import ExitStatus
from conformance.pipeline.audit.driver import FINDINGS, Scanned, Terms, audited, write
from conformance.pipeline.audit.findings import NOTE, UNREAD
from conformance.pipeline.audit.segments import NoSegments, Segment, find_segments
from conformance.pipeline.options import ScanOptions
from conformance.pipeline.session import session
from conformance.reports.text import printable

SHOWN = 20
"""Findings printed; all of them are in the table."""

_COUNTING = {"must": {"must"}, "should": {"must", "should"}}
_ORDER = ("must", "should", "may", "informative", UNREAD, NOTE)


def run_scan(options: ScanOptions, console: Console, errors: Console) -> ExitStatus:
    """Audit the segments under the paths and report.

    Raises FileError for paths and folders that will not do, NoJava, NoSpark or OSError.
    """
    segments = _found(options.paths)
    _check_free(options.out)
    levels = {row.id: row.level for row in read_catalog(()).requirements.values()}
    terms = Terms(levels, options.split_size, options.uncompacted)
    size = sum(one.size for one in segments)
    errors.print(f"{len(segments)} segments, {size / 1e6:,.1f} MB", markup=False)
    try:
        with session(options.spark.master, "conformance scan", options.spark.settings) as spark:
            report = _report(_written(spark, segments, terms, options.out))
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    if options.summary_file is not None:
        options.summary_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console.print(_told(report, options.out, quiet=options.quiet), crop=False)
    return _status(report, options.fail_on)


def _written(spark: SparkSession, segments: Sequence[Segment], terms: Terms, out: str) -> Scanned:
    """Audit and write. Raises FileError where Spark cannot."""
    scanned = audited(spark, segments, terms)
    try:
        write(scanned, out)
    except (PySparkException, Py4JError) as error:
        # Here, and not further out: a Java error has to ask Java what it says.
        raise FileError(out, _reason(str(error))) from None
    return scanned


def _reason(told: str) -> str:
    """The line of what Spark has to say that says why."""
    lines = [line.strip(" :") for line in told.splitlines() if line.strip(" :")]
    named = [line for line in lines if "Exception" in line or "Error" in line]
    return (named or lines or ["Spark gave no reason"])[0]


def _found(paths: Sequence[str]) -> list[Segment]:
    try:
        return find_segments(paths)
    except NoSegments as error:
        path, _, problem = str(error).rpartition(": ")
        raise FileError(path, problem) from None


def _check_free(out: str) -> None:
    """Refuse a folder that has something in it already."""
    if "://" in out:
        return
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or os.listdir(folder)):  # noqa: PTH208 - its names, not paths
        raise FileError(out, "there is something already; results go to a new or empty folder")


def _report(scanned: Scanned) -> dict[str, Any]:
    """What people and --json are told, as plain data."""
    first = scanned.findings.filter(f"level != '{NOTE}'").limit(SHOWN).select(*FINDINGS)
    return {
        "suite": {"name": "kafka-conformance", "version": __version__},
        "partitions": [row.asDict() for row in scanned.partitions.collect()],
        "summary": [row.asDict() for row in scanned.summary.collect()],
        "first": [row.asDict() for row in first.collect()],
    }


def _status(report: Mapping[str, Any], fail_on: str) -> ExitStatus:
    levels = {row["level"] for row in report["summary"]}
    if UNREAD in levels:
        return ExitStatus.WRONG_INPUT
    return ExitStatus.FAILED if levels & _COUNTING[fail_on] else ExitStatus.OK


# --- for the console ----------------------------------------------------------------------------------


def _told(report: Mapping[str, Any], out: str, *, quiet: bool) -> RenderableType:
    parts: list[RenderableType] = []
    if not quiet:
        parts += [Text(printable(_line(row)), no_wrap=True, overflow="ignore") for row in report["first"]]
        counted = sum(row["findings"] for row in report["summary"] if row["level"] != NOTE)
        if counted > len(report["first"]):
            parts.append(Text(f"and {counted - len(report['first'])} more, in {printable(out)}/findings"))
    if report["summary"]:
        parts.append(_summary_table(report["summary"]))
    parts.append(Text(_totals(report)))
    return Group(*parts)


def _line(row: Mapping[str, Any]) -> str:
    place = f"{row['path']}, byte {row['position']}"
    batch = "" if row["base_offset"] is None else f" (offset {row['base_offset']})"
    return f"{row['level']} {row['requirement']} {place}{batch}: {row['detail']}".replace("  ", " ")


def _summary_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("topic", "partition", "requirement", "level", "findings", box=None, pad_edge=False)
    for row in sorted(rows, key=lambda row: _ORDER.index(row["level"])):
        partition = "" if row["partition"] is None else str(row["partition"])
        cells = (row["topic"] or "", partition, row["requirement"], row["level"], f"{row['findings']:,}")
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _totals(report: Mapping[str, Any]) -> str:
    totals: Counter[str] = Counter()
    for row in report["partitions"]:
        totals.update({name: row[name] for name in ("segments", "bytes", "batches", "records")})
    levels: Counter[str] = Counter()
    for row in report["summary"]:
        levels[row["level"]] += row["findings"]
    read = f"{len(report['partitions'])} partitions, {totals['segments']:,} segments, {totals['bytes']:,} bytes"
    found = ", ".join(f"{levels[level]:,} {level}" for level in _ORDER if levels[level]) or "nothing found"
    return f"{read}, {totals['batches']:,} batches, {totals['records']:,} records: {found}"
