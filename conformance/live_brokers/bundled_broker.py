"""A broker that the suite starts from its broker.yaml: it runs on free ports in a temporary folder."""

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
from contextlib import suppress
from pathlib import Path
from typing import Self

from conformance import codec
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.errors import FileError, TargetError
from conformance.process.daemon import Daemon
from conformance.process.waiting import POLL_INTERVAL_S
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.manifests import BROKER, BrokerManifest, adapter_in

_PREFIX = "conformance-broker-"
_LOCK = ".lock"


class BrokerWorkFolder:
    """A temporary folder for a broker. `remove` it."""

    def __init__(self) -> None:
        """Create it, and remove folders that a killed suite left. Raises OSError."""
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_if_left(left)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        fresh = self.path / f"{_LOCK}.fresh"
        self._lock = os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / _LOCK)  # with this name, other processes check whether the lock is held

    def remove(self) -> None:
        """Remove it with its content."""
        try:
            _remove(self.path)
        finally:
            os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of this user if no process holds its lock."""
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
    """Remove a folder, its lock last: after an interruption, the next suite can remove the rest."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink()
    shutil.rmtree(folder, ignore_errors=True)


_API_VERSIONS, _CORRELATION = 18, 1
_ANSWER_TIMEOUT_S = 5.0
"""Seconds for a connection, and for a complete answer."""
_LEAST = 0.001
_LONGEST = 1 << 20
"""The largest answer, in bytes."""
_SIZE = struct.Struct(">i")


