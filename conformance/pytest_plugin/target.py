"""The target of one pytest process."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.cases.model import Case
from conformance.errors import CannotStart
from conformance.pytest_plugin.selection import PytestSelection, ops_of
from conformance.runner.results import Result, ShrunkFailure
from conformance.runner.shrinking import MAX_REQUESTS, shrink
from conformance.runner.target_runner import TargetRunner
from conformance.strategies.seeded.cases import type_of
from conformance.strategies.seeded.shrinking import ShrinkBudget
from conformance.targets.target import TargetSpec


def property_name(name: str) -> str:
    """Return the name of the item for the generated cases of a type."""
    return f"property/{name}"


class PytestTarget:
    """A target of this pytest process. One process of the target, started at first use, gets all cases."""

    def __init__(self, spec: TargetSpec, selected: PytestSelection) -> None:
        self.name = spec.name
        self.called = ""
        """Its own name, after its first start."""
        self.selected = selected
        self.problem = ""
        """Why it can get no more cases; empty while it answers."""
        self._spec = spec
        self._examiner: TargetRunner | None = None
        self._version = ""
        self._disproved: list[Result] | None = None
        self._shrink_budget = ShrinkBudget(MAX_REQUESTS)

    @property
    def title(self) -> str:
        """Return its name, with its version after the first start."""
        return f"{self.name} {self._version}" if self._version.isprintable() and self._version else self.name

    def start(self) -> TargetRunner:
        """Start it if it does not run. Raises CannotStart."""
        if self._examiner is None:
            self._examiner = TargetRunner(self._spec, self.selected.catalog.requirements, self.selected.policy)
        described = self._examiner.target.describe()
        self._version, self.called = described.version, described.name
        return self._examiner

    def unclaimed(self) -> set[str]:
        """Return the ids of cases and the names of properties that it does not claim. Raises CannotStart."""
        description, selected = self.start().target.describe(), self.selected
        return {case.id for case in selected.cases if description.lacks(case)} | {
            property_name(name)
            for name in selected.properties
            if not any(description.claims(op, type_of(name)) for op in ops_of(name))
        }

    def close(self) -> None:
        """End it."""
        examiner, self._examiner = self._examiner, None
        if examiner is not None:
            examiner.target.close()

    def disproved(self) -> list[Result]:
        """Return the results of its disproved claims, which are probed once. Raises CannotStart."""
        if self._disproved is None:
            self._disproved = self.start().disprove_claims(self.selected.one_per_claim())
        return self._disproved

    def judge(self, cases: Sequence[Case]) -> list[Result]:
        """Return the results of cases, in order. Raises CannotStart."""
        self.disproved()
        return list(self.start().results(cases))

    def shrink(self, results: Sequence[Result]) -> list[ShrunkFailure]:
        """Return the smallest cases with these failures; the session sends at most MAX_REQUESTS requests per target."""
        smallest: list[ShrunkFailure] = []
        try:
            for shrunk in shrink(results, self.start(), self.selected.catalog, self._shrink_budget):
                smallest.append(shrunk)  # noqa: PERF402 - keeps the shrunk cases before an error
        except CannotStart as error:
            self.problem = str(error)
        return smallest
