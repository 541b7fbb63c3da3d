"""Untrusted YAML and JSON: input that could exhaust stack or memory is one error with path and line."""

import resource
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from peak import run_alone

from conformance.catalog.vector_files import read_vectors
from conformance.catalog.vector_formatter import fix
from conformance.definitions.loader import DefinitionError, read_definitions
from conformance.errors import FileError
from conformance.files.bounded_json import DEEPEST, MOST_VALUES, read_json
from conformance.files.yaml_loader import DEEPEST as DEEPEST_YAML
from conformance.files.yaml_loader import LARGEST, MOST_NODES, check_yaml, load
from conformance.reports.comparison import read_report
from conformance.runner.fixtures import write_fixtures
from conformance.runner.known_failures import read_known


def laughs(levels, width=10):
    """Return an alias bomb: each line contains the previous one several times."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * width)}]" for at in range(1, levels)]
    return "\n".join(lines) + "\n"


YAML = {
    "brackets": ("\n" + "[" * 50_000, ":2: lists and mappings are nested more than 100 deep"),
    "few brackets": ("[" * 1000 + "]" * 1000, ":1: lists and mappings are nested more than 100 deep"),
    "braces": ("{a: " * 1000 + "1" + "}" * 1000, ":1: lists and mappings are nested"),
    "dashes": ("- " * 50_000 + "x", ":1: lists and mappings are nested"),
    "indents": ("".join(f"{' ' * at}a:\n" for at in range(2000)), ":101: lists and mappings are nested"),
    "laughs": (laughs(9), ":7: more than 32 MiB after the expansion of every alias"),
    "long laughs": (
        f"- &a {'x' * 100_000}\n- [{', '.join(['*a'] * 1000)}]",
        ":2: more than 32 MiB after the expansion",
    ),
    "an alias in itself": ("&a [*a]", ":1: the alias 'a' is inside its own anchor"),
    "many values": ("[" + "0," * (MOST_NODES + 1) + "]", ":1: more than 300,000 values"),
    "a long file": ("#" * (LARGEST + 1), ": more than 16 MiB"),
    "tags": ("!!python/object:os.system {}", ":1: the tag is 'tag:yaml.org,2002:python/object:os.syste', expected"),
    "a set": ("- 1\n- !!set {a, b}", ":2: the tag"),
    "a number of 5,000 digits": ("- a\n- " + "9" * 5000, ":"),
    "a zero byte": ("- a\n- \0", ": not YAML"),
    "bytes that are not UTF-8": (b"- \xff\xfe", ": not YAML"),
}


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("text, message", YAML.values(), ids=YAML)
@pytest.mark.parametrize("reader", [load, read_known, fix, lambda path: list(read_vectors(path))])
def test_yaml_beyond_bounds_is_one_line_with_path_and_line(written, reader, text, message):
    path = written(text)
    with pytest.raises(FileError) as caught:
        reader(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < len(str(path)) + 320


def test_yaml_within_bounds_is_read(written):
    deep = "[" * (DEEPEST_YAML - 1) + "]" * (DEEPEST_YAML - 1)
    document = load(written(f"a: {deep}\nb: &b [x, 1]\nc: [*b, *b]"))
    assert str(document["a"]) == deep
    assert document["c"] == [["x", 1], ["x", 1]]


@pytest.mark.parametrize("text", ["", "5", "{}", "vectors: 5", "vectors: [5]", "- 5", "vectors: {a: b}"])
def test_a_file_with_other_content_is_one_line(written, text):
    path = written(text)
    with pytest.raises(FileError, match=r"file\.yaml:.* expected"):
        list(read_vectors(path))
    with suppress(FileError):
        fix(path)


def test_a_plain_file_of_the_largest_size_is_within_bounds():
    check_yaml("- " + "x" * (LARGEST - 2))


@pytest.mark.parametrize(
    "pieces", ['[{repeat: 16777216, hex: "000000"}]', '["00", {repeat: 16777216, hex: "0000 00"}]']
)
def test_repeats_are_bounded_in_all_of_a_file(written, pieces):
    path = written("- {id: a/b, hex: '00'}\n" + f"- {{id: a/c, hex: {pieces}}}\n")
    with pytest.raises(FileError, match=r"file\.yaml:2: the vectors hold more than 32 MiB"):
        list(read_vectors(path))


def test_many_repeats_are_bounded_together(written):
    rows = "".join(f'- {{id: a/b{at}, hex: [{{repeat: 8388608, hex: "00"}}]}}\n' for at in range(10))
    with pytest.raises(FileError, match=r"file\.yaml:5: the vectors hold more than 32 MiB"):
        list(read_vectors(written(rows)))


def limited():
    """Limit the child to 5 seconds of CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))


@pytest.mark.parametrize("name", ["brackets", "laughs", "many values"])
def test_a_command_that_reads_such_a_file_ends_with_status_2_in_little_memory(written, name):
    text, message = YAML[name]
    path = written(text)
    done, most = run_alone([sys.executable, "-m", "conformance", "vectors", "check", str(path)], before=limited)
    assert done.returncode == 2, done.stderr
    assert f"{path}{message}" in done.stderr + done.stdout
    assert 0 < most < 200 << 20


def test_the_measured_memory_of_a_command_excludes_its_parent():
    ballast = b"x" * (300 << 20)
    _, little = run_alone([sys.executable, "-c", "pass"])
    _, much = run_alone([sys.executable, "-c", "b'x' * (100 << 20)"])
    assert 0 < little < 100 << 20 < much < len(ballast)


# --- JSON ---------------------------------------------------------------------------------------------

DEEP = [b"[" * 50_000, b"[" * 500 + b"]" * 500, b'{"a":' * 500 + b"1" + b"}" * 500]


@pytest.mark.parametrize("text", DEEP, ids=["open", "lists", "objects"])
def test_json_nested_beyond_bounds_is_refused(text):
    with pytest.raises(ValueError, match=r"nested more than 128 deep|truncated"):
        read_json(text)


def test_json_within_bounds_is_read():
    assert read_json(b"[" * DEEPEST + b"]" * DEEPEST)
    assert read_json(b'{"a": [1, "[[[[", null]}') == {"a": [1, "[[[[", None]}


def test_json_of_too_many_values_is_refused():
    with pytest.raises(ValueError, match="more than 1,000,000 values"):
        read_json(b"[" + b"0," * MOST_VALUES + b"0]")


@pytest.mark.parametrize("text", [*DEEP, b'{"fields": ' + b"[" * 900 + b"]" * 900 + b"}"])
def test_definitions_nested_beyond_bounds_are_findings(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    try:
        findings = read_definitions(path).findings
    except DefinitionError as error:
        findings = error.findings
    assert findings
    assert all(len(str(finding).splitlines()) == 1 for finding in findings)


@pytest.mark.parametrize("text", DEEP)
def test_a_fixture_manifest_nested_beyond_bounds_is_left_unchanged(tmp_path, text):
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(FileExistsError, match="not a manifest"):
        write_fixtures(tmp_path)


@pytest.mark.parametrize("text", [*DEEP, b'{"results": [], "x": ' + b"[" * 50_000 + b"}"])
def test_a_report_nested_beyond_bounds_is_one_error(tmp_path, text):
    path = Path(tmp_path / "report.json")
    path.write_bytes(text)
    with pytest.raises(FileError):
        read_report(path)
