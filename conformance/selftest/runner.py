"""Runs the cases of the catalogue on each seeded fault until a case fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, lru_cache
from itertools import chain
from multiprocessing import get_context

from msgspec import Struct

from conformance.cases.attribution import attribute
from conformance.cases.model import Answer, Case, VerdictKind
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.errors import SuiteBug
from conformance.judging.judge import judge
from conformance.process.launcher import SAFE_PATH, environment
from conformance.selftest import FAULTS
from conformance.selftest.requirement_faults import outcome_of
from conformance.selftest.seeded_fault import SeededFault
from conformance.targets.reference import answer as correct_answer

_COUNTED = ("must", "should")
"""A failure at these levels catches a fault; for the fault of a requirement its level counts, too."""
_CHUNK = 4
"""Faults that a process gets together."""


class FaultTrial(Struct, frozen=True):
    """The result for one fault."""

    fault: str
    caught_by: str
    """The id of the first case that failed; empty if the fault survived."""


def trials(names: Sequence[str], jobs: int) -> Iterator[FaultTrial]:
    """Return the result for each fault, in order. One job runs in this process."""
    if jobs == 1:
        yield from map(_trial_of, names)
        return
    _catalog()  # write the cache before the processes read it
    with environment(SAFE_PATH):
        # A new interpreter ends when this process is killed; a fork does not.
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_leave_interrupts)
        try:
            yield from pool.map(_trial_of, names, chunksize=_CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Ignore SIGINT: the parent process handles it and ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@cache
def _catalog() -> Catalog:
    return read_catalog()


def _trial_of(name: str) -> FaultTrial:
    """Run cases on a fault until one fails."""
    fault = FAULTS[name]
    row = _catalog().requirements.get(fault.source)
    levels = {*_COUNTED, row.level if row else "must"}
    catching = (case.id for case, answer in _ordered(fault) if _shows(fault, case, answer, levels))
    return FaultTrial(name, next(catching, ""))


def _ordered(fault: SeededFault) -> Iterator[tuple[Case, Answer]]:
    """Return all cases with their correct answers: those of `try_first`, then the others by size."""
    cases = sorted(_catalog().cases.summaries.values(), key=lambda case: case.size)
    own = [case.id for case in cases if case.requirement in fault.try_first]
    others = [case.id for case in cases if case.requirement not in fault.try_first]
    return map(_answered, chain(own, others))


@lru_cache(maxsize=1 << 14)
def _answered(name: str) -> tuple[Case, Answer]:
    """Return a case and the answer of the reference, which the faults change."""
    case = _catalog().cases[name]
    return case, correct_answer(case.request)


def _shows(fault: SeededFault, case: Case, right: Answer, levels: set[str]) -> bool:
    """Return true if a case catches a fault. Raises SuiteBug if the mutator raises."""
    try:
        answer = fault.mutate(case.request, right)
    except Exception as error:
        raise SuiteBug(f"the seeded fault {fault.id} raises {error!r} at {case.id}") from error
    if answer is right or answer == right:
        return False  # the reference passes every case
    verdict, _, level, _ = attribute(case, judge(case, outcome_of(answer)), _catalog().requirements)
    return verdict.kind in {VerdictKind.FAIL, VerdictKind.CRASH} and level in levels
