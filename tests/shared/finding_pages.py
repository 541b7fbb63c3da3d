"""The findings in docs/findings/*.yaml and the pages that show them. Run as a program, it writes the pages."""

from __future__ import annotations

import fnmatch
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from conformance.cases.attribution import basis_of
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog

DOCS = Path(__file__).parent.parent.parent / "docs"
FOLDER = DOCS / "findings"
PAGES = {"confirmed": "adapter", "live-findings": "live", "brokers": "broker"}
"""Which kind of target the findings of each page are about."""
BEGIN, END = "<!-- findings: written by tests/shared/finding_pages.py -->\n", "<!-- end of findings -->\n"
_LEVEL = {"adapter": "##", "live": "##", "broker": "###"}
"""The heading of a library in each page."""
SHOWN_CASES = 5
"""The number of case ids that a page shows for one finding."""
SEARCH = "The search was by meaning in a store of public threads and may have missed one."
FIELDS = {
    "steps": "Steps",
    "actual": "Actual",
    "expected": "Expected",
    "impact": "Why it matters",
    "source": "Source",
    "unpinned": "Not pinned",
}


@dataclass(frozen=True)
class Finding:
    """One finding: where it is stored, the targets that it is about, and its fields."""

    library: str
    kind: str
    versions: dict[str, str]
    """The version of each target that has the fault."""
    fields: dict[str, Any]

    @property
    def cases(self) -> list[str]:
        """Return the ids and patterns of the cases that the finding covers."""
        return self.fields.get("cases", [])

    @property
    def causes(self) -> list[str]:
        """Return the causes under which reports of a run count the failures."""
        return self.fields.get("causes", [])

    @property
    def report(self) -> dict[str, Any] | None:
        return self.fields.get("report")

    @property
    def page(self) -> str:
        """Return the file name of the drafted report, without its suffix."""
        return f"{self.library}-{self.report['name']}"

    @property
    def requirements(self) -> dict[str, str]:
        """Return the basis and level of each requirement, in the words of the register."""
        return {name: _basis(name, self.cases) for name in self.fields["requirements"]}


@cache
def stored() -> dict[str, dict[str, Any]]:
    """Return the content of each file, by the name of the library."""
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}


def findings(kind: str | None = None, target: str | None = None) -> list[Finding]:
    """Return the findings of one kind (adapter, live, broker) on one target, or all."""
    found = []
    for library, content in stored().items():
        for name in PAGES.values() if kind is None else [kind]:
            section = content.get(name, {"findings": []})
            for fields in section["findings"]:
                names = fields.get("targets", section["versions"])
                found.append(Finding(library, name, {one: section["versions"][one] for one in names}, fields))
    return [one for one in found if target is None or target in one.versions]


@cache
def _catalog() -> Catalog:
    return read_catalog()


@cache
def _bases() -> dict[str, dict[str, str]]:
    """Return the basis of each case of each requirement."""
    catalog = _catalog()
    bases: dict[str, dict[str, str]] = {name: {} for name in catalog.requirements}
    for name, case in catalog.cases.items():
        bases[case.requirement][name] = basis_of(catalog.requirements[case.requirement], case)
    return bases


def _basis(requirement: str, patterns: list[str]) -> str:
    """Return the basis and level of a requirement, and add where its cases rest on an implied rejection."""
    row = _catalog().requirements[requirement]
    cases = _bases()[requirement]
    own = {cases[name] for pattern in patterns for name in fnmatch.filter(cases, pattern)}
    implied = "; the rejection is implied" * (row.basis == "stated" and own == {"implied"})
    return f"{row.basis}{f', {row.level}' * (row.level != 'must')}{implied}"


# --- the pages with all findings of one kind ----------------------------------------------------------


def section_text(kind: str) -> str:
    """Return the generated part of a page: a heading for each library, an entry for each finding."""
    lines = [""]
    for library, content in stored().items():
        if kind not in content:
            continue
        versions = "; ".join(f"{name} {version}" for name, version in content[kind]["versions"].items())
        lines += [f"{_LEVEL[kind]} {library}", "", *_wrapped(f"{versions}."), ""]
        if about := content[kind].get("about"):
            lines += [*_wrapped(about), ""]
        lines += [line for one in findings(kind) if one.library == library for line in _entry(one)]
    return "\n".join(lines) + "\n"


