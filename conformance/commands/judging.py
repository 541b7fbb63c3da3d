"""`conformance run`, step by step: collect cases, judge targets, report, and say how it went."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conformance import codec
from conformance.cases.catalog import Catalog, as_of, read_catalog, select
from conformance.cases.from_reference import ad_hoc_case
from conformance.cases.model import WHOLE_LOG, Case, Kind, Op
from conformance.codec.messages import Message
from conformance.codec.notation import NotationError
from conformance.definitions.files import DefinitionError, usable
from conformance.errors import UsageError
from conformance.exit_status import ExitStatus, overall
from conformance.reports.formats import Report, check_writable, write_files
from conformance.reports.text import target_report, target_summary
from conformance.running.examiner import Plan, run_target
from conformance.running.known_failures import Known, read_known, stale, updated
from conformance.running.results import TargetRun
from conformance.running.saving import save_all
from conformance.running.shrinking import shrink_all
from conformance.strategies.seeded.cases import case_of, generated_cases, message_types, types_for
from conformance.targets.process import Launch
from conformance.targets.resolve import resolve
from conformance.targets.session import Terms


def judge_all(targets: Sequence[str], options: dict[str, Any], console: Console, errors: Console) -> int:
    """Run everything and report; returns the exit status. Raises UsageError or UnknownTarget before anything runs."""
    options = {**options, "seed": seed_of(options["seed"])}
    # What is quickly found wrong comes first: cases take seconds to make.
    launches = {target: None if target == "reference" else resolve(target, options["python"]) for target in targets}
    known = read_known(options["known_failures"]) if _reads_known(options) else ()
    catalog = read_catalog(options["vectors"])
    options["messages"] = known_definitions(options["definitions"])
    cases = _collect(catalog, options)
    if not cases:
        errors.print("conformance: the selection matches no case (see `conformance list`)", markup=False)
        return ExitStatus.WRONG_INPUT
    check_writable(options["files"])
    terms = Terms(timeout=options["timeout"], memory=options["memory"] << 20)
    plan = Plan(options["jobs"], terms, options["fail_on"], options["strict"], known)
    runs: list[TargetRun] = []
    interrupted = _judge(launches, cases, catalog, plan, runs, errors)
    if options["save_failures"] is not None:
        save_all(runs, options["save_failures"])
    old = stale(known, catalog.cases, [result for run in runs for result in run.results])
    if options["update_known_failures"]:
        _update_known(options["known_failures"], known, runs, [entry for entry, _ in old])
        old = []
    # Files first: whoever reads the text may have gone.
    write_files(options["files"], Report(runs, options["seed"], [(entry.id, why) for entry, why in old]))
    for run in runs:
        console.print(target_summary(run) if options["quiet"] else target_report(run, catalog.requirements), crop=False)
    if options["update_known_failures"]:
        console.print(f"{options['known_failures']}: updated", markup=False, soft_wrap=True)
    for entry, why in old:
        console.print(f"stale known failure {entry.id} (line {entry.line}): {why}", markup=False, soft_wrap=True)
    return ExitStatus.INTERRUPTED if interrupted else status(runs, stale_entries=bool(old))


def seed_of(given: str) -> int:
    """A seed as it was given, or one at random. Raises UsageError."""
    if given == "random":
        return secrets.randbelow(1 << 32)
    if not given.isdigit():
        raise UsageError("--seed", f"expected a number or random, found {given[:40]!r}")
    return int(given)


def _judge(
    launches: dict[str, Launch | None],
    cases: Sequence[Case],
    catalog: Catalog,
    plan: Plan,
    runs: list[TargetRun],
    errors: Console,
) -> bool:
    """Judge target by target into `runs`; whether it was interrupted."""
    try:
        with progress_bar(errors) as progress:
            for target, launch in launches.items():
                task = progress.add_task(target, total=len(cases))
                record, results = run_target(target, launch, cases, catalog, plan)
                runs.append(record)
                try:
                    for count, _ in enumerate(results):
                        if count % 16 == 0:
                            progress.update(task, completed=count)
                finally:
                    results.close()  # type: ignore[attr-defined]
                progress.update(task, description=f"{target}: shrinking", completed=len(cases))
                record.shrunk += shrink_all(record, launch, catalog, plan)
    except KeyboardInterrupt:
        return True
    return False


@contextmanager
def progress_bar(errors: Console) -> Iterator[Progress]:
    """Where progress is shown: on a terminal, for as long as it goes on."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield progress


