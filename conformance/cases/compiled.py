"""The bundled catalogue, compiled: its cases are made once for each version of the sources, and kept.

To make all cases from YAML takes seconds, to load them takes a fraction of a tenth. The wheel comes with them; in a
checkout they are kept in the user's cache (kept.py).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from conformance import codec
from conformance.cases.kept import Kept
from conformance.cases.model import Case
from conformance.cases.packing import PackedCase, packed, packed_with_due
from conformance.cases.requirement import Requirement
from conformance.codec.message_definition import Message
from conformance.definitions.shipped import shipped_types

KEPT = Kept("catalogue")


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


class Bundled(Struct, frozen=True):
    """The bundled catalogue: the register, the cases, and the messages that vectors define."""

    requirements: dict[str, Requirement]
    cases: Cases
    messages: tuple[Message, ...]


# --- in the wheel or in the cache ---------------------------------------------------------------------


def stored() -> Bundled | None:
    """The catalogue of these very sources, if the wheel or the cache has it."""
    content = KEPT.read()
    loaded = None if content is None else _loaded(content)
    return loaded if isinstance(loaded, Bundled) else None


def store(bundled: Bundled) -> None:
    """Keep the catalogue for the next command."""
    KEPT.store(partial(_whole, bundled))


def ship(bundled: Bundled) -> None:
    """Put the catalogue into the package, which is built into a wheel. Raises OSError."""
    KEPT.ship(_whole(bundled))


def _whole(bundled: Bundled) -> bytes:
    return _dumped(replace(bundled, cases=bundled.cases.stored()))


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