def _entry(finding: Finding) -> list[str]:
    fields = finding.fields
    items = {label: fields[name] for name, label in FIELDS.items() if name in fields}
    items["Requirements"] = _requirements(finding)
    if finding.cases:
        items["Cases"] = f"{_cases(finding)}." + f" Verdict: {fields.get('verdict')}." * ("verdict" in fields)
    if "targets" in fields:
        items = {"Targets": ", ".join(finding.versions), **items}
    if finding.report:
        items["Report"] = f"[{finding.page}](findings/{finding.page}.md)"
    lines = [line for label, text in items.items() for line in _wrapped(f"- **{label}:** {text}", "  ")]
    return [f"{_LEVEL[finding.kind]}# {fields['title']}", "", *lines, ""]


def _name(library: str) -> str:
    return stored()[library].get("name", library)


def _requirements(finding: Finding) -> str:
    return ", ".join(f"`{name}` ({basis})" for name, basis in finding.requirements.items())


def _cases(finding: Finding) -> str:
    shown = ", ".join(f"`{case}`" for case in finding.cases[:SHOWN_CASES])
    more = len(finding.cases) - SHOWN_CASES
    return shown + f" and {more} more in `docs/findings/{finding.library}.yaml`" * (more > 0)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


# --- the drafted reports ------------------------------------------------------------------------------


def report_text(finding: Finding) -> str:
    """Return the page of a drafted report: an issue for the tracker of the library."""
    report, fields, common = finding.report, finding.fields, stored()[finding.library]["reports"]
    hexed = report.get("hex") or _catalog().cases[report["case"]].request.get("hex") or ""
    place = report.get("place", f"issues and pull requests, those of {common['repository']} among them")
    sections = {
        "Version": report.get("version", common["version"]),
        "Bytes": f"{report['bytes']}\n\n{_block(chr(10).join(textwrap.wrap(hexed, 100)) + chr(10))}",
        "Steps": _steps(report, common, hexed),
        "Actual": f"{_output(report)}\n\n{fields['actual']}",
        "Expected": fields["expected"],
        "Why it matters": fields["impact"],
        "Source": fields["source"],
        "Requirements": f"{_requirements(finding)}. `conformance show {report['case']}` prints the case.",
        "Searched": f"{', '.join(f'`{query}`' for query in report['searched'])} in {place}. "
        f"{report.get('known', 'No thread about this was found.')} {SEARCH}",
    }
    target = report.get("target") or next(iter(finding.versions))
    head = f"# {_name(finding.library)}: {fields['title']}\n\n<!-- target: {target}; case: {report['case']} -->\n"
    text = head + "".join(f"\n## {name}\n\n{section}\n" for name, section in sections.items())
    return text.replace("](decisions.md", "](../decisions.md")


def _steps(report: dict[str, Any], common: dict[str, Any], hexed: str) -> str:
    """Return the numbered steps, and the program: that of the report, or a shared one with the report's values."""
    broker = report.get("broker", "").replace("{bytes}", hexed)
    steps = [
        step.replace("{broker}", broker).replace("{bytes}", hexed) for step in report.get("steps", common["steps"])
    ]
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)] if len(steps) > 1 else steps
    program = common.get("programs", {}).get(report["program"], report["program"])
    for name, value in {"bytes": hexed, **report.get("values", {})}.items():
        program = program.replace(f"@{name}@", value)
    return "\n".join(numbered) + f"\n\n{_block(program, common['language'])}"


def _output(report: dict[str, Any]) -> str:
    output = report["output"] if isinstance(report["output"], dict) else {"": report["output"]}
    return "\n\n".join(part for label, text in output.items() for part in (label, _block(text)) if part)


def _block(text: str, language: str = "") -> str:
    return f"```{language}\n{text}```"


def report_list() -> str:
    """Return the table of the drafted reports."""
    rows = [
        f"| [{_name(one.library)}: {one.fields['title']}]({one.page}.md) | `{one.report['case']}` |"
        for one in findings()
        if one.report
    ]
    return "\n".join(["", "| report | the case that shows it |", "|---|---|", *rows, "", ""])


# --- the files ----------------------------------------------------------------------------------------


def parts(text: str) -> tuple[str, str, str]:
    """Return a page as the text before the generated part, this part, and the text after it."""
    before, _, rest = text.partition(BEGIN)
    generated, _, after = rest.partition(END)
    return before, generated, after


def pages() -> dict[Path, str]:
    """Return the text of each page that has findings."""
    generated = {DOCS / f"{page}.md": section_text(kind) for page, kind in PAGES.items()}
    generated[FOLDER / "index.md"] = report_list()
    texts = {}
    for path, text in generated.items():
        before, _, after = parts(path.read_text(encoding="utf-8"))
        texts[path] = before + BEGIN + text + END + after
    return texts | {FOLDER / f"{one.page}.md": report_text(one) for one in findings() if one.report}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
