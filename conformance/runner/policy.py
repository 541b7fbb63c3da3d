"""The rules for failures that count: their level and basis, known deviations of Apache Kafka, and known failures."""

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
    """The options --fail-on, --strict, --known-failures and --basis, and --python for commands that rerun a failure."""

    fail_on: str = "must"
    """The lowest level that counts: must or should."""
    strict: bool = False
    """If True, known deviations of Apache Kafka (disputed failures) count too."""
    known: tuple[KnownFailure, ...] = ()
    bases: tuple[str, ...] = ()
    """The bases on which failures count; empty: all."""
    python: str = ""

    def counts(self, level: str, basis: str, *, disputed: bool) -> bool:
        """Return whether a failure of this level and basis counts, known or not."""
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
        """Return the result of a case that was skipped or passed in full. The stored case is not deserialized."""
        requirement = requirements.get(summary.requirement)
        basis = basis_of(requirement, summary) if requirement is not None else ""
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
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Result:
        """Return the result of a verdict, with its level, its basis, and the marks counted, disputed and known.

        `name` is the name in the target's description. `summary` replaces the case, to save memory, and `most` limits
        the bytes of the answer. The result has `via` only if the case did not pass.
        """
        verdict, requirement, level, disputed = attribute(case, verdict, requirements)
        basis = basis_of(requirement, case) if requirement is not None else ""
        is_disputed = verdict.kind in disputed
        result = Result(
            target,
            summary or case,
            store_outcome(outcome, verdict, max_bytes),
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
