"""A consumer group of the mock broker: the responses to its only member, in the oldest and newest versions."""

import pytest
from log_bytes import batch
from tiny_client import frame, response

from conformance.cases.api_versions_profiles import ALL, NON_FLEXIBLE
from conformance.definitions.request_frames import UnhandledRequest
from conformance.mock_broker._group_handlers import ANSWERS
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import MockTopic

MEMBER = {"GroupId": "g", "GenerationId": 1, "MemberId": "m"}


def versions(name):
    """Parametrize a test with the oldest offered version, the newest non-flexible one, and the newest."""
    return pytest.mark.parametrize("version", sorted({*NON_FLEXIBLE[name], *ALL[name]}))


@pytest.fixture
def broker():
    return MockBroker("127.0.0.1", 9392, ALL, {"s": MockTopic(b"", 9, 9), "t": MockTopic(batch(5), 5, 6)})


def send_request(broker, name, version, body):
    sent = broker.respond(frame(name, version, body)[4:])
    assert sent.delay == 0
    return response(name, version, sent.frame)[1]


def named(broker, name, version, *, by_id_from=10):
    return {"TopicId": broker.topics[name].id} if version >= by_id_from else {"Name": name}


def test_every_group_request_is_offered_in_the_low_profile():
    assert set(ANSWERS) <= set(NON_FLEXIBLE) & set(ALL)


@versions("FindCoordinator")
def test_the_only_node_coordinates_every_group(broker, version):
    asks = {"CoordinatorKeys": ("g", "h")} if version >= 4 else {"Key": "g"}
    value = send_request(broker, "FindCoordinator", version, asks)
    rows = value.get("Coordinators", (value,))
    assert [(row["ErrorCode"], row["NodeId"], row["Host"], row["Port"]) for row in rows] == [
        (0, 1, "127.0.0.1", 9392)
    ] * len(rows)
    assert [row.get("Key", "g") for row in rows] == (["g", "h"] if version >= 4 else ["g"])


@versions("JoinGroup")
@pytest.mark.parametrize(("member", "instance"), [("", None), ("", "i"), ("m", None)])
def test_a_joining_member_is_leader_with_its_subscription(broker, version, member, instance):
    protocols = ({"Name": "range", "Metadata": b"sub"}, {"Name": "other", "Metadata": b""})
    asks = {"GroupId": "g", "MemberId": member, "ProtocolType": "consumer", "Protocols": protocols}
    if version >= 5:
        asks["GroupInstanceId"] = instance
    if version >= 4 and not (member or asks.get("GroupInstanceId")):
        # As in Apache Kafka (KIP-394), it gets its member id and joins again with it.
        first = send_request(broker, "JoinGroup", version, asks)
        assert (first["ErrorCode"], first["MemberId"], first["GenerationId"]) == (79, "g-member-0-0", -1)
        assert not first["Members"]
        asks["MemberId"] = first["MemberId"]
    value = send_request(broker, "JoinGroup", version, asks)
    assert (value["ErrorCode"], value["GenerationId"], value["ProtocolName"]) == (0, 1, "range")
    assert value["MemberId"] == value["Leader"] == (member or "g-member-0-0")
    assert [(row["MemberId"], row["Metadata"]) for row in value["Members"]] == [(value["MemberId"], b"sub")]
    assert value.get("ProtocolType", "consumer") == "consumer"


@versions("JoinGroup")
def test_a_join_without_a_protocol_gets_no_response(broker, version):
    with pytest.raises(UnhandledRequest):
        send_request(broker, "JoinGroup", version, {"GroupId": "g", "ProtocolType": "consumer", "Protocols": ()})


@versions("SyncGroup")
def test_the_leader_gets_its_own_assignment(broker, version):
    rows = ({"MemberId": "x", "Assignment": b"no"}, {"MemberId": "m", "Assignment": b"yes"})
    asks = {"ProtocolType": "consumer", "ProtocolName": "range"} if version >= 5 else {}
    value = send_request(broker, "SyncGroup", version, {**MEMBER, **asks, "Assignments": rows})
    assert (value["ErrorCode"], value["Assignment"]) == (0, b"yes")
    assert {key: value[key] for key in asks} == asks


def test_a_leader_without_its_own_assignment_gets_no_response(broker):
    with pytest.raises(UnhandledRequest):
        send_request(broker, "SyncGroup", 0, {**MEMBER, "Assignments": ()})


@versions("Heartbeat")
def test_a_heartbeat_succeeds(broker, version):
    assert send_request(broker, "Heartbeat", version, MEMBER)["ErrorCode"] == 0


@versions("LeaveGroup")
def test_leave_group_succeeds(broker, version):
    asks = {"Members": ({"MemberId": "m"}, {"MemberId": "n"})} if version >= 3 else {"MemberId": "m"}
    value = send_request(broker, "LeaveGroup", version, {"GroupId": "g", **asks})
    assert value["ErrorCode"] == 0
    assert [(row["MemberId"], row["ErrorCode"]) for row in value.get("Members", ())] == (
        [("m", 0), ("n", 0)] if version >= 3 else []
    )


def committed(broker, version, *topics):
    """Return the committed offset of partition 0 of each topic."""
    rows = tuple({**topic, "PartitionIndexes": (0,)} for topic in topics)
    asks = {"Groups": ({"GroupId": "g", "Topics": rows},)} if version >= 8 else {"GroupId": "g", "Topics": rows}
    value = send_request(broker, "OffsetFetch", version, asks)
    (group,) = value.get("Groups", (value,))
    assert group.get("ErrorCode", 0) == 0
    shown = [{key: row[key] for key in row if key in ("Name", "TopicId")} for row in group["Topics"]]
    assert shown == list(topics)
    return [row["Partitions"][0]["CommittedOffset"] for row in group["Topics"]]


@versions("OffsetFetch")
def test_a_group_starts_at_the_configured_offset(broker, version):
    gone = {"TopicId": b"?" * 16} if version >= 10 else {"Name": "gone"}
    asks = (named(broker, "t", version), named(broker, "s", version), gone)
    assert committed(broker, version, *asks) == [5, 9, -1]


@versions("OffsetCommit")
def test_a_group_continues_at_its_committed_offset(broker, version):
    row = {"PartitionIndex": 0, "CommittedOffset": 6}
    gone = {"TopicId": b"?" * 16} if version >= 10 else {"Name": "gone"}
    topics = tuple({**topic, "Partitions": (row,)} for topic in (named(broker, "t", version), gone))
    value = send_request(broker, "OffsetCommit", version, {"GroupId": "g", "Topics": topics})
    assert [row["Partitions"][0]["ErrorCode"] for row in value["Topics"]] == [0, 0]
    assert committed(broker, 1, {"Name": "t"}, {"Name": "s"}) == [6, 9]


def test_offset_fetch_for_all_topics_has_no_response(broker):
    with pytest.raises(UnhandledRequest):
        send_request(broker, "OffsetFetch", 2, {"GroupId": "g", "Topics": None})
