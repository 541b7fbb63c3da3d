"""`conformance new-adapter`: each starter works unmodified, and existing files are not overwritten."""

import re
import shlex
import shutil
import subprocess

import pytest
from command_line import conformance

from conformance.commands.new_adapter import _STARTERS, STARTERS

LANGUAGES = sorted(STARTERS)
FOREIGN = [language for language in LANGUAGES if language != "python"]


def lacking(tool):
    """Return why a tool is not usable here, or "" if it is usable or not needed."""
    if tool and not shutil.which(tool):
        return f"{tool} is not on the PATH"
    command = [tool, "version" if tool == "go" else "--version"]
    if tool and subprocess.run(command, capture_output=True, check=False).returncode:
        return f"{shlex.join(command)} fails"
    return ""


@pytest.mark.parametrize(
    "language", ["python", *(pytest.param(name, marks=pytest.mark.integration) for name in FOREIGN)]
)
def test_an_unmodified_starter_passes_doctor_and_a_run_of_its_types(language, tmp_path):
    starter, folder = STARTERS[language], tmp_path / "adapter"
    done = conformance("new-adapter", "--language", language, folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall("^wrote (.*)", done.stdout, re.MULTILINE)) == [
        str(folder / name) for name in starter.files
    ]
    if reason := lacking(starter.tool):
        pytest.skip(f"{reason}: the {language} starter was written, but not built, examined or judged")
    if starter.build:
        built = subprocess.run(
            shlex.split(starter.build), cwd=folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert built.returncode == 0, built.stderr
    examined = conformance("doctor", starter.target, cwd=folder)
    assert examined.returncode == 0, examined.stdout + examined.stderr
    types = ("INT32", "STRING", "VARINT")
    for op in ("decode", "encode"):
        assert re.findall(rf"^ok    {op} ([A-Z0-9]+)", examined.stdout, re.MULTILINE) == list(types)
    selected = [word for name in types for word in ("--select", f"type:{name}")]
    judged = conformance("run", starter.target, "--generated", "20", *selected, cwd=folder)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert int(re.search(r"^cases: (\d+) pass", judged.stdout, re.MULTILINE)[1]) > 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_printed_commands_are_also_in_the_starter(language, tmp_path):
    printed = conformance("new-adapter", "--language", language, "adapter", cwd=tmp_path).stdout
    commands = re.findall("^  (.*)", printed, re.MULTILINE)
    assert commands[0] == "cd adapter"
    texts = [(tmp_path / "adapter" / name).read_text() for name in STARTERS[language].files]
    assert sum("YOUR LIBRARY" in text for text in texts) == 1
    for line in commands[1:]:
        assert any(line in text for text in texts), line


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_of_a_starter_is_written(language):
    kept = {path for path in (_STARTERS / language).rglob("*") if path.is_file()}
    built = {path for path in kept if {"__pycache__", "target"} & set(path.parts)}
    assert {str(path.relative_to(_STARTERS / language)) for path in kept - built} == set(STARTERS[language].files)


def test_a_folder_with_content_is_rejected_and_left_unchanged(tmp_path):
    (tmp_path / "mine.go").write_text("package mine\n")
    done = conformance("new-adapter", "--language", "go", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "conformance: .: expected a new or empty folder, found a folder that is not empty\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.go"]


def test_a_file_instead_of_a_folder_is_rejected_and_left_unchanged(tmp_path):
    (tmp_path / "mine.go").write_text("package mine\n")
    done = conformance("new-adapter", "--language", "go", "mine.go", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "conformance: mine.go: expected a new or empty folder, found a file\n"
    assert (tmp_path / "mine.go").read_text() == "package mine\n"


def test_an_empty_folder_is_accepted(tmp_path):
    done = conformance("new-adapter", "--language", "node", ".", cwd=tmp_path)
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["adapter.mjs"]


def test_a_missing_build_tool_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = conformance("new-adapter", "--language", "rust", "adapter", cwd=tmp_path)
    assert done.returncode == 0
    assert "It needs Rust 1.77 or newer, and cargo is not on the PATH." in done.stdout
