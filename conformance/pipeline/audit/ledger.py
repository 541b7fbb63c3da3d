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

import msgspec

from conformance.pipeline.audit.findings import MUST, NOTHING, Event, Finding, Gap, Piece, State
from conformance.semantics.sequences import next_sequence

_FRESH, _UNKNOWN, _ANY = -1, -2, -3
"""Instead of a last sequence: none yet in this epoch, so that 0 has to follow; not known to this piece; and, after a
batch that was out of order, one that nobody can tell."""


# --- one producer -------------------------------------------------------------------------------------

_Told = tuple[str, str]
"""A requirement that an event breaks, and how."""


def _after(event: Event, state: State | None) -> State:
    """The state after an event that breaks nothing."""
    if not event.marker:
        return State(event.epoch, event.last, event.transactional, event.missing, event.damage, event.time)
    last = _UNKNOWN if state is None else _FRESH if event.epoch > state.epoch else state.last
    return State(event.epoch, last, False, event.missing, event.damage, event.time)  # noqa: FBT003 - closed


def _lost(event: Event, state: State | None) -> State:
    """The state after an event that is out of order: where the producer goes on is anybody's guess."""
    epoch = event.epoch if state is None else max(event.epoch, state.epoch)
    return State(epoch, _ANY, event.transactional and not event.marker, event.missing, event.damage, event.time)


_FORGOTTEN = 24 * 60 * 60 * 1000
"""Milliseconds after which a broker forgets a producer that is idle outside a transaction (producer.id.expiration.ms);
then it takes any epoch and any sequence from it."""


def _remembered(event: Event, state: State | None) -> State | None:
    """What a broker still knows of a producer when an event comes."""
    if state is None or state.open or event.time - state.time < _FORGOTTEN:
        return state
    return State(event.epoch, _ANY, False, event.missing, event.damage, event.time)  # noqa: FBT003 - closed


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
    if event.epoch == state.epoch and state.last in (_UNKNOWN, _ANY):
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
        if piece.last_offset == NOTHING:
            piece.first_offset, piece.first_position = first, position
        before, piece.last_offset = piece.last_offset, last
        if before == NOTHING:
            return None
        if first <= before:
            return _falls(first, before)
        piece.missing += first - before - 1
        return None

    def misplaced(self, event: Event) -> None:
        """Take a batch of a producer that is out of its place."""
        self._met[event.producer] = _lost(event, self._met.get(event.producer))

    def take(self, event: Event) -> _Told | None:
        """Take a batch of a producer, or a marker, after its offsets; what it breaks, if it does."""
        if event.position == self.piece.first_position:
            # Whether it is in its place is not known here.
            self.piece.put_off.append(event)
            return None
        state = _remembered(event, self._met.get(event.producer))
        if state is None or (not event.marker and event.epoch == state.epoch and state.last == _UNKNOWN):
            self.piece.put_off.append(event)
        told = None if state is None else _broken(event, state)
        if state is None or told is None:
            self._met[event.producer] = _after(event, state)
            return None if state is None else self._gap(event, state)
        self._met[event.producer] = _lost(event, state)
        return told

    def _gap(self, event: Event, state: State) -> _Told | None:
        gap = _gap_told(event, state)
        if gap is None:
            return None
        hint, is_certain = gap
        if is_certain:
            return _GAP, hint
        self.piece.gaps.append(Gap(event.position, event.base_offset, hint))
        return None

    def done(self) -> Piece:
        """The piece, with the states in which it leaves its producers."""
        self.piece.states = self._met
        return self.piece


_GAP = "sequence.gap-out-of-order"
_NEVER = 1 << 63


def _falls(first: int, before: int) -> _Told:
    return "log.offsets-rise", f"offset {first} after {before}"


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
    partition = _Partition(untouched, certain=bool(ordered) and untouched <= ordered[0].segment)
    for piece in ordered:
        yield from (
            Finding(piece.path, at, offset, rule, MUST, hint) for at, offset, rule, hint in partition.add(piece)
        )


class _Partition:
    """A partition as far as its pieces were added."""

    def __init__(self, untouched: int, *, certain: bool) -> None:
        self.untouched = untouched
        """The first segment that compaction never saw."""
        self.certain = certain
        self.states: dict[int, State] = {}
        self.last = NOTHING
        self.missing = self.damage = 0

    def add(self, piece: Piece) -> Iterator[tuple[int, int, str, str]]:
        """Take the next piece; yields position, base offset, requirement and detail of what its neighbours show."""
        misplaced = False
        if piece.last_offset > NOTHING:
            misplaced = NOTHING < self.last >= piece.first_offset
            if misplaced:
                yield piece.first_position, piece.first_offset, *_falls(piece.first_offset, self.last)
            elif self.last > NOTHING:
                self.missing += piece.first_offset - self.last - 1
            self.last = piece.last_offset
        yield from self._put_off(piece, misplaced=misplaced)
        if self.untouched <= piece.segment:
            yield from ((gap.position, gap.base_offset, _GAP, gap.detail) for gap in piece.gaps)
        self.missing += piece.missing
        self.damage += piece.damage

    def _put_off(self, piece: Piece, *, misplaced: bool) -> Iterator[tuple[int, int, str, str]]:
        """Judge what the piece put off, and take its states over."""
        lost = set()
        for event in piece.put_off:
            moved = msgspec.structs.replace(
                event, missing=event.missing + self.missing, damage=event.damage + self.damage
            )
            if misplaced and event.position == piece.first_position:
                self.states[event.producer] = _lost(moved, self.states.get(event.producer))
                continue
            told = _judged(moved, self.states, certain=self.certain)
            if told is not None:
                yield event.position, event.base_offset, *told
                lost.add(event.producer)
        for producer, state in piece.states.items():
            self.states[producer] = _moved(state, self.states.get(producer), self.missing, self.damage)
            if producer in lost:
                self.states[producer].last = _ANY


def _judged(event: Event, states: dict[int, State], *, certain: bool) -> _Told | None:
    """What an event that was put off breaks; the state after it goes to `states`."""
    state = _remembered(event, states.get(event.producer))
    told = None if state is None else _broken(event, state)
    if state is not None and told is not None:
        states[event.producer] = _lost(event, state)
        return told
    states[event.producer] = _after(event, state)
    gap = None if state is None else _gap_told(event, state)
    return (_GAP, gap[0]) if gap is not None and (certain or gap[1]) else None


def _moved(state: State, before: State | None, missing: int, damage: int) -> State:
    """The state in which a piece leaves a producer, as the partition counts, with what only earlier pieces knew."""
    last = before.last if before is not None and state.last == _UNKNOWN and before.epoch == state.epoch else state.last
    held = before is not None and (before.open or state.time - before.time < _FORGOTTEN)
    epoch = max(state.epoch, before.epoch) if before is not None and held else state.epoch
    return State(epoch, last, state.open, state.missing + missing, state.damage + damage, state.time)
