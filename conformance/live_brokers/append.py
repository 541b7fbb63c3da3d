"""Answers `append` and `sequence` requests: writes batches to a broker and reads them again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from conformance import codec
from conformance.cases.append import ANSWERED, BATCHES, LIMIT, MESSAGES_LAST, OTHERS, max_magic_of_fetch
from conformance.cases.model import REFUSED, Answer, Request, Value
from conformance.codec import builders
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.live_brokers.connection import (
    BrokerConnection,
    BrokerUnreachable,
    ConnectionClosed,
    ResponseTimeout,
    VersionNotSupported,
)
from conformance.live_brokers.partition import (
    MAYBE_STORED,
    KafkaErrorResponse,
    PartitionClient,
    ProduceReceipt,
    error_class,
)
from conformance.live_brokers.segments import SegmentBytes, SegmentFiles
from conformance.live_brokers.topics import BrokerTopic
from conformance.targets.probes import plain_log

_MOST_RECORDS = 2_000
"""The largest number of records in a batch that is sent to a broker."""
_FATES = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "out-of-order",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "duplicate",
    ErrorCode.INVALID_PRODUCER_EPOCH: "fenced",
    ErrorCode.UNKNOWN_PRODUCER_ID: "out-of-order",
    ErrorCode.PRODUCER_FENCED: "fenced",
}
"""The result of a batch by its error code."""


def send_sequence(partition: PartitionClient, batches: Sequence[Value], end: int) -> Answer:
    """Write the batches of a `sequence` request to a log that ends at `end`, and return their results.

    Raises as BrokerConnection.ask.
    """
    if any(batch["recordCount"] > _MOST_RECORDS for batch in batches):
        return {"unsupported": f"batches of more than {_MOST_RECORDS} records are not sent to a broker"}
    ids = {given: _assigned(partition) if given >= 0 else given for given in {one["producerId"] for one in batches}}
    found, codes = [], []
    for at, batch in enumerate(batches):
        try:
            offset = partition.produce(_batch({**batch, "producerId": ids[batch["producerId"]]})).offset
        except KafkaErrorResponse as refusal:
            if refusal.code in MAYBE_STORED:
                return {"unsupported": f"the broker may or may not have stored it: {refusal}"}
            found.append(_FATES.get(refusal.code, REFUSED))
            codes.append(f"batch {at}: {refusal.code_text}")
        else:
            found.append("accept" if offset == end else "duplicate")
            end = max(end, offset + batch["recordCount"]) if offset == end else end
    return {"ok": True, "value": found, **({"codes": ", ".join(codes)} if codes else {})}


def _assigned(partition: PartitionClient) -> int:
    """Return an unused producer id: one of InitProducerId, or a random one if the broker returns none.

    The broker may know a constant id from another topic.
    """
    try:
        version = partition.connection.version("InitProducerId", high=4)
    except VersionNotSupported:
        return random.getrandbits(48)
    body = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
    given = partition.connection.ask("InitProducerId", version, body)
    return random.getrandbits(48) if given["ErrorCode"] else int(given["ProducerId"])


def _batch(parts: Value) -> bytes:
    """Return the bytes of a batch with the producer fields and record count of a request."""
    records = (builders.record(at, 1_000 + at, key=None) for at in range(parts["recordCount"]))
    return codec.encode("RECORD_BATCH", builders.batch(records, **{name: parts[name] for name in builders.NO_PRODUCER}))


_NAMES = {
    "compressionType": "compression.type",
    "timestampType": "message.timestamp.type",
    LIMIT: "max.message.bytes",
}
"""The topic setting for each part of an `append` request."""
_VALUES = {"none": "uncompressed"}
"""The values that have another name in Kafka's settings."""
_NEWEST = 1 << 15
"""A version above all others."""
_VERSIONS = {"produceVersion": "Produce", "fetchVersion": "Fetch"}
"""The request whose version is in this part."""
VERSION_ERRORS = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
"""Errors for an unknown version or an old format."""
BROKER_POLICY = {
    ErrorCode.MESSAGE_TOO_LARGE: "the limit of a batch",
    ErrorCode.INVALID_TIMESTAMP: "the limits of timestamps",
    ErrorCode.POLICY_VIOLATION: "a policy of the broker",
    **dict.fromkeys(
        (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.PRODUCER_FENCED,
        ),
        "the state that other batches of this producer left in the broker",
    ),
}
"""Errors that follow from the broker's settings, or from its producer state of other topics."""


