"""A target held to what it claims: its claims are probed, and no case is put to it that rests on a false one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msgspec import Struct

from conformance import codec
from conformance.cases.model import Accepted, Case, Outcome, Rejected, Request, Unsupported, Verdict, VerdictKind
from conformance.cases.packed_cases import LazyCases, SerializedCase, SerializedCases, request_json
from conformance.targets.probes import Claim, claim_key, probe_verdict, probes_for, summaries
from conformance.targets.protocol import TargetDescription
from conformance.targets.target import Target

_MESSAGE = "MESSAGE<"
_DEFINITION = b'"definition":'
"""The field of a request that holds the definition of its message; no field of a message has that name."""


class CaseOutcome(Struct, frozen=True):
    """What came of a case at a target."""

    label: Case | SerializedCase
    """The case as those who asked hold it."""
    outcome: Outcome
    via: str
    """The call that is judged and whose door it is; empty where the target does not say."""

    @property
    def case(self) -> Case:
        """The case, unpacked."""
        return self.label if isinstance(self.label, Case) else self.label.deserialize()


class ClaimedTarget:
    """A target that is put only the cases it claims to answer. `close` it, however the work ended."""

    def __init__(self, target: Target) -> None:
        """Nothing is started before `describe`."""
        self._target = target
        self._description: TargetDescription | None = None
        self.disproved: set[Claim] = set()
        """Claims that do not hold; no case that rests on one is put to the target."""
        self._probed: set[Claim] = set()
        self._lacking: dict[Claim, str] = {}
        self._via: dict[Claim, str] = {}
        self._definitions: dict[str, bytes] = {}
        """How a request ends that brings the definition of its message, by type."""
        self.has_answered = False
        """Whether it has accepted or refused anything."""

    @property
    def starts(self) -> int:
        """How often a process of the target was started."""
        return self._target.starts

    def describe(self) -> TargetDescription:
        """What the target says of itself, asked once. Raises CannotStart."""
        if self._description is None:
            self._description = self._target.describe()
        return self._description

    def disprove(self, cases: Sequence[Case]) -> list[tuple[CaseOutcome, Verdict]]:
        """Probe the claims that cases rest on, each once: what came of those that disprove one. Raises CannotStart."""
        probes = [
            self.as_put(probe) for probe in probes_for(self.describe(), cases) if claim_key(probe) not in self._probed
        ]
        self._probed |= {claim_key(probe) for probe in probes}
        false = []
        for probe, outcome in zip(probes, self._target.ask(probes), strict=True):
            answer, verdict = self._answer(probe, outcome), probe_verdict(probe, outcome)
            if verdict.kind is VerdictKind.PROTOCOL:
                self.disproved.add(claim_key(probe))
                false.append((answer, verdict))
        return false

    def ask(self, cases: Sequence[Case]) -> Iterator[CaseOutcome]:
        """What comes of cases, in their order; only those that the target claims are put to it. Raises CannotStart."""
        reasons = [self._why_not(case) for case in summaries(cases)]
        claimed = [at for at, reason in enumerate(reasons) if not reason]
        if isinstance(cases, SerializedCases):
            outcomes = self._target.ask(_PreparedCases(self, cases, claimed))
        else:
            outcomes = self._target.ask([self.as_put(cases[at]) for at in claimed])
        for label, reason in zip(summaries(cases), reasons, strict=True):
            yield self._answer(label, Unsupported(reason, is_asked=False) if reason else next(outcomes))

    def forget_faults(self) -> None:
        """Start counting faults anew: only the cases still to come decide when the target is given up."""
        self._target.forget_faults()

    def stop(self) -> None:
        """End it from another thread: whoever waits for it gets CannotStart."""
        self._target.stop()

    def close(self) -> None:
        """End whatever runs of the target."""
        self._target.close()

    def as_put(self, case: Case) -> Case:
        """The case as it is put."""
        request = self.request_put(case.wire, case.request)
        return case if request is case.request else replace(case, request=request)

    def request_put(self, wire: codec.WireType, request: Request) -> Request:
        """The request as it is put; a target without messages of its own gets the definition with it."""
        if not isinstance(wire, codec.MessageType) or "definition" in request:
            return request
        if self.describe().messages is not None:
            return request
        return {**request, "definition": wire.message.source}

    def written_put(self, label: SerializedCase) -> bytes:
        """The same of a packed case, as JSON."""
        asked = label.request_json
        if not label.type.startswith(_MESSAGE) or _DEFINITION in asked or self.describe().messages is not None:
            return asked
        if label.type not in self._definitions:
            wire = label.whole_wire
            assert isinstance(wire, codec.MessageType)
            self._definitions[label.type] = b"," + _DEFINITION + request_json({**wire.message.source}) + b"}"
        return asked[:-1] + self._definitions[label.type]

    def _why_not(self, case: Case | SerializedCase) -> str:
        """Why a case is not put to the target; empty when it is."""
        if self.disproved and claim_key(case) in self.disproved:
            return f"the claim to {case.op} {case.type} was disproved at the start"
        kind = case.op, case.type
        if kind not in self._lacking:
            self._lacking[kind] = self.describe().lacks_type(case)
        return self._lacking[kind] or self.describe().lacks_content(case)

    def _answer(self, label: Case | SerializedCase, outcome: Outcome) -> CaseOutcome:
        self.has_answered |= isinstance(outcome, Accepted | Rejected)
        kind = label.op, label.type
        if kind not in self._via:
            self._via[kind] = str(self.describe().entry_point(*kind) or "")
        return CaseOutcome(label, outcome, self._via[kind])


class _PreparedCases(LazyCases):
    """Some of many cases, as they are put to a target."""

    def __init__(self, target: ClaimedTarget, cases: SerializedCases, indexes: Sequence[int]) -> None:
        self._target, self._cases, self._indexes = target, cases, indexes

    def case_at(self, index: int) -> Case:
        return self._target.as_put(self._cases[self._indexes[index]])

    def label_at(self, index: int) -> SerializedCase:
        return self._cases.serialized[self._indexes[index]]

    def written_at(self, index: int) -> bytes:
        return self._target.written_put(self._cases.serialized[self._indexes[index]])

    def __len__(self) -> int:
        return len(self._indexes)
