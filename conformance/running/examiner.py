"""Puts cases to one target, and judges what it makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from conformance import codec
from conformance.cases.model import Case, Kind, Outcome, Unsupported, Verdict
from conformance.cases.vector_files import Requirement
from conformance.judging.judge import judge
from conformance.running.policy import FailurePolicy
from conformance.running.probes import Claim, claim_of, claim_verdict, probes_for
from conformance.running.results import Result, with_door
from conformance.targets.protocol import Description
from conformance.targets.target import TargetSpec


class Examiner:
    """Puts cases to one target and judges what it makes of them. `close` it, however the work ended."""

    def __init__(self, spec: TargetSpec, requirements: Mapping[str, Requirement], policy: FailurePolicy) -> None:
        """Nothing is started before `describe`."""
        self._name, self._requirements, self._policy = spec.name, requirements, policy
        self._target = spec.open()
        self._description: Description | None = None
        self.disproved: set[Claim] = set()
        """Claims that do not hold; no case that rests on one is put to the target."""

    def describe(self) -> Description:
        """What the target says of itself, asked once. Raises CannotStart."""
        if self._description is None:
            self._description = self._target.describe()
        return self._description

    def disprove_claims(self, cases: Sequence[Case]) -> list[Result]:
        """Probe the claims that cases rest on: a result for each claim that does not hold. Raises CannotStart."""
        probes = [self._with_definition(probe) for probe in probes_for(self.describe(), cases)]
        results = []
        for probe, outcome in zip(probes, self._target.ask(probes), strict=True):
            verdict = claim_verdict(probe, outcome)
            if verdict.kind is Kind.PROTOCOL:
                self.disproved.add(claim_of(probe))
                results.append(self._result(probe, outcome, verdict))
        return results

    def results(self, cases: Sequence[Case]) -> Iterator[Result]:
        """The results of cases, in their order; only what the target claims is put to it. Raises CannotStart."""
        description = self.describe()
        cases = [self._with_definition(case) for case in cases]
        reasons = [self._why_not_asked(description, case) for case in cases]
        outcomes = self._target.ask([case for case, reason in zip(cases, reasons, strict=True) if not reason])
        for case, reason in zip(cases, reasons, strict=True):
            outcome = Unsupported(reason) if reason else next(outcomes)
            verdict = Verdict(Kind.SKIP, reason) if reason else judge(case, outcome)
            yield self._result(case, outcome, verdict)

    def forget_faults(self) -> None:
        """Start counting faults anew: only the cases still to come decide when the target is given up."""
        self._target.forget_faults()

    def close(self) -> None:
        """End whatever runs of the target."""
        self._target.close()

    def _with_definition(self, case: Case) -> Case:
        """The case as it is put; a target without messages of its own gets the definition with the request."""
        wire = case.wire
        if not isinstance(wire, codec.MessageWire) or "definition" in case.request:
            return case
        if self.describe().messages is not None:
            return case
        return replace(case, request={**case.request, "definition": wire.message.source})

    def _why_not_asked(self, description: Description, case: Case) -> str:
        """Why a case is not put to the target; empty when it is."""
        if claim_of(case) in self.disproved:
            return f"the claim to {case.op} {case.type} was disproved at the start"
        return description.lacks(case)

    def _result(self, case: Case, outcome: Outcome, verdict: Verdict) -> Result:
        result = self._policy.result(self._name, case, outcome, verdict, self._requirements)
        return result if verdict.kind in (Kind.PASS, Kind.SKIP) else with_door(result, self.describe())
