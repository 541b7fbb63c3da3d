"""`conformance campaign`: slices spread over Spark, gathered into tables, and told as a short list."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from rich.console import Console

from conformance.cases.catalog import Catalog, read_catalog
from conformance.cases.model import Case
from conformance.errors import UsageError
from conformance.exit_status import ExitStatus
from conformance.pipeline.campaign.executor import Task
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.store import Store
from conformance.pipeline.campaign.summary import gather
from conformance.pipeline.options import CampaignOptions, SparkOptions
from conformance.pipeline.session import session
from conformance.reports.console import progress_bar
from conformance.reports.formats import Report, check_writable, write_files
from conformance.reports.text import target_report, target_summary
from conformance.running.examiner import probe_case
from conformance.running.results import TargetRun
from conformance.running.shrinking import DISTINCT
from conformance.running.status import status_of
from conformance.strategies.seeded.cases import message_types, type_of, types_for
from conformance.targets.session import CannotStart

_LONGEST_TASK = 50
"""Slices of one task at most: what is left when all others are done must not take long."""


def run_campaign(options: CampaignOptions, console: Console, errors: Console) -> ExitStatus:
    """Judge everything, or what is left of it, and report.

    Raises UsageError, FileError, UnknownTarget, NoJava, NoSpark or OSError before anything runs.
    """
    files = options.files or {}
    catalog = read_catalog()
    campaign = _campaign(options, catalog)
    check_writable(files)
    store = Store(options.out.absolute())  # executors have a folder of their own to work in
    with store.opened(campaign):
        work = Task(campaign, store, catalog.requirements, {})
        runs = [TargetRun(target) for target in campaign.targets]
        for run in runs:
            _meet(run, work, catalog)
        interrupted = False
        if not any(run.problem for run in runs):
            interrupted = not store.complete and not _judged(work, options.spark, errors, runs)
            finished = not interrupted and not any(run.problem for run in runs)
            interrupted |= not gather(runs, work, catalog, options.plan, errors, finished=finished)
    write_files(files, Report(runs, campaign.seed))
    for run in runs:
        _print(run, console, catalog, quiet=options.quiet)
    if store.complete:
        console.print(f"tables and vectors: {store.folder}", markup=False, soft_wrap=True)
    return ExitStatus.INTERRUPTED if interrupted else status_of(runs)


def _campaign(options: CampaignOptions, catalog: Catalog) -> Campaign:
    """What the options ask for. Raises UsageError or FileError."""
    if wrong := [pattern for pattern in options.select if not pattern.startswith("type:")]:
        raise UsageError("--select", f"a campaign selects types, type:…, not {wrong[0][:60]!r}")
    names = types_for(options.select, message_types(options.messages))
    if not names:
        raise UsageError("--select", f"no type matches {' or '.join(options.select)[:60]!r}")
    corpus: tuple[Case, ...] = ()
    if options.corpus:
        replayed = read_catalog(options.corpus).cases
        corpus = tuple(case for identity, case in replayed.items() if identity not in catalog.cases)
    return Campaign(
        tuple(dict.fromkeys(options.targets)),
        tuple(names),
        options.cases,
        options.seed,
        options.plan.terms,
        options.python,
        options.messages,
        corpus,
    )


def _meet(run: TargetRun, work: Task, catalog: Catalog) -> None:
    """Ask a target who it is and try its claims, here and once: on every executor they are then the same.

    Raises UnknownTarget.
    """
    examiner = work.examiner(run.name, catalog)
    types = dict.fromkeys(map(type_of, work.campaign.names))
    asked = [(op, name) for op in ("decode", "encode") for name in types]
    asked += [(op, "LOG") for op in ("read", "sequence")]
    try:
        run.description = examiner.describe()
        run.results += examiner.disproved([probe for op, name in asked if (probe := probe_case(op, name))])
        work.refuted[run.name] = examiner.refuted
    except CannotStart as error:
        run.problem = str(error)
    finally:
        examiner.close()


def _print(run: TargetRun, console: Console, catalog: Catalog, *, quiet: bool) -> None:
    shown = replace(run, shrunk=run.shrunk[:DISTINCT])
    console.print(target_summary(shown) if quiet else target_report(shown, catalog.requirements), crop=False)
    if len(run.shrunk) > DISTINCT and not quiet:
        console.print(f"and {len(run.shrunk) - DISTINCT} more distinct failures, each a vector", markup=False)


# --- judging ------------------------------------------------------------------------------------------


def _judged(work: Task, spark_options: SparkOptions, errors: Console, runs: list[TargetRun]) -> bool:
    """Judge the slices that are not done; False when it was interrupted. Raises NoJava or NoSpark."""
    done = work.store.done()
    pending = [number for number in range(work.campaign.slices) if number not in done]
    if not pending:
        return True
    with session(spark_options.master, "conformance campaign", spark_options.settings) as spark:
        failed: list[Exception] = []

        def judge_all() -> None:
            try:
                spread(spark, work, pending)
            except Exception as error:  # noqa: BLE001 - told by the thread that waits
                failed.append(error)

        job = InheritableThread(target=judge_all, daemon=True)
        try:
            job.start()
            _watch(job, work, errors)
        except KeyboardInterrupt:
            spark.sparkContext.cancelAllJobs()
            job.join(30)
            return False
    if failed:
        for run in runs:
            run.problem = _reason(failed[0])
    return True


def spread(spark: SparkSession, work: Task, pending: list[int]) -> None:
    """Have slices judged, several to a task. Raises what Spark makes of a task that fails."""
    context = spark.sparkContext
    share = max(1, min(_LONGEST_TASK, len(pending) // (4 * context.defaultParallelism)))
    context.parallelize(pending, -(-len(pending) // share)).mapPartitions(work).count()


def _watch(job: threading.Thread, work: Task, errors: Console) -> None:
    """Show how far it is until it ends: a bar on a terminal, else a line a minute."""
    total, began, told = work.campaign.slices, time.monotonic(), 0
    with progress_bar(errors) as progress:
        bar = progress.add_task("slices", total=total)
        while job.is_alive():
            job.join(1)
            done = len(work.store.done())
            progress.update(bar, completed=done)
            minutes = int(time.monotonic() - began) // 60
            if minutes > told and not errors.is_terminal:
                told = minutes
                errors.print(f"{done} of {total} slices", markup=False)


def _reason(error: Exception) -> str:
    """Why Spark gave up, in a line."""
    text = str(error)
    found = re.findall(r"^\S*(?:CannotStart|UnknownTarget): (.+)$", text, re.MULTILINE)
    found += re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    if "str() failed" in text:  # its Java is gone, and with it what it had to say
        text = "Spark stopped"
    return f"{(found or text.splitlines() or ['Spark stopped'])[0]} (the same command goes on from here)"
