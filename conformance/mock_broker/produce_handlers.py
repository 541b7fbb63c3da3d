"""Producers: the commands for a driver, the mock broker's responses to a producer, and the stored batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from conformance.cases.model import Answer, Value
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.codec.json_notation import HEX
from conformance.codec.log import extents
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.definitions.request_frames import KafkaRequest, UnhandledRequest
from conformance.mock_broker._topic_rows import add_current_leader, resolve_topic
from conformance.mock_broker.topic import MockTopic, has_legacy_messages

if TYPE_CHECKING:
    from conformance.mock_broker.broker import MockBroker

_ZSTD = CODEC_NAMES.index("zstd")
_ZSTD_SINCE = 7
"""The first version of Produce in which Apache Kafka accepts zstd."""
_BUMPED_SINCE = 5
"""The first version of EndTxn that returns another producer epoch."""
_ADDED_SINCE = 12
"""The first version of Produce that adds the partition to the transaction."""
_IDS_SINCE = 13
"""The first version of Produce that names a topic by its id."""
_NO_PRODUCER = (-1, -1, -1)


# --- commands -----------------------------------------------------------------------------------------


def unsupported_batch(batch: Value, produces: Collection[str]) -> str:
    """Return why a client cannot write a batch; empty if it can. `produces` are the claims of its driver."""
    producer = batch["producerId"], batch["producerEpoch"], batch["baseSequence"]
    codec = batch["compression"]
    needs = [CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"codec {codec}"]
    needs += ["timestamps"] + ["idempotence"] * (producer != _NO_PRODUCER) + ["transactions"] * batch["isTransactional"]
    if lacking := [need for need in needs if need not in produces]:
        return f"{', '.join(lacking)}: not claimed"
    if batch["isControlBatch"] or batch["timestampType"] or batch["baseOffset"]:
        return "a producer cannot write control batches, LogAppendTime or offsets"
    if producer != _NO_PRODUCER and (producer[0] < 0 or producer[1] < 0 or producer[2] != 0):
        return "a client chooses its first sequence, which is 0; 2^31 records are too many"
    if producer == _NO_PRODUCER and batch["isTransactional"]:
        return "a client has no transactions without a producer id"
    if any(record["timestamp"] < 0 for record in batch["records"]):
        return "an application cannot set a timestamp below 0"
    if any(header["key"] is None for record in batch["records"] for header in record["headers"]):
        return "an application cannot write a header without a key"
    return ""


_BATCH_BYTES, _FEW = 4 << 20, 1024
"""Bytes of a batch: enough for any batch, and so few that each record becomes a separate batch."""


def producer_command(
    batches: Sequence[Value], ends: Sequence[str] = (), *, together: bool = False, given_up: Collection[int] = ()
) -> Answer:
    """Return the command for a driver to write consecutive batches, with the first one's producer and codec.

    With `together`, no batch waits for the acknowledgement of the one before. `ends` has the end of a transaction after
    each batch; if it is empty, all are in one committed transaction. The driver gives up a failed batch in `given_up`.
    """
    first = batches[0]
    return {
        "batches": [[_record(record) for record in batch["records"]] for batch in batches],
        "together": together,
        "batchBytes": _FEW if together else _BATCH_BYTES,
        "compression": CODEC_NAMES[first["compression"]],
        "idempotent": first["producerId"] >= 0,
        "transactional": first["isTransactional"],
        "givenUp": [number in given_up for number in range(len(batches))],
        "ends": [*ends] or [""] * (len(batches) - 1) + ["commit" if first["isTransactional"] else ""],
    }


def _record(record: Value) -> Answer:
    headers = [{"key": header["key"], "value": HEX.render(header["value"])} for header in record["headers"]]
    shown = {
        "timestamp": str(record["timestamp"]),
        "key": HEX.render(record["key"]),
        "value": HEX.render(record["value"]),
    }
    return {**shown, "headers": headers}


# --- responses ----------------------------------------------------------------------------------------


def _produce(broker: MockBroker, request: KafkaRequest) -> Values:
    if request.body["Acks"] == 0:
        raise UnhandledRequest("Produce with acks 0")
    rows = []
    for row in request.body["TopicData"]:
        reference, topic = resolve_topic(broker, row, "Name")
        leads = topic is not None and topic.leader == broker.node
        if topic is not None and leads:
            topic.change_leader()
        taken = [_append(broker, topic, part, request.version) for part in row["PartitionData"]]
        if topic is not None and leads:
            topic.drop_connection()
        rows.append({**reference, "PartitionResponses": taken})
    return add_current_leader(broker, request, {"Responses": rows})


def _append(broker: MockBroker, topic: MockTopic | None, part: Values, version: int) -> Values:
    """Store the batches of a partition, unless they are rejected, and return its response."""
    shown = {"Index": part["Index"], "BaseOffset": -1, "LogAppendTimeMs": -1, "LogStartOffset": -1}
    if topic is None:
        return {
            **shown,
            "ErrorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < _IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_ID,
        }
    topic.first_fetch = topic.first_fetch or time.monotonic()
    topic.on_fetch()
    if topic.leader != broker.node:
        return {**shown, "ErrorCode": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if error := topic.group.next_of(topic.refusals):
        return {**shown, "ErrorCode": error}
    data, base = part["Records"] or b"", topic.high_watermark
    topic.has_started = topic.has_started or version >= _ADDED_SINCE
    if has_legacy_messages(data):  # each set counts as one offset, because it is never read
        topic.produced.append(data)
        topic.high_watermark += 1
        return {**shown, "ErrorCode": 0, "BaseOffset": base}
    if version < _ZSTD_SINCE and any(
        BATCH_LAYOUT.read_field("compression", data, at) == _ZSTD for at, _ in extents(data)
    ):
        return {**shown, "ErrorCode": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
    count = sum(BATCH_LAYOUT.read_field("lastOffsetDelta", data, at) + 1 for at, _ in extents(data))
    if topic.accepted_sequences is not None:
        id_, epoch, first = (
            BATCH_LAYOUT.read_field(name, data) for name in ("producerId", "producerEpoch", "baseSequence")
        )
        accepted = topic.accepted_sequences.setdefault((id_, epoch), [])
        # As in Kafka: a gap is out of order, and a known sequence is a duplicate with its old offset.
        if first > len(accepted):
            return {**shown, "ErrorCode": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
        if 0 <= first < len(accepted) and topic.forgets_offset_of_duplicate:
            return {**shown, "ErrorCode": ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
        if 0 <= first < len(accepted):
            return {**shown, "ErrorCode": 0, "BaseOffset": accepted[first], "LogStartOffset": 0}
        accepted += range(base, base + count)
    topic.produced.append(data)
    topic.high_watermark += count
    return {**shown, "ErrorCode": 0, "BaseOffset": base, "LogStartOffset": 0}


def _init_producer_id(broker: MockBroker, request: KafkaRequest) -> Values:
    """Return the producer id and epoch of the topic whose name is the client id."""
    topic = broker.topics.get(request.header["ClientId"] or "")
    if topic is None:
        raise UnhandledRequest("InitProducerId of a client whose id is not the name of its topic")
    if error := topic.group.error("InitProducerId", _coordinator(broker, request)):
        return {"ErrorCode": error, "ProducerId": -1, "ProducerEpoch": -1}
    producer, epoch = topic.producer
    if topic.accepted_sequences is not None:  # a second request is from another producer
        topic.producer = producer + 1, epoch
    return {"ErrorCode": 0, "ProducerId": producer, "ProducerEpoch": epoch}


def _coordinator(broker: MockBroker, request: KafkaRequest) -> int | None:
    """Return the node of a transactional request, which only the coordinator answers; else None."""
    return None if request.body["TransactionalId"] is None else broker.node


def _add_partitions(broker: MockBroker, request: KafkaRequest) -> Values:
    """Add partitions to a transaction; a version for brokers has several transactions."""
    if "Transactions" not in request.body:
        return {"ResultsByTopicV3AndBelow": _added(broker, request.body["V3AndBelowTopics"])}
    rows = [
        {"TransactionalId": each["TransactionalId"], "TopicResults": _added(broker, each["Topics"])}
        for each in request.body["Transactions"]
    ]
    return {"ErrorCode": 0, "ResultsByTransaction": rows}


def _added(broker: MockBroker, topics: Sequence[Values]) -> list[Values]:
    rows = []
    for row in topics:
        topic = broker.topics.get(row["Name"])
        error = topic.group.error("AddPartitionsToTxn", broker.node) if topic is not None else 0
        if topic is not None and not error:
            topic.has_started = True
        added = [{"PartitionIndex": at, "PartitionErrorCode": error} for at in row["Partitions"]]
        rows.append({"Name": row["Name"], "ResultsByPartition": added})
    return rows


def _end(broker: MockBroker, request: KafkaRequest) -> Values:
    """End a transaction. From version 5 on the response has a new epoch."""
    topic = broker.topics.get(request.body["TransactionalId"])
    if topic is None:
        raise UnhandledRequest("EndTxn with an id that is not the name of its topic")
    error = topic.group.error("EndTxn", broker.node)
    # A coordinator does not know a transaction to which no partition was added.
    if error or not topic.has_started:
        return {"ErrorCode": error or ErrorCode.INVALID_TXN_STATE}
    id_, epoch = request.body["ProducerId"], request.body["ProducerEpoch"] + 1
    if request.version >= _BUMPED_SINCE:
        topic.producer = id_, epoch
    return {"ErrorCode": 0, "ProducerId": id_, "ProducerEpoch": epoch}


ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    "Produce": _produce,
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions,
    "EndTxn": _end,
}
