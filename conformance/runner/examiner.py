"""Puts cases to one target, and judges what it makes of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext

from conformance.cases.model import PASSED, Case, Outcome, Rejected, Unsupported, Verdict, VerdictKind
from conformance.cases.packed_cases import AcceptedAsExpected, SerializedCase
from conformance.cases.requirement import Requirement
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
from conformance.targets.claims import CaseOutcome, ClaimedTarget
from conformance.targets.large_answers import CompressedAnswer
from conformance.targets.target import TargetSpec


class TargetRunner:
    """Puts cases to one target and judges what it makes of them. Close the `target`, however the work ended."""

    def __init__(
        self,
        spec: TargetSpec,
        requirements: Mapping[str, Requirement],
        policy: FailurePolicy,
        stop: StopEvent | None = None,
    ) -> None:
        """Nothing is started before the target is asked; when `stop` is told, nothing more is asked."""
        self._name, self._requirements, self._policy = spec.name, requirements, policy
        self._stop = stop or StopEvent()
        self._stop.listeners.append(self)
        self.target = ClaimedTarget(spec.open())
        if self._stop.is_set:
            self.target.stop()
        self.waited: defaultdict[str, float] = defaultdict(float)
        """Seconds that answers were waited for, by the type of the cases; many requests are under way at once."""
        self._kept = 0
        """Bytes of its answers that results hold."""

    def stop(self) -> None:
        """End the target from another thread: whoever waits for it gets CannotStart."""
        target = getattr(self, "target", None)
        if target is not None:
            target.stop()

    def disprove_claims(self, cases: Sequence[Case]) -> list[Result]:
        """Probe the claims that cases rest on: a result for each claim that does not hold. Raises CannotStart."""
        false = self.target.disprove(cases)
        name = self.target.describe().name if false else ""
        return [self._result(answer.case, answer.outcome, verdict, answer, name) for answer, verdict in false]

    def results(self, cases: Sequence[Case]) -> Iterator[Result]:
        """The results of cases, in their order; only what the target claims is put to it. Raises CannotStart."""
        name = self.target.describe().name
        since = time.monotonic()
        for answer in self.target.ask(cases):
            if self._stop.is_set:
                raise CannotStart("stopped")
            self.waited[answer.label.type] += time.monotonic() - since
            yield self._judged(answer, name)
            del answer  # it may be large, and would be held until the next one came
            since = time.monotonic()

    def _judged(self, answer: CaseOutcome, name: str) -> Result:
        label, held = answer.label, answer.outcome
        if isinstance(held, Unsupported) and not held.is_asked:
            verdict = Verdict(VerdictKind.SKIP, held.reason)
            return self._policy.plain(self._name, label, verdict, self._requirements, name=name)
        if isinstance(label, SerializedCase) and _passes(label, held):
            return self._policy.plain(self._name, label, PASSED, self._requirements, name=name)
        case = label if isinstance(label, Case) else label.deserialize()
        held = more_serious(case, held)
        with held.decompress() if isinstance(held, CompressedAnswer) else nullcontext(held) as outcome:
            return self._result(case, outcome, judge(case, outcome), answer, name)

    def _result(self, case: Case, outcome: Outcome, verdict: Verdict, answer: CaseOutcome, name: str) -> Result:
        result = self._policy.result(
            self._name,
            case,
            outcome,
            verdict,
            self._requirements,
            name=name,
            held=answer.label,
            via=answer.via,
            most=MAX_ANSWER_BYTES if self._kept < ANSWER_BUDGET_BYTES else MAX_ANSWER_BYTES_WHEN_FULL,
        )
        if isinstance(result.outcome, StoredAnswer):
            self._kept += len(result.outcome.json)
        return result


def _passes(label: SerializedCase, outcome: Outcome) -> bool:
    """Whether it shows without the case that `judge` would pass the outcome in full."""
    match outcome:
        case AcceptedAsExpected():
            return True
        case Rejected(error):
            return label.expected_rejection is not None and label.expected_rejection in ("", error)
    return False
