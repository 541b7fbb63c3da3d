"""The mock broker's responses to a consumer: Metadata, ListOffsets, Fetch, OffsetForLeaderEpoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from conformance.cases.append import max_magic_of_fetch
from conformance.cases.client_scenarios import (
    ABOVE_LAST_STABLE_OFFSET,
    LATEST,
    LEADER_NOT_LISTED,
    LEADER_ONLY,
    NO_BROKERS,
    NO_LEADER,
    NODE_1,
    NODE_2,
    NULL,
    PARTITION_ERROR,
    REPLICA_BEHIND,
    SESSION_LOST,
    THROTTLED,
    UNKNOWN,
)
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import KafkaRequest, UnhandledRequest
from conformance.mock_broker._fetch_sessions import FetchSession, FetchSessionError
from conformance.mock_broker._topic_rows import add_current_leader, resolve_topic, topic_name
from conformance.mock_broker.topic import TIME_MS, fits_fetch_version

if TYPE_CHECKING:
    from conformance.mock_broker.broker import MockBroker
    from conformance.mock_broker.topic import MockTopic

_CLUSTER = "conformance"
_EARLIEST, _EARLIEST_LOCAL = -2, -4
_THROTTLED_MS = 100
_BEHIND = 10
"""The first offset in the log of a replica that does not have the requested offset."""
_LONGEST_WAIT_MS = 50
"""The longest delay of a fetch: a consumer may fetch past the end, and it closes only after the response."""


def _metadata(broker: MockBroker, request: KafkaRequest) -> Values:
    wanted, listed = request.body["Topics"], _brokers_in_metadata(broker)
    if wanted is None or (request.version == 0 and not wanted):  # version 0 has no null: an empty list requests all
        topics = [_topic_metadata(name, topic) for name, topic in broker.topics.items()]
    else:
        topics = [_topic_metadata_for(broker, request, row) for row in wanted]
    if any(row["ErrorCode"] == ErrorCode.LEADER_NOT_AVAILABLE for row in topics):
        return {"Brokers": [], "ControllerId": -1, "ClusterId": _CLUSTER, "Topics": topics}
    nodes = [{"NodeId": one.node, "Host": one.host, "Port": one.port} for one in listed]
    nodes += [{"NodeId": node, "Host": broker.host, "Port": broker.port} for node in broker.aliases]
    return {"Brokers": nodes, "ControllerId": nodes[0]["NodeId"], "ClusterId": _CLUSTER, "Topics": topics}


def _brokers_in_metadata(broker: MockBroker) -> Sequence[MockBroker]:
    """Return the running nodes for Metadata, or only the leader of a topic in the LEADER_ONLY scenario."""
    alone = {topic.leader for topic in broker.topics.values() if topic.metadata_faults[:1] == [LEADER_ONLY]}
    return [one for one in broker.nodes if one.node in (alone or {one.node}) and not one.is_stopped]


def _topic_metadata_for(broker: MockBroker, request: KafkaRequest, row: Values) -> Values:
    """Return the metadata of a topic that is requested by its name, or by its id from version 10 on."""
    name = row["Name"]
    if name is None:
        name = topic_name(broker, row["TopicId"])
    if name is None:
        no_name = None if request.version >= 12 else ""
        return {"ErrorCode": ErrorCode.UNKNOWN_TOPIC_ID, "Name": no_name, "TopicId": row["TopicId"], "Partitions": []}
    return _topic_metadata(name, broker.topics.get(name))


def _topic_metadata(name: str, topic: MockTopic | None) -> Values:
    if topic is None:
        return {"ErrorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Name": name, "Partitions": []}
    waits = topic.metadata_faults[:1] == [PARTITION_ERROR] and topic.refusals
    how = (
        topic.metadata_faults.pop(0)
        if topic.metadata_faults and not waits and topic.metadata_faults[0] != LEADER_ONLY
        else ""
    )
    if how == UNKNOWN:
        return {"ErrorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Name": name, "Partitions": []}
    if how == NO_BROKERS:
        return {"ErrorCode": ErrorCode.LEADER_NOT_AVAILABLE, "Name": name, "Partitions": []}
    place = {"LeaderId": topic.leader, "LeaderEpoch": topic.epoch}
    nodes = sorted({NODE_1, NODE_2 if topic.replica else topic.leader})
    if topic.metadata_faults[:1] == [LEADER_ONLY]:
        nodes = [topic.leader]
        if topic.first_fetch is not None:
            topic.metadata_faults.pop(0)
    partition = {"ErrorCode": 0, "PartitionIndex": 0, **place, "ReplicaNodes": nodes, "IsrNodes": nodes}
    if how == NO_LEADER:
        partition |= {"ErrorCode": ErrorCode.LEADER_NOT_AVAILABLE, "LeaderId": -1}
    if how == LEADER_NOT_LISTED:
        partition |= {"LeaderId": NODE_2, "ReplicaNodes": [*nodes, NODE_2]}
    if how == PARTITION_ERROR:
        rows = [partition, {**partition, "PartitionIndex": 1}]
        return {
            "ErrorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Name": name,
            "TopicId": topic.id,
            "Partitions": rows,
        }
    return {"ErrorCode": 0, "Name": name, "TopicId": topic.id, "Partitions": [partition]}


def _list_offsets(broker: MockBroker, request: KafkaRequest) -> Values:
    def one(name: str, row: Values) -> Values:
        topic = broker.topics.get(name)
        error = _leader_epoch_error(broker, topic, row) or (topic.group.error("ListOffsets") if topic else 0)
        offset = -1 if topic is None or error else _offset_at(topic, row["Timestamp"])
        found = (
            {"Timestamp": -1, "Offset": offset} if request.version else {"OldStyleOffsets": [offset] if topic else []}
        )
        return {"PartitionIndex": row["PartitionIndex"], "ErrorCode": error, **found}

    rows = [
        {"Name": row["Name"], "Partitions": [one(row["Name"], part) for part in row["Partitions"]]}
        for row in request.body["Topics"]
    ]
    return {"Topics": rows}


def _offset_at(topic: MockTopic, timestamp: int) -> int:
    """Return the first or last offset of a topic. Raises UnhandledRequest for an offset that depends on its records."""
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return max(topic.start, topic.log_start)
    if timestamp >= 0 and topic.log_start:
        return topic.log_start if timestamp <= TIME_MS else -1
    if timestamp != LATEST:
        raise UnhandledRequest(f"ListOffsets for the timestamp {timestamp}")
    return topic.high_watermark


def _fetch(broker: MockBroker, request: KafkaRequest) -> Values:
    """Return the records of each partition; in a session, only the changes. SessionId 0 declines a session."""
    try:
        session = _session(broker, request.body)
    except FetchSessionError as problem:
        return {"ErrorCode": problem.error, "Responses": []}
    body = _fetch_topics(broker, request, request.body["Topics"] if session is None else session.topics())
    if session is not None:
        body |= {"SessionId": session.id, "Responses": session.news(body["Responses"])}
    return add_current_leader(broker, request, body)


def _session(broker: MockBroker, body: Values) -> FetchSession | None:
    """Return the session of a fetch, if it requests one and the broker has sessions. Raises FetchSessionError."""
    session = broker.sessions.of(body) if broker.sessions is not None else None
    if broker.sessions is not None and session is not None and session.epoch:
        topics = [resolve_topic(broker, row, "Topic")[1] for row in session.topics()]
        lost = [topic for topic in topics if topic is not None and topic.empty_fetches[:1] == [SESSION_LOST]]
        for topic in lost:
            topic.empty_fetches.pop(0)
            broker.sessions.lose(session)
    return session


def _fetch_topics(broker: MockBroker, request: KafkaRequest, topics: Iterable[Values]) -> Values:
    """Return the records of these partitions."""
    isolation, newest = request.body.get("IsolationLevel", 0), max_magic_of_fetch(request.version)
    broker.max_fetch_magic = newest
    rows = []
    for row in topics:
        reference, topic = resolve_topic(broker, row, "Topic")
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if "TopicId" in reference else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is not None and topic.empty_fetches[:1] == [THROTTLED]:
            topic.empty_fetches.pop(0)
            return {"ThrottleTimeMs": _THROTTLED_MS, "Responses": []}
        if topic is not None and topic.leader == broker.node:
            topic.change_leader(min((part["FetchOffset"] for part in row["Partitions"]), default=0))
            topic.drop_connection()
        if topic is not None and topic.replica and request.body.get("RackId"):
            parts = [_fetch_from_follower(broker.node, topic, part, isolation, newest) for part in row["Partitions"]]
        else:
            parts = [
                _refused(part, error)
                if topic is not None and (error := _leader_epoch_error(broker, topic, part))
                else _fetch_partition(topic, part, isolation, newest, unknown)
                for part in row["Partitions"]
            ]
        rows.append({**reference, "Partitions": parts})
    return {"Responses": rows}


def fetch_delay_s(request: KafkaRequest, body: Values) -> float:
    """Return the seconds before a response: an empty fetch waits as long as the client allows."""
    if request.name != "Fetch" or any(part["Records"] for row in body["Responses"] for part in row["Partitions"]):
        return 0.0
    return min(int(request.body["MaxWaitMs"]), _LONGEST_WAIT_MS) / 1000


def _fetch_from_follower(node: int, topic: MockTopic, row: Values, isolation: int, newest: int) -> Values:
    """Return the records of a partition on a node, in a scenario whose leader redirects consumers to a replica."""
    if node != topic.leader and topic.replica == REPLICA_BEHIND:
        return {**_refused(row, ErrorCode.OFFSET_OUT_OF_RANGE), "LogStartOffset": _BEHIND, "HighWatermark": _BEHIND}
    if node != topic.leader or (topic.replica == REPLICA_BEHIND and topic.first_fetch):
        return _fetch_partition(topic, row, isolation, newest, 0)
    # KIP-392: the leader returns no records, but the replica to fetch from.
    topic.first_fetch = topic.first_fetch or time.monotonic()
    topic.on_fetch()
    ends = {"HighWatermark": topic.high_watermark, "LastStableOffset": topic.high_watermark, "ErrorCode": 0}
    return {"PartitionIndex": row["Partition"], **ends, "PreferredReadReplica": NODE_2, "Records": b""}


def _refused(row: Values, error: int) -> Values:
    return {"PartitionIndex": row["Partition"], "HighWatermark": -1, "Records": b"", "ErrorCode": error}


def _fetch_partition(topic: MockTopic | None, row: Values, isolation: int, newest: int, unknown: int) -> Values:
    """Return the records of a partition, for a version of Fetch that carries no magic above `newest`."""
    if topic is None:
        return _refused(row, unknown)
    if topic.refusals:
        return _refused(row, topic.refusals.pop(0))
    if not fits_fetch_version(topic.log, newest):
        return _refused(row, ErrorCode.UNSUPPORTED_VERSION)  # as Apache Kafka without down-conversion
    if row["FetchOffset"] < topic.log_start:
        return _refused(row, ErrorCode.OFFSET_OUT_OF_RANGE)
    shown: Values = {"PartitionIndex": row["Partition"]}
    if topic.empty_fetches:
        how = topic.empty_fetches.pop(0)
        stable = topic.start if how == ABOVE_LAST_STABLE_OFFSET else topic.high_watermark
        ends = {"HighWatermark": topic.high_watermark, "LastStableOffset": stable}
        return {**shown, **ends, "ErrorCode": 0, "Records": None if how == NULL else b""}
    if topic.is_withheld(row["FetchOffset"]):
        return {**shown, "HighWatermark": topic.high_watermark, "ErrorCode": 0, "Records": b""}
    records = topic.fetch(row["FetchOffset"], isolation, newest)
    ends = {"HighWatermark": topic.high_watermark, "LastStableOffset": topic.high_watermark}
    listed = topic.aborted_transactions(row["FetchOffset"]) or (
        [] if isolation else None
    )  # some brokers list them at any isolation level
    return {**shown, **ends, "ErrorCode": 0, "Records": records, "AbortedTransactions": listed}


def _offset_for_leader_epoch(broker: MockBroker, request: KafkaRequest) -> Values:
    """Return the end of the epoch that a client read last, or an earlier end if the new leader truncated its log."""

    def one(topic: MockTopic | None, row: Values) -> Values:
        error = _leader_epoch_error(broker, topic, row) or (topic.group.error("OffsetForLeaderEpoch") if topic else 0)
        ends = {"LeaderEpoch": -1, "EndOffset": -1}
        if topic is not None and not error:
            ends = dict(zip(("LeaderEpoch", "EndOffset"), topic.end_of(row["LeaderEpoch"]), strict=True))
            if topic.truncates_log:
                ends = {"LeaderEpoch": row["LeaderEpoch"] - 1, "EndOffset": topic.start}
        return {"Partition": row["Partition"], "ErrorCode": error, **ends}

    rows = [
        {
            "Topic": row["Topic"],
            "Partitions": [one(broker.topics.get(row["Topic"]), part) for part in row["Partitions"]],
        }
        for row in request.body["Topics"]
    ]
    return {"Topics": rows}


def _leader_epoch_error(broker: MockBroker, topic: MockTopic | None, row: Values) -> int:
    """Return the error for a missing partition, another leader, or another leader epoch; 0 if there is none.

    An older version of the request has no epoch (-1). A client that received no epoch may send any value.
    """
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.leader != broker.node:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    known = row.get("CurrentLeaderEpoch", -1)
    if topic.epoch < 0 or known in (-1, topic.epoch):
        return 0
    return ErrorCode.FENCED_LEADER_EPOCH if known < topic.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    "Metadata": _metadata,
    "ListOffsets": _list_offsets,
    "Fetch": _fetch,
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
}
