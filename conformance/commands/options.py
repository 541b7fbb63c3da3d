"""The options that several commands share, and the functions that convert their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import click

from conformance.cases.model import BASES
from conformance.errors import UsageError
from conformance.reports.formats import FORMATS

if TYPE_CHECKING:
    from conformance.codec.message_spec import MessageSpec

P = ParamSpec("P")
R = TypeVar("R")

PATH = click.Path(path_type=Path)
Given: TypeAlias = dict[str, Any]
"""The options of a command, as parsed by click."""


# --- callbacks that convert the text of an option -----------------------------------------------------


def _seed(_: click.Context, __: click.Parameter, text: str) -> int:
    """Return the given seed, or a random seed. Raises UsageError."""
    if text == "random":
        import secrets

        return secrets.randbelow(1 << 32)
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError("--seed", f"expected a number of at most 18 digits or random, found {text[:40]!r}")
    return int(text)


def _seconds(_: click.Context, __: click.Parameter, number: float) -> float:
    """Return the seconds. Raises UsageError for NaN, which click.FloatRange accepts."""
    if math.isnan(number):
        raise UsageError("--timeout", "expected a number of seconds, found nan")
    return number


def _settings(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return the Spark settings by name. Raises UsageError."""
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", name):
            raise UsageError("--conf", f"expected KEY=VALUE, found {text[:60]!r}")
        settings[name] = value
    return settings


def _print_schema(context: click.Context, _: click.Parameter, is_requested: bool) -> None:  # noqa: FBT001 - click's
    """Print the JSON Schema of the report and exit."""
    if is_requested:
        from conformance.reports.json_schema import schema_text

        click.echo(schema_text(), nl=False)
        context.exit()


def mebibytes(_: click.Context, __: click.Parameter, number: int) -> int:
    """Convert an option in MiB to bytes."""
    return number << 20


# --- options ------------------------------------------------------------------------------------------

seed = click.option(
    "--seed",
    default="0",
    show_default=True,
    metavar="N|random",
    callback=_seed,
    help="Seed of the generated cases.",
)
timeout = click.option(
    "--timeout",
    type=click.FloatRange(0.05, 3600),
    default=5.0,
    show_default=True,
    callback=_seconds,
    help="Seconds to wait for an answer.",
)
memory = click.option(
    "--memory",
    type=click.IntRange(16, 1 << 24),
    default=1024,
    show_default=True,
    callback=mebibytes,
    help="Memory limit of a target with its child processes, in MiB.",
)
growth = click.option(
    "--growth",
    type=click.IntRange(1, 1 << 24),
    default=64,
    show_default=True,
    callback=mebibytes,
    help="Allowed memory growth for a hostile case, in MiB, plus 256 bytes per byte of the case.",
)
python = click.option("--python", metavar="PATH", help="Python interpreter for module targets.")
definitions = click.option(
    "--definitions",
    type=PATH,
    metavar="PATH",
    help="Message definitions that extend or replace the shipped ones: a folder, a file, a jar or a zip.",
)
vectors = click.option("--vectors", multiple=True, type=PATH, metavar="DIR", help="Additional folder of vectors.")
known_failures = click.option(
    "--known-failures", type=PATH, metavar="FILE", help="YAML list of known failures, {id, reason}, which do not count."
)
fail_on = click.option(
    "--fail-on",
    type=click.Choice(["must", "should"]),
    default="must",
    show_default=True,
    help="Lowest level at which failures count.",
)
basis = click.option(
    "--basis",
    multiple=True,
    type=click.Choice(BASES),
    help="Judge only requirements with this basis; repeatable.  [default: all]",
)
strict = click.option("--strict", is_flag=True, help="Disputed failures count too.")
clean = click.option("--clean", is_flag=True, help="At the end, delete the topics that the run created on a broker.")
log_dir = click.option(
    "--log-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Log folder of the broker: the stored bytes are judged too.",
)
follow_redirects = click.option(
    "--follow-redirects",
    is_flag=True,
    help="Connect to every leader and coordinator that a broker returns, not only to the given address.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Print only the tables.")
master = click.option("--master", metavar="URL", help="Spark master: local[N], spark://…  [default: local[*]]")
conf = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", callback=_settings, help="Setting of Spark; repeatable."
)

json_schema = click.option(
    "--json-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of the file that --json writes.",
)


def report_files(command: Callable[..., R]) -> Callable[..., R]:
    """Add a file option for each report format to a command. The parameter `files` contains the paths by format."""

    @wraps(command)
    def wrapped(**options: Any) -> R:
        paths = {form.name: options.pop(f"{form.name}_report") for form in FORMATS}
        return command(**options, files={name: path for name, path in paths.items() if path is not None})

    for form in reversed(FORMATS):
        wrapped = click.option(f"--{form.name}", f"{form.name}_report", type=PATH, metavar="FILE", help=form.help)(
            wrapped
        )
    return wrapped


# --- functions that several commands use --------------------------------------------------------------


def needs(extra: str, *packages: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the command raises MachineError if packages of an extra are not installed."""

    def decorated(command: Callable[P, R]) -> Callable[P, R]:
        @wraps(command)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            from conformance.pipeline.options import require

            require(extra, *packages)
            return command(*args, **kwargs)

        return wrapped

    return decorated


def read_messages(path: Path | None) -> tuple[MessageSpec, ...]:
    """Return the messages defined at the path of --definitions. Raises UsageError."""
    from conformance.definitions.loader import DefinitionError, usable

    if path is None:
        return ()
    try:
        return tuple(usable(path).messages.values())
    except DefinitionError as error:
        raise UsageError("--definitions", str(error)) from None


def bytes_of(text: str, where: str) -> bytes:
    """Return the bytes of hex digits; `where` is the name of the option or argument. Raises UsageError."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(where, f"expected hex digits, found {text[:60]!r}") from None
