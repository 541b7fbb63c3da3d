"""`conformance vectors`: checks and formats vector files."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.catalog.vector_files import VECTORS, vector_files
from conformance.catalog.vector_formatter import check, fix
from conformance.commands import options as shared
from conformance.errors import ExitStatus


@click.group("vectors")
def command() -> None:
    """Check and format vector files."""


def _files(roots: tuple[Path, ...]) -> list[Path]:
    return [file for root in roots or (VECTORS,) for file in vector_files(root)]


@command.command("check")
@click.argument("files", nargs=-1, type=shared.PATH)
def check_files(files: tuple[Path, ...]) -> ExitStatus:
    """Check vector files against the reference codec and the rules for vectors."""
    problems = [problem for file in _files(files) for problem in check(file)]
    for problem in problems:
        click.echo(str(problem), err=True)
    click.echo(f"{len(problems)} problems" if problems else "no problems")
    return ExitStatus.WRONG_INPUT if problems else ExitStatus.OK


@command.command("fix")
@click.argument("files", nargs=-1, type=shared.PATH)
def fix_files(files: tuple[Path, ...]) -> None:
    """Format vector files: quote scalars that YAML misreads, and recompute the fields in `recompute`."""
    for file in _files(files):
        if fix(file):
            click.echo(f"{file}: rewritten")
