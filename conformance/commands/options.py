"""The options that several commands share, each written once, and what is made of them."""

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
"""The options of a command, as click has read them."""


# --- from the text of an option to its value ----------------------------------------------------------


def _seed(_: click.Context, __: click.Parameter, text: str) -> int:
    """A seed as it was given, or one at random. Raises UsageError."""
    if text == "random":
        import secrets

        return secrets.randbelow(1 << 32)
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError("--seed", f"expected a number or random, at most 18 digits, found {text[:40]!r}")
    return int(text)


def _seconds(_: click.Context, __: click.Parameter, number: float) -> float:
    """A span of time; a range of click's lets NaN pass. Raises UsageError."""
    if math.isnan(number):
        raise UsageError("--timeout", "expected a number of seconds, found nan")
    return number


def _settings(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Settings of Spark by their names. Raises UsageError."""
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", name):
            raise UsageError("--conf", f"expected KEY=VALUE, found {text[:60]!r}")
        settings[name] = value
    return settings


def _print_schema(context: click.Context, _: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001 - click's
    """Print the JSON Schema of the report, and end."""
    if is_asked:
        from conformance.reports.json_schema import schema_text

        click.echo(schema_text(), nl=False)
        context.exit()


def mebibytes(_: click.Context, __: click.Parameter, number: int) -> int:
    """Bytes, from an option in MiB."""
    return number << 20


# --- options ------------------------------------------------------------------------------------------

seed = click.option(
    "--seed",
    default="0",
    show_default=True,
    metavar="N|random",
    callback=_seed,
    help="The seed of the generated cases.",
)
timeout = click.option(
    "--timeout",
    type=click.FloatRange(0.05, 3600),
    default=5.0,
    show_default=True,
    callback=_seconds,
    help="Seconds for an answer.",
)
memory = click.option(
    "--memory",
    type=click.IntRange(16, 1 << 24),
    default=1024,
    show_default=True,
    callback=mebibytes,
    help="MiB for a target and its children.",
)
growth = click.option(
    "--growth",
    type=click.IntRange(1, 1 << 24),
    default=64,
    show_default=True,
    callback=mebibytes,
    help="MiB by which a hostile case may make a target grow, beside 256 bytes for each of its bytes.",
)
python = click.option("--python", metavar="PATH", help="Interpreter for module targets.")
definitions = click.option(
    "--definitions",
    type=PATH,
    metavar="PATH",
    help="Message definitions, besides the shipped ones or in their place: a folder, a file, a jar or a zip.",
)
vectors = click.option("--vectors", multiple=True, type=PATH, metavar="DIR", help="A further folder of vectors.")
known_failures = click.option(
    "--known-failures", type=PATH, metavar="FILE", help="YAML list of {id, reason} that do not count."
)
fail_on = click.option(
    "--fail-on",
    type=click.Choice(["must", "should"]),
    default="must",
    show_default=True,
    help="Lowest level that counts.",
)
basis = click.option(
    "--basis",
    multiple=True,
    type=click.Choice(BASES),
    help="Judge only by requirements that rest on this; repeatable.  [default: all]",
)
strict = click.option("--strict", is_flag=True, help="Disputed failures count too.")
clean = click.option("--clean", is_flag=True, help="Delete the topics that the run has made on a broker, at its end.")
log_dir = click.option(
    "--log-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Where the broker keeps its log: what it stores is judged too.",
)
follow_redirects = click.option(
    "--follow-redirects",
    is_flag=True,
    help="Connect to every leader and coordinator that a broker returns, not only to the given address.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Only the tables.")
master = click.option("--master", metavar="URL", help="Spark's master: local[N], spark://…  [local[*]]")
conf = click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=_settings, help="A setting of Spark.")

json_schema = click.option(
    "--json-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of the file that --json writes.",
)


def report_files(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command an option per report format; it gets the paths as `files`, by the name of the format."""

    @wraps(command)
    def wrapped(**options: Any) -> R:
        paths = {form.name: options.pop(f"{form.name}_report") for form in FORMATS}
        return command(**options, files={name: path for name, path in paths.items() if path is not None})

    for form in reversed(FORMATS):
        wrapped = click.option(f"--{form.name}", f"{form.name}_report", type=PATH, metavar="FILE", help=form.help)(
            wrapped
        )
    return wrapped


# --- what commands have in common ---------------------------------------------------------------------


def needs(extra: str, *packages: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse a command where packages of an extra are not installed. Raises MachineError."""

    def decorated(command: Callable[P, R]) -> Callable[P, R]:
        @wraps(command)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            from conformance.pipeline.options import require

            require(extra, *packages)
            return command(*args, **kwargs)

        return wrapped

    return decorated


def read_messages(path: Path | None) -> tuple[MessageSpec, ...]:
    """The messages that are defined at the path of --definitions. Raises UsageError."""
    from conformance.definitions.loader import DefinitionError, usable

    if path is None:
        return ()
    try:
        return tuple(usable(path).messages.values())
    except DefinitionError as error:
        raise UsageError("--definitions", str(error)) from None


def bytes_of(text: str, where: str) -> bytes:
    """Bytes from the hex digits of an option or argument, named `where`. Raises UsageError."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(where, f"expected hex digits, found {text[:60]!r}") from None
