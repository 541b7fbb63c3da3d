"""JSON of strangers, read so that nothing in it can exhaust the stack or the memory.

Strings may hold lone surrogates: as escapes they are within JSON's grammar, but msgspec refuses them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain

import msgspec

DEEPEST = 128
"""Objects and lists within one another, at most; a message's structures go 32 deep."""
MOST_VALUES = 1_000_000
"""Values in one text, at most. The largest answer that a case calls for has 400,000."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of one half of a surrogate pair."""


def read_json(text: bytes) -> object:
    """What a text of JSON holds. Raises ValueError with what is wrong with it."""
    given = read_bounded(text)
    if text.count(b"[") + text.count(b"{") > DEEPEST and is_deep(given):
        raise too_deep()
    return given


def read_bounded(text: bytes) -> object:
    """The same, however deep it is: nothing may go through it before `is_deep`. Raises ValueError."""
    if holds_too_many(text):
        raise ValueError(f"more than {MOST_VALUES:,} values")
    try:
        return _value(text)
    except RecursionError:
        raise too_deep() from None


def holds_too_many(text: bytes) -> bool:
    """Whether a text has more values than any may have; they are counted without being made."""
    # No value stands without a comma before it, a bracket around it or a colon between; those in strings count too.
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
    """Whether every string in a value has a form in UTF-8."""
    try:
        _encode(value)
    except UnicodeEncodeError:
        return False
    return True


def too_deep() -> ValueError:
    """The error for a text that is nested too deeply."""
    return ValueError(f"objects and lists are nested more than {DEEPEST} deep")


def is_deep(given: object) -> bool:
    """Whether objects and lists stand in one another beyond what is allowed."""
    level: list[object] = [given]
    for _ in range(DEEPEST):
        level = [child for child in chain.from_iterable(map(_inner, level)) if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _inner(node: object) -> Iterable[object]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
