"""Where the leader of a partition is, which Apache Kafka tells in the answer that refuses (KIP-951)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from conformance.codec.derived_fields import Values
from conformance.definitions.request_frames import Request
from conformance.targets.live.naming import named

if TYPE_CHECKING:
    from conformance.targets.live.broker import Broker

NOT_LEADER = 6


class _Room(NamedTuple):
    """What an answer calls topics and partitions, and the first versions that tell the leader, and where it listens."""

    topic: str
    partitions: str
    leader: int
    endpoints: int


_ROOMS: Mapping[str, _Room] = {
    "Fetch": _Room("Topic", "Partitions", 12, 16),
    "Produce": _Room("Name", "PartitionResponses", 10, 10),
}


def with_leader(broker: Broker, request: Request, body: Values) -> Values:
    """An answer that also tells the leader of each partition which it refuses because the leader has moved."""
    room, leaders = _ROOMS[request.name], set()
    for row in body["Responses"] if request.version >= room.leader else ():
        _, topic = named(broker, row, room.topic)
        for part in row[room.partitions]:
            if part["ErrorCode"] == NOT_LEADER and topic is not None:
                part["CurrentLeader"] = {"LeaderId": topic.leader, "LeaderEpoch": topic.epoch}
                leaders.add(topic.leader)
    if not leaders or request.version < room.endpoints:
        return body
    nodes = [one for one in broker.nodes if one.node in leaders]
    return {**body, "NodeEndpoints": [{"NodeId": one.node, "Host": one.host, "Port": one.port} for one in nodes]}
