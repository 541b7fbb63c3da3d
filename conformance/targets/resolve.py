"""Turns the name of a target on the command line into its start command."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from conformance.errors import UsageError, UserError
from conformance.process.launcher import LaunchSpec, own_python
from conformance.targets.limits import ResourceLimits
from conformance.targets.manifests import BROKER, DRIVER, SHIM, AdapterManifest, adapter_in
from conformance.targets.target import TargetSpec

ADAPTERS = Path(__file__).parent.parent / "adapters"
"""The folder of the bundled adapters: each has a folder with its target.yaml, driver.yaml or broker.yaml."""

LIVE_TIMEOUT = 180.0
"""Timeout for a case of a live client, in seconds: the client may start twice, and read two topics completely."""

LIVE_MEMORY = 1 << 30
"""Additional memory of a live client, in bytes, for the mock broker and several consumers."""

LIVE_PROCESSES = 2
"""Processes of a live client, for its memory limit: a second one repeats a failed case while the first is alive."""

BROKER_MEMORY = 6 << 30
"""Additional memory of a broker, in bytes, because it stores the records of all cases. Only `exchange` cases judge the
memory growth of a single case."""


class BrokerOptions(Struct, frozen=True):
    """Options of a run for brokers that the suite does not start."""

    log_dir: Path | None = None
    """The folder of the broker's log segments."""
    follow_redirects: bool = False
    """If True, the run connects to every address that the broker returns."""

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of the process that tests the broker."""
        log_dir = () if self.log_dir is None else ("--log-dir", str(self.log_dir.resolve()))
        return (*log_dir, *(["--follow-redirects"] if self.follow_redirects else []))


class UnknownTarget(UserError):
    """A target that is unknown or cannot run here; the message contains the reason or a correction."""


def adapters() -> dict[str, AdapterManifest]:
    """Return the bundled adapters by name. Raises FileError for an invalid target.yaml."""
    return {name: adapter_in(path) for name, path in _descriptions().items()}


def _descriptions() -> dict[str, Path]:
    """Return the `target.yaml` of each bundled adapter, by the name of its folder."""
    return {path.parent.name: path for path in sorted(ADAPTERS.glob("*/target.yaml"))}


def target_spec(
    name: str,
    python: str | None,
    limits: ResourceLimits,
    jobs: int = 1,
    broker: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> TargetSpec:
    """Return the start command, limits and number of processes of a target. Raises the errors of `resolve`."""
    launch = None if name == "reference" else resolve(name, python, broker)
    if name.startswith(("live:", "broker:")):
        # The process of this target has its own timeouts for each topic, and reports them.
        is_live = name.startswith("live:")
        memory = limits.memory * LIVE_PROCESSES + LIVE_MEMORY if is_live else limits.memory + BROKER_MEMORY
        timeout = max(LIVE_TIMEOUT, limits.timeout)
        limits = replace(
            limits,
            timeout=timeout,
            startup=timeout,
            memory=memory,
            base_seconds=math.inf,
            base_memory_growth=math.inf,
        )
    return TargetSpec(name, launch, limits, 1 if name.startswith("broker:") else jobs)


def resolve(target: str, python: str | None = None, broker: BrokerOptions = BrokerOptions()) -> LaunchSpec:  # noqa: B008
    """Return the start command of a target; `reference` has none. Raises UnknownTarget with a correction.

    Raises UsageError if `broker` has a log folder, but the suite starts this broker itself.
    """
    kind, colon, argument = target.partition(":")
    interpreter = python or sys.executable
    if colon and kind == "command":
        return LaunchSpec(target, _command(target, argument))
    if colon and kind == "module":
        _check_module(target, argument)
        return LaunchSpec(target, (interpreter, str(SHIM), argument), forks=True)
    if colon and kind == "live":
        return _ready(target, _driver(target, argument), python, interpreter)
    if colon and kind == "broker":
        launch = _broker(target, argument, python, interpreter)
        if "--run" in launch.command:
            return replace(launch, command=(*launch.command, *broker.arguments()))
        if broker.log_dir is not None:
            raise UsageError("--log-dir", f"the suite starts {target} with its own log folder")
        return launch
    known = _descriptions()
    if target not in known:
        raise UnknownTarget(
            f"unknown target {target!r}, expected reference, {', '.join(known)}, module:NAME, module:./FILE.py, "
            "command:COMMAND LINE, live:NAME, broker:NAME or broker:HOST:PORT"
        )
    return _ready(target, adapter_in(known[target]), python, interpreter)


def _ready(target: str, adapter: AdapterManifest, python: str | None, interpreter: str) -> LaunchSpec:
    """Return the start command of an adapter. Raises UnknownTarget if a requirement is missing."""
    missing = adapter.missing(python)
    if missing:
        raise UnknownTarget(f"{target} cannot run here; missing: {', '.join(missing)}")
    return adapter.launch(interpreter)


_RUNNERS = {".go": "go run", ".java": "java", ".jar": "java -jar", **dict.fromkeys((".js", ".mjs", ".cjs"), "node")}
"""The program that runs a file, by the file's extension."""


