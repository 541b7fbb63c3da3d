"""The scripted broker's answers to a consumer group: it has one member, which leads it, in the first generation.

The offset at which a client is told to begin is the one that its group has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from conformance.targets.live.consuming import named
from conformance.targets.live.frames import Request, Unanswerable, Values
from conformance.targets.live.leaders import NODE

if TYPE_CHECKING:
    from conformance.targets.live.broker import Broker

_GENERATION = 1
_MEMBER_ID_REQUIRED = 79
_NAMED_FIRST = 4
"""From this version of JoinGroup on, a member without an id is given one, and joins again with it (KIP-394)."""
_NOTHING = -1
"""The offset of a partition for which none is committed."""


def _find_coordinator(broker: Broker, request: Request) -> Values:
    found = {"ErrorCode": 0, "ErrorMessage": None, "NodeId": NODE, "Host": broker.host, "Port": broker.port}
    if "CoordinatorKeys" not in request.body:
        return found
    return {"Coordinators": [{"Key": key, **found} for key in request.body["CoordinatorKeys"]]}


def _join_group(_: Broker, request: Request) -> Values:
    """The only member leads, and has its own subscription before it. Raises Unanswerable where it names no protocol."""
    body = request.body
    if not body["Protocols"]:
        raise Unanswerable("JoinGroup without a protocol")
    chosen, member = body["Protocols"][0], body["MemberId"] or f"{body['GroupId']}-member"
    if request.version >= _NAMED_FIRST and not body["MemberId"] and body.get("GroupInstanceId") is None:
        # Apache Kafka 3.9.2 and 4.4.0 do so; @platformatic/kafka 1.20.0 learns its id from this answer alone.
        return {
            **{"ErrorCode": _MEMBER_ID_REQUIRED, "GenerationId": -1, "ProtocolType": None},
            **{"ProtocolName": "", "Leader": "", "MemberId": member, "Members": []},
        }
    itself = {"MemberId": member, "GroupInstanceId": body.get("GroupInstanceId"), "Metadata": chosen["Metadata"]}
    return {
        **{"ErrorCode": 0, "GenerationId": _GENERATION, "ProtocolType": body["ProtocolType"]},
        **{"ProtocolName": chosen["Name"], "Leader": member, "MemberId": member, "Members": [itself]},
    }


def _sync_group(broker: Broker, request: Request) -> Values:
    """What the leader assigns to itself. Raises Unanswerable where that is nothing."""
    body = request.body
    topic = broker.topics.get(body["GroupId"])
    if topic is not None and topic.syncs:
        return {"ErrorCode": topic.syncs.pop(0), "Assignment": b""}
    mine = [row["Assignment"] for row in body["Assignments"] if row["MemberId"] == body["MemberId"]]
    if not mine:
        raise Unanswerable("SyncGroup of a leader that assigns nothing to itself")
    asked: Values = {key: body[key] for key in ("ProtocolType", "ProtocolName") if key in body}
    return {"ErrorCode": 0, **asked, "Assignment": mine[0]}


def _heartbeat(_: Broker, __: Request) -> Values:
    return {"ErrorCode": 0}


def _leave_group(_: Broker, request: Request) -> Values:
    if "Members" not in request.body:
        return {"ErrorCode": 0}
    members = [
        {"MemberId": row["MemberId"], "GroupInstanceId": row["GroupInstanceId"], "ErrorCode": 0}
        for row in request.body["Members"]
    ]
    return {"ErrorCode": 0, "Members": members}


def _offset_commit(broker: Broker, request: Request) -> Values:
    rows = []
    for row in request.body["Topics"]:
        asked, topic = named(broker, row, "Name")
        for part in row["Partitions"]:
            if topic is not None:
                topic.committed = part["CommittedOffset"]
        done = [{"PartitionIndex": part["PartitionIndex"], "ErrorCode": 0} for part in row["Partitions"]]
        rows.append({**asked, "Partitions": done})
    return {"Topics": rows}


def _offset_fetch(broker: Broker, request: Request) -> Values:
    body = request.body
    if "Groups" not in body:
        return {"ErrorCode": 0, "Topics": _committed(broker, body["Topics"])}
    rows = [{"GroupId": row["GroupId"], "Topics": _committed(broker, row["Topics"])} for row in body["Groups"]]
    return {"Groups": [{**row, "ErrorCode": 0} for row in rows]}


def _committed(broker: Broker, asked: Iterable[Values] | None) -> list[Values]:
    """The committed offsets of these topics. Raises Unanswerable where none is named: groups have no topics here."""
    if asked is None:
        raise Unanswerable("OffsetFetch for every topic of a group")
    rows = []
    for row in asked:
        shown, topic = named(broker, row, "Name")
        offset = _NOTHING if topic is None else topic.committed
        one = {"CommittedOffset": offset, "Metadata": "", "ErrorCode": 0}
        rows.append({**shown, "Partitions": [{"PartitionIndex": number, **one} for number in row["PartitionIndexes"]]})
    return rows


ANSWERS: Mapping[str, Callable[[Broker, Request], Values]] = {
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "SyncGroup": _sync_group,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave_group,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
}
