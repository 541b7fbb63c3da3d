"""Seeded choices that are identical on every machine and Python."""

from __future__ import annotations

from _random import Random
from codecs import charmap_decode
from collections.abc import Sequence
from functools import cache
from hashlib import sha512
from typing import TypeVar

T = TypeVar("T")


class RandomChoices:
    """Choices that follow from a text. Only `getrandbits` is used, because Python keeps its sequence for a seed.

    For a number below a limit, as many bits as needed are drawn, repeatedly until the number is below the limit.
    """

    __slots__ = ("bits",)

    def __init__(self, seed: str) -> None:
        text = seed.encode()
        # As `random.Random` does with a text, without its additional seeding before that.
        self.bits = Random(int.from_bytes(text + sha512(text).digest(), "big")).getrandbits
        """Returns a number of so many bits."""

    def below(self, limit: int) -> int:
        """Return a number from 0 to limit - 1."""
        width = (limit - 1).bit_length()
        if not width:
            return 0
        while (number := self.bits(width)) >= limit:
            pass
        return number

    def between(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of several options."""
        limit = len(options)
        width = (limit - 1).bit_length()
        if not width:
            return options[0]
        while (number := self.bits(width)) >= limit:
            pass
        return options[number]

    def text(self, letters: str, count: int) -> str:
        """Return `count` picks of at most 256 letters, equal to the results of `pick`, without a call for each."""
        if len(letters) == 1:
            return letters * count
        indexes, passed_over = _by_octet(len(letters))
        picked = b""
        while missing := count - len(picked):
            # Each pick takes the top bits of a 32-bit word. More words than missing picks would change later choices.
            words = self.bits(32 * missing).to_bytes(4 * missing, "little")
            picked += words[3::4].translate(indexes, passed_over)
        return charmap_decode(picked, "strict", letters)[0]

    def chance(self, percent: int) -> bool:
        """Return True `percent` times in a hundred."""
        while (number := self.bits(7)) >= _HUNDRED:
            pass
        return number < percent

    def octets(self, count: int) -> bytes:
        """Return `count` bytes."""
        return self.bits(8 * count).to_bytes(count, "big") if count else b""


_HUNDRED = 100


@cache
def _by_octet(limit: int) -> tuple[bytes, bytes]:
    """Return the pick below a limit for each top octet of a word, and the octets without a pick."""
    picked = [octet >> 8 - (limit - 1).bit_length() for octet in range(256)]
    indexes = bytes(index if index < limit else 0 for index in picked)
    return indexes, bytes(octet for octet, index in enumerate(picked) if index >= limit)
