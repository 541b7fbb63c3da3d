"""A broker that the suite starts: its manifest, broker.yaml, and one that runs on free ports in a folder of its own."""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from msgspec import Struct

from conformance import codec
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.errors import FileError, TargetError
from conformance.process.daemon import Daemon
from conformance.process.waiting import POLL_INTERVAL_S
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.manifests import BROKER, AdapterManifest, adapter_in

_PREFIX = "conformance-broker-"
_LOCK = ".lock"


class BrokerWorkFolder:
    """A fresh folder for a broker. `remove` it."""

    def __init__(self) -> None:
        """Make it, and remove those that a suite which was killed has left. Raises OSError."""
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_if_left(left)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        fresh = self.path / f"{_LOCK}.fresh"
        self._lock = os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / _LOCK)  # from now on others may look whether it is held

    def remove(self) -> None:
        """Remove it with what is in it."""
        try:
            _remove(self.path)
        finally:
            os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of ours whose lock nobody holds any more."""
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: where this is interrupted, the next that starts goes on."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink()
    shutil.rmtree(folder, ignore_errors=True)


_API_VERSIONS, _CORRELATION = 18, 1
_ANSWER_TIMEOUT_S = 5.0
"""Seconds for a connection, and for the whole of an answer."""
_LEAST = 0.001
_LONGEST = 1 << 20
"""Bytes of an answer, at most."""
_SIZE = struct.Struct(">i")


def answers(host: str, port: int) -> bool:
    """Whether an ApiVersions request of version 0 is answered by a response to it.

    A refusal of that version counts: it comes in the form of version 0 too.
    """
    try:
        with socket.create_connection((host, port), _ANSWER_TIMEOUT_S) as connection:
            request, until = _request(), time.monotonic() + _ANSWER_TIMEOUT_S
            connection.sendall(_SIZE.pack(len(request)) + request)
            (size,) = _SIZE.unpack(_received(connection, _SIZE.size, until))
            return 0 < size <= _LONGEST and _is_response(_received(connection, size, until))
    except OSError:
        return False


def _request() -> bytes:
    header = {"RequestApiKey": _API_VERSIONS, "RequestApiVersion": 0, "CorrelationId": _CORRELATION, "ClientId": None}
    return codec.encode(_wire("RequestHeader", 1), header) + codec.encode(_wire("ApiVersionsRequest", 0), {})


def _is_response(frame: bytes) -> bool:
    header = codec.decode(_wire("ResponseHeader", 0), frame)
    if not header.ok or header.value["CorrelationId"] != _CORRELATION:
        return False
    return codec.decode(_wire("ApiVersionsResponse", 0), frame[header.consumed :]).ok


def _received(connection: socket.socket, size: int, until: float) -> bytes:
    """So many bytes. Raises OSError where the connection, or the time, ends first."""
    parts = b""
    while len(parts) < size:
        connection.settimeout(max(until - time.monotonic(), _LEAST))
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("it closed the connection")
        parts += part
    return parts


def _wire(name: str, version: int) -> codec.WireType:
    return shipped_types().wire(type_name(name, version))


HOST = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Where ports are looked for: below those that systems give to clients, so that none takes it before the broker."""
_PLACES = ("dir", "run", "data", "port", "controller")
"""What may stand in braces: the folder of what was built, that of the broker that runs, that of its data, its port, and
a second port."""
_PLACE = re.compile(r"\{([a-z]+)\}")
_LISTENS = re.compile(rb"^listens on [0-9.]+:([0-9]+)$", re.MULTILINE)
"""What a broker without `{port}` says on standard output."""
_SHUTDOWN = 60.0
"""Seconds it may take to shut down when it is asked to."""


class BrokerError(TargetError):
    """A broker that does not start, or does not end; the message says which, how, and the end of what it wrote."""


class BrokerManifest(Struct, frozen=True):
    """A broker.yaml, ready to be started."""

    name: str
    version: str
    language: str
    home: Path
    command: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...]
    """Programs that run before the first start, one after the other."""
    files: tuple[str, ...]
    """Files that are written into its folder, with the places in braces filled in."""
    log: str
    """Where its segments lie, a folder a partition; empty for a broker that has none."""
    startup: float
    """Seconds it may take to answer."""
    env: Mapping[str, str]
    lacking: tuple[str, ...]
    """What is missing to run it here."""


def read_broker(path: Path, python: str = sys.executable) -> BrokerManifest:
    """The broker that a file describes; an interpreter runs its program in Python. Raises FileError."""
    adapter = adapter_in(path)
    if not adapter.broker:
        raise FileError(path, f"a broker is described by a file with the name {BROKER}")
    program = (python, str(adapter.home / adapter.module)) if adapter.module else adapter.command
    row = adapter.broker
    manifest = BrokerManifest(
        adapter.name,
        row["version"],
        adapter.language,
        adapter.home,
        program,
        tuple(tuple(step) for step in row.get("prepare", ())),
        tuple(row.get("files", ())),
        row.get("log", ""),
        float(row["startup"]),
        adapter.env,
        tuple(adapter.missing(None if python == sys.executable else python)),
    )
    _check(path, adapter, manifest)
    return manifest


