"""The command line: loads the module of the requested command, and converts errors to exit statuses."""

from __future__ import annotations

import gc
import os
import platform
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click

from conformance import __version__
from conformance.errors import ConformanceError, ExitStatus, SuiteBug

_OURS = Path(__file__).parent
_LONGEST = 200
"""Maximum length of an exception's message in the error line, in characters."""


def report_of(error: BaseException) -> str:
    """Return the error line with the path of a traceback file, or with the traceback if no file can be written."""
    text = "".join(traceback.format_exception(error))
    message = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
    line = f"a defect of the suite, at {_place(error)}: {message}"
    try:
        return f"{line} (please report it with the file {_saved(text)})"
    except OSError:
        return f"{line} (please report it with this traceback)\n{text}"


def _place(error: BaseException) -> str:
    """Return the file and line of the last traceback frame in the suite's code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _OURS in Path(frame.filename).parents]
    last = (ours or frames)[-1:]
    return f"{Path(last[0].filename).name}:{last[0].lineno}" if last else "an unknown place"


def _saved(text: str) -> str:
    """Write the text into a new temporary file and return its path. Raises OSError."""
    import tempfile

    head = f"kafka-conformance {__version__}, Python {platform.python_version()}\n{' '.join(sys.argv)}\n\n"
    with tempfile.NamedTemporaryFile(prefix="conformance-", suffix=".txt", delete=False) as file:
        file.write((head + text).encode("utf-8", "backslashreplace"))
    return file.name


COMMANDS = {
    "campaign": "Judge targets on millions of generated cases, on Spark.",
    "compare": "Compare two JSON reports: new, fixed and missing results.",
    "doctor": "Check an adapter before it judges its target.",
    "explain": "Decode bytes with the reference codec and show every field and violation.",
    "fixtures": "Write the vectors as binary files for other test suites.",
    "lint": "Check message definitions and their changes between releases.",
    "list": "List cases, or requirements with level, source and cases.",
    "new-adapter": "Write a starter adapter that passes `doctor`.",
    "run": "Judge one or several targets.",
    "scan": "Check every batch of stored log segments.",
    "selftest": "Test the suite itself with seeded faults.",
    "serve": "Run the reference or a Python module as a target process (line protocol).",
    "serve-broker": "Serve vectors or log files to any Kafka client.",
    "show": "Show one case: its bytes field by field, the expected result, the requirement.",
    "targets": "List the bundled adapters and their missing dependencies, or set one up.",
    "vectors": "Check and format vector files.",
}
"""The commands with their lines in the help. The module of `new-adapter` is `conformance/commands/new_adapter.py`."""

_OBJECTS = 50_000
"""Threshold of the garbage collector, in new objects: a command loads many objects, but few reference cycles."""


def command_of(name: str) -> click.Command:
    """Import the module of a command, and return the command."""
    command = import_module(f"conformance.commands.{name.replace('-', '_')}").command
    assert isinstance(command, click.Command)
    return command


class LazyCommandGroup(click.Group):
    """A group that imports only the module of the requested command, so that `--help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """Return the command names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click passes it
        """Return the command, or None if it is unknown."""
        return command_of(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands into the help, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> None:
        """Run the command, and exit with its status or with the status of its error."""
        gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
        try:
            status = super().invoke(ctx)
        except KeyboardInterrupt:
            status = ExitStatus.INTERRUPTED
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except SuiteBug as error:
            status = _unexpected(error)
        except ConformanceError as error:
            click.echo(f"conformance: {error}", err=True)
            status = error.exit_status
        except BrokenPipeError:
            # The reader of the output has exited (`| head`). Without this line, Python would print an error at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = ExitStatus.WRONG_INPUT
        except OSError as error:
            click.echo(f"conformance: {error.filename or 'i/o'}: {error.strerror or error}", err=True)
            status = ExitStatus.WRONG_INPUT
        except Exception as error:  # noqa: BLE001 - every other exception is a bug of the suite
            status = _unexpected(error)
        ctx.exit(status or ExitStatus.OK)


def _unexpected(error: Exception) -> ExitStatus:
    """Print an unexpected error, unless standard error is closed or full. Return the exit status."""
    with suppress(OSError):
        click.echo(f"conformance: {report_of(error)}", err=True)
    return ExitStatus.DEFECT


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="conformance")
def main() -> None:
    """Test decoders, encoders, clients and brokers of the Apache Kafka wire format against its requirements."""
