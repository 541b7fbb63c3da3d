"""`conformance scan`, step by step: find segments, audit them on Spark, write tables, report. Needs pyspark, pyarrow.

The steps that need Spark stand here and in `job`; what the report says is in `summary`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from conformance.cases.catalog import read_catalog
from conformance.errors import ConformanceError, FileError, MachineError
from conformance.exit_status import ExitStatus
from conformance.pipeline.audit.findings import NOTE
from conformance.pipeline.audit.job import FINDINGS, TABLES, AuditRules, AuditTables, audit, write
from conformance.pipeline.audit.segments import Segment, find_segments
from conformance.pipeline.audit.summary import SHOWN, SUITE, ScanReport, as_text, exit_status
from conformance.pipeline.options import ScanOptions
from conformance.pipeline.session import has_ended, session
from conformance.safety.files import Outputs, check_folder, check_writable


def run_scan(options: ScanOptions, console: Console, errors: Console) -> ExitStatus:
    """Audit the segments under paths and report.

    Raises FileError for paths and folders that cannot be used, NoJava, NoSpark or OSError.
    """
    segments = find_segments(options.paths)
    _check_unused(options.out)
    _check_outputs(options)
    levels = {row.id: row.level for row in read_catalog(()).requirements.values()}
    rules = AuditRules(levels, options.split_size, options.uncompacted)
    size = sum(segment.size for segment in segments)
    errors.print(f"{len(segments)} segments, {size / 1e6:,.1f} MB", markup=False)
    try:
        with session(options.spark, "conformance scan") as spark:
            try:
                report = _report(_audit_and_write(spark, segments, rules, options.out))
            except (PySparkException, Py4JError, ConnectionError) as error:
                raise _stopped(error, options.out) from None
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    outputs = Outputs()
    if options.summary_file is not None:
        outputs.write(options.summary_file, [json.dumps(report, indent=1) + "\n"])
    console.print(as_text(report, options.out, quiet=options.quiet), crop=False)
    for problem in outputs.problems:
        errors.print(f"conformance: {problem}", markup=False, soft_wrap=True)
    return ExitStatus.WRONG_INPUT if outputs.problems else exit_status(report, options.fail_on)


def _check_unused(out: str) -> None:
    """Refuse a folder that holds something already. Raises FileError."""
    if "://" in out:
        return
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or os.listdir(folder)):  # noqa: PTH208 - its names, not paths
        raise FileError(out, "there is something already; expected a new or an empty folder")


def _check_outputs(options: ScanOptions) -> None:
    """Try what is written at the end, but for what a URI names. Raises OSError."""
    if options.summary_file is not None:
        check_writable([options.summary_file])
    if "://" not in options.out:
        check_folder(Path(options.out))  # last: it makes the folder


def _audit_and_write(spark: SparkSession, segments: Sequence[Segment], rules: AuditRules, out: str) -> AuditTables:
    """The tables of an audit, written below `out`."""
    tables = audit(spark, segments, rules)
    write(tables, out)
    return tables


def _stopped(error: Exception, out: str) -> ConformanceError:
    """Why there is no report. What was written is removed where it can be, so that the same command begins again."""
    if "://" not in out:
        for table in TABLES:
            shutil.rmtree(Path(out) / table, ignore_errors=True)
    if has_ended(error):
        return MachineError("Spark stopped: its Java has ended (the same command begins again)")
    # The text of such an error comes from Java, so it must be asked for while Java is there.
    return FileError(out, _reason(str(error)))


def _reason(text: str) -> str:
    """The line of Spark's message that says what is wrong."""
    lines = [line.strip(" :") for line in text.splitlines() if line.strip(" :")]
    errors = [line for line in lines if "Exception" in line or "Error" in line]
    return (errors or lines or ["Spark gave no reason"])[0]


def _report(tables: AuditTables) -> ScanReport:
    first = tables.findings.filter(f"level != '{NOTE}'").limit(SHOWN).select(*FINDINGS)
    rows = {"partitions": _rows(tables.partitions), "summary": _rows(tables.summary), "first": _rows(first)}
    return msgspec.convert({"suite": SUITE, **rows}, ScanReport)


def _rows(frame: DataFrame) -> list[dict[str, object]]:
    return [row.asDict() for row in frame.collect()]
