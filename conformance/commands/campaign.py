"""`conformance campaign`: judges targets on millions of generated cases, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from conformance.commands import options as shared
from conformance.errors import ExitStatus
from conformance.pipeline.options import CampaignOptions, SparkOptions
from conformance.reports.console import open_console
from conformance.runner.known_failures import read_known
from conformance.runner.policy import FailurePolicy
from conformance.runner.signals import interrupt_on_signals
from conformance.targets.limits import ResourceLimits


@click.command("campaign")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--cases",
    type=click.IntRange(1, 10**9),
    required=True,
    metavar="N",
    help="Number of generated cases, of all types together.",
)
@shared.seed
@click.option(
    "--out",
    type=shared.PATH,
    required=True,
    metavar="DIR",
    help="Folder of the campaign; an unfinished campaign in it is continued.",
)
@shared.master
@shared.conf
@click.option("--select", multiple=True, metavar="type:…", help="Only types that match this glob.")
@click.option(
    "--corpus",
    multiple=True,
    type=shared.PATH,
    metavar="DIR",
    help="Folder of vectors from an earlier campaign, judged first.",
)
@shared.timeout
@shared.memory
@shared.python
@shared.definitions
@shared.known_failures
@shared.fail_on
@shared.basis
@shared.strict
@shared.report_files
@shared.quiet
@shared.needs("spark", "pyarrow", "pyspark")
def command(**given: Any) -> ExitStatus:
    """Judge targets on millions of generated cases, on Spark.

    A campaign that was killed continues if it is started again with the same --out. Exit status: as for run.
    """
    interrupt_on_signals()
    from conformance.pipeline.campaign.driver import run_campaign

    return run_campaign(_options(given), open_console(), open_console(err=True))


def _options(given: dict[str, Any]) -> CampaignOptions:
    """Return the options of the campaign. Raises UsageError or FileError."""
    path: Path | None = given["known_failures"]
    known = read_known(path) if path is not None else ()
    return CampaignOptions(
        given["targets"],
        given["cases"],
        given["out"],
        ResourceLimits(timeout=given["timeout"], memory=given["memory"]),
        FailurePolicy(given["fail_on"], given["strict"], known, given["basis"], given["python"] or ""),
        given["seed"],
        SparkOptions(given["master"], given["conf"]),
        given["select"],
        given["corpus"],
        given["python"],
        shared.read_messages(given["definitions"]),
        given["files"],
        given["quiet"],
    )
