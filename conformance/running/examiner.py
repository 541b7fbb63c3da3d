"""Cases × targets → results, in case order, as an iterator."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from conformance import codec
from conformance.cases.catalog import Catalog
from conformance.cases.from_vectors import LEADER_EPOCH, encode_request, typed
from conformance.cases.log_questions import read_question, sequence_question
from conformance.cases.model import (
    WHOLE_LOG,
    Case,
    CaseKind,
    Expectation,
    Kind,
    Measures,
    Op,
    Outcome,
    Reads,
    Unsupported,
    Verdict,
    Writes,
)
from conformance.judging.judge import judge
from conformance.running.known_failures import Known
from conformance.running.results import Result, TargetRun
from conformance.targets import protocol, reference
from conformance.targets.process import Launch
from conformance.targets.session import CannotStart, Session, Terms

GENERAL = "general.exact-encoding"

_SHARE = 128
"""Cases that a process takes from the queue at a time."""

FAIL_ON = {"must": ("must",), "should": ("must", "should")}


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run: what counts, what is known, how many processes, on which terms."""

    jobs: int = 2
    terms: Terms = field(default_factory=Terms)
    fail_on: str = "must"
    strict: bool = False
    known: tuple[Known, ...] = ()


def run_target(
    name: str, launch: Launch | None, cases: Sequence[Case], catalog: Catalog, plan: Plan
) -> tuple[TargetRun, Iterator[Result]]:
    """Start judging one target (`launch` None: the reference, in process): its record, and its results as they come.

    Results are appended to the record too, so that nothing gathered is lost when the caller stops half-way.
    """
    record = TargetRun(name)
    return record, _results(record, launch, cases, catalog, plan)


def _results(
    record: TargetRun, launch: Launch | None, cases: Sequence[Case], catalog: Catalog, plan: Plan
) -> Iterator[Result]:
    examiner = Examiner(record.name, launch, catalog, plan)
    try:
        record.description = examiner.describe()
        for result in examiner.disproved(cases):
            yield _file(record, result)
        for result in examiner.results(cases):
            yield _file(record, result)
    except CannotStart as error:
        record.problem = str(error)
    finally:
        examiner.close()


def _file(record: TargetRun, result: Result) -> Result:
    record.results.append(result)
    return result


def _result_of(target: str, case: Case, outcome: Outcome, verdict: Verdict, *, catalog: Catalog, plan: Plan) -> Result:
    """The result of a verdict: its level, whether it counts, is known, is disputed."""
    level, disputed = verdict.level or case.level, case.disputed
    named = catalog.requirements.get(verdict.requirement)
    if named is not None:
        level, disputed = verdict.level or named.level, named.disputed(case.op)
    result = Result(target, case, outcome, verdict, level, disputed=verdict.kind in disputed)
    if not result.failed:
        return result
    counts = level in FAIL_ON[plan.fail_on] and (plan.strict or not result.disputed)
    known = any(entry.excuses(result) for entry in plan.known)
    return replace(result, counts=counts, known=known)


# --- asking -------------------------------------------------------------------------------------------


class Examiner:
    """Puts cases to one target and judges what it makes of them. `close` it, whatever came."""

    def __init__(self, name: str, launch: Launch | None, catalog: Catalog, plan: Plan) -> None:
        """Nothing is started before `describe` (`launch` None: the reference, in process)."""
        self._name, self._catalog, self._plan = name, catalog, plan
        self._asker = _asker_for(launch, plan)
        self._description: protocol.Description | None = None
        self.refuted: set[tuple[str, str]] = set()
        """Claims, an operation and a type each, that do not hold; on these no case is put."""

    def describe(self) -> protocol.Description:
        """What the target says of itself, asked once. Raises CannotStart."""
        if self._description is None:
            self._description = self._asker.describe()
        return self._description

    def disproved(self, cases: Sequence[Case]) -> list[Result]:
        """Try the claims that the cases rest on; those that do not hold, on which no case is put any more.

        Raises CannotStart.
        """
        probes = [self._asked(probe) for probe in _probes(self.describe(), cases)]
        found = []
        for probe, outcome in zip(probes, self._asker.ask(probes), strict=True):
            verdict = _claim(probe, outcome)
            if verdict.kind is Kind.PROTOCOL:
                self.refuted.add(_claimed(probe))
                found.append(self._result(probe, outcome, verdict))
        return found

    def results(self, cases: Sequence[Case]) -> Iterator[Result]:
        """The results of cases, in order; only what the target claims is put to it. Raises CannotStart."""
        description = self.describe()
        cases = [self._asked(case) for case in cases]
        lacking = [self._why_not(description, case) for case in cases]
        outcomes = self._asker.ask([case for case, reason in zip(cases, lacking, strict=True) if not reason])
        for case, reason in zip(cases, lacking, strict=True):
            outcome = Unsupported(reason) if reason else next(outcomes)
            yield self._result(case, outcome, judge(case, outcome))

    def forgive(self) -> None:
        """Forget the faults so far: how soon a target is given up then hangs on the cases to come alone."""
        self._asker.forgive()

    def close(self) -> None:
        """End whatever runs of the target."""
        self._asker.close()

    def _asked(self, case: Case) -> Case:
        """The case as it is put: to a codec without messages of its own, with the definition."""
        wire = case.wire
        if not isinstance(wire, codec.MessageWire) or "definition" in case.request:
            return case
        if self.describe().messages is not None:
            return case
        return replace(case, request={**case.request, "definition": wire.message.source})

    def _why_not(self, description: protocol.Description, case: Case) -> str:
        if _claimed(case) in self.refuted:
            return f"the claim to {case.op} {case.type} was disproved at the start"
        return description.lacks(case)

    def _result(self, case: Case, outcome: Outcome, verdict: Verdict) -> Result:
        return _result_of(self._name, case, outcome, verdict, catalog=self._catalog, plan=self._plan)


