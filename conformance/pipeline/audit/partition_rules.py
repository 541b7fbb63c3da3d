"""The rules between the batches of a partition: offsets rise, sequences of a producer follow, transactions close.

A partition is audited in parts, and no part knows the others. A part judges what it can and postpones what depends on
earlier parts: the first batches of each producer. `check_partition` then goes through the parts in order and judges
what they postponed, by the same rules.

The rules are those of Apache Kafka's partition leader (ProducerStateManager), see sequence-number-semantics. They are
relaxed for what may happen to a log later: its head may be deleted, and compaction may have removed any batch. So a gap
in a producer's sequences is a finding only in two cases: no offsets are missing that the lost records may have had; or
nothing was ever compacted, because the caller says so or because a record without a key proves it (compaction removes
such records).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from conformance.pipeline.audit.part_state import (
    MUST,
    NO_OFFSET,
    AuditFinding,
    PartState,
    ProducerBatch,
    ProducerState,
    RuleViolation,
    SequenceGap,
)
from conformance.semantics.producer_state import next_sequence

# Values of ProducerState.last instead of a sequence.
_FRESH = -1
"""A new epoch without a batch: sequence 0 has to follow."""
_UNKNOWN = -2
"""This part has not seen the sequence."""
_ANY = -3
"""A batch was out of order; any sequence may follow."""

_GAP = "sequence.gap-out-of-order"
_NEVER = 1 << 63

_BACKWARDS = 1 << 30
"""A distance between sequences, modulo 2^31, from here on means that the batch goes back."""

_FORGOTTEN = 24 * 60 * 60 * 1000
"""Milliseconds after which a broker forgets a producer that is idle outside a transaction (producer.id.expiration.ms);
after that it accepts any epoch and any sequence from it."""


# --- one producer -------------------------------------------------------------------------------------


def _after(batch: ProducerBatch, state: ProducerState | None) -> ProducerState:
    """The state after a batch that breaks nothing."""
    last, is_open = batch.last, batch.transactional
    if batch.marker:
        last = _UNKNOWN if state is None else _FRESH if batch.epoch > state.epoch else state.last
        is_open = False
    return ProducerState(batch.epoch, last, is_open, batch.missing, batch.damage, batch.time)


def _after_breach(batch: ProducerBatch, state: ProducerState | None) -> ProducerState:
    """The state after a batch that is out of order: any sequence may follow."""
    epoch = batch.epoch if state is None else max(batch.epoch, state.epoch)
    is_open = batch.transactional and not batch.marker
    return ProducerState(epoch, _ANY, is_open, batch.missing, batch.damage, batch.time)


def _remembered(batch: ProducerBatch, state: ProducerState | None) -> ProducerState | None:
    """What a broker still knows of a producer when a batch of it arrives."""
    if state is None or state.open or batch.time - state.time < _FORGOTTEN:
        return state
    return ProducerState(batch.epoch, _ANY, False, batch.missing, batch.damage, batch.time)  # noqa: FBT003 - `open`


def _breach(batch: ProducerBatch, state: ProducerState) -> RuleViolation | None:
    """What a batch breaks, gaps excepted."""
    producer = batch.producer
    if batch.epoch < state.epoch:
        hint = f"epoch {batch.epoch} of producer {producer}, expected {state.epoch}, its last one, or a later one"
        return RuleViolation("producer-epoch.fences", hint)
    if batch.marker:
        return None
    if state.open and not batch.transactional and batch.damage == state.damage:
        hint = f"a batch outside a transaction, expected one in the open transaction of producer {producer}"
        return RuleViolation("attributes.transactional-bit", hint)
    distance = _distance(batch, state)
    if distance is not None and distance >= _BACKWARDS:
        hint = f"sequences {batch.first} to {batch.last} of producer {producer}, expected {_expected(batch, state)}"
        return RuleViolation("sequence.duplicate-deduplicated", hint)
    return None


def _expected(batch: ProducerBatch, state: ProducerState) -> int:
    return 0 if batch.epoch > state.epoch or state.last == _FRESH else next_sequence(state.last, 1)


def _distance(batch: ProducerBatch, state: ProducerState) -> int | None:
    """How far beyond the expected sequence a batch begins, modulo 2^31; None where no sequence is expected."""
    if batch.epoch == state.epoch and state.last in (_UNKNOWN, _ANY):
        return None
    return (batch.first - _expected(batch, state)) % (1 << 31)


def _gap(batch: ProducerBatch, state: ProducerState) -> tuple[str, bool] | None:
    """The sequences that are missing before a batch, and whether compaction cannot explain it.

    None where none are missing, or where damage lies between.
    """
    if batch.marker or batch.damage != state.damage:
        return None
    distance = _distance(batch, state)
    if not distance or distance >= _BACKWARDS:
        return None
    missing = batch.missing - state.missing
    hint = f"sequence {batch.first} of producer {batch.producer}, expected {_expected(batch, state)}"
    return f"{hint}; {missing} offsets are missing before it", missing < distance


# --- one part -----------------------------------------------------------------------------------------


class PartRules:
    """Takes the sound batches of a part in order, judges what it can, and keeps the part's state."""

    def __init__(self, part: PartState) -> None:
        self.part = part
        self._producers: dict[int, ProducerState] = {}

    def damaged(self) -> None:
        """Take a place that cannot be read: what depended on it is not known."""
        self.part.damage += 1

    def take_offsets(self, position: int, first: int, last: int) -> RuleViolation | None:
        """Take the offsets of the entry at a position; what is returned says that the entry is out of place."""
        part = self.part
        if part.last_offset == NO_OFFSET:
            part.first_offset, part.first_position = first, position
        before, part.last_offset = part.last_offset, last
        if before == NO_OFFSET:
            return None
        if first <= before:
            return _not_rising(first, before)
        part.missing += first - before - 1
        return None

    def take_misplaced(self, batch: ProducerBatch) -> None:
        """Take a batch of a producer whose offsets are out of place."""
        self._producers[batch.producer] = _after_breach(batch, self._producers.get(batch.producer))

    def take(self, batch: ProducerBatch) -> RuleViolation | None:
        """Take a batch of a producer, or a marker, after its offsets; what it breaks, if anything."""
        if batch.position == self.part.first_position:
            # Only the part before this one tells whether the batch is in its place.
            self.part.postponed.append(batch)
            return None
        state = _remembered(batch, self._producers.get(batch.producer))
        if state is None or (not batch.marker and batch.epoch == state.epoch and state.last == _UNKNOWN):
            self.part.postponed.append(batch)
        breach = None if state is None else _breach(batch, state)
        if state is None or breach is None:
            self._producers[batch.producer] = _after(batch, state)
            return None if state is None else self._take_gap(batch, state)
        self._producers[batch.producer] = _after_breach(batch, state)
        return breach

    def _take_gap(self, batch: ProducerBatch, state: ProducerState) -> RuleViolation | None:
        gap = _gap(batch, state)
        if gap is None:
            return None
        hint, is_certain = gap
        if is_certain:
            return RuleViolation(_GAP, hint)
        self.part.gaps.append(SequenceGap(batch.position, batch.base_offset, hint))
        return None

    def finish(self) -> PartState:
        """The state of the part, with the states in which it leaves its producers."""
        self.part.producers = self._producers
        return self.part


