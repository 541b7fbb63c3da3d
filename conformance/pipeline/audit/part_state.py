"""What one part of a segment leaves to the other parts of its partition: counts, producers, and what it cannot judge.

The classes are serialised with msgspec, since parts are audited on different executors.
"""

from __future__ import annotations

import msgspec

from conformance.pipeline.audit.shape import Shape

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
    shape: Shape = msgspec.field(default_factory=Shape)
