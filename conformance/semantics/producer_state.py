"""A broker's checks of producer sequence numbers (record-batch#sequence-number-semantics).

The state of each producer starts empty; only accepted batches change it. The rules were confirmed with Apache Kafka's
producer state manager. If the documents are silent (a partial overlap, the number of remembered batches), any answer is
right. An unknown producer may begin with a sequence other than 0: `accept` and `out-of-order` are both right.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from conformance.codec import json_notation as n
from conformance.codec.derived_fields import Values

ANSWERS = ("accept", "duplicate", "out-of-order", "fenced")
ANY_RESULT = frozenset(ANSWERS)

BATCHES = n.ListOf(
    n.ObjectOf({"producerId": n.DECIMAL, "producerEpoch": n.NUMBER, "baseSequence": n.NUMBER, "recordCount": n.NUMBER}),
    nullable=False,
)
"""The batches of a `sequence` request."""

_REMEMBERED = 5
"""The number of last batches of a producer that a broker recognizes as duplicates."""

_FOLLOWED = 32
"""Maximum number of possible states of a producer; each batch that may be its first one adds a state."""


def next_sequence(sequence: int, records: int) -> int:
    """Return the sequence number after some records; 0 follows 2147483647."""
    return (sequence + records) % (1 << 31)


class _ProducerState(Struct, frozen=True):
    """The state of a producer in a broker."""

    epoch: int
    batches: tuple[tuple[int, int], ...] = ()
    """The first and last sequence of each of the last batches accepted in this epoch."""
    stored: int = 0
    """Records accepted in this epoch."""
    unsure: bool = False
    """True after unspecified behaviour: any answer to later batches of this epoch is right."""


_State = _ProducerState | None
"""None if the broker does not know the producer."""
_ANY_STATE = _ProducerState(-1)
"""The state of a producer after a batch without epoch or sequence: any answer to its next batches is right."""


def allowed_results(batches: Iterable[Values]) -> list[frozenset[str]]:
    """Return the right answers to each batch; after several right answers, the broker can be in several states."""
    producers: dict[int, frozenset[_State]] = {}
    return [_answers(producers, batch) for batch in batches]


def kafka_results(batches: Iterable[Values]) -> list[str]:
    """Return Apache Kafka's answers: any first sequence is accepted; an unrecognized repeat is out of order."""
    producers: dict[int, _State] = {}
    answers = []
    for batch in batches:
        known = producers.get(batch["producerId"])
        fates = {"accept": known} if batch["producerId"] < 0 else dict(_possible_results(known, batch))
        preferred = "accept" if known is None else "out-of-order"
        answer = preferred if preferred in fates else next(iter(fates))
        producers[batch["producerId"]] = fates[answer]
        answers.append(answer)
    return answers


def _answers(producers: dict[int, frozenset[_State]], batch: Values) -> frozenset[str]:
    identity = batch["producerId"]
    if identity < 0:
        return frozenset(("accept",))
    states = producers.get(identity, frozenset((None,)))
    fates = {fate for state in states for fate in _possible_results(state, batch)}
    producers[identity] = _merge_states({after for _, after in fates})
    return frozenset(answer for answer, _ in fates)


def _merge_states(states: set[_State]) -> frozenset[_State]:
    """Drop states that change no answer. If too many remain, return the state that permits every answer."""
    extremes: dict[object, list[_ProducerState]] = {}
    for state in states:
        if state is not None:
            extremes.setdefault((state.epoch, state.batches, state.unsure), []).append(state)
    # Of states that differ only in `stored`, the lowest and the highest permit all answers of the others.
    kept: set[_State] = {pick(alike, key=_stored) for alike in extremes.values() for pick in (min, max)}
    kept |= states & {None}
    return frozenset(kept) if len(kept) <= _FOLLOWED else frozenset((_ANY_STATE,))


def _stored(producer: _ProducerState) -> int:
    return producer.stored


def _possible_results(known: _State, batch: Values) -> set[tuple[str, _State]]:
    """Return the right answers to a batch, each with the state of the producer after it."""
    epoch, first, count = batch["producerEpoch"], batch["baseSequence"], batch["recordCount"]
    if epoch < 0 or first < 0 or count < 1 or known == _ANY_STATE:
        return {(answer, _ANY_STATE) for answer in ANSWERS}
    if known is None or epoch > known.epoch:
        new_state = _accepted(_ProducerState(epoch), first, count)
        if first == 0:
            return {("accept", new_state)}
        # Apache Kafka accepts any first sequence. The documents are silent, so another broker may require 0.
        return {("out-of-order", known)} | ({("accept", new_state)} if known is None else set())
    if epoch < known.epoch:
        return {("fenced", known)}
    return {(answer, known) for answer in ANSWERS} if known.unsure else _fates_in_epoch(known, first, count)


def _fates_in_epoch(known: _ProducerState, first: int, count: int) -> set[tuple[str, _State]]:
    """Return the right answers to a batch in the current epoch, each with the state after it."""
    if _span(first, count) in known.batches:
        return {("duplicate", known)}
    expected = next_sequence(known.batches[-1][1], 1)
    if first == expected:
        return {("accept", _accepted(known, first, count))}
    # A sequence less than 2^30 ahead is a gap, unless a record before the wrap has this number. Every other sequence is
    # a repeat or an overlap, which the documents do not cover.
    ahead = next_sequence(first, -expected)
    if ahead < 1 << 30 and ahead + known.stored < 1 << 31:
        return {("out-of-order", known)}
    return {(answer, replace(known, unsure=True)) for answer in ANSWERS}


def _span(first: int, count: int) -> tuple[int, int]:
    return first, next_sequence(first, count - 1)


def _accepted(producer: _ProducerState, first: int, count: int) -> _ProducerState:
    batches = (*producer.batches, _span(first, count))[-_REMEMBERED:]
    return replace(producer, batches=batches, stored=producer.stored + count)
