"""The smallest case of each cluster shrunk, for a limited time; those that shrink to the same case are one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from conformance.catalog.catalog import Catalog
from conformance.runner.examiner import Examiner
from conformance.runner.results import Result, Shrunk
from conformance.runner.shrinking import Kin, kin, shrink_one

PATIENCE = 300.0
"""Seconds of shrinking for one target in all; what is left then is reported as it was found."""


def shrunk(results: Sequence[tuple[Result, int]], examiner: Examiner, catalog: Catalog) -> Iterator[Shrunk]:
    """Failures, each with the number of cases it stands for, shrunk: first one of each cause.

    Raises CannotStart.
    """
    until = time.monotonic() + PATIENCE
    for result, count in _one_of_each_first(results):
        if time.monotonic() < until:
            yield shrink_one(result, count, examiner, catalog)
        else:
            yield Shrunk(result, count, result.label.id)


def _one_of_each_first(results: Sequence[tuple[Result, int]]) -> list[tuple[Result, int]]:
    seen: set[Kin] = set()
    first: list[tuple[Result, int]] = []
    further: list[tuple[Result, int]] = []
    for result, count in results:
        (further if kin(result) in seen else first).append((result, count))
        seen.add(kin(result))
    return first + further


def merged(failures: Sequence[Shrunk]) -> list[Shrunk]:
    """Failures that shrank to the same case and have the same cause as one, in the order of the first of them."""
    kept: dict[tuple[str, Kin], Shrunk] = {}
    for one in failures:
        same = (one.result.label.id, kin(one.result))
        before = kept.get(same)
        kept[same] = one if before is None else replace(before, count=before.count + one.count)
    return list(kept.values())