def status(runs: Sequence[TargetRun], *, stale_entries: bool) -> ExitStatus:
    """What a run as a whole exits with."""
    reasons = []
    for run in runs:
        if run.problem or not run.judged or any(result.verdict.kind is Kind.PROTOCOL for result in run.results):
            reasons.append(ExitStatus.NOT_JUDGED)
        if any(result.is_unexpected for result in run.results):
            reasons.append(ExitStatus.FAILED)
    return overall([*reasons, ExitStatus.FAILED] if stale_entries else reasons)


# --- cases --------------------------------------------------------------------------------------------


def _collect(catalog: Catalog, options: dict[str, Any]) -> list[Case]:
    if options["ad_hoc"] is not None:
        return [given_case(options["ad_hoc"], options["op"], catalog)]
    cases = list(catalog.cases.values())
    if options["as_of"] is not None:
        try:
            cases = as_of(cases, options["as_of"])
        except ValueError:
            raise UsageError("--as-of", f"{options['as_of']!r} is no version of the suite, such as 0.1.0") from None
    named = [case for pattern in options["select"] for case in case_of(pattern, catalog)]
    if len(named) == len(options["select"]) > 0:
        return named
    if options["as_of"] is None:
        names = types_for(options["select"], message_types(options["messages"]))
        cases += generated_cases(names, options["generated"], options["seed"], catalog)
    return select(cases, options["select"]) + [case for case in named if case not in cases]


def known_definitions(path: Path | None) -> list[Message]:
    """The messages that are defined at a path, from now on known as types. Raises UsageError with all that is wrong."""
    if path is None:
        return []
    try:
        found = list(usable(path).messages.values())
        codec.know(found)
    except (DefinitionError, ValueError) as error:
        raise UsageError("--definitions", str(error)) from None
    return found


def parse_hex(given: str) -> bytes:
    """Bytes from hex digits. Raises UsageError."""
    try:
        return bytes.fromhex(given)
    except ValueError:
        raise UsageError("hex", f"expected hex digits, found {given[:60]!r}") from None


def given_case(given: str, op: Op, catalog: Catalog) -> Case:
    """A case of the user's own; the reference says what to expect.

    TYPE:HEX or TYPE:@FILE (raw bytes) to decode, with other operations TYPE:JSON or TYPE:@FILE: the value to encode,
    with magic and compression beside it for a MESSAGE_SET, or LOG:{the request}. Raises UsageError or UnknownType.
    """
    name, colon, rest = given.partition(":")
    if not colon:
        raise UsageError("--case", f"expected TYPE:HEX or TYPE:@FILE, found {given[:60]!r}")
    codec.wire(name)
    origin = rest[1:] if rest.startswith("@") else ""
    if op == "decode":
        digits = Path(origin).read_bytes().hex() if origin else parse_hex(rest).hex()
        return ad_hoc_case(op, name, {"hex": digits}, catalog, origin=origin)
    if op in WHOLE_LOG and name != "LOG":
        raise UsageError("--case", f"{op} is asked of a LOG, not of {name}")
    text = Path(origin).read_bytes() if origin else rest.encode()
    try:
        asked = msgspec.json.decode(text)
        parts = asked if op in WHOLE_LOG or name == "MESSAGE_SET" else {"value": asked}
        return ad_hoc_case(op, name, parts, catalog, origin=origin)
    except (msgspec.DecodeError, NotationError) as error:
        what = f"a {op} request" if op in WHOLE_LOG else f"a value of {name}"
        raise UsageError("--case", f"not {what}: {error}") from None


# --- files --------------------------------------------------------------------------------------------


def _reads_known(options: dict[str, Any]) -> bool:
    path = options["known_failures"]
    if options["update_known_failures"] and path is None:
        raise UsageError("--update-known-failures", "name the file with --known-failures")
    return path is not None and not (options["update_known_failures"] and not path.exists())


def _update_known(path: Path, known: Sequence[Known], runs: Sequence[TargetRun], gone: Sequence[Known]) -> None:
    """Write the list anew, and take what it now names as known."""
    import yaml

    results = [result for run in runs for result in run.results]
    rows = updated(known, results, gone)
    text = yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=1000) if rows else "[]\n"
    path.write_text(text, encoding="utf-8")
    for run in runs:
        run.results[:] = [replace(result, known=True) if result.counts else result for result in run.results]
