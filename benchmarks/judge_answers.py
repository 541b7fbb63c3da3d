"""The answers that benchmarks/judge_mutants.py puts to a damaged judge: right, nearly right, and wrong ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from random import Random
from typing import Any

from msgspec.structs import replace
from mutants import in_killing_order

from conformance import codec
from conformance.cases.model import (
    ERRORS,
    REFUSED,
    Accepted,
    Answer,
    Case,
    ExpectAnyOf,
    ExpectBytes,
    ExpectedResponse,
    ExpectResponses,
    ExpectValue,
    NoAnswer,
    Outcome,
    Rejected,
    Unsupported,
)
from conformance.cases.raw_requests import ENDS, answer_to
from conformance.catalog.catalog import Catalog
from conformance.codec.message_spec import MessageSpec
from conformance.codec.record_batch import TIMESTAMP_TYPES
from conformance.definitions.request_frames import START, api_of, frame_wire, message_of, wire_in
from conformance.judging.raw_requests import MOST_GROWN
from conformance.selftest import FAULTS
from conformance.selftest.requirement_faults import outcome_of
from conformance.semantics.producer_state import ANSWERS
from conformance.targets.reference import answer as honest

Pair = tuple[str, Case, Outcome]
"""Whose answer it is, and to which case."""

_OF_EACH = 12
"""Answers of a seeded defect that are judged, at most."""
_TRIED = 3_000
"""Further cases that a seeded fault answers, besides those of its requirements and all scenarios."""
_NEAR = {"send": 100, "scenario": 300, "exchange": 10, "append": 8, "read": 6, "sequence": 10}
_NEAR_OPEN, _NEAR_OTHERS = 12, 2
"""By the operation, answers to a case that differ from one that is right in one place; where a place is open; else."""


def pairs_of(catalog: Catalog, tried: int = _TRIED) -> list[Pair]:
    """Answers to cases, those to the smallest case of each requirement first."""
    cases = in_killing_order(catalog.cases.values())
    right = {case.id: honest(case.request) for case in cases}
    shared = [*(case for case in cases if case.op in ("send", "scenario")), *cases[:tried]]
    bent: dict[str, list[Pair]] = {}
    for name in FAULTS:
        for pair in islice(_bent(name, cases, shared, right), _OF_EACH):
            bent.setdefault(pair[1].id, []).append(pair)
    for case in cases[:tried]:
        bent.setdefault(case.id, []).extend(_broken(case, right[case.id]))
    return [
        pair
        for case in cases
        for pair in chain(_plain(case, right[case.id]), _near(case, right[case.id]), bent.get(case.id, ()))
    ]


def _plain(case: Case, right: Answer) -> Iterator[Pair]:
    """What the reference answers, and what any target may."""
    for who, outcome in {
        "the reference": outcome_of(right),
        "a refusal": Rejected("other"),
        "a corruption": Rejected("corrupt"),
        "an answer without a value": Accepted({}),
    }.items():
        yield who, case, outcome
    if case.expect == ExpectAnyOf() and case.op == "decode":
        for consumed in (-1, 0, case.size, case.size + 1):
            yield f"{consumed} bytes consumed", case, Accepted({"consumed": consumed})


def _broken(case: Case, right: Answer) -> Iterator[Pair]:
    """No answer in the protocol's sense."""
    for who, outcome in {
        "a crash": NoAnswer("crash", "it died"),
        "a crash of itself": NoAnswer("crash", "it died", unprovoked=True),
        "no line of the protocol": NoAnswer("protocol", "it printed"),
        "much memory": NoAnswer("memory", "it took much", answered=outcome_of(right)),  # type: ignore[arg-type]
        "a slow refusal": NoAnswer("slow", "it took long", answered=Rejected("other")),
        "nothing that it can": Unsupported("no"),
    }.items():
        yield who, case, outcome


def _near(case: Case, right: Answer) -> Iterator[Pair]:
    """Answers that differ in one place from one that is right, the same every time."""
    dice = Random(case.id)  # noqa: S311 - no secret
    if case.op == "send" and right.get("ok"):
        yield from _of_some(case, right["value"])
    for one in _allowed(case, right):
        yield "one that is right", case, Accepted(one)
        others = _NEAR_OPEN if isinstance(case.expect, ExpectAnyOf) else _NEAR_OTHERS
        for number in range(_NEAR.get(case.op, others)):
            shown = _changed(_with_more(case, one, dice) if number % 2 else one, dice)
            yield f"nearly one that is right ({number})", case, Accepted(shown)


def _allowed(case: Case, right: Answer) -> Iterator[Answer]:
    """The answers that are right: that of the reference, and where a place is open each reading."""
    if right.get("ok"):
        yield {name: part for name, part in right.items() if name != "ok"}
    for reading in case.expect.readings if isinstance(case.expect, ExpectAnyOf) else ():
        if isinstance(reading, ExpectValue):
            yield {"value": case.wire.notation.render(reading.value), "consumed": reading.consumed or 0}
        elif isinstance(reading, ExpectBytes):
            yield {"hex": reading.data.hex()}
    if isinstance(case.expect, ExpectResponses):
        yield {"value": [*map(_by_an_error, case.expect.due, right["value"])]}


