"""`conformance scan`, step by step: find segments, audit them, write tables, report. Needs pyarrow.

Small logs are audited in this process (`local_runner`), others on Spark (`spark_runner`); `summary` makes the report.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from conformance.catalog.catalog_builder import read_catalog
from conformance.errors import ExitStatus, FileError
from conformance.files.atomic import OutputFiles, check_folder, check_writable
from conformance.pipeline.audit import local_runner
from conformance.pipeline.audit.html_page import render
from conformance.pipeline.audit.segments import Segment, find_segments
from conformance.pipeline.audit.summary import ScanResult, as_text, exit_status
from conformance.pipeline.audit.table_steps import AuditSettings, remove_tables
from conformance.pipeline.options import ScanOptions, require


def run_scan(options: ScanOptions, console: Console, errors: Console) -> ExitStatus:
    """Audit the segments under paths and report.

    Raises FileError for a wrong path or folder, MachineError (JavaNotFound, SparkNotAvailable) or OSError.
    """
    segments = find_segments(options.paths)
    size = sum(segment.size for segment in segments)
    use_spark = _is_for_spark(options, size)
    if use_spark:
        require(
            "spark",
            "pyspark",
            why=f" ({size / 1e6:,.1f} MB; without Spark the limit is {local_runner.MOST_BYTES / 1e6:.0f} MB)",
        )
    _check_unused(options.out)
    _check_outputs(options)
    requirements = read_catalog(()).requirements
    levels = {row.id: row.level for row in requirements.values()}
    rules = AuditSettings(levels, options.split_size, options.never_compacted)
    errors.print(f"{len(segments)} segments, {size / 1e6:,.1f} MB", markup=False)
    try:
        done = (_on_spark if use_spark else _here)(segments, rules, options)
    except KeyboardInterrupt:
        if "://" not in options.out:
            remove_tables(Path(options.out))
        return ExitStatus.INTERRUPTED
    outputs = OutputFiles()
    if options.summary_file is not None:
        outputs.write(options.summary_file, [json.dumps(done.report, indent=1) + "\n"])
    if options.page_file is not None:
        outputs.write(options.page_file, render(done, requirements))
    console.print(as_text(done.report, options.out, quiet=options.quiet), crop=False)
    for problem in outputs.problems:
        errors.print(f"conformance: {problem}", markup=False, soft_wrap=True)
    return ExitStatus.WRONG_INPUT if outputs.problems else exit_status(done.report, options.fail_on)


def _is_for_spark(options: ScanOptions, size: int) -> bool:
    """Return whether the audit runs on Spark: by option, for a URI as output, or for too many bytes."""
    return options.spark.is_requested or "://" in options.out or size > local_runner.MOST_BYTES


def _on_spark(segments: Sequence[Segment], rules: AuditSettings, options: ScanOptions) -> ScanResult:
    from conformance.pipeline.audit import spark_runner

    return spark_runner.scan(segments, rules, options.out, options.spark, with_logs=options.page_file is not None)


def _here(segments: Sequence[Segment], rules: AuditSettings, options: ScanOptions) -> ScanResult:
    return local_runner.scan(segments, rules, Path(options.out), with_logs=options.page_file is not None)


def _check_unused(out: str) -> None:
    """Raise FileError for an output folder that is not empty."""
    if "://" in out:
        return
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or os.listdir(folder)):  # noqa: PTH208 - its names, not paths
        found = "a folder that is not empty" if folder.is_dir() else "a file"
        raise FileError(out, f"expected a new or empty folder, found {found}")


def _check_outputs(options: ScanOptions) -> None:
    """Check that the output files and the local output folder are writable. Raises OSError."""
    check_writable([path for path in (options.summary_file, options.page_file) if path is not None])
    if "://" not in options.out:
        check_folder(Path(options.out))  # last, because it creates the folder
