"""The findings about live clients in docs/live-findings.md."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "live-findings.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
NAMED = sorted({name for heading in HEADINGS for name in heading.split(", ")})


def entries(heading):
    """Return the entries under a heading, by title: the cases of each, and the text."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^### (.+)\n\ncases: (.+)\n\nverdict: (.+)\n\n(\S)", part, re.MULTILINE)
    assert len(found) == part.count("\n### ")
    return {title: (cases.split(", "), verdict) for title, cases, verdict, _ in found}


def findings(name):
    """Return the cases of a client on the page, and the verdict of each."""
    rows = [row for heading in HEADINGS if name in heading.split(", ") for row in entries(heading).values()]
    return {case: verdict for cases, verdict in rows for case in cases}


def shown(name, run):
    """Return the verdicts on these cases in the run of a client; skip versions that are not on the page."""
    described, found = run(name)
    said = re.search(r"librdkafka ([\d.]+)", described)
    version = said[1] if said else described
    headings = [heading for heading in HEADINGS if name in heading.split(", ")]
    if any(version not in PAGE.split(f"## {heading}\n", 1)[1].split("###", 1)[0] for heading in headings):
        pytest.skip(f"the page does not tell of {name} {version}")
    return {case: found[case]["verdict"] for case in findings(name)}
