"""A violation for every requirement: a lie that breaks its statement and nothing else, which its own cases catch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.cases.model import Answer, Case, NoAnswer, Outcome, VerdictKind
from conformance.judging.judge import judge
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_faults.append import APPENDS
from conformance.selftest.requirement_faults.batches import BATCHES
from conformance.selftest.requirement_faults.broker_scenario import SCENARIOS
from conformance.selftest.requirement_faults.client_requests import REQUESTS
from conformance.selftest.requirement_faults.logs import LOGS
from conformance.selftest.requirement_faults.message_sets import MESSAGE_SETS
from conformance.selftest.requirement_faults.messages import MESSAGES
from conformance.selftest.requirement_faults.primitives import PRIMITIVES
from conformance.selftest.requirement_faults.raw_requests import EXCHANGES
from conformance.targets.protocol import outcome
from conformance.targets.reference import answer as honest

TABLES: dict[str, dict[str, Mutator]] = {
    "primitives": PRIMITIVES,
    "record batches": BATCHES,
    "logs": LOGS,
    "message sets": MESSAGE_SETS,
    "messages": MESSAGES,
    "requests": REQUESTS,
    "appends": APPENDS,
    "exchanges": EXCHANGES,
    "scenarios": SCENARIOS,
}
"""The violations by what their requirements are about."""

VIOLATIONS: dict[str, Mutator] = {name: lie for table in TABLES.values() for name, lie in table.items()}
"""By the id of the requirement. A register row with cases has one, or is in UNTESTED_REQUIREMENTS."""

UNTESTED_REQUIREMENTS = {
    "header.key-no-nul": "every writer passes on the key that an application gives it, Apache Kafka's among them: "
    "the cases show what readers make of one",
}
"""Requirements with cases that no violation shows to bite, and why."""


def run_fault(lie: Mutator, case: Case) -> Outcome:
    """What a liar does when a case is put to it."""
    return outcome_of(lie(case.request, honest(case.request)))


def outcome_of(answer: Answer) -> Outcome:
    """An answer of a liar as what it did."""
    return NoAnswer("memory", "took memory without end") if "hoards" in answer else outcome(answer)


def catching_cases(lie: Mutator, requirement: str, level: str, cases: Iterable[Case]) -> Iterator[str]:
    """The ids of those of a requirement's own cases that fail a liar.

    What a reader shows wrong counts only where it is charged to this requirement, at its level.
    """
    for case in cases:
        verdict = judge(case, run_fault(lie, case))
        charged = case.op != "decode" or verdict.requirement in ("", requirement)
        due = verdict.level in ("", level)
        if verdict.kind is VerdictKind.CRASH or (verdict.kind is VerdictKind.FAIL and charged and due):
            yield case.id
