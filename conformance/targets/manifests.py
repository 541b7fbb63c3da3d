"""The manifests of adapters, live clients and brokers, bundled or of the user.

A target.yaml, driver.yaml or broker.yaml contains the build commands and the start command. The build runs once, in the
user's cache folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from platformdirs import user_cache_path

from conformance import __version__
from conformance.cases.api_versions_profiles import VERSION_PROFILES
from conformance.errors import FileError
from conformance.process.launcher import LaunchSpec, own_python

DRIVER = "driver.yaml"
"""The file that describes the driver of a live client."""

BROKER = "broker.yaml"
"""The file that describes a broker."""

SHIM = Path(__file__).with_name("module_shim.py")
_BUNDLED = Path(__file__).parent.parent / "adapters"


FurtherKeys = dict[str, Any]
"""The keys that only one kind of manifest has."""


class AdapterManifest(Struct, frozen=True):
    """An adapter, driver or broker, from its manifest."""

    name: str
    about: str
    language: str
    folder: Path
    module: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()
    gaps: tuple[str, ...] = ()
    base: Path | None = None
    """A shared folder or another adapter, whose files the build copies before the adapter's own files."""
    live: FurtherKeys = field(default_factory=dict)
    """The keys for a driver of an unmodified client (live_clients/driver_manifest.py)."""
    broker: FurtherKeys = field(default_factory=dict)
    """The keys for a broker (live_brokers/bundled_broker.py)."""

    @property
    def target(self) -> str:
        """Return its name on the command line, if it is bundled."""
        kind = "live:" if self.live else "broker:" if self.broker else ""
        return f"{kind}{self.name}"

    @property
    def _is_bundled(self) -> bool:
        """Return whether it is bundled, or has the same files as a bundled one, so that both builds are equal."""
        bundled = _BUNDLED / self.name
        if self.folder.resolve() == bundled.resolve():
            return True
        base = _BUNDLED / self.base.relative_to(self.folder.parent) if self.base else None
        return bundled.is_dir() and replace(self, folder=bundled, base=base).digest() == self.digest()

    @property
    def driver(self) -> Path:
        """The driver.yaml of a live client."""
        return self.folder / DRIVER

    @property
    def home(self) -> Path:
        """The folder in which it runs: its own one, or the build folder if it needs a build."""
        if not self.setup:
            return self.folder
        cache = user_cache_path("kafka-conformance", version=__version__)
        if self._is_bundled:
            return cache / self.name
        return cache / f"{self.name}-{hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:8]}"

    def missing(self, python: str | None = None) -> list[str]:
        """Return its missing requirements as texts. Packages are checked only without another interpreter."""
        lacking = [f"{tool} on the PATH" for tool in self.tools if not shutil.which(tool)]
        if python is None:
            lacking += [requirement for requirement in self.requires if not _installed(requirement)]
        if self.setup and not self._is_set_up():
            kind, file = ("live", DRIVER) if self.live else ("broker", BROKER)
            is_own = (self.live or self.broker) and not self._is_bundled
            named = shlex.quote(f"{kind}:{self.folder / file}") if is_own else self.target
            lacking.append(f"its set-up (conformance targets --setup {named})")
        return lacking

    def _is_set_up(self) -> bool:
        """Return whether the build was made of the current files."""
        stamp = self.home / _STAMP
        return stamp.exists() and stamp.read_text() == self.digest()

    def digest(self) -> str:
        """Return a digest of its files and of those in `base`."""
        folders = [self.base, self.folder] if self.base else [self.folder]
        files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()

    def launch(self, python: str) -> LaunchSpec:
        """Return its start command."""
        if self.live:
            return LaunchSpec(self.target, own_python("conformance.live_clients", str(self.driver), python))
        if self.broker:
            command = own_python("conformance.live_brokers", str(self.folder / BROKER), "--python", python)
            return LaunchSpec(self.target, command)
        if self.module:
            return LaunchSpec(self.name, (python, str(SHIM), str(self.home / self.module)), self.env, forks=True)
        command = tuple(part.replace("{dir}", str(self.home)) for part in self.command)
        return LaunchSpec(self.name, command, self.env)


_STAMP = ".set-up"


def _installed(requirement: str) -> bool:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    name, _, version = requirement.partition("==")
    try:
        return installed(name) == version
    except PackageNotFoundError:
        return False


_KEYS: dict[str, type] = {
    **{"name": str, "about": str, "language": str, "module": str, "command": list, "env": dict},
    **{"base": str, "requires": list, "tools": list, "setup": list, "gaps": list},
}


