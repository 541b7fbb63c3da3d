"""The error codes by which a broker refuses: they are held against those of other brokers, where no document names one.

What is judged is that it refuses (docs/brokers.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.cases.model import Accepted, Answer, Case, Exchanges, Outcome, Refused
from conformance.cases.raw_requests import EXCHANGED
from conformance.codec.error_codes import named
from conformance.codec.json_notation import NotationError
from conformance.judging.exchanges import errors_in

_LONGEST = 4000
"""Characters of them: a broker tells a code for each of a few steps."""


def codes_of(case: Case, outcome: Outcome) -> str:
    """The error codes of an answer, each with what it answers; empty where there are none."""
    match outcome:
        case Refused(codes=codes):
            return codes
        case Accepted(answer) if isinstance(case.expect, Exchanges):
            return ", ".join(_of_frames(case.expect, answer))
        case Accepted({"codes": str() as codes}):
            return codes if len(codes) <= _LONGEST else ""
    return ""


def _of_frames(expect: Exchanges, answer: Answer) -> Iterator[str]:
    """The codes in the answers to frames, those of one frame once."""
    try:
        rows = EXCHANGED.parse(answer.get("value"))
    except NotationError:
        return
    for at, (due, row) in enumerate(zip(expect.due, rows, strict=False)):
        codes = dict.fromkeys(filter(None, errors_in(due, row.get("hex") or b"")))
        if codes:
            yield f"frame {at}: {' and '.join(map(named, codes))}"
