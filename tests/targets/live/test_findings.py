"""What docs/live-findings.md says of live clients is what a run says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from live_runs import judged, lacking

from conformance.targets.resolve import adapters, drivers

PAGE = (Path(__file__).parents[3] / "docs" / "live-findings.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
VERDICTS = {"crash", "timeout", "fail"}


def entries(heading):
    """The entries under a heading, by their titles: the cases of each, and what is said of them."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^### (.+)\n\ncases: (.+)\n\nverdict: (.+)\n\n(\S)", part, re.MULTILINE)
    assert len(found) == part.count("\n### ")
    return {title: (cases.split(", "), verdict) for title, cases, verdict, _ in found}


@pytest.mark.parametrize("heading", HEADINGS)
def test_each_entry_names_cases_and_a_verdict(heading):
    assert entries(heading)
    assert {verdict for _, verdict in entries(heading).values()} <= VERDICTS


@pytest.mark.parametrize("name", sorted({name for heading in HEADINGS for name in heading.split(", ")}))
def test_a_live_client_does_what_the_page_says_of_it(name, live_client, tmp_path, traces):
    if drivers()[name].setup and name not in adapters():
        live_client(name)
    if missing := lacking(name):
        pytest.skip(f"live:{name} lacks {', '.join(missing)}")
    headings = [heading for heading in HEADINGS if name in heading.split(", ")]
    rows = [row for heading in headings for row in entries(heading).values()]
    due = {case: verdict for cases, verdict in rows for case in cases}
    found = judged(f"live:{name}", tmp_path, traces.env, *due, op="")
    described = json.loads((tmp_path / "r.json").read_text())["targets"][0]["describe"]["version"]
    said = re.search(r"librdkafka ([\d.]+)", described)
    version = said[1] if said else described
    if any(version not in PAGE.split(f"## {heading}\n", 1)[1].split("###", 1)[0] for heading in headings):
        pytest.skip(f"the page does not tell of {name} {version}")
    assert {case: found[case]["verdict"] for case in due} == due
    assert traces.left() == []
