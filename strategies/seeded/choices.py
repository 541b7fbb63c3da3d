"""Seeded choices that come out the same on every machine and Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Choices that follow from a text. Only `getrandbits` is used: Python keeps its sequence for a seed."""

    def __init__(self, seed: str) -> None:
        self._bits = random.Random(seed).getrandbits  # noqa: S311 - repeatable on purpose

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        width = (limit - 1).bit_length()
        while (number := self._bits(width) if width else 0) >= limit:
            pass
        return number

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.below(len(options))]

    def picks(self, options: Sequence[T], count: int) -> list[T]:
        """`count` picks, the same as `pick` gives one by one, at a third of the cost."""
        limit, bits = len(options), self._bits
        width = (limit - 1).bit_length()
        if not width:
            return [options[0]] * count
        picked: list[T] = []
        while len(picked) < count:
            number = bits(width)
            if number < limit:
                picked.append(options[number])
        return picked

    def chance(self, percent: int) -> bool:
        """True `percent` times in a hundred."""
        return self.below(100) < percent

    def octets(self, count: int) -> bytes:
        """`count` bytes."""
        return self._bits(8 * count).to_bytes(count, "big") if count else b""
