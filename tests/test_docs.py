"""What the README and the docs show works as shown."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PIPELINE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
ADAPTERS = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")


def conformance(*arguments, cwd):
    command = [sys.executable, "-m", "conformance", *arguments]
    env = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def example(text, name):
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


def test_the_failure_in_the_readme_is_what_the_suite_prints(tmp_path):
    pytest.importorskip("aiokafka", reason="aiokafka is not installed (extra: clients)")
    shown = re.search(r"\$ conformance (run aiokafka .*?)\n(.*?)```", README, re.DOTALL)
    done = conformance(*shown[1].split(), cwd=tmp_path)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert shown[2].splitlines() == printed[1 : 1 + len(shown[2].splitlines())]


def test_the_python_adapter_in_the_readme_is_in_order_and_finds_failures(tmp_path):
    pytest.importorskip("kafka", reason="kafka-python is not installed (extra: clients)")
    (tmp_path / "adapter.py").write_text(example(README, "adapter.py"))
    assert conformance("doctor", "module:./adapter.py", cwd=tmp_path).returncode == 0
    assert conformance("run", "module:./adapter.py", cwd=tmp_path).returncode == 1


def test_the_javascript_adapter_in_the_docs_is_in_order_and_takes_six_byte_varints(tmp_path):
    if not shutil.which("node"):
        pytest.skip("node is not on the PATH")
    (tmp_path / "adapter.mjs").write_text(example(ADAPTERS, "adapter.mjs"))
    done = conformance("doctor", "command:node adapter.mjs", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    done = conformance("run", "command:node adapter.mjs", "--select", "varint/six-bytes", cwd=tmp_path)
    assert done.returncode == 1
    assert "varint/six-bytes  fail" in done.stdout


@pytest.mark.parametrize("text", [README, ADAPTERS], ids=["readme", "adapters"])
def test_every_option_and_command_that_is_shown_exists(text, tmp_path):
    helps = conformance("--help", cwd=tmp_path).stdout
    run_help = conformance("run", "--help", cwd=tmp_path).stdout
    for command in re.findall(r"(?:^|`|bin/)conformance ([a-z-]+)", text, re.MULTILINE):
        assert command in helps, command
    for option in re.findall(r"`(--[a-z-]+)", text):
        assert option in run_help or option in ("--requirements", "--kafka-target", "--language"), option


def test_every_option_of_a_campaign_that_is_shown_exists(tmp_path):
    shown = set(re.findall(r"(--[a-z][a-z-]+)", PIPELINE[: PIPELINE.index("With spark-submit")]))
    commands = ("campaign", "scan", "run", "targets")
    helps = " ".join(conformance(command, "--help", cwd=tmp_path).stdout for command in commands)
    assert {"--cases", "--out", "--master", "--corpus"} <= shown
    assert [option for option in sorted(shown) if option not in helps] == []


# --- citations ----------------------------------------------------------------------------------------

DOCUMENTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
CITATION = re.compile(rf"\b(?:docs/)?({'|'.join(DOCUMENTS)})(?:\.md)?#([\w-]+)")
"""`decisions#batch` in the register, `docs/concepts.md#verdicts` in code, `concepts.md#verdicts` in a link."""
RULE = re.compile(r"\b[Rr]ules? (\d+)([a-z]?)")
NOT_SHIPPED = re.compile(r"\bcontract, section|\boutside contract|\bdecisions[,:] [A-Za-z]|\bdecisions \([A-Z]")
"""Citations that name no section of a document that is in the repository."""


def headings(text):
    """The sections of a document, named by the rule that stands at the top of vectors/requirements.yaml."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^a-z0-9]+", "-", re.sub(r" \([^)]*\)$", "", line).lower()).strip("-") for line in lines}


SECTIONS = {name: headings(text) for name, text in DOCUMENTS.items()}


def dead_citations(text):
    """The citations in a text that lead to no heading and no rule, and those that cannot lead anywhere."""
    dead = [f"{name}#{section}" for name, section in CITATION.findall(text) if section not in SECTIONS[name]]
    dead += [link for link in re.findall(r"\]\(#([\w-]+)\)", text) if link not in headings(text)]
    for number, part in RULE.findall(text):
        rule = re.search(rf"^{number}\. .*?(?=^\d|^[^ \d]|\Z)", DOCUMENTS["decisions"], re.DOTALL | re.MULTILINE)
        if rule is None or (part and f"   - {part}. " not in rule[0]):
            dead.append(f"rule {number}{part}")
    return dead + [found.group() for found in NOT_SHIPPED.finditer(text)]


def shipped_texts():
    for folder in ("conformance", "strategies", "reports", "adapters", "vectors", "benchmarks", "docs", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".yaml", ".java", ".html") and path != Path(__file__):
                yield path
    yield from ROOT.glob("*.md")


def test_every_citation_leads_to_a_heading_that_exists():
    dead = {
        str(path.relative_to(ROOT)): found
        for path in shipped_texts()
        if (found := dead_citations(path.read_text(encoding="utf-8")))
    }
    assert dead == {}


@pytest.mark.parametrize(
    "text",
    [
        *("(decisions#no-such-section)", "see docs/concepts.md#no-such-section", "[it](adapters.md#nowhere)"),
        *(
            "decisions#how-we-judge-with-this-page, rule 11",
            "(rule 4a)",
            "(contract, section 2)",
            "(decisions, Compression)",
        ),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text):
    assert dead_citations(text)


@pytest.mark.parametrize("text", ["decisions#batch", "docs/concepts.md#open-places-and-readings", "rule 2a", "rule 10"])
def test_a_citation_that_leads_somewhere_is_not_reported(text):
    assert dead_citations(text) == []


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_link_that_a_browser_follows_has_the_name_that_the_register_cites(name):
    github = {
        re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(
            r"^#+ (.*)$", re.sub(r"^```.*?^```", "", DOCUMENTS[name], flags=re.DOTALL | re.MULTILINE), re.MULTILINE
        )
    }
    assert github == SECTIONS[name]


def test_the_readme_lists_every_page_of_the_docs():
    assert [name for name in DOCUMENTS if f"](docs/{name}.md)" not in README.partition("\n## More\n")[2]] == []


def test_files_that_are_linked_exist():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds_of_the_package():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = [line for line in (ROOT / ".ci" / "lowest.txt").read_text().splitlines() if not line.startswith("#")]
    assert lowest == [bound.replace(">=", "==") for bound in asked]


def test_ci_pins_everything_that_the_package_asks_for_by_a_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    pinned = {line.partition("==")[0] for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines()}
    assert {bound.partition(">=")[0] for bound in asked if ">=" in bound} <= pinned