def _not_rising(first: int, before: int) -> RuleViolation:
    hint = f"first offset {first}, expected {before + 1} or more: {before} is the last offset of the batch before"
    return RuleViolation("log.offsets-rise", hint)


# --- the parts of a partition -------------------------------------------------------------------------


def check_partition(parts: Iterable[PartState], *, uncompacted: bool = False) -> Iterator[AuditFinding]:
    """What is found only between the parts of one partition. They come in any order.

    `uncompacted`: no segment of it was ever compacted, so that no batch may be missing.
    """
    ordered = sorted(parts, key=lambda part: (part.segment, part.start))
    # Compaction begins at the head of a log: if it never saw a segment, it never saw a later one either.
    untouched = min((part.segment for part in ordered if part.keyless or uncompacted), default=_NEVER)
    partition = _PartitionCheck(untouched, certain=bool(ordered) and untouched <= ordered[0].segment)
    for part in ordered:
        for position, base_offset, breach in partition.add(part):
            yield AuditFinding(part.path, position, base_offset, breach.requirement, MUST, breach.detail)


_Placed = tuple[int, int, RuleViolation]
"""Position, base offset, and what the batch there breaks."""


class _PartitionCheck:
    """A partition as far as its parts were added."""

    def __init__(self, untouched: int, *, certain: bool) -> None:
        self.untouched = untouched
        """The first segment that compaction never saw."""
        self.certain = certain
        """Whether compaction saw none of the segments."""
        self.producers: dict[int, ProducerState] = {}
        self.last = NO_OFFSET
        self.missing = self.damage = 0

    def add(self, part: PartState) -> Iterator[_Placed]:
        """Take the next part; yields what its neighbours show of it."""
        misplaced = False
        if part.last_offset > NO_OFFSET:
            misplaced = NO_OFFSET < self.last >= part.first_offset
            if misplaced:
                yield part.first_position, part.first_offset, _not_rising(part.first_offset, self.last)
            elif self.last > NO_OFFSET:
                self.missing += part.first_offset - self.last - 1
            self.last = part.last_offset
        yield from self._postponed(part, misplaced=misplaced)
        if self.untouched <= part.segment:
            yield from ((gap.position, gap.base_offset, RuleViolation(_GAP, gap.detail)) for gap in part.gaps)
        self.missing += part.missing
        self.damage += part.damage

    def _postponed(self, part: PartState, *, misplaced: bool) -> Iterator[_Placed]:
        """Judge what the part postponed, and take over the states of its producers."""
        out_of_order = set()
        for postponed in part.postponed:
            batch = msgspec.structs.replace(
                postponed, missing=postponed.missing + self.missing, damage=postponed.damage + self.damage
            )
            if misplaced and batch.position == part.first_position:
                self.producers[batch.producer] = _after_breach(batch, self.producers.get(batch.producer))
                continue
            breach = self._judge(batch)
            if breach is not None:
                yield batch.position, batch.base_offset, breach
                out_of_order.add(batch.producer)
        for producer, state in part.producers.items():
            self.producers[producer] = self._carried_over(state, self.producers.get(producer))
            if producer in out_of_order:
                self.producers[producer].last = _ANY

    def _judge(self, batch: ProducerBatch) -> RuleViolation | None:
        """What a postponed batch breaks; keeps the state after it."""
        state = _remembered(batch, self.producers.get(batch.producer))
        breach = None if state is None else _breach(batch, state)
        if breach is not None:
            self.producers[batch.producer] = _after_breach(batch, state)
            return breach
        self.producers[batch.producer] = _after(batch, state)
        gap = None if state is None else _gap(batch, state)
        return RuleViolation(_GAP, gap[0]) if gap is not None and (self.certain or gap[1]) else None

    def _carried_over(self, state: ProducerState, before: ProducerState | None) -> ProducerState:
        """The state in which a part leaves a producer, counted from the start of the partition.

        What the part did not see is taken from the parts before it.
        """
        is_unseen = before is not None and state.last == _UNKNOWN and before.epoch == state.epoch
        last = before.last if before is not None and is_unseen else state.last
        is_remembered = before is not None and (before.open or state.time - before.time < _FORGOTTEN)
        epoch = max(state.epoch, before.epoch) if before is not None and is_remembered else state.epoch
        missing, damage = state.missing + self.missing, state.damage + self.damage
        return ProducerState(epoch, last, state.open, missing, damage, state.time)
