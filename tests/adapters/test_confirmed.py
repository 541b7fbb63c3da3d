"""Nobody is accused of what nobody has seen: each pinned failure, and the cause of each generated one, has an entry in
docs/confirmed.md."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from command_line import conformance

from conformance.cases.charging import basis_of
from conformance.targets.resolve import adapters

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "confirmed.md").read_text(encoding="utf-8")
PINNED = {path.stem: path for path in sorted((ROOT / "tests" / "known").glob("*.yaml"))}


def texts(page, target):
    """The entries under the heading that names a target, by their titles."""
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    under = [text for heading, text in zip(parts[1::2], parts[2::2], strict=True) if target in heading.split(", ")]
    return dict(
        match for text in under for match in re.findall(r"^### (.+)\n\n((?:(?!^### )[^\0])*)", text, re.MULTILINE)
    )


def entries(page, target):
    """The globs of the cases that each entry on a target names."""
    lines = {title: re.search(r"^cases: (.+)$", text, re.MULTILINE) for title, text in texts(page, target).items()}
    return {title: line[1].split(", ") if line else [] for title, line in lines.items()}


def causes(page, target):
    """The causes that each entry on a target names."""
    lines = {title: re.search(r"^causes: (.+)$", text, re.MULTILINE) for title, text in texts(page, target).items()}
    return {title: re.findall("`([^`]+)`", line[1]) if line else [] for title, line in lines.items()}


def unconfirmed(results, causes_by_title):
    """The causes of failures at must, and of crashes and missing answers, that no entry names, with an example."""
    confirmed = {cause for named in causes_by_title.values() for cause in named}
    counted = [one for one in results if one["verdict"] in ("fail", "crash", "timeout") and one["upstream"] is None]
    wrong = [one for one in counted if one["level"] == "must" or one["verdict"] != "fail"]
    return {one["cause"]: one["reproduce"] for one in wrong if one["cause"] not in confirmed}


def without_entry(pins, globs_by_title):
    globs = [glob for globs in globs_by_title.values() for glob in globs]
    return [pin for pin in pins if not any(fnmatchcase(pin, glob) for glob in globs)]


def pins(target):
    return [pin["id"] for pin in yaml.safe_load(PINNED[target].read_text(encoding="utf-8"))]


@pytest.mark.parametrize("target", PINNED)
def test_each_pinned_failure_belongs_to_an_entry(target):
    assert without_entry(pins(target), entries(PAGE, target)) == []


@pytest.mark.parametrize("target", PINNED)
def test_a_pinned_failure_without_an_entry_is_found(target):
    assert without_entry(["no-such-family/case"], entries(PAGE, target)) == ["no-such-family/case"]


def test_each_entry_names_cases_that_are_pinned():
    headings = {name for line in re.findall(r"^## (.+)$", PAGE, re.MULTILINE) for name in line.split(", ")}
    assert headings <= set(PINNED)
    for line in re.findall(r"^## (.+)$", PAGE, re.MULTILINE):
        pinned = [pin for target in line.split(", ") for pin in pins(target)]
        for title, globs in entries(PAGE, line.split(", ")[0]).items():
            unused = [glob for glob in globs if not any(fnmatchcase(pin, glob) for pin in pinned)]
            assert unused == [], title


def test_each_entry_has_its_line_of_causes():
    for target in PINNED:
        assert all(causes(PAGE, target).values())
    assert len(re.findall(r"^### ", PAGE, re.MULTILINE)) == len(re.findall(r"^causes: ", PAGE, re.MULTILINE))


@pytest.mark.parametrize("target", [name for name in PINNED if adapters()[name].language == "python"])
def test_the_cause_of_each_generated_failure_has_an_entry(target, tmp_path):
    """Of those that README's first command shows: by default there are 200 cases a type, with seed 0."""
    lacking = adapters()[target].missing()
    if lacking:
        pytest.skip(f"{target} lacks {', '.join(lacking)}")
    asked = ["run", target, "--select", "gen/*", "--generated", "200", "--seed", "0", "--json", "r.json", "--quiet"]
    conformance(*asked, cwd=tmp_path)
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert sum(result["verdict"] == "fail" for result in results) > 10
    assert unconfirmed(results, causes(PAGE, target)) == {}


def test_a_cause_without_an_entry_is_found():
    failing = {"verdict": "fail", "level": "must", "upstream": None, "cause": "off by 3: X", "reproduce": "run x"}
    named = {"An entry": ["off by 2: X"]}
    crash = {**failing, "verdict": "crash", "level": "may", "cause": "crash: E"}
    others = [
        {**failing, "cause": "off by 2: X"},
        {**failing, "cause": "lapse: X", "level": "should"},
        {**failing, "cause": "as Kafka: X", "upstream": "differs"},
        {**failing, "cause": None, "verdict": "pass"},
    ]
    assert unconfirmed([failing, crash, *others], named) == {"off by 3: X": "run x", "crash: E": "run x"}


NAMED = r"(stated|implied|settled):\s((?:`[^`]+`[,\s]*(?:and\s)?)+)"
NAMED_BEHIND = r"\(((?:`[^`]+`[,\s]*)+)[,;]\s(stated|implied|settled)[);:]"


def told_bases(text):
    """The requirements that the text of an entry names as due, with the basis it gives for each."""
    told = re.findall(NAMED, text) + [(basis, names) for names, basis in re.findall(NAMED_BEHIND, text)]
    return {(requirement, basis) for basis, names in told for requirement in re.findall(r"`([^`]+)`", names)}


def bases_of(identities, catalog):
    """The requirements of cases with the bases on which these are judged; of any other, as a cause may break it too."""
    rows, cases = catalog.requirements, [catalog.cases[name] for name in identities if name in catalog.cases]
    own = {(case.requirement, basis_of(rows[case.requirement], case)) for case in cases}
    return own | {(row.id, row.basis) for row in rows.values() if row.id not in {case.requirement for case in cases}}


@pytest.mark.parametrize("heading", re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
def test_each_entry_names_the_basis_on_which_its_cases_are_judged(heading, catalog):
    text = re.split(r"^## (.+)\n", PAGE, flags=re.MULTILINE)
    parts = re.split(r"^### .+\n\n(?:cases: )?", text[text.index(heading) + 1], flags=re.MULTILINE)[1:]
    pinned = [pin for target in heading.split(", ") for pin in pins(target)]
    for part in parts:
        globs, _, rest = part.partition("\n")
        matched = [pin for pin in pinned if any(fnmatchcase(pin, glob) for glob in globs.split(", "))]
        told = told_bases(rest)
        assert told, part
        assert told - bases_of(matched, catalog) == set(), part
