"""The Spark task that judges some slices of a campaign. Needs pyarrow."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from conformance.cases.requirement import Requirement
from conformance.catalog.catalog import CaseStore, Catalog
from conformance.definitions.loader import types_with
from conformance.pipeline.campaign.rows import SliceRows
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.tables import commit
from conformance.process.launcher import SAFE_PATH
from conformance.runner.policy import FailurePolicy
from conformance.runner.target_runner import TargetRunner
from conformance.targets.probes import Claim
from conformance.targets.resolve import target_spec

Disproved: TypeAlias = dict[str, set[Claim]]
"""The disproved claims of each target."""


@dataclass(frozen=True)
class SliceTask:
    """A task for some slices. It starts each target once and sends it the cases of all these slices."""

    campaign: Campaign
    store: CampaignFolder
    requirements: dict[str, Requirement]
    disproved: Disproved

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        """Judge and commit slices; yield the number of each finished slice. Raises CannotStart or OSError."""
        # If an executor dies, Spark's daemon sends SIGHUP to its workers; they must end their targets.
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
        # This variable protects Spark's workers, but it would stop a script target from importing its own modules.
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
                # An earlier attempt of this task may have committed the slice before its executor was lost.
                if not path.exists():
                    commit(self._judged(number, examiners, catalog), path)
                yield number

    def examiner(self, target: str, catalog: Catalog) -> TargetRunner:
        """Return the runner of a target. Raises UnknownTarget."""
        spec = target_spec(target, self.campaign.python, self.campaign.terms)
        disproved = self.disproved.get(target, ())
        return TargetRunner(spec, catalog.requirements, FailurePolicy(), disproved=disproved)

    def _judged(self, number: int, examiners: Sequence[TargetRunner], catalog: Catalog) -> SliceRows:
        rows = SliceRows(number)
        cases = self.campaign.cases_of(number, catalog)
        for examiner in examiners:
            # The results of a slice must not depend on the slices that were judged before it.
            for result in examiner.results(cases, forget_faults=True):
                rows.add(result)
        return rows
