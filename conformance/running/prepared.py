"""The generated cases of a run without further options: made once for each version of the sources, and kept.

To make them takes seconds of a core, to load them a fraction of one. The wheel comes with those of every type and
shipped message; in a checkout those of the last run are kept in the user's cache.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from functools import partial

import zstandard

from conformance.cases.packed_cases import PackedCase, packed_with_due
from conformance.catalog.catalog import Catalog, is_own, selected
from conformance.catalog.catalog_builder import read_catalog
from conformance.definitions.loader import shipped_types
from conformance.files.cache import SOURCES, Kept
from conformance.running.generating import Order, made_elsewhere
from conformance.strategies.seeded.cases import TYPES, generated_cases, message_types

COUNT, SEED = 200, 0
"""Of each type, and by which seed: what a run is asked for by default."""
KEPT = Kept("generated", (*SOURCES, "strategies/seeded/*.py"))

_Cases = dict[str, list[PackedCase]]
"""Cases by what they are made under."""


def prepared(order: Order, catalog: Catalog) -> Iterator[PackedCase]:
    """The cases of an order: as they are kept, or else made by another process, and kept where all are made."""
    is_plain = (order.count, order.seed) == (COUNT, SEED) and not any(_is_own(name, catalog) for name in order.names)
    kept = _read() if is_plain else {}
    if is_plain and kept.keys() >= {*order.names}:
        yield from selected((case for name in order.names for case in kept[name]), order.patterns)
        return
    fresh: _Cases = {name: [] for name in order.names}
    for case in made_elsewhere(order, catalog):
        fresh[_under(case)].append(case)
        yield case
    if is_plain and not order.patterns:
        KEPT.store(partial(_dumped, fresh))


def ship() -> None:
    """Put the cases of every type and shipped message into the package, which is built into a wheel. Raises OSError."""
    catalog = read_catalog()
    names = (*TYPES, *message_types(shipped_types().messages.values()))
    cases: _Cases = {name: [] for name in names}
    for case in map(packed_with_due, generated_cases(names, COUNT, SEED, catalog)):
        cases[_under(case)].append(case._replace(wire=None))
    KEPT.ship(_dumped(cases))


def _under(case: PackedCase) -> str:
    """What a generated case is made under."""
    return case.id.split("/")[2]


def _is_own(name: str, catalog: Catalog) -> bool:
    return name.startswith("MESSAGE<") and is_own(catalog.types.wire(name))


def _read() -> _Cases:
    content = KEPT.read()
    if content is None:
        return {}
    with zstandard.ZstdDecompressor().stream_reader(content) as stream:
        cases: _Cases = pickle.load(io.BufferedReader(stream))  # noqa: S301 - packed by us
    return cases


def _dumped(cases: _Cases) -> bytes:
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as stream:
        pickle.dump(cases, stream, pickle.HIGHEST_PROTOCOL)
    return out.getvalue()
