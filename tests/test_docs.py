"""The examples of the README and the docs work as shown."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import click
import command_line
import pytest
import scenario_tables
import yaml

from conformance import __version__
from conformance.cli import COMMANDS, main
from conformance.runner.known_failures import read_known, stale

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PIPELINE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
LIVE = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")
ADAPTERS = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")


def conformance(*arguments, cwd):
    return command_line.conformance(*arguments, cwd=cwd, env={**os.environ, "COLUMNS": "100"})


def example(text, name):
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


def test_the_driver_in_the_docs_equals_the_bundled_one():
    for name in ("driver.py", "writer.py"):
        assert example(LIVE, name) == (ROOT / "adapters" / "confluent-kafka" / name).read_text(encoding="utf-8")
    shown = yaml.safe_load(example(LIVE, "driver.yaml"))
    known = yaml.safe_load((ROOT / "adapters" / "confluent-kafka" / "driver.yaml").read_text(encoding="utf-8"))
    assert set(shown) <= set(known)
    assert {key: type(value) for key, value in shown.items()} == {key: type(known[key]) for key in shown}


def test_the_tables_of_client_scenarios_are_up_to_date():
    assert scenario_tables.parts(LIVE)[1] == scenario_tables.tables(), "run tests/shared/scenario_tables.py"


@pytest.mark.integration
def test_the_failure_in_the_readme_equals_the_output(tmp_path):
    pytest.importorskip("aiokafka", reason="aiokafka is not installed (extra: clients)")
    shown = re.search(r"\$ conformance (run aiokafka .*?)\n(.*?)```", README, re.DOTALL)
    done = conformance(*shown[1].split(), cwd=tmp_path)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert shown[2].splitlines() == printed[1 : 1 + len(shown[2].splitlines())]


@pytest.mark.integration
def test_the_disagreements_in_the_docs_equal_the_output(tmp_path):
    for package in ("kafka", "aiokafka", "kio"):
        pytest.importorskip(package, reason=f"{package} is not installed (extra: clients)")
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ conformance (run kafka-python aiokafka kio .*?)\n(.*?)```", text, re.DOTALL)
    printed = conformance(*shown[1].split(), cwd=tmp_path).stdout
    assert shown[2] in "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


@pytest.mark.integration
def test_the_python_adapter_in_the_docs_passes_doctor_and_finds_failures(tmp_path):
    pytest.importorskip("kafka", reason="kafka-python is not installed (extra: clients)")
    (tmp_path / "adapter.py").write_text(example(ADAPTERS, "adapter.py"))
    assert conformance("doctor", "module:./adapter.py", cwd=tmp_path).returncode == 0
    assert conformance("run", "module:./adapter.py", cwd=tmp_path).returncode == 1


@pytest.mark.integration
def test_the_javascript_adapter_in_the_docs_passes_doctor_and_accepts_six_byte_varints(tmp_path):
    if not shutil.which("node"):
        pytest.skip("node is not on the PATH")
    (tmp_path / "adapter.mjs").write_text(example(ADAPTERS, "adapter.mjs"))
    done = conformance("doctor", "command:node adapter.mjs", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    done = conformance("run", "command:node adapter.mjs", "--select", "varint/six-bytes", cwd=tmp_path)
    assert done.returncode == 1
    assert "varint/six-bytes  fail" in done.stdout


# --- commands -----------------------------------------------------------------------------------------

PAGES = {"README": README, **{path.stem: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}}


def commands_in(text):
    """Return the `conformance` commands in blocks of shell code, up to the next shell operator."""
    for block in re.findall(r"^```(?:sh|console)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"(?:\$ |.*&& )?(?:\.venv/bin/)?conformance (.*)", line):
                yield shlex.split(found[1].partition(" | ")[0].partition(" && ")[0].partition(" > ")[0], comments=True)


def parse(words):
    """Parse a command line like the program, without running it. Raises click.UsageError."""
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, words
    with click.Context(command, info_name=words[0]) as context:
        given, _, _ = command.make_parser(context).parse_args(list(words[1:]))
    for option in command.params:
        if isinstance(option.type, click.Choice) and (values := given.get(option.name)):
            assert set([values] if isinstance(values, str) else values) <= set(option.type.choices), words


@pytest.mark.parametrize("name", PAGES)
def test_every_shown_command_exists_with_its_options(name):
    for words in commands_in(PAGES[name]):
        parse(words)


def test_the_help_the_readme_and_the_docs_name_the_status_of_an_interrupted_run():
    help_text = main.get_command(click.Context(main), "run").help
    assert all(re.search(r"\b130( \|)? interrupted", text) for text in (help_text, README, PAGES["concepts"]))


@pytest.mark.parametrize("words", [["run", "x", "--no-such"], ["runn", "x"], ["run", "x", "--fail-on", "never"]])
def test_an_unknown_command_in_a_page_is_found(words):
    with pytest.raises((click.UsageError, AssertionError)):
        parse(words)


def test_the_pages_show_commands():
    shown = {words[0] for text in PAGES.values() for words in commands_in(text)}
    assert shown >= {"run", "doctor", "show", "list", "explain", "campaign", "scan", "lint", "fixtures"}
    assert shown <= set(COMMANDS)


@pytest.mark.parametrize("text", [README, ADAPTERS], ids=["readme", "adapters"])
def test_every_option_and_command_in_a_sentence_exists(text, tmp_path):
    helps = conformance("--help", cwd=tmp_path).stdout
    run_help = conformance("run", "--help", cwd=tmp_path).stdout + conformance("targets", "--help", cwd=tmp_path).stdout
    for command in re.findall(r"(?:^|`|bin/)conformance ([a-z-]+)", text, re.MULTILINE):
        assert command in helps, command
    for option in re.findall(r"`(--[a-z-]+)", text):
        assert option in run_help or option in ("--requirements", "--kafka-target", "--language"), option


def test_the_first_steps_work_as_written(tmp_path):
    walked = [
        words for words in commands_in(PAGES["index"]) if not {"kafka-python", "module:./adapter.py"} & set(words)
    ]
    assert [words[0] for words in walked] == ["run", "show", "list", "explain"]
    for words in walked:
        done = conformance(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_for_shell_completion_prints_a_script(shell, tmp_path):
    line = next(line for line in PAGES["index"].splitlines() if line.startswith(f"| {shell} |"))
    assert f"_CONFORMANCE_COMPLETE={shell}_source conformance" in line
    program = Path(sys.executable).parent / "conformance"
    env = {**os.environ, "_CONFORMANCE_COMPLETE": f"{shell}_source"}
    done = subprocess.run([program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    if "requires Bash" not in done.stderr:  # click needs the version of the shell
        assert "_CONFORMANCE_COMPLETE" in done.stdout
    variables = {
        "COMP_WORDS": "conformance run --known",
        "COMP_CWORD": "2",
        "_CONFORMANCE_COMPLETE": f"{shell}_complete",
    }
    done = subprocess.run([program], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert shell == "fish" or "--known-failures" in done.stdout


def test_the_shown_known_failures_are_valid_and_name_existing_cases(catalog, tmp_path):
    block = re.search(r"^## Known failures\n.*?^```yaml\n(.*?)^```", PAGES["concepts"], re.DOTALL | re.MULTILINE)[1]
    (tmp_path / "known.yaml").write_text(block, encoding="utf-8")
    entries = read_known(tmp_path / "known.yaml")
    assert [bool(entry.id) for entry in entries] == [True, False]
    assert stale(entries, catalog.cases, [], catalog.requirements) == []


# --- workflows ----------------------------------------------------------------------------------------

WORKFLOWS = {
    title: yaml.load(block, yaml.BaseLoader)  # only strings: `on` would be true
    for title, block in re.findall(
        r"^## (Go|Node|Python)\n.*?^```yaml\n(.*?)^```", PAGES["ci"], re.DOTALL | re.MULTILINE
    )
}


def steps(title):
    return WORKFLOWS[title]["jobs"]["conformance"]["steps"]


def judging(title):
    """Return the judging commands of a workflow, by their event."""
    found = {}
    for step in steps(title):
        command = step.get("run", "")
        if command.startswith("conformance run "):
            event = re.fullmatch(r"github\.event_name == '(\w+)'", step["if"])[1]
            found[event] = shlex.split(command.replace("${{ github.run_number }}", "417"))[1:]
    return found


def test_there_is_a_workflow_for_each_language():
    assert list(WORKFLOWS) == ["Go", "Node", "Python"]


@pytest.mark.parametrize("title", WORKFLOWS)
def test_a_workflow_runs_vectors_on_each_push_and_new_generated_cases_each_night(title):
    assert set(WORKFLOWS[title]["on"]) == {"push", "schedule"}
    found = judging(title)
    assert set(found) == {"push", "schedule"}
    assert "--generated 0" in " ".join(found["push"])
    assert "--seed 417" in " ".join(found["schedule"])
    assert all("--known-failures" in words for words in found.values())


@pytest.mark.parametrize("title", WORKFLOWS)
def test_a_workflow_pins_the_suite_and_caches_installations(title):
    assert f"/kafka_conformance-{__version__}-py3-none-any.whl\n" in PAGES["ci"]
    assert "pip install -r kafka-conformance/requirements.txt" in [step.get("run") for step in steps(title)]
    (python,) = (step["with"] for step in steps(title) if step.get("uses", "").startswith("actions/setup-python@"))
    assert python["cache"] == "pip"
    assert "kafka-conformance/requirements.txt" in python["cache-dependency-path"]
    assert all(re.search(r"@v\d+$", step["uses"]) for step in steps(title) if "uses" in step)


@pytest.mark.parametrize("event", ["push", "schedule"])
@pytest.mark.parametrize("title", WORKFLOWS)
def test_the_commands_of_a_workflow_work(title, event, tmp_path):
    (tmp_path / "kafka-conformance").mkdir()
    for step in steps(title):
        if step.get("run", "").startswith("conformance "):
            parse(shlex.split(step["run"])[1:])
    words = judging(title)[event]
    assert words[:1] == ["run"]
    assert re.match("(command|module):", words[1])
    done = conformance("run", "reference", *words[2:], "--select", "varint/z*", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_shown_option_of_a_campaign_exists(tmp_path):
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
"""Citations without a section of a document in the repository."""


def headings(text):
    """Return the sections of a document, named by the rule at the top of vectors/requirements.yaml."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^a-z0-9]+", "-", re.sub(r" \([^)]*\)$", "", line).lower()).strip("-") for line in lines}


