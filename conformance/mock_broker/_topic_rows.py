"""References to a topic in requests to the mock broker: by its name, or by its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import KafkaRequest
from conformance.mock_broker.topic import NO_ID

if TYPE_CHECKING:
    from conformance.mock_broker.broker import MockBroker
    from conformance.mock_broker.topic import MockTopic


def resolve_topic(broker: MockBroker, row: Values, key: str) -> tuple[Values, MockTopic | None]:
    """Return the topic of a request row, after the reference to it, by name or id, that the response repeats."""
    if "TopicId" not in row:
        return {key: row[key]}, broker.topics.get(row[key])
    return {"TopicId": row["TopicId"]}, broker.topics.get(topic_name(broker, row["TopicId"]) or "")


def topic_name(broker: MockBroker, topic_id: bytes) -> str | None:
    """Return the name of the topic with this id; None if no topic has it, or if topics have no ids."""
    if topic_id == NO_ID:
        return None
    return next((name for name, topic in broker.topics.items() if topic.id == topic_id), None)


class _LeaderFieldNames(NamedTuple):
    """The names of topics and partitions in a response, and the first versions with the leader and its endpoint."""

    topic: str
    partitions: str
    leader: int
    endpoints: int


_ROOMS: Mapping[str, _LeaderFieldNames] = {
    "Fetch": _LeaderFieldNames("Topic", "Partitions", 12, 16),
    "Produce": _LeaderFieldNames("Name", "PartitionResponses", 10, 10),
}


def add_current_leader(broker: MockBroker, request: KafkaRequest, body: Values) -> Values:
    """Return the response with the current leader of each partition whose error is NOT_LEADER_OR_FOLLOWER."""
    room, leaders = _ROOMS[request.name], set()
    for row in body["Responses"] if request.version >= room.leader else ():
        _, topic = resolve_topic(broker, row, room.topic)
        for part in row[room.partitions]:
            if part["ErrorCode"] == ErrorCode.NOT_LEADER_OR_FOLLOWER and topic is not None:
                part["CurrentLeader"] = {"LeaderId": topic.leader, "LeaderEpoch": topic.epoch}
                leaders.add(topic.leader)
    if not leaders or request.version < room.endpoints:
        return body
    nodes = [one for one in broker.nodes if one.node in leaders]
    return {**body, "NodeEndpoints": [{"NodeId": one.node, "Host": one.host, "Port": one.port} for one in nodes]}
