"""Finds the smallest failing case of each cause among the generated failures, with further requests to the target."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from conformance.cases.model import LEVELS, Case, CaseOrigin, NoAnswer
from conformance.cases.operations import OPERATIONS, parts_of
from conformance.catalog.case_builder import ad_hoc_case
from conformance.catalog.catalog import Catalog
from conformance.codec.json_notation import NotationError
from conformance.errors import CannotStart
from conformance.judging.failure_causes import FailureCause
from conformance.runner.parallel import StopEvent
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import Result, ShrunkFailure, TargetRun
from conformance.runner.target_runner import TargetRunner
from conformance.strategies.seeded.shrinking import ShrinkBudget, shrink_bytes, shrink_value
from conformance.targets.target import TargetSpec

MAX_SHRUNK_CAUSES = 60
"""The maximum number of causes of one target whose failures are shrunk."""

MAX_REQUESTS = 4000
"""The maximum number of requests for all failures of one target. Later failures are reported without shrinking."""

_START_COST, _TIMEOUT_COST = 10, 100
"""The cost of a request that restarts the target, and of one that times out, in plain requests."""


class FailureKey(Struct, frozen=True):
    """The key of failures that are alike: one of them is shrunk for all."""

    cause: FailureCause
    disputed: bool


Wanted: TypeAlias = Callable[[TargetRun], Container[FailureKey]]
"""Selects the failures whose size matters, because a report shows them."""


def failure_key(result: Result) -> FailureKey:
    """Return the key of a failure."""
    return FailureKey(result.cause, result.disputed)


def failures_by_key(results: Sequence[Result]) -> dict[FailureKey, list[Result]]:
    """Return the failures that can be shrunk and are not known, by key, in the order of the run."""
    groups: dict[FailureKey, list[Result]] = {}
    for result in results:
        if result.summary.is_shrinkable and result.failed and not result.known:
            groups.setdefault(failure_key(result), []).append(result)
    return groups


def shrink_all(
    spec: TargetSpec,
    record: TargetRun,
    catalog: Catalog,
    policy: FailurePolicy,
    stop: StopEvent | None = None,
    wanted: Wanted | None = None,
) -> Iterator[ShrunkFailure]:
    """Shrink the wanted failures of a run (default: all) in a new process. `record` gets the problem if none starts."""
    stop = stop or StopEvent()
    if record.problem or stop.is_set or not failures_by_key(record.results):
        return
    chosen = None if wanted is None else wanted(record)
    results = [
        result for result in record.results if chosen is None or (result.failed and failure_key(result) in chosen)
    ]
    if not failures_by_key(results):
        return
    runner = TargetRunner(spec, catalog.requirements, policy, stop)
    try:
        yield from shrink(results, runner, catalog)
    except CannotStart as error:
        record.problem = "" if stop.is_set else str(error)
    finally:
        runner.target.close()


def shrink(
    results: Sequence[Result], runner: TargetRunner, catalog: Catalog, run_budget: ShrinkBudget | None = None
) -> Iterator[ShrunkFailure]:
    """Shrink one failure of each cause, with one budget for all (default: MAX_REQUESTS). Raises CannotStart."""
    run_budget = run_budget or ShrinkBudget(MAX_REQUESTS)
    for group in list(failures_by_key(results).values())[:MAX_SHRUNK_CAUSES]:
        smallest = _smallest(group)
        why_not = _why_not(smallest, run_budget)
        if why_not:
            yield ShrunkFailure(smallest, len(group), smallest.summary.id, why_not=why_not)
        else:
            yield shrink_one(smallest, len(group), runner, catalog, run_budget)


def _why_not(smallest: Result, run_budget: ShrinkBudget) -> str:
    """Return the reason why a failure is not shrunk; empty if it is."""
    if isinstance(smallest.outcome, NoAnswer) and smallest.outcome.how in ("timeout", "memory", "slow"):
        return "each request would take seconds"
    return "the requests for shrinking were used up by other causes" if run_budget.is_spent else ""


def shrink_one(
    smallest: Result, count: int, runner: TargetRunner, catalog: Catalog, run_budget: ShrinkBudget | None = None
) -> ShrunkFailure:
    """Return the smallest case that fails like `smallest`, at its level. It represents `count` failures of one cause.

    If `smallest` does not fail again, it is returned with the mark flaky. Raises CannotStart.
    """
    is_sound = not smallest.summary.refused_by

    def fails_alike(repeated: Result) -> bool:
        # All crashes have one cause. A crash on invalid bytes is less serious than one on valid bytes, so it cannot
        # replace it.
        serious = LEVELS.index(repeated.level) <= LEVELS.index(smallest.level)
        is_as_bad = serious and is_sound == (not repeated.summary.refused_by)
        return repeated.failed and is_as_bad and failure_key(repeated) == failure_key(smallest)

    case, budget = smallest.case, ShrinkBudget(within=run_budget)
    for part in (part.name for part in OPERATIONS[case.op].parts if part.is_shrunk):

        def with_part(candidate: object, case: Case = case, part: str = part) -> Case | None:
            return _with_part(case, part, candidate, catalog)

        def fails(candidate: object, with_part: Callable[[object], Case | None] = with_part) -> bool:
            changed = with_part(candidate)
            return changed is not None and fails_alike(_run_charged(changed, runner, budget))

        original: object = case.data if part == "hex" else case.request[part]
        if case is smallest.case and not fails(original):
            return ShrunkFailure(smallest, count, smallest.case.id, flaky=True)
        shrunk = _smaller(case, original, fails, budget)
        case = with_part(shrunk) or case
    return ShrunkFailure(_run(case, runner), count, smallest.case.id)


def _smaller(case: Case, original: object, fails: Callable[[object], bool], budget: ShrinkBudget) -> object:
    """Return the smallest bytes, or the smallest value in notation, for which `fails` is true."""
    if isinstance(original, bytes):
        return shrink_bytes(case.wire, original, fails, budget)
    return shrink_value(original, fails, budget)


def _run_charged(case: Case, runner: TargetRunner, budget: ShrinkBudget) -> Result:
    """Run a case, and charge its cost to the budget."""
    before = runner.target.starts
    result = _run(case, runner)
    timed_out = isinstance(result.outcome, NoAnswer) and result.outcome.how == "timeout"
    budget.charge(_START_COST * (runner.target.starts - before) + _TIMEOUT_COST * timed_out)
    return result


def _run(case: Case, runner: TargetRunner) -> Result:
    return next(runner.results([case]))


def _smallest(group: list[Result]) -> Result:
    return min(group, key=lambda result: (LEVELS.index(result.level), result.summary.size))


def _with_part(case: Case, part: str, candidate: object, catalog: Catalog) -> Case | None:
    """Return the case with another part in its request; None if the part has no valid notation or is not testable."""
    written = candidate.hex() if isinstance(candidate, bytes) else candidate
    try:
        return ad_hoc_case(case.op, case.wire, {**parts_of(case), part: written}, catalog, kind=CaseOrigin.SHRUNK)
    except NotationError:
        return None
