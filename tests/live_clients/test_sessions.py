"""Fetch sessions and leader changes of the mock broker, with the responses of Apache Kafka."""

import pytest
from log_bytes import batch
from tiny_client import frame, response

from conformance.cases.api_versions_profiles import ALL
from conformance.mock_broker._fetch_sessions import FetchSessionCache, epoch_after
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import MockTopic

NOT_FOUND, INVALID_EPOCH, NOT_LEADER = 70, 71, 6
LAST = (1 << 31) - 1


@pytest.fixture
def broker():
    topics = {name: MockTopic(batch(0), 0, 1) for name in "ab"}
    return MockBroker("127.0.0.1", 9092, ALL, topics, sessions=FetchSessionCache())


def fetched(broker, session, epoch, offsets, version=12, forgotten=()):
    """Return the response to a fetch of these topics, and its part of each topic."""
    rows = tuple({"Topic": name, "Partitions": (partition_row(offset),)} for name, offset in offsets.items())
    gone = tuple({"Topic": name, "Partitions": (0,)} for name in forgotten)
    body = {"MaxWaitMs": 100, "MinBytes": 1, "SessionId": session, "SessionEpoch": epoch}
    sent = broker.respond(frame("Fetch", version, {**body, "Topics": rows, "ForgottenTopicsData": gone})[4:])
    _, answer = response("Fetch", version, sent.frame)
    return answer, {row["Topic"]: row["Partitions"][0] for row in answer["Responses"]}


def partition_row(offset):
    return {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1}


def test_a_session_response_contains_only_news_of_its_topics(broker):
    for topic in broker.topics.values():
        topic.empty_fetches = ["session"]
    opened, rows = fetched(broker, 0, 0, {"a": 0, "b": 0})
    assert {name: row["Records"] for name, row in rows.items()} == {"a": b"", "b": b""}
    number = opened["SessionId"]
    assert number > 0
    answer, rows = fetched(broker, number, 1, {})
    assert answer["SessionId"] == number
    assert {name: row["Records"] for name, row in rows.items()} == {"a": batch(0), "b": batch(0)}
    _, rows = fetched(broker, number, 2, {"a": 1}, forgotten=("b",))
    assert list(rows) == ["a"]
    assert rows["a"]["HighWatermark"] == 2  # the end record
    _, rows = fetched(broker, number, 3, {"a": 2})
    assert rows == {}


def test_a_new_high_watermark_is_returned_without_records(broker):
    broker.topics["a"].empty_fetches = ["session"] * 3
    number = fetched(broker, 0, 0, {"a": 0})[0]["SessionId"]
    assert fetched(broker, number, 1, {})[1] == {}
    broker.topics["a"].high_watermark = 5
    assert fetched(broker, number, 2, {})[1]["a"]["HighWatermark"] == 5


def test_a_fetch_with_a_wrong_epoch_or_unknown_session_is_rejected(broker):
    number = fetched(broker, 0, 0, {"a": 0})[0]["SessionId"]
    assert fetched(broker, number, 2, {})[0]["ErrorCode"] == INVALID_EPOCH
    assert fetched(broker, number + 1, 1, {})[0]["ErrorCode"] == NOT_FOUND
    assert fetched(broker, number, 1, {})[0]["ErrorCode"] == 0


def test_a_closed_session_is_not_found(broker):
    number = fetched(broker, 0, 0, {"a": 0})[0]["SessionId"]
    closed, rows = fetched(broker, number, -1, {"a": 1})
    assert (closed["SessionId"], list(rows)) == (0, ["a"])
    assert fetched(broker, number, 1, {})[0]["ErrorCode"] == NOT_FOUND


def test_a_fetch_without_a_session_gets_none(broker):
    answer, rows = fetched(broker, 0, -1, {"a": 0})
    assert (answer["SessionId"], rows["a"]["Records"]) == (0, batch(0))


def test_session_epochs_restart_at_1():
    assert [epoch_after(epoch) for epoch in (0, 1, LAST - 1, LAST)] == [1, 2, LAST, 1]


@pytest.mark.parametrize("version", [11, 12, 16])
def test_a_fetch_from_a_follower_returns_the_leader_if_the_version_allows_it(broker, version):
    broker.topics["a"].refusals = [NOT_LEADER]
    fetch = {"MaxWaitMs": 1, "MinBytes": 1, "SessionId": 0, "SessionEpoch": -1, "ForgottenTopicsData": ()}
    named = {"TopicId": broker.topics["a"].id} if version >= 13 else {"Topic": "a"}
    topics = ({**named, "Partitions": (partition_row(0),)},)
    sent = broker.respond(frame("Fetch", version, {**fetch, "Topics": topics})[4:])
    _, answer = response("Fetch", version, sent.frame)
    leader = answer["Responses"][0]["Partitions"][0].get("CurrentLeader", {}).get("LeaderId")
    nodes = [(node["NodeId"], node["Host"], node["Port"]) for node in answer.get("NodeEndpoints", ())]
    assert (leader, nodes) == {11: (None, []), 12: (1, []), 16: (1, [(1, "127.0.0.1", 9092)])}[version]


@pytest.mark.parametrize("version", [9, 10])
def test_a_produce_to_a_follower_returns_the_leader_if_the_version_allows_it(broker, version):
    broker.topics["a"].refusals = [NOT_LEADER]
    part = {"Index": 0, "Records": batch(0)}
    body = {"Acks": -1, "TimeoutMs": 1, "TopicData": ({"Name": "a", "PartitionData": (part,)},)}
    sent = broker.respond(frame("Produce", version, body)[4:])
    _, answer = response("Produce", version, sent.frame)
    part = answer["Responses"][0]["PartitionResponses"][0]
    assert part["ErrorCode"] == NOT_LEADER
    assert ("NodeEndpoints" in answer, "CurrentLeader" in part) == (version == 10, version == 10)
