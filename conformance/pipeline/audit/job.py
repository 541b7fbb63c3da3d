"""The work of an audit on Spark: segments to parts, parts to findings, findings to tables. Needs pyspark, pyarrow.

A row for each segment becomes a row for each part of it. Each part is audited on its own; what the parts of a partition
leave to one another is checked in a second, small step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from conformance.pipeline.audit.batches import PartAudit
from conformance.pipeline.audit.boundaries import parts_of
from conformance.pipeline.audit.findings import AuditFinding
from conformance.pipeline.audit.part_state import PartState
from conformance.pipeline.audit.partition_rules import check_partition
from conformance.pipeline.audit.segments import Part, Segment

SPLIT_SIZE = 256 << 20
"""Bytes of a part, where a segment is larger."""

_Row = Mapping[str, object]
"""A row of an Arrow table."""

_TEXT, _LONG = pa.string(), pa.int64()
_DDL: dict[pa.DataType, str] = {
    _TEXT: "string",
    _LONG: "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
}
_PLACE: dict[str, pa.DataType] = {"topic": _TEXT, "partition": pa.int32(), "directory": _TEXT, "path": _TEXT}
_SEGMENT: dict[str, pa.DataType] = {**_PLACE, "base_offset": _LONG, "size": _LONG, "is_last": pa.bool_()}
_SEGMENT["problem"] = _TEXT
_SEGMENTS = pa.schema(_SEGMENT)
_PARTS = pa.schema({**_SEGMENT, "start": _LONG, "stop": _LONG})
_FINDING: dict[str, pa.DataType] = {
    "position": _LONG,
    "base_offset": _LONG,
    "requirement": _TEXT,
    "level": _TEXT,
    "detail": _TEXT,
}
_AUDITED = pa.schema({**_PLACE, **_FINDING, "part_state": pa.binary()})
"""A finding, or, after the findings of a part, its state."""
_COUNTED = ("bytes", "batches", "records")
_TOTALS = pa.schema({**_PLACE, **dict.fromkeys(_COUNTED, _LONG)})

FINDINGS = ("topic", "partition", "path", "position", "base_offset", "requirement", "level", "detail")
"""The columns of the findings."""

TABLES = ("findings", "partitions", "summary")
"""What is written of AuditTables, a folder each."""

_FINDINGS_AT_ONCE = 4096
"""Findings handed to Spark at a time."""

_MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class AuditRules:
    """What an audit has to know beside the segments."""

    levels: Mapping[str, str]
    """Requirements to levels."""
    split_size: int = SPLIT_SIZE
    """Bytes."""
    uncompacted: tuple[str, ...] = ()
    """Globs over topics that were never compacted."""


@dataclass(frozen=True, slots=True)
class AuditTables:
    """What an audit found. The frames live as long as their session."""

    findings: DataFrame
    """FINDINGS, by path and position."""
    partitions: DataFrame
    """What was read of each partition: topic, partition, directory, segments, bytes, batches, records."""
    summary: DataFrame
    """How many findings by topic, partition, requirement and level."""


def audit(spark: SparkSession, segments: Sequence[Segment], rules: AuditRules) -> AuditTables:
    """Audit segments; findings stay on the executors that made them until they are written."""
    cores = spark.sparkContext.defaultParallelism
    table = pa.Table.from_pylist([asdict(segment) for segment in segments], _SEGMENTS)
    given = spark.createDataFrame(table).repartition(min(len(segments), 2 * cores))
    parts = given.mapInArrow(partial(_parts, size=rules.split_size), _ddl(_PARTS))
    # Small segments share a task, large ones have several.
    tasks = max(2 * cores, min(sum(segment.size for segment in segments) // rules.split_size, _MOST_TASKS))
    audited = parts.repartition(tasks).mapInArrow(partial(_audited, levels=dict(rules.levels)), _ddl(_AUDITED))
    audited = audited.persist(StorageLevel.DISK_ONLY)
    states = audited.filter(sf.col("part_state").isNotNull())
    between = states.groupBy("directory").applyInArrow(_partition_checker(rules.uncompacted), _ddl(_AUDITED))
    findings = audited.filter(sf.col("part_state").isNull()).union(between)
    findings = findings.select(*FINDINGS).orderBy("path", "position").persist(StorageLevel.DISK_ONLY)
    return AuditTables(findings, _partitions(states), _summary(findings))


def _ddl(schema: pa.Schema) -> str:
    """A schema in the form that Spark takes."""
    return ", ".join(f"{field.name} {_DDL[field.type]}" for field in schema)


def _partitions(states: DataFrame) -> DataFrame:
    sums = [sf.sum(name).alias(name) for name in _COUNTED]
    counted = states.mapInArrow(_totals, _ddl(_TOTALS)).groupBy("topic", "partition", "directory")
    return counted.agg(sf.countDistinct("path").alias("segments"), *sums).orderBy("directory")


def _summary(findings: DataFrame) -> DataFrame:
    by = ("topic", "partition", "requirement", "level")
    return findings.groupBy(*by).agg(sf.count("*").alias("findings")).orderBy(*by)


# --- on the executors ---------------------------------------------------------------------------------


def _segment_of(row: _Row) -> Segment:
    return msgspec.convert({field.name: row[field.name] for field in fields(Segment)}, Segment)


def _parts(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Segments to parts; one that cannot be read stays whole, so that the audit reports it."""
    for batch in batches:
        for row in batch.to_pylist():
            segment = _segment_of(row)
            try:
                parts = list(parts_of(segment, size))
            except OSError:
                parts = [Part(segment, 0, segment.size)]
            yield pa.RecordBatch.from_pylist([{**row, "start": one.start, "stop": one.stop} for one in parts], _PARTS)


