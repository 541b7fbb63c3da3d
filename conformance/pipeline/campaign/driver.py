"""`conformance campaign`, step by step: describe targets, judge slices, summarise, report. Needs pyspark, pyarrow.

`spark_job` has the step that runs on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from conformance.cases.model import Case
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.definitions.loader import types_with
from conformance.errors import CannotStart, ExitStatus, UsageError
from conformance.files.atomic import OutputFiles, check_writable
from conformance.pipeline.campaign.slice_task import SliceTask
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.spark_job import JobFailed, judge_slices
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.summary import CampaignSummary
from conformance.pipeline.options import CampaignOptions
from conformance.reports.formats import Report, write_files
from conformance.reports.text import target_report, target_summary
from conformance.runner.results import TargetRun, status_of
from conformance.runner.shrinking import MAX_SHRUNK_CAUSES
from conformance.strategies.seeded.cases import message_types, type_of, types_for
from conformance.targets.probes import probe_case


def run_campaign(options: CampaignOptions, console: Console, errors: Console) -> ExitStatus:
    """Judge all remaining slices and report.

    Raises UsageError, FileError, UnknownTarget, JavaNotFound, SparkNotAvailable or OSError before the first slice.
    """
    files = options.files or {}
    catalog = read_catalog(messages=options.messages)
    campaign = _campaign(options, catalog)
    check_writable(files.values())
    outputs = OutputFiles()
    store = CampaignFolder(options.out.absolute())  # executors have another working folder
    with store.opened(campaign):
        work = SliceTask(campaign, store, catalog.requirements, {})
        runs = [TargetRun(target) for target in campaign.targets]
        for run in runs:
            _probe(run, work, catalog)
        is_startable = not any(run.problem for run in runs)
        is_whole = not is_startable or _fill(
            runs, CampaignSummary(work, catalog, options.policy, outputs), options, errors
        )
    write_files(files, Report(runs, campaign.seed, requirements=catalog.requirements), outputs)
    for run in runs:
        _print(run, console, catalog, quiet=options.quiet)
    if store.complete:
        console.print(f"tables and vectors: {store.folder}", markup=False, soft_wrap=True)
    for problem in outputs.problems:
        errors.print(f"conformance: {problem}", markup=False, soft_wrap=True)
    if not is_whole:
        return ExitStatus.INTERRUPTED
    return ExitStatus.WRONG_INPUT if outputs.problems else status_of(runs)


def _fill(runs: list[TargetRun], summary: CampaignSummary, options: CampaignOptions, errors: Console) -> bool:
    """Judge the remaining slices and fill the runs from the tables; return False after an interrupt."""
    try:
        is_judged = summary.work.store.complete or judge_slices(summary.work, options.spark, errors)
    except JobFailed as error:
        for run in runs:
            run.problem = str(error)
        summary.of_unfinished(runs)
        return True
    if not is_judged:
        summary.of_unfinished(runs)
        for run in runs:
            run.interrupt(None)
        return False
    return summary.of_finished(runs, errors)


def _campaign(options: CampaignOptions, catalog: Catalog) -> Campaign:
    """Return the campaign of the options. Raises UsageError or FileError."""
    if wrong := [pattern for pattern in options.select if not pattern.startswith("type:")]:
        raise UsageError("--select", f"expected type:…, found {wrong[0][:60]!r}")
    # Most types are shipped messages, so they are included only if they are selected.
    messages = types_with(options.messages).messages.values() if options.select else options.messages
    names = types_for(options.select, message_types(messages))
    if not names:
        raise UsageError("--select", f"no type matches {' or '.join(options.select)[:60]!r}")
    return Campaign(
        targets=tuple(dict.fromkeys(options.targets)),
        names=tuple(names),
        cases=options.cases,
        seed=options.seed,
        terms=options.limits,
        python=options.python,
        messages=options.messages,
        corpus=_corpus(options.corpus, catalog),
        bases=options.policy.bases,
    )


def _corpus(folders: Sequence[Path], catalog: Catalog) -> tuple[Case, ...]:
    """Return the cases of folders of vectors. Raises FileError."""
    if not folders:
        return ()
    cases = read_catalog(folders, catalog.types.messages.values()).cases
    return tuple(case for identity, case in cases.items() if identity not in catalog.cases)


def _probe(run: TargetRun, work: SliceTask, catalog: Catalog) -> None:
    """Get the description of a target and probe its claims, once for all executors. Raises UnknownTarget."""
    examiner = work.examiner(run.name, catalog)
    types = dict.fromkeys(map(type_of, work.campaign.names))
    claims = [(op, name) for op in ("decode", "encode") for name in types]
    claims += [(op, "LOG") for op in ("read", "sequence")]
    try:
        run.description = examiner.claims.description
        probes = [probe_case(op, catalog.types.wire(name)) for op, name in claims]
        run.results += examiner.disprove_claims([probe for probe in probes if probe is not None])
        work.disproved[run.name] = examiner.claims.disproved
    except CannotStart as error:
        run.problem = str(error)
    finally:
        run.answered = examiner.has_answered
        examiner.target.close()


def _print(run: TargetRun, console: Console, catalog: Catalog, *, quiet: bool) -> None:
    shown = replace(run, shrunk=run.shrunk[:MAX_SHRUNK_CAUSES])
    console.print(target_summary(shown) if quiet else target_report(shown, catalog.requirements), crop=False)
    if len(run.shrunk) > MAX_SHRUNK_CAUSES and not quiet:
        console.print(f"and {len(run.shrunk) - MAX_SHRUNK_CAUSES} more distinct failures, each a vector", markup=False)
