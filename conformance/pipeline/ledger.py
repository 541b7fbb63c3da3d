"""What holds between the batches of a partition: offsets rise, sequences of producers follow, transactions close.

A partition is judged in pieces that know nothing of one another. A piece judges what it can, puts off what depends on
what came before it (the first batches of each producer), and leaves its state; `settle` goes through the pieces in
order and judges what was put off. Both run the same rules.

The rules are those of Apache Kafka's leader (ProducerStateManager), as sequence-number-semantics has them, with what
happens to a log afterwards taken off: its head may be gone, and compaction may have removed any batch. So a gap in the
numbers of a producer is one only where no offsets are missing that the lost records may have had, or where nothing was
ever compacted: because the caller says so, or a record without a key proves it, which compaction would have dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from conformance.semantics.sequences import next_sequence

MUST, NOTE, UNREAD = "must", "note", "unread"
"""Levels of findings, beside should, may and informative. A note accuses nobody; what is unread was not judged."""

_UNKNOWN, _FRESH = -2, -1
"""Instead of a last sequence: not known, and none yet in this epoch, so that 0 has to follow."""


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


class State(msgspec.Struct, array_like=True):
    """What is known of a producer after a batch."""

    epoch: int
    last: int
    open: bool
    """Whether a transaction is."""
    missing: int
    damage: int


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
    last_offset: int = -1
    """The largest of its sound batches; -1 where there is none."""
    missing: int = 0
    damage: int = 0
    keyless: bool = False
    """Whether a record without a key proves that the segment was never compacted."""
    put_off: list[Event] = []
    states: dict[int, State] = {}
    gaps: list[Gap] = []


# --- one producer -------------------------------------------------------------------------------------

_Told = tuple[str, str]
"""A requirement that an event breaks, and how."""


def _after(event: Event, state: State | None) -> State:
    """The state after an event that breaks nothing."""
    if not event.marker:
        return State(event.epoch, event.last, event.transactional, event.missing, event.damage)
    last = _UNKNOWN if state is None else _FRESH if event.epoch > state.epoch else state.last
    return State(event.epoch, last, False, event.missing, event.damage)  # noqa: FBT003 - closed


def _broken(event: Event, state: State) -> _Told | None:
    """What an event breaks beside a gap."""
    if event.epoch < state.epoch:
        return "producer-epoch.fences", f"epoch {event.epoch} of producer {event.producer} after {state.epoch}"
    if event.marker:
        return None
    if state.open and not event.transactional and event.damage == state.damage:
        hint = "a batch outside a transaction while one of its producer is open"
        return "attributes.transactional-bit", f"{hint} (producer {event.producer})"
    gap = _gap(event, state)
    if gap is not None and gap >= 1 << 30:
        hint = f"sequences {event.first} to {event.last} of producer {event.producer}"
        return "sequence.duplicate-deduplicated", f"{hint}, where {_expected(event, state)} follows"
    return None


def _expected(event: Event, state: State) -> int:
    return 0 if event.epoch > state.epoch or state.last == _FRESH else next_sequence(state.last, 1)


def _gap(event: Event, state: State) -> int | None:
    """How many numbers are left out before a batch, from 2^30 on how many it goes back; None where none are known."""
    if event.epoch == state.epoch and state.last == _UNKNOWN:
        return None
    return (event.first - _expected(event, state)) % (1 << 31)


# --- one piece ----------------------------------------------------------------------------------------


class Ledger:
    """Takes the sound batches of a piece in order and keeps its Piece."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self._met: dict[int, State] = {}

    def damaged(self) -> None:
        """Something here cannot be read, so whatever depended on it is not known."""
        self.piece.damage += 1

    def place(self, position: int, first: int, last: int) -> _Told | None:
        """Take the offsets of an entry; what they break, if they do, in which case the entry is out of place."""
        piece = self.piece
        if piece.last_offset >= 0:
            if first <= piece.last_offset:
                return "log.offsets-rise", f"offset {first} after {piece.last_offset}"
            piece.missing += first - piece.last_offset - 1
        else:
            piece.first_offset, piece.first_position = first, position
        piece.last_offset = last
        return None

    def take(self, event: Event) -> _Told | None:
        """Take a batch of a producer, or a marker, after its offsets; what it breaks, if it does."""
        state = self._met.get(event.producer)
        if state is None or (not event.marker and event.epoch == state.epoch and state.last == _UNKNOWN):
            self.piece.put_off.append(event)
        if state is not None:
            told = _broken(event, state) or self._gap(event, state)
            if told is not None and told[0] != _GAP:
                return told
        else:
            told = None
        self._met[event.producer] = _after(event, state)
        return told

    def _gap(self, event: Event, state: State) -> _Told | None:
        told = _gap_told(event, state)
        if told is None or told[1]:
            return told and (_GAP, told[0])
        self.piece.gaps.append(Gap(event.position, event.base_offset, told[0]))
        return None

    def done(self) -> Piece:
        """The piece, with the states in which it leaves its producers."""
        self.piece.states = self._met
        return self.piece


