"""Puts record data to a broker between plain batches, and tells what became of it (`append` requests)."""

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
"""Records of a batch that is sent to a broker."""
_FATES = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "out-of-order",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "duplicate",
    ErrorCode.INVALID_PRODUCER_EPOCH: "fenced",
    ErrorCode.UNKNOWN_PRODUCER_ID: "out-of-order",
    ErrorCode.PRODUCER_FENCED: "fenced",
}
"""The fate that an error tells."""


def send_sequence(partition: PartitionClient, batches: Sequence[Value], end: int) -> Answer:
    """Write the batches of a `sequence` request to a log that ends there: what became of each.

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
                return {"unsupported": f"whether it is stored is not told: {refusal}"}
            found.append(_FATES.get(refusal.code, REFUSED))
            codes.append(f"batch {at}: {refusal.code_text}")
        else:
            found.append("accept" if offset == end else "duplicate")
            end = max(end, offset + batch["recordCount"]) if offset == end else end
    return {"ok": True, "value": found, **({"codes": ", ".join(codes)} if codes else {})}


def _assigned(partition: PartitionClient) -> int:
    """A producer id that no batch has had before: the broker's, since it may know an id of ours from elsewhere.

    Where it gives none, one is drawn.
    """
    try:
        version = partition.connection.version("InitProducerId", high=4)
    except VersionNotSupported:
        return random.getrandbits(48)
    body = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
    given = partition.connection.ask("InitProducerId", version, body)
    return random.getrandbits(48) if given["ErrorCode"] else int(given["ProducerId"])


def _batch(told: Value) -> bytes:
    """The bytes of such a batch."""
    records = (builders.record(at, 1_000 + at, key=None) for at in range(told["recordCount"]))
    return codec.encode("RECORD_BATCH", builders.batch(records, **{name: told[name] for name in builders.NO_PRODUCER}))


_NAMES = {
    "compressionType": "compression.type",
    "timestampType": "message.timestamp.type",
    LIMIT: "max.message.bytes",
}
"""The setting of a topic that a part of an `append` request names."""
_VALUES = {"none": "uncompressed"}
"""The values of these settings that brokers call otherwise."""
_NEWEST = 1 << 15
"""A version above all."""
_VERSIONS = {"produceVersion": "Produce", "fetchVersion": "Fetch"}
"""The request whose version a part names."""
VERSION_ERRORS = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
"""Errors by which a broker says that it does not know a version, or an old format."""
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
        "what it knows of this producer from elsewhere",
    ),
}
"""Errors by which a broker keeps to its settings, which no document gives, or to what it knows from other topics."""


class AppendResult(Struct, frozen=True):
    """What a broker made of record data in a partition."""

    end: int
    """Where the log ended before."""
    code_text: ProduceReceipt | KafkaErrorResponse
    """What it told of the data, or how it refused it."""
    served: bytes
    trouble: str
    """How a fetch was refused; empty where it was not."""
    stored: SegmentBytes | None = None
    """What its segments have of it; None where they are not known."""

    @property
    def offset(self) -> int:
        """The offset that it told, -1 for none."""
        return -1 if isinstance(self.code_text, KafkaErrorResponse) else self.code_text.offset

    def answer(self, parts: Request, beside: Sequence[AppendResult]) -> Answer:
        """The answer to a request with these parts, with what became of other partitions."""
        refusal = self.code_text if isinstance(self.code_text, KafkaErrorResponse) else None
        if refusal is not None and refusal.code in MAYBE_STORED:
            return {"unsupported": f"whether it is stored is not told: {refusal}"}
        if refusal is not None and refusal.code in VERSION_ERRORS and "produceVersion" in parts:
            return {"unsupported": f"what it does not take in Produce {parts['produceVersion']}: {refusal}"}
        if self.trouble and refusal is None and "fetchVersion" in parts:
            return {"ok": False, "error": "other", "message": self.trouble}
        if refusal is None or self.served or (self.stored and self.stored.data):
            return self._taken(refusal, beside)
        if refusal.code in BROKER_POLICY and not (refusal.code == ErrorCode.MESSAGE_TOO_LARGE and LIMIT in parts):
            return {"unsupported": f"{BROKER_POLICY[refusal.code]}: {refusal}"}
        return {"ok": False, "error": error_class(refusal.code), "message": str(refusal), "codes": refusal.code_text}

    def _taken(self, refusal: KafkaErrorResponse | None, beside: Sequence[AppendResult]) -> Answer:
        """The answer where there is something of it; what is stored is told where that is not what is served."""
        # A batch that is there although it was refused is neither: no offset was told.
        value: Values = {"logEnd": self.end, "baseOffset": self.offset}
        if isinstance(self.code_text, ProduceReceipt):
            value["appendTime"] = self.code_text.append_time
        if self.stored and self.stored.data != self.served:
            value |= {"stored": self.stored.data, "segment": self.stored.place}
        if beside:
            value["otherPartitions"] = [{"baseOffset": one.offset, "hex": one.served} for one in beside]
        how = "served" if self.served else "stored"
        message = f"it is {how}, although refused: {refusal}" if refusal else self.trouble
        answer = {"ok": True, "hex": self.served.hex(), "value": ANSWERED.render(value)}
        return {**answer, **({"message": message} if message else {})}


class _NewPartition(Protocol):
    """Makes a new topic: its first partition, with a plain batch, and where its log ends."""

    def __call__(self, settings: Mapping[str, str], partitions: int = 1) -> tuple[PartitionClient, int]: ...


class AppendRunner(Struct):
    """Answers `append` requests: each in a topic of its own."""

    connected: Callable[[], BrokerConnection]
    begun: _NewPartition
    again: Callable[[BrokerTopic], BrokerConnection]
    """A new connection to the leader of a topic, where one was lost. Raises BrokerUnreachable."""
    log_dir: Path | None
    _untaken: dict[int, str] = field(default_factory=dict)
    """Why a plain message is not taken in a version of Produce; empty where it is."""

    def answer(self, parts: Request) -> Answer:
        """The answer to a request.

        Raises BrokerNotReady, VersionNotSupported, TopicNotAvailable, SegmentDataNotFound, BrokerUnreachable, or as
        ask.
        """
        self._check_versions(parts)
        logs, at = self._logs(parts)
        partition = logs[at][0]
        is_as_stored = max_magic_of_fetch(parts.get("fetchVersion", _NEWEST)) == BATCHES and len(logs) == 1
        segments = SegmentFiles.of(self.log_dir, partition.topic.name) if self.log_dir and is_as_stored else None
        told = self._told(partition, parts)
        made = []
        for one, end in logs:
            one.connection = partition.connection
            after = _plain_after(one)
            served, trouble = _served(one, end, after, parts.get("fetchVersion"))
            stored = segments.since(end, after) if segments else None
            made.append(AppendResult(end, told[one.index], served, trouble, stored))
        return made.pop(at).answer(parts, made)

    def _logs(self, parts: Request) -> tuple[list[tuple[PartitionClient, int]], int]:
        """The partitions of a new topic with the ends of their logs, and which of them gets the case."""
        chosen = {name: str(parts[part]) for part, name in _NAMES.items() if part in parts}
        others = OTHERS if "otherPartitions" in parts else 0
        first, end = self.begun({name: _VALUES.get(value, value) for name, value in chosen.items()}, 1 + others)
        further = [replace(first, index=1 + index) for index in range(others)]
        return [(first, end), *((one, one.produce_one_record() + 1) for one in further)], others // 2

    def _check_versions(self, parts: Request) -> None:
        """Raise VersionNotSupported for versions that are not offered, or in which messages are not taken."""
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
        """How a plain message of the highest magic that a version of Produce carries is refused; empty: it is taken."""
        partition, _ = self.begun({})
        try:
            partition.produce(plain_log(min(version, MESSAGES_LAST) // 2), version=version)
        except (KafkaErrorResponse, ConnectionClosed, ResponseTimeout) as problem:
            self.again(partition.topic)
            return str(problem)
        return ""

    def _told(self, partition: PartitionClient, parts: Request) -> Mapping[int, ProduceReceipt | KafkaErrorResponse]:
        """What a broker tells of record data, by partition. Raises BrokerUnreachable."""
        beside: bytes = parts.get("otherPartitions", b"")
        others = [index for index in range(1 + OTHERS) if index != partition.index] if beside else []
        try:
            if others:
                return partition.produce_with(parts["hex"], dict.fromkeys(others, beside))
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
    """Write a plain batch behind the case: its offset. Raises ConnectionClosed where the log takes none, or Garbled."""
    try:
        return partition.produce_one_record()
    except KafkaErrorResponse as refusal:
        raise ConnectionClosed(f"after this batch the log takes no plain one any more: {refusal}") from None


def _served(partition: PartitionClient, end: int, after: int, version: int | None) -> tuple[bytes, str]:
    """What is served of the case; where a fetch is refused, nothing, and how."""
    try:
        return partition.fetch(end, until=after, version=version), ""
    except KafkaErrorResponse as refusal:
        return b"", f"a fetch is answered with {refusal}"
