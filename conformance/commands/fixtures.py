"""`conformance fixtures`: writes the vectors as binary files."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.commands import options as shared
from conformance.runner.fixtures import write_fixtures


@click.command("fixtures")
@click.argument("folder", metavar="DIR", type=shared.PATH)
def command(folder: Path) -> None:
    """Write all vectors with bytes and the covering sets as binary files, with a manifest."""
    click.echo(f"{folder}: {write_fixtures(folder)} fixtures")
