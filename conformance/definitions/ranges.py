"""Ranges of versions: what they share, what one has beyond another, and how a message names them."""

from __future__ import annotations

from conformance.codec.message_spec import NONE, Versions


def over(one: Versions, other: Versions) -> Versions:
    """The versions in both; NONE where there are none, so that results can be compared."""
    return one.shared(other) or NONE


def without(one: Versions, other: Versions) -> list[Versions]:
    """The ranges of one that are not in the other."""
    if not one.shared(other):
        return [one] if one else []
    parts = (Versions(one.low, other.low - 1), Versions(other.high + 1, one.high))
    return [part for part in parts if part]


def spoken(versions: Versions) -> str:
    """`version 3` or `versions 3-5`."""
    return f"version{'s' * (versions.low < versions.high)} {versions}"


def has(versions: Versions) -> str:
    """The verb that follows `spoken`."""
    return "have" if versions.low < versions.high else "has"
