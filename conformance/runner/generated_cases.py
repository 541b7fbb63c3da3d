"""Generated cases, made here or by a process of their own, which leaves a core to what judges targets meanwhile."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from typing import IO

import zstandard
from msgspec import Struct
from msgspec.structs import replace

from conformance.cases.model import Case, CaseSummary
from conformance.cases.stored_cases import StoredCase, is_custom_message, store_with_digest, stored_all
from conformance.catalog.catalog import CaseStore, Catalog, selected
from conformance.catalog.catalog_builder import read_catalog
from conformance.definitions.loader import shipped_types, types_with
from conformance.errors import CannotStart
from conformance.files.cache import SOURCES, CacheEntry
from conformance.process.launcher import own_python
from conformance.runner.parallel import StopEvent, reduce_gc
from conformance.strategies.seeded.cases import TYPES, generated_cases, message_types

_TOGETHER = 64
"""Cases that are written at once."""


class GenerationRequest(Struct, frozen=True):
    """Which generated cases are wanted."""

    names: tuple[str, ...]
    """The types, as `generated_cases` takes them."""
    count: int
    seed: int
    patterns: tuple[str, ...]
    """Those of a selection; none: all."""


def generate(order: GenerationRequest, catalog: Catalog) -> Iterator[Case]:
    """The cases of an order."""
    return selected(generated_cases(order.names, order.count, order.seed, catalog), order.patterns)


def generate_in_process(order: GenerationRequest, catalog: Catalog) -> Iterator[StoredCase]:
    """The same, packed, while another process makes them; it ends when nobody wants more of them.

    What that process does not make, as the machine has no room for it or a target ends it, is made here.
    """
    count = 0
    try:
        for case in _from_another(order, catalog):
            count += 1
            yield case
    except (OSError, EOFError, pickle.UnpicklingError):
        yield from islice(map(store_with_digest, generate(order, catalog)), count, None)


def _from_another(order: GenerationRequest, catalog: Catalog) -> Iterator[StoredCase]:
    """What another process makes. Raises OSError, EOFError or UnpicklingError where it does not make all of it."""
    messages = tuple(message for message in catalog.types.messages.values() if not message.is_shipped)
    with _started() as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        try:
            with maker.stdin:
                pickle.dump((order, catalog.requirements, messages), maker.stdin)
            while some := _read(maker.stdout):
                for case in some:
                    wire = catalog.types.wire(case.type)
                    yield replace(case, own_wire=wire) if is_custom_message(wire) else case
        finally:
            maker.kill()


def _started() -> subprocess.Popen[bytes]:
    """Start a process of ours; the Ctrl-C of a terminal does not reach it."""
    return subprocess.Popen(  # noqa: S603 - it is ourselves
        own_python("conformance.runner.generated_cases"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what goes wrong there goes wrong here, too
        process_group=0,
    )


def _read(stream: IO[bytes]) -> list[StoredCase]:
    """The next cases that the other process writes; behind the last there is an empty list."""
    some: list[StoredCase] = pickle.load(stream)  # noqa: S301 - packed by us
    return some


def serve() -> None:
    """Generate the cases that `generate_in_process` requests on standard input, and write them to standard output."""
    order, requirements, messages = pickle.load(sys.stdin.buffer)  # noqa: S301 - packed by us
    cases = map(store_with_digest, generate(order, Catalog(requirements, CaseStore(), types_with(messages))))
    with ExitStack() as stack, suppress(BrokenPipeError):  # nobody wants more
        reduce_gc(stack)
        while some := [replace(case, own_wire=None) for case in islice(cases, _TOGETHER)]:
            _write(some)
        _write([])


def _write(some: list[StoredCase]) -> None:
    pickle.dump(some, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.flush()


class DeferredCases:
    """Cases that one thread makes or gathers, and that others wait for."""

    def __init__(self, make: Callable[[], Iterable[CaseSummary]]) -> None:
        self._make = make
        self._made: Future[Sequence[CaseSummary]] = Future()

    def __call__(self) -> Sequence[CaseSummary]:
        """The cases, which are waited for. Raises what making them raised, and CannotStart where it was stopped."""
        return self._made.result()

    @property
    def count(self) -> int | None:
        """Return the number of these cases, or None while they are made."""
        is_made = self._made.done() and self._made.exception() is None
        return len(self._made.result()) if is_made else None

    def make(self, stop: StopEvent) -> None:
        """Make them, until the word to stop comes. Raises what that raises."""
        try:
            self._made.set_result(stored_all(_until(stop, self._make())))
        except BaseException as error:
            self._made.set_exception(error)
            raise


def _until(stop: StopEvent, cases: Iterable[CaseSummary]) -> Iterator[CaseSummary]:
    """The cases. Raises CannotStart where the word to stop comes before they are made."""
    for case in cases:
        if stop.is_set:
            raise CannotStart("stopped")
        yield case


COUNT, SEED = 200, 0
"""Of each type, and by which seed: what a run is asked for by default."""
KEPT = CacheEntry("generated", (*SOURCES, "strategies/seeded/*.py"))

_Cases = dict[str, list[StoredCase]]
"""Cases by what they are made under."""


def cached_cases(order: GenerationRequest, catalog: Catalog) -> Iterator[StoredCase]:
    """The cases of an order: as they are kept, or else made by another process, and kept where all are made."""
    is_plain = (order.count, order.seed) == (COUNT, SEED) and not any(_is_own(name, catalog) for name in order.names)
    kept = _cached() if is_plain else {}
    if is_plain and kept.keys() >= {*order.names}:
        yield from selected((case for name in order.names for case in kept[name]), order.patterns)
        return
    fresh: _Cases = {name: [] for name in order.names}
    for case in generate_in_process(order, catalog):
        fresh[_under(case)].append(case)
        yield case
    if is_plain and not order.patterns:
        KEPT.save(partial(_dumped, fresh))


def ship() -> None:
    """Put the cases of every type and shipped message into the package, which is built into a wheel. Raises OSError."""
    catalog = read_catalog()
    names = (*TYPES, *message_types(shipped_types().messages.values()))
    cases: _Cases = {name: [] for name in names}
    for case in map(store_with_digest, generated_cases(names, COUNT, SEED, catalog)):
        cases[_under(case)].append(case)
    KEPT.write_to_package(_dumped(cases))


def _under(case: StoredCase) -> str:
    """What a generated case is made under."""
    return case.id.split("/")[2]


def _is_own(name: str, catalog: Catalog) -> bool:
    return name.startswith("MESSAGE<") and is_custom_message(catalog.types.wire(name))


def _cached() -> _Cases:
    content = KEPT.load()
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


if __name__ == "__main__":
    serve()
