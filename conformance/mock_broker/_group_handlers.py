"""The mock broker's responses to the members of a consumer group. The group has the name of its topic.

By default the client is the only member and begins at the committed offset; a scenario can add another member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from conformance.cases.client_scenarios import NO_COMMITTED_OFFSET, OTHER_MEMBER_ID, OTHER_TOPIC, OTHER_TOPIC_SUFFIX
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import KafkaRequest, UnhandledRequest
from conformance.mock_broker._membership import LEADER_COMPOSITIONS, GroupState, other_member
from conformance.mock_broker._topic_rows import resolve_topic
from conformance.mock_broker.topic import MockTopic

if TYPE_CHECKING:
    from conformance.mock_broker.broker import MockBroker

_NAMED_FIRST = 4
"""The first version of JoinGroup in which a new member receives an id and joins again with it (KIP-394)."""
_GROUP_ERROR_CODE = 2
"""The first version of OffsetFetch with one error code for the whole group."""
_NOWHERE = {"NodeId": -1, "Host": "", "Port": -1}


def _group(broker: MockBroker, name: str) -> GroupState:
    """Return the group of the topic with this name; an empty group without such a topic."""
    topic = broker.topics.get(name)
    return GroupState() if topic is None else topic.group


def _find_coordinator(broker: MockBroker, request: KafkaRequest) -> Values:
    def found(key: str) -> Values:
        group = _group(broker, key)
        error = group.error("FindCoordinator")
        node = next((one for one in broker.nodes if one.node == group.coordinator), broker)
        where = _NOWHERE if error else {"NodeId": node.node, "Host": node.host, "Port": node.port}
        return {"ErrorCode": error, "ErrorMessage": None, **where}

    if "CoordinatorKeys" not in request.body:
        return found(request.body["Key"])
    return {"Coordinators": [{"Key": key, **found(key)} for key in request.body["CoordinatorKeys"]]}


def _join_group(broker: MockBroker, request: KafkaRequest) -> Values:
    """Begin the next generation, or return an error. Raises UnhandledRequest if the client sends no protocol."""
    body, group = request.body, _group(broker, request.body["GroupId"])
    if not body["Protocols"]:
        raise UnhandledRequest("JoinGroup without a protocol")
    chosen, member = body["Protocols"][0], body["MemberId"] or group.new_member(body["GroupId"])
    error = group.error("JoinGroup", broker.node) or (
        ErrorCode.UNKNOWN_MEMBER_ID if member in group.stopped_members else 0
    )
    if not error and request.version >= _NAMED_FIRST and not body["MemberId"] and body.get("GroupInstanceId") is None:
        # As in Apache Kafka 3.9.2 and 4.4.0. @platformatic/kafka 1.20.0 reads its member id only from this response.
        error = ErrorCode.MEMBER_ID_REQUIRED
    if error:
        return {
            **{"ErrorCode": error, "GenerationId": -1, "ProtocolType": None, "ProtocolName": "", "Leader": ""},
            **{"MemberId": member if error == ErrorCode.MEMBER_ID_REQUIRED else body["MemberId"], "Members": []},
        }
    group.next_generation()
    itself = {"MemberId": member, "GroupInstanceId": body.get("GroupInstanceId"), "Metadata": chosen["Metadata"]}
    led = [itself] if group.now in ("", *LEADER_COMPOSITIONS) else []
    if group.now in LEADER_COMPOSITIONS:
        led.append(other_member(body["GroupId"], group))
    if group.now == OTHER_TOPIC:
        broker.topics.setdefault(body["GroupId"] + OTHER_TOPIC_SUFFIX, MockTopic(b"", 0, 0, group=group))
    return {
        **{"ErrorCode": 0, "GenerationId": group.generation, "ProtocolType": body["ProtocolType"]},
        **{
            "ProtocolName": chosen["Name"],
            "Leader": member if led else OTHER_MEMBER_ID,
            "MemberId": member,
            "Members": led,
        },
    }


def _sync_group(broker: MockBroker, request: KafkaRequest) -> Values:
    """Return the client's assignment.

    Raises UnhandledRequest if an only member assigns itself no partition, unless the scenario tests a topic name.
    """
    body, group = request.body, _group(broker, request.body["GroupId"])
    if error := group.error("SyncGroup", broker.node):
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            group.stopped_members.add(body["MemberId"])
        return {"ErrorCode": error, "Assignment": b""}
    protocol: Values = {key: body[key] for key in ("ProtocolType", "ProtocolName") if key in body}
    mine = [row["Assignment"] for row in body["Assignments"] if row["MemberId"] == body["MemberId"]]
    if not (mine or group.now):
        topic = broker.topics.get(body["GroupId"])
        if topic is not None and topic.name:
            return {"ErrorCode": 0, **protocol, "Assignment": b""}
        raise UnhandledRequest("SyncGroup of a leader that assigns no partition to itself")
    is_led = group.now not in ("", *LEADER_COMPOSITIONS) or not mine
    return {"ErrorCode": 0, **protocol, "Assignment": group.assigned(body["GroupId"]) if is_led else mine[0]}


def _heartbeat(broker: MockBroker, request: KafkaRequest) -> Values:
    group = _group(broker, request.body["GroupId"])
    if request.body["MemberId"] in group.stopped_members:
        return {"ErrorCode": ErrorCode.UNKNOWN_MEMBER_ID}
    if error := group.error("Heartbeat", broker.node):
        return {"ErrorCode": error}
    return {"ErrorCode": ErrorCode.REBALANCE_IN_PROGRESS if group.is_idle_generation else 0}


def _leave_group(_: MockBroker, request: KafkaRequest) -> Values:
    if "Members" not in request.body:
        return {"ErrorCode": 0}
    members = [
        {"MemberId": row["MemberId"], "GroupInstanceId": row["GroupInstanceId"], "ErrorCode": 0}
        for row in request.body["Members"]
    ]
    return {"ErrorCode": 0, "Members": members}


def _offset_commit(broker: MockBroker, request: KafkaRequest) -> Values:
    error, rows = _group(broker, request.body["GroupId"]).error("OffsetCommit", broker.node), []
    for row in request.body["Topics"]:
        reference, topic = resolve_topic(broker, row, "Name")
        for part in row["Partitions"]:
            if topic is not None and not error:
                topic.committed, topic.committed_epoch = part["CommittedOffset"], -1
        done = [{"PartitionIndex": part["PartitionIndex"], "ErrorCode": error} for part in row["Partitions"]]
        rows.append({**reference, "Partitions": done})
    return {"Topics": rows}


def _offset_fetch(broker: MockBroker, request: KafkaRequest) -> Values:
    body = request.body
    if "Groups" not in body:
        return _committed_offsets(broker, request.version, body["GroupId"], body["Topics"])
    rows = [_committed_offsets(broker, request.version, row["GroupId"], row["Topics"]) for row in body["Groups"]]
    return {"Groups": [{**row, "GroupId": of["GroupId"]} for row, of in zip(rows, body["Groups"], strict=True)]}


def _committed_offsets(broker: MockBroker, version: int, group: str, requested: Iterable[Values] | None) -> Values:
    """Return the committed offsets of these topics. Raises UnhandledRequest for null, which requests all topics."""
    if requested is None:
        raise UnhandledRequest("OffsetFetch for all topics of a group")
    error, rows = _group(broker, group).error("OffsetFetch", broker.node), []
    if error and error != ErrorCode.UNSTABLE_OFFSET_COMMIT and version >= _GROUP_ERROR_CODE:
        return {"ErrorCode": error, "Topics": []}
    for row in requested:
        shown, topic = resolve_topic(broker, row, "Name")
        offset = NO_COMMITTED_OFFSET if topic is None or error else topic.committed
        epoch = -1 if offset == NO_COMMITTED_OFFSET or topic is None else topic.committed_epoch
        one = {"CommittedOffset": offset, "CommittedLeaderEpoch": epoch, "Metadata": "", "ErrorCode": error}
        rows.append({**shown, "Partitions": [{"PartitionIndex": number, **one} for number in row["PartitionIndexes"]]})
    return {"ErrorCode": 0, "Topics": rows}


ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "SyncGroup": _sync_group,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave_group,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
}