def _check(path: Path, adapter: AdapterManifest, manifest: BrokerManifest) -> None:
    """Raises FileError for a place that there is not, and for a file that is not there."""
    if manifest.startup <= 0:
        raise FileError(path, f"startup is a number of seconds, not {manifest.startup:g}")
    texts = {path.name: " ".join((*manifest.command, *sum(manifest.prepare, ()), manifest.log))}
    for name in manifest.files:
        homes = [home for home in (adapter.folder, adapter.base) if home and (home / name).is_file()]
        if not homes or Path(name).name != name:
            raise FileError(path, f"there is no file {name!r} beside it")
        texts[name] = (homes[0] / name).read_text(encoding="utf-8")
    for name, text in texts.items():
        unknown = [place for place in _PLACE.findall(text) if place not in _PLACES]
        if unknown:
            known = ", ".join(f"{{{place}}}" for place in _PLACES)
            raise FileError(path, f"{name}: {{{unknown[0]}}} is not one of {known}")


class BundledBroker:
    """A broker that runs. `close` it, or use it in a `with` statement."""

    host = HOST
    port: int
    log_dir: Path | None
    """Where its segments lie, a folder a partition; None for a broker that has none."""
    keeps_data: bool
    """Whether what it holds, and its port, are the same after a restart."""

    def __init__(self, manifest: BrokerManifest) -> None:
        """Start it, and wait until it answers. Raises BrokerError or OSError; nothing is left running then."""
        if manifest.lacking:
            raise BrokerError(f"broker:{manifest.name} cannot run here; missing: {', '.join(manifest.lacking)}")
        self.manifest = manifest
        self._program: Daemon | None = None
        self._folder = BrokerWorkFolder()
        try:
            self._set_up()
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.close()

    @property
    def address(self) -> BrokerAddress:
        """The address at which the suite connects to it now."""
        return BrokerAddress(
            self.host,
            self.port,
            self.manifest.name,
            self.manifest.version,
            self.manifest.language,
            log_dir=self.log_dir,
            pids=tuple(self.pids),
        )

    @property
    def pids(self) -> list[int]:
        """Its processes, as long as it runs."""
        return self._program.pids if self._program else []

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._program is not None and self._program.is_alive

    @property
    def last_stderr_line(self) -> str:
        """The end of what it wrote."""
        return self._program.last_stderr_line if self._program else ""

    def restart(self) -> None:
        """Shut it down as its operator would, and start it again, with what it keeps. Raises BrokerError or OSError."""
        if self._program is not None:
            self._program.ask_to_end()
            if not self._program.wait(_SHUTDOWN):
                raise self._error(f"did not shut down within {_SHUTDOWN:g} seconds")
            self._end()
        self._begin()

    def close(self) -> None:
        """End it, and remove its folder; its data is not kept, so that it is killed."""
        self._end()
        self._folder.remove()

    def _end(self) -> None:
        if self._program is not None:
            self._program.close()
            self._program = None

    def _set_up(self) -> None:
        """Choose its ports, and write what it reads. Raises BrokerError."""
        folder, manifest = self._folder.path, self.manifest
        (folder / "data").mkdir()
        self.port, controller = free_ports()
        self._places: dict[str, object] = {
            **{"dir": manifest.home, "run": folder, "data": folder / "data"},
            **{"port": self.port, "controller": controller},
        }
        self.log_dir = Path(self._filled(manifest.log)) if manifest.log else None
        texts = {name: (manifest.home / name).read_text(encoding="utf-8") for name in manifest.files}
        told = "".join((*manifest.command, *texts.values()))
        self._is_told_its_port, self.keeps_data = "{port}" in told, "{data}" in told
        for name, text in texts.items():
            (folder / name).write_text(self._filled(text), encoding="utf-8")
        for step in manifest.prepare:
            self._prepare(tuple(map(self._filled, step)))

    def _filled(self, text: str) -> str:
        return _PLACE.sub(lambda place: str(self._places.get(place[1], place[0])), text)

    def _prepare(self, command: tuple[str, ...]) -> None:
        """Run a program to its end. Raises BrokerError where it fails, or does not end."""
        program = self._program = self._started(command)
        if not program.wait(self.manifest.startup):
            raise self._error(f"is not prepared: {command[0]} did not end within {self.manifest.startup:g} seconds")
        if program.status != 0:
            raise self._error(f"is not prepared: {command[0]} {program.how_it_ended()}")
        self._end()

    def _begin(self) -> None:
        """Start its program, and wait until it answers. Raises BrokerError or OSError."""
        program = self._program = self._started(tuple(map(self._filled, self.manifest.command)))
        until = time.monotonic() + self.manifest.startup
        while not self._answers(program):
            if program.wait(POLL_INTERVAL_S):
                raise self._error(f"did not start: it {program.how_it_ended()}")
            if time.monotonic() > until:
                raise self._error(f"did not answer within {self.manifest.startup:g} seconds")

    def _started(self, command: tuple[str, ...]) -> Daemon:
        return Daemon(self.manifest.name, command, self.manifest.env, self._folder.path)

    def _answers(self, program: Daemon) -> bool:
        """Whether it answers where it listens; one that was not told a port says itself which it is."""
        if not self._is_told_its_port:
            said = _LISTENS.search(program.beginning)
            if said is None:
                return False
            self.port = int(said[1])
        return answers(self.host, self.port)

    def _error(self, what: str) -> BrokerError:
        """An error with the end of what it wrote."""
        said = self._program.last_stderr_line if self._program else ""
        return BrokerError(
            f"broker:{self.manifest.name} {what}; {f'it wrote last: {said}' if said else 'it wrote nothing'}"
        )


def free_ports() -> tuple[int, int]:
    """Two ports on which nothing listens. Raises BrokerError where none is found."""
    free: list[int] = []
    for port in random.sample(_PORTS, 200):
        with suppress(OSError), socket.socket() as tried:
            tried.bind((HOST, port))
            free.append(port)
        if len(free) == 2:
            return free[0], free[1]
    raise BrokerError(f"there are no free ports from {_PORTS.start} to {_PORTS.stop - 1}")
