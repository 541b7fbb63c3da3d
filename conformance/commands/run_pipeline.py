"""The work of `conformance run` after the targets begin to load: judge, shrink, write files, print the report."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from conformance.cases.model import CaseSummary
from conformance.catalog.catalog import Catalog, is_based, of_bases
from conformance.catalog.catalog_builder import read_catalog
from conformance.commands import options as shared
from conformance.commands.ad_hoc_case import AdHocCase, own_case
from conformance.errors import ExitStatus, UsageError, UserError, overall
from conformance.files.atomic import OutputFiles, check_folder, check_writable
from conformance.process.launcher import clean
from conformance.reports.console import open_console
from conformance.reports.formats import Report, write_files
from conformance.reports.github import is_in_job, step_of_job
from conformance.reports.hex_view import printable
from conformance.reports.progress import progress_bar
from conformance.reports.screen import keys_shown_in_full, texts
from conformance.runner.executor import judge_and_shrink
from conformance.runner.generated_cases import DeferredCases
from conformance.runner.known_failures import (
    KnownFailure,
    KnownFailuresUpdate,
    known_text,
    read_known,
    stale,
    unseen,
    update_lines,
    updated,
)
from conformance.runner.parallel import StopEvent, Work, reduce_gc, run_parallel
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun, status_of
from conformance.runner.selection import (
    Selection,
    expected_further,
    first_cases,
    further_cases,
    makes_many,
    selected_cases,
)
from conformance.runner.shrinking import FailureKey, failure_key, failures_by_key
from conformance.runner.signals import interrupt_on_signals
from conformance.targets.target import TargetSpec

if TYPE_CHECKING:
    from rich.progress import Progress

    from conformance.reports.json_report import JsonRowFile


class RunOptions(Struct, frozen=True):
    """The options of `conformance run`."""

    targets: tuple[TargetSpec, ...]
    vectors: tuple[Path, ...]
    selection: Selection
    own_case: AdHocCase | None
    """The ad-hoc case of --case, in place of the selection."""
    policy: FailurePolicy
    known_failures: Path | None
    update_known_failures: bool
    save_failures: Path | None
    files: Mapping[str, Path]
    """The report files by format."""
    clean: bool
    """True to delete the topics of the run on the brokers at the end."""
    outputs: OutputFiles
    """Writes all files at the end, and reports a file that another program changed during the run."""
    quiet: bool
    verbosity: int
    """0: one screen per target; 1: an example of every cause; 2: every failing case."""


def _options(targets: tuple[TargetSpec, ...], given: shared.Given) -> RunOptions:
    """Return the options of the run. Raises UsageError or FileError."""
    # Watch the files before they are read: a change between reading and writing must be noticed.
    watched, folder = [path for path in (given["known_failures"],) if path], given["save_failures"]
    outputs = OutputFiles.watching(watched, folder) if watched or folder else OutputFiles()
    known = _known(given["known_failures"], update=given["update_known_failures"])
    return RunOptions(
        targets,
        given["vectors"],
        Selection(
            given["select"],
            given["as_of"],
            given["generated"],
            given["seed"],
            shared.read_messages(given["definitions"]),
        ),
        None if given["case"] is None else AdHocCase(given["case"], given["op"]),
        FailurePolicy(given["fail_on"], given["strict"], known, given["basis"], given["python"] or ""),
        given["known_failures"],
        given["update_known_failures"],
        given["save_failures"],
        given["files"],
        given["clean"],
        outputs,
        given["quiet"],
        given["verbose"],
    )


def _known(path: Path | None, *, update: bool) -> tuple[KnownFailure, ...]:
    """Return the known failures. Raises UsageError or FileError."""
    if path is None and update:
        raise UsageError("--update-known-failures", "expected --known-failures FILE too")
    return () if path is None else read_known(path)


# --- judging ------------------------------------------------------------------------------------------


def run_targets(targets: tuple[TargetSpec, ...], given: shared.Given) -> ExitStatus:
    """Judge all targets and report; `given` are the options from click.

    Raises UsageError, FileError, UnknownType or OSError before a target gets a request.
    """
    options = _options(targets, given)
    _check_outputs(options)  # before judging: a wrong path must fail at once
    interrupt_on_signals()
    catalog = read_catalog(options.vectors, options.selection.messages)
    with ExitStack() as stack:
        runs: list[TargetRun] = []
        try:
            status = _judge_and_report(options, catalog, runs, _row_files(options, stack), stack)
        finally:
            is_clean = not options.clean or _clean(options.targets, runs)
    return status if is_clean else overall([status, ExitStatus.NOT_JUDGED])


def _clean(targets: Sequence[TargetSpec], runs: Sequence[TargetRun]) -> bool:
    """Delete the topics of the run on the brokers. Print the problems; return whether there were none."""
    launches = {target.name: target.launch for target in targets}
    started = [launches[run.name] for run in runs if run.description is not None]
    problems = [f"{one.name}: {problem}" for one in started if one and one.cleaning and (problem := clean(one))]
    for problem in problems:
        open_console(err=True).print(f"conformance: --clean: {printable(problem)}", markup=False, soft_wrap=True)
    return not problems


def _judge_and_report(
    options: RunOptions, catalog: Catalog, runs: list[TargetRun], rows: Mapping[str, JsonRowFile], stack: ExitStack
) -> ExitStatus:
    try:
        interrupted = _judge(options, catalog, runs, rows, stack)
    except Exception:
        if runs:
            with suppress(Exception):  # the first exception is raised, even if the report fails too
                _report(options, catalog, runs, rows)
        raise
    status = _report(options, catalog, runs, rows)
    return ExitStatus.INTERRUPTED if interrupted else status


def _check_outputs(options: RunOptions) -> None:
    """Check that every output file is writable. Raises OSError."""
    paths = list(options.files.values())
    if options.update_known_failures and options.known_failures is not None:
        paths.append(options.known_failures)
    if paths:
        check_writable(paths)
    if options.save_failures is not None:
        check_folder(options.save_failures)


def _row_files(options: RunOptions, stack: ExitStack) -> dict[str, JsonRowFile]:
    """Return the files for rows of the JSON report, by target. Raises OSError.

    With --update-known-failures there are none: the `known` field of a row is known only at the end.
    """
    if "json" not in options.files or options.update_known_failures:
        return {}
    from conformance.reports.json_report import JsonRowFile

    report = options.files["json"]
    return {target.name: stack.enter_context(closing(JsonRowFile(report))) for target in options.targets}


def _report(
    options: RunOptions, catalog: Catalog, runs: Sequence[TargetRun], rows: Mapping[str, JsonRowFile]
) -> ExitStatus:
    """Write the files, print the report, and return the exit status."""
    outputs, known = options.outputs, options.policy.known
    if options.save_failures is not None:
        from conformance.runner.save_vectors import save_all

        save_all(runs, options.save_failures, outputs)
    results = [result for run in runs for result in run.results]
    old = stale(known, catalog.cases, results, catalog.requirements) if known and _is_whole(runs) else []
    update = _update_known(options, runs, [entry for entry, _ in old]) if options.update_known_failures else None
    if update is not None:
        old = []
    console = open_console()
    # Files first: printing stops if the reader of the pipe has exited.
    entries = [(str(entry), why) for entry, why in old]
    report = Report(runs, options.selection.seed, entries, catalog.requirements, rows)
    write_files(options.files, report, outputs)
    lines = [f"stale known failure {entry} (line {entry.line}): {why}" for entry, why in old]
    if update is not None:
        lines += update_lines(update, str(options.known_failures))
    with step_of_job(report, console, options.files.values()):
        for shown in texts(report, options.verbosity, quiet=options.quiet):
            console.print(shown, crop=False)
        for line in lines:
            console.print(printable(line), markup=False, soft_wrap=True)
    for problem in outputs.problems:
        open_console(err=True).print(f"conformance: {problem}", markup=False, soft_wrap=True)
    return ExitStatus.WRONG_INPUT if outputs.problems else status_of(runs, stale_entries=bool(old))


def _is_whole(runs: Sequence[TargetRun]) -> bool:
    """Return whether no target was interrupted. An interrupted run does not show stale entries."""
    return not any(run.interrupted for run in runs)


def _cases(options: RunOptions, catalog: Catalog) -> tuple[Sequence[CaseSummary], DeferredCases | None]:
    """Return at least one case, and the generated cases that are made while the first cases are judged.

    Raises UsageError or UnknownType.
    """
    chosen, targets = options.selection, options.targets
    of_basis = partial(of_bases, bases=options.policy.bases, requirements=catalog.requirements)
    if options.own_case is not None:
        cases: Sequence[CaseSummary] = of_basis([own_case(options.own_case, catalog)])
    elif makes_many(chosen) and (cases := of_basis(first_cases(chosen, catalog))):
        from conformance.runner.generated_cases import cached_cases

        bases, rows = options.policy.bases, catalog.requirements
        made = partial(further_cases, chosen, catalog, targets, cached_cases)
        return cases, DeferredCases(lambda: (case for case in made() if is_based(case, bases, rows)))
    else:
        cases = of_basis(selected_cases(chosen, catalog, targets))
    if not cases:
        raise UserError("the selection matches no case (see `conformance list`)")
    return cases, None


def _judge(
    options: RunOptions, catalog: Catalog, runs: list[TargetRun], rows: Mapping[str, JsonRowFile], stack: ExitStack
) -> bool:
    """Judge all targets in parallel into `runs`; return whether it was interrupted. Raises UsageError, UnknownType."""
    cases, further = _cases(options, catalog)
    expected = expected_further(options.selection, catalog) if further else 0
    with progress_bar(open_console(err=True)) as progress:
        reduce_gc(stack)
        works: list[Work] = [partial(_make, further, progress, len(cases))] if further else []
        for target in options.targets:
            row_file = rows.get(target.name)
            runs.append(TargetRun(target.name, on_result=row_file.add if row_file else None))
            progress.add_task(target.name, total=len(cases) + expected, counts=partial(_counts, runs[-1]))
            work = partial(judge_and_shrink, target, runs[-1], cases, further or tuple, catalog, options.policy)
            works.append(partial(work, partial(_shrunk, options)))
        try:
            run_parallel(works)
        except KeyboardInterrupt:
            made = further.count if further else 0
            for run in runs:
                run.interrupt(None if made is None else len(cases) + made)
            return True
    return False


def _counts(run: TargetRun) -> dict[str, object]:
    """Return the fields of a run's progress bar."""
    name = f"{run.name}: shrinking" if run.is_shrinking else run.name
    return {"description": name, "completed": len(run.results) + run.unjudged(), "failures": run.failures}