def answers(host: str, port: int) -> bool:
    """Return whether ApiVersions 0 gets a response.

    An error response counts too, because it also has the layout of version 0.
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
    """Return the next `size` bytes. Raises OSError if the connection or the time ends first."""
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
"""The range of broker ports; it is below the ephemeral ports, so that no client takes one before the broker."""
_PLACES = ("dir", "run", "data", "port", "controller")
"""The places in braces: the folder of the build, of the running broker and of its data, its port, and a second port."""
_PLACE = re.compile(r"\{([a-z]+)\}")
_LISTENS = re.compile(rb"^listens on [0-9.]+:([0-9]+)$", re.MULTILINE)
"""The line on standard output of a broker without `{port}`."""
_SHUTDOWN = 60.0
"""The timeout of a shutdown."""


class BrokerError(TargetError):
    """A broker that does not start or end; the message has its name, the reason and the end of its output."""


def read_broker(path: Path) -> BrokerManifest:
    """Return the broker of a file. Raises FileError."""
    manifest = adapter_in(path)
    if not isinstance(manifest, BrokerManifest):
        raise FileError(path, f"a broker is described by a file with the name {BROKER}")
    _check(path, manifest)
    return manifest


def _check(path: Path, manifest: BrokerManifest) -> None:
    """Raise FileError for an unknown place in braces, and for a missing file."""
    texts = {path.name: " ".join((*manifest.command, *sum(manifest.prepare, ()), manifest.log))}
    for name in manifest.files:
        homes = [home for home in reversed(manifest.sources) if (home / name).is_file()]
        if not homes or Path(name).name != name:
            raise FileError(path, f"there is no file {name!r} beside it")
        texts[name] = (homes[0] / name).read_text(encoding="utf-8")
    for name, text in texts.items():
        unknown = [place for place in _PLACE.findall(text) if place not in _PLACES]
        if unknown:
            known = ", ".join(f"{{{place}}}" for place in _PLACES)
            raise FileError(path, f"{name}: {{{unknown[0]}}} is not one of {known}")


class BundledBroker:
    """A running broker. `close` it, or use it in a `with` statement."""

    host = HOST
    port: int
    log_dir: Path | None
    """The folder of its log, with one folder a partition; None for a broker without a log on disk."""
    keeps_data: bool
    """Whether its data and its port are the same after a restart."""

    def __init__(self, manifest: BrokerManifest, python: str = sys.executable) -> None:
        """Start it and wait until it answers. Raises BrokerError or OSError, and leaves no process then.

        An interpreter runs a program in Python.
        """
        if lacking := manifest.missing(None if python == sys.executable else python):
            raise BrokerError(f"broker:{manifest.name} cannot run here; missing: {', '.join(lacking)}")
        self.manifest, self._command = manifest, manifest.program(python)
        self._program: Daemon | None = None
        self._folder = BrokerWorkFolder()
        try:
            self._set_up()
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def address(self) -> BrokerAddress:
        """The current address of the broker."""
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
        """The ids of its processes; empty after its end."""
        return self._program.pids if self._program else []

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._program is not None and self._program.is_alive

    @property
    def last_stderr_line(self) -> str:
        """The last line of its standard error."""
        return self._program.last_stderr_line if self._program else ""

    def restart(self) -> None:
        """Shut it down in order and start it again with its data. Raises BrokerError or OSError."""
        if self._program is not None:
            self._program.ask_to_end()
            if not self._program.wait(_SHUTDOWN):
                raise self._error(f"did not shut down within {_SHUTDOWN:g} seconds")
            self._end()
        self._begin()

    def close(self) -> None:
        """Kill it and remove its folder; an orderly shutdown is not needed, because the data is removed."""
        self._end()
        self._folder.remove()

    def _end(self) -> None:
        if self._program is not None:
            self._program.close()
            self._program = None

    def _set_up(self) -> None:
        """Choose its ports, write its files and run its `prepare` programs. Raises BrokerError."""
        folder, manifest = self._folder.path, self.manifest
        (folder / "data").mkdir()
        self.port, controller = free_ports()
        self._places: dict[str, object] = {
            **{"dir": manifest.home, "run": folder, "data": folder / "data"},
            **{"port": self.port, "controller": controller},
        }
        self.log_dir = Path(self._filled(manifest.log)) if manifest.log else None
        texts = {name: (manifest.home / name).read_text(encoding="utf-8") for name in manifest.files}
        command = "".join((*self._command, *texts.values()))
        self._gets_port, self.keeps_data = "{port}" in command, "{data}" in command
        for name, text in texts.items():
            (folder / name).write_text(self._filled(text), encoding="utf-8")
        for step in manifest.prepare:
            self._prepare(tuple(map(self._filled, step)))

    def _filled(self, text: str) -> str:
        return _PLACE.sub(lambda place: str(self._places.get(place[1], place[0])), text)

    def _prepare(self, command: tuple[str, ...]) -> None:
        """Run a program to its end. Raises BrokerError if it fails or does not end."""
        program = self._program = self._started(command)
        if not program.wait(self.manifest.startup):
            raise self._error(f"is not prepared: {command[0]} did not end within {self.manifest.startup:g} seconds")
        if program.status != 0:
            raise self._error(f"is not prepared: {command[0]} {program.how_it_ended()}")
        self._end()

    def _begin(self) -> None:
        """Start its program and wait until it answers. Raises BrokerError or OSError."""
        program = self._program = self._started(tuple(map(self._filled, self._command)))
        until = time.monotonic() + self.manifest.startup
        while not self._answers(program):
            if program.wait(POLL_INTERVAL_S):
                raise self._error(f"did not start: it {program.how_it_ended()}")
            if time.monotonic() > until:
                raise self._error(f"did not answer within {self.manifest.startup:g} seconds")

    def _started(self, command: tuple[str, ...]) -> Daemon:
        return Daemon(self.manifest.name, command, self.manifest.env, self._folder.path)

    def _answers(self, program: Daemon) -> bool:
        """Return whether it answers; a broker without `{port}` writes its port to standard output first."""
        if not self._gets_port:
            match = _LISTENS.search(program.beginning)
            if match is None:
                return False
            self.port = int(match[1])
        return answers(self.host, self.port)

    def _error(self, what: str) -> BrokerError:
        """Return an error with the last line of its standard error."""
        last_line = self._program.last_stderr_line if self._program else ""
        return BrokerError(
            f"broker:{self.manifest.name} {what}; {f'it wrote last: {last_line}' if last_line else 'it wrote nothing'}"
        )


def free_ports() -> tuple[int, int]:
    """Return two free ports. Raises BrokerError if there are not two."""
    free: list[int] = []
    for port in random.sample(_PORTS, 200):
        with suppress(OSError), socket.socket() as tried:
            tried.bind((HOST, port))
            free.append(port)
        if len(free) == 2:
            return free[0], free[1]
    raise BrokerError(f"there are no free ports from {_PORTS.start} to {_PORTS.stop - 1}")
