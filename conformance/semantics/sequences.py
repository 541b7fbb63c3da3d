"""What a broker makes of the sequence numbers of a producer's batches (record-batch#sequence-number-semantics).

The state of each producer starts empty; only accepted batches change it. Confirmed against Apache Kafka's producer
state manager; what the documents leave open (a partial overlap, how many batches back a repeat is known) is any answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.codec import notation as n
from conformance.codec.derivations import Values

ANSWERS = ("accept", "duplicate", "out-of-order", "fenced")
ANY = frozenset(ANSWERS)

BATCHES = n.ListOf(
    n.Fields({"producerId": n.DECIMAL, "producerEpoch": n.NUMBER, "baseSequence": n.NUMBER, "recordCount": n.NUMBER}),
    nullable=False,
)
"""The batches of a `sequence` request."""

_REMEMBERED = 5
"""Batches of a producer that a broker knows again."""


def next_sequence(sequence: int, records: int) -> int:
    """The sequence number so many records further on; after 2147483647 comes 0."""
    return (sequence + records) % (1 << 31)


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """First and last sequence of the last accepted batches of this epoch."""
    unsure: bool = False
    """An open place was met: which batches of this epoch the target has taken is its own choice."""


def judged(batches: Iterable[Values]) -> list[frozenset[str]]:
    """For each batch, the answers that are right."""
    producers: dict[int, _Producer] = {}
    return [_answer(producers, batch) for batch in batches]


def _answer(producers: dict[int, _Producer], batch: Values) -> frozenset[str]:
    identity, epoch, first = batch["producerId"], batch["producerEpoch"], batch["baseSequence"]
    if identity < 0:
        return frozenset(("accept",))
    known = producers.get(identity)
    if epoch < 0 or first < 0 or batch["recordCount"] < 1 or (known is not None and known.epoch < 0):
        # A producer without an epoch or a sequence, or a batch without records: nothing is said of any of them.
        producers[identity] = _Producer(-1)
        return ANY
    span = (first, next_sequence(first, batch["recordCount"] - 1))
    if known is None or (epoch > known.epoch and first == 0):
        known = producers[identity] = _Producer(epoch)
        return _accepted(known, span)
    if epoch < known.epoch:
        return frozenset(("fenced",))
    if epoch > known.epoch:
        return frozenset(("out-of-order",))
    return ANY if known.unsure else _in_epoch(known, span)


def _in_epoch(producer: _Producer, span: tuple[int, int]) -> frozenset[str]:
    """The answers to a batch of the producer's own epoch."""
    if span in producer.batches:
        return frozenset(("duplicate",))
    expected = next_sequence(producer.batches[-1][1], 1)
    if span[0] == expected:
        return _accepted(producer, span)
    # Half of all numbers count as ahead, the others lie behind: repeats and overlaps, of which nothing is said.
    if next_sequence(span[0], -expected) < 1 << 30:
        return frozenset(("out-of-order",))
    producer.unsure = True
    return ANY


def _accepted(producer: _Producer, span: tuple[int, int]) -> frozenset[str]:
    producer.batches.append(span)
    return frozenset(("accept",))
