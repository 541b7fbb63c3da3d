"""The command line: finds the module of a command when it is asked for, and turns errors into exit statuses."""

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
"""Characters of an error's own text in the line."""


def report_of(error: BaseException) -> str:
    """The line for the user. The traceback is saved where the line says, or follows it where no file can be written."""
    text = "".join(traceback.format_exception(error))
    said = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
    line = f"a defect of the suite, at {_place(error)}: {said}"
    try:
        return f"{line} (please report it with {_saved(text)})"
    except OSError:
        return f"{line} (please report it with what follows)\n{text}"


def _place(error: BaseException) -> str:
    """The last line of ours that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _OURS in Path(frame.filename).parents]
    last = (ours or frames)[-1:]
    return f"{Path(last[0].filename).name}:{last[0].lineno}" if last else "an unknown place"


def _saved(text: str) -> str:
    """The path of a new file with the text, in the folder for temporary files. Raises OSError."""
    import tempfile

    head = f"kafka-conformance {__version__}, Python {platform.python_version()}\n{' '.join(sys.argv)}\n\n"
    with tempfile.NamedTemporaryFile(prefix="conformance-", suffix=".txt", delete=False) as file:
        file.write((head + text).encode("utf-8", "backslashreplace"))
    return file.name


COMMANDS = {
    "campaign": "Judge targets on millions of generated cases, on Spark.",
    "compare": "Say what changed from one JSON report to another.",
    "doctor": "Check an adapter before it judges its target.",
    "explain": "Annotate any bytes by the reference codec, with every violation and remark.",
    "fixtures": "Write golden binary fixtures.",
    "lint": "Check message definitions, and their evolution.",
    "list": "List cases, or requirements with level, document section and cases.",
    "new-adapter": "Write a starter adapter that passes `doctor`.",
    "run": "Judge one or several targets.",
    "scan": "Check stored log segments, batch by batch.",
    "selftest": "Judge the suite itself: how many seeded defects it catches.",
    "serve": "Speak the target protocol for the reference or a Python module.",
    "serve-broker": "Serve vectors, or files, to any Kafka client.",
    "show": "Show one case: its bytes field by field, what is expected, and why.",
    "targets": "List the bundled adapters, and what is missing where one cannot run.",
    "vectors": "Check and format vector files.",
}
"""The name of each command and its line in the help; its module in `conformance/commands/` has `_` for `-`."""

_OBJECTS = 50_000
"""Objects that are made before those that are new are looked through for cycles: what a command loads has none."""


def command_of(name: str) -> click.Command:
    """The command of a name in the table; its module is loaded only now."""
    command = import_module(f"conformance.commands.{name.replace('-', '_')}").command
    assert isinstance(command, click.Command)
    return command


class LazyCommandGroup(click.Group):
    """Imports a command's module when the command is asked for, so that nothing else is loaded."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """The names, as the help lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click passes it
        """The command of a name."""
        return command_of(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> None:
        """Run the command, and exit with the status that it returns or that its error has."""
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
            # Whoever read our output is gone; that is no failure of ours.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = ExitStatus.WRONG_INPUT
        except OSError as error:
            click.echo(f"conformance: {error.filename or 'i/o'}: {error.strerror or error}", err=True)
            status = ExitStatus.WRONG_INPUT
        except Exception as error:  # noqa: BLE001 - the last net
            status = _unexpected(error)
        ctx.exit(status or ExitStatus.OK)


def _unexpected(error: Exception) -> ExitStatus:
    """Tell of an error that nobody expected, on a standard error that may be gone or full."""
    with suppress(OSError):
        click.echo(f"conformance: {report_of(error)}", err=True)
    return ExitStatus.DEFECT


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="conformance")
def main() -> None:
    """Judge decoders and encoders of the Apache Kafka wire format, requirement by requirement."""