SECTIONS = {name: headings(text) for name, text in DOCUMENTS.items()}


def dead_citations(text):
    """Return the citations in a text without a heading or rule, and malformed ones."""
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
def test_a_dead_citation_is_found(text):
    assert dead_citations(text)


@pytest.mark.parametrize(
    "text", ["decisions#batch", "docs/concepts.md#unspecified-behaviour-and-interpretations", "rule 2a", "rule 10"]
)
def test_a_valid_citation_is_not_reported(text):
    assert dead_citations(text) == []


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_an_anchor_in_a_browser_equals_the_anchor_in_the_register(name):
    github = {
        re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(
            r"^#+ (.*)$", re.sub(r"^```.*?^```", "", DOCUMENTS[name], flags=re.DOTALL | re.MULTILINE), re.MULTILINE
        )
    }
    assert github == SECTIONS[name]


def test_the_readme_lists_every_page_of_the_docs():
    assert [name for name in DOCUMENTS if f"](docs/{name}.md)" not in README.partition("\n## More\n")[2]] == []


def test_linked_files_exist():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            made = target == "requirements/index.md"  # checked by the build of the site, which fails for dead links
            assert made or (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_oldest_tested_versions_are_the_lower_bounds_of_the_package():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = [line for line in (ROOT / ".ci" / "lowest.txt").read_text().splitlines() if not line.startswith("#")]
    assert lowest == [bound.replace(">=", "==") for bound in dependencies]


def test_ci_pins_every_dependency_with_a_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dependencies = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    pinned = {line.partition("==")[0] for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines()}
    assert {bound.partition(">=")[0] for bound in dependencies if ">=" in bound} <= pinned
