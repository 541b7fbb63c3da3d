"""The smallest case behind each distinct failure among the generated ones, found by asking the target again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conformance.cases import Case
from conformance.catalog import Catalog
from conformance.codec.notation import NotationError
from conformance.judging import judge
from conformance.own_cases import ad_hoc_case, parts_of
from conformance.results import Result, Shrunk, TargetRun
from conformance.run import Asker, Plan, asker_for, result_of
from conformance.strategies.shrink import Budget, shrink_bytes, shrink_value
from conformance.targets.process import Launch
from conformance.targets.session import CannotStart

DISTINCT = 60
"""Distinct failures that are shown for one target."""

PATIENCE = 15.0
"""Seconds of shrinking for one target in all; what is left then stands as it was found. A target that dies of every
question costs a start for each."""


def signature(result: Result) -> tuple[str, ...]:
    """What makes two failures the same: type, operation, requirement, and what went wrong."""
    return (result.case.type, result.case.op, result.requirement, str(result.verdict.kind))


def distinct(results: Sequence[Result]) -> dict[tuple[str, ...], list[Result]]:
    """Failing generated results by signature, in order."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        if result.case.kind == "generated" and result.failed and not result.known:
            groups.setdefault(signature(result), []).append(result)
    return groups


def shrink_all(record: TargetRun, launch: Launch | None, catalog: Catalog, plan: Plan) -> Iterator[Shrunk]:
    """Shrink the smallest failure of each kind; the target is started anew for it."""
    groups = list(distinct(record.results).values())[:DISTINCT]
    if not groups or record.problem:
        return
    asker = asker_for(launch, plan)
    try:
        asker.describe()
        until = time.monotonic() + PATIENCE
        for group in groups:
            if time.monotonic() < until:
                yield _shrunk(record, group, asker, catalog=catalog, plan=plan)
            else:
                smallest = _smallest(group)
                yield Shrunk(smallest, len(group), smallest.case.id)
    except CannotStart as error:
        record.problem = str(error)
    finally:
        asker.close()


def _shrunk(record: TargetRun, group: list[Result], asker: Asker, *, catalog: Catalog, plan: Plan) -> Shrunk:
    """The smallest case that shows the failure of a group; its first case, marked flaky, when it does not repeat."""
    smallest = _smallest(group)
    wanted = signature(smallest)

    def judged(case: Case) -> Result:
        outcome = next(asker.ask([case]))
        return result_of(record.name, case, outcome, judge(case, outcome), catalog=catalog, plan=plan)

    case, left = smallest.case, Budget()
    for part in _SHRUNK[case.op]:

        def with_part(candidate: Any, case: Case = case, part: str = part) -> Case | None:
            return _case(case, part, candidate, catalog)

        def shows(candidate: Any, with_part: Callable[[Any], Case | None] = with_part) -> bool:
            made = with_part(candidate)
            return made is not None and signature(judged(made)) == wanted

        start = case.data if part == "hex" else case.request[part]
        if not shows(start):
            return Shrunk(smallest, len(group), smallest.case.id, flaky=True)
        shrink: Callable[..., Any] = shrink_bytes if part == "hex" else shrink_value
        found = with_part(shrink(case.type, start, shows, left))
        assert found is not None
        case = found
    return Shrunk(judged(case), len(group), smallest.case.id)


_SHRUNK = {
    "decode": ("hex",),
    "encode": ("value",),
    "read": ("hex", "aborted"),
    "convert": ("hex",),
    "sequence": ("batches",),
}
"""The parts of a request that are made smaller, by operation."""


def _smallest(group: list[Result]) -> Result:
    return min(group, key=lambda result: len(result.case.data or b""))


def _case(case: Case, part: str, candidate: Any, catalog: Catalog) -> Case | None:
    """The case with another part in its request; None for a value that is none of the type, or is never asked for."""
    given = candidate.hex() if part == "hex" else candidate
    try:
        return ad_hoc_case(case.op, case.type, {**parts_of(case), part: given}, catalog)
    except NotationError:
        return None
