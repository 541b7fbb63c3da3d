"""The conversion of results to rows of a campaign's tables, and of rows back to results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from conformance.cases.attribution import basis_of
from conformance.cases.model import Accepted, Case, NoAnswer, Outcome, Rejected, Verdict, VerdictKind
from conformance.catalog.catalog import Catalog
from conformance.pipeline.campaign.slices import Campaign
from conformance.reports.explain import actual_json, expected_json
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import Result, failure_cause, load_outcome
from conformance.strategies.seeded.cases import case_of


class CountKey(NamedTuple):
    """The columns by which results are counted."""

    target: str
    type: str
    op: str
    requirement: str
    level: str
    disputed: bool
    mutation: str
    verdict: str


Row: TypeAlias = dict[str, Any]
"""A row of a table, by column; `tables` defines the columns."""

_KEPT_WHOLE = (VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT, VerdictKind.PROTOCOL)


class SliceRows:
    """The rows of one slice."""

    def __init__(self, number: int) -> None:
        """Create the empty rows of slice `number`."""
        self._number = number
        self._counts: Counter[tuple[CountKey, bool]] = Counter()
        self.failures: list[Row] = []

    def add(self, result: Result) -> None:
        """Count a result, and store a failure completely."""
        keys = _keys(result)
        self._counts[keys, bool(result.verdict.unobserved)] += 1
        if result.verdict.kind in _KEPT_WHOLE:
            self.failures.append(_failure_row(self._number, keys, result))

    def counts(self) -> list[Row]:
        """Return the counts, sorted."""
        return [
            {**keys._asdict(), "unobserved": unobserved, "count": count}
            for (keys, unobserved), count in sorted(self._counts.items())
        ]


def _keys(result: Result) -> CountKey:
    case = result.case
    key = (result.target, case.type, case.op, result.requirement, result.level)
    return CountKey(*key, result.disputed, case.mutation, str(result.verdict.kind))


def _failure_row(number: int, keys: CountKey, result: Result) -> Row:
    case, verdict = result.case, result.verdict
    return {
        "slice": number,
        "id": case.id,
        **keys._asdict(),
        "field": verdict.path,
        "cause": result.cause.text,
        "flaky": verdict.flaky,
        "detail": verdict.detail,
        "size": len(case.data or b""),
        "hex": None if case.data is None else case.data.hex(),
        "request": _json(case.request),
        "expected": _json(expected_json(case)),
        "actual": _json(actual_json(result)),
    }


def _json(value: object) -> str:
    # Escaped: a request may contain a lone surrogate, which has no UTF-8 form.
    return json.dumps(value, separators=(",", ":"))


# --- back from rows -----------------------------------------------------------------------------------


class ResultRebuilder(Struct, frozen=True):
    """The conversion of rows of failures back to results."""

    campaign: Campaign
    catalog: Catalog
    policy: FailurePolicy

    def results(self, rows: Iterable[Row]) -> list[Result]:
        """Return the results of the rows."""
        return [self._result(row) for row in rows]

    def _result(self, row: Row) -> Result:
        verdict = Verdict(
            VerdictKind(row["verdict"]),
            row["detail"],
            row["field"],
            row["requirement"],
            row["level"],
            flaky=row["flaky"],
        )
        requirement, case = self.catalog.requirements.get(row["requirement"]), self._case(row["id"])
        basis, outcome = basis_of(requirement, case) if requirement is not None else "", _outcome(row)
        held = load_outcome(outcome.answer) if isinstance(outcome, Accepted) else outcome
        cause = failure_cause(case, outcome, verdict)
        result = Result(row["target"], case, held, verdict, row["level"], basis, cause=cause, python=self.policy.python)
        counts = result.failed and self.policy.counts(row["level"], basis, disputed=row["disputed"])
        return replace(result, disputed=row["disputed"], counts=counts)

    def _case(self, identity: str) -> Case:
        of_corpus = (case for case in self.campaign.corpus if case.id == identity)
        return next(of_corpus, None) or case_of(identity, self.catalog)[0]


_BROKEN = {"crash", "timeout", "protocol", "memory", "slow"}


def _outcome(row: Row) -> Outcome:
    """Return the outcome in a row."""
    actual = msgspec.json.decode(row["actual"])
    if len(actual) == 1 and set(actual) <= _BROKEN:
        how, detail = actual.popitem()
        return NoAnswer(how, detail, row["flaky"])
    if set(actual) == {"error", "message"}:
        return Rejected(actual["error"], actual["message"])
    return Accepted(actual)
