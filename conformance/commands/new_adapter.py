"""`conformance new-adapter`: writes a starter adapter that passes `doctor` unchanged."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import click
from msgspec import Struct

from conformance.commands import options as shared
from conformance.errors import FileError
from conformance.files.atomic import replace_text

_STARTERS = Path(__file__).parent.parent / "adapters" / "starters"


class StarterAdapter(Struct, frozen=True):
    """The starter adapter of a language: its files, its requirements, and its commands."""

    files: tuple[str, ...]
    needs: str
    """The oldest supported release of the language."""
    tool: str
    """The program that must be on the PATH; empty: only the Python of the suite."""
    target: str
    """The name of the target for `doctor` and `run`."""
    build: str = ""
    """The build command; empty if the language needs no build."""


STARTERS = {
    "go": StarterAdapter(("adapter.go", "go.mod"), "Go 1.21", "go", "command:./adapter", "go build -o adapter ."),
    "java": StarterAdapter(("Adapter.java",), "JDK 17", "java", "command:java Adapter.java"),
    "node": StarterAdapter(("adapter.mjs",), "Node.js 18", "node", "command:node adapter.mjs"),
    "python": StarterAdapter(("adapter.py",), "Python 3.8", "", "module:./adapter.py"),
    "rust": StarterAdapter(
        ("Cargo.toml", "src/json.rs", "src/main.rs"),
        "Rust 1.77",
        "cargo",
        "command:target/release/adapter",
        "cargo build --release",
    ),
}
"""The starters by language; their files are package data."""


@click.command("new-adapter")
@click.option("--language", type=click.Choice(list(STARTERS)), required=True, help="The language of the adapter.")
@click.argument("folder", type=shared.PATH, metavar="DIR")
def command(language: str, folder: Path) -> None:
    """Write a starter adapter into a new or empty folder. The adapter passes `doctor` unchanged."""
    starter = STARTERS[language]
    _check_empty(folder)
    for name in starter.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, (_STARTERS / language / name).read_text(encoding="utf-8"))
        click.echo(f"wrote {path}")
    click.echo(
        "The adapter decodes and encodes INT32, VARINT and STRING with example code. "
        "At the comment YOUR LIBRARY, replace it with calls of your library."
    )
    missing = f", and {starter.tool} is not on the PATH" if starter.tool and not shutil.which(starter.tool) else ""
    click.echo(f"It needs {starter.needs} or newer{missing}. To test it:")
    target = shlex.quote(starter.target)
    commands = [f"cd {shlex.quote(str(folder))}", starter.build, *(f"conformance {op} {target}" for op in _JUDGING)]
    click.echo("\n".join(f"  {line}" for line in commands if line))


_JUDGING = ("doctor", "run")
"""The commands for a new adapter, in the order of use."""


def _check_empty(folder: Path) -> None:
    """Raise FileError for a file or a folder that is not empty; OSError for a folder that cannot be read."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "a folder that is not empty" if folder.is_dir() else "a file"
        raise FileError(folder, f"expected a new or empty folder, found {found}")
