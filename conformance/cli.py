"""The command line: parses, calls, and turns outcomes into exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conformance import __version__
from conformance.errors import ConformanceError, MachineError
from conformance.exit_status import ExitStatus
from conformance.reports.formats import FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from conformance.cases.catalog import Catalog
    from conformance.cases.model import Case


def _one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an error of the suite's own into one line and its exit status."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        status = ExitStatus.WRONG_INPUT
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            sys.exit(ExitStatus.INTERRUPTED)
        except ConformanceError as error:
            click.echo(f"conformance: {error}", err=True)
            status = error.exit_status
        except BrokenPipeError:
            # Whoever read our output is gone; that is no failure of ours.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            click.echo(f"conformance: {error.filename or 'i/o'}: {error.strerror}", err=True)
        sys.exit(status)

    return wrapped


def _on_spark(command: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse where Spark is not installed. Raises MachineError."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            for name in ("pyarrow", "pyspark"):
                import_module(name)
        except ImportError as error:
            problem = f"{error.name} is not installed: pip install 'kafka-conformance[spark]'"
            raise MachineError(problem) from None
        return command(*args, **kwargs)

    return wrapped


def _console(*, err: bool = False) -> Console:
    from conformance.reports.console import PatientConsole

    console = PatientConsole(stderr=err, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = 140
    return console


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="conformance")
def main() -> None:
    """Judge decoders and encoders of the Apache Kafka wire format, requirement by requirement."""


# --- options that several commands have ---------------------------------------------------------------

_SEED = click.option("--seed", default="0", show_default=True, metavar="N|random", help="Of the generated cases.")
_TIMEOUT = click.option(
    "--timeout", type=click.FloatRange(0.05, 3600), default=5.0, show_default=True, help="Seconds for an answer."
)
_MEMORY = click.option(
    "--memory", type=click.IntRange(16), default=1024, show_default=True, help="MiB for a target and its children."
)
_PYTHON = click.option("--python", metavar="PATH", help="Interpreter for module targets.")
_DEFINITIONS = click.option(
    "--definitions",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Message definitions: a folder, a file, or a jar or zip that holds them.",
)
_KNOWN_FAILURES = click.option(
    "--known-failures",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="YAML list of {id, reason} that do not count.",
)
_FAIL_ON = click.option(
    "--fail-on",
    type=click.Choice(["must", "should"]),
    default="must",
    show_default=True,
    help="Lowest level that counts.",
)
_STRICT = click.option("--strict", is_flag=True, help="Disputed failures count too.")
_QUIET = click.option("--quiet", "-q", is_flag=True, help="Only the tables.")


def _report_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option per report format; it gets the paths as `files`, by the name of the format."""

    @wraps(command)
    def wrapped(**options: Any) -> Any:
        paths = {form.name: options.pop(f"{form.name}_report") for form in FORMATS}
        return command(**options, files={name: path for name, path in paths.items() if path is not None})

    for form in reversed(FORMATS):
        path = click.Path(path_type=Path)
        wrapped = click.option(f"--{form.name}", f"{form.name}_report", type=path, metavar="FILE", help=form.help)(
            wrapped
        )
    return wrapped


# --- run ----------------------------------------------------------------------------------------------


@main.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--select", multiple=True, metavar="PATTERN", help="Glob over case ids, or type:…, requirement:…, level:…."
)
@click.option(
    "--case", "ad_hoc", metavar="TYPE:HEX|TYPE:@FILE", help="One case of your own; the reference says what to expect."
)
@click.option(
    "--op",
    type=click.Choice(["decode", "encode", "read", "convert", "sequence"]),
    default="decode",
    help="What to do with --case: decode bytes; the others take JSON.",
)
@click.option(
    "--vectors", multiple=True, type=click.Path(path_type=Path), metavar="DIR", help="A further folder of vectors."
)
@click.option("--as-of", metavar="VERSION", help="Only the cases that this release of the suite had.")
@click.option(
    "--generated", type=click.IntRange(0), default=200, show_default=True, metavar="N", help="Generated cases per type."
)
@_SEED
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=min(4, os.cpu_count() or 1),
    show_default=True,
    help="Processes of a target at once.",
)
@_TIMEOUT
@_MEMORY
@_PYTHON
@_DEFINITIONS
@_KNOWN_FAILURES
@click.option("--update-known-failures", is_flag=True, help="Write new failures to that file, drop stale entries.")
@click.option(
    "--save-failures",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write each distinct generated failure as a vector.",
)
@_FAIL_ON
@_STRICT
@_report_files
@_QUIET
@_one_line_errors
def run(targets: tuple[str, ...], **options: Any) -> None:
    """Judge one or several targets.

    TARGET is reference, the name of a bundled adapter, module:dotted.name, module:./file.py or command:COMMAND LINE.
    Exit status: 0 conforms, 1 failures, 2 wrong usage or files, 3 a target could not be judged.
    """
    import signal

    from conformance.commands.judging import judge_all

    # Told to stop by `timeout` or a CI job, it ends its targets and reports as if by hand.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(judge_all(targets, options, _console(), _console(err=True)))


