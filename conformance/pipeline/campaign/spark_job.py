"""The work of a campaign on Spark: the slices that are not done are spread and watched. Needs pyspark, pyarrow."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import SparkSession
from rich.console import Console

from conformance.cases.requirement import Requirement
from conformance.catalog.catalog import CaseStore, Catalog
from conformance.definitions.loader import types_with
from conformance.errors import MachineError
from conformance.pipeline.campaign.rows import SliceRows
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.tables import commit
from conformance.pipeline.options import SparkOptions
from conformance.pipeline.spark_session import apart, has_ended, session
from conformance.process.launcher import SAFE_PATH
from conformance.reports.console import progress_bar
from conformance.runner.examiner import TargetRunner
from conformance.runner.policy import FailurePolicy
from conformance.targets.probes import Claim
from conformance.targets.resolve import target_spec

Disproved: TypeAlias = dict[str, set[Claim]]
"""For each target the claims that were disproved."""


@dataclass(frozen=True)
class SliceTask:
    """The work on some slices: each target is started once and asked the cases of all of them."""

    campaign: Campaign
    store: CampaignFolder
    requirements: dict[str, Requirement]
    disproved: Disproved

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        """Judge and commit slices; yields the number of each that is done. Raises CannotStart or OSError."""
        # Spark's daemon sends SIGHUP to its workers when their executor dies: targets must not outlive them.
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
        # Spark's workers need it, but a target that is a script imports the modules in its folder.
        for name, value in SAFE_PATH.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        catalog = Catalog(self.requirements, CaseStore(), types_with(self.campaign.messages))
        with ExitStack() as stack:
            examiners = []
            for target in self.campaign.targets:
                examiner = self.examiner(target, catalog)
                stack.callback(examiner.target.close)
                examiners.append(examiner)
            for number in numbers:
                path = self.store.path_of(number)
                # An earlier attempt at this task may have committed it before its executor was lost.
                if not path.exists():
                    commit(self._judged(number, examiners, catalog), path)
                yield number

    def examiner(self, target: str, catalog: Catalog) -> TargetRunner:
        """The examiner of a target. Raises UnknownTarget."""
        spec = target_spec(target, self.campaign.python, self.campaign.terms)
        examiner = TargetRunner(spec, catalog.requirements, FailurePolicy())
        examiner.target.disproved.update(self.disproved.get(target, ()))
        return examiner

    def _judged(self, number: int, examiners: Sequence[TargetRunner], catalog: Catalog) -> SliceRows:
        rows = SliceRows(number)
        cases = self.campaign.cases_of(number, catalog)
        for examiner in examiners:
            # The results of a slice must not depend on the slices that were judged before it.
            examiner.target.forget_faults()
            for result in examiner.results(cases):
                rows.add(result)
        return rows


_MOST_SLICES = 50
"""Slices of one task at most: the last task must not take long after all others are done."""


class JobFailed(MachineError):
    """Spark gave up; the message says why in one line. The slices that are done are kept."""


def judge_slices(work: SliceTask, options: SparkOptions, errors: Console) -> bool:
    """Judge the slices that are not done; progress goes to `errors`. Returns False where it was interrupted.

    Raises JobFailed, JavaNotFound, SparkNotAvailable or OSError.
    """
    if damaged := work.store.remove_damaged():
        names = ", ".join(map(str, damaged[:10])) + (", …" if len(damaged) > 10 else "")
        errors.print(f"damaged and judged again: slice {names}", markup=False)
    done = work.store.done()
    pending = [number for number in range(work.campaign.slices) if number not in done]
    if not pending:
        return True
    with session(options, "conformance campaign") as spark:
        try:
            apart(spark, lambda: spread(spark, work, pending), lambda job: _watch(job, work, errors))
        except KeyboardInterrupt:
            return False
        except Exception as error:  # noqa: BLE001 - whatever Spark makes of a task that fails
            raise JobFailed(_reason(error)) from None
    return True


def spread(spark: SparkSession, work: SliceTask, pending: list[int]) -> None:
    """Have slices judged on the executors, several to a task. Raises what Spark makes of a task that fails."""
    context = spark.sparkContext
    share = max(1, min(_MOST_SLICES, len(pending) // (4 * context.defaultParallelism)))
    context.parallelize(pending, -(-len(pending) // share)).mapPartitions(work).count()


def _watch(job: threading.Thread, work: SliceTask, errors: Console) -> None:
    """Show the progress of a job until it ends: a bar on a terminal, else a line each minute."""
    total, began, minutes_shown = work.campaign.slices, time.monotonic(), 0
    with progress_bar(errors) as progress:
        bar = progress.add_task("slices", total=total)
        while job.is_alive():
            job.join(1)
            done = len(work.store.done())
            progress.update(bar, completed=done)
            minutes = int(time.monotonic() - began) // 60
            if minutes > minutes_shown and not errors.is_terminal:
                minutes_shown = minutes
                errors.print(f"{done} of {total} slices", markup=False)


def _reason(error: Exception) -> str:
    """Why Spark gave up, in one line."""
    text = str(error)
    if has_ended(error):
        text = "Spark stopped: its Java has ended"
    reasons = re.findall(r"^\S*(?:CannotStart|UnknownTarget): (.+)$", text, re.MULTILINE)
    reasons += re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    return f"{(reasons or text.splitlines() or ['Spark stopped'])[0]} (the same command continues from here)"
