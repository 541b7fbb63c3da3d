"""`pytest --kafka-target TARGET`: in anyone's project, a test per case and a property per type.

Nothing but pytest is imported here until that option is given. Every pytest process (with pytest-xdist: every worker)
starts a target when it first needs it, and puts all its cases to that one process. The session is red exactly when
`conformance run` would exit with a status other than 0.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance import NAME


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `conformance run` that also make sense in pytest."""
    group = parser.getgroup(NAME, "conformance with the Apache Kafka wire format")

    def option(name: str, text: str, **how: object) -> None:
        group.addoption(f"--kafka-{name}", help=text, **how)

    option(
        "target",
        "Judge this target: reference, a bundled adapter, module:NAME, module:./FILE.py or command:COMMAND LINE.",
        action="append",
        metavar="TARGET",
    )
    option(
        "select",
        "Only the cases that match: a glob over case ids, or type:…, requirement:…, level:….",
        action="append",
        metavar="PATTERN",
    )
    option("vectors", "A further folder of vectors.", action="append", metavar="DIR")
    option("known-failures", "YAML list of {id, reason} of known failures: strict xfails.", metavar="FILE")
    option("fail-on", "Lowest level that fails [must].", choices=("must", "should"), default="must")
    option("strict", "Disputed failures count too.", action="store_true")
    option(
        "generated",
        "Generated cases per type, 0 for vectors only [200].",
        type=_number(int, 0, None),
        default=200,
        metavar="N",
    )
    option("seed", "Seed of the generated cases [0].", type=_number(int, 0, None), default=0, metavar="N")
    option("timeout", "Seconds for an answer [5].", type=_number(float, 0.05, 3600), default=5.0, metavar="SECONDS")
    option(
        "memory", "MiB for a target and its children [1024].", type=_number(int, 16, None), default=1024, metavar="MIB"
    )
    option("python", "Interpreter for module targets.", metavar="PATH")


def _number(kind: type[int | float], least: float, most: float | None) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not least <= number <= (number if most is None else most):
            raise argparse.ArgumentTypeError(f"{text} is below {least:g}" if number < least else f"{text} is too much")
        return number

    return parse


def pytest_configure(config: pytest.Config) -> None:
    """Register our hooks if a target is given. Take our ids out of the arguments: pytest would look for such files."""
    if config.getoption("kafka_target"):
        from conformance.pytest_plugin.session_hooks import SessionHooks

        ours = {argument: _our_id(config, argument) for argument in config.args}
        config.args[:] = [argument for argument in config.args if not ours[argument]]
        config.pluginmanager.register(SessionHooks(config, list(filter(None, ours.values()))), f"{NAME}-suite")


def _our_id(config: pytest.Config, argument: str) -> str:
    """An argument as the id of one of our items, seen from the root of the project; empty when it is something else."""
    place, colons, rest = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / place))
    is_ours = path == config.rootpath / NAME and (colons or not path.exists())
    return NAME + colons + rest if is_ours else ""
