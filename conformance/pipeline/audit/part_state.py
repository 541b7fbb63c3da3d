"""The state of an audited part that the checks between parts need: counts, producers, postponed batches.

The classes are serialised with msgspec, because parts are audited on different executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

MUST, NOTE, UNREAD = "must", "note", "unread"
"""Levels of findings, besides should, may and informative. A note is no failure; an unread file was not judged."""


class AuditFinding(NamedTuple):
    """A finding at a byte of a file."""

    path: str
    position: int
    """The first byte of the batch or index entry in the file."""
    base_offset: int | None
    """The base offset of the batch at this position; None without a batch."""
    requirement: str
    level: str
    detail: str
    """The found and the expected value, in one line."""


class RuleViolation(NamedTuple):
    """A requirement that a batch breaks, with the detail; the caller adds the position."""

    requirement: str
    detail: str


K = TypeVar("K", int, str)

MOST_PERIODS = 120

_SHORTEST = 1 << 14
"""Milliseconds of the shortest period: 16 seconds. Longer periods double it."""


class BatchTotals(msgspec.Struct, array_like=True):
    """The totals of some batches."""

    batches: int = 0
    bytes: int = 0
    records: int = 0

    def add(self, other: BatchTotals) -> None:
        """Add other totals."""
        self.batches += other.batches
        self.bytes += other.bytes
        self.records += other.records


def _add(ours: dict[K, BatchTotals], theirs: Mapping[K, BatchTotals]) -> None:
    for key, batches in theirs.items():
        ours.setdefault(key, BatchTotals()).add(batches)


class BatchStatistics(msgspec.Struct):
    """The totals of batches for the charts of the page."""

    width: int = _SHORTEST
    """Milliseconds of a period."""
    periods: dict[int, BatchTotals] = {}
    """By the largest timestamp, in periods since 1970; batches without a timestamp are left out."""
    sizes: dict[int, BatchTotals] = {}
    """By size, rounded up to a power of two."""
    kinds: dict[str, BatchTotals] = {}
    """By codec and other attributes."""

    def add_batch(self, size: int, records: int, time: int, kind: str) -> None:
        """Add a batch of `size` bytes. `time` is its largest timestamp in milliseconds, -1 for none."""
        batch = BatchTotals(1, size, max(records, 0))
        self.sizes.setdefault(1 << (size - 1).bit_length(), BatchTotals()).add(batch)
        self.kinds.setdefault(kind, BatchTotals()).add(batch)
        if time >= 0:
            self.periods.setdefault(time // self.width, BatchTotals()).add(batch)
            self._shorten()

    def add(self, other: BatchStatistics) -> None:
        """Add the batches of another part."""
        _add(self.sizes, other.sizes)
        _add(self.kinds, other.kinds)
        self._use_longer_periods(other.width)
        for number, batches in other.periods.items():
            self.periods.setdefault(number * other.width // self.width, BatchTotals()).add(batches)
        self._shorten()

    def _shorten(self) -> None:
        while len(self.periods) > MOST_PERIODS:
            self._use_longer_periods(2 * self.width)

    def _use_longer_periods(self, width: int) -> None:
        if width <= self.width:
            return
        periods: dict[int, BatchTotals] = {}
        for number, batches in self.periods.items():
            periods.setdefault(number * self.width // width, BatchTotals()).add(batches)
        self.width, self.periods = width, periods


class SegmentStatistics(msgspec.Struct):
    """The counts of a segment."""

    path: str
    size: int = 0
    """Bytes."""
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


class LogStatistics(msgspec.Struct):
    """The statistics of the segments of one directory."""

    directory: str
    topic: str | None = None
    partition: int | None = None
    shape: BatchStatistics = msgspec.field(default_factory=BatchStatistics)
    segments: list[SegmentStatistics] = []


NO_OFFSET = -(1 << 63)
"""The value of an offset that is not known yet."""


class ProducerBatch(msgspec.Struct, array_like=True, frozen=True):
    """The fields of a producer's batch or transaction marker that the rules between batches need."""

    producer: int
    epoch: int
    first: int
    """The first sequence; a marker has -1 here and in `last`."""
    last: int
    transactional: bool
    marker: bool
    position: int
    base_offset: int
    missing: int
    """Number of offsets without a batch, from the start of the part to this batch."""
    damage: int
    """Number of damaged regions, from the start of the part to this batch."""
    time: int
    """The largest timestamp, in milliseconds."""


class ProducerState(msgspec.Struct, array_like=True):
    """The state of a producer after one of its batches."""

    epoch: int
    last: int
    """The last sequence, or a negative value that partition_rules defines."""
    open: bool
    """True if a transaction of the producer is open."""
    missing: int
    damage: int
    time: int


class SequenceGap(msgspec.Struct, array_like=True, frozen=True):
    """Missing sequences of a producer together with missing offsets: lost batches, or compaction."""

    position: int
    base_offset: int
    detail: str


class PartState(msgspec.Struct):
    """A part of a segment, with the values that the rules between batches need."""

    path: str
    segment: int
    """The segment's base offset."""
    start: int
    stop: int
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    first_position: int = 0
    last_offset: int = NO_OFFSET
    """The last offset of the last sound batch."""
    missing: int = 0
    damage: int = 0
    keyless: bool = False
    """True if a record without a key proves that the segment was never compacted."""
    postponed: list[ProducerBatch] = []
    """Batches that cannot be judged without the parts before this one."""
    producers: dict[int, ProducerState] = {}
    gaps: list[SequenceGap] = []
    shape: BatchStatistics = msgspec.field(default_factory=BatchStatistics)
