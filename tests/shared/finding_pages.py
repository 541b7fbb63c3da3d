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
SEARCH = "The search was by meaning in a store of public threads; it does not prove that there is none."
FIELDS = {
    "steps": "Steps",
    "actual": "Actual",
    "expected": "Expected",
    "impact": "Why it matters",
    "source": "Source",
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
    lines = []
    for library, content in stored().items():
        if kind not in content:
            continue
        section = content[kind]
        lines += [f"{_LEVEL[kind]} {library}", "", *_versions(section["versions"]), *_wrapped(section.get("about", ""))]
        for finding in findings(kind):
            if finding.library == library:
                lines += _entry(finding, section)
    return "\n" + "\n".join(lines) + "\n"


def _versions(versions: dict[str, str]) -> list[str]:
    return [*_wrapped("; ".join(f"{name} {version}" for name, version in versions.items()) + "."), ""]


def _entry(finding: Finding, section: dict[str, Any]) -> list[str]:
    fields = finding.fields
    lines = [f"{_LEVEL[finding.kind]}# {fields['title']}", ""]
    if len(finding.versions) < len(section["versions"]):
        lines += _item("Targets", ", ".join(finding.versions))
    lines += _wrapped(fields.get("text", ""))
    for name, label in FIELDS.items():
        if name in fields:
            lines += _item(label, fields[name])
    named = ", ".join(f"`{name}` ({basis})" for name, basis in finding.requirements.items())
    lines += _item("Requirements", named)
    if finding.cases:
        lines += _item(
            "Cases",
            f"{_cases(finding)}. Verdict: {fields['verdict']}." if "verdict" in fields else f"{_cases(finding)}.",
        )
    if finding.report:
        lines += _item("Report", f"[{finding.page}](findings/{finding.page}.md)")
    return [*lines, ""]


def _cases(finding: Finding) -> str:
    shown = ", ".join(f"`{case}`" for case in finding.cases[:SHOWN_CASES])
    more = len(finding.cases) - SHOWN_CASES
    return shown + f" and {more} more in `findings/{finding.library}.yaml`" * (more > 0)


def _item(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"- **{label}:** {text}", 118, subsequent_indent="  ", **_WORDS)


def _wrapped(text: str) -> list[str]:
    """Return paragraphs in lines of up to 120 characters, with an empty line after each."""
    return [line for part in text.split("\n\n") if part for line in [*textwrap.wrap(part, 120, **_WORDS), ""]]


_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


# --- the drafted reports ------------------------------------------------------------------------------


def report_text(finding: Finding) -> str:
    """Return the page of a drafted report."""
    report, common = finding.report, stored()[finding.library]["reports"]
    hexed = report.get("hex") or _catalog().cases[report["case"]].request.get("hex") or ""
    target = report.get("target") or next(iter(finding.versions))
    broker = report.get("broker", "{bytes} 0").replace("{bytes}", hexed)
    steps = [
        step.replace("{broker}", broker).replace("{bytes}", hexed) for step in report.get("steps", common["steps"])
    ]
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)] if len(steps) > 1 else steps
    shown = "\n".join(textwrap.wrap(hexed, 100))
    queries = ", ".join(f"`{query}`" for query in report["searched"])
    place = report.get("place", f"issues and pull requests, those of {common['repository']} among them")
    parts = {
        "Version": report.get("version", common["version"]),
        "Bytes": f"{report['bytes']}\n\n```\n{shown}\n```",
        "Steps": "\n".join(numbered) + f"\n\n```{common['language']}\n{_program(report, common, hexed)}```",
        "Actual": "\n\n".join(
            [*_output(report), *[finding.fields[name] for name in ("actual",) if name in finding.fields]]
        ),
        "Expected": report.get("due") or finding.fields["expected"],
        "Why it matters": finding.fields.get("impact"),
        "Source": finding.fields.get("source"),
        "Requirements": ", ".join(f"`{name}` ({basis})" for name, basis in finding.requirements.items())
        + f". `conformance show {report['case']}` prints the case.",
        "Searched": f"{queries} in {place}. {report.get('known', 'Nothing about this was found.')} {SEARCH}",
    }
    text = f"# {finding.library}: {finding.fields['title']}\n\n<!-- target: {target}; case: {report['case']} -->\n"
    return text + "".join(f"\n## {name}\n\n{part}\n" for name, part in parts.items() if part)


def _program(report: dict[str, Any], common: dict[str, Any], hexed: str) -> str:
    """Return the program of a report: its own, or one that reports share, with the values of this one."""
    program = report["program"]
    text = program if "\n" in program else common["programs"][program]
    for name, value in {"bytes": hexed, **common.get("values", {}), **report.get("values", {})}.items():
        text = text.replace(f"@{name}@", value)
    return text


def _output(report: dict[str, Any]) -> list[str]:
    if "came" in report:
        return [report["came"]]
    output = report["output"] if isinstance(report["output"], dict) else {"": report["output"]}
    return [part for label, text in output.items() for part in (label, f"```\n{text}```") if part]


def report_list() -> str:
    """Return the table of the drafted reports."""
    rows = [
        f"| [{one.library}: {one.fields['title']}]({one.page}.md) | `{one.report['case']}` |"
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