@main.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--cases", type=click.IntRange(1), required=True, metavar="N", help="Generated cases, over all types.")
@_SEED
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The campaign's folder; one that was begun there goes on.",
)
@click.option("--master", metavar="URL", help="Spark's master: local[N], spark://…  [local[*]]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark.")
@click.option("--select", multiple=True, metavar="type:…", help="Only these types; a glob.")
@click.option(
    "--corpus",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Vectors of an earlier campaign, to be judged first.",
)
@_TIMEOUT
@_MEMORY
@_PYTHON
@_DEFINITIONS
@_KNOWN_FAILURES
@_FAIL_ON
@_STRICT
@_report_files
@_QUIET
@_one_line_errors
@_on_spark
def campaign(targets: tuple[str, ...], **options: Any) -> None:
    """Judge targets on millions of generated cases, on Spark.

    Killed and started again with the same --out, it goes on. Exit status: as run.
    """
    import signal

    from conformance.pipeline.campaign.driver import run_campaign

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run_campaign(targets, options, _console(), _console(err=True)))


@main.command()
@click.argument("target")
@click.option("--python", metavar="PATH", help="Interpreter for a module target.")
@_DEFINITIONS
@_one_line_errors
def serve(target: str, python: str | None, definitions: Path | None) -> None:
    """Speak the target protocol on standard input and output for the reference or a Python module."""
    from conformance.commands.judging import known_definitions
    from conformance.targets.resolve import UnknownTarget, resolve
    from conformance.targets.serving import serve_reference

    if target == "reference":
        known_definitions(definitions)
        serve_reference(sys.stdin.buffer, sys.stdout.buffer)
        return
    launch = resolve(target, python)
    if target.startswith("command:"):
        raise UnknownTarget(f"{target} speaks the protocol already")
    os.execvpe(launch.command[0], launch.command, {**os.environ, **launch.env})  # noqa: S606 - becomes the target


@main.command()
@click.argument("target")
@click.option("--python", metavar="PATH", help="Interpreter for a module target.")
@_one_line_errors
def doctor(target: str, python: str | None) -> None:
    """Check an adapter before it judges its target."""
    from conformance.running.doctor import examine
    from conformance.targets.resolve import resolve

    healthy = True
    for finding in examine(None if target == "reference" else resolve(target, python)):
        healthy &= finding.good
        click.echo(
            f"{'ok  ' if finding.good else 'FAIL'}  {finding.what}{': ' + finding.detail if finding.detail else ''}"
        )
    sys.exit(ExitStatus.OK if healthy else ExitStatus.NOT_JUDGED)


@main.command(name="targets")
@click.option("--setup", metavar="NAME", help="Set an adapter up: build what it needs.")
@_one_line_errors
def list_targets(setup: str | None) -> None:
    """List the bundled adapters, and what is missing where one cannot run."""
    import subprocess

    from rich.table import Table

    from conformance.targets.resolve import UnknownTarget, adapters, set_up

    known = adapters()
    if setup is not None:
        if setup not in known:
            raise UnknownTarget(f"there is no adapter {setup!r}: there are {', '.join(known)}")
        try:
            for step in set_up(known[setup]):
                click.echo(step)
        except subprocess.CalledProcessError as error:
            click.echo(f"conformance: setting up {setup} failed: {error}", err=True)
            sys.exit(ExitStatus.NOT_JUDGED)
        return
    table = Table("target", "language", "state", "judges", box=None, header_style="dim")
    table.add_row("reference", "python", "ready", "the suite's own codec")
    for adapter in known.values():
        lacking = adapter.missing()
        table.add_row(
            adapter.name, adapter.language, "lacks " + ", ".join(lacking) if lacking else "ready", adapter.about
        )
    _console().print(table)


