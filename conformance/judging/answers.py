"""Reads the parts of an answer that verdicts on several operations hang on."""

from __future__ import annotations

from conformance.cases.model import Answer
from conformance.codec.notation import NotationError


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
