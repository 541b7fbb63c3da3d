"""`conformance run`: judges one or several targets, reports, and says how it went."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import click

from conformance.commands import options as shared
from conformance.errors import ExitStatus, UsageError
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import BrokerOptions, target_spec
from conformance.targets.target import TargetSpec, loaded_once


def _the_only(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """What is given of an option. Raises UsageError where that is more than one."""
    if len(given) > 1:
        raise UsageError(parameter.opts[0], f"given {len(given)} times, and a run has one")
    return given[0] if given else None


@click.command("run")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--select", multiple=True, metavar="PATTERN", help="Glob over case ids, or type:…, requirement:…, level:…."
)
@click.option(
    "--case",
    multiple=True,  # of an option that is none, the last one would be judged, and the others passed over
    callback=_the_only,
    metavar="TYPE:HEX|TYPE:@FILE",
    help="One case of your own; the reference says what to expect.",
)
@click.option(
    "--op",
    type=click.Choice(["decode", "encode", "read", "convert", "sequence", "append", "exchange"]),
    default="decode",
    help="What to do with --case: decode bytes; the others take JSON.",
)
@shared.vectors
@click.option("--as-of", metavar="VERSION", help="Only the cases that this release of the suite had.")
@click.option(
    "--generated",
    type=click.IntRange(0, 1_000_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Generated cases per type.",
)
@shared.seed
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=min(4, os.cpu_count() or 1),
    show_default=True,
    help="Processes of a target at once.",
)
@shared.timeout
@shared.memory
@shared.growth
@shared.python
@shared.definitions
@shared.known_failures
@click.option("--update-known-failures", is_flag=True, help="Write new failures to that file, drop stale entries.")
@click.option(
    "--save-failures",
    type=shared.PATH,
    metavar="DIR",
    help="Write each distinct generated failure as a vector.",
)
@shared.clean
@shared.log_dir
@shared.follow_redirects
@shared.fail_on
@shared.basis
@shared.strict
@shared.report_files
@shared.json_schema
@shared.quiet
@click.option("--verbose", "-v", count=True, help="An example of every cause; twice: every failing case.")
def command(**given: Any) -> ExitStatus:
    """Judge one or several targets.

    TARGET is reference, the name of a bundled adapter, module:dotted.name, module:./file.py, command:COMMAND LINE,
    live:NAME (a client), broker:HOST:PORT, broker:./broker.yaml or broker:NAME (a broker).
    Exit status: 0 conforms, 1 failures, 2 wrong usage or files, 3 a target could not be judged,
    130 interrupted.
    """
    with ExitStack() as stack:
        begun = tuple(stack.enter_context(loaded_once(target)) for target in _targets(given))
        # What judges is much code: it is loaded while the targets are.
        from conformance.commands.run_pipeline import run_targets

        return run_targets(begun, given)


def _targets(given: shared.Given) -> tuple[TargetSpec, ...]:
    """The targets that are named, each once. Raises UsageError, FileError or UnknownTarget."""
    allowance = ResourceLimits(timeout=given["timeout"], memory=given["memory"], base_memory_growth=given["growth"])
    names = dict.fromkeys(given["targets"])
    asked = [name for name in names if name.startswith("broker:")]
    if given["clean"] and not asked:
        raise UsageError("--clean", "only brokers are left with something; name one, broker:HOST:PORT")
    if given["log_dir"] and len(asked) != 1:
        raise UsageError("--log-dir", f"it is the folder of one broker; there are {len(asked)} among the targets")
    if given["follow_redirects"] and not asked:
        raise UsageError("--follow-redirects", "expected a broker among the targets, broker:HOST:PORT")
    broker = BrokerOptions(given["log_dir"], given["follow_redirects"])
    return tuple(target_spec(name, given["python"], allowance, given["jobs"], broker) for name in names)
