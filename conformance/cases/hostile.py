"""Hostile cases: bytes that state more than they hold, or become far more. What they cost a target is measured.

A case is hostile by what the reference finds in its bytes, or by its requirement; there is no list of them.
"""

from __future__ import annotations

import re

from conformance import codec

_MUCH = 1 << 20
"""Bytes or elements from which on it could cost something to believe what is stated."""
_RULES = ("memory.", "robustness.")
"""How the requirements begin that are about what a target does with its memory and time."""
_NUMBER = re.compile("[0-9]{7,}")


def is_about_cost(requirement: str) -> bool:
    """Whether a requirement is about what a target does with its memory and time."""
    return requirement.startswith(_RULES)


def bulk_of(requirement: str, data: bytes, read: codec.Decoded) -> int:
    """Bytes that memory and time are held against: those of the input, and those that come out of its payloads.

    0 where the case is not hostile: its requirement is about something else, and nothing that the reference found
    wrong is a length or count of a mebibyte or more.
    """
    if not is_about_cost(requirement) and not any(_states_much(mark) for mark in (*read.violations, *read.remarks)):
        return 0
    return max(1, len(data) + sum(map(len, read.layers)))


def _states_much(mark: codec.Violation) -> bool:
    """Whether the hint, which quotes what is stated, names so large a number."""
    return any(int(number) >= _MUCH for number in _NUMBER.findall(mark.hint))
