"""`pytest --kafka-target TARGET`: a test per case and a property per type, in any project.

Without this option, the plugin imports only pytest. Every pytest process (with pytest-xdist: every worker) starts a
target at its first use and sends all cases to this one process. The session fails exactly if `conformance run` would
exit with a status other than 0.
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
    option("vectors", "Additional folder of vectors.", action="append", metavar="DIR")
    option("known-failures", "YAML list of {id, reason} of known failures: strict xfails.", metavar="FILE")
    option("fail-on", "Lowest level at which failures count [must].", choices=("must", "should"), default="must")
    option("strict", "Disputed failures count too.", action="store_true")
    option(
        "generated",
        "Generated cases per type; 0 for vectors only [200].",
        type=_number(int, 0, None),
        default=200,
        metavar="N",
    )
    option("seed", "Seed of the generated cases [0].", type=_number(int, 0, None), default=0, metavar="N")
    option(
        "timeout", "Seconds to wait for an answer [5].", type=_number(float, 0.05, 3600), default=5.0, metavar="SECONDS"
    )
    option(
        "memory",
        "Memory limit of a target with its child processes, in MiB [1024].",
        type=_number(int, 16, None),
        default=1024,
        metavar="MIB",
    )
    option("python", "Python interpreter for module targets.", metavar="PATH")


def _number(kind: type[int | float], least: float, most: float | None) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None
        if not least <= number <= (number if most is None else most):
            bound = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"expected {bound}, found {text}")
        return number

    return parse


def pytest_configure(config: pytest.Config) -> None:
    """Register our hooks if a target is given. Remove our ids from the arguments: pytest would search such files."""
    if config.getoption("kafka_target"):
        from conformance.pytest_plugin.session_hooks import SessionHooks

        ours = {argument: _our_id(config, argument) for argument in config.args}
        config.args[:] = [argument for argument in config.args if not ours[argument]]
        config.pluginmanager.register(SessionHooks(config, list(filter(None, ours.values()))), f"{NAME}-suite")


def _our_id(config: pytest.Config, argument: str) -> str:
    """Return an argument as the id of our item, relative to the project root; empty for other arguments."""
    place, colons, rest = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / place))
    is_ours = path == config.rootpath / NAME and (colons or not path.exists())
    return NAME + colons + rest if is_ours else ""