def _claimed(case: Case) -> tuple[str, str]:
    """What a target claims for a case: an operation, and where that has one, a type, arrays whatever their elements."""
    return case.op, "" if case.op in WHOLE_LOG else case.type.partition("<")[0]


def _probes(description: protocol.Description, cases: Sequence[Case]) -> Iterator[Case]:
    """One plain value per claimed type and operation that the cases need."""
    seen: set[tuple[str, str]] = set()
    for case in cases:
        if _claimed(case) not in seen and description.claims(case.op, case.type) and description.has(case):
            probe = probe_case(case.op, case.wire)
            if probe is not None:
                seen.add(_claimed(case))
                yield probe


def _claim(case: Case, outcome: Outcome) -> Verdict:
    """A claim is disproved by `unsupported` or an answer of the wrong shape, by nothing else."""
    if isinstance(outcome, Unsupported):
        return Verdict(
            Kind.PROTOCOL, f"{case.op} of {case.type} is claimed, but answered: unsupported ({outcome.reason})"
        )
    verdict = judge(case, outcome)
    return verdict if verdict.kind is Kind.PROTOCOL else Verdict(Kind.PASS)


def probe_case(op: str, wire: codec.Wire) -> Case | None:
    """A question about a plain value of a type, to which any right-minded target has an answer."""
    if op in WHOLE_LOG:
        return _log_probe(op)
    name = wire.name
    written = codec.wire("RECORD_BATCH") if name == "LOG" else wire
    parameters = _PARAMETERS.get(name, {})
    try:
        data = codec.encode(written, _plain_value(written), **parameters)
    except codec.Unencodable:
        return None  # a message whose defaults this version cannot write
    value = codec.decode(wire, data).value
    expect: Expectation
    if op == "decode":
        request: dict[str, Any] = {"hex": data.hex()}
        expect = Reads(value, None)
    elif name == "LOG":
        return None
    else:
        request = {"value": encode_request(value) if name == "RECORD_BATCH" else wire.notation.render(value)}
        request |= {"magic": 1, "compression": "none"} if name == "MESSAGE_SET" else {}
        ignoring = LEADER_EPOCH if name == "RECORD_BATCH" else (0, 0)
        expect = Writes(data, ignoring) if op == "encode" else Measures(len(data))
    return Case(
        f"probe/{name}:{op}",
        cast("Op", op),
        wire,
        GENERAL,
        "must",
        {"op": op, **typed(wire), **request},
        expect,
        data,
        kind=CaseKind.PROBE,
    )


def _log_probe(op: str) -> Case | None:
    """A log of one plain batch to read, or the first batch of a producer; none for a conversion, as each is a claim."""
    data = codec.encode("RECORD_BATCH", _plain_value(codec.wire("RECORD_BATCH")))
    plain = {"producerId": 1, "producerEpoch": 0, "baseSequence": 0, "recordCount": 1}
    if op == "convert":
        return None
    request, expect = read_question(data) if op == "read" else sequence_question([plain])
    given = {"op": op, **request}
    return Case(
        f"probe/{op}", cast("Op", op), codec.wire("LOG"), GENERAL, "must", given, expect, data, kind=CaseKind.PROBE
    )


