"""The bundled catalogue, compiled: its cases are made once for each version of the sources, and kept.

To make all cases from YAML takes seconds, to load them takes a fraction of a tenth. The wheel comes with them; in a
checkout they are kept in the user's cache. What is kept is keyed by the content of all that it is made from, so nothing
stale is ever used; where the cache cannot be written, cases are made each time.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from platformdirs import user_cache_path

from conformance import __version__, codec
from conformance.cases.model import Case
from conformance.cases.packing import PackedCase, packed, packed_with_due
from conformance.cases.vector_files import Requirement
from conformance.codec.message_definition import Message
from conformance.definitions.shipped import shipped_types
from conformance.safety.files import replacing

PACKAGE = Path(__file__).parent.parent
_SOURCES = (
    *(f"{room}/*.py" for room in ("cases", "cases/covering", "codec", "definitions", "safety", "semantics")),
    *("__init__.py", "errors.py", "exit_status.py", *(f"vectors/**/*.{kind}" for kind in ("yaml", "csv", "json"))),
)
"""All that cases are made from: the storeys at and below this one."""
_DIGEST = 32
"""Bytes of the digest before what is kept: a damaged file is not loaded."""
_KEPT = 4
"""Files of other versions of the sources that are left in the cache."""


class Cases(Mapping[str, Case]):
    """Cases by id, in order: a packed one is unpacked when somebody asks for it."""

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self.labels: dict[str, PackedCase] = {}
        """What each is chosen and listed by."""
        for case in cases:
            self.add(case)

    def add(self, case: Case) -> None:
        """Add a case at the end, as bytes."""
        self.labels[case.id] = packed(case)

    def stored(self) -> Cases:
        """The same cases as they are kept: with the answers that are due, and without types that the suite ships."""
        cases = Cases()
        for name, case in self.items():
            label = packed_with_due(case)
            cases.labels[name] = label if is_own(label.wire) else label._replace(wire=None)
        return cases

    def __getitem__(self, name: str) -> Case:
        return self.labels[name].unpacked()

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, name: object) -> bool:
        return name in self.labels


def is_own(wire: codec.Wire | None) -> bool:
    """Whether the type is a message that the suite does not ship: another process has to be given it."""
    return isinstance(wire, codec.MessageWire) and not wire.message.is_shipped


@dataclass(frozen=True, slots=True)
class Bundled:
    """The bundled catalogue: the register, the cases, and the messages that vectors define."""

    requirements: dict[str, Requirement]
    cases: Cases
    messages: tuple[Message, ...]


# --- in the wheel or in the cache ---------------------------------------------------------------------


def stored() -> Bundled | None:
    """The catalogue of these very sources, if the wheel or the cache has it."""
    name = _name()
    return _read(PACKAGE / name) or _read(_cache() / name)


def _read(path: Path) -> Bundled | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, dumped = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(dumped).digest() != digest:
        return None
    loaded = _loaded(dumped)
    return loaded if isinstance(loaded, Bundled) else None


def store(bundled: Bundled) -> None:
    """Keep the catalogue for the next command; a cache that cannot be written is none."""
    with suppress(OSError):
        _cache().mkdir(parents=True, exist_ok=True)
        _write(bundled, _cache() / _name())
        others = sorted(_cache().glob("catalogue-*"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in others[_KEPT:]:
            old.unlink(missing_ok=True)


def ship(bundled: Bundled) -> None:
    """Put the catalogue into the package, which is built into a wheel. Raises OSError."""
    _write(bundled, PACKAGE / _name())


def _write(bundled: Bundled, path: Path) -> None:
    dumped = _dumped(replace(bundled, cases=bundled.cases.stored()))
    with replacing(path) as stream:
        stream.write(hashlib.sha256(dumped).digest() + dumped)


def _cache() -> Path:
    return user_cache_path("kafka-conformance", version=__version__)


def _name() -> str:
    digest = hashlib.sha256(__version__.encode())
    for pattern in _SOURCES:
        for path in sorted(PACKAGE.glob(pattern)):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(PACKAGE)} {len(content)}\n".encode() + content)
    return f"catalogue-{digest.hexdigest()[:16]}"


class _Pickler(pickle.Pickler):
    """Writes a type as its name, but for the messages that vectors define: these come with their definition."""

    def persistent_id(self, given: object) -> str | None:
        if not isinstance(given, codec.Wire) or is_own(given):
            return None
        return given.name


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> codec.Wire:
        return shipped_types().wire(name)


def _dumped(given: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(given)
    return file.getvalue()


def _loaded(data: bytes) -> object:
    return _Unpickler(io.BytesIO(data)).load()
