"""Reads the parts of an answer that verdicts on several operations hang on."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import codec
from conformance.cases.model import Answer, Value, Verdict, VerdictKind
from conformance.codec.json_notation import NotationError


def count(answer: Answer, name: str) -> int:
    """A number in an answer. Raises NotationError."""
    given = answer.get(name)
    if isinstance(given, bool) or not isinstance(given, int):
        raise NotationError(f"{name}: expected a whole number, found {given!r:.60}")
    return given


def bytes_of(answer: Answer) -> bytes:
    """The bytes in an answer. Raises NotationError."""
    given = answer.get("hex")
    try:
        if isinstance(given, str):
            return bytes.fromhex(given)
    except ValueError:
        pass
    raise NotationError(f"hex: expected hex digits, found {given!r:.60}")


def batches_in(data: bytes, how: str) -> Sequence[Value] | Verdict:
    """The batches of a log that was `written` or served; what is wrong with it where they cannot be read."""
    read = codec.decode("LOG", data)
    if not read.ok:
        broken = read.violations[0]
        return failed(f"what was {how} cannot be read: {broken}", "hex", broken.requirement)
    if read.value["partial"]:
        return failed(f"what was {how} ends with {read.value['partial']} bytes of a cut entry", "hex")
    batches: Sequence[Value] = read.value["batches"]
    return batches


def failed(detail: str, path: str, requirement: str = "") -> Verdict:
    """A failure at a field, charged to a requirement where that is not the case's."""
    return Verdict(VerdictKind.FAIL, detail, path=path, requirement=requirement)
