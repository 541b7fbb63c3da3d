"""Whether the suite notices seeded defects: each is put to the cases of the catalogue until the first one fails it."""

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
from conformance.selftest import DEFECTS
from conformance.selftest.requirement_faults import outcome_of
from conformance.selftest.seeded_fault import SeededFault
from conformance.targets.reference import answer as honest

_COUNTED = ("must", "should")
"""The levels at which a failure shows a defect; for the violation of a requirement its own level does too."""
_AT_ONCE = 4
"""Defects that a process is handed together."""


class FaultTrial(Struct, frozen=True):
    """What came of one defect."""

    defect: str
    caught_by: str
    """The id of the first case that failed it; empty where it survived."""


def trials(names: Sequence[str], jobs: int) -> Iterator[FaultTrial]:
    """What comes of each of the defects, in their order; with one job, in this process."""
    if jobs == 1:
        yield from map(_trial_of, names)
        return
    _catalog()  # made once, where it was not: the processes load it
    with environment(SAFE_PATH):
        # A fresh interpreter, not a copy of this one: it ends when this one is gone, however that went.
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_leave_interrupts)
        try:
            yield from pool.map(_trial_of, names, chunksize=_AT_ONCE)
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """The process that waits for the results is interrupted, and ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@cache
def _catalog() -> Catalog:
    return read_catalog()


def _trial_of(name: str) -> FaultTrial:
    """Put cases to a defect until one fails it."""
    defect = DEFECTS[name]
    row = _catalog().requirements.get(defect.source)
    levels = {*_COUNTED, row.level if row else "must"}
    catching = (case.id for case, answer in _ordered(defect) if _shows(defect, case, answer, levels))
    return FaultTrial(name, next(catching, ""))


def _ordered(defect: SeededFault) -> Iterator[tuple[Case, Answer]]:
    """All cases with their right answers: those of the requirements that the defect names, then the others by size."""
    labels = sorted(_catalog().cases.summaries.values(), key=lambda label: label.size)
    own = [label.id for label in labels if label.requirement in defect.try_first]
    others = [label.id for label in labels if label.requirement not in defect.try_first]
    return map(_answered, chain(own, others))


@lru_cache(maxsize=1 << 14)
def _answered(name: str) -> tuple[Case, Answer]:
    """A case and the answer of the reference, which every defect begins with."""
    case = _catalog().cases[name]
    return case, honest(case.request)


def _shows(defect: SeededFault, case: Case, right: Answer, levels: set[str]) -> bool:
    """Whether a case fails a defect. Raises SuiteBug where its function raises."""
    try:
        answer = defect.mutate(case.request, right)
    except Exception as error:
        raise SuiteBug(f"the seeded defect {defect.id} raises {error!r} at {case.id}") from error
    if answer is right or answer == right:
        return False  # the reference passes every case
    verdict, _, level, _ = attribute(case, judge(case, outcome_of(answer)), _catalog().requirements)
    return verdict.kind in {VerdictKind.FAIL, VerdictKind.CRASH} and level in levels
