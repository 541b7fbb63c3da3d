"""`conformance list`: lists cases, or requirements with their cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from conformance.cases.model import CaseSummary
from conformance.cases.operations import ONLY_LIVE
from conformance.cases.requirement import Requirement
from conformance.catalog.catalog import Catalog, select
from conformance.catalog.catalog_builder import read_catalog
from conformance.commands import options as shared
from conformance.errors import UserError

_TOOLS = ("lint", "scan")
"""Commands that check requirements without a target."""


@click.command("list")
@click.option("--requirements", is_flag=True, help="List requirements with their cases.")
@click.option("--select", "patterns", multiple=True, metavar="PATTERN", help="As in run.")
@shared.vectors
def command(*, requirements: bool, patterns: tuple[str, ...], vectors: tuple[Path, ...]) -> None:
    """List cases, or requirements with level, basis, source and cases."""
    catalog = read_catalog(vectors)
    cases = select(catalog.cases.summaries.values(), patterns)
    if not cases:
        from conformance.runner.selection import no_case_matches

        raise UserError(" and ".join(no_case_matches(pattern, catalog) for pattern in patterns))
    if requirements:
        _list_requirements(catalog, cases, narrowed=bool(patterns))
        return
    for case in cases:
        click.echo(f"{case.id}\t{case.op}\t{case.type}\t{case.level}\t{case.requirement}")


def _list_requirements(catalog: Catalog, cases: Sequence[CaseSummary], *, narrowed: bool) -> None:
    covering = catalog.covering()
    listed = {case.id: case for case in cases}
    for name, requirement in catalog.requirements.items():
        covered_by = [listed[case] for case in covering[name] if case in listed]
        if covered_by or not narrowed:
            state = coverage(requirement, covered_by) if covered_by else why_no_case(requirement)
            source = ", ".join(requirement.source)
            row = (name, requirement.level, requirement.basis, source, state, " ".join(case.id for case in covered_by))
            click.echo("\t".join(row))


def coverage(requirement: Requirement, cases: Sequence[CaseSummary]) -> str:
    """Return the number of cases of a requirement, how it is tested, and why a violation stays undetected, if so."""
    from conformance.selftest.requirement_faults import UNTESTED_REQUIREMENTS

    means = sorted({ONLY_LIVE.get(op, "vector") for op in {case.op for case in cases}}, reverse=True)
    means += [tool for tool in _TOOLS if tool in requirement.tests]
    text = f"{len(cases)} cases by {', '.join(means)}"
    reason = UNTESTED_REQUIREMENTS.get(requirement.id)
    return text if reason is None else f"{text}, a violation is not detected: {reason}"


def why_no_case(requirement: Requirement) -> str:
    """Return the reason why a requirement has no case."""
    if not requirement.testable:
        return f"not testable: {requirement.why}"
    tool = next((tool for tool in _TOOLS if tool in requirement.tests), None)
    return f"by conformance {tool}" if tool else "no case yet"