_PARAMETERS = {"MESSAGE_SET": {"magic": 1}}


def _plain_value(wire: codec.Wire) -> object:
    record = {"attributes": 0, "timestampDelta": 0, "offsetDelta": 0, "key": b"k", "value": b"v", "headers": ()}
    batch = {
        **{"baseOffset": 0, "partitionLeaderEpoch": 0, "compression": 0, "timestampType": 0, "isTransactional": False},
        **{"isControlBatch": False, "producerId": -1, "producerEpoch": -1, "baseSequence": -1},
        "records": ({**record, "offset": 0, "timestamp": 1000},),
    }
    message = {"offset": 0, "timestamp": 1000, "key": b"k", "value": b"v"}
    plain = {"RECORD": record, "RECORD_BATCH": batch, "CONTROL_RECORD": {"version": 0, "type": 1}}
    plain["MESSAGE_SET"] = (message,)
    if wire.name in plain or isinstance(wire, codec.MessageWire):
        return plain.get(wire.name, {})
    edges = wire.edges
    return next((edge for edge in edges if type(edge) is int and edge == 1), edges[0])


class Asker:
    """Where questions are put."""

    def describe(self) -> protocol.Description:
        """What the target says of itself."""
        raise NotImplementedError

    def ask(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """The outcomes of cases, in order."""
        raise NotImplementedError

    def forgive(self) -> None:
        """Forget the faults so far."""

    def close(self) -> None:
        """End whatever runs."""


def _asker_for(launch: Launch | None, plan: Plan) -> Asker:
    """Where to put questions to a target; the reference (`launch` None) answers in process."""
    return _InProcess() if launch is None else _Processes(launch, plan)


class _InProcess(Asker):
    """The reference, without a process between."""

    def describe(self) -> protocol.Description:
        return protocol.description(reference.describe())

    def ask(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        for case in cases:
            yield protocol.outcome(reference.answer(case.request))


class _Processes(Asker):
    """One or several processes of a target, each with a share of the questions."""

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self._launch, self._plan = launch, plan
        self._first = Session(launch, plan.terms)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sessions = [self._first]

    def describe(self) -> protocol.Description:
        return self._first.describe()

    def ask(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        requests = [protocol.body(case.request) for case in cases]
        shares = [requests[at : at + _SHARE] for at in range(0, len(requests), _SHARE)]
        workers = min(self._plan.jobs, len(shares))
        if workers <= 1:
            yield from self._first.ask(requests)
            return
        yield from self._spread(shares, workers)

    def _spread(self, shares: list[list[bytes]], workers: int) -> Iterator[Outcome]:
        """Shares are taken in order by whoever is free, and handed on in order."""
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(shares)):
            todo.put(number)
        done: list[queue.SimpleQueue[Outcome | Exception]] = [queue.SimpleQueue() for _ in shares]
        self._sessions += [Session(self._launch, self._plan.terms) for _ in range(workers - 1)]
        for session in self._sessions:
            thread = threading.Thread(target=self._work, args=(session, todo, shares, done), daemon=True)
            # In this order: an interrupt may come in between, and `close` must know of it.
            self._threads.append(thread)
            thread.start()
        for share, finished in zip(shares, done, strict=True):
            for _ in share:
                found = _awaited(finished)
                if isinstance(found, Exception):
                    raise found
                yield found

    def _work(
        self,
        session: Session,
        todo: queue.SimpleQueue[int],
        shares: list[list[bytes]],
        done: list[queue.SimpleQueue[Outcome | Exception]],
    ) -> None:
        with session, suppress(queue.Empty):
            while not self._stop.is_set():
                number = todo.get_nowait()
                try:
                    for found in session.ask(shares[number]):
                        done[number].put(found)
                except Exception as error:  # noqa: BLE001 - handed to the thread that waits for this share
                    done[number].put(error)

    def forgive(self) -> None:
        for session in self._sessions:
            session.forgive()

    def close(self) -> None:
        self._stop.set()
        for session in self._sessions if self._threads else ():
            session.abort()
        for thread in self._threads:
            with suppress(RuntimeError):  # an interrupt kept it from starting
                thread.join()
        self._first.__exit__()


def _awaited(finished: queue.SimpleQueue[Outcome | Exception]) -> Outcome | Exception:
    """What comes next; looks up now and then, as a signal just before a wait without end would not be seen."""
    while True:
        with suppress(queue.Empty):
            return finished.get(timeout=0.5)
