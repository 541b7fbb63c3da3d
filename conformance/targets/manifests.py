"""The manifests of adapters, live clients and brokers, bundled or not.

target.yaml, driver.yaml or broker.yaml describes the build, once, into the user's cache folder, and the start.
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
from typing import Annotated, ClassVar, Self

from msgspec import Meta, Struct, field
from msgspec.structs import replace
from platformdirs import user_cache_path

from conformance import __version__
from conformance.cases.api_versions_profiles import VERSION_PROFILES
from conformance.errors import FileError
from conformance.process.launcher import LaunchSpec, own_python
from conformance.semantics.consumer_view import ISOLATIONS

DRIVER = "driver.yaml"
"""The file that describes the driver of a live client."""

BROKER = "broker.yaml"
"""The file that describes a broker."""

SHIM = Path(__file__).with_name("module_shim.py")
_BUNDLED = Path(__file__).parent.parent / "adapters"


class AdapterManifest(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """A bundled adapter, from its target.yaml."""

    PREFIX: ClassVar[str] = ""
    """The prefix of its name on the command line."""

    name: str
    about: str = ""
    language: str = ""
    folder: Path = Path()
    """The folder of the file; no file can set it."""
    module: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()
    gaps: tuple[str, ...] = ()
    base: str = ""
    """The path of another adapter or of shared files, next to this folder; the build adds the files that this lacks."""

    @property
    def target(self) -> str:
        """The name of a bundled adapter on the command line."""
        return f"{self.PREFIX}{self.name}"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The folders that the build copies, in this order."""
        return (self.folder.parent / self.base, self.folder) if self.base else (self.folder,)

    @property
    def _is_bundled(self) -> bool:
        """True if its files are equal to those of a bundled adapter, so that both share one build."""
        bundled = _BUNDLED / self.name
        if self.folder.resolve() == bundled.resolve():
            return True
        return bundled.is_dir() and replace(self, folder=bundled).digest() == self.digest()

    @property
    def home(self) -> Path:
        """The folder where it runs: its own, or the built copy if it needs a set-up."""
        if not self.setup:
            return self.folder
        cache = user_cache_path("kafka-conformance", version=__version__)
        if self._is_bundled:
            return cache / self.name
        return cache / f"{self.name}-{hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:8]}"

    def missing(self, python: str | None = None) -> list[str]:
        """Return a phrase for each requirement that is not met; packages of another interpreter are not checked."""
        lacking = [f"{tool} on the PATH" for tool in self.tools if not shutil.which(tool)]
        if python is None:
            lacking += [requirement for requirement in self.requires if not _installed(requirement)]
        if self.setup and not self._is_set_up():
            file = {kind.PREFIX: name for name, kind in _KINDS.items()}.get(self.PREFIX, "")
            is_own = self.PREFIX and not self._is_bundled
            named = shlex.quote(f"{self.PREFIX}{self.folder / file}") if is_own else self.target
            lacking.append(f"its set-up (conformance targets --setup {named})")
        return lacking

    def _is_set_up(self) -> bool:
        """Whether the build was made from the current files."""
        stamp = self.home / _STAMP
        return stamp.exists() and stamp.read_text() == self.digest()

    def digest(self) -> str:
        """Return a digest of all files that the build copies."""
        files = [path for folder in self.sources for path in sorted(folder.rglob("*")) if path.is_file()]
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()

    def program(self, python: str) -> tuple[str, ...]:
        """Return the command of its program."""
        if self.module:
            return python, str(self.home / self.module)
        return tuple(part.replace("{dir}", str(self.home)) for part in self.command)

    def launch(self, python: str) -> LaunchSpec:
        """Return the command and environment of the target process."""
        program = self.program(python)
        if self.module:
            return LaunchSpec(self.name, (python, str(SHIM), *program[1:]), self.env, forks=True)
        return LaunchSpec(self.name, program, self.env)


