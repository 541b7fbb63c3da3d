"""`conformance lint`: checks message definitions and their changes between releases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import click

from conformance import __version__
from conformance.cases.requirement import Requirement
from conformance.catalog.vector_files import VECTORS, read_requirements
from conformance.commands import options as shared
from conformance.definitions.findings import LintFinding
from conformance.definitions.lint import lint
from conformance.definitions.loader import DefinitionError
from conformance.errors import ExitStatus
from conformance.files.atomic import check_writable, replace_text


@click.command("lint")
@click.argument("path", type=shared.PATH)
@click.option("--against", type=shared.PATH, metavar="OLD", help="The definitions of an older release.")
@shared.fail_on
@click.option("--strict", is_flag=True, help="Findings without a rule in the documents count too.")
@click.option("--json", "json_file", type=shared.PATH, metavar="FILE", help="Write every finding as JSON.")
def command(path: Path, against: Path | None, *, fail_on: str, strict: bool, json_file: Path | None) -> ExitStatus:
    """Check message definitions; with --against, also their changes since an older release.

    PATH and OLD are a folder, a file, or a jar, wheel or zip.
    Exit status: 0 no finding counts, 1 findings, 2 wrong usage or no definitions.
    """
    check_writable([json_file] if json_file else [])
    try:
        findings = levels(lint(path, against))
    except DefinitionError as error:
        click.echo("\n".join(f"conformance: {finding}" for finding in error.findings), err=True)
        return error.exit_status
    if json_file:
        replace_text(json_file, json.dumps(as_json(findings), indent=1) + "\n")
    for finding, level in findings:
        click.echo(finding.text(level))
    click.echo(summary(findings))
    failed = any(counts(level, fail_on=fail_on, strict=strict) for _, level in findings)
    return ExitStatus.FAILED if failed else ExitStatus.OK


# --- levels of findings -------------------------------------------------------------------------------

OPEN = "open"


@cache
def _register() -> dict[str, Requirement]:
    return read_requirements(VECTORS / "requirements.yaml")


def levels(findings: Iterable[LintFinding]) -> list[tuple[LintFinding, str]]:
    """Return each finding with the level of its requirement, or OPEN if the documents have no rule."""
    return [(finding, OPEN if finding.open else _register()[finding.requirement].level) for finding in findings]


def counts(level: str, *, fail_on: str, strict: bool) -> bool:
    """Return whether a finding of a level results in exit status 1."""
    return level == "must" or (level == "should" and fail_on == "should") or (level == OPEN and strict)


def summary(findings: list[tuple[LintFinding, str]]) -> str:
    """Return the number of findings by level."""
    tally = Counter(level for _, level in findings)
    parts = ", ".join(f"{tally[level]} {level}" for level in ("must", "should", "may", OPEN) if tally[level])
    return f"{len(findings)} finding{'s' * (len(findings) != 1)} ({parts})" if findings else "no findings"


def as_json(findings: list[tuple[LintFinding, str]]) -> dict[str, object]:
    """Return the findings as data for the JSON file."""
    tally = Counter(level for _, level in findings)
    return {
        "suite": {"name": "kafka-conformance", "version": __version__},
        "summary": {level: tally[level] for level in ("must", "should", "may", OPEN)},
        "findings": [
            {
                "file": finding.file,
                "path": finding.path,
                "requirement": finding.requirement,
                "level": level,
                "problem": finding.problem,
            }
            for finding, level in findings
        ],
    }
