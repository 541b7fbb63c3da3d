"""The pages of the register, made while the site is built: a table of all requirements, a page for each document."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from conformance.cases.model import BASES, LEVELS
from conformance.cases.requirement import Requirement
from conformance.catalog.catalog import CaseSummary
from conformance.catalog.catalog_builder import read_catalog
from conformance.commands.list import coverage, why_no_case
from conformance.reports.markdown import plain

FOLDER = "requirements"
_HERE = "decisions"
"""The document that is part of this site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to those of the folder."""
    catalog = read_catalog()
    labels = catalog.cases.summaries
    cases = {name: [labels[case] for case in covering] for name, covering in catalog.covering().items()}
    by_document: dict[str, list[Requirement]] = {}
    for requirement in catalog.requirements.values():
        by_document.setdefault(_document(requirement), []).append(requirement)
    pages = {"index": _table(list(catalog.requirements.values()), cases)}
    pages |= {name: _page(name, rows, cases) for name, rows in by_document.items()}
    for name, lines in pages.items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content="\n".join(lines) + "\n"))
    # Pages of documents are reached from the table: the menu would show nothing that it does not.
    config.nav = [*(config.nav or []), {"Requirements by document": [f"{FOLDER}/{name}.md" for name in by_document]}]
    return files


def _document(requirement: Requirement) -> str:
    """The document in which a requirement stands first."""
    return requirement.source[0].partition("#")[0]


def _table(requirements: Sequence[Requirement], cases: Mapping[str, Sequence[CaseSummary]]) -> Iterator[str]:
    """All requirements, a row each, with a form that narrows them."""
    yield "# Requirements\n"
    yield f"All {len(requirements)} requirements of the register, with the {sum(map(len, cases.values()))} cases of"
    yield "vectors; generated cases come on top. [Levels and bases](../concepts.md#requirements) and"
    yield "[the documents](../concepts.md#documents) stand under Concepts."
    yield "`conformance list --requirements` prints the same.\n"
    yield '<form class="narrow" hidden>'
    yield '<label>Search <input type="search" name="text"></label>'
    for name, values in (("level", LEVELS), ("basis", BASES)):
        options = "".join(f"<option>{value}</option>" for value in values)
        yield f'<label>{name} <select name="{name}"><option value="">all</option>{options}</select></label>'
    yield '<output name="shown"></output></form>\n'
    yield "| requirement | level | basis | section | cases |\n|---|---|---|---|---|"
    for one in requirements:
        link = f"[{one.id}]({_document(one)}.md#{one.id})"
        count = str(len(cases[one.id])) if cases[one.id] else "none"
        yield f"| {link} | {one.level} | {one.basis} | {_section(one.source[0])} | {count} |"


def _page(
    document: str, requirements: Sequence[Requirement], cases: Mapping[str, Sequence[CaseSummary]]
) -> Iterator[str]:
    """The requirements that stand first in a document, by its sections."""
    yield f"# {document}\n"
    sections: dict[str, list[Requirement]] = {}
    for one in requirements:
        sections.setdefault(one.source[0].partition("#")[2], []).append(one)
    for section, rows in sections.items():
        yield f"\n## {section or document} {{#section-{section}}}\n"
        for one in rows:
            yield from _requirement(one, cases[one.id])


def _requirement(one: Requirement, cases: Sequence[CaseSummary]) -> Iterator[str]:
    yield f"\n### {one.id} {{#{one.id}}}\n"
    yield f"{plain(one.statement)}\n"
    differs = ", Apache Kafka differs" * (one.upstream == "differs")
    yield f"*{one.level}, {one.basis}{differs}*: {', '.join(map(_section, one.source))}\n"
    if one.settled:
        yield f"Settled: {plain(one.settled)} {plain(one.why)}\n"
    told = coverage(one, cases) if cases else why_no_case(one)
    if not cases:
        yield f"{plain(told)}\n"
        return
    listed = " ".join(f"<code>{html.escape(case.id)}</code>" for case in cases)
    yield f"<details><summary>{html.escape(told)}</summary>{listed}</details>\n"


def _section(source: str) -> str:
    """A section of a document, as a link where the document is part of this site."""
    document, _, section = source.partition("#")
    return f"[{source}](../{document}.md#{section})" if document == _HERE and section else source
