"""One fault for each requirement on brokers: stored batches, responses, transactions, fetches and compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import field
from msgspec.structs import replace

from conformance import codec
from conformance.cases.append import LIMIT
from conformance.cases.model import Answer, ExpectedResponse, Request
from conformance.cases.raw_requests import answer_to, expected_responses
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.selftest.mutators import Change, Mutator, answer_as, on, put
from conformance.selftest.mutators.requests import change_other_partitions, store_max_timestamp, with_broker
from conformance.semantics.broker_steps import InitProducerIdResult, Produce, Step, StepResult
from conformance.semantics.consumer_view import AbortedTransaction
from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.reference_broker import ReferenceBroker
from conformance.targets.reference import answer as correct_answer


def _store(change: Callable[[Values], Values]) -> Mutator:
    """Store batches with other fields."""

    @on("append")
    def mutate(_: Request, answer: Answer) -> Answer:
        batch = codec.decode("RECORD_BATCH", bytes.fromhex(answer["hex"])).value
        return {**answer, "hex": codec.encode("RECORD_BATCH", {**batch, **change(batch)}).hex()}

    return mutate


@on("append", accepted=False)
def _store_invalid(request: Request, _: Answer) -> Answer:
    return {"ok": True, "hex": request["hex"], "value": {"logEnd": "1", "baseOffset": "1"}}


@on("append", accepted=None)
def _ignore_size_limit(request: Request, _: Answer) -> Answer:
    return correct_answer({name: part for name, part in request.items() if name != LIMIT})


@on("append")
def _reject_zstd(request: Request, answer: Answer) -> Answer:
    batch = codec.decode("RECORD_BATCH", bytes.fromhex(request["hex"])).value
    return {"ok": False, "error": "unsupported-codec"} if CODEC_NAMES[batch["compression"]] == "zstd" else answer


_keep_compression = answer_as("append", lambda _: {"compressionType": "producer"})

APPENDS: dict[str, Mutator] = {
    "offset.broker-assigns-base": on("append")(lambda request, answer: {**answer, "hex": request["hex"]}),
    "batch.partition-leader-epoch-by-broker": _store(lambda _: {"partitionLeaderEpoch": -1}),
    "broker.supports-all-codecs": _reject_zstd,
    "broker.validates-records": _store_invalid,
    "broker.writes-max-timestamp": store_max_timestamp(1 << 42),
    "broker.tells-each-partition": change_other_partitions(
        lambda request: {"baseOffset": "0", "hex": request["otherPartitions"]}
    ),
    "broker.tells-append-time": on("append")(
        lambda _, answer: {**answer, "value": {**answer["value"], "appendTime": "7"}}
    ),
    "broker.keeps-size-limit": _ignore_size_limit,
    "compression.broker-keeps-producer-codec": answer_as("append", lambda _: {"compressionType": "zstd"}),
    "compression.broker-none-uncompresses": _keep_compression,
    "compression.broker-codec-wins": _keep_compression,
    "compression.recompression-preserves-records": _store(lambda batch: {"records": batch["records"][:-1]}),
    "crc.broker-validates": _store_invalid,
}


_CLOSED = {"hex": None, "end": "closed"}


def _each(change: Callable[[Values, ExpectedResponse, Values], Values]) -> Mutator:
    """Change each response, given the frame, the expected response and the response."""

    @on("exchange", accepted=None)
    def mutate(request: Request, answer: Answer) -> Answer:
        rows = zip(request["frames"], expected_responses(request["frames"]), answer["value"], strict=True)
        return {**answer, "value": [change(*row) for row in rows]}

    return mutate


def _change_bytes(change: Change) -> Mutator:
    return _each(lambda _, __, row: {"hex": change(bytes.fromhex(row["hex"])).hex()} if row["hex"] else row)


def _respond_in_version(expected: ExpectedResponse, version: int) -> Values:
    return {"hex": answer_to(ExpectedResponse(expected.name, version, expected.correlation)).hex()}


def _contains(value: object, name: str, wanted: object) -> bool:
    """Return true if a field with this name has this value anywhere in a value."""
    if isinstance(value, dict):
        return any((key == name and one == wanted) or _contains(one, name, wanted) for key, one in value.items())
    return isinstance(value, list | tuple) and any(_contains(one, name, wanted) for one in value)


EXCHANGES: dict[str, Mutator] = {
    "definitions.response-version-matches": _each(
        lambda _, expected, row: _respond_in_version(expected, expected.version - 1) if expected.version else row
    ),
    "response.size": _change_bytes(lambda data: data + b"\0"),
    "response.correlation-id": _change_bytes(put(0, b"\x12\x34\x56\x78")),
    "request.version-rejected": _each(
        lambda _, expected, row: _respond_in_version(expected, 0) if expected.must_refuse else row
    ),
    "api-versions.unknown-version": _change_bytes(put(4, b"\0\0")),
    "response.order": on("exchange", when=lambda request, _: bool(request.get("pipelined")), accepted=None)(
        lambda _, answer: {**answer, "value": answer["value"][::-1]}
    ),
    "response.each-request": _each(
        lambda frame, _, row: _CLOSED if row["hex"] and _contains(frame, "ClientId", "") else row
    ),
}


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

    def play(self, steps: Sequence[Step]) -> list[StepResult]:
        """Give all producers the same id."""
        results = ReferenceBroker.play(self, steps)
        return [self.given if isinstance(one, InitProducerIdResult) else one for one in results]


class _AnswersAcksZero(ReferenceBroker):
    def play(self, steps: Sequence[Step]) -> list[StepResult]:
        """Answer Produce requests with acks=0."""
        results = ReferenceBroker.play(self, steps)
        return [
            replace(one, answered=True) if isinstance(step, Produce) and not step.needs_response else one
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
