"""Judges one target on the cases of a run, into the record of that target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from conformance.cases.model import Case
from conformance.cases.requirement import Requirement
from conformance.catalog.catalog import Catalog
from conformance.errors import CannotStart
from conformance.runner.examiner import TargetRunner
from conformance.runner.parallel import StopEvent
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.runner.shrinking import Wanted, shrink_all
from conformance.targets.target import TargetSpec

Further: TypeAlias = Callable[[], Sequence[Case]]
"""Waits for cases to be made."""

_PROGRESS = 16
"""Results from one report of the progress to the next."""


def judge_target(
    spec: TargetSpec,
    run: TargetRun,
    cases: Sequence[Case],
    requirements: Mapping[str, Requirement],
    policy: FailurePolicy,
    *,
    stop: StopEvent | None = None,
    progress: Callable[..., object] = lambda **_: None,
    further: Further = tuple,
) -> None:
    """Judge a target; whatever comes of it is in `run` at once, so that an interrupt loses nothing.

    When `stop` is told by another thread, no further case is judged. `progress` is told now and then how many cases are
    `completed`, and how many `failures` count. A target that cannot start is the run's problem. `further` cases come
    after the first ones; they are waited for until they are made.
    """
    stop = stop or StopEvent()
    examiner = TargetRunner(spec, requirements, policy, stop)
    try:
        run.description = examiner.target.describe()
        judging = _Judging(examiner, run, progress)
        judging.judge(cases)
        more = further()
        if more:
            progress(total=len(cases) + len(more))
            judging.judge(more)
    except CannotStart as error:
        run.problem = "" if stop.is_set else str(error)
    finally:
        run.answered, run.waited = examiner.target.has_answered, examiner.waited
        examiner.target.close()


class _Judging:
    """The judging of one target, part after part."""

    def __init__(self, examiner: TargetRunner, run: TargetRun, progress: Callable[..., object]) -> None:
        self._examiner, self._run, self._progress = examiner, run, progress
        self._completed = self._failures = 0

    def judge(self, cases: Sequence[Case]) -> None:
        """Judge further cases, into the run, after claims that prove false. Raises CannotStart."""
        if not cases:
            return
        for false in self._examiner.disprove_claims(cases):
            self._run.add(false)
        for result in self._examiner.results(cases):
            self._run.add(result)
            self._failures += result.is_unexpected
            if self._completed % _PROGRESS == 0:
                self._progress(completed=self._completed, failures=self._failures)
            self._completed += 1


def judge_and_shrink(
    spec: TargetSpec,
    run: TargetRun,
    cases: Sequence[Case],
    further: Further,
    catalog: Catalog,
    policy: FailurePolicy,
    wanted: Wanted,
    progress: Callable[..., object],
    stop: StopEvent,
) -> None:
    """Judge a target and shrink the wanted failures, into the run; a defect of the suite is noted there, and raised."""
    try:
        judge_target(spec, run, cases, catalog.requirements, policy, stop=stop, progress=progress, further=further)
        progress(description=f"{spec.name}: shrinking", completed=len(run.results))
        run.shrunk += shrink_all(spec, run, catalog, policy, stop, wanted)
    except Exception as error:
        run.problem = f"stopped by a defect of the suite: {type(error).__name__}"
        raise