class AppendResult(Struct, frozen=True):
    """The result of writing record data to a partition."""

    end: int
    """The end offset before the write."""
    code_text: ProduceReceipt | KafkaErrorResponse
    """The response to Produce: a receipt or an error."""
    served: bytes
    problem: str
    """The error of the fetch; empty for none."""
    stored: SegmentBytes | None = None
    """The bytes in the segment files; None without access to them."""

    @property
    def offset(self) -> int:
        """The offset in the Produce response; -1 for none."""
        return -1 if isinstance(self.code_text, KafkaErrorResponse) else self.code_text.offset

    def answer(self, parts: Request, others: Sequence[AppendResult]) -> Answer:
        """Return the answer to a request; `others` are the results of the other partitions."""
        refusal = self.code_text if isinstance(self.code_text, KafkaErrorResponse) else None
        if refusal is not None and refusal.code in MAYBE_STORED:
            return {"unsupported": f"the broker may or may not have stored it: {refusal}"}
        if refusal is not None and refusal.code in VERSION_ERRORS and "produceVersion" in parts:
            return {"unsupported": f"what it does not take in Produce {parts['produceVersion']}: {refusal}"}
        if self.problem and refusal is None and "fetchVersion" in parts:
            return {"ok": False, "error": "other", "message": self.problem}
        if refusal is None or self.served or (self.stored and self.stored.data):
            return self._taken(refusal, others)
        if refusal.code in BROKER_POLICY and not (refusal.code == ErrorCode.MESSAGE_TOO_LARGE and LIMIT in parts):
            return {"unsupported": f"{BROKER_POLICY[refusal.code]}: {refusal}"}
        return {"ok": False, "error": error_class(refusal.code), "message": str(refusal), "codes": refusal.code_text}

    def _taken(self, refusal: KafkaErrorResponse | None, others: Sequence[AppendResult]) -> Answer:
        """Return the answer for served or stored data; it has stored bytes only if they differ from the served ones."""
        # A batch may be stored although the broker returned an error: then there is no offset.
        value: Values = {"logEnd": self.end, "baseOffset": self.offset}
        if isinstance(self.code_text, ProduceReceipt):
            value["appendTime"] = self.code_text.append_time
        if self.stored and self.stored.data != self.served:
            value |= {"stored": self.stored.data, "segment": self.stored.place}
        if others:
            value["otherPartitions"] = [{"baseOffset": one.offset, "hex": one.served} for one in others]
        how = "served" if self.served else "stored"
        message = f"it is {how}, although refused: {refusal}" if refusal else self.problem
        answer = {"ok": True, "hex": self.served.hex(), "value": ANSWERED.render(value)}
        return {**answer, **({"message": message} if message else {})}


class _NewPartition(Protocol):
    """Creates a topic, writes a plain batch, and returns the first partition and its end offset."""

    def __call__(self, settings: Mapping[str, str], partitions: int = 1) -> tuple[PartitionClient, int]: ...


