"""JSON from untrusted sources, read so that it cannot exhaust the stack or the memory.

Strings may contain lone surrogates: JSON's grammar allows them as escapes, but msgspec rejects them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain

import msgspec

DEEPEST = 128
"""The deepest nesting of objects and lists; structures of messages are nested 32 deep."""
MOST_VALUES = 1_000_000
"""The most values in one text. The largest expected answer has 400,000."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of a surrogate, one half of a pair."""


def read_json(text: bytes) -> object:
    """Return the value of a JSON text. Raises ValueError with the problem."""
    given = read_bounded(text)
    if text.count(b"[") + text.count(b"{") > DEEPEST and is_deep(given):
        raise too_deep()
    return given


def read_bounded(text: bytes) -> object:
    """Return the same for any depth; call `is_deep` before any recursion over it. Raises ValueError."""
    if holds_too_many(text):
        raise ValueError(f"more than {MOST_VALUES:,} values")
    try:
        return _value(text)
    except RecursionError:
        raise too_deep() from None


def holds_too_many(text: bytes) -> bool:
    """Return True if a text has more values than allowed. They are counted without being created."""
    # Every value needs a comma or a bracket. Those in strings count too, so the count is an upper bound.
    return len(text) > MOST_VALUES and text.count(b"[") + text.count(b"{") + text.count(b",") > MOST_VALUES


def _value(text: bytes) -> object:
    try:
        value: object = _decode(text)
    except msgspec.DecodeError:
        if not SURROGATE.search(text):
            raise
        value = json.loads(text)
    return value


def is_text(value: object) -> bool:
    """Return True if every string in a value has a form in UTF-8."""
    try:
        _encode(value)
    except UnicodeEncodeError:
        return False
    return True


def too_deep() -> ValueError:
    """Return the error for a text that is nested too deeply."""
    return ValueError(f"objects and lists are nested more than {DEEPEST} deep")


def is_deep(given: object) -> bool:
    """Return True if objects and lists are nested deeper than allowed."""
    level: list[object] = [given]
    for _ in range(DEEPEST):
        level = [child for child in chain.from_iterable(map(_inner, level)) if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _inner(node: object) -> Iterable[object]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