def _audited(batches: Iterator[pa.RecordBatch], levels: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Parts to findings, and after those of a part its state."""
    for batch in batches:
        for row in batch.to_pylist():
            audit = PartAudit(Part(_segment_of(row), row["start"], row["stop"]), levels)
            yield from _finding_rows(audit.findings(), row)
            state = msgspec.msgpack.encode(audit.rules.finish())
            yield pa.RecordBatch.from_pylist([{**_place(row), "part_state": state}], _AUDITED)


def _place(row: _Row) -> dict[str, object]:
    return {name: row[name] for name in _PLACE}


def _finding_rows(findings: Iterator[AuditFinding], row: _Row) -> Iterator[pa.RecordBatch]:
    place = _place(row)
    while rows := [{**place, **finding._asdict()} for finding in islice(findings, _FINDINGS_AT_ONCE)]:
        yield pa.RecordBatch.from_pylist(rows, _AUDITED)


def _partition_checker(uncompacted: Sequence[str]) -> Callable[[pa.Table], pa.Table]:
    """A function from the states of the parts of one partition, a row each, to the findings between them."""

    def check(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        place = _place(rows[0])
        is_uncompacted = any(fnmatchcase(rows[0]["topic"] or "", pattern) for pattern in uncompacted)
        findings = check_partition([_state_of(row["part_state"]) for row in rows], uncompacted=is_uncompacted)
        return pa.Table.from_pylist([{**place, **finding._asdict()} for finding in findings], _AUDITED)

    return check


def _state_of(encoded: bytes) -> PartState:
    return msgspec.msgpack.decode(encoded, type=PartState)


def _totals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            state = _state_of(row["part_state"])
            counts = {"bytes": state.stop - state.start, "batches": state.batches, "records": state.records}
            rows.append({**_place(row), **counts})
        yield pa.RecordBatch.from_pylist(rows, _TOTALS)


# --- files --------------------------------------------------------------------------------------------


def write(tables: AuditTables, out: str) -> None:
    """Write findings, partitions and summary as Parquet below a folder or URI, where none of them is yet."""
    base = out if "://" in out else Path(out).resolve().as_uri()
    for name in TABLES:
        getattr(tables, name).write.parquet(f"{base}/{name}")
