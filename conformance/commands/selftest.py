"""`conformance selftest`: tests the suite with seeded faults, one at a time."""

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
"""The share of the faults that the cases must catch."""


@click.command("selftest")
@click.option(
    "--area",
    "areas",
    multiple=True,
    type=click.Choice(sorted({defect.area for defect in FAULTS.values()})),
    help="Only the faults of this area; repeatable.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=min(4, os.cpu_count() or 1),
    show_default=True,
    help="Parallel processes.",
)
@click.option("--json", "json_file", type=shared.PATH, metavar="FILE", help="Write every fault as JSON.")
@click.option("-v", "verbose", is_flag=True, help="List each fault with the case that catches it.")
def command(areas: tuple[str, ...], jobs: int, json_file: Path | None, *, verbose: bool) -> ExitStatus:
    """Test the suite itself: enable seeded faults, one at a time, and check that a case fails.

    A fault makes a reader or writer wrong in one way: it breaks one requirement, or repeats a published bug. The first
    case that fails at must or should catches it; for a fault of a requirement, at the level of the requirement.

    Exit status: 0 if 97 % are caught and each survivor is explained, else 1.
    """
    check_writable([json_file] if json_file else [])
    names = [fault.id for fault in FAULTS.values() if not areas or fault.area in areas]
    start = time.monotonic()
    done = list(_watched(names, jobs))
    if json_file:
        replace_text(json_file, json.dumps(as_json(done), indent=1) + "\n")
    if verbose:
        click.echo("\n".join(_line(one) for one in done))
    _show(done)
    click.echo(f"{summary(done)}, {time.monotonic() - start:.0f} s")
    return ExitStatus.OK if proves(done) else ExitStatus.FAILED


def _watched(names: Sequence[str], jobs: int) -> Iterator[FaultTrial]:
    """Yield the result of each fault and show the progress."""
    with progress_bar(open_console(err=True)) as bar:
        yield from bar.track(trials(names, jobs), total=len(names), description="faults")


# --- results ------------------------------------------------------------------------------------------


def proves(done: Sequence[FaultTrial]) -> bool:
    """Return True if 97 % are caught, each survivor has an explanation, and no caught fault has one."""
    caught = sum(bool(one.caught_by) for one in done)
    explained = all(bool(one.caught_by) is not bool(FAULTS[one.fault].survives_because) for one in done)
    return explained and caught >= _SHARE * len(done)


def summary(done: Sequence[FaultTrial]) -> str:
    """Return the number and the share of caught faults."""
    caught = sum(bool(one.caught_by) for one in done)
    return f"{caught} of {len(done)} seeded faults are caught ({caught / len(done):.1%})"


def _tally(done: Sequence[FaultTrial]) -> dict[str, tuple[int, int]]:
    """Return the number of caught faults and of all faults, by area."""
    areas = sorted({FAULTS[one.fault].area for one in done})
    by_area = {area: [one for one in done if FAULTS[one.fault].area == area] for area in areas}
    return {area: (sum(bool(one.caught_by) for one in ours), len(ours)) for area, ours in by_area.items()}


def as_json(done: Sequence[FaultTrial]) -> dict[str, object]:
    """Return the results as data for the JSON file."""
    return {
        "suite": {"name": "kafka-conformance", "version": __version__},
        "summary": {area: {"caught": caught, "faults": total} for area, (caught, total) in _tally(done).items()},
        "faults": [
            {
                "id": one.fault,
                "area": FAULTS[one.fault].area,
                "says": _description(one.fault),
                "source": FAULTS[one.fault].source,
                "caughtBy": one.caught_by or None,
                "why": FAULTS[one.fault].survives_because,
            }
            for one in done
        ],
    }


# --- text ---------------------------------------------------------------------------------------------


def _description(name: str) -> str:
    defect = FAULTS[name]
    return defect.description or f"breaks: {read_requirements(VECTORS / 'requirements.yaml')[defect.source].statement}"


def _line(one: FaultTrial) -> str:
    return f"{one.fault}  {f'caught by {one.caught_by}' if one.caught_by else 'survived'}"


def _problem(one: FaultTrial) -> str:
    """Return a text for a fault that survived, or that is caught although it has an explanation; else empty."""
    defect = FAULTS[one.fault]
    if one.caught_by:
        return f"explained although {one.caught_by} catches it: {defect.id}" if defect.survives_because else ""
    reason = defect.survives_because or "no explanation"
    return f"survived: {defect.id}: {_description(defect.id)}\n  {reason} ({defect.source})"


def _show(done: Sequence[FaultTrial]) -> None:
    """Print a row for each area, then the problems of single faults."""
    table = Table("area", box=None, header_style="dim")
    for name in ("faults", "caught", "survived"):
        table.add_column(name, justify="right")
    for area, (caught, total) in _tally(done).items():
        table.add_row(area, str(total), str(caught), str(total - caught))
    console = open_console()
    console.print(table)
    for one in done:
        if problem := _problem(one):
            console.print(problem, markup=False)
