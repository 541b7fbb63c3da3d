"""The one answer to a case that is right and shows all there is: whoever gives it has passed, and need not be judged.

Most answers are that one, so it is kept beside the case as a digest. Any other answer may be right, too: `judge` says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from conformance.cases.model import Accepted, Answer, Case, Delivers, Measures, Reads, Writes
from conformance.cases.packing import PLAIN_OPS
from conformance.semantics.consumer_view import VIEW, View

_DIGEST = 16
"""Bytes of a digest."""
_canonical = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class AsDue(Accepted):
    """The target gave the answer that is due; what it said follows from the case."""

    answer: Answer = field(default_factory=dict)


def answer_due(case: Case) -> Answer | None:
    """The answer that is due, without its id; None where several are right, or where a refusal is due."""
    if case.op not in PLAIN_OPS:
        return None
    match case.expect:
        case Reads(value, int() as consumed):
            return {"ok": True, "value": case.wire.notation.render(value), "consumed": consumed}
        case Writes(data):
            return {"ok": True, "hex": data.hex()}
        case Measures(size):
            return {"ok": True, "size": size}
        case Delivers(View(damage=None) as view, open=False):
            return {"ok": True, "value": VIEW.render({"records": view.records, "nextOffset": view.next_offset})}
    return None


def due_digest(case: Case) -> bytes:
    """The digest of that answer; empty where there is none."""
    answer = answer_due(case)
    return b"" if answer is None else digest_of_answer(answer)


def digest_of_answer(answer: Answer) -> bytes:
    """The digest of an answer without its id, whatever the order of its fields; empty where it has none."""
    try:
        return blake2b(_canonical(answer), digest_size=_DIGEST).digest()
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError):
        return b""
