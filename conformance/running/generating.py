"""Generated cases, made here or by a process of their own, which leaves a core to what judges targets meanwhile."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from typing import IO

from msgspec import Struct

from conformance.cases.model import Case
from conformance.cases.packed_cases import PackedCase, packed_with_due
from conformance.catalog.catalog import Cases, Catalog, is_own, selected
from conformance.definitions.loader import types_with
from conformance.process.launcher import own_python
from conformance.running.at_once import collect_seldom
from conformance.strategies.seeded.cases import generated_cases

_TOGETHER = 64
"""Cases that are written at once."""


class Order(Struct, frozen=True):
    """Which generated cases are wanted."""

    names: tuple[str, ...]
    """The types, as `generated_cases` takes them."""
    count: int
    seed: int
    patterns: tuple[str, ...]
    """Those of a selection; none: all."""


def made(order: Order, catalog: Catalog) -> Iterator[Case]:
    """The cases of an order."""
    return selected(generated_cases(order.names, order.count, order.seed, catalog), order.patterns)


def made_elsewhere(order: Order, catalog: Catalog) -> Iterator[PackedCase]:
    """The same, packed, while another process makes them; it ends when nobody wants more of them.

    What that process does not make, as the machine has no room for it or a target ends it, is made here.
    """
    count = 0
    try:
        for case in _from_another(order, catalog):
            count += 1
            yield case
    except (OSError, EOFError, pickle.UnpicklingError):
        yield from islice(map(packed_with_due, made(order, catalog)), count, None)


def _from_another(order: Order, catalog: Catalog) -> Iterator[PackedCase]:
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
                    yield case._replace(wire=wire) if is_own(wire) else case
        finally:
            maker.kill()


def _started() -> subprocess.Popen[bytes]:
    """Start a process of ours; the Ctrl-C of a terminal does not reach it."""
    return subprocess.Popen(  # noqa: S603 - it is ourselves
        own_python("conformance.running.generating"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what goes wrong there goes wrong here, too
        process_group=0,
    )


def _read(stream: IO[bytes]) -> list[PackedCase]:
    """The next cases that the other process writes; behind the last there is an empty list."""
    some: list[PackedCase] = pickle.load(stream)  # noqa: S301 - packed by us
    return some


def serve() -> None:
    """Make what is ordered on standard input, and write it to standard output: the other end of `made_elsewhere`."""
    order, requirements, messages = pickle.load(sys.stdin.buffer)  # noqa: S301 - packed by us
    cases = map(packed_with_due, made(order, Catalog(requirements, Cases(), types_with(messages))))
    with ExitStack() as stack, suppress(BrokenPipeError):  # nobody wants more
        collect_seldom(stack)
        while some := [case._replace(wire=None) for case in islice(cases, _TOGETHER)]:
            _write(some)
        _write([])


def _write(some: list[PackedCase]) -> None:
    pickle.dump(some, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
