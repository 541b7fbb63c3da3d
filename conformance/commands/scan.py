"""`conformance scan`: checks stored log segments, batch by batch, on Spark where they are large."""

from __future__ import annotations

from typing import Any

import click

from conformance.commands import options as shared
from conformance.errors import ExitStatus
from conformance.pipeline.options import ScanOptions, SparkOptions
from conformance.reports.console import open_console
from conformance.runner.signals import interrupt_on_signals


@click.command("scan")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, metavar="DIR", help="Where findings and summary go: a new folder, or a URI.")
@shared.master
@shared.conf
@click.option(
    "--uncompacted",
    "never_compacted",
    multiple=True,
    metavar="TOPIC",
    help="Topics (a glob) that were never compacted: a gap in a producer's numbers is a loss there.",
)
@click.option(
    "--split-size",
    type=click.IntRange(1, 1 << 24),
    default=256,
    show_default=True,
    metavar="MIB",
    callback=shared.mebibytes,
    help="Larger segments are cut into parts of this size.",
)
@shared.fail_on
@click.option("--json", "summary_file", type=shared.PATH, metavar="FILE", help="Write the summary as JSON.")
@click.option("--html", "page_file", type=shared.PATH, metavar="FILE", help="Write a page, one file without network.")
@shared.quiet
@shared.needs("scan", "pyarrow", "numpy")
def command(**given: Any) -> ExitStatus:
    """Check stored log segments, batch by batch; more than 256 MiB, or with --master, on Spark.

    PATH is a segment or a folder of them, at any depth; s3://…, hdfs://… and whatever else pyarrow reaches will do.
    Exit status: 0 nothing that counts, 1 findings, 2 wrong usage or a file that could not be read.
    """
    interrupt_on_signals()
    from conformance.pipeline.audit.driver import run_scan

    spark = SparkOptions(given.pop("master"), given.pop("conf"))
    return run_scan(ScanOptions(spark=spark, **given), open_console(), open_console(err=True))
