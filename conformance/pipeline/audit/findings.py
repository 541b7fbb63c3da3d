"""What an audit says and keeps: findings, and what a piece of a partition leaves to the others."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

MUST, NOTE, UNREAD = "must", "note", "unread"
"""Levels of findings, beside should, may and informative. A note accuses nobody; what is unread was not judged."""

NOTHING = -(1 << 63)
"""Instead of an offset, before there was one."""


class Finding(NamedTuple):
    """Something found at a byte of a file."""

    path: str
    position: int
    base_offset: int | None
    """Of the batch that begins there, where one does."""
    requirement: str
    level: str
    detail: str


class Event(msgspec.Struct, array_like=True, frozen=True):
    """A batch of a producer, or a transaction marker."""

    producer: int
    epoch: int
    first: int
    """The first and the last sequence; -1 in a marker."""
    last: int
    transactional: bool
    marker: bool
    position: int
    base_offset: int
    missing: int
    """Offsets that nothing had from the start of the piece up to here."""
    damage: int
    """Damaged places from the start of the piece up to here."""
    time: int
    """The largest timestamp, in milliseconds."""


class State(msgspec.Struct, array_like=True):
    """What is known of a producer after a batch."""

    epoch: int
    last: int
    open: bool
    """Whether a transaction is."""
    missing: int
    damage: int
    time: int


class Gap(msgspec.Struct, array_like=True, frozen=True):
    """Numbers of a producer that are not there, while there are offsets missing: compaction may have been at work."""

    position: int
    base_offset: int
    detail: str


class Piece(msgspec.Struct):
    """What is left of a piece of a segment: its place, its size, and what depends on other pieces."""

    path: str
    segment: int
    """The segment's base offset."""
    start: int
    stop: int
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    first_position: int = 0
    last_offset: int = NOTHING
    """That of its last sound batch."""
    missing: int = 0
    damage: int = 0
    keyless: bool = False
    """Whether a record without a key proves that the segment was never compacted."""
    put_off: list[Event] = []
    states: dict[int, State] = {}
    gaps: list[Gap] = []
