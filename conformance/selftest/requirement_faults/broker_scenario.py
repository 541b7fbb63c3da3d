"""One fault for each requirement on a broker's transactions, fetches and compaction."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field
from msgspec.structs import replace

from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.selftest.mutators import Mutator
from conformance.selftest.mutators.requests import with_broker
from conformance.semantics.broker_steps import InitProducerIdResult, Produce, Step, Told
from conformance.semantics.consumer_view import AbortedTransaction
from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.reference_broker import ReferenceBroker


class _ListsNoAborted(PartitionLog):
    def aborted_from(self, _: int) -> list[AbortedTransaction]:
        return []


class _StableOffsetAtEnd(PartitionLog):
    @property
    def last_stable_offset(self) -> int:
        return self.end


class _FetchesNextBatch(PartitionLog):
    def fetch(self, offset: int, isolation: str, most: int) -> bytes:
        inside = [one for one in self.batches if one["baseOffset"] < offset <= last_offset(one)]
        return super().fetch(last_offset(inside[0]) + 1 if inside else offset, isolation, most)


class _CompactionMovesSequences(PartitionLog):
    def compacted_batch(self, batch: Values, kept: set[int], horizon: int | None) -> Values:
        left = super().compacted_batch(batch, kept, horizon)
        gone = batch["recordCount"] - left["recordCount"]
        return {**left, "baseSequence": batch["baseSequence"] + gone} if batch["producerId"] >= 0 else left


class _DropsTombstones(PartitionLog):
    def compacted_batch(self, batch: Values, kept: set[int], horizon: int | None) -> Values:
        null = {record["offset"] for record in batch["records"] if record["value"] is None}
        return super().compacted_batch(batch, kept - null, horizon)


class _IgnoresDeleteRecords(PartitionLog):
    def delete(self, _: int) -> int:
        return self.start


class _FindsBatchNotRecord(PartitionLog):
    def find(self, time: int) -> tuple[int, int]:
        found = (one for one in self.batches if one["maxTimestamp"] >= time)
        return next(((first_offset(one), one["baseTimestamp"]) for one in found), (-1, -1))


class _OneProducerId(ReferenceBroker):
    given: InitProducerIdResult = field(
        default_factory=lambda: InitProducerIdResult(producer_id="4001", producer_epoch=0)
    )

    def play(self, steps: Sequence[Step]) -> list[Told]:
        """Give all producers the same id."""
        results = ReferenceBroker.play(self, steps)
        return [self.given if isinstance(one, InitProducerIdResult) else one for one in results]


class _AnswersAcksZero(ReferenceBroker):
    def play(self, steps: Sequence[Step]) -> list[Told]:
        """Answer Produce requests with acks=0."""
        results = ReferenceBroker.play(self, steps)
        return [
            replace(one, answered=True) if isinstance(step, Produce) and not step.wants_answer else one
            for step, one in zip(steps, results, strict=True)
        ]


SCENARIOS: dict[str, Mutator] = {
    "producer-id.assigned-by-broker": with_broker(_OneProducerId),
    "compaction.sequences-preserved": with_broker(lambda: ReferenceBroker(_CompactionMovesSequences())),
    "delete-horizon.kept-until": with_broker(lambda: ReferenceBroker(_DropsTombstones())),
    "broker.tells-log-start": with_broker(lambda: ReferenceBroker(_IgnoresDeleteRecords())),
    "broker.finds-by-time": with_broker(lambda: ReferenceBroker(_FindsBatchNotRecord())),
    "broker.leaves-acks-0-unanswered": with_broker(_AnswersAcksZero),
    "broker.marks-transactions": with_broker(lambda: ReferenceBroker(_ListsNoAborted())),
    "broker.holds-back-undecided": with_broker(lambda: ReferenceBroker(_StableOffsetAtEnd())),
    "broker.serves-from-offset": with_broker(lambda: ReferenceBroker(_FetchesNextBatch())),
}
