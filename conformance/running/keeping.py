"""What a result keeps of an answer, decided when it is made: nothing of one that passed, little of a long one.

A target may answer 32 MB to every case; what a run holds must not follow from that.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

import msgspec
from msgspec import Struct

from conformance.cases.model import FAILURES, Accepted, Answer, Case, Kind, Outcome, Verdict
from conformance.codec.json_notation import UNSHOWN
from conformance.judging.differences import part_at
from conformance.judging.failure_causes import Cause, cause_of

MOST = 4096
"""Bytes of an answer, as JSON, that are kept; of what is longer, length and digest."""
LITTLE = 512
"""The same for a target of whose answers so much is kept already as ROOM says."""
ROOM = 64 << 20
"""Bytes of a target's answers that are kept before less is kept of each."""
_FEW = 24
"""Elements of a list of which each has a digest of its own."""
_UNOBSERVED = 16
"""Paths that a target did not show, kept of all of them."""

_ELEMENT = re.compile(r"\[(\d+)\]")
"""How the path of an element of a list begins."""

_encode = msgspec.json.Encoder().encode


class Packed(Struct, frozen=True):
    """An accepted answer as a result keeps it: as text, which takes a tenth of what the values do."""

    json: bytes
    """Whole, or with length and digest in the place of what is long."""
    is_cut: bool = False
    part: bytes = b""
    """Of an answer that was cut, the field at which expected and actual part, as JSON; empty where that is long too."""


def kept(outcome: Outcome, verdict: Verdict, most: int = MOST) -> Outcome | Packed:
    """What a result keeps of an outcome, of an answer `most` bytes; a quarter of that of the field that differs."""
    if verdict.kind in (Kind.PASS, Kind.SKIP):
        return NOTHING
    if not isinstance(outcome, Accepted):
        return outcome
    whole = _encode(outcome.answer)
    if len(whole) <= most:
        return Packed(_exact(whole))
    of_part = most // 4
    left = _encode({name[:of_part]: _left(entry, verdict.path, of_part) for name, entry in outcome.answer.items()})
    if len(left) > most:
        left = _encode({"answer": digest_of(whole)})
    return Packed(_exact(left), is_cut=True, part=_part(outcome.answer, verdict.path, of_part))


def _left(entry: object, path: str, most: int) -> object:
    """What is left of a long entry: of a list, the element that a verdict is about, if that is not much longer."""
    at = _ELEMENT.match(path)
    if not (isinstance(entry, list) and len(entry) <= _FEW and at):
        return shortened(entry, most)
    if len(_encode(entry[int(at[1]) :][:1])) > 2 * most:
        return shortened(entry, most)
    return [part if index == int(at[1]) else digest_of(_encode(part)) for index, part in enumerate(entry)]


def _exact(text: bytes) -> bytes:
    """The same bytes without the room that an encoder leaves behind them, half as much again."""
    return bytes(memoryview(text))


def kept_again(answer: Answer) -> Packed:
    """An answer as a result kept it, read back from where it was written down."""
    return Packed(_encode(answer))


def cause_in(case: Case, outcome: Outcome, verdict: Verdict) -> Cause:
    """The cause of a failure; where there is none, or an answer was cut and does not tell, verdict and requirement."""
    if verdict.kind not in FAILURES:
        return plain_cause(str(verdict.kind), verdict.requirement or case.requirement)
    try:
        return _same(cause_of(case, outcome, verdict))
    except (ValueError, KeyError, TypeError):
        return plain_cause(str(verdict.kind), verdict.requirement or case.requirement)


@lru_cache(maxsize=1 << 14)
def plain_cause(kind: str, requirement: str) -> Cause:
    """What results have in common of which there is no more to say than this."""
    return Cause(kind, requirement)


@lru_cache(maxsize=1024)
def _same(cause: Cause) -> Cause:
    """One object for all that are equal: thousands of results have one cause."""
    return cause


NOTHING = Accepted({})
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


def _part(answer: Answer, path: str, most: int) -> bytes:
    part = part_at(answer.get("value"), path) if path else UNSHOWN
    shown = b"" if part is UNSHOWN else _encode(part)
    return _exact(shown) if len(shown) <= most else b""


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
