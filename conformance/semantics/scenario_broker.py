"""A broker that plays the steps of a scenario: it gives identities, fences old instances, and keeps one partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.scenarios import (
    BEYOND,
    END,
    START,
    Began,
    Begin,
    Compact,
    Did,
    End,
    Fetch,
    Fetched,
    Listed,
    Producer,
    Send,
    Step,
    Told,
    Write,
    Wrote,
    batch_of,
)
from conformance.semantics.visibility import Aborted, view

_FIRST_IDENTITY = 4000
_FENCED = "a newer instance has begun"


def outcomes(steps: Sequence[Step], told: Sequence[Told]) -> list[object]:
    """What became of each step, in short: `ok`, `refused`, `either`, or the labels that a consumer is shown."""
    return [_outcome(step, one) for step, one in zip(steps, told, strict=True)]


def _outcome(step: Step, told: Told) -> object:
    if isinstance(step, Send):
        return "either"
    if told.refused or not isinstance(step, Fetch) or not isinstance(told, Fetched):
        return "refused" if told.refused else "ok"
    listed = [Aborted(int(one.producer_id), int(one.first_offset)) for one in told.aborted]
    seen = view(bytes.fromhex(told.hex), int(told.fetch_offset), isolation=step.isolation, aborted=listed)
    return [record["value"].decode() for record in seen.records]


@dataclass(slots=True)
class ScenarioBroker:
    """The reference's broker."""

    log: PartitionLog = field(default_factory=PartitionLog)
    _producers: dict[str, Producer] = field(default_factory=dict)
    _identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and newest epoch, by transactional id."""
    _offsets: dict[str, int] = field(default_factory=dict)
    """By label."""
    _given: int = _FIRST_IDENTITY

    def play(self, steps: Sequence[Step]) -> list[Told]:
        """What it tells of each step."""
        return [self._did(at, step) for at, step in enumerate(steps)]

    def _did(self, at: int, step: Step) -> Told:
        match step:
            case Begin():
                return self._begin(step)
            case Write():
                return self._write(at, step)
            case End():
                return self._end(step)
            case Fetch():
                return self._fetch(step)
            case Send():
                return Wrote(refused="it is no batch of a producer")
            case Compact():
                self.log.compact()
        return Did()

    def _begin(self, step: Begin) -> Told:
        known = self._identities.get(step.transactional_id) if step.transactional_id is not None else None
        if known is None:
            self._given += 1
            identity, epoch = self._given, 0
        else:
            identity, epoch = known[0], known[1] + 1
            self.log.mark(identity, epoch, commit=False)
        if step.transactional_id is not None:
            self._identities[step.transactional_id] = identity, epoch
        self._producers[step.producer] = Producer(identity, epoch, step.transactional_id)
        return Began(producer_id=str(identity), producer_epoch=epoch)

    def _is_fenced(self, producer: Producer) -> bool:
        named = producer.transactional_id
        return named is not None and self._identities[named][1] > producer.epoch

    def _write(self, at: int, step: Write) -> Told:
        producer = self._producers[step.producer] if step.producer else None
        if producer and self._is_fenced(producer):
            return Wrote(refused=_FENCED)
        offset = self.log.append(batch_of(step, at, producer))
        if producer:
            producer.sequence += step.records
        self._offsets.update((label, offset + index) for index, label in enumerate(step.labels(at)))
        return Wrote(offset=str(offset))

    def _end(self, step: End) -> Told:
        producer = self._producers[step.producer]
        if self._is_fenced(producer):
            return Did(refused=_FENCED)
        self.log.mark(producer.identity, producer.epoch, commit=step.commit)
        return Did()

    def _fetch(self, step: Fetch) -> Told:
        places = {START: 0, END: self.log.end, BEYOND: self.log.end + 1}
        offset = {**self._offsets, **places}.get(step.at, -1)
        if not 0 <= offset <= self.log.end:
            return Fetched(refused="there is no such offset")
        listed = self.log.listed(offset)
        return Fetched(
            hex=self.log.fetch(offset, step.isolation, step.max_bytes).hex(),
            fetch_offset=str(offset),
            high_watermark=str(self.log.end),
            last_stable_offset=str(self.log.stable),
            aborted=[Listed(str(one.producer_id), str(one.first_offset)) for one in listed],
        )
