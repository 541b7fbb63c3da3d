"""`conformance explain`: decodes bytes with the reference codec."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from conformance.codec.hex_dump import annotate
from conformance.commands import options as shared
from conformance.definitions.loader import types_with
from conformance.reports.console import open_console
from conformance.reports.hex_view import dump


@click.command("explain")
@click.option(
    "--type", "name", required=True, metavar="T", help="RECORD_BATCH, ARRAY<INT32>, MESSAGE<FetchRequest,12>, …"
)
@click.argument("given", metavar="HEX|@FILE|-")
@shared.definitions
def command(name: str, given: str, definitions: Path | None) -> None:
    """Decode bytes with the reference codec and show every field and violation.

    The bytes are hex digits, a binary file (@FILE), or standard input (-).
    """
    types = types_with(shared.read_messages(definitions))
    decoded, lines = annotate(types.wire(name), _bytes(given))
    console = open_console()
    console.print(dump(lines))
    if decoded.ok:
        remarks = f", {len(decoded.remarks)} × unspecified" if decoded.remarks else ""
        console.print(f"a value of {decoded.consumed} bytes{remarks}")
    else:
        console.print(f"no value: {decoded.violations[0]}", markup=False)


def _bytes(given: str) -> bytes:
    """Return the bytes of hex digits, of a binary file (`@FILE`), or of standard input (`-`). Raises UsageError."""
    if given == "-":
        return sys.stdin.buffer.read()
    return Path(given[1:]).read_bytes() if given.startswith("@") else shared.bytes_of(given, "HEX")
