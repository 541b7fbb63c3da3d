"""Seeded choices that come out the same on every machine and Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Choices that follow from a text. Only `getrandbits` is used: Python keeps its sequence for a seed."""

    def __init__(self, seed: str) -> None:
        self._bits = random.Random(seed).getrandbits  # noqa: S311 - repeatable on purpose

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        width = (limit - 1).bit_length()
        if not width:
            return 0
        bits = self._bits
        while (number := bits(width)) >= limit:
            pass
        return number

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.below(len(options))]

    def picks(self, options: Sequence[T], count: int) -> list[T]:
        """`count` picks of 256 options at most, the same as `pick` gives one by one, without a call for each."""
        if len(options) == 1:
            return [options[0]] * count
        indexes, passed_over = _by_octet(len(options))
        picked: list[T] = []
        while missing := count - len(picked):
            # Each pick takes the top bits of a word of 32; as many words are drawn as picks are missing, never more.
            words = self._bits(32 * missing).to_bytes(4 * missing, "little")
            picked += map(options.__getitem__, words[3::4].translate(indexes, passed_over))
        return picked

    def chance(self, percent: int) -> bool:
        """True `percent` times in a hundred."""
        return self.below(100) < percent

    def octets(self, count: int) -> bytes:
        """`count` bytes."""
        return self._bits(8 * count).to_bytes(count, "big") if count else b""


@cache
def _by_octet(limit: int) -> tuple[bytes, bytes]:
    """What the top octet of a word picks below a limit, by the octet, and the octets that pick nothing."""
    picked = [octet >> 8 - (limit - 1).bit_length() for octet in range(256)]
    indexes = bytes(index if index < limit else 0 for index in picked)
    return indexes, bytes(octet for octet, index in enumerate(picked) if index >= limit)
