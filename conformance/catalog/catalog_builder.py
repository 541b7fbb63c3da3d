"""Builds the bundled catalogue once for each version of the sources, and caches it.

Building it from YAML takes seconds; loading it takes less than a tenth of a second. A wheel contains the built
catalogue; a checkout stores it in the user's cache (files/cache.py).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from conformance import codec
from conformance.cases.requirement import Requirement
from conformance.cases.stored_cases import is_custom_message
from conformance.catalog._vector_cases import make_cases
from conformance.catalog.catalog import CaseStore, Catalog
from conformance.catalog.vector_files import VECTORS, read_requirements, read_vectors, vector_files
from conformance.codec.message_spec import MessageSpec
from conformance.definitions.loader import shipped_types, types_with
from conformance.errors import FileError
from conformance.files.cache import CacheEntry

CACHE = CacheEntry("catalogue")


class BundledCatalog(Struct, frozen=True):
    """The bundled catalogue: the register, the cases, and the messages that vectors define."""

    requirements: dict[str, Requirement]
    cases: CaseStore
    messages: tuple[MessageSpec, ...]


# --- in the wheel or in the cache ---------------------------------------------------------------------


def load_cached() -> BundledCatalog | None:
    """Return the catalogue of the current sources from the wheel or the cache; None if neither has it."""
    content = CACHE.load()
    loaded = None if content is None else _loaded(content)
    return loaded if isinstance(loaded, BundledCatalog) else None


def save_cached(bundled: BundledCatalog) -> None:
    """Cache the catalogue for the next command."""
    CACHE.save(partial(_with_digests, bundled))


def write_to_wheel(bundled: BundledCatalog) -> None:
    """Write the catalogue into the package, for a wheel. Raises OSError."""
    CACHE.write_to_package(_with_digests(bundled))


def _with_digests(bundled: BundledCatalog) -> bytes:
    return _dumped(replace(bundled, cases=bundled.cases.with_digests()))


class _CasePickler(pickle.Pickler):
    """Writes a type as its name. A message that vectors define is written with its definition."""

    def persistent_id(self, given: object) -> str | None:
        return given.name if isinstance(given, codec.WireType) and not is_custom_message(given) else None


class _CaseUnpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> codec.WireType:
        return shipped_types().wire(name)


def _dumped(given: object) -> bytes:
    file = io.BytesIO()
    _CasePickler(file, pickle.HIGHEST_PROTOCOL).dump(given)
    return file.getvalue()


def _loaded(data: bytes) -> object:
    return _CaseUnpickler(io.BytesIO(data)).load()


def read_catalog(further: Iterable[Path] = (), messages: Iterable[MessageSpec] = ()) -> Catalog:
    """Return the bundled catalogue, with the vectors of further folders or files.

    Its types are the built-in ones, the shipped messages, `messages`, and the messages that vectors define. Raises
    FileError.
    """
    bundled = load_cached()
    if bundled is None:
        bundled = build()
        save_cached(bundled)
    try:
        types = types_with(messages).adding(bundled.messages)
    except ValueError as error:
        raise FileError(VECTORS, str(error)) from None
    for root in further:
        types = _add_vectors(bundled.cases, bundled.requirements, types, root, str(root))
    return Catalog(bundled.requirements, bundled.cases, types)


def build() -> BundledCatalog:
    """Return the bundled catalogue, built from its files. Raises FileError."""
    requirements, cases = read_requirements(VECTORS / "requirements.yaml"), CaseStore()
    types = _add_vectors(cases, requirements, shipped_types(), VECTORS)
    if (VECTORS / "covering").is_dir():
        # Imported here: a command with a cached catalogue does not need the pairwise sets.
        from conformance.catalog.pairwise.families import covering_cases

        for case in covering_cases(Catalog(requirements, cases, types), VECTORS / "covering"):
            cases.add(case)
    defined = tuple(message for message in types.messages.values() if not message.is_shipped)
    return BundledCatalog(requirements, cases, defined)


def _add_vectors(
    cases: CaseStore, requirements: dict[str, Requirement], types: codec.TypeRegistry, root: Path, origin: str = ""
) -> codec.TypeRegistry:
    """Add the cases of the vectors below a folder; return the types with their messages. Raises FileError."""
    for path in vector_files(root):
        for vector in read_vectors(path, types):
            if vector.definition is not None and isinstance(vector.wire, codec.MessageType):
                types = types.adding([vector.wire.message])
            for case in make_cases(vector, requirements, origin):
                if case.id in cases:
                    raise vector.error("another vector has this id already")
                cases.add(case)
    return types
