"""`conformance lint`: checks message definitions, and their evolution."""

from __future__ import annotations

import json
from pathlib import Path

import click

from conformance.commands import options as shared
from conformance.definitions.files import DefinitionError
from conformance.definitions.lint import as_json, counts, levels, lint, summary
from conformance.exit_status import ExitStatus


@click.command("lint")
@click.argument("path", type=shared.PATH)
@click.option("--against", type=shared.PATH, metavar="OLD", help="The definitions of an older release.")
@shared.fail_on
@click.option("--strict", is_flag=True, help="Findings where the document is silent count too.")
@click.option("--json", "json_file", type=shared.PATH, metavar="FILE", help="Write every finding as JSON.")
def command(path: Path, against: Path | None, *, fail_on: str, strict: bool, json_file: Path | None) -> ExitStatus:
    """Check message definitions, and with --against what became of older ones.

    PATH and OLD are a folder, a file, or a jar, wheel or zip.
    Exit status: 0 nothing that counts, 1 findings, 2 wrong usage or no definitions.
    """
    try:
        findings = levels(lint(path, against))
    except DefinitionError as error:
        click.echo("\n".join(f"conformance: {finding}" for finding in error.findings), err=True)
        return error.exit_status
    if json_file:
        json_file.write_text(json.dumps(as_json(findings), indent=1) + "\n", encoding="utf-8")
    for finding, level in findings:
        click.echo(finding.text(level))
    click.echo(summary(findings))
    failed = any(counts(level, fail_on=fail_on, strict=strict) for _, level in findings)
    return ExitStatus.FAILED if failed else ExitStatus.OK
