"""How the batches of a log are made up: sums of bounded size, for charts.

Sums of parts are added to those of a log. Where the timestamps lie far apart, the periods are longer, so that there are
never more than MOST_PERIODS: the result does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

K = TypeVar("K", int, str)

MOST_PERIODS = 120

_SHORTEST = 1 << 14
"""Milliseconds of a period: 16 seconds, and then twice as many each time."""


class Sum(msgspec.Struct, array_like=True):
    """Of some batches."""

    batches: int = 0
    bytes: int = 0
    records: int = 0

    def add(self, other: Sum) -> None:
        """Take other batches in."""
        self.batches += other.batches
        self.bytes += other.bytes
        self.records += other.records


def _add(ours: dict[K, Sum], theirs: Mapping[K, Sum]) -> None:
    for key, batches in theirs.items():
        ours.setdefault(key, Sum()).add(batches)


class Shape(msgspec.Struct):
    """The batches of a part, or of several, by what a chart shows of them."""

    width: int = _SHORTEST
    """Milliseconds of a period."""
    periods: dict[int, Sum] = {}
    """By the largest timestamp, in periods since 1970; batches without one are left out."""
    sizes: dict[int, Sum] = {}
    """By size: the power of two that is not below it."""
    kinds: dict[str, Sum] = {}
    """By codec, and by what else the attributes say."""

    def take(self, size: int, records: int, time: int, kind: str) -> None:
        """Take in a batch of so many bytes. `time`: its largest timestamp, in milliseconds; -1: none."""
        batch = Sum(1, size, max(records, 0))
        self.sizes.setdefault(1 << (size - 1).bit_length(), Sum()).add(batch)
        self.kinds.setdefault(kind, Sum()).add(batch)
        if time >= 0:
            self.periods.setdefault(time // self.width, Sum()).add(batch)
            self._shorten()

    def add(self, other: Shape) -> None:
        """Take in the batches of another part."""
        _add(self.sizes, other.sizes)
        _add(self.kinds, other.kinds)
        self._widen(other.width)
        for number, batches in other.periods.items():
            self.periods.setdefault(number * other.width // self.width, Sum()).add(batches)
        self._shorten()

    def _shorten(self) -> None:
        while len(self.periods) > MOST_PERIODS:
            self._widen(2 * self.width)

    def _widen(self, width: int) -> None:
        if width <= self.width:
            return
        periods: dict[int, Sum] = {}
        for number, batches in self.periods.items():
            periods.setdefault(number * self.width // width, Sum()).add(batches)
        self.width, self.periods = width, periods


class SegmentShape(msgspec.Struct):
    """What was read of a segment."""

    path: str
    size: int = 0
    """Bytes."""
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


class LogShape(msgspec.Struct):
    """What was read of the segments of one directory."""

    directory: str
    topic: str | None = None
    partition: int | None = None
    shape: Shape = msgspec.field(default_factory=Shape)
    segments: list[SegmentShape] = []
