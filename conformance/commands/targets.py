"""`conformance targets`: lists the bundled adapters, and sets one up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
from rich.table import Table

from conformance.errors import ExitStatus
from conformance.reports.console import open_console
from conformance.targets.manifests import BROKER, DRIVER, AdapterManifest, adapter_in, set_up
from conformance.targets.resolve import UnknownTarget, adapters, brokers, drivers


@click.command("targets")
@click.option(
    "--setup",
    metavar="NAME",
    help="Set up an adapter, or your driver.yaml or broker.yaml: install and build its dependencies.",
)
def command(setup: str | None) -> ExitStatus:
    """List the bundled adapters and their missing dependencies, or set one up."""
    if setup is not None:
        return _set_up(setup)
    table = Table("target", "language", "state", "judges", box=None, header_style="dim")
    table.add_row("reference", "python", "ready", "the codec of the suite")
    for adapter in _bundled():
        missing = adapter.missing()
        state = f"lacks {', '.join(missing)}" if missing else "ready"
        table.add_row(adapter.target, adapter.language, state, adapter.about)
    open_console().print(table)
    return ExitStatus.OK


def _bundled() -> list[AdapterManifest]:
    """Return the bundled adapters, drivers of live clients, and brokers."""
    return [*adapters().values(), *drivers().values(), *brokers().values()]


def _set_up(name: str) -> ExitStatus:
    """Set up an adapter and print each step. Raises UnknownTarget, or FileError for a wrong file."""
    known = {adapter.target: adapter for adapter in _bundled()}
    kind, _, path = name.partition(":")
    if name in known:
        adapter = known[name]
    elif Path(path).name == {"live": DRIVER, "broker": BROKER}.get(kind):
        adapter = adapter_in(Path(path).resolve())
    else:
        names = ", ".join(known)
        raise UnknownTarget(f"unknown adapter {name!r}, expected {names}, live:./{DRIVER} or broker:./{BROKER}")
    try:
        for step in set_up(adapter):
            click.echo(step)
    except subprocess.CalledProcessError as error:
        click.echo(f"conformance: set-up of {name} failed: {error}", err=True)
        return ExitStatus.NOT_JUDGED
    return ExitStatus.OK