# --- looking things up --------------------------------------------------------------------------------


@main.command(name="list")
@click.option("--requirements", is_flag=True, help="List requirements, and the cases that cover each.")
@click.option("--select", multiple=True, metavar="PATTERN", help="As in run.")
@click.option(
    "--vectors", multiple=True, type=click.Path(path_type=Path), metavar="DIR", help="A further folder of vectors."
)
@_one_line_errors
def list_cases(*, requirements: bool, select: tuple[str, ...], vectors: tuple[Path, ...]) -> None:
    """List cases, or requirements with level, document section and cases."""
    from conformance.cases.catalog import read_catalog
    from conformance.cases.catalog import select as selected

    catalog = read_catalog(vectors)
    chosen = selected(catalog.cases.values(), select)
    if not chosen:
        _no_case(select)
    if requirements:
        _list_requirements(catalog, chosen, narrowed=bool(select))
        return
    for case in chosen:
        click.echo(f"{case.id}\t{case.op}\t{case.type}\t{case.level}\t{case.requirement}")


def _list_requirements(catalog: Catalog, chosen: Sequence[Case], *, narrowed: bool) -> None:
    covering = catalog.covering()
    ids = {case.id for case in chosen}
    for name, requirement in catalog.requirements.items():
        cases = [case for case in covering[name] if case in ids]
        if narrowed and not cases:
            continue
        means = [tool for tool in ("lint", "scan") if tool in requirement.tests]
        uncovered = f"by conformance {means[0]}" if means else "no case yet"
        why_not = uncovered if requirement.testable else f"not testable: {requirement.why}"
        state = f"{len(cases)} cases" if cases else why_not
        click.echo(f"{name}\t{requirement.level}\t{', '.join(requirement.source)}\t{state}\t{' '.join(cases)}")


def _no_case(select: Sequence[str]) -> None:
    click.echo(f"conformance: no case matches {' or '.join(map(repr, select))} (see `conformance list`)", err=True)
    sys.exit(ExitStatus.WRONG_INPUT)


@main.command()
@click.argument("case_id", metavar="CASE")
@click.option(
    "--vectors", multiple=True, type=click.Path(path_type=Path), metavar="DIR", help="A further folder of vectors."
)
@_one_line_errors
def show(case_id: str, vectors: tuple[Path, ...]) -> None:
    """Show one case: its bytes field by field, what is expected, and why."""
    from conformance.cases.catalog import read_catalog
    from conformance.codec.dump import annotate
    from conformance.reports.explain import expected_text
    from conformance.reports.text import case_report

    catalog = read_catalog(vectors)
    if case_id not in catalog.cases:
        _no_case([case_id])
    case = catalog.cases[case_id]
    lines = annotate(case.type, case.data)[1] if case.data is not None else []
    expected = expected_text(case)
    _console().print(case_report(case, catalog.requirements[case.requirement], lines, expected))


@main.command()
@click.option(
    "--type", "name", required=True, metavar="T", help="Such as RECORD_BATCH, ARRAY<INT32>, MESSAGE<FetchRequest,12>."
)
@click.argument("given", metavar="HEX|@FILE|-")
@_DEFINITIONS
@_one_line_errors
def explain(name: str, given: str, definitions: Path | None) -> None:
    """Annotate any bytes by the reference codec, with every violation and remark."""
    from conformance.codec.dump import annotate
    from conformance.commands.judging import known_definitions
    from conformance.reports.text import dump

    known_definitions(definitions)
    data = _given_bytes(given)
    read, lines = annotate(name, data)
    console = _console()
    console.print(dump(lines))
    if read.ok:
        console.print(
            f"a value of {read.consumed} bytes" + (f", {len(read.remarks)} open places" if read.remarks else "")
        )
    else:
        console.print(f"no value: {read.violations[0]}", markup=False)


