"""`conformance show`: shows one case with its bytes, expected result and requirement."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cases.model import Case
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.codec.hex_dump import annotate
from conformance.commands import options as shared
from conformance.errors import UserError
from conformance.reports.console import open_console
from conformance.reports.explain import expected_text
from conformance.reports.hex_view import case_report


@click.command("show")
@click.argument("case_id", metavar="CASE")
@shared.vectors
def command(case_id: str, vectors: tuple[Path, ...]) -> None:
    """Show one vector or generated case: its bytes field by field, the expected result, the requirement."""
    catalog = read_catalog(vectors)
    case = catalog.cases[case_id] if case_id in catalog.cases else _generated(case_id, catalog)
    lines = annotate(case.wire, case.data)[1] if case.data is not None else []
    requirement = catalog.requirements[case.requirement]
    open_console().print(case_report(case, requirement, lines, expected_text(case)))


def _generated(case_id: str, catalog: Catalog) -> Case:
    """Return the generated case of an id. Raises UserError for an unknown id, and UnknownType."""
    from conformance.runner.selection import no_case_matches
    from conformance.strategies.seeded.cases import case_of

    for case in case_of(case_id, catalog):
        return case
    raise UserError(no_case_matches(case_id, catalog))
