"""`conformance run`: judges one or several targets and reports the results."""

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
    """Return the value of an option that can be given only once. Raises UsageError."""
    if len(given) > 1:
        raise UsageError(parameter.opts[0], f"can be given only once (found {len(given)})")
    return given[0] if given else None


@click.command("run")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--select", multiple=True, metavar="PATTERN", help="Glob over case ids, or type:…, requirement:…, level:…."
)
@click.option(
    "--case",
    multiple=True,  # otherwise click ignores all but the last one without an error
    callback=_the_only,
    metavar="TYPE:HEX|TYPE:@FILE",
    help="Judge only this ad-hoc case; the reference codec provides the expected result.",
)
@click.option(
    "--op",
    type=click.Choice(["decode", "encode", "read", "convert", "sequence", "append", "exchange"]),
    default="decode",
    help="Operation of --case. decode takes bytes, the others take JSON.",
)
@shared.vectors
@click.option("--as-of", metavar="VERSION", help="Only the cases of this release of the suite.")
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
    help="Parallel processes of a target.",
)
@shared.timeout
@shared.memory
@shared.growth
@shared.python
@shared.definitions
@shared.known_failures
@click.option("--update-known-failures", is_flag=True, help="Add new failures to that file and remove stale entries.")
@click.option(
    "--save-failures",
    type=shared.PATH,
    metavar="DIR",
    help="Write one vector for each cause of generated failures.",
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
@click.option("--verbose", "-v", count=True, help="Show an example of every cause; -vv: every failing case.")
def command(**given: Any) -> ExitStatus:
    """Judge one or several targets.

    TARGET is reference, the name of a bundled adapter, module:dotted.name, module:./file.py, command:COMMAND LINE,
    live:NAME (a client), broker:HOST:PORT, broker:./broker.yaml or broker:NAME (a broker).
    Exit status: 0 conforms, 1 failures, 2 wrong usage or files, 3 a target could not be judged,
    130 interrupted.
    """
    with ExitStack() as stack:
        targets = tuple(stack.enter_context(loaded_once(target)) for target in _targets(given))
        # Importing the judging code takes long, so it overlaps with the start of the targets.
        from conformance.commands.run_pipeline import run_targets

        return run_targets(targets, given)


def _targets(given: shared.Given) -> tuple[TargetSpec, ...]:
    """Return the named targets without duplicates. Raises UsageError, FileError or UnknownTarget."""
    limits = ResourceLimits(timeout=given["timeout"], memory=given["memory"], base_memory_growth=given["growth"])
    names = dict.fromkeys(given["targets"])
    brokers = [name for name in names if name.startswith("broker:")]
    if given["clean"] and not brokers:
        raise UsageError("--clean", "expected a broker target (broker:HOST:PORT), found none")
    if given["log_dir"] and len(brokers) != 1:
        raise UsageError("--log-dir", f"expected exactly one broker target, found {len(brokers)}")
    if given["follow_redirects"] and not brokers:
        raise UsageError("--follow-redirects", "expected a broker target (broker:HOST:PORT), found none")
    broker = BrokerOptions(given["log_dir"], given["follow_redirects"])
    return tuple(target_spec(name, given["python"], limits, given["jobs"], broker) for name in names)
