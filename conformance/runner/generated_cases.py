"""Generated cases, made in this process or in a second one, which leaves more CPU time for judging."""

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

_CASES_PER_MESSAGE = 64
"""The number of cases in one message between the processes."""


class GenerationRequest(Struct, frozen=True):
    """The generated cases that a run needs."""

    names: tuple[str, ...]
    """The types, in the form that `generated_cases` accepts."""
    count: int
    seed: int
    patterns: tuple[str, ...]
    """The patterns of the selection; empty: all cases."""


def generate(wanted: GenerationRequest, catalog: Catalog) -> Iterator[Case]:
    """Yield the cases of a request."""
    return selected(generated_cases(wanted.names, wanted.count, wanted.seed, catalog), wanted.patterns)


def generate_in_process(wanted: GenerationRequest, catalog: Catalog) -> Iterator[StoredCase]:
    """Yield the cases of a request in stored form, made by another process. The process ends when the caller stops.

    If that process fails, for example without memory, this process makes the remaining cases.
    """
    count = 0
    try:
        for case in _from_process(wanted, catalog):
            count += 1
            yield case
    except (OSError, EOFError, pickle.UnpicklingError):
        yield from islice(map(store_with_digest, generate(wanted, catalog)), count, None)


def _from_process(wanted: GenerationRequest, catalog: Catalog) -> Iterator[StoredCase]:
    """Yield the cases of another process. Raises OSError, EOFError or UnpicklingError if it fails."""
    messages = tuple(message for message in catalog.types.messages.values() if not message.is_shipped)
    with _start_process() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with process.stdin:
                pickle.dump((wanted, catalog.requirements, messages), process.stdin)
            while batch := _read(process.stdout):
                for case in batch:
                    wire = catalog.types.wire(case.type)
                    yield replace(case, own_wire=wire) if is_custom_message(wire) else case
        finally:
            process.kill()  # the caller may stop before the last case


def _start_process() -> subprocess.Popen[bytes]:
    """Start this program as a generator of cases. Ctrl-C in a terminal does not reach it."""
    return subprocess.Popen(  # noqa: S603 - our own Python
        own_python("conformance.runner.generated_cases"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # this process repeats the work after a failure, and reports it
        process_group=0,
    )


def _read(stream: IO[bytes]) -> list[StoredCase]:
    """Return the next cases from the other process; an empty list marks the end."""
    batch: list[StoredCase] = pickle.load(stream)  # noqa: S301 - pickled by our own process
    return batch


def serve() -> None:
    """Generate the cases of the request on standard input, and write them to standard output."""
    wanted, requirements, messages = pickle.load(sys.stdin.buffer)  # noqa: S301 - pickled by our own process
    cases = map(store_with_digest, generate(wanted, Catalog(requirements, CaseStore(), types_with(messages))))
    with ExitStack() as stack, suppress(BrokenPipeError):  # the other process needs no more cases
        reduce_gc(stack)
        while batch := [replace(case, own_wire=None) for case in islice(cases, _CASES_PER_MESSAGE)]:
            _write(batch)
        _write([])


def _write(batch: list[StoredCase]) -> None:
    pickle.dump(batch, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.flush()


class DeferredCases:
    """Cases that one thread makes and other threads wait for."""

    def __init__(self, make: Callable[[], Iterable[CaseSummary]]) -> None:
        self._make_cases = make
        self._cases: Future[Sequence[CaseSummary]] = Future()

    def __call__(self) -> Sequence[CaseSummary]:
        """Wait for the cases and return them. Raises the error of the making thread, or CannotStart after a stop."""
        return self._cases.result()

    @property
    def count(self) -> int | None:
        """Return the number of these cases, or None before they are complete."""
        is_made = self._cases.done() and self._cases.exception() is None
        return len(self._cases.result()) if is_made else None

    def make(self, stop: StopEvent) -> None:
        """Make the cases, and raise the errors of that. `stop` ends it with CannotStart."""
        try:
            self._cases.set_result(stored_all(_stoppable(stop, self._make_cases())))
        except BaseException as error:
            self._cases.set_exception(error)
            raise


def _stoppable(stop: StopEvent, cases: Iterable[CaseSummary]) -> Iterator[CaseSummary]:
    """Yield the cases. Raises CannotStart if `stop` is set before the end."""
    for case in cases:
        if stop.is_set:
            raise CannotStart("stopped")
        yield case


COUNT, SEED = 200, 0
"""The default number of cases of each type, and the default seed."""
CACHE = CacheEntry("generated", (*SOURCES, "strategies/seeded/*.py"))

_CasesByType = dict[str, list[StoredCase]]
"""Stored cases, by the type for which they were generated."""


def cached_cases(wanted: GenerationRequest, catalog: Catalog) -> Iterator[StoredCase]:
    """Yield the cases of a request from the cache; else make them in another process, and cache complete types."""
    is_plain = (wanted.count, wanted.seed) == (COUNT, SEED) and not any(
        _is_custom(name, catalog) for name in wanted.names
    )
    cached = _cached() if is_plain else {}
    if is_plain and cached.keys() >= {*wanted.names}:
        yield from selected((case for name in wanted.names for case in cached[name]), wanted.patterns)
        return
    made: _CasesByType = {name: [] for name in wanted.names}
    for case in generate_in_process(wanted, catalog):
        made[_type_of(case)].append(case)
        yield case
    if is_plain and not wanted.patterns:
        CACHE.save(partial(_dumped, made))


def ship() -> None:
    """Write the default cases of every type and shipped message into the package, for the wheel. Raises OSError."""
    catalog = read_catalog()
    names = (*TYPES, *message_types(shipped_types().messages.values()))
    cases: _CasesByType = {name: [] for name in names}
    for case in map(store_with_digest, generated_cases(names, COUNT, SEED, catalog)):
        cases[_type_of(case)].append(case)
    CACHE.write_to_package(_dumped(cases))


def _type_of(case: StoredCase) -> str:
    """Return the type for which a case was generated."""
    return case.id.split("/")[2]


def _is_custom(name: str, catalog: Catalog) -> bool:
    return name.startswith("MESSAGE<") and is_custom_message(catalog.types.wire(name))


def _cached() -> _CasesByType:
    content = CACHE.load()
    if content is None:
        return {}
    with zstandard.ZstdDecompressor().stream_reader(content) as stream:
        cases: _CasesByType = pickle.load(io.BufferedReader(stream))  # noqa: S301 - pickled by our own process
    return cases


def _dumped(cases: _CasesByType) -> bytes:
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as stream:
        pickle.dump(cases, stream, pickle.HIGHEST_PROTOCOL)
    return out.getvalue()


if __name__ == "__main__":
    serve()
