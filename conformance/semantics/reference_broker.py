"""A broker that runs the steps of a scenario: it gives identities, fences old instances, and keeps one partition."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from conformance.codec.derived_fields import Values
from conformance.semantics.broker_steps import (
    BASE_TIME_MS,
    BEYOND_END,
    END,
    START,
    Compact,
    CompactionResult,
    DeleteRecords,
    DeleteRecordsResult,
    EndTransaction,
    ExpireByRetention,
    Fetch,
    FetchResult,
    InitProducerId,
    InitProducerIdResult,
    ListedTransaction,
    ListOffsets,
    ListOffsetsResult,
    Produce,
    ProduceRawBytes,
    ProduceResult,
    ProducerIdentity,
    RetryProduce,
    Step,
    StepDone,
    StepResult,
    batch_of,
)
from conformance.semantics.consumer_view import AbortedTransaction, consumer_view
from conformance.semantics.format_conversion import convert
from conformance.semantics.partition_log import PartitionLog

_FIRST_IDENTITY = 4000
_NOW, _DAY = 1_800_000_000_000, 86_400_000
"""The time of the compaction, and how long it keeps records with a null value, in milliseconds."""
_MAGIC_1 = 2
"""The first version of Fetch that carries messages of magic 1."""
_FENCED = "a newer instance has begun"


def outcomes(steps: Sequence[Step], results: Sequence[StepResult]) -> list[object]:
    """Return the outcome of each step: `ok`, `refused`, `either`, or the labels that a consumer sees."""
    return [_outcome(step, one) for step, one in zip(steps, results, strict=True)]


def _outcome(step: Step, result: StepResult) -> object:
    if isinstance(step, ProduceRawBytes):
        return "either"
    if result.refused or not isinstance(step, Fetch) or not isinstance(result, FetchResult):
        return "refused" if result.refused else "ok"
    listed = [AbortedTransaction(int(one.producer_id), int(one.first_offset)) for one in result.aborted]
    seen = consumer_view(bytes.fromhex(result.hex), int(result.fetch_offset), isolation=step.isolation, aborted=listed)
    return [_label(record) for record in seen.records]


def _label(record: Values) -> str:
    """Return the value of a record; for a tombstone, its key after a minus sign."""
    key, value = record["key"] or b"", record["value"]
    return str((b"-" + key if value is None else value).decode())


class ReferenceBroker(Struct):
    """The reference's broker."""

    log: PartitionLog = field(default_factory=PartitionLog)
    _producers: dict[str, ProducerIdentity] = field(default_factory=dict)
    _identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and newest epoch, by transactional id."""
    _offsets: dict[str, int] = field(default_factory=dict)
    """The offset of each record, by label."""
    _offsets_by_step: dict[int, str] = field(default_factory=dict)
    """The offset of each batch, by step."""
    _given: int = _FIRST_IDENTITY

    def play(self, steps: Sequence[Step]) -> list[StepResult]:
        """Return the result of each step."""
        return [self._did(at, step) for at, step in enumerate(steps)]

    def _did(self, at: int, step: Step) -> StepResult:
        match step:
            case InitProducerId():
                return self._begin(step)
            case Produce():
                return self._write(at, step)
            case EndTransaction():
                return self._end(step)
            case Fetch():
                return self._fetch(step)
            case ProduceRawBytes():
                return ProduceResult(refused="it is no batch of a producer")
            case RetryProduce():
                return ProduceResult(offset=self._offsets_by_step[step.step])
        return self._to_log(step)

    def _to_log(self, step: Step) -> StepResult:
        match step:
            case ListOffsets():
                return self._find(step)
            case DeleteRecords():
                return DeleteRecordsResult(low_watermark=str(self.log.delete(self._places()[step.before])))
            case Compact():
                self.log.compact(_NOW + _DAY, tombstones=step.tombstones)
                return CompactionResult(since=str(_NOW))
            case ExpireByRetention():
                self.log.delete(self.log.end)
        return StepDone()

    def _find(self, step: ListOffsets) -> StepResult:
        if step.time is None:
            return ListOffsetsResult(offset=str(self.log.start if step.offset == "earliest" else self.log.end))
        offset, time = self.log.find(BASE_TIME_MS + step.time)
        return ListOffsetsResult(offset=str(offset), time=str(time))

    def _begin(self, step: InitProducerId) -> StepResult:
        known = self._identities.get(step.transactional_id) if step.transactional_id is not None else None
        if known is None:
            self._given += 1
            identity, epoch = self._given, 0
        else:
            # As in Kafka, a new instance fences the old epoch and aborts its open transaction.
            identity, epoch = known[0], known[1] + 1
            self.log.write_marker(identity, epoch, commit=False)
        if step.transactional_id is not None:
            self._identities[step.transactional_id] = identity, epoch
        self._producers[step.producer] = ProducerIdentity(identity, epoch, step.transactional_id, step.sequence)
        return InitProducerIdResult(producer_id=str(identity), producer_epoch=epoch)

    def _is_fenced(self, producer: ProducerIdentity) -> bool:
        named = producer.transactional_id
        return named is not None and self._identities[named][1] > producer.epoch

    def _write(self, at: int, step: Produce) -> StepResult:
        producer = self._producers[step.producer] if step.producer else None
        if producer and self._is_fenced(producer):
            return ProduceResult(refused=_FENCED)
        offset = self.log.append(batch_of(step, at, producer))
        if producer:
            producer.wrote(step.records)
        self._offsets_by_step[at] = str(offset)
        self._offsets.update((label, offset + index) for index, label in enumerate(step.labels(at)))
        return ProduceResult(offset=str(offset))

    def _end(self, step: EndTransaction) -> StepResult:
        producer = self._producers[step.producer]
        if self._is_fenced(producer):
            return StepDone(refused=_FENCED)
        self.log.write_marker(producer.identity, producer.epoch, commit=step.commit)
        return StepDone()

    def _fetch(self, step: Fetch) -> StepResult:
        offset = self._places().get(step.at, -1)
        if not self.log.start <= offset <= self.log.end:
            return FetchResult(refused="there is no such offset")
        if step.version is not None:
            return self._older(step, offset, 0 if step.version < _MAGIC_1 else 1)
        listed = self.log.aborted_from(offset)
        return FetchResult(
            hex=self.log.fetch(offset, step.isolation, step.max_bytes).hex(),
            fetch_offset=str(offset),
            high_watermark=str(self.log.end),
            last_stable_offset=str(self.log.last_stable_offset),
            log_start=str(self.log.start),
            aborted=[ListedTransaction(str(one.producer_id), str(one.first_offset)) for one in listed],
        )

    def _older(self, step: Fetch, offset: int, magic: int) -> FetchResult:
        """Return the result of a fetch that carries messages of a magic, which has no markers."""
        data = convert(self.log.fetch(offset, step.isolation, step.max_bytes), magic)
        return FetchResult(hex=data.hex(), fetch_offset=str(offset), high_watermark=str(self.log.end))

    def _places(self) -> dict[str, int]:
        """Return the offset of each place."""
        return {**self._offsets, START: 0, END: self.log.end, BEYOND_END: self.log.end + 1}
