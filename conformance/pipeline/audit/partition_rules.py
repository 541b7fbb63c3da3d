"""The rules between the batches of a partition: offsets rise, sequences of a producer follow, transactions close.

A partition is audited in parts, and no part has access to the others. A part postpones the batches that depend on
earlier parts: the first batches of each producer. `check_partition` then takes the parts in order and judges the
postponed batches by the same rules.

The rules are those of Apache Kafka's partition leader (ProducerStateManager), see sequence-number-semantics. They are
relaxed for later changes of a log: its head may be deleted, and compaction may have removed any batch. So a gap in a
producer's sequences is a finding only in two cases: fewer offsets than sequences are missing; or the log was never
compacted, which the caller states or a record without a key proves (compaction removes such records).
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

# Values of ProducerState.last in place of a sequence.
_FRESH = -1
"""A new epoch without a batch: the next sequence must be 0."""
_UNKNOWN = -2
"""The sequence is in an earlier part."""
_ANY = -3
"""A batch was out of order: the next sequence can be any."""

_GAP = "sequence.gap-out-of-order"
_NEVER = 1 << 63

_BACKWARDS = 1 << 30
"""From this distance between sequences, modulo 2^31, a batch repeats earlier sequences."""

_FORGOTTEN = 24 * 60 * 60 * 1000
"""Milliseconds after which a broker forgets an idle producer without a transaction (producer.id.expiration.ms).
Then it accepts any epoch and any sequence of this producer."""


# --- one producer -------------------------------------------------------------------------------------


def _after(batch: ProducerBatch, state: ProducerState | None) -> ProducerState:
    """Return the state after a correct batch."""
    last, is_open = batch.last, batch.transactional
    if batch.marker:
        last = _UNKNOWN if state is None else _FRESH if batch.epoch > state.epoch else state.last
        is_open = False
    return ProducerState(batch.epoch, last, is_open, batch.missing, batch.damage, batch.time)


def _after_breach(batch: ProducerBatch, state: ProducerState | None) -> ProducerState:
    """Return the state after a batch that is out of order: the next sequence can be any."""
    epoch = batch.epoch if state is None else max(batch.epoch, state.epoch)
    is_open = batch.transactional and not batch.marker
    return ProducerState(epoch, _ANY, is_open, batch.missing, batch.damage, batch.time)


def _remembered(batch: ProducerBatch, state: ProducerState | None) -> ProducerState | None:
    """Return the state that a broker still has of a producer when a batch arrives."""
    if state is None or state.open or batch.time - state.time < _FORGOTTEN:
        return state
    return ProducerState(batch.epoch, _ANY, False, batch.missing, batch.damage, batch.time)  # noqa: FBT003 - `open`


def _breach(batch: ProducerBatch, state: ProducerState) -> RuleViolation | None:
    """Return the violation of a batch, except gaps."""
    producer = batch.producer
    if batch.epoch < state.epoch:
        hint = f"epoch {batch.epoch} of producer {producer}, expected {state.epoch}, its last epoch, or a later one"
        return RuleViolation("producer-epoch.fences", hint)
    if batch.marker:
        return None
    if state.open and not batch.transactional and batch.damage == state.damage:
        hint = f"a batch outside a transaction, expected a batch in the open transaction of producer {producer}"
        return RuleViolation("attributes.transactional-bit", hint)
    distance = _distance(batch, state)
    if distance is not None and distance >= _BACKWARDS:
        hint = f"sequences {batch.first} to {batch.last} of producer {producer}, expected {_expected(batch, state)}"
        return RuleViolation("sequence.duplicate-deduplicated", hint)
    return None


def _expected(batch: ProducerBatch, state: ProducerState) -> int:
    return 0 if batch.epoch > state.epoch or state.last == _FRESH else next_sequence(state.last, 1)


def _distance(batch: ProducerBatch, state: ProducerState) -> int | None:
    """Return the distance of a batch from the expected sequence, modulo 2^31; None if any sequence can follow."""
    if batch.epoch == state.epoch and state.last in (_UNKNOWN, _ANY):
        return None
    return (batch.first - _expected(batch, state)) % (1 << 31)


def _gap(batch: ProducerBatch, state: ProducerState) -> tuple[str, bool] | None:
    """Return the detail of missing sequences before a batch, and whether compaction cannot explain the gap.

    None without a gap, or with damaged bytes between the batches.
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
    """The rules within a part: it takes the sound batches in order and updates the state of the part."""

    def __init__(self, part: PartState) -> None:
        self.part = part
        self._producers: dict[int, ProducerState] = {}

    def damaged(self) -> None:
        """Take an unreadable region: a later gap may be its records."""
        self.part.damage += 1

    def take_offsets(self, position: int, first: int, last: int) -> RuleViolation | None:
        """Take the offsets of the entry at a position; return the violation if they do not rise."""
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
        """Take a batch of a producer whose offsets do not rise."""
        self._producers[batch.producer] = _after_breach(batch, self._producers.get(batch.producer))

    def take(self, batch: ProducerBatch) -> RuleViolation | None:
        """Take a batch or marker of a producer after its offsets; return the violation, if any."""
        if batch.position == self.part.first_position:
            # The offset of the first batch can be checked only against the part before this one.
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
        """Return the state of the part, with the last state of each producer."""
        self.part.producers = self._producers
        return self.part


