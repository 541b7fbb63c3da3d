"""Which failures count: from which level on, by which bases, whether disputed ones do, and which are known."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from conformance.cases.attribution import attribute, basis_of
from conformance.cases.model import FAILURES, Case, CaseSummary, Outcome, Verdict, VerdictKind
from conformance.cases.operations import BROKER_OPS
from conformance.cases.requirement import Requirement
from conformance.judging.raw_requests import codes_of
from conformance.runner.known_failures import KnownFailure
from conformance.runner.results import (
    MAX_ANSWER_BYTES,
    NO_ANSWER,
    Result,
    failure_cause,
    plain_cause,
    store_outcome,
    store_verdict,
)

_COUNTED_LEVELS = {"must": ("must",), "should": ("must", "should")}


class FailurePolicy(Struct, frozen=True):
    """What --fail-on, --strict, --known-failures and --basis say, and --python for who tries a failure again."""

    fail_on: str = "must"
    """The lowest level that counts: must or should."""
    strict: bool = False
    """Whether disputed failures count too."""
    known: tuple[KnownFailure, ...] = ()
    bases: tuple[str, ...] = ()
    """The bases that failures count by; none: all."""
    python: str = ""

    def counts(self, level: str, basis: str, *, disputed: bool) -> bool:
        """Whether a failure at this level and by this basis counts, known or not."""
        if self.bases and basis not in self.bases:
            return False
        return level in _COUNTED_LEVELS[self.fail_on] and (self.strict or not disputed)

    def plain(
        self,
        target: str,
        summary: CaseSummary,
        verdict: Verdict,
        requirements: Mapping[str, Requirement],
        name: str,
    ) -> Result:
        """The result of a case that was not put to the target, or passed in full; it is not unpacked for that."""
        row = requirements.get(summary.requirement)
        basis = basis_of(row, summary) if row is not None else ""
        cause = plain_cause(verdict.kind, summary.requirement)
        return Result(target, summary, NO_ANSWER, verdict, summary.level, basis, cause=cause, name=name)

    def result(
        self,
        target: str,
        case: Case,
        outcome: Outcome,
        verdict: Verdict,
        requirements: Mapping[str, Requirement],
        *,
        name: str = "",
        summary: CaseSummary | None = None,
        via: str = "",
        most: int = MAX_ANSWER_BYTES,
    ) -> Result:
        """The result of a verdict: its level and basis, and whether it is disputed, counts and is known.

        `name` is the name that the target gives itself. The result has `via` only if the case did not pass. It has
        `summary` in place of the case, where that takes less memory, and at most `most` bytes of an answer.
        """
        verdict, row, level, disputed = attribute(case, verdict, requirements)
        basis = basis_of(row, case) if row is not None else ""
        is_disputed = verdict.kind in disputed
        result = Result(
            target,
            summary or case,
            store_outcome(outcome, verdict, most),
            store_verdict(verdict),
            level,
            basis,
            counts=verdict.kind in FAILURES and self.counts(level, basis, disputed=is_disputed),
            disputed=is_disputed,
            via="" if verdict.kind in (VerdictKind.PASS, VerdictKind.SKIP) else via,
            cause=failure_cause(case, outcome, verdict),
            name=name,
            python=self.python,
            codes=codes_of(case, outcome) if case.op in BROKER_OPS else "",
        )
        known = result.failed and any(entry.excuses(result) for entry in self.known)
        return replace(result, known=True) if known else result
