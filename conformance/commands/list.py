"""`conformance list`: lists cases, or requirements and the cases that cover each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from conformance.cases.catalog import Catalog, Labelled, read_catalog, select
from conformance.cases.vector_files import Requirement
from conformance.commands import options as shared
from conformance.errors import UserError


@click.command("list")
@click.option("--requirements", is_flag=True, help="List requirements, and the cases that cover each.")
@click.option("--select", "patterns", multiple=True, metavar="PATTERN", help="As in run.")
@shared.vectors
def command(*, requirements: bool, patterns: tuple[str, ...], vectors: tuple[Path, ...]) -> None:
    """List cases, or requirements with level, basis, document section and cases."""
    catalog = read_catalog(vectors)
    cases = select(catalog.cases.labels.values(), patterns)
    if not cases:
        from conformance.running.patterns import no_case_matches

        raise UserError(" and ".join(no_case_matches(pattern, catalog) for pattern in patterns))
    if requirements:
        _list_requirements(catalog, cases, narrowed=bool(patterns))
        return
    for case in cases:
        click.echo(f"{case.id}\t{case.op}\t{case.type}\t{case.level}\t{case.requirement}")


def _list_requirements(catalog: Catalog, cases: Sequence[Labelled], *, narrowed: bool) -> None:

    covering = catalog.covering()
    ids = {case.id for case in cases}
    for name, requirement in catalog.requirements.items():
        covered_by = [case for case in covering[name] if case in ids]
        if covered_by or not narrowed:
            state = coverage(name, len(covered_by)) if covered_by else why_no_case(requirement)
            source = ", ".join(requirement.source)
            click.echo(f"{name}\t{requirement.level}\t{requirement.basis}\t{source}\t{state}\t{' '.join(covered_by)}")


def coverage(name: str, count: int) -> str:
    """How many cases a requirement has, and why none of them is known to catch a violation, if so."""
    from conformance.targets.violations import UNPROVEN

    cases = f"{count} cases"
    return f"{cases}, no catch: {UNPROVEN[name]}" if name in UNPROVEN else cases


def why_no_case(requirement: Requirement) -> str:
    """Why a requirement has no case."""
    if requirement.judged_by:
        return f"waits for live mode: only a {requirement.judged_by} at work can break it"
    if not requirement.testable:
        return f"not testable: {requirement.why}"
    tool = next((tool for tool in ("lint", "scan") if tool in requirement.tests), None)
    return f"by conformance {tool}" if tool else "no case yet"
