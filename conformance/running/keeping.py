"""What a result keeps of an answer, decided when it is made: nothing of one that passed, little of a long one.

A target may answer 32 MB to every case; what a run holds must not follow from that.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import msgspec

from conformance.cases.model import Accepted, Answer, Case, Kind, Outcome, Verdict
from conformance.codec.notation import UNSHOWN
from conformance.judging.causes import Cause, cause_of
from conformance.judging.differences import part_at

MOST = 4096
"""Bytes of an answer, as JSON, that are kept; of what is longer, length and digest."""
_OF_PART = 1024
"""Bytes of the field at which expected and actual part, kept where the answer is not."""
_UNOBSERVED = 16
"""Paths that a target did not show, kept of all of them."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Packed:
    """An accepted answer as a result keeps it: as text, which takes a tenth of what the values do."""

    json: bytes
    """Whole, or with length and digest in the place of what is long."""
    cause: Cause
    """Made while the answer was whole."""
    is_cut: bool = False
    part: bytes = b""
    """Of an answer that was cut, the field at which expected and actual part, as JSON; empty where that is long too."""


def kept(case: Case, outcome: Outcome, verdict: Verdict) -> Outcome | Packed:
    """What a result keeps of an outcome."""
    if verdict.kind in (Kind.PASS, Kind.SKIP):
        return _NOTHING
    if not isinstance(outcome, Accepted):
        return outcome
    cause, whole = cause_in(case, outcome, verdict), _encode(outcome.answer)
    if len(whole) <= MOST:
        return Packed(whole, cause)
    shown = {name[:_OF_PART]: shortened(entry, _OF_PART) for name, entry in outcome.answer.items()}
    left = _encode(shown)
    if len(left) > MOST:
        left = _encode({"answer": digest_of(whole)})
    return Packed(left, cause, is_cut=True, part=_part(outcome.answer, verdict.path))


def kept_again(case: Case, answer: Answer, verdict: Verdict) -> Packed:
    """An answer as a result kept it, read back from where it was written down."""
    return Packed(_encode(answer), cause_in(case, Accepted(answer), verdict))


def cause_in(case: Case, outcome: Outcome, verdict: Verdict) -> Cause:
    """The cause of a failure; where there is none, or an answer was cut and does not tell, verdict and requirement."""
    if verdict.kind not in (Kind.FAIL, Kind.CRASH, Kind.TIMEOUT):
        return Cause(str(verdict.kind), verdict.requirement or case.requirement)
    try:
        return cause_of(case, outcome, verdict)
    except (ValueError, KeyError, TypeError):
        return Cause(str(verdict.kind), verdict.requirement or case.requirement)


_NOTHING = Accepted({})
"""What is kept where no report shows what the target did."""


def kept_verdict(verdict: Verdict) -> Verdict:
    """The verdict, without most of the paths that a target did not show."""
    if len(verdict.unobserved) <= _UNOBSERVED:
        return verdict
    return Verdict(
        verdict.kind,
        verdict.detail,
        verdict.path,
        verdict.requirement,
        verdict.level,
        verdict.unobserved[:_UNOBSERVED],
        verdict.flaky,
    )


def _part(answer: Answer, path: str) -> bytes:
    part = part_at(answer.get("value"), path) if path else UNSHOWN
    shown = b"" if part is UNSHOWN else _encode(part)
    return shown if len(shown) <= _OF_PART else b""


def shortened(entry: object, most: int = MOST) -> object:
    """A value in notation, or, where its JSON has more bytes, length and digest of it; of hex digits, of the bytes."""
    text = _encode(entry)
    if len(text) <= most:
        return entry
    try:
        return digest_of(bytes.fromhex(entry)) if isinstance(entry, str) else digest_of(text)
    except ValueError:
        return digest_of(text)


def digest_of(data: bytes) -> dict[str, object]:
    """What stands for bytes that are too many to be shown."""
    return {"length": len(data), "sha256": sha256(data).hexdigest()}
