"""Whether the suite notices seeded defects: each is put to the cases of the catalogue until the first one fails it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain
from multiprocessing import get_context

from conformance.cases.catalog import Catalog, read_catalog
from conformance.cases.model import Case, Kind
from conformance.errors import Defect
from conformance.judging.judge import judge
from conformance.targets.defects import DEFECTS
from conformance.targets.defects.model import SeededDefect
from conformance.targets.violations import told

_COUNTED = ("must", "should")
"""The levels at which a failure shows a defect; for the violation of a requirement its own level does too."""
_AT_ONCE = 4
"""Defects that a process is handed together."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one defect."""

    defect: str
    caught_by: str
    """The id of the first case that failed it; empty where it survived."""
    tried: int
    """How many cases were put to it."""


def trials(names: Sequence[str], jobs: int) -> Iterator[Trial]:
    """What comes of each of the defects, in their order; with one job, in this process."""
    if jobs == 1:
        yield from map(_trial_of, names)
        return
    # A fresh interpreter, not a copy of this one: it ends when this one is gone, however that went.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield from pool.map(_trial_of, names, chunksize=_AT_ONCE)
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """The process that waits for the results is interrupted, and ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _trial_of(name: str) -> Trial:
    return trial(DEFECTS[name], _catalog())


@cache
def _catalog() -> Catalog:
    return read_catalog()


def trial(defect: SeededDefect, catalog: Catalog) -> Trial:
    """Put cases to a defect until one fails it."""
    row = catalog.requirements.get(defect.source)
    levels = {*_COUNTED, row.level if row else "must"}
    tried = 0
    for case in _ordered(defect, catalog):
        tried += 1
        if _shows(defect, case, levels):
            return Trial(defect.id, case.id, tried)
    return Trial(defect.id, "", tried)


def _ordered(defect: SeededDefect, catalog: Catalog) -> Iterator[Case]:
    """All cases: those of the requirements that the defect names, then the others, small ones before large ones."""
    labels = sorted(catalog.cases.labels.values(), key=lambda label: label.size)
    own = [label.id for label in labels if label.requirement in defect.first]
    others = [label.id for label in labels if label.requirement not in defect.first]
    return (catalog.cases[name] for name in chain(own, others))


def _shows(defect: SeededDefect, case: Case, levels: set[str]) -> bool:
    """Whether a case fails a defect. Raises Defect where its function raises."""
    try:
        outcome = told(defect.bend, case)
    except Exception as error:
        raise Defect(f"the seeded defect {defect.id} raises {error!r} at {case.id}") from error
    verdict = judge(case, outcome)
    return verdict.kind in (Kind.FAIL, Kind.CRASH) and (verdict.level or case.level) in levels
