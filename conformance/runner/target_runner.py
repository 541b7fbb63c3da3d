"""Sends cases to one target, and judges their outcomes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from conformance.cases.model import (
    PASSED,
    Accepted,
    Case,
    CaseSummary,
    Outcome,
    Rejected,
    Verdict,
    VerdictKind,
)
from conformance.cases.requirement import Requirement
from conformance.cases.stored_cases import passes
from conformance.errors import CannotStart
from conformance.judging.judge import judge, more_serious
from conformance.runner.parallel import StopEvent
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import (
    ANSWER_BUDGET_BYTES,
    MAX_ANSWER_BYTES,
    MAX_ANSWER_BYTES_WHEN_FULL,
    Result,
    StoredAnswer,
)
from conformance.targets.claims import Claims
from conformance.targets.large_answers import decompressed
from conformance.targets.probes import Claim, claim_key, probe_verdict, probes_for
from conformance.targets.target import TargetSpec


class TargetRunner:
    """Runs one target on cases. The caller must close the `target`."""

    def __init__(
        self,
        spec: TargetSpec,
        requirements: Mapping[str, Requirement],
        policy: FailurePolicy,
        stop: StopEvent | None = None,
        disproved: Iterable[Claim] = (),
    ) -> None:
        """Prepare the run without starting the target. `stop` ends the target; `disproved` are false claims."""
        self._name, self._requirements, self._policy = spec.name, requirements, policy
        self._stop = stop or StopEvent()
        self._disproved = disproved
        self.target = spec.open()
        self._stop.add(self.target.stop)
        self.has_answered = False
        """True if the target has accepted or rejected anything."""
        self.waited: defaultdict[str, float] = defaultdict(float)
        """Seconds of waiting for answers, by the type of the cases; many requests are in flight at once."""
        self._probed: set[Claim] = set()
        self._answer_bytes = 0
        """The size of the answers that the results contain, in bytes."""

    @cached_property
    def claims(self) -> Claims:
        """The claims of the target. It is started to describe itself. Raises CannotStart."""
        return Claims(self.target.describe(), self._disproved)

    def disprove_claims(self, cases: Sequence[CaseSummary]) -> list[Result]:
        """Probe each claim of the cases once, and return a result for each false claim. Raises CannotStart."""
        probes = [probe for probe in probes_for(self.claims.description, cases) if claim_key(probe) not in self._probed]
        self._probed |= {claim_key(probe) for probe in probes}
        disproved = []
        for probe, outcome in zip(probes, self.target.ask(probes, self.claims.request_for), strict=True):
            self.has_answered |= isinstance(outcome, Accepted | Rejected)
            verdict = probe_verdict(probe, outcome)
            if verdict.kind is VerdictKind.PROTOCOL:
                self.claims.disproved.add(claim_key(probe))
                disproved.append(self._result(probe, outcome, verdict, probe))
        return disproved

    def results(self, cases: Sequence[CaseSummary], *, forget_faults: bool = False) -> Iterator[Result]:
        """Yield the results of cases, in their order; unclaimed ones are skipped. Raises CannotStart.

        With `forget_faults`, faults of earlier cases do not count when the target is given up.
        """
        reasons = [self.claims.why_not(case) for case in cases]
        claimed = [case for case, reason in zip(cases, reasons, strict=True) if not reason]
        outcomes = self.target.ask(claimed, self.claims.request_for, forget_faults=forget_faults)
        for case, reason in zip(cases, reasons, strict=True):
            if reason:
                yield self._plain(case, Verdict(VerdictKind.SKIP, reason))
            else:
                since = time.monotonic()
                # A local variable would keep a large outcome in memory until the next one.
                yield self._judge(case, self._recorded(case, next(outcomes), since))

    def _recorded(self, case: CaseSummary, outcome: Outcome, since: float) -> Outcome:
        if self._stop.is_set:
            raise CannotStart("stopped")
        self.waited[case.type] += time.monotonic() - since
        self.has_answered |= isinstance(outcome, Accepted | Rejected)
        return outcome

    def _judge(self, summary: CaseSummary, stored: Outcome) -> Result:
        with decompressed(stored) as outcome:
            if passes(summary, outcome):
                return self._plain(summary, PASSED)
            case = summary.to_case()
            # An answer that exceeded a limit may also be wrong: the more serious fault counts.
            with decompressed(more_serious(case, outcome)) as serious:
                return self._result(case, serious, judge(case, serious), summary)

    def _plain(self, summary: CaseSummary, verdict: Verdict) -> Result:
        """Return the result of a case that was skipped or passed in full. It does not need the whole case."""
        name = self.claims.description.name
        return self._policy.plain(self._name, summary, verdict, self._requirements, name=name)

    def _result(self, case: Case, outcome: Outcome, verdict: Verdict, summary: CaseSummary) -> Result:
        is_full = self._answer_bytes >= ANSWER_BUDGET_BYTES
        result = self._policy.result(
            self._name,
            case,
            outcome,
            verdict,
            self._requirements,
            name=self.claims.description.name,
            summary=summary,
            via=self.claims.entry_point(case),
            max_bytes=MAX_ANSWER_BYTES_WHEN_FULL if is_full else MAX_ANSWER_BYTES,
        )
        if isinstance(result.outcome, StoredAnswer):
            self._answer_bytes += len(result.outcome.json)
        return result