class AppendRunner(Struct):
    """Answers `append` requests, each in a separate topic."""

    connected: Callable[[], BrokerConnection]
    new_partition: _NewPartition
    again: Callable[[BrokerTopic], BrokerConnection]
    """Connects again to the leader of a topic. Raises BrokerUnreachable."""
    log_dir: Path | None
    _untaken: dict[int, str] = field(default_factory=dict)
    """The error for a plain message by Produce version; empty for none."""

    def answer(self, parts: Request) -> Answer:
        """Return the answer to a request.

        Raises BrokerNotReady, VersionNotSupported, TopicNotAvailable, SegmentDataNotFound, BrokerUnreachable, or as
        ask.
        """
        self._check_versions(parts)
        logs, at = self._logs(parts)
        partition = logs[at][0]
        is_as_stored = max_magic_of_fetch(parts.get("fetchVersion", _NEWEST)) == BATCHES and len(logs) == 1
        segments = SegmentFiles.of(self.log_dir, partition.topic.name) if self.log_dir and is_as_stored else None
        receipts = self._write(partition, parts)
        made = []
        for one, end in logs:
            one.connection = partition.connection
            after = _plain_after(one)
            served, problem = _served(one, end, after, parts.get("fetchVersion"))
            stored = segments.since(end, after) if segments else None
            made.append(AppendResult(end, receipts[one.index], served, problem, stored))
        return made.pop(at).answer(parts, made)

    def _logs(self, parts: Request) -> tuple[list[tuple[PartitionClient, int]], int]:
        """Return the partitions of a new topic with their end offsets, and the index of the one for the case."""
        chosen = {name: str(parts[part]) for part, name in _NAMES.items() if part in parts}
        others = OTHERS if "otherPartitions" in parts else 0
        first, end = self.new_partition({name: _VALUES.get(value, value) for name, value in chosen.items()}, 1 + others)
        further = [replace(first, index=1 + index) for index in range(others)]
        return [(first, end), *((one, one.produce_one_record() + 1) for one in further)], others // 2

    def _check_versions(self, parts: Request) -> None:
        """Raise VersionNotSupported if a version is not offered, or if it is offered but accepts no messages."""
        offered = self.connected().offered
        for part, name in _VERSIONS.items():
            low, high = offered.get(name, (0, -1))
            if part in parts and not low <= parts[part] <= high:
                raise VersionNotSupported(f"{name} {parts[part]} is not offered")
        version = parts.get("produceVersion", _NEWEST)
        if version > MESSAGES_LAST:
            return
        if version not in self._untaken:
            self._untaken[version] = self._refusal(version)
        if self._untaken[version]:
            raise VersionNotSupported(
                f"Produce {version} is offered, and a plain message in it is not taken: {self._untaken[version]}"
            )

    def _refusal(self, version: int) -> str:
        """Return the error for a plain message of the highest magic of a Produce version; empty for none."""
        partition, _ = self.new_partition({})
        try:
            partition.produce(plain_log(min(version, MESSAGES_LAST) // 2), version=version)
        except (KafkaErrorResponse, ConnectionClosed, ResponseTimeout) as problem:
            self.again(partition.topic)
            return str(problem)
        return ""

    def _write(self, partition: PartitionClient, parts: Request) -> Mapping[int, ProduceReceipt | KafkaErrorResponse]:
        """Write the record data and return the receipt or error by partition. Raises BrokerUnreachable."""
        other_data: bytes = parts.get("otherPartitions", b"")
        others = [index for index in range(1 + OTHERS) if index != partition.index] if other_data else []
        try:
            if others:
                return partition.produce_with(parts["hex"], dict.fromkeys(others, other_data))
            return {partition.index: partition.produce(parts["hex"], version=parts.get("produceVersion"))}
        except KafkaErrorResponse as refusal:
            return {partition.index: refusal}
        except ConnectionClosed as lost:
            try:
                partition.connection = self.again(partition.topic)
            except BrokerUnreachable as down:
                raise BrokerUnreachable(f"{lost}, and the broker does not come back: {down}") from None
            return dict.fromkeys((partition.index, *others), KafkaErrorResponse(0, str(lost)))


def _plain_after(partition: PartitionClient) -> int:
    """Write a plain batch after the case and return its offset. Raises ConnectionClosed or MalformedFrame."""
    try:
        return partition.produce_one_record()
    except KafkaErrorResponse as refusal:
        raise ConnectionClosed(f"after this batch, the broker rejects a plain batch: {refusal}") from None


def _served(partition: PartitionClient, end: int, after: int, version: int | None) -> tuple[bytes, str]:
    """Return the fetched bytes of the case and the error of the fetch; one of them is empty."""
    try:
        return partition.fetch(end, until=after, version=version), ""
    except KafkaErrorResponse as refusal:
        return b"", f"a fetch is answered with {refusal}"
