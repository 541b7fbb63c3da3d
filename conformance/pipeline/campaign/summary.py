"""What a campaign found, told as a run: numbers from the tables, and the distinct failures, shrunk."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress

from conformance.cases.catalog import Catalog
from conformance.pipeline.campaign.clusters import Cluster, Rebuilt, clusters, distinct, shrunk, tallies
from conformance.pipeline.campaign.executor import Task
from conformance.pipeline.campaign.store import Store
from conformance.pipeline.campaign.tables import CLUSTERS, write
from conformance.reports.console import progress_bar
from conformance.running.examiner import Plan
from conformance.running.results import Result, Shrunk, Tally, TargetRun
from conformance.running.saving import save_all
from conformance.targets.session import CannotStart


def gather(
    runs: Sequence[TargetRun], work: Task, catalog: Catalog, plan: Plan, errors: Console, *, finished: bool
) -> bool:
    """Make the tables and tell of them in the runs; of what is not finished, without shrinking.

    Progress goes to `errors`. Returns False where it was interrupted while it shrank. Raises OSError.
    """
    if not finished:
        with work.store.so_far() as part:
            _Teller(work, part, catalog, plan).tell(runs)
        return True
    store = work.store
    store.finish()
    teller = _Teller(work, store, catalog, plan)
    found = teller.tell(runs)
    write(store.clusters, [one.row(target) for target, several in found.items() for one in several], CLUSTERS)
    shutil.rmtree(store.vectors, ignore_errors=True)
    try:
        with progress_bar(errors) as progress:
            for run in runs:
                teller.shrink(run, found.get(run.name, []), progress)
    except KeyboardInterrupt:
        return False
    finally:
        save_all(runs, store.vectors)
    return True


@dataclass(frozen=True, slots=True)
class _Teller:
    work: Task
    store: Store
    catalog: Catalog
    plan: Plan

    def tell(self, runs: Sequence[TargetRun]) -> dict[str, list[Cluster]]:
        """Give each run its numbers and the smallest failure of each cluster; the clusters."""
        found, excused = clusters(self.store, self.plan.known)
        numbers = tallies(self.store)
        rebuilt = Rebuilt(self.work.campaign, self.catalog, self.plan)
        for run in runs:
            run.counted = _with_claims(numbers.get(run.name, Tally()), run.results)
            run.counted.known = Counter({level: n for (target, level), n in excused.items() if target == run.name})
            run.results += rebuilt.results(self.store, run.name, found.get(run.name, []))
        return found

    def shrink(self, run: TargetRun, several: Sequence[Cluster], progress: Progress) -> None:
        """Give a run its distinct failures, the smallest of each cluster shrunk; all that are there when it ends."""
        counts = {cluster.smallest[2]: cluster.count for cluster in several}
        generated = [one for one in run.results if one.failed and one.case.is_shrinkable]
        if not generated:
            return
        bar = progress.add_task(f"{run.name}: shrinking", total=len(generated))
        examiner = self.work.examiner(run.name, self.catalog)
        found: list[Shrunk] = []
        try:
            for one in shrunk([(one, counts[one.case.id]) for one in generated], examiner, self.catalog):
                found.append(one)
                progress.advance(bar)
        except CannotStart as error:
            run.problem = str(error)
        finally:
            run.shrunk += distinct(found)
            examiner.close()


def _with_claims(numbers: Tally, disproved: Sequence[Result]) -> Tally:
    """The numbers with the claims that did not hold, which stand in no table."""
    for result in disproved:
        numbers.verdicts[result.level, result.verdict.kind] += 1
    return numbers