def _make(further: DeferredCases, progress: Progress, others: int, stop: StopEvent) -> None:
    """Make the cases that targets get after the `others`, and show the exact total."""
    further.make(stop)
    for task in progress.task_ids:
        progress.update(task, total=others + (further.count or 0))


def _shrunk(options: RunOptions, run: TargetRun) -> Container[FailureKey]:
    """Return the keys of the failures to shrink: all keys if an output contains an example of every cause."""
    shows_all = options.files or options.save_failures or options.verbosity or options.update_known_failures
    return failures_by_key(run.results) if shows_all or is_in_job() else keys_shown_in_full(run)


def _update_known(
    options: RunOptions, runs: Sequence[TargetRun], gone: Sequence[KnownFailure]
) -> KnownFailuresUpdate | None:
    """Rewrite the file of known failures and mark its failures as known; None if it cannot be written."""
    assert options.known_failures is not None
    results = [result for run in runs for result in run.results]
    known = options.policy.known
    if _is_whole(runs) and options.own_case is None and not options.selection.patterns:
        gone = [*gone, *unseen(known, results)]
    update = updated(known, results, gone)
    if not options.outputs.write(options.known_failures, [known_text(update.entries)]):
        return None
    for run in runs:
        run.results[:] = [replace(result, known=True) if result.counts else result for result in run.results]
        left = failures_by_key(run.results)
        run.shrunk[:] = [shrunk for shrunk in run.shrunk if failure_key(shrunk.result) in left]
    return update
