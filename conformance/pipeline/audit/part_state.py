"""What one part of a segment leaves to the other parts of its partition: counts, producers, and what it cannot judge.

The classes are serialised with msgspec, since parts are audited on different executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

MUST, NOTE, UNREAD = "must", "note", "unread"
"""Levels of findings, beside should, may and informative. A note accuses nobody; what is unread was not judged."""


class AuditFinding(NamedTuple):
    """Something that was found at a byte of a file."""

    path: str
    position: int
    """The byte of the file where the batch, or the index entry, begins."""
    base_offset: int | None
    """The base offset of the batch that begins there; None where no batch does."""
    requirement: str
    level: str
    detail: str
    """What is wrong and what was expected, in one line."""


class RuleViolation(NamedTuple):
    """A requirement that a batch breaks, and how; the place is known to the caller."""

    requirement: str
    detail: str


K = TypeVar("K", int, str)

MOST_PERIODS = 120

_SHORTEST = 1 << 14
"""Milliseconds of a period: 16 seconds, and then twice as many each time."""


class BatchTotals(msgspec.Struct, array_like=True):
    """Of some batches."""

    batches: int = 0
    bytes: int = 0
    records: int = 0

    def add(self, other: BatchTotals) -> None:
        """Take other batches in."""
        self.batches += other.batches
        self.bytes += other.bytes
        self.records += other.records


def _add(ours: dict[K, BatchTotals], theirs: Mapping[K, BatchTotals]) -> None:
    for key, batches in theirs.items():
        ours.setdefault(key, BatchTotals()).add(batches)


class BatchStatistics(msgspec.Struct):
    """The batches of a part, or of several, by what a chart shows of them."""

    width: int = _SHORTEST
    """Milliseconds of a period."""
    periods: dict[int, BatchTotals] = {}
    """By the largest timestamp, in periods since 1970; batches without one are left out."""
    sizes: dict[int, BatchTotals] = {}
    """By size: the power of two that is not below it."""
    kinds: dict[str, BatchTotals] = {}
    """By codec, and by what else the attributes say."""

    def add_batch(self, size: int, records: int, time: int, kind: str) -> None:
        """Take in a batch of so many bytes. `time`: its largest timestamp, in milliseconds; -1: none."""
        batch = BatchTotals(1, size, max(records, 0))
        self.sizes.setdefault(1 << (size - 1).bit_length(), BatchTotals()).add(batch)
        self.kinds.setdefault(kind, BatchTotals()).add(batch)
        if time >= 0:
            self.periods.setdefault(time // self.width, BatchTotals()).add(batch)
            self._shorten()

    def add(self, other: BatchStatistics) -> None:
        """Take in the batches of another part."""
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
    """What was read of a segment."""

    path: str
    size: int = 0
    """Bytes."""
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


class LogStatistics(msgspec.Struct):
    """What was read of the segments of one directory."""

    directory: str
    topic: str | None = None
    partition: int | None = None
    shape: BatchStatistics = msgspec.field(default_factory=BatchStatistics)
    segments: list[SegmentStatistics] = []


NO_OFFSET = -(1 << 63)
"""Stands for an offset as long as there is none."""


class ProducerBatch(msgspec.Struct, array_like=True, frozen=True):
    """A batch of a producer, or a transaction marker, as far as the rules between batches need it."""

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
    """Offsets that no batch had, from the start of the part up to this batch."""
    damage: int
    """Damaged places from the start of the part up to this batch."""
    time: int
    """The largest timestamp, in milliseconds."""


class ProducerState(msgspec.Struct, array_like=True):
    """What is known of a producer after one of its batches."""

    epoch: int
    last: int
    """The last sequence, or one of the numbers below 0 that partition_rules gives a meaning."""
    open: bool
    """Whether a transaction of the producer is open."""
    missing: int
    damage: int
    time: int


class SequenceGap(msgspec.Struct, array_like=True, frozen=True):
    """Sequences of a producer are missing, and offsets too: either batches were lost or compaction removed them."""

    position: int
    base_offset: int
    detail: str


class PartState(msgspec.Struct):
    """The place and size of a part, and all that the rules between batches need to know of it."""

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
    """Whether a record without a key proves that the segment was never compacted."""
    postponed: list[ProducerBatch] = []
    """Batches that cannot be judged without the parts before this one."""
    producers: dict[int, ProducerState] = {}
    gaps: list[SequenceGap] = []
    shape: BatchStatistics = msgspec.field(default_factory=BatchStatistics)
