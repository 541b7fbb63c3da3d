"""One question of `doctor` and its answer, in words: what was asked, what came, and what to do about it."""

from __future__ import annotations

import json
from enum import IntEnum

from msgspec import Struct

from conformance import codec
from conformance.cases.model import Accepted, Answer, Broke, Case, Kind, Outcome, Refused, Request, Unsupported, Verdict
from conformance.codec.compare import unknown_fields
from conformance.judging.judge import judge
from conformance.running.claim_checks import first
from conformance.targets import reference

_SHORT, _LONG = 48, 400
"""Characters of a value within a line, and of a request or an answer on a line of its own."""

_ABOUT = ("hex", "value", "batches", "conversation", "frames", "steps")
"""The parts of requests that say what is asked: each request has one of them."""


class Weight(IntEnum):
    """How much there is to say of an answer."""

    SOUND = 0
    REMARK = 1
    """It is in order, but something of it cannot be judged."""
    FAILURE = 2
    """A fault, which may be the target's own: that is for `run` to judge."""
    WRONG = 3
    """A fault of the adapter."""


class Exchange(Struct, frozen=True):
    """A question and what came of it."""

    weight: Weight
    text: str
    """What was asked and how it was answered, on one line."""
    advice: tuple[str, ...] = ()
    """Lines that show what would have been in order."""


def exchange(case: Case, outcome: Outcome, types: codec.Types, *, lenient: bool = False) -> Exchange:
    """The words for an outcome; `lenient`: it may be `unsupported`."""
    told = f"asked {_asked(case.request)}, answered {_answered(outcome)}"
    if isinstance(outcome, Unsupported):
        if lenient:
            return Exchange(Weight.REMARK, told)
        return Exchange(Weight.WRONG, f"{told}, but it is claimed", (_LEAVE_OUT, *_lines(case, outcome, types)))
    verdict = judge(case, outcome)
    if verdict.kind is Kind.PROTOCOL:
        return Exchange(Weight.WRONG, f"{told}: {verdict.detail}", (*_lines(case, outcome, types), _HOW))
    if verdict.kind not in (Kind.PASS, Kind.SKIP, Kind.EITHER):
        text = f"{told}; {verdict.kind} on a plain value: {verdict.detail}"
        return Exchange(Weight.FAILURE, text, _lines(case, outcome, types))
    remarks = _remarks(case, outcome, verdict)
    return Exchange(Weight.REMARK if remarks else Weight.SOUND, "; ".join([told, *remarks]))


_LEAVE_OUT = "leave it out of describe's answer, or answer it"
_HOW = "docs/adapters.md#how-values-are-written says how each type is written"


def _remarks(case: Case, outcome: Outcome, verdict: Verdict) -> list[str]:
    if not isinstance(outcome, Accepted) or case.op not in ("decode", "read"):
        return []
    unknown = unknown_fields(case.wire.notation, outcome.answer.get("value")) if case.op == "decode" else []
    remarks = [f"shows fields that are not judged: {first(unknown)}"] if unknown else []
    if case.op == "decode" and "value" not in outcome.answer:
        return [*remarks, "shows no value, so values are not judged"]
    hidden = [path for path in verdict.unobserved if path != "consumed"]
    if hidden:
        remarks.append(f"does not show {first(hidden)}, so cases about it are not judged")
    if "consumed" in verdict.unobserved:
        remarks.append("shows no `consumed`, so cases about it are not judged")
    return remarks


# --- what was said ------------------------------------------------------------------------------------


def _asked(request: Request) -> str:
    return next(_brief(name, request[name]) for name in _ABOUT if name in request)


def _answered(outcome: Outcome) -> str:
    match outcome:
        case Accepted(answer):
            return _shown(answer)
        case Refused(error, message):
            return f"a refusal as {error}" + (f" ({message:.80})" if message else "")
        case Unsupported(reason):
            return f"unsupported ({reason:.80})"
        case Broke(how):
            return f"nothing ({how})"


def _shown(answer: Answer) -> str:
    shown = [_brief(name, answer[name]) for name in ("value", "hex", "size") if name in answer]
    consumed = [f"consumed {_brief('consumed', answer['consumed'])}"] if "consumed" in answer else []
    return ", ".join([*shown, *consumed]) or "ok alone"


def _brief(name: str, part: object) -> str:
    """A part of a request or an answer, cut; bytes without quotation marks."""
    if name == "hex" and isinstance(part, str):
        return _cut(part, _SHORT) or "no bytes"
    return _cut(_json(part), _SHORT)


def _json(part: object) -> str:
    return json.dumps(part, separators=(",", ":"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _lines(case: Case, outcome: Outcome, types: codec.Types) -> tuple[str, ...]:
    """The request, the answer, and what the reference answers."""
    request = {name: part for name, part in case.request.items() if name != "definition"}
    answer = outcome.answer if isinstance(outcome, Accepted) else None
    answered = [f"answered {_cut(_json({'ok': True, **answer}), _LONG)}"] if answer is not None else []
    due = f"expected {_cut(_json(reference.answer(case.request, types)), _LONG)}"
    return (f"asked    {_cut(_json(request), _LONG)}", *answered, due)