_KeyTypes = dict[str, type]
_DRIVER_KEYS: _KeyTypes = {"entry-point": str, "codecs": list, "magics": list, "isolations": list, "concurrency": int}
_BROKER_KEYS: _KeyTypes = {"version": str, "startup": int}
_FURTHER_KEYS: dict[str, tuple[str, _KeyTypes, _KeyTypes]] = {
    DRIVER: ("driver", _DRIVER_KEYS, {"versions": str, "producer-features": list, "writer": str, "groups": bool}),
    BROKER: ("broker", _BROKER_KEYS, {"prepare": list, "files": list, "log": str}),
}
"""By file name: the thing that it describes, its required further keys, and the optional ones."""
_STRING_LISTS = ("command", "requires", "tools", "gaps", "files")
_COMMAND_LISTS = ("setup", "prepare")


def adapter_in(path: Path) -> AdapterManifest:
    """Return the adapter, driver or broker in a manifest. Raises FileError with the line."""
    from conformance.files.yaml_loader import load

    row: Any = load(path)
    if not isinstance(row, dict):
        raise FileError(path, "expected a mapping")
    what, needed, optional = _FURTHER_KEYS.get(path.name, ("adapter", {}, {}))
    for key, given in row.items():
        if not _is_valid(key, given, {**_KEYS, **needed, **optional}):
            raise FileError(path, f"{key!r}: unknown key, or a value of the wrong type", row.line)  # type: ignore[attr-defined]
    if not all(key in row for key in needed):
        raise FileError(path, f"a {what} needs the keys {', '.join(needed)}")
    if row.get("versions", "bare") not in VERSION_PROFILES:
        raise FileError(path, f"versions: expected one of {', '.join(VERSION_PROFILES)}, found {row['versions']!r}")
    if row.get("name") != path.parent.name or ("module" in row) == ("command" in row):
        raise FileError(path, "expected the folder's name as `name`, and either `module` or `command`")
    base = path.parent.parent / row["base"] if "base" in row else None
    if base and not ("setup" in row and base.is_dir()):
        raise FileError(path, "base: expected a folder next to this one, and `setup` commands")
    further = {key: row[key] for key in (*needed, *optional) if key in row}
    return AdapterManifest(
        row["name"],
        row.get("about", ""),
        row.get("language", ""),
        path.parent,
        row.get("module", ""),
        tuple(row.get("command", ())),
        dict(row.get("env", {})),
        tuple(row.get("requires", ())),
        tuple(row.get("tools", ())),
        tuple(tuple(step) for step in row.get("setup", ())),
        tuple(row.get("gaps", ())),
        base,
        further if path.name == DRIVER else {},
        further if path.name == BROKER else {},
    )


def _is_valid(key: str, given: object, shape: _KeyTypes) -> bool:
    """Return whether a key is known and its value has the right type."""
    if key not in shape or not isinstance(given, shape[key]):
        return False
    if isinstance(given, list) and key in _COMMAND_LISTS:
        return all(_are_strings(step) for step in given)
    return key not in _STRING_LISTS or _are_strings(given)


def _are_strings(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(word, str) for word in given)


def set_up(adapter: AdapterManifest) -> Iterator[str]:
    """Build an adapter in its cache folder, and yield each step. Raises subprocess.CalledProcessError."""
    if not adapter.setup:
        lacking = adapter.missing()
        yield "nothing to build" + (f"; install {' '.join(map(shlex.quote, lacking))}" if lacking else "")
        return
    home = adapter.home
    with _build_lock(home) as waited:
        if waited and not adapter.missing():
            yield f"{adapter.name} was set up by another process at the same time"
            return
        shutil.rmtree(home, ignore_errors=True)
        for folder in filter(None, (adapter.base, adapter.folder)):
            shutil.copytree(folder, home, dirs_exist_ok=True)
        for step in adapter.setup:
            command = [part.replace("{dir}", str(home)) for part in step]
            yield f"{shlex.join(command)} (in {home})"
            subprocess.run(command, cwd=home, check=True, stdin=subprocess.DEVNULL)  # noqa: S603 - from the manifest
        (home / _STAMP).write_text(adapter.digest())


@contextmanager
def _build_lock(home: Path) -> Iterator[bool]:
    """Lock the build of an adapter against other processes; yield whether another build had to end first."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f".{home.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield True
        else:
            yield False
