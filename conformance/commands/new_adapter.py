"""`conformance new-adapter`: writes a starter adapter that passes `doctor` as it is."""

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
    """The starter adapter of a language: its files, what it needs, and what to run in its folder."""

    files: tuple[str, ...]
    needs: str
    """The oldest release of the language that it runs with."""
    tool: str
    """The program that has to be on the PATH; empty: none but the suite's own Python."""
    target: str
    """What `doctor` and `run` call it."""
    build: str = ""
    """The command that makes a program of it, where one is needed."""


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
    """Write a starter adapter, which passes `doctor` as it is, into a new or empty folder."""
    starter = STARTERS[language]
    _check_empty(folder)
    for name in starter.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, (_STARTERS / language / name).read_text(encoding="utf-8"))
        click.echo(f"wrote {path}")
    click.echo(
        "It decodes and encodes INT32, VARINT and STRING by code of its own: your library goes where it says "
        "YOUR LIBRARY."
    )
    lacks = f", and {starter.tool} is not on the PATH" if starter.tool and not shutil.which(starter.tool) else ""
    click.echo(f"It needs {starter.needs} or newer{lacks}. To judge it:")
    target = shlex.quote(starter.target)
    commands = [f"cd {shlex.quote(str(folder))}", starter.build, *(f"conformance {op} {target}" for op in _JUDGING)]
    click.echo("\n".join(f"  {line}" for line in commands if line))


_JUDGING = ("doctor", "run")
"""The commands for a new adapter, in the order in which one uses them."""


def _check_empty(folder: Path) -> None:
    """Raises FileError for a folder that holds something, and for a file; OSError where it cannot be looked into."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "it holds something" if folder.is_dir() else "it is a file"
        raise FileError(folder, f"{problem}; a new adapter needs a new or empty folder")
