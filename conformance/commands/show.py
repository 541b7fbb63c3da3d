"""`conformance show`: one case with its bytes field by field, what is expected, and why."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cases.catalog import read_catalog
from conformance.codec.dump import annotate
from conformance.commands import options as shared
from conformance.errors import UserError
from conformance.reports.annotated import case_report
from conformance.reports.console import open_console
from conformance.reports.explain import expected_text


@click.command("show")
@click.argument("case_id", metavar="CASE")
@shared.vectors
def command(case_id: str, vectors: tuple[Path, ...]) -> None:
    """Show one case: its bytes field by field, what is expected, and why."""
    catalog = read_catalog(vectors)
    if case_id not in catalog.cases:
        from conformance.running.patterns import no_case_matches

        raise UserError(no_case_matches(case_id, catalog))
    case = catalog.cases[case_id]
    lines = annotate(case.wire, case.data)[1] if case.data is not None else []
    requirement = catalog.requirements[case.requirement]
    open_console().print(case_report(case, requirement, lines, expected_text(case)))
