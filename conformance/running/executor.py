"""Judges one target on the cases of a run, into the record of that target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.cases.model import Case
from conformance.cases.vector_files import Requirement
from conformance.running.examiner import Examiner
from conformance.running.policy import FailurePolicy
from conformance.running.results import TargetRun
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
    progress: Callable[..., object] = lambda **_: None,
) -> None:
    """Judge a target; whatever comes of it is in `run` at once, so that an interrupt loses nothing.

    `progress` is told now and then how many cases are `completed`, and how many `failures` count. A target that cannot
    start is the run's problem.
    """
    examiner = Examiner(spec, requirements, policy)
    try:
        run.description = examiner.target.describe()
        run.results += examiner.disprove_claims(cases)
        failures = 0
        for count, result in enumerate(examiner.results(cases)):
            run.results.append(result)
            failures += result.is_unexpected
            if count % _PROGRESS == 0:
                progress(completed=count, failures=failures)
    except CannotStart as error:
        run.problem = str(error)
    finally:
        run.answered, run.waited = examiner.target.has_answered, examiner.waited
        examiner.target.close()
