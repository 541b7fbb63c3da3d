"""The results of a campaign as runs, so that reports show them like those of `conformance run`. Needs pyarrow.

A run contains the numbers of the tables, and the smallest failure of each cluster, shrunk.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from rich.console import Console
from rich.progress import Progress

from conformance.cases.model import LEVELS, VerdictKind
from conformance.catalog.catalog import Catalog
from conformance.errors import CannotStart
from conformance.files.atomic import OutputFiles
from conformance.pipeline.campaign.rows import ResultRebuilder, Row
from conformance.pipeline.campaign.slice_task import SliceTask
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.tables import CLUSTERS, failures_of, rows_of, write
from conformance.reports.progress import progress_bar
from conformance.runner.known_failures import KnownFailure
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import Result, ResultCounts, ShrunkFailure, TargetRun
from conformance.runner.save_vectors import save_all
from conformance.runner.shrinking import FailureKey, failure_key, shrink_one
from conformance.runner.target_runner import TargetRunner
from conformance.targets.protocol import TargetDescription


class ClusterKey(NamedTuple):
    """The values that all failures of one cluster share."""

    level: str
    requirement: str
    type: str
    op: str
    field: str
    """The path of the different field, without indexes of elements."""
    mutation: str
    verdict: str
    disputed: bool


class SmallestCase(NamedTuple):
    """The smallest case of a cluster; at equal size the first one."""

    size: int
    """Bytes."""
    slice: int
    id: str


class FailureCluster(Struct):
    """The failures of one target with the same signature."""

    signature: ClusterKey
    smallest: SmallestCase
    count: int = 0

    def row(self, target: str) -> dict[str, object]:
        """Return the row of the table of clusters."""
        return {"target": target, **self.signature._asdict(), "count": self.count, "smallest": self.smallest.id}


class FailureClusters(Struct, frozen=True):
    """All failures of a campaign except known ones."""

    by_target: dict[str, list[FailureCluster]] = field(default_factory=dict)
    """The clusters of each target, by level and then by size; the largest cluster of level must comes first."""
    known: dict[str, Counter[tuple[str, VerdictKind]]] = field(default_factory=dict)
    """The number of known failures of each target, by level and verdict."""

    def of(self, target: str) -> list[FailureCluster]:
        """Return the clusters of a target."""
        return self.by_target.get(target, [])


COLUMNS = ["target", "slice", "id", "size", "cause", *ClusterKey._fields]
"""The columns of failures that are needed for clusters."""


def clusters(failures: Iterable[Row], known: Sequence[KnownFailure], names: Mapping[str, str]) -> FailureClusters:
    """Return the clusters of failures; known failures are only counted. `names`: the own name of each target."""
    by_target: dict[str, dict[ClusterKey, FailureCluster]] = {}
    excused: dict[str, Counter[tuple[str, VerdictKind]]] = {}
    for row in failures:
        if _is_known(row, known, names[row["target"]]):
            excused.setdefault(row["target"], Counter())[row["level"], VerdictKind(row["verdict"])] += 1
            continue
        signature, case = _signature(row), SmallestCase(row["size"], row["slice"], row["id"])
        cluster = by_target.setdefault(row["target"], {}).setdefault(signature, FailureCluster(signature, case))
        cluster.count += 1
        cluster.smallest = min(cluster.smallest, case)
    ordered = {target: sorted(same.values(), key=_seriousness) for target, same in by_target.items()}
    return FailureClusters(ordered, excused)


def _is_known(row: Row, known: Sequence[KnownFailure], name: str) -> bool:
    failure = (row["id"], row["requirement"], row["cause"], row["verdict"])
    return any(entry.excuses_failure(name, *failure) for entry in known)


def _signature(row: Row) -> ClusterKey:
    place = "@" if row["field"].startswith("@") else re.sub(r"\[\d+\]", "[]", row["field"])
    key = (row["level"], row["requirement"], row["type"], row["op"])
    return ClusterKey(*key, place, row["mutation"], row["verdict"], row["disputed"])


def _seriousness(cluster: FailureCluster) -> tuple[int, int, ClusterKey]:
    return LEVELS.index(cluster.signature.level), -cluster.count, cluster.signature


def tallies(counts: Iterable[Row]) -> dict[str, ResultCounts]:
    """Return the result counts of each target."""
    by_target: dict[str, ResultCounts] = {}
    for row in counts:
        numbers, kind, count = (
            by_target.setdefault(row["target"], ResultCounts()),
            VerdictKind(row["verdict"]),
            row["count"],
        )
        numbers.verdicts[row["level"], kind] += count
        numbers.disputed[row["level"]] += count * row["disputed"]
        numbers.unobserved += count * (row["unobserved"] and kind is VerdictKind.PASS)
        if kind is VerdictKind.SKIP:
            numbers.skipped[f"{row['op']} of {row['type']}"] += count
    return by_target


SHRINK_TIMEOUT_S = 300.0
"""Time to shrink all failures of one target; the remaining failures are reported without shrinking."""


def shrunk(results: Sequence[tuple[Result, int]], examiner: TargetRunner, catalog: Catalog) -> Iterator[ShrunkFailure]:
    """Shrink failures, given with the number of cases that they represent; one of each cause comes first.

    Raises CannotStart.
    """
    until = time.monotonic() + SHRINK_TIMEOUT_S
    for result, count in _one_of_each_first(results):
        if time.monotonic() < until:
            yield shrink_one(result, count, examiner, catalog)
        else:
            yield ShrunkFailure(result, count, result.summary.id)


def _one_of_each_first(results: Sequence[tuple[Result, int]]) -> list[tuple[Result, int]]:
    seen: set[FailureKey] = set()
    first: list[tuple[Result, int]] = []
    further: list[tuple[Result, int]] = []
    for result, count in results:
        (further if failure_key(result) in seen else first).append((result, count))
        seen.add(failure_key(result))
    return first + further


def merged(failures: Sequence[ShrunkFailure]) -> list[ShrunkFailure]:
    """Merge failures with the same shrunk case and the same cause, in the order of their first occurrence."""
    kept: dict[tuple[str, FailureKey], ShrunkFailure] = {}
    for one in failures:
        same = (one.result.summary.id, failure_key(one.result))
        before = kept.get(same)
        kept[same] = one if before is None else replace(before, count=before.count + one.count)
    return list(kept.values())


class CampaignSummary(Struct, frozen=True):
    """The builder of a campaign's runs, one per target."""

    work: SliceTask
    catalog: Catalog
    policy: FailurePolicy
    outputs: OutputFiles

    def of_unfinished(self, runs: Sequence[TargetRun]) -> None:
        """Fill the runs from the finished slices, without shrinking. Raises OSError."""
        with self.work.store.so_far() as part:
            self._fill(part, runs)

    def of_finished(self, runs: Sequence[TargetRun], errors: Console) -> bool:
        """Make the tables and the vectors, fill the runs, and show the progress on `errors`.

        Returns False after an interrupt during shrinking. Raises OSError.
        """
        store = self.work.store
        store.finish()
        failures = self._fill(store, runs)
        rows = [cluster.row(target) for target, several in failures.by_target.items() for cluster in several]
        write(store.clusters, rows, CLUSTERS)
        shutil.rmtree(store.vectors, ignore_errors=True)
        store.vectors.mkdir()
        try:
            with progress_bar(errors) as progress:
                for run in runs:
                    self._shrink(run, failures.of(run.name), progress)
        except KeyboardInterrupt:
            return False
        finally:
            save_all(runs, store.vectors, self.outputs)
        return True

    def _fill(self, store: CampaignFolder, runs: Sequence[TargetRun]) -> FailureClusters:
        """Fill each run with its numbers and the smallest failure of each cluster; return the clusters."""
        called = {run.name: run.called for run in runs}
        failures = clusters(rows_of(store.failures, COLUMNS), self.policy.known, called)
        numbers = tallies(rows_of(store.counts))
        rebuilder = ResultRebuilder(self.work.campaign, self.catalog, self.policy)
        for run in runs:
            run.counted = _with_claims(numbers.get(run.name, ResultCounts()), run.results)
            run.answered |= any(
                kind in (VerdictKind.PASS, VerdictKind.EITHER, VerdictKind.FAIL) for _, kind in run.counted.verdicts
            )
            run.counted.known = failures.known.get(run.name, Counter())
            ids = [cluster.smallest.id for cluster in failures.of(run.name)]
            results = rebuilder.results(failures_of(store.failures, run.name, ids))
            run.results += [_with_entry_point(result, run.description) for result in results]
        return failures

    def _shrink(self, run: TargetRun, several: Sequence[FailureCluster], progress: Progress) -> None:
        """Add the shrunk smallest failure of each cluster to a run; after an interrupt, those that are finished."""
        counts = {cluster.smallest.id: cluster.count for cluster in several}
        shrinkable = [(one, counts[one.summary.id]) for one in run.results if one.failed and one.summary.is_shrinkable]
        if not shrinkable:
            return
        bar = progress.add_task(f"{run.name}: shrinking", total=len(shrinkable))
        examiner = self.work.examiner(run.name, self.catalog)
        done: list[ShrunkFailure] = []
        try:
            for one in shrunk(shrinkable, examiner, self.catalog):
                done.append(one)
                progress.advance(bar)
        except CannotStart as error:
            run.problem = str(error)
        finally:
            run.shrunk += merged(done)
            examiner.target.close()


def _with_entry_point(result: Result, described: TargetDescription | None) -> Result:
    """Return the result with the judged entry point of the library, if the target names it."""
    entry_point = described.entry_point(result.summary.op, result.summary.type) if described is not None else None
    return result if entry_point is None else replace(result, via=str(entry_point))


def _with_claims(numbers: ResultCounts, disproved: Sequence[Result]) -> ResultCounts:
    """Add the disproved claims to the counts, because no table contains them."""
    for result in disproved:
        numbers.verdicts[result.level, result.verdict.kind] += 1
    return numbers
