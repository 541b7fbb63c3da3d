"""Runs the cases on one target, and stores the results in its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from conformance.cases.model import CaseSummary
from conformance.cases.requirement import Requirement
from conformance.catalog.catalog import Catalog
from conformance.errors import CannotStart
from conformance.runner.parallel import StopEvent
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.runner.shrinking import Wanted, shrink_all
from conformance.runner.target_runner import TargetRunner
from conformance.targets.target import TargetSpec

Further: TypeAlias = Callable[[], Sequence[CaseSummary]]
"""Waits for cases to be generated, and returns them."""


def judge_target(
    spec: TargetSpec,
    run: TargetRun,
    cases: Sequence[CaseSummary],
    requirements: Mapping[str, Requirement],
    policy: FailurePolicy,
    *,
    stop: StopEvent | None = None,
    further: Further = tuple,
) -> None:
    """Judge a target on `cases`, then on `further` cases. Each result is in `run` at once: an interrupt loses none.

    `stop` ends the work from another thread. If the target cannot start, the run gets a problem.
    """
    stop = stop or StopEvent()
    runner = TargetRunner(spec, requirements, policy, stop)
    run.unjudged = lambda: runner.target.unjudged
    try:
        run.description = runner.claims.description
        for part in _parts(cases, further):
            for disproved in runner.disprove_claims(part):
                run.add(disproved)
            for result in runner.results(part):
                run.add(result)
    except CannotStart as error:
        run.problem = "" if stop.is_set else str(error)
    finally:
        run.answered, run.waited = runner.has_answered, runner.waited
        runner.target.close()


def _parts(cases: Sequence[CaseSummary], further: Further) -> Iterator[Sequence[CaseSummary]]:
    """Yield the cases, then the further cases. It waits for them only after the first cases were judged."""
    if cases:
        yield cases
    if generated := further():
        yield generated


def judge_and_shrink(
    spec: TargetSpec,
    run: TargetRun,
    cases: Sequence[CaseSummary],
    further: Further,
    catalog: Catalog,
    policy: FailurePolicy,
    wanted: Wanted,
    stop: StopEvent,
) -> None:
    """Judge a target, and shrink the wanted failures. A bug of the suite is recorded in the run, and raised."""
    try:
        judge_target(spec, run, cases, catalog.requirements, policy, stop=stop, further=further)
        run.is_shrinking = True
        run.shrunk += shrink_all(spec, run, catalog, policy, stop, wanted)
    except Exception as error:
        run.problem = f"stopped by a bug in the suite: {type(error).__name__}"
        raise
