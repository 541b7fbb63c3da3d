"""Which failures count: from which level on, by which bases, whether disputed ones do, and which are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from conformance.cases.charging import WRITING_OPS, basis_of, of_writer
from conformance.cases.model import Case, Outcome, Verdict
from conformance.cases.vector_files import Requirement
from conformance.running.keeping import kept, kept_verdict
from conformance.running.known_failures import Known
from conformance.running.results import Result

_COUNTED_LEVELS = {"must": ("must",), "should": ("must", "should")}


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What --fail-on, --strict, --known-failures and --basis say."""

    fail_on: str = "must"
    """The lowest level that counts: must or should."""
    strict: bool = False
    """Whether disputed failures count too."""
    known: tuple[Known, ...] = ()
    bases: tuple[str, ...] = ()
    """The bases that failures count by; none: all."""

    def counts(self, level: str, basis: str, *, disputed: bool) -> bool:
        """Whether a failure at this level and by this basis counts, known or not."""
        if self.bases and basis not in self.bases:
            return False
        return level in _COUNTED_LEVELS[self.fail_on] and (self.strict or not disputed)

    def result(
        self,
        target: str,
        case: Case,
        outcome: Outcome,
        verdict: Verdict,
        requirements: Mapping[str, Requirement],
        *,
        name: str = "",
    ) -> Result:
        """The result of a verdict: its level and basis, and whether it is disputed, counts and is known.

        `name` is what the target calls itself. What was written wrongly is charged to a row that binds writers.
        """
        level, disputed = verdict.level or case.level, case.disputed
        row = requirements.get(case.requirement)
        if verdict.requirement in requirements:
            row = requirements[verdict.requirement]
            if case.op in (*WRITING_OPS, "convert"):
                row = of_writer(verdict.requirement, case.wire, requirements)
            level, disputed = verdict.level or row.level, row.disputed(case.op)
            verdict = replace(verdict, requirement=row.id)
        basis = basis_of(row, case) if row is not None else ""
        held, verdict = kept(case, outcome, verdict), kept_verdict(verdict)
        result = Result(target, case, held, verdict, level, basis, disputed=verdict.kind in disputed, name=name)
        if not result.failed:
            return result
        known = any(entry.excuses(result) for entry in self.known)
        return replace(result, counts=self.counts(level, basis, disputed=result.disputed), known=known)