def _given_bytes(given: str) -> bytes:
    """Bytes from hex digits, from a file (`@FILE`, raw), or from standard input (`-`, raw)."""
    from conformance.commands.judging import parse_hex

    if given == "-":
        return sys.stdin.buffer.read()
    return Path(given[1:]).read_bytes() if given.startswith("@") else parse_hex(given)


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_one_line_errors
def fixtures(folder: Path) -> None:
    """Write golden binary fixtures: the vectors with bytes, a covering set of batches, and a manifest."""
    from conformance.running.fixtures import write_fixtures

    click.echo(f"{folder}: {write_fixtures(folder)} fixtures")


# --- stored logs --------------------------------------------------------------------------------------


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, metavar="DIR", help="Where findings and summary go: a new folder, or a URI.")
@click.option("--master", metavar="URL", help="Spark's master: local[N], spark://…  [local[*]]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark.")
@click.option(
    "--uncompacted",
    multiple=True,
    metavar="TOPIC",
    help="Topics (a glob) that were never compacted: a gap in a producer's numbers is a loss there.",
)
@click.option(
    "--split-size",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Larger segments are cut into parts of this size.",
)
@_FAIL_ON
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the summary as JSON.")
@_QUIET
@_one_line_errors
@_on_spark
def scan(paths: tuple[str, ...], **options: Any) -> None:
    """Check stored log segments, batch by batch, on Spark.

    PATH is a segment or a folder of them, at any depth; s3://…, hdfs://… and whatever else pyarrow reaches will do.
    Exit status: 0 nothing that counts, 1 findings, 2 wrong usage or a file that could not be read.
    """
    import signal

    from conformance.pipeline.audit.scan import run_scan

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run_scan(paths, options, _console(), _console(err=True)))


# --- message definitions ------------------------------------------------------------------------------


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), metavar="OLD", help="The definitions of an older release.")
@_FAIL_ON
@click.option("--strict", is_flag=True, help="Findings where the document is silent count too.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write every finding as JSON."
)
@_one_line_errors
def lint(path: Path, against: Path | None, *, fail_on: str, strict: bool, json_file: Path | None) -> None:
    """Check message definitions, and with --against what became of older ones.

    PATH and OLD are a folder, a file, or a jar, wheel or zip.
    Exit status: 0 nothing that counts, 1 findings, 2 wrong usage or no definitions.
    """
    import json

    from conformance.definitions.files import DefinitionError
    from conformance.definitions.lint import as_json, counts, levels, summary
    from conformance.definitions.lint import lint as examine

    try:
        found = levels(examine(path, against))
    except DefinitionError as error:
        click.echo("\n".join(f"conformance: {finding}" for finding in error.findings), err=True)
        sys.exit(ExitStatus.WRONG_INPUT)
    if json_file:
        json_file.write_text(json.dumps(as_json(found), indent=1) + "\n", encoding="utf-8")
    for finding, level in found:
        click.echo(finding.text(level))
    click.echo(summary(found))
    sys.exit(
        ExitStatus.FAILED if any(counts(level, fail_on=fail_on, strict=strict) for _, level in found) else ExitStatus.OK
    )


# --- vectors ------------------------------------------------------------------------------------------


@main.group(name="vectors")
def vector_files() -> None:
    """Check and format vector files."""


def _files(files: tuple[Path, ...]) -> list[Path]:
    from conformance.cases.catalog import VECTORS
    from conformance.cases.catalog import vector_files as find

    return [file for root in files or (VECTORS,) for file in find(root)]


@vector_files.command(name="check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@_one_line_errors
def check_vectors(files: tuple[Path, ...]) -> None:
    """Hold vector files against the reference codec and their own rules."""
    from conformance.cases.vector_tool import check

    problems = [problem for file in _files(files) for problem in check(file)]
    for problem in problems:
        click.echo(str(problem), err=True)
    click.echo(f"{len(problems)} problems" if problems else "all in order")
    sys.exit(ExitStatus.WRONG_INPUT if problems else ExitStatus.OK)


@vector_files.command(name="fix")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@_one_line_errors
def fix_vectors(files: tuple[Path, ...]) -> None:
    """Format vector files; quote what YAML would misread; recompute lengths and checksums where asked."""
    from conformance.cases.vector_tool import fix

    for file in _files(files):
        if fix(file):
            click.echo(f"{file}: rewritten")
