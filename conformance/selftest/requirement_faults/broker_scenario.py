"""Violations of the requirements on what a broker makes of transactions, fetches and compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import field

from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.selftest.mutators import Mutator
from conformance.semantics.broker_steps import InitProducerIdResult, Produce, Step, Told, parsed_steps
from conformance.semantics.consumer_view import AbortedTransaction
from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.reference_broker import ReferenceBroker


def plays(broker: Callable[[], ReferenceBroker]) -> Mutator:
    """Answer as another broker does."""

    def told(request: Values, answer: Values) -> Values:
        if request["op"] != "scenario":
            return answer
        did = broker().play(parsed_steps(request["steps"]))
        return {**answer, "value": [msgspec.to_builtins(one) for one in did]}

    return told


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
        """Give every producer the same identity."""
        return [
            self.given if isinstance(told, InitProducerIdResult) else told for told in ReferenceBroker.play(self, steps)
        ]


class _AnswersAcksZero(ReferenceBroker):
    def play(self, steps: Sequence[Step]) -> list[Told]:
        """Answer also what asks for none."""
        told = ReferenceBroker.play(self, steps)
        return [
            msgspec.structs.replace(one, answered=True) if isinstance(step, Produce) and not step.wants_answer else one
            for step, one in zip(steps, told, strict=True)
        ]


SCENARIOS: dict[str, Mutator] = {
    "producer-id.assigned-by-broker": plays(_OneProducerId),
    "compaction.sequences-preserved": plays(lambda: ReferenceBroker(_CompactionMovesSequences())),
    "delete-horizon.kept-until": plays(lambda: ReferenceBroker(_DropsTombstones())),
    "broker.tells-log-start": plays(lambda: ReferenceBroker(_IgnoresDeleteRecords())),
    "broker.finds-by-time": plays(lambda: ReferenceBroker(_FindsBatchNotRecord())),
    "broker.leaves-acks-0-unanswered": plays(_AnswersAcksZero),
    "broker.marks-transactions": plays(lambda: ReferenceBroker(_ListsNoAborted())),
    "broker.holds-back-undecided": plays(lambda: ReferenceBroker(_StableOffsetAtEnd())),
    "broker.serves-from-offset": plays(lambda: ReferenceBroker(_FetchesNextBatch())),
}
