"""Runs the steps of a broker scenario: producer ids, batches, transactions, fetches, compaction, a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from conformance import codec
from conformance.cases.model import Answer
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.live_brokers.connection import BrokerConnection, ConnectionClosed, ResponseTimeout
from conformance.live_brokers.coordinators import CoordinatorLookup, check, codes
from conformance.live_brokers.partition import (
    MAYBE_STORED,
    NOT_PERMITTED,
    KafkaErrorResponse,
    PartitionClient,
    batches_until,
)
from conformance.live_brokers.retention import (
    EARLIEST,
    LATEST,
    StepNotPossible,
    WrittenRecord,
    compact,
    delete_records,
    expire,
    found,
    roll,
)
from conformance.process.waiting import poll, wait_until
from conformance.semantics.broker_steps import (
    BEYOND_END,
    END,
    MAX_BYTES,
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
    ListOffsets,
    ListOffsetsResult,
    Produce,
    ProduceRawBytes,
    ProduceResult,
    ProducerIdentity,
    RestartBroker,
    RetryProduce,
    RollSegment,
    Step,
    StepDone,
    StepResult,
    batch_of,
    listed_in,
    step_text,
)
from conformance.semantics.consumer_view import ISOLATIONS, READ_COMMITTED

_ADDED_FIRST = 11
"""The last version of Produce that needs AddPartitionsToTxn."""
_SERVED_TIMEOUT_S = 3.0
"""Seconds until records are served, markers are written, and the last stable offset is after them."""


class BrokerScenarioRun(Struct):
    """One scenario in a separate partition."""

    partition: PartitionClient
    start: int
    """The end offset before the scenario."""
    reach: Callable[[str, int], BrokerConnection]
    """Returns the connection to a host and port. Raises BrokerUnreachable."""
    restart: Callable[[], PartitionClient] | None
    """Restarts the broker and returns the partition; None if the suite cannot restart it, or if it loses its log."""
    _producers: dict[str, ProducerIdentity] = field(default_factory=dict)
    _identities: dict[str, ProducerIdentity] = field(default_factory=dict)
    """The newest producer of each transactional id."""
    _written: dict[str, WrittenRecord] = field(default_factory=dict)
    """Each record, by label."""
    _sent: dict[int, tuple[bytes, str | None, int]] = field(default_factory=dict)
    """Each accepted batch by step: its bytes, its transactional id, and its offset."""
    _undecided: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first offset and the end offset of the open transaction, by producer id."""
    _end: int = 0
    _began: int = 0
    """The start time, in milliseconds since 1970."""
    _codes: list[str] = field(default_factory=list)
    """The error codes of the steps with an error response."""

    def do(self, steps: Sequence[Step]) -> Answer:
        """Run the steps and return the results. Raises StepNotPossible, or as BrokerConnection.ask."""
        self._end, self._began = self.start, int(time.time() * 1000)
        results: list[StepResult] = []
        for at, step in enumerate(steps):
            results.append(self._did(at, step))
            if isinstance(step, InitProducerId) and results[-1].refused:
                # A producer without an identity writes nothing.
                results += [one.result_type(refused=f"not done: step {at} is refused") for one in steps[at + 1 :]]  # type: ignore[misc]
                break
        return {"ok": True, "value": msgspec.to_builtins(results), "codes": ", ".join(self._codes)}

    def _did(self, at: int, step: Step) -> StepResult:
        try:
            return self._run_step(at, step)
        except KafkaErrorResponse as refusal:
            if refusal.code in MAYBE_STORED:
                raise StepNotPossible(f"step {at}: the broker may or may not have done it: {refusal}") from None
            if reason := NOT_PERMITTED.get(refusal.code) or self._without_transactions(step):
                raise StepNotPossible(f"step {at} ({step_text(step)}): {reason}: {refusal}") from None
            self._codes.append(f"step {at}: {refusal.code_text}")
            return step.result_type(refused=str(refusal) or "refused")  # type: ignore[return-value]

    def _without_transactions(self, step: Step) -> str:
        """Return a reason if the broker may have no transactions, which no document requires; else empty."""
        is_transactional = isinstance(step, InitProducerId) and step.transactional_id is not None
        return "no transactional id had an identity before" if is_transactional and not self._identities else ""

    def _run_step(self, at: int, step: Step) -> StepResult:
        match step:
            case InitProducerId():
                return self._begin(step)
            case Produce():
                return self._write(at, step)
            case EndTransaction():
                return self._end_transaction(step)
            case ProduceRawBytes():
                return self._send(step)
            case Fetch():
                return self._fetch(step)
            case RetryProduce():
                return self._repeat(step)
            case RestartBroker():
                if self.restart is None:
                    raise StepNotPossible("a broker is restarted that the suite has started, and that keeps its log")
                self.partition = self.restart()
                return StepDone()
        return self._run_log_step(step)

    def _run_log_step(self, step: Step) -> StepResult:
        """Run a step that reads or changes the log, and return its result."""
        match step:
            case ListOffsets():
                return self._find(step)
            case DeleteRecords():
                return DeleteRecordsResult(
                    low_watermark=str(delete_records(self.partition, self._offset_of(step.before)))
                )
            case Compact():
                since, span = int(time.time() * 1000), (self.start, self._end)
                self._end = max(self._end, compact(self.partition, span, self._written.values(), step))
                return CompactionResult(since=str(since))
            case RollSegment():
                self._end = max(self._end, roll(self.partition, (self.start, self._end)))
            case ExpireByRetention():
                expire(self.partition, self._end)
        return StepDone()

    def _find(self, step: ListOffsets) -> StepResult:
        if step.time is not None:
            offset, timestamp = found(self.partition, self._began + step.time)
            return ListOffsetsResult(offset=str(offset), time=str(timestamp))
        return ListOffsetsResult(
            offset=str(found(self.partition, EARLIEST if step.offset == "earliest" else LATEST)[0])
        )

    # --- producers ------------------------------------------------------------------------------------

    def _begin(self, step: InitProducerId) -> StepResult:
        named = None if step.transactional_id is None else self._name(step.transactional_id)
        body = {"TransactionalId": named, "TransactionTimeoutMs": 60_000}
        given = self._coordinated(named, "InitProducerId", body, 4)
        check(given["ErrorCode"])
        producer = ProducerIdentity(given["ProducerId"], given["ProducerEpoch"], named, step.sequence)
        older = self._identities.get(named or "")
        if older is not None and older.identity in self._undecided:
            self._abort(older)
            self._await_marker(older)
        if named is not None:
            self._identities[named] = producer
        self._producers[step.producer] = producer
        return InitProducerIdResult(producer_id=str(producer.identity), producer_epoch=producer.epoch)

    def _name(self, transactional_id: str) -> str:
        """Return the transactional id for the broker, which differs in each case."""
        return self.partition.connection.scope.own(f"{self.partition.topic.name}-{transactional_id}")

    def _coordinated(self, named: str | None, request: str, body: Values, high: int) -> Values:
        return CoordinatorLookup(self.reach).ask(self.partition.connection, named, request, body, high=high)

    def _write(self, at: int, step: Produce) -> StepResult:
        producer = self._producers[step.producer] if step.producer else None
        named = producer.transactional_id if producer else None
        if producer and named is not None and not producer.in_transaction:
            self._add(producer, named)
        # A broker may remove the state of a producer if its last batch has an old timestamp.
        now = self._began if step.times else int(time.time() * 1000)
        data = codec.encode("RECORD_BATCH", batch_of(step, at, producer, now))
        version = self.partition.connection.version("Produce", low=3, high=_ADDED_FIRST)
        if step.needs_response:
            offset, is_answered = self._produced(data, named, version), False
        else:
            offset = self._end
            with self._reconnecting():
                is_answered = self.partition.produce_unanswered(data, version)
        keys: Sequence[str | None] = step.keys or [None] * step.records
        identity = producer.identity if producer else -1
        places = enumerate(zip(step.labels(at), keys, strict=True), start=offset)
        self._written.update(
            (label, WrittenRecord(place, key, identity, step.tombstones)) for place, (label, key) in places
        )
        self._sent[at] = data, named, offset
        self._end = max(self._end, offset + step.records)
        if producer:
            producer.wrote(step.records)
            if named is not None:
                first, _ = self._undecided.get(producer.identity, (offset, 0))
                self._undecided[producer.identity] = first, self._end
        return ProduceResult(offset=str(offset), time=str(now), answered=is_answered)

    def _repeat(self, step: RetryProduce) -> StepResult:
        """Send a batch again; after DUPLICATE_SEQUENCE_NUMBER its offset is the first one.

        Raises KafkaErrorResponse.
        """
        if step.step not in self._sent:
            return ProduceResult(refused=f"not sent again: the batch of step {step.step} was not taken")
        data, named, offset = self._sent[step.step]
        version = self.partition.connection.version("Produce", low=3, high=_ADDED_FIRST)
        try:
            return ProduceResult(offset=str(self._produced(data, named, version)))
        except KafkaErrorResponse as refusal:
            if refusal.code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                raise
            return ProduceResult(offset=str(offset))

    def _add(self, producer: ProducerIdentity, named: str) -> None:
        """Add the partition to a transaction. Raises KafkaErrorResponse."""
        own: Values = {"TransactionalId": named, "ProducerId": producer.identity, "ProducerEpoch": producer.epoch}
        own["Topics"] = ({"Name": self.partition.topic.name, "Partitions": (0,)},)
        body = {f"V3AndBelow{name}": value for name, value in own.items()}
        answer = self._coordinated(named, "AddPartitionsToTxn", body, 3)
        check(next((code for code in codes(answer) if code), 0))
        producer.in_transaction = True

    def _produced(self, data: bytes | None, named: str | None, version: int) -> int:
        """Send bytes in Produce and return the offset; a closed connection or a timeout counts as an error response.

        Raises KafkaErrorResponse.
        """
        with self._reconnecting():
            return self.partition.produce(data, transactional_id=named, version=version).offset

    @contextmanager
    def _reconnecting(self) -> Iterator[None]:
        """Connect again after a closed connection or a timeout. Raises KafkaErrorResponse then."""
        try:
            yield
        except (ConnectionClosed, ResponseTimeout) as lost:
            self.partition.connection.close()
            topic = self.partition.topic
            self.partition.connection = self.reach(topic.host, topic.port)
            raise KafkaErrorResponse(0, str(lost)) from None

    def _send(self, step: ProduceRawBytes) -> StepResult:
        data = None if step.hex is None else bytes.fromhex(step.hex)
        version = self.partition.connection.version("Produce", low=3, high=_ADDED_FIRST)
        return ProduceResult(offset=str(self._produced(data, None, version)))

    def _end_transaction(self, step: EndTransaction) -> StepResult:
        producer = self._producers[step.producer]
        named = producer.transactional_id
        if named is None:
            raise StepNotPossible(f"{step.producer} has no transactional id")
        identity = {"ProducerId": producer.identity, "ProducerEpoch": producer.epoch}
        body = {"TransactionalId": named, **identity, "Committed": step.commit}
        check(self._coordinated(named, "EndTxn", body, 4)["ErrorCode"])
        producer.in_transaction = False
        if not step.commit:
            self._abort(producer)
        if producer.identity in self._undecided:
            self._await_marker(producer)
        return StepDone()

    def _abort(self, producer: ProducerIdentity) -> None:
        """Mark the records of an open transaction as aborted: the log cleaner removes them."""
        first = self._undecided.get(producer.identity, (self._end, self._end))[0]
        for label, one in self._written.items():
            if one.identity == producer.identity and one.offset >= first:
                self._written[label] = replace(one, is_aborted=True)

    def _await_marker(self, producer: ProducerIdentity) -> None:
        """Wait for a control batch after the last record of the producer, or until the timeout."""
        _, end = self._undecided.pop(producer.identity)

        def has_marker() -> bool:
            read = codec.decode("LOG", self._fetch_partition(end, 0, MAX_BYTES)["Records"] or b"")
            batches = read.value["batches"] if read.ok else []
            return any(one.get("isControlBatch") and one["producerId"] == producer.identity for one in batches)

        wait_until(has_marker, _SERVED_TIMEOUT_S)

    # --- fetches --------------------------------------------------------------------------------------

    def _fetch(self, step: Fetch) -> StepResult:
        """Fetch once; a fetch without a limit continues to the end, because a broker may serve parts."""
        isolation = ISOLATIONS.index(step.isolation)
        if step.version is not None:
            self.partition.connection.version("Fetch", low=step.version, high=step.version)
        at = self._offset_of(step.at)
        part = self._fetch_until_stable(at, isolation, step.max_bytes, step.version)
        data, listed = part["Records"] or b"", listed_in(part)
        is_committed = step.isolation == READ_COMMITTED
        stop = part["LastStableOffset"] if is_committed else part["HighWatermark"]
        data, offset, _ = batches_until(data, at, stop) if step.max_bytes == MAX_BYTES else (data, stop, True)
        while offset < stop:
            following = self._fetch_partition(offset, isolation, MAX_BYTES, step.version)
            check(following["ErrorCode"])
            came, next_offset, _ = batches_until(following["Records"] or b"", offset, stop)
            if next_offset == offset:
                break
            data, offset = data + came, next_offset
            listed += [one for one in listed_in(following) if one not in listed]
        return FetchResult(
            hex=data.hex(),
            fetch_offset=str(at),
            high_watermark=str(part["HighWatermark"]),
            last_stable_offset=str(part.get("LastStableOffset", -1)),
            log_start=str(part.get("LogStartOffset", -1)),
            aborted=listed,
        )

    def _offset_of(self, place: str) -> int:
        """Return the fetch offset of a place in a step."""
        if place in (END, BEYOND_END):
            return int(self._fetch_partition(self._end, 0, MAX_BYTES)["HighWatermark"]) + (place == BEYOND_END)
        if place != START and place not in self._written:
            raise StepNotPossible(f"record {place} was not taken")
        return self.start if place == START else self._written[place].offset

    def _fetch_until_stable(self, offset: int, isolation: int, most: int, version: int | None) -> Values:
        """Fetch until all written records are served and ended transactions are stable. Raises KafkaErrorResponse."""

        def fetched() -> Values:
            part = self._fetch_partition(offset, isolation, most, version)
            check(part["ErrorCode"])
            return part

        def is_stable(part: Values) -> bool:
            is_decided = isolation == 0 or part["LastStableOffset"] == part["HighWatermark"] or bool(self._undecided)
            return bool(part["HighWatermark"] >= self._end and is_decided)

        return poll(fetched, is_stable, _SERVED_TIMEOUT_S)

    def _fetch_partition(self, offset: int, isolation: int, most: int, version: int | None = None) -> Values:
        return self.partition.fetched(offset, isolation, most, least=0, version=version)
