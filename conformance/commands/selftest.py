"""`conformance selftest`: whether the suite notices seeded defects, each switched on alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.table import Table

from conformance import __version__
from conformance.catalog.vector_files import VECTORS, read_requirements
from conformance.commands import options as shared
from conformance.errors import ExitStatus
from conformance.files.atomic import check_writable, replace_text
from conformance.reports.console import open_console
from conformance.reports.progress import progress_bar
from conformance.selftest import FAULTS
from conformance.selftest.runner import FaultTrial, trials

_SHARE = 0.97
"""The share of the defects that must be caught."""


@click.command("selftest")
@click.option(
    "--area",
    "areas",
    multiple=True,
    type=click.Choice(sorted({fault.area for fault in FAULTS.values()})),
    help="Only the defects of this area; repeatable.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=min(4, os.cpu_count() or 1),
    show_default=True,
    help="Processes at once.",
)
@click.option("--json", "json_file", type=shared.PATH, metavar="FILE", help="Write every defect as JSON.")
@click.option("-v", "verbose", is_flag=True, help="Name each fault, with the case that catches it.")
def command(areas: tuple[str, ...], jobs: int, json_file: Path | None, *, verbose: bool) -> ExitStatus:
    """Judge the suite itself: switch seeded defects on, one at a time, and see whether a case fails.

    A defect is a reader or writer that is wrong in one way: against a requirement, or as somebody met it in the field.
    It is caught by the first case that fails at must or should (for a violation, at the level of its requirement).

    Exit status: 0 when 97 % are caught and each survivor is explained, 1 otherwise.
    """
    check_writable([json_file] if json_file else [])
    names = [fault.id for fault in FAULTS.values() if not areas or fault.area in areas]
    begun = time.monotonic()
    done = list(_watched(names, jobs))
    if json_file:
        replace_text(json_file, json.dumps(as_json(done), indent=1) + "\n")
    if verbose:
        click.echo("\n".join(_line(one) for one in done))
    _show(done)
    click.echo(f"{summary(done)}, {time.monotonic() - begun:.0f} s")
    return ExitStatus.OK if proves(done) else ExitStatus.FAILED


def _watched(names: Sequence[str], jobs: int) -> Iterator[FaultTrial]:
    """What comes of each fault, with the progress shown."""
    with progress_bar(open_console(err=True)) as bar:
        yield from bar.track(trials(names, jobs), total=len(names), description="defects")


# --- what came of them --------------------------------------------------------------------------------


def proves(done: Sequence[FaultTrial]) -> bool:
    """Whether enough defects are caught, and what is said of survivors is said of all of them and of no other."""
    caught = sum(bool(one.caught_by) for one in done)
    explained = all(bool(one.caught_by) is not bool(FAULTS[one.fault].survives_because) for one in done)
    return explained and caught >= _SHARE * len(done)


def summary(done: Sequence[FaultTrial]) -> str:
    """How many are caught."""
    caught = sum(bool(one.caught_by) for one in done)
    return f"{caught} of {len(done)} seeded defects are caught ({caught / len(done):.1%})"


def _tally(done: Sequence[FaultTrial]) -> dict[str, tuple[int, int]]:
    """By area, how many are caught and how many there are."""
    areas = sorted({FAULTS[one.fault].area for one in done})
    by_area = {area: [one for one in done if FAULTS[one.fault].area == area] for area in areas}
    return {area: (sum(bool(one.caught_by) for one in ours), len(ours)) for area, ours in by_area.items()}


def as_json(done: Sequence[FaultTrial]) -> dict[str, object]:
    """What came of the defects as plain data."""
    return {
        "suite": {"name": "kafka-conformance", "version": __version__},
        "summary": {area: {"caught": caught, "defects": total} for area, (caught, total) in _tally(done).items()},
        "defects": [
            {
                "id": one.fault,
                "area": FAULTS[one.fault].area,
                "says": _says(one.fault),
                "source": FAULTS[one.fault].source,
                "caughtBy": one.caught_by or None,
                "why": FAULTS[one.fault].survives_because,
            }
            for one in done
        ],
    }


# --- in words -----------------------------------------------------------------------------------------


def _says(name: str) -> str:
    """What a defect does wrong."""
    fault = FAULTS[name]
    return fault.description or f"breaks: {read_requirements(VECTORS / 'requirements.yaml')[fault.source].statement}"


def _line(one: FaultTrial) -> str:
    return f"{one.fault}  {f'caught by {one.caught_by}' if one.caught_by else 'survived'}"


def _problem(one: FaultTrial) -> str:
    """What is to be said of a defect besides that it was caught; empty where nothing is."""
    fault = FAULTS[one.fault]
    if one.caught_by:
        return f"explained although {one.caught_by} catches it: {fault.id}" if fault.survives_because else ""
    reason = fault.survives_because or "no reason is given"
    return f"survived: {fault.id}: {_says(fault.id)}\n  {reason} ({fault.source})"


def _show(done: Sequence[FaultTrial]) -> None:
    """A row for each area, then what is to be said of single defects."""
    table = Table("area", box=None, header_style="dim")
    for name in ("defects", "caught", "survived"):
        table.add_column(name, justify="right")
    for area, (caught, total) in _tally(done).items():
        table.add_row(area, str(total), str(caught), str(total - caught))
    console = open_console()
    console.print(table)
    for one in done:
        if problem := _problem(one):
            console.print(problem, markup=False)
