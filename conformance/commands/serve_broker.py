"""`conformance serve-broker`: runs the mock broker with vectors or log files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from conformance.cases.api_versions_profiles import VERSION_PROFILES, ApiVersions
from conformance.cases.log_requests import first_offset, read_expectation
from conformance.cases.model import Request
from conformance.cases.operations import OPERATIONS
from conformance.catalog.catalog import select
from conformance.catalog.catalog_builder import read_catalog
from conformance.codec.log import LOG
from conformance.commands import options as shared
from conformance.errors import UsageError
from conformance.mock_broker.server import MockBrokerServer
from conformance.mock_broker.topic import mock_topic


@click.command("serve-broker")
@click.argument("files", nargs=-1, type=shared.PATH, metavar="[FILE]...")
@click.option("--select", "patterns", multiple=True, metavar="PATTERN", help="`read` cases to serve, as in `run`.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="[default: a free port]")
@click.option(
    "--offer",
    type=click.Choice(list(VERSION_PROFILES)),
    default="bare",
    help="Request versions of the broker.  [default: bare]",
)
def command(files: tuple[Path, ...], patterns: tuple[str, ...], port: int, offer: str) -> None:
    """Serve vectors or log files to any Kafka client, until Ctrl-C.

    Each file or case is a topic with one partition. The topic has the name of the file or the id of the case; dots
    replace invalid characters. The last record of each topic has the key `conformance.end`.
    """
    topics = dict((*_of_files(files), *_of_cases(patterns)))
    if not topics:
        raise UsageError("FILE", "expected log files, or cases of --select, found none")
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(topics, port, VERSION_PROFILES[offer]))


async def _serve(topics: dict[str, Request], port: int, offer: ApiVersions) -> None:
    server = MockBrokerServer(lambda problem: click.echo(problem, err=True), offer)
    broker = await server.start(port)
    for name, parts in topics.items():
        broker.topics[name] = mock_topic(parts, refetch_limit=float("inf"))
        click.echo(f"{name}\tfrom offset {parts['fetchOffset']}\t{len(parts['hex'])} bytes")
    click.echo(f"listening on {broker.host}:{broker.port}")
    try:
        await asyncio.Event().wait()
    finally:
        await server.close()


def _of_files(files: Iterable[Path]) -> Iterator[tuple[str, Request]]:
    for path in files:
        data = path.read_bytes()
        yield (
            _name(path.name),
            OPERATIONS["read"].parse(read_expectation(data, fetch_offset=first_offset(data)).parts, LOG),
        )


def _of_cases(patterns: tuple[str, ...]) -> Iterator[tuple[str, Request]]:
    if not patterns:
        return
    catalog = read_catalog(())
    wanted = [*patterns, *(f"{pattern}:read" for pattern in patterns)]
    for label in select(list(catalog.cases.summaries.values()), wanted):
        if label.op == "read":
            yield _name(label.id), OPERATIONS["read"].parse(catalog.cases[label.id].request, LOG)


def _name(text: str) -> str:
    """Return a valid topic name."""
    return re.sub(r"[^A-Za-z0-9._-]", ".", text)[:249]
