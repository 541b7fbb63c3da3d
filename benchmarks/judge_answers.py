"""Answers for benchmarks/judge_mutants.py: correct, nearly correct, and wrong ones."""

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
"""The source of an answer, its case and its outcome."""

_OF_EACH = 12
"""The maximum number of judged answers per seeded fault."""
_TRIED = 3_000
"""Further cases for a seeded fault, in addition to those of its requirements and all scenarios."""
_NEAR = {"send": 100, "scenario": 300, "exchange": 10, "append": 8, "read": 6, "sequence": 10}
_NEAR_OPEN, _NEAR_OTHERS = 12, 2
"""Answers with one change to a correct one, by operation: of unspecified input, and of other cases."""


def pairs_of(catalog: Catalog, tried: int = _TRIED) -> list[Pair]:
    """Return answers to cases, with the smallest case of each requirement first."""
    cases = in_killing_order(catalog.cases.values())
    right = {case.id: honest(case.request) for case in cases}
    shared = [*(case for case in cases if case.op in ("send", "scenario")), *cases[:tried]]
    bent: dict[str, list[Pair]] = {}
    for name in FAULTS:
        for pair in islice(_faulty(name, cases, shared, right), _OF_EACH):
            bent.setdefault(pair[1].id, []).append(pair)
    for case in cases[:tried]:
        bent.setdefault(case.id, []).extend(_broken(case, right[case.id]))
    return [
        pair
        for case in cases
        for pair in chain(_plain(case, right[case.id]), _near(case, right[case.id]), bent.get(case.id, ()))
    ]


def _plain(case: Case, right: Answer) -> Iterator[Pair]:
    """Yield the answer of the reference, and answers possible for any case."""
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
    """Yield outcomes without a valid answer."""
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
    """Yield answers with one change to a correct one, always the same ones."""
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
    """Yield the correct answers: that of the reference, and each accepted interpretation."""
    if right.get("ok"):
        yield {name: part for name, part in right.items() if name != "ok"}
    for reading in case.expect.readings if isinstance(case.expect, ExpectAnyOf) else ():
        if isinstance(reading, ExpectValue):
            yield {"value": case.wire.notation.render(reading.value), "consumed": reading.consumed or 0}
        elif isinstance(reading, ExpectBytes):
            yield {"hex": reading.data.hex()}
    if isinstance(case.expect, ExpectResponses):
        yield {"value": [*map(_by_an_error, case.expect.expected, right["value"])]}


def _of_some(case: Case, rows: Sequence[Answer]) -> Iterator[Pair]:
    """Yield sent requests without those of one name, only with those, in their first versions, or cut."""
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


def _by_an_error(expected: ExpectedResponse, row: Answer) -> Answer:
    """Return an error response to a frame that may also close the connection."""
    with suppress(LookupError, ValueError):  # not every frame has a response
        return row if expected.must_answer else {"hex": answer_to(replace(expected, must_refuse=True)).hex()}
    return row


def _with_more(case: Case, answer: Answer, dice: Random) -> Answer:
    """Return an answer with parts that only some targets show."""
    match case.op:
        case "append":
            return {**answer, "value": {**answer["value"], "stored": answer["hex"], "segment": "a file"}}
        case "exchange":
            rows, at = answer["value"], dice.randrange(len(answer["value"]))
            ended = {"hex": None, "end": dice.choice(ENDS)}
            more = dice.choice(({"memoryGrowth": MOST_GROWN}, {"value": [*rows[:at], ended, *rows[at + 1 :]]}))
            return {**answer, **more}
        case "scenario":
            at = dice.randrange(len(answer["value"]))
            steps = [{**step, "refused": "no"} if index == at else step for index, step in enumerate(answer["value"])]
            return {"value": steps}
        case "read":
            unseen = {"records": [{} for _ in answer["value"]["records"]]}
            more = dice.choice(({"error": dice.choice(ERRORS)}, {"guardViolation": "a file"}, unseen))
            return {**answer, "value": {**answer["value"], **more}}
    return answer


def _changed(given: Any, dice: Random) -> Any:
    """Return a value with one random change."""
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
    """Return another number, other bytes, or another word of the protocol."""
    if _DECIMAL.fullmatch(given):
        return str(dice.choice((int(given) - 1, int(given) + 1, 0, -1)))
    if _DIGITS.fullmatch(given):
        return _rewritten(bytes.fromhex(given), dice).hex()
    return dice.choice(next((words for words in _WORDS_OF_ANSWERS if given in words), (f"{given}x",)))


def _rewritten(data: bytes, dice: Random) -> bytes:
    """Return a request or log with a changed value, or bytes with one changed or removed."""
    for wire in filter(None, (frame_wire(data), codec.wire("LOG"))):
        read = codec.decode(wire, data)
        if read.ok and read.consumed == len(data) and dice.random() < _DEEPER:
            with suppress(Exception):  # some changed values have no encoding
                notation = wire.notation
                return bytes(wire.encode(notation.parse(_changed(notation.render(read.value), dice))))
    at = dice.randrange(len(data))
    return dice.choice((data[:at], data[:at] + bytes([(data[at] + 1) % 256]) + data[at + 1 :]))


def _faulty(name: str, cases: Sequence[Case], shared: Sequence[Case], right: dict[str, Answer]) -> Iterator[Pair]:
    """Yield the changed answers of a seeded fault, first to cases of its requirements, then to all."""
    defect = FAULTS[name]
    own = [case for case in cases if case.requirement in defect.try_first]
    for case in chain(own, shared):
        answer = right[case.id]
        with suppress(Exception):  # some faults do not apply to each case
            answer = defect.mutate(case.request, answer)
        if answer is not right[case.id] and answer != right[case.id]:
            yield name, case, outcome_of(answer)