def _not_rising(first: int, before: int) -> RuleViolation:
    hint = f"first offset {first}, expected {before + 1} or more: the batch before ends with offset {before}"
    return RuleViolation("log.offsets-rise", hint)


# --- the parts of a partition -------------------------------------------------------------------------


def check_partition(parts: Iterable[PartState], *, uncompacted: bool = False) -> Iterator[AuditFinding]:
    """Yield the findings between the parts of one partition, given in any order.

    `uncompacted`: no segment was ever compacted, so that no batch may be missing.
    """
    ordered = sorted(parts, key=lambda part: (part.segment, part.start))
    # Compaction begins at the head of a log: after an uncompacted segment, all later segments are uncompacted too.
    untouched = min((part.segment for part in ordered if part.keyless or uncompacted), default=_NEVER)
    partition = _PartitionCheck(untouched, certain=bool(ordered) and untouched <= ordered[0].segment)
    for part in ordered:
        for position, base_offset, breach in partition.add(part):
            yield AuditFinding(part.path, position, base_offset, breach.requirement, MUST, breach.detail)


_Placed = tuple[int, int, RuleViolation]
"""Position and base offset of a batch, and its violation."""


class _PartitionCheck:
    """The state of a partition after the parts that were added."""

    def __init__(self, untouched: int, *, certain: bool) -> None:
        self.untouched = untouched
        """The base offset of the first segment that was never compacted."""
        self.certain = certain
        """True if no segment was ever compacted."""
        self.producers: dict[int, ProducerState] = {}
        self.last = NO_OFFSET
        self.missing = self.damage = 0

    def add(self, part: PartState) -> Iterator[_Placed]:
        """Take the next part; yield the violations that depend on earlier parts."""
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
        """Judge the postponed batches of a part, and take over the states of its producers."""
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
        """Return the violation of a postponed batch, and update the state of its producer."""
        state = _remembered(batch, self.producers.get(batch.producer))
        breach = None if state is None else _breach(batch, state)
        if breach is not None:
            self.producers[batch.producer] = _after_breach(batch, state)
            return breach
        self.producers[batch.producer] = _after(batch, state)
        gap = None if state is None else _gap(batch, state)
        return RuleViolation(_GAP, gap[0]) if gap is not None and (self.certain or gap[1]) else None

    def _carried_over(self, state: ProducerState, before: ProducerState | None) -> ProducerState:
        """Return the last state of a producer in a part, with counts from the start of the partition.

        Values that are unknown in the part come from the earlier parts.
        """
        is_unseen = before is not None and state.last == _UNKNOWN and before.epoch == state.epoch
        last = before.last if before is not None and is_unseen else state.last
        is_remembered = before is not None and (before.open or state.time - before.time < _FORGOTTEN)
        epoch = max(state.epoch, before.epoch) if before is not None and is_remembered else state.epoch
        missing, damage = state.missing + self.missing, state.damage + self.damage
        return ProducerState(epoch, last, state.open, missing, damage, state.time)
