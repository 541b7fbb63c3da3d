"""The results of a campaign as runs, to be reported as those of `conformance run`. Needs pyarrow.

A run gets its numbers from the tables, and of each cluster the smallest failure, shrunk.
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
    """What failures of one cluster have in common."""

    level: str
    requirement: str
    type: str
    op: str
    field: str
    """Where expected and actual differ, without the index of an element."""
    mutation: str
    verdict: str
    disputed: bool


class SmallestCase(NamedTuple):
    """The smallest case of a cluster; of several with the same size the first one."""

    size: int
    """Bytes."""
    slice: int
    id: str


class FailureCluster(Struct):
    """Failures of one target that have the same signature."""

    signature: ClusterKey
    smallest: SmallestCase
    count: int = 0

    def row(self, target: str) -> dict[str, object]:
        """The row of the table of clusters."""
        return {"target": target, **self.signature._asdict(), "count": self.count, "smallest": self.smallest.id}


class FailureClusters(Struct, frozen=True):
    """All failures of a campaign that are not known."""

    by_target: dict[str, list[FailureCluster]] = field(default_factory=dict)
    """The most serious level first, within a level the largest cluster."""
    known: dict[str, Counter[tuple[str, VerdictKind]]] = field(default_factory=dict)
    """How many failures of a target are known, by level and verdict."""

    def of(self, target: str) -> list[FailureCluster]:
        """The clusters of a target."""
        return self.by_target.get(target, [])


COLUMNS = ["target", "slice", "id", "size", "cause", *ClusterKey._fields]
"""The columns of failures that clusters are made from."""


def clusters(failures: Iterable[Row], known: Sequence[KnownFailure], names: Mapping[str, str]) -> FailureClusters:
    """The clusters of failures; those that are known are only counted. `names`: what each target calls itself."""
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
    told = (row["id"], row["requirement"], row["cause"], row["verdict"])
    return any(entry.excuses_failure(name, *told) for entry in known)


def _signature(row: Row) -> ClusterKey:
    place = "@" if row["field"].startswith("@") else re.sub(r"\[\d+\]", "[]", row["field"])
    asked = (row["level"], row["requirement"], row["type"], row["op"])
    return ClusterKey(*asked, place, row["mutation"], row["verdict"], row["disputed"])


def _seriousness(cluster: FailureCluster) -> tuple[int, int, ClusterKey]:
    return LEVELS.index(cluster.signature.level), -cluster.count, cluster.signature


def tallies(counts: Iterable[Row]) -> dict[str, ResultCounts]:
    """The numbers of each target."""
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


PATIENCE = 300.0
"""Seconds of shrinking for one target in all; what is left then is reported as it was found."""


def shrunk(results: Sequence[tuple[Result, int]], examiner: TargetRunner, catalog: Catalog) -> Iterator[ShrunkFailure]:
    """Failures, each with the number of cases it stands for, shrunk: first one of each cause.

    Raises CannotStart.
    """
    until = time.monotonic() + PATIENCE
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
    """Failures that shrank to the same case and have the same cause as one, in the order of the first of them."""
    kept: dict[tuple[str, FailureKey], ShrunkFailure] = {}
    for one in failures:
        same = (one.result.summary.id, failure_key(one.result))
        before = kept.get(same)
        kept[same] = one if before is None else replace(before, count=before.count + one.count)
    return list(kept.values())


class CampaignSummary(Struct, frozen=True):
    """Fills the runs of a campaign, a run for each target."""

    work: SliceTask
    catalog: Catalog
    policy: FailurePolicy
    outputs: OutputFiles

    def of_unfinished(self, runs: Sequence[TargetRun]) -> None:
        """Give the runs what the slices that are done show; nothing is shrunk. Raises OSError."""
        with self.work.store.so_far() as part:
            self._fill(part, runs)

    def of_finished(self, runs: Sequence[TargetRun], errors: Console) -> bool:
        """Make the tables and the vectors, and give the runs what they show; progress goes to `errors`.

        Returns False where it was interrupted while it shrank. Raises OSError.
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
        """Give each run its numbers and the smallest failure of each cluster; returns the clusters."""
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
            run.results += [_with_door(result, run.description) for result in results]
        return failures

    def _shrink(self, run: TargetRun, several: Sequence[FailureCluster], progress: Progress) -> None:
        """Give a run the smallest failure of each cluster, shrunk; those it has when it is interrupted."""
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


def _with_door(result: Result, described: TargetDescription | None) -> Result:
    """The result with the door at which the case was judged, where the target says which that is."""
    door = described.entry_point(result.summary.op, result.summary.type) if described is not None else None
    return result if door is None else replace(result, via=str(door))


def _with_claims(numbers: ResultCounts, disproved: Sequence[Result]) -> ResultCounts:
    """The numbers with the claims that were disproved, which are in no table."""
    for result in disproved:
        numbers.verdicts[result.level, result.verdict.kind] += 1
    return numbers
