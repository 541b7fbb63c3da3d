"""An audit on Spark: executors run its steps and write its tables. Needs pyspark, pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from msgspec import Struct
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from conformance.errors import ConformanceError, FileError, MachineError
from conformance.pipeline.audit import table_steps
from conformance.pipeline.audit.part_state import NOTE
from conformance.pipeline.audit.segments import Segment
from conformance.pipeline.audit.summary import ON_PAGE, ScanResult, scanned
from conformance.pipeline.audit.table_steps import AUDITED, COUNTED, FINDINGS, ORDER, PARTS, SUMMED_BY, TABLES, TOTALS
from conformance.pipeline.options import SparkOptions
from conformance.pipeline.spark_session import has_ended, run_in_thread, session

_DDL: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
}

_MOST_TASKS = 10_000


class SparkAuditTables(Struct, frozen=True):
    """The results of an audit. The data frames end with their session."""

    findings: DataFrame
    """The columns FINDINGS, by path and position."""
    partitions: DataFrame
    """The counts of each partition: topic, partition, directory, segments, bytes, batches, records."""
    summary: DataFrame
    """The number of findings by topic, partition, requirement and level."""

    states: DataFrame
    """The states of the parts."""

    @property
    def logs(self) -> DataFrame:
        """Return the statistics of each directory."""
        return self.states.groupBy("directory").applyInArrow(table_steps.to_log, _ddl(table_steps.LOGS))

    @property
    def first(self) -> DataFrame:
        """Return the first findings, for the report."""
        return self.findings.filter(f"level != '{NOTE}'").limit(ON_PAGE)


def scan(
    segments: Sequence[Segment],
    rules: table_steps.AuditSettings,
    out: str,
    options: SparkOptions,
    *,
    with_logs: bool = False,
) -> ScanResult:
    """Audit segments and write the tables below `out`.

    Raises FileError, MachineError (JavaNotFound, SparkNotAvailable), OSError or KeyboardInterrupt.
    """
    with session(options, "conformance scan") as spark:
        try:
            return run_in_thread(spark, lambda: _scan(spark, segments, rules, out, with_logs=with_logs))
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise _stopped(error, out) from None


def _scan(
    spark: SparkSession, segments: Sequence[Segment], rules: table_steps.AuditSettings, out: str, *, with_logs: bool
) -> ScanResult:
    tables = audit(spark, segments, rules)
    write(tables, out)
    logs = table_steps.logs_of(row["log"] for row in tables.logs.collect()) if with_logs else []
    return scanned(_rows(tables.partitions), _rows(tables.summary), _rows(tables.first), logs)


def _rows(frame: DataFrame) -> list[dict[str, object]]:
    return [row.asDict() for row in frame.collect()]


def audit(spark: SparkSession, segments: Sequence[Segment], rules: table_steps.AuditSettings) -> SparkAuditTables:
    """Audit segments; the findings stay on their executors until they are written."""
    cores = spark.sparkContext.defaultParallelism
    table = table_steps.from_segments(segments)
    given = spark.createDataFrame(table).repartition(min(len(segments), 2 * cores))
    parts = given.mapInArrow(partial(table_steps.to_parts, size=rules.split_size), _ddl(PARTS))
    # Small segments share a task; a large segment has several tasks.
    tasks = max(2 * cores, min(sum(segment.size for segment in segments) // rules.split_size, _MOST_TASKS))
    audited = parts.repartition(tasks).mapInArrow(
        partial(table_steps.to_findings, levels=dict(rules.levels)), _ddl(AUDITED)
    )
    audited = audited.persist(StorageLevel.DISK_ONLY)
    states = audited.filter(sf.col("part_state").isNotNull())
    between = states.groupBy("directory").applyInArrow(
        table_steps.partition_checker(rules.never_compacted), _ddl(AUDITED)
    )
    findings = audited.filter(sf.col("part_state").isNull()).union(between)
    findings = findings.select(*FINDINGS).orderBy(*ORDER).persist(StorageLevel.DISK_ONLY)
    return SparkAuditTables(findings, _partitions(states), _summary(findings), states)


def _ddl(schema: pa.Schema) -> str:
    """Return a schema as DDL text of Spark."""
    return ", ".join(f"{field.name} {_DDL[field.type]}" for field in schema)


def _partitions(states: DataFrame) -> DataFrame:
    sums = [sf.sum(name).alias(name) for name in COUNTED]
    counted = states.mapInArrow(table_steps.to_totals, _ddl(TOTALS)).groupBy("topic", "partition", "directory")
    return counted.agg(sf.countDistinct("path").alias("segments"), *sums).orderBy("directory")


def _summary(findings: DataFrame) -> DataFrame:
    return findings.groupBy(*SUMMED_BY).agg(sf.count("*").alias("findings")).orderBy(*SUMMED_BY)


# --- files --------------------------------------------------------------------------------------------


def write(tables: SparkAuditTables, out: str) -> None:
    """Write findings, partitions and summary as new Parquet folders below a folder or URI."""
    base = out if "://" in out else Path(out).resolve().as_uri()
    for name in TABLES:
        getattr(tables, name).write.parquet(f"{base}/{name}")


# --- when Spark stops ----------------------------------------------------------------------------------


def _stopped(error: Exception, out: str) -> ConformanceError:
    """Return the error of a failed audit. Local tables are removed, so that the same command can start again."""
    if "://" not in out:
        table_steps.remove_tables(Path(out))
    if has_ended(error):
        return MachineError("Spark stopped: its Java has ended (repeat the command to start again)")
    # str(error) calls Java, so it works only while the Java runs.
    return FileError(out, _reason(str(error)))


def _reason(text: str) -> str:
    """Return the line of Spark's message with the reason."""
    lines = [line.strip(" :") for line in text.splitlines() if line.strip(" :")]
    errors = [line for line in lines if "Exception" in line or "Error" in line]
    return (errors or lines or ["Spark gave no reason"])[0]
