"""Where the leader of a partition is, which Apache Kafka tells in the answer that refuses (KIP-951)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from conformance.targets.live.frames import Request, Values

if TYPE_CHECKING:
    from conformance.targets.live.broker import Broker

NODE = 1
"""The id of the only node."""
NOT_LEADER = 6
_EPOCH = 1


class _Room(NamedTuple):
    """What an answer calls its partitions, and the first versions with room for the leader and for where it listens."""

    partitions: str
    leader: int
    endpoints: int


_ROOMS: Mapping[str, _Room] = {"Fetch": _Room("Partitions", 12, 16), "Produce": _Room("PartitionResponses", 10, 10)}


def with_leader(broker: Broker, request: Request, body: Values) -> Values:
    """An answer that also tells the leader of each partition which it refuses because the leader has moved."""
    room = _ROOMS[request.name]
    moved = [part for row in body["Responses"] for part in row[room.partitions] if part["ErrorCode"] == NOT_LEADER]
    if not moved or request.version < room.leader:
        return body
    for part in moved:
        part["CurrentLeader"] = {"LeaderId": NODE, "LeaderEpoch": _EPOCH}
    if request.version < room.endpoints:
        return body
    return {**body, "NodeEndpoints": [{"NodeId": NODE, "Host": broker.host, "Port": broker.port}]}
