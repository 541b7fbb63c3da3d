"""An audit of small logs in this process, one part after the other. Needs pyarrow.

It takes less time than the start of Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from conformance.files.atomic import replacing
from conformance.pipeline.audit import table_steps
from conformance.pipeline.audit.part_state import NOTE
from conformance.pipeline.audit.segments import Segment
from conformance.pipeline.audit.summary import ON_PAGE, ScanResult, scanned
from conformance.pipeline.audit.table_steps import (
    AUDITED,
    COUNTED,
    FINDINGS,
    ORDER,
    SUMMED_BY,
    TABLES,
    TOTALS,
    remove_tables,
)

MOST_BYTES = table_steps.SPLIT_SIZE
"""The largest total size of segments that is audited here without an option for Spark.

This is one part of a segment, which Spark would also give to a single core.
"""

_FOUND = pa.schema([AUDITED.field(name) for name in FINDINGS])
_HOW_MANY = pa.field("findings", pa.int64())


_ROWS_AT_ONCE = 1 << 14
"""Findings that are sorted and written at a time."""


class LocalAuditTables(Struct, frozen=True):
    """The results of an audit: tables with the same columns as those of Spark."""

    found: pa.Table
    """The findings, not sorted."""
    order: pa.UInt64Array
    """The indexes of the rows of `found` in sorted order."""
    partitions: pa.Table
    summary: pa.Table
    states: pa.Table
    """The states of the parts."""

    @property
    def logs(self) -> Iterator[pa.Table]:
        """Yield the statistics of each directory."""
        return map(table_steps.to_log, _directories(self.states))

    @property
    def findings(self) -> Iterator[pa.Table]:
        """Yield the sorted findings in small tables: one table could be as large as the segments."""
        for start in range(0, len(self.order), _ROWS_AT_ONCE):
            yield self.found.take(self.order.slice(start, _ROWS_AT_ONCE))

    @property
    def first(self) -> list[dict[str, object]]:
        """Return the first findings, for the report."""
        shown = (row for rows in self.findings for row in rows.filter(pc.field("level") != NOTE).to_pylist())
        return list(islice(shown, ON_PAGE))


def scan(
    segments: Sequence[Segment], rules: table_steps.AuditSettings, out: Path, *, with_logs: bool = False
) -> ScanResult:
    """Audit segments and write the tables below `out`. Raises OSError or KeyboardInterrupt."""
    tables = audit(segments, rules)
    write(tables, out)
    logs = table_steps.logs_of(row["log"] for log in tables.logs for row in log.to_pylist()) if with_logs else []
    return scanned(tables.partitions.to_pylist(), tables.summary.to_pylist(), tables.first, logs)


def audit(segments: Sequence[Segment], rules: table_steps.AuditSettings) -> LocalAuditTables:
    """Audit segments; the findings are in a deleted file, which ends with the process. Raises OSError."""
    states: list[pa.RecordBatch] = []
    found = _on_disk(_found(segments, rules, states))
    order = pc.sort_indices(found, [(name, "ascending") for name in ORDER])
    return LocalAuditTables(found, order, _partitions(states), _summary(found), pa.Table.from_batches(states, AUDITED))


def _found(
    segments: Sequence[Segment], rules: table_steps.AuditSettings, states: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the findings within parts, then those between parts; add the states of the parts to `states`."""
    parts = table_steps.to_parts(iter(table_steps.from_segments(segments).to_batches()), rules.split_size)
    for batch in table_steps.to_findings(parts, rules.levels):
        if batch["part_state"].null_count:
            yield batch.select(FINDINGS)
        else:
            states.append(batch)
    check = table_steps.partition_checker(rules.never_compacted)
    for group in _directories(pa.Table.from_batches(states, AUDITED)):
        yield from check(group).select(FINDINGS).to_batches()


def _on_disk(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Return the rows of findings as a memory-mapped table: they may not fit into memory. Raises OSError."""
    with tempfile.NamedTemporaryFile(prefix="conformance-scan-") as file:
        with pa.ipc.new_file(file.name, _FOUND) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()


def _directories(states: pa.Table) -> Iterator[pa.Table]:
    """Yield the states of the parts of each directory."""
    states = states.sort_by("directory")
    start = 0
    for _, rows in groupby(states["directory"].to_pylist()):
        count = len(list(rows))
        yield states.slice(start, count)
        start += count


def _partitions(states: Sequence[pa.RecordBatch]) -> pa.Table:
    totals = pa.Table.from_batches(table_steps.to_totals(iter(states)), TOTALS)
    counted = totals.group_by(["topic", "partition", "directory"]).aggregate(
        [("path", "count_distinct"), ("bytes", "sum"), ("batches", "sum"), ("records", "sum")]
    )
    return counted.rename_columns(["topic", "partition", "directory", "segments", *COUNTED]).sort_by("directory")


def _summary(findings: pa.Table) -> pa.Table:
    counted = findings.group_by(list(SUMMED_BY)).aggregate([([], "count_all")])
    rows = counted.rename_columns([*SUMMED_BY, "findings"]).to_pylist()
    rows.sort(key=lambda row: [(row[name] is not None, row[name]) for name in SUMMED_BY])  # null first, as in Spark
    return pa.Table.from_pylist(rows, pa.schema([*(_FOUND.field(name) for name in SUMMED_BY), _HOW_MANY]))


def write(tables: LocalAuditTables, out: Path) -> None:
    """Write findings, partitions and summary as new Parquet files below a folder: all or none. Raises OSError."""
    rows = {"findings": tables.findings, "partitions": [tables.partitions], "summary": [tables.summary]}
    try:
        for name, schema in zip(TABLES, (_FOUND, tables.partitions.schema, tables.summary.schema), strict=True):
            (out / name).mkdir()
            with (
                replacing(out / name / "part-00000.snappy.parquet") as stream,
                pq.ParquetWriter(stream, schema, compression="snappy") as writer,
            ):
                for table in rows[name]:
                    writer.write_table(table)
    except BaseException:
        remove_tables(out)
        raise
