"""Judges one target on the cases of a run, into the record of that target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.cases.catalog import Catalog
from conformance.cases.model import Case
from conformance.cases.vector_files import Requirement
from conformance.running.at_once import Stop
from conformance.running.examiner import Examiner
from conformance.running.policy import FailurePolicy
from conformance.running.results import TargetRun
from conformance.running.shrinking import Wanted, shrink_all
from conformance.targets.session import CannotStart
from conformance.targets.target import TargetSpec

_PROGRESS = 16
"""Results from one report of the progress to the next."""


def judge_target(
    spec: TargetSpec,
    run: TargetRun,
    cases: Sequence[Case],
    requirements: Mapping[str, Requirement],
    policy: FailurePolicy,
    *,
    stop: Stop | None = None,
    progress: Callable[..., object] = lambda **_: None,
) -> None:
    """Judge a target; whatever comes of it is in `run` at once, so that an interrupt loses nothing.

    When `stop` is told by another thread, no further case is judged. `progress` is told now and then how many cases are
    `completed`, and how many `failures` count. A target that cannot start is the run's problem.
    """
    stop = stop or Stop()
    examiner = Examiner(spec, requirements, policy, stop)
    try:
        run.description = examiner.target.describe()
        for false in examiner.disprove_claims(cases):
            run.add(false)
        failures = 0
        for count, result in enumerate(examiner.results(cases)):
            run.add(result)
            failures += result.is_unexpected
            if count % _PROGRESS == 0:
                progress(completed=count, failures=failures)
    except CannotStart as error:
        run.problem = "" if stop.is_told else str(error)
    finally:
        run.answered, run.waited = examiner.target.has_answered, examiner.waited
        examiner.target.close()


def judge_and_shrink(
    spec: TargetSpec,
    run: TargetRun,
    cases: Sequence[Case],
    catalog: Catalog,
    policy: FailurePolicy,
    wanted: Wanted | None,
    progress: Callable[..., object],
    stop: Stop,
) -> None:
    """Judge a target and shrink the wanted failures, into the run; a defect of the suite is noted there, and raised."""
    try:
        judge_target(spec, run, cases, catalog.requirements, policy, stop=stop, progress=progress)
        progress(description=f"{spec.name}: shrinking", completed=len(cases))
        run.shrunk += shrink_all(spec, run, catalog, policy, stop, wanted)
    except Exception as error:
        run.problem = f"stopped by a defect of the suite: {type(error).__name__}"
        raise