class DriverManifest(AdapterManifest, frozen=True, kw_only=True):
    """The driver of an unmodified client, from its driver.yaml."""

    PREFIX = "live:"

    entry_point: str
    """The call that returns records to an application."""
    codecs: tuple[str, ...]
    magics: tuple[int, ...]
    isolations: tuple[str, ...]
    concurrency: int
    """The number of topics that its program consumes at once, each with its own consumer."""
    versions: str = "bare"
    """The name of the version profile of the mock broker."""
    producer_features: tuple[str, ...] = ()
    """Codecs, and `idempotence`, `transactions`, `timestamps` …, of its producer; empty without a producer."""
    groups: bool = False
    """Whether it can consume as a member of a group, and commit."""
    writer: str = ""
    """The call that takes the records of an application."""

    def __post_init__(self) -> None:
        """Check the version profile. Raises ValueError."""
        if self.versions not in VERSION_PROFILES:
            raise ValueError(f"versions is one of {', '.join(VERSION_PROFILES)}, not {self.versions!r}")

    def of_messages(self, newest: int) -> Self:
        """Return the driver of a client that reads no batches, no messages above the newest magic, and never writes."""
        magics = tuple(magic for magic in self.magics if magic <= newest)
        return replace(self, isolations=ISOLATIONS[:1], magics=magics, producer_features=(), writer="")

    def launch(self, python: str) -> LaunchSpec:
        """Return the command of the bridge to the client."""
        file = str(self.folder / DRIVER)
        return LaunchSpec(self.target, own_python("conformance.live_clients", file, python))


class BrokerManifest(AdapterManifest, frozen=True, kw_only=True):
    """A broker that the suite starts, from its broker.yaml."""

    PREFIX = "broker:"

    version: str
    startup: Annotated[int, Meta(gt=0)]
    """Seconds until it answers."""
    prepare: tuple[tuple[str, ...], ...] = ()
    """Programs that run before the first start, one after the other."""
    files: tuple[str, ...] = ()
    """Files that are written into the folder of the running broker, with the places in braces filled in."""
    log: str = ""
    """The folder of its log, with one folder a partition; empty for a broker without a log on disk."""

    def launch(self, python: str) -> LaunchSpec:
        """Return the command of the bridge to the broker."""
        file = str(self.folder / BROKER)
        return LaunchSpec(self.target, own_python("conformance.live_brokers", file, "--python", python))


_KINDS: dict[str, type[AdapterManifest]] = {DRIVER: DriverManifest, BROKER: BrokerManifest}
"""The type of a manifest by the name of its file; any other name is a target.yaml."""


_STAMP = ".set-up"


def _installed(requirement: str) -> bool:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    name, _, version = requirement.partition("==")
    try:
        return installed(name) == version
    except PackageNotFoundError:
        return False


def adapter_in(path: Path) -> AdapterManifest:
    """Return the adapter, driver or broker of a file. Raises FileError with the line."""
    from conformance.files.yaml_loader import convert, load

    found = replace(convert(path, load(path), _KINDS.get(path.name, AdapterManifest)), folder=path.parent)
    if found.name != path.parent.name or bool(found.module) == bool(found.command):
        raise FileError(path, "expected the folder's name as `name`, and either module or command")
    if found.base and not (found.setup and found.sources[0].is_dir()):
        raise FileError(path, "base: expected a folder next to this one, and setup commands")
    return found


def set_up(adapter: AdapterManifest) -> Iterator[str]:
    """Build an adapter in its cache folder and yield each step. Raises subprocess.CalledProcessError."""
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
        for folder in adapter.sources:
            shutil.copytree(folder, home, dirs_exist_ok=True)
        for step in adapter.setup:
            command = [part.replace("{dir}", str(home)) for part in step]
            yield f"{shlex.join(command)} (in {home})"
            subprocess.run(command, cwd=home, check=True, stdin=subprocess.DEVNULL)  # noqa: S603 - from the manifest
        (home / _STAMP).write_text(adapter.digest())


@contextmanager
def _build_lock(home: Path) -> Iterator[bool]:
    """Lock the build of an adapter, and yield whether another process held the lock."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f".{home.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield True
        else:
            yield False
