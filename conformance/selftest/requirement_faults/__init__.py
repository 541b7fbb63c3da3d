"""One fault for each requirement: a mutator that breaks the requirement and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.cases.model import Answer, Case, NoAnswer, Outcome, VerdictKind
from conformance.judging.judge import judge
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_faults.batches import BATCHES
from conformance.selftest.requirement_faults.brokers import APPENDS, EXCHANGES, SCENARIOS
from conformance.selftest.requirement_faults.client_requests import REQUESTS
from conformance.selftest.requirement_faults.logs import LOGS, MESSAGE_SETS
from conformance.selftest.requirement_faults.messages import MESSAGES
from conformance.selftest.requirement_faults.primitives import PRIMITIVES
from conformance.targets.protocol import outcome
from conformance.targets.reference import answer as correct_answer

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
"""The faults by area."""

REQUIREMENT_FAULTS: dict[str, Mutator] = {name: mutate for table in TABLES.values() for name, mutate in table.items()}
"""The fault of each requirement. A requirement with cases is here or in UNTESTED_REQUIREMENTS."""

UNTESTED_REQUIREMENTS = {
    "header.key-no-nul": "every writer passes on the key that an application gives it, Apache Kafka's among them: "
    "the cases show what readers make of one",
}
"""Requirements with cases but without a fault, each with the reason."""


def run_fault(mutate: Mutator, case: Case) -> Outcome:
    """Return the outcome of a case for a target with a fault."""
    return outcome_of(mutate(case.request, correct_answer(case.request)))


def outcome_of(answer: Answer) -> Outcome:
    """Return the outcome of a mutated answer."""
    return NoAnswer("memory", "took memory without end") if "hoards" in answer else outcome(answer)


def catching_cases(mutate: Mutator, requirement: str, level: str, cases: Iterable[Case]) -> Iterator[str]:
    """Return the ids of the cases of a requirement that fail with its fault.

    A wrong decoded value counts only if it is attributed to this requirement, at its level.
    """
    for case in cases:
        verdict = judge(case, run_fault(mutate, case))
        attributed = case.op != "decode" or verdict.requirement in ("", requirement)
        has_level = verdict.level in ("", level)
        if verdict.kind is VerdictKind.CRASH or (verdict.kind is VerdictKind.FAIL and attributed and has_level):
            yield case.id
