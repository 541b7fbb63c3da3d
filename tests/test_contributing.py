"""CONTRIBUTING.md: each row of its table works on a copy of the project.

A row names the files to edit and the commands to run. The recipe of a row makes such an edit. The test fails if the
edit needs a file that the row does not name, or if a command of the row does not end with status 0.
"""

import fnmatch
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from traces import ROOT

pytestmark = pytest.mark.integration

LEFT_OUT = (".git", ".tox", ".venv", ".hypothesis", "target", "build", "dist", "*.egg-info", ".*_cache")


@dataclass(frozen=True)
class Row:
    """A row of the table: the goal, the files to edit, the commands to run."""

    wish: str
    files: tuple[str, ...]
    commands: tuple[str, ...]


def table() -> dict[str, Row]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| you want to |")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    quoted = re.compile(r"`([^`]+)`")
    return {
        wish: Row(wish, tuple(quoted.findall(files)), tuple(quoted.findall(then)))
        for wish, files, then in rows
        if not wish.startswith("--")
    }


@dataclass
class Copy:
    """A copy of the project, and the values of the words in capitals in a row's commands."""

    folder: Path
    words: dict[str, str] = field(default_factory=dict)

    def insert(self, path: str, before: str, text: str) -> None:
        """Insert text before the first line that starts with `before`."""
        file = self.folder / path
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if line.startswith(before))
        file.write_text("".join([*lines[:at], text, *lines[at:]]), encoding="utf-8")

    def append(self, path: str, text: str) -> None:
        with (self.folder / path).open("a", encoding="utf-8") as file:
            file.write(text)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def digests(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
        }

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a row in the copy, with its values, this interpreter and the copy's code."""
        words = [self.words.get(word, word) for word in shlex.split(command)]
        assert words[0] in ("conformance", "pytest"), f"a row runs conformance or pytest, not {words[0]}"
        further = ["-p", "no:cacheprovider"] if words[0] == "pytest" else []
        return subprocess.run(
            [sys.executable, "-m", *words, *further],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )


RECIPES = {}


def recipe(wish):
    return lambda function: RECIPES.setdefault(wish, function)


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return Copy(folder)


def walk(row: Row, copy: Copy) -> None:
    """Make the edit of a row, compare the edited files with the row, and run the row's commands."""
    before = copy.digests()
    RECIPES[row.wish](copy)
    edited = {path for path, digest in copy.digests().items() if before.get(path) != digest}
    named = {re.sub(r"<[a-z]+>", "*", path.rstrip("/")) for path in row.files}
    unnamed = {path for path in edited if not any(fnmatch.fnmatch(path, f"{name}*") for name in named)}
    assert edited
    assert not unnamed, f"the row does not name {unnamed}"
    assert row.commands
    for command in row.commands:
        done = copy.run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


def test_every_row_of_the_table_has_a_recipe_here():
    assert sorted(table()) == sorted(RECIPES)


@pytest.mark.parametrize("wish", sorted(table()))
def test_a_row_of_the_table_works_as_written(wish, copy):
    walk(table()[wish], copy)


def test_a_row_that_forgets_a_file_is_found(copy):
    honest = table()["add a requirement, and a vector for it"]
    with pytest.raises(AssertionError, match="does not name"):
        walk(Row(honest.wish, honest.files[:1], honest.commands), copy)


def test_a_row_whose_command_fails_is_found(copy):
    honest = table()["add a requirement, and a vector for it"]
    with pytest.raises(AssertionError, match="show boolean/no-such-vector"):
        walk(Row(honest.wish, honest.files, ("conformance show boolean/no-such-vector",)), copy)


# --- the recipes --------------------------------------------------------------------------------------


@recipe("add a requirement, and a vector for it")
def a_requirement_and_a_vector(copy):
    copy.append(
        "vectors/requirements.yaml",
        """
- id: boolean.recipe
  source: [primitive-types#boolean]
  level: should
  basis: stated
  statement: "A recipe of CONTRIBUTING.md adds this requirement."
  tests: [decode, encode, roundtrip]
""",
    )
    copy.append(
        "vectors/primitives/boolean.yaml",
        """  - id: boolean/recipe
    requirement: boolean.recipe
    value: true
    hex: "01"
    note: "a reader that takes 1 for false"
""",
    )
    copy.insert(
        "conformance/selftest/requirement_faults/primitives.py",
        "    # varints",
        '    "boolean.recipe": change_value("BOOLEAN", lambda value: not value),\n',
    )
    copy.words = {
        "FILE": "vectors/primitives/boolean.yaml",
        "CASE": "boolean/recipe",
        "REQUIREMENT": "boolean.recipe",
    }


@recipe("add a primitive type")
def a_primitive(copy):
    copy.insert(
        "conformance/codec/primitives.py", "        TAGGED_FIELDS,", '        integer("INT24", 3, signed=True),\n'
    )
    copy.words = {"TYPE": "INT24", "type:TYPE": "type:INT24", "HEX": "7fffff"}


@recipe("add a compression codec")
def a_codec(copy):
    copy.append(
        "vectors/requirements.yaml",
        """
- id: codec.zlib
  source: [record-batch#compression-codec-values]
  level: must
  basis: stated
  statement: "A recipe of CONTRIBUTING.md adds this requirement."
  tests: [decode]
""",
    )
    # zlib as number 5, which the documents do not use.
    copy.append(
        "conformance/codec/compression_formats.py",
        '''

def open_zlib(stream: BoundedStream) -> None:
    """One zlib stream."""
    inflater = zlib.decompressobj()
    with stream.refusing(zlib.error, lambda message: ("codec.zlib", False)):
        if not stream.pump(inflater):
            stream.fail("codec.zlib", "the zlib stream is truncated")


def store_zlib(data: bytes) -> bytes:
    """The data in zlib's framing, not compressed."""
    return zlib.compress(data, 0)
''',
    )
    table = copy.folder / "conformance/codec/compression.py"
    text = table.read_text(encoding="utf-8")
    end = text.index("\n", text.index('Codec("zstd"')) + 1
    row = '    Codec("zlib", "codec.zlib", formats.open_zlib, zlib.compress, (formats.store_zlib,), magics=(2,)),\n'
    text = text[:end] + row + text[end:]
    table.write_text(text.replace("from collections.abc", "import zlib\nfrom collections.abc", 1), encoding="utf-8")


@recipe("add a mutation")
def a_mutation(copy):
    copy.insert(
        "strategies/seeded/mutations.py",
        "MUTATIONS: dict",
        '''def _zeroed(_: MutationSubject, span: Span, _choices: RandomChoices) -> ByteEdit:
    """A number becomes zero."""
    return _replace(span, bytes(span.stop - span.start))


''',
    )
    copy.insert(
        "strategies/seeded/mutations.py", '    "recoded"', '    "zeroed": Mutation(MutationSubject.numbers, _zeroed),\n'
    )


@recipe("add a report format")
def a_report_format(copy):
    copy.write(
        "reports/counts.py",
        '''"""Results as one line of counts for each target."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.reports.formats import Report


def render(report: Report) -> Iterator[str]:
    """The text of the file."""
    yield from (f"{run.name} {len(run.results)}\\n" for run in report.runs)
''',
    )
    copy.insert("reports/formats.py", '    Format("json"', '    Format("counts", "counts", "Write counts."),\n')
    copy.words = {"--FORMAT": "--counts", "FILE": "counts.txt"}


@recipe("add a command")
def a_command(copy):
    copy.write(
        "conformance/commands/greet.py",
        '''"""`conformance greet`: greets."""

from __future__ import annotations

import click


@click.command("greet")
def command() -> None:
    """Greet."""
    click.echo("hello")
''',
    )
    copy.insert("conformance/cli.py", '    "lint":', '    "greet": "Greet.",\n')
    copy.words = {"COMMAND": "greet"}


@recipe("add a target")
def a_target(copy):
    copy.write(
        "adapters/tiny/adapter.py",
        '''"""A decoder of one type, without a fault."""

from conformance import Reject, Unsupported


def describe():
    """Say what can be asked."""
    return {"name": "tiny", "version": "1", "language": "python", "supports": {"decode": ["INT8"]}}


def decode(type, data, **parameters):
    """The value of the first byte."""
    if type != "INT8":
        raise Unsupported(type)
    if not data:
        raise Reject("malformed", "no byte")
    return int.from_bytes(data[:1], "big", signed=True), 1
''',
    )
    copy.write("adapters/tiny/target.yaml", "name: tiny\nabout: INT8\nlanguage: python\nmodule: adapter.py\n")
    copy.words = {"TARGET": "tiny"}


@recipe("add a bad target, which the suite must detect")
def a_bad_target(copy):
    copy.insert(
        "conformance/selftest/bad_targets.py",
        '    BadTarget("varint-off-by-one"',
        """    BadTarget("varint-off-by-two", "adds two to every varint",
         change_value(VARINT_TYPES, lambda value: int(value) + 2), fails("varint.zigzag-table")),
""",
    )
    copy.words = {"TARGET": "varint-off-by-two"}


@recipe("add a broker scenario")
def a_broker_scenario(copy):
    copy.append(
        "vectors/log/scenario.yaml",
        """  - id: scenario/recipe
    op: scenario
    requirement: broker.monotonic-offsets
    steps:
      - {do: produce}
      - {do: fetch}
    value: [ok, ["0.0"]]
    note: "a broker loses the record"
""",
    )
    copy.words = {"FILE": "vectors/log/scenario.yaml", "CASE": "scenario/recipe"}


SHARED = """import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "shared"))
"""


@recipe("add a live driver")
def a_live_driver(copy):
    copy.write(
        "adapters/tiny/driver.py",
        SHARED + "from tiny_client import consume, lines\n\nfor line in lines():\n    consume(line)\n",
    )
    copy.write(
        "adapters/tiny/driver.yaml",
        """name: tiny
about: "the client of the tests"
language: python
module: driver.py
entry-point: consume
codecs: [none]
magics: [2]
isolations: [read_uncommitted, read_committed]
concurrency: 1
""",
    )
    copy.words = {"live:CLIENT": "live:tiny"}


@recipe("add a broker")
def a_broker(copy):
    program = """from model_broker import ModelBroker

with ModelBroker() as broker:
    print(f"listens on {broker.address}", flush=True)
    time.sleep(3600)
"""
    copy.write("adapters/tiny/broker.py", SHARED + program)
    copy.write(
        "adapters/tiny/broker.yaml",
        """name: tiny
about: "the broker of the tests"
language: python
version: "1"
module: broker.py
startup: 30
""",
    )
    copy.words = {"broker:BROKER": "broker:tiny"}


@recipe("add a seeded fault")
def a_seeded_fault(copy):
    copy.insert(
        "conformance/selftest/known_faults/primitives.py",
        "    _fault(",
        """    _fault(
        "known/varint-off-by-two",
        description="a reader adds two to every varint",
        source="varint.zigzag-table",
        mutate=change_value("VARINT", lambda value: value + 2),
    ),
""",
    )
    copy.words = {"AREA": "primitives"}


@recipe("add a client scenario")
def a_client_scenario(copy):
    copy.insert(
        "conformance/cases/client_scenarios.py",
        '    "kafka-storage-error": ClientScenario(',
        """    "replicas-missing": ClientScenario(
        "The first write returns NOT_ENOUGH_REPLICAS.",
        produces=BATCHES,
        partition_errors=(ErrorCode.NOT_ENOUGH_REPLICAS,),
    ),
""",
    )
    copy.append(
        "vectors/requests/produce.yaml",
        """  - id: request/produce-replicas-missing
    op: send
    requirement: response.error-for-the-moment
    scenario: replicas-missing
    check: retried
    request: Produce
    note: "a producer gives the batch up"
""",
    )
    tables = [sys.executable, str(copy.folder / "tests/shared/scenario_tables.py")]
    subprocess.run(tables, env={**os.environ, "PYTHONPATH": str(copy.folder)}, check=True)
    copy.words = {"CASE": "request/produce-replicas-missing"}


@recipe("add a rule for message definitions")
def a_rule(copy):
    copy.insert(
        "conformance/definitions/lint_rules.py",
        "OF_A_SET",
        """def _without_fields(found: Definitions) -> Problems:
    for message in found.messages.values():
        if not message.structures[message.name] and message.name.startswith("Forbidden"):
            yield message.name, "it has no fields"


""",
    )
    copy.insert(
        "conformance/definitions/lint_rules.py",
        '    LintRule("definitions.api-key-16-bit"',
        '    LintRule("definitions.field-attributes", _without_fields),\n',
    )