def _check_module(target: str, name: str) -> None:
    """Raise UnknownTarget if the name is empty, a folder, a missing file, or a file of another language."""
    if not name:
        raise UnknownTarget(f"{target}: expected module:dotted.name or module:./file.py")
    path = Path(name)
    is_path = os.sep in name or name.endswith(".py")
    if is_path and path.is_dir():
        raise UnknownTarget(f"{target}: {name} is a folder; expected the Python file in it, module:./FILE.py")
    if is_path and not path.exists():
        raise UnknownTarget(f"{target}: there is no file {name}")
    if name.endswith(".py") or not path.is_file():
        return
    runner = _RUNNERS.get(path.suffix, "")
    if runner:
        line = f"{runner} {shlex.quote(name)}"
    else:
        line = shlex.quote(name) if os.access(path, os.X_OK) else "COMMAND LINE"
    raise UnknownTarget(f"{target}: {name} is not a Python module; use {shlex.quote('command:' + line)} instead")


def drivers() -> dict[str, AdapterManifest]:
    """Return the bundled drivers of live clients by name. Raises FileError for an invalid driver.yaml."""
    return {path.parent.name: adapter_in(path) for path in sorted(ADAPTERS.glob(f"*/{DRIVER}"))}


def brokers() -> dict[str, AdapterManifest]:
    """Return the bundled brokers by name. Raises FileError for an invalid broker.yaml."""
    return {path.parent.name: adapter_in(path) for path in sorted(ADAPTERS.glob(f"*/{BROKER}"))}


def _broker(target: str, argument: str, python: str | None, interpreter: str) -> LaunchSpec:
    """Return the start command for a broker. Raises UnknownTarget, or FileError for an invalid broker.yaml."""
    from conformance.targets.broker_address import address_of

    known = brokers()
    if argument in known:
        return _ready(target, known[argument], python, interpreter)
    path = Path(argument)
    if path.name == BROKER and not path.is_file():
        raise UnknownTarget(f"{target}: there is no file {argument}")
    try:
        address = address_of(argument)
    except ValueError:
        names = ", ".join(known)
        raise UnknownTarget(
            f"{target}: expected broker:HOST:PORT, broker:./{BROKER}, or broker: with one of {names}"
        ) from None
    if address is None:
        return _ready(target, adapter_in(path.resolve()), python, interpreter)
    command = own_python("conformance.live_brokers", argument, "--run", uuid4().hex[:8])
    return LaunchSpec(target, command, cleaning=() if address.topics else (*command, "--clean"))


def _driver(target: str, argument: str) -> AdapterManifest:
    """Return the driver of `live:NAME` or `live:./driver.yaml`. Raises UnknownTarget."""
    path = Path(argument)
    if path.name == DRIVER:
        if not path.is_file():
            raise UnknownTarget(f"{target}: there is no file {argument}")
        return adapter_in(path.resolve())
    known = drivers()
    if argument not in known:
        raise UnknownTarget(f"{target}: unknown live client, expected one of {', '.join(known)}, or live:./{DRIVER}")
    return known[argument]


def _command(target: str, line: str) -> tuple[str, ...]:
    try:
        command = tuple(shlex.split(line))
    except ValueError as error:
        raise UnknownTarget(f"{target}: {error}") from None
    if not command or not shutil.which(command[0]):
        raise UnknownTarget(f"{target}: there is no program named {command[0] if command else ''!r}")
    return command