def _of_some(case: Case, rows: Sequence[Answer]) -> Iterator[Pair]:
    """What a client sent without the requests of one name, or those alone; in the first versions; too little."""
    named = [(api_of(bytes.fromhex(row["hex"])), row) for row in rows]
    for name in sorted({name for name, _ in named}):
        yield f"without {name}", case, Accepted({"value": [row for other, row in named if other != name]})
        yield f"{name} alone", case, Accepted({"value": [row for other, row in named if other == name]})
    first = [_in_its_first_version(message_of(name)) for name, _ in named]
    for who, frames in (("first versions", first), ("a header alone", [START.pack(START.size - 4, 3, 0, 7)])):
        shown = [{"hex": data.hex(), "inFlight": [7], "offered": None} for data in frames]
        yield who, case, Accepted({"value": shown})


def _in_its_first_version(message: MessageSpec) -> bytes:
    low = message.valid.low
    header = {"RequestApiKey": message.api_key, "RequestApiVersion": low}
    return wire_in(message.name.removesuffix("Request"), low).encode({"Header": header, "Body": {}})


def _by_an_error(due: ExpectedResponse, row: Answer) -> Answer:
    """What came of a frame that may be refused by closing the connection, where it is answered by an error."""
    with suppress(LookupError, ValueError):  # not every frame has an answer
        return row if due.must_answer else {"hex": answer_to(replace(due, must_refuse=True)).hex()}
    return row


def _with_more(case: Case, answer: Answer, dice: Random) -> Answer:
    """An answer with what only some targets show."""
    match case.op:
        case "append":
            return {**answer, "value": {**answer["value"], "stored": answer["hex"], "segment": "a file"}}
        case "exchange":
            rows, at = answer["value"], dice.randrange(len(answer["value"]))
            ended = {"hex": None, "end": dice.choice(ENDS)}
            more = dice.choice(({"grown": MOST_GROWN}, {"value": [*rows[:at], ended, *rows[at + 1 :]]}))
            return {**answer, **more}
        case "scenario":
            at = dice.randrange(len(answer["value"]))
            steps = [{**step, "refused": "no"} if index == at else step for index, step in enumerate(answer["value"])]
            return {"value": steps}
        case "read":
            unseen = {"records": [{} for _ in answer["value"]["records"]]}
            more = dice.choice(({"error": dice.choice(ERRORS)}, {"beside": "a file"}, unseen))
            return {**answer, "value": {**answer["value"], **more}}
    return answer


def _changed(given: Any, dice: Random) -> Any:
    """A value that differs from one of an answer in one place, drawn by lot."""
    at = dice.randrange(max(1, len(given))) if isinstance(given, list | dict | str) else 0
    goes_on = dice.random() < _DEEPER
    match given:
        case dict() if given:
            name = list(given)[at]
            changed = {name: _changed(given[name], dice)} if goes_on else {}
            return {**{one: part for one, part in given.items() if one != name}, **changed}
        case list() if given and goes_on:
            return [*given[:at], _changed(given[at], dice), *given[at + 1 :]]
        case list() if given:
            left = given[:at] + given[at + 1 :]
            return dice.choice((left, [*left, given[at]], [*given, given[at]]))
        case bool() | None:
            return not given
        case int():
            return dice.choice((given - 1, given + 1, dice.randrange(3)))
        case str() if goes_on:
            return _changed_text(given, dice)
    return dice.choice((None, f"{given}x"))


_DEEPER = 0.9
_DECIMAL, _DIGITS = re.compile("-?[0-9]{1,19}"), re.compile("([0-9a-f]{2})+")
_WORDS_OF_ANSWERS = (ERRORS, (*ANSWERS, REFUSED), ENDS, TIMESTAMP_TYPES)


def _changed_text(given: str, dice: Random) -> str:
    """Another number, other bytes, or another word of those that stand in answers."""
    if _DECIMAL.fullmatch(given):
        return str(dice.choice((int(given) - 1, int(given) + 1, 0, -1)))
    if _DIGITS.fullmatch(given):
        return _rewritten(bytes.fromhex(given), dice).hex()
    return dice.choice(next((words for words in _WORDS_OF_ANSWERS if given in words), (f"{given}x",)))


def _rewritten(data: bytes, dice: Random) -> bytes:
    """The bytes of a request or a log of which a value is another one; bytes of which one is another, or the last."""
    for wire in filter(None, (frame_wire(data), codec.wire("LOG"))):
        read = codec.decode(wire, data)
        if read.ok and read.consumed == len(data) and dice.random() < _DEEPER:
            with suppress(Exception):  # not everything that differs in one place can be written
                notation = wire.notation
                return bytes(wire.encode(notation.parse(_changed(notation.render(read.value), dice))))
    at = dice.randrange(len(data))
    return dice.choice((data[:at], data[:at] + bytes([(data[at] + 1) % 256]) + data[at + 1 :]))


def _bent(name: str, cases: Sequence[Case], shared: Sequence[Case], right: dict[str, Answer]) -> Iterator[Pair]:
    """The answers of a seeded defect that differ: to cases of the requirements that it names, then to those of all."""
    defect = FAULTS[name]
    own = [case for case in cases if case.requirement in defect.try_first]
    for case in chain(own, shared):
        answer = right[case.id]
        with suppress(Exception):  # a few defects are not made for each case
            answer = defect.mutate(case.request, answer)
        if answer is not right[case.id] and answer != right[case.id]:
            yield name, case, outcome_of(answer)
