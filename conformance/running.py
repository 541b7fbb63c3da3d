"""`conformance run`, step by step: collect cases, judge targets, report, and say how it went."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conformance import codec
from conformance.cases import AnyOf, Case, Expectation, Kind, Reads, Refuses, Writes, WritesAs
from conformance.catalog import LEADER_EPOCH, Catalog, as_of, codecs_and_magics, read_catalog, select
from conformance.codec.notation import NotationError
from conformance.known import Known, read_known, stale, updated
from conformance.reports.json_file import as_json
from conformance.reports.junit import as_junit
from conformance.reports.text import target_report, target_summary
from conformance.results import TargetRun
from conformance.run import Plan, run_target
from conformance.targets.process import Launch
from conformance.targets.resolve import resolve
from conformance.targets.session import Terms
from conformance.yaml_files import FileError

OK, FAILED, WRONG, NOT_STARTED, INTERRUPTED = 0, 1, 2, 3, 130


def judge_all(targets: Sequence[str], options: dict[str, Any], console: Console, errors: Console) -> int:
    """Run everything and report; returns the exit status. Raises FileError or UnknownTarget before anything runs."""
    catalog = read_catalog(options["vectors"])
    known = read_known(options["known_failures"]) if _reads_known(options) else ()
    cases = _collect(catalog, options)
    if not cases:
        errors.print("conformance: the selection matches no case (see `conformance list`)", markup=False)
        return WRONG
    launches = {target: None if target == "reference" else resolve(target, options["python"]) for target in targets}
    _check_writable(options)
    terms = Terms(timeout=options["timeout"], memory=options["memory"] << 20)
    plan = Plan(options["jobs"], terms, options["fail_on"], options["strict"], known)
    runs: list[TargetRun] = []
    interrupted = _judge(launches, cases, catalog, plan, runs, errors)
    for run in runs:
        console.print(target_summary(run) if options["quiet"] else target_report(run, catalog.requirements))
    old = stale(known, catalog.cases, [result for run in runs for result in run.results])
    if options["update_known_failures"]:
        _update_known(options["known_failures"], known, runs, [entry for entry, _ in old])
        console.print(f"{options['known_failures']}: updated", markup=False)
        old = []
    for entry, why in old:
        console.print(f"stale known failure {entry.id} (line {entry.line}): {why}", markup=False)
    _write_files(options, runs, [(entry.id, why) for entry, why in old])
    return INTERRUPTED if interrupted else _status(runs, stale_entries=bool(old))


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
        with _progress(errors) as progress:
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
    except KeyboardInterrupt:
        return True
    return False


@contextmanager
def _progress(errors: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield progress


def _status(runs: Sequence[TargetRun], *, stale_entries: bool) -> int:
    """3 before 1: a target that could not be judged, or one that broke the protocol, says more than a failure."""
    faults = any(result.verdict.kind is Kind.PROTOCOL for run in runs for result in run.results)
    if faults or any(run.problem or not run.judged for run in runs):
        return NOT_STARTED
    failures = any(result.counts and not result.known for run in runs for result in run.results)
    return FAILED if failures or stale_entries else OK


# --- cases --------------------------------------------------------------------------------------------


def _collect(catalog: Catalog, options: dict[str, Any]) -> list[Case]:
    if options["ad_hoc"] is not None:
        return [ad_hoc_case(options["ad_hoc"], options["op"], catalog)]
    cases = list(catalog.cases.values())
    if options["as_of"] is not None:
        try:
            cases = as_of(cases, options["as_of"])
        except ValueError:
            raise FileError("--as-of", f"{options['as_of']!r} is no version of the suite, such as 0.1.0") from None
    return select(cases, options["select"])


def parse_hex(given: str) -> bytes:
    """Bytes from hex digits. Raises FileError."""
    try:
        return bytes.fromhex(given)
    except ValueError:
        raise FileError("hex", f"expected hex digits, found {given[:60]!r}") from None


def ad_hoc_case(given: str, op: str, catalog: Catalog) -> Case:
    """A case of the user's own, TYPE:HEX or TYPE:@FILE (with op encode: JSON); the reference says what to expect.

    Raises FileError or codec.UnknownType.
    """
    name, colon, rest = given.partition(":")
    if not colon:
        raise FileError("--case", f"expected TYPE:HEX or TYPE:@FILE, found {given[:60]!r}")
    codec.wire(name)
    origin = rest[1:] if rest.startswith("@") else ""
    if op == "encode":
        return _ad_hoc_encode(name, Path(origin).read_bytes() if origin else rest.encode(), catalog, origin)
    data = Path(origin).read_bytes() if origin else parse_hex(rest)
    expect, requirement = _expected_of_bytes(name, data)
    return _ad_hoc(name, "decode", {"hex": data.hex()}, (expect, requirement), data, catalog, origin)


def _expected_of_bytes(name: str, data: bytes) -> tuple[Expectation, str]:
    """By rule 6 of the decisions: a definite violation is refused, open places leave readings, else the value."""
    read = codec.decode(name, data)
    found = [*read.violations, *read.remarks]
    requirement = found[0].requirement if found else "general.exact-encoding"
    if any(violation.open for violation in read.violations):
        return AnyOf(), requirement
    if read.violations:
        corrupt = requirement == "crc.mismatch-corrupt" and len(read.violations) == 1
        return Refuses("corrupt" if corrupt else None, "corrupt" if corrupt else "malformed"), requirement
    value = Reads(read.value, read.consumed)
    if any(remark.any_value for remark in read.remarks):
        return AnyOf(), requirement
    return (AnyOf((Refuses(), value)) if read.remarks else value), requirement


def _ad_hoc_encode(name: str, text: bytes, catalog: Catalog, origin: str) -> Case:
    try:
        shown = msgspec.json.decode(text)
        value = codec.wire(name).notation.parse(shown)
    except (msgspec.DecodeError, NotationError) as error:
        raise FileError("--case", f"not a value of {name}: {error}") from None
    request = {"value": shown}
    try:
        data = codec.encode(name, value)
    except codec.Unencodable as error:
        expected = (Refuses(None, "invalid-value"), error.requirement)
        return _ad_hoc(name, "encode", request, expected, None, catalog, origin)
    expect: Expectation = Writes(data, LEADER_EPOCH if name == "RECORD_BATCH" else (0, 0))
    if name == "RECORD_BATCH" and value["compression"] != 0:
        free = ("batchLength", "crc", "partitionLeaderEpoch", "attributes")
        expect = WritesAs({key: entry for key, entry in codec.decode(name, data).value.items() if key not in free})
    return _ad_hoc(name, "encode", request, (expect, "general.exact-encoding"), data, catalog, origin)


def _ad_hoc(
    name: str,
    op: Any,
    request: dict[str, Any],
    expected: tuple[Expectation, str],
    data: bytes | None,
    catalog: Catalog,
    origin: str,
) -> Case:
    expect, rule = expected
    requirement = catalog.requirements.get(rule) or catalog.requirements["general.exact-encoding"]
    digest = hashlib.sha256(data if data is not None else json.dumps(request).encode()).hexdigest()[:12]
    codecs, magics = codecs_and_magics(name, data) if data else (frozenset(), frozenset())
    return Case(
        f"bytes/{name}/{digest}",
        op,
        name,
        requirement.id,
        requirement.level,
        {"op": op, "type": name, **request},
        expect,
        data,
        disputed=requirement.disputed(op),
        codecs=codecs,
        magics=magics,
        origin=origin,
        kind="generated",
    )


# --- files --------------------------------------------------------------------------------------------


def _reads_known(options: dict[str, Any]) -> bool:
    path = options["known_failures"]
    if options["update_known_failures"] and path is None:
        raise FileError("--update-known-failures", "name the file with --known-failures")
    return path is not None and not (options["update_known_failures"] and not path.exists())


def _check_writable(options: dict[str, Any]) -> None:
    """Find out before the run whether the reports can be written."""
    for name in ("junit", "json_file"):
        path = options[name]
        if path is not None:
            path.open("ab").close()


def _write_files(options: dict[str, Any], runs: Sequence[TargetRun], old: list[tuple[str, str]]) -> None:
    if options["json_file"] is not None:
        report = msgspec.json.format(msgspec.json.encode(as_json(runs)), indent=1)
        options["json_file"].write_bytes(report + b"\n")
    if options["junit"] is not None:
        options["junit"].write_text(as_junit(runs, old), encoding="utf-8")


def _update_known(path: Path, known: Sequence[Known], runs: Sequence[TargetRun], gone: Sequence[Known]) -> None:
    """Write the list anew, and take what it now names as known."""
    import yaml

    results = [result for run in runs for result in run.results]
    rows = updated(known, results, gone)
    text = yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=1000) if rows else "[]\n"
    path.write_text(text, encoding="utf-8")
    for run in runs:
        run.results[:] = [replace(result, known=True) if result.counts else result for result in run.results]