_GAP = "sequence.gap-out-of-order"
_NEVER = 1 << 63


def _gap_told(event: Event, state: State) -> tuple[str, bool] | None:
    """How a batch leaves numbers out, and whether that is certain; None where it does not, or damage lies between."""
    if event.marker or event.damage != state.damage:
        return None
    gap = _gap(event, state)
    if not gap or gap >= 1 << 30:
        return None
    hint = f"sequence {event.first} of producer {event.producer}, where {_expected(event, state)} follows"
    missing = event.missing - state.missing
    return f"{hint}; {missing} offsets are missing between", missing < gap


# --- the pieces of a partition ------------------------------------------------------------------------


def settle(pieces: Iterable[Piece], *, uncompacted: bool = False) -> Iterator[Finding]:
    """What is found only between the pieces of one partition. They come in any order.

    `uncompacted`: nothing in it was ever compacted, so that no batch may be missing.
    """
    ordered = sorted(pieces, key=lambda piece: (piece.segment, piece.start))
    # Compaction begins at the start of a log: a segment that it never saw means that it saw none of the later ones.
    untouched = min((piece.segment for piece in ordered if piece.keyless or uncompacted), default=_NEVER)
    states: dict[int, State] = {}
    before: Piece | None = None
    missing = damage = 0
    for piece in ordered:
        if piece.last_offset >= 0:
            if before is not None:
                yield from _place(piece, before)
                missing += max(piece.first_offset - before.last_offset - 1, 0)
            before = piece
        for event in piece.put_off:
            moved = msgspec.structs.replace(event, missing=event.missing + missing, damage=event.damage + damage)
            yield from _judged(moved, states, piece, certain=untouched <= ordered[0].segment)
        for producer, state in piece.states.items():
            states[producer] = _moved(state, states.get(producer), missing, damage)
        for gap in piece.gaps:
            if untouched <= piece.segment:
                yield Finding(piece.path, gap.position, gap.base_offset, _GAP, MUST, gap.detail)
        missing += piece.missing
        damage += piece.damage


def _place(piece: Piece, before: Piece) -> Iterator[Finding]:
    if piece.first_offset <= before.last_offset:
        hint = f"offset {piece.first_offset} after {before.last_offset}"
        yield Finding(piece.path, piece.first_position, piece.first_offset, "log.offsets-rise", MUST, hint)


def _judged(event: Event, states: dict[int, State], piece: Piece, *, certain: bool) -> Iterator[Finding]:
    """What an event that was put off breaks, and the state after it."""
    state = states.get(event.producer)
    if state is not None:
        told = _broken(event, state)
        if told is not None:
            yield Finding(piece.path, event.position, event.base_offset, told[0], MUST, told[1])
            return
        gap = _gap_told(event, state)
        if gap is not None and (certain or gap[1]):
            yield Finding(piece.path, event.position, event.base_offset, _GAP, MUST, gap[0])
    states[event.producer] = _after(event, state)


def _moved(state: State, before: State | None, missing: int, damage: int) -> State:
    """The state in which a piece leaves a producer, as the partition counts, with what only earlier pieces knew."""
    last = before.last if before is not None and state.last == _UNKNOWN and before.epoch == state.epoch else state.last
    return State(state.epoch, last, state.open, state.missing + missing, state.damage + damage)
