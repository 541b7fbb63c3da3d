"""`conformance scan`: checks every batch of stored log segments; large logs are checked on Spark."""

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
@click.option("--out", required=True, metavar="DIR", help="New folder or URI for the findings and the summary.")
@shared.master
@shared.conf
@click.option(
    "--uncompacted",
    "never_compacted",
    multiple=True,
    metavar="TOPIC",
    help="Topics (a glob) that were never compacted: there a gap in a producer's sequence numbers is a data loss.",
)
@click.option(
    "--split-size",
    type=click.IntRange(1, 1 << 24),
    default=256,
    show_default=True,
    metavar="MIB",
    callback=shared.mebibytes,
    help="Split larger segments into parts of this size.",
)
@shared.fail_on
@click.option("--json", "summary_file", type=shared.PATH, metavar="FILE", help="Write the summary as JSON.")
@click.option("--html", "page_file", type=shared.PATH, metavar="FILE", help="Write an HTML page that works offline.")
@shared.quiet
@shared.needs("scan", "pyarrow", "numpy")
def command(**given: Any) -> ExitStatus:
    """Check every batch of stored log segments. Spark is used above 256 MiB or with --master.

    PATH is a segment, or a folder with segments at any depth. It can be a URI of a file system that pyarrow supports:
    s3://…, hdfs://…
    Exit status: 0 no finding counts, 1 findings, 2 wrong usage or a file that could not be read.
    """
    interrupt_on_signals()
    from conformance.pipeline.audit.driver import run_scan

    spark = SparkOptions(given.pop("master"), given.pop("conf"))
    return run_scan(ScanOptions(spark=spark, **given), open_console(), open_console(err=True))
