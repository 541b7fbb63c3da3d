"""`conformance scan`: the segments of logs audited on Spark, findings as Parquet, a summary for people.

A row a segment becomes a row a part of one (cut where batches begin), each part is audited on its own, and what the
parts of a partition leave to one another is settled in a second, small step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from conformance.pipeline.audit.batches import scan
from conformance.pipeline.audit.findings import Finding, Piece
from conformance.pipeline.audit.ledger import settle
from conformance.pipeline.audit.segments import Segment, Split, splits

SPLIT = 256
"""MiB of a segment that are one piece of work, where it is larger."""

_TEXT, _LONG = pa.string(), pa.int64()
_DDL: dict[pa.DataType, str] = {
    _TEXT: "string",
    _LONG: "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
}
_SEGMENT: dict[str, pa.DataType] = {
    "path": _TEXT,
    "directory": _TEXT,
    "topic": _TEXT,
    "partition": pa.int32(),
    "base_offset": _LONG,
    "size": _LONG,
    "is_last": pa.bool_(),
}
_PART: dict[str, pa.DataType] = {**_SEGMENT, "start": _LONG, "stop": _LONG}
_SPLIT = pa.schema(_PART)
_COLUMNS: dict[str, pa.DataType] = {
    "topic": _TEXT,
    "partition": pa.int32(),
    "directory": _TEXT,
    "path": _TEXT,
    "position": _LONG,
    "base_offset": _LONG,
    "requirement": _TEXT,
    "level": _TEXT,
    "detail": _TEXT,
    "piece": pa.binary(),
}
_ROW = pa.schema(_COLUMNS)
"""A finding, or, at the end of a part, what it leaves behind."""

FINDINGS = ("topic", "partition", "path", "position", "base_offset", "requirement", "level", "detail")
"""The columns of the findings."""

_MANY = 4096
"""Findings handed to Spark at a time."""

_MOST_TASKS = 10_000


class Terms(NamedTuple):
    """What an audit is told beside where to look."""

    levels: Mapping[str, str]
    """Requirements to levels."""
    split_size: int = SPLIT << 20
    """Bytes."""
    uncompacted: tuple[str, ...] = ()
    """Globs over topics that never were compacted."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What an audit found. The frames live as long as their session."""

    findings: DataFrame
    """FINDINGS, by path and position."""
    partitions: DataFrame
    """What was read of each partition: topic, partition, directory, segments, bytes, batches, records."""
    summary: DataFrame
    """How many findings by topic, partition, requirement and level."""


def audited(spark: SparkSession, segments: Sequence[Segment], terms: Terms) -> Scanned:
    """Audit segments; what is found stays where it was computed until it is written."""
    cores = spark.sparkContext.defaultParallelism
    table = pa.Table.from_pylist([asdict(one) for one in segments], pa.schema(_SEGMENT))
    given = spark.createDataFrame(table).repartition(min(len(segments), 2 * cores))
    cut = given.mapInArrow(partial(_cut, size=terms.split_size), _ddl(_SPLIT))
    # Small segments share a task, large ones have several.
    tasks = max(2 * cores, min(sum(one.size for one in segments) // terms.split_size, _MOST_TASKS))
    rows = cut.repartition(tasks).mapInArrow(partial(_audited, levels=dict(terms.levels)), _ddl(_ROW))
    rows = rows.persist(StorageLevel.DISK_ONLY)
    pieces = rows.filter(sf.col("piece").isNotNull())
    settled = pieces.groupBy("directory").applyInArrow(_settling(terms.uncompacted), _ddl(_ROW))
    found = rows.filter(sf.col("piece").isNull()).union(settled).select(*FINDINGS).orderBy("path", "position")
    found = found.persist(StorageLevel.DISK_ONLY)
    return Scanned(found, _partitions(pieces), _summary(found))


def _ddl(schema: pa.Schema) -> str:
    """A schema as Spark takes it."""
    return ", ".join(f"{field.name} {_DDL[field.type]}" for field in schema)


def _partitions(pieces: DataFrame) -> DataFrame:
    totals = "topic string, partition int, directory string, path string, bytes bigint, batches bigint, records bigint"
    sums = [sf.sum(name).alias(name) for name in ("bytes", "batches", "records")]
    counted = pieces.mapInArrow(_totals, totals).groupBy("topic", "partition", "directory")
    return counted.agg(sf.countDistinct("path").alias("segments"), *sums).orderBy("directory")


def _summary(found: DataFrame) -> DataFrame:
    by = ("topic", "partition", "requirement", "level")
    return found.groupBy(*by).agg(sf.count("*").alias("findings")).orderBy(*by)


# --- on the executors ---------------------------------------------------------------------------------


def _segment_of(row: Mapping[str, Any]) -> Segment:
    return Segment(**{field.name: row[field.name] for field in fields(Segment)})


def _cut(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Segments to parts; one that cannot be read stays whole, for the audit to say so."""
    for batch in batches:
        for row in batch.to_pylist():
            segment = _segment_of(row)
            try:
                parts = list(splits(segment, size))
            except OSError:
                parts = [Split(segment, 0, segment.size)]
            yield pa.RecordBatch.from_pylist([{**row, "start": one.start, "stop": one.stop} for one in parts], _SPLIT)


def _audited(batches: Iterator[pa.RecordBatch], levels: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Parts to findings, and what each leaves behind."""
    for batch in batches:
        for row in batch.to_pylist():
            found, ledger = scan(Split(_segment_of(row), row["start"], row["stop"]), levels)
            yield from _rows(found, row)
            piece = msgspec.msgpack.encode(ledger.done())
            yield pa.RecordBatch.from_pylist([{**_place(row), "piece": piece}], _ROW)


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("topic", "partition", "directory", "path")}


def _rows(found: Iterator[Finding], row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    held: list[dict[str, Any]] = []
    for finding in found:
        held.append({**_place(row), **finding._asdict()})
        if len(held) == _MANY:
            yield pa.RecordBatch.from_pylist(held, _ROW)
            held = []
    if held:
        yield pa.RecordBatch.from_pylist(held, _ROW)


def _settling(uncompacted: Sequence[str]) -> Callable[[pa.Table], pa.Table]:
    """What is found between the pieces of one partition, of which the table holds a row each."""

    def settled(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        place = _place(rows[0])
        pieces = [msgspec.msgpack.decode(row["piece"], type=Piece) for row in rows]
        never = any(fnmatchcase(place["topic"] or "", pattern) for pattern in uncompacted)
        found = [{**place, **one._asdict()} for one in settle(pieces, uncompacted=never)]
        return pa.Table.from_pylist(found, _ROW)

    return settled


def _totals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            piece = msgspec.msgpack.decode(row["piece"], type=Piece)
            counts = {"bytes": piece.stop - piece.start, "batches": piece.batches, "records": piece.records}
            rows.append({**_place(row), **counts})
        schema = pa.schema([*(_ROW.field(name) for name in ("topic", "partition", "directory", "path"))])
        for name in ("bytes", "batches", "records"):
            schema = schema.append(pa.field(name, _LONG))
        yield pa.RecordBatch.from_pylist(rows, schema)


# --- on paper -----------------------------------------------------------------------------------------


def write(scanned: Scanned, out: str) -> None:
    """Write findings, partitions and summary as Parquet below a folder or URI, where none of them is yet."""
    base = out if "://" in out else Path(out).resolve().as_uri()
    scanned.findings.write.parquet(f"{base}/findings")
    scanned.partitions.write.parquet(f"{base}/partitions")
    scanned.summary.write.parquet(f"{base}/summary")
