"""Functions that read the parts of an answer, shared by the judges of several operations."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import codec
from conformance.cases.model import Answer, Value, Verdict, VerdictKind
from conformance.codec.json_notation import NotationError


def count(answer: Answer, name: str) -> int:
    """Return a number of an answer. Raises NotationError."""
    given = answer.get(name)
    if isinstance(given, bool) or not isinstance(given, int):
        raise NotationError(f"{name}: expected a whole number, found {given!r:.60}")
    return given


def bytes_of(answer: Answer) -> bytes:
    """Return the bytes of an answer. Raises NotationError."""
    given = answer.get("hex")
    try:
        if isinstance(given, str):
            return bytes.fromhex(given)
    except ValueError:
        pass
    raise NotationError(f"hex: expected hex digits, found {given!r:.60}")


def batches_in(data: bytes, how: str) -> Sequence[Value] | Verdict:
    """Return the batches of a log; a failure if it cannot be decoded. `how` is for its text, such as `served`."""
    read = codec.decode("LOG", data)
    if not read.ok:
        broken = read.violations[0]
        return failed(f"the {how} bytes cannot be decoded: {broken}", "hex", broken.requirement)
    if read.value["partial"]:
        return failed(f"the {how} bytes end with {read.value['partial']} bytes of a cut entry", "hex")
    batches: Sequence[Value] = read.value["batches"]
    return batches


def failed(detail: str, path: str, requirement: str = "") -> Verdict:
    """Return a failure at a field; `requirement` is given if it is not the requirement of the case."""
    return Verdict(VerdictKind.FAIL, detail, path=path, requirement=requirement)
