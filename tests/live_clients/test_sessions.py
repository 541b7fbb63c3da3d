"""Fetch sessions of the scripted broker, and what it tells of leaders: as Apache Kafka answers."""

import pytest
from log_bytes import batch
from tiny_client import frame, response

from conformance.cases.api_versions_profiles import ALL
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.fetch_sessions import FetchSessionCache, epoch_after
from conformance.mock_broker.topic import MockTopic

NOT_FOUND, INVALID_EPOCH, NOT_LEADER = 70, 71, 6
LAST = (1 << 31) - 1


@pytest.fixture
def broker():
    topics = {name: MockTopic(batch(0), 0, 1) for name in "ab"}
    return MockBroker("127.0.0.1", 9092, ALL, topics, sessions=FetchSessionCache())


def fetched(broker, session, epoch, offsets, version=12, forgotten=()):
    """The answer to a fetch of these topics, and what stands in it of each."""
    rows = tuple({"Topic": name, "Partitions": (asked(offset),)} for name, offset in offsets.items())
    gone = tuple({"Topic": name, "Partitions": (0,)} for name in forgotten)
    body = {"MaxWaitMs": 100, "MinBytes": 1, "SessionId": session, "SessionEpoch": epoch}
    sent = broker.respond(frame("Fetch", version, {**body, "Topics": rows, "ForgottenTopicsData": gone})[4:])
    _, answer = response("Fetch", version, sent.frame)
    return answer, {row["Topic"]: row["Partitions"][0] for row in answer["Responses"]}


def asked(offset):
    return {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1}


def test_an_answer_in_a_session_holds_what_is_new_for_what_was_named_before(broker):
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
    assert rows["a"]["HighWatermark"] == 2  # the record that ends it
    _, rows = fetched(broker, number, 3, {"a": 2})
    assert rows == {}


def test_a_high_watermark_that_moved_is_news_though_no_record_is(broker):
    broker.topics["a"].empty_fetches = ["session"] * 3
    number = fetched(broker, 0, 0, {"a": 0})[0]["SessionId"]
    assert fetched(broker, number, 1, {})[1] == {}
    broker.topics["a"].high_watermark = 5
    assert fetched(broker, number, 2, {})[1]["a"]["HighWatermark"] == 5


def test_a_fetch_with_another_number_or_of_no_session_is_refused(broker):
    number = fetched(broker, 0, 0, {"a": 0})[0]["SessionId"]
    assert fetched(broker, number, 2, {})[0]["ErrorCode"] == INVALID_EPOCH
    assert fetched(broker, number + 1, 1, {})[0]["ErrorCode"] == NOT_FOUND
    assert fetched(broker, number, 1, {})[0]["ErrorCode"] == 0


def test_a_session_that_is_closed_is_gone(broker):
    number = fetched(broker, 0, 0, {"a": 0})[0]["SessionId"]
    closed, rows = fetched(broker, number, -1, {"a": 1})
    assert (closed["SessionId"], list(rows)) == (0, ["a"])
    assert fetched(broker, number, 1, {})[0]["ErrorCode"] == NOT_FOUND


def test_who_wants_no_session_gets_none(broker):
    answer, rows = fetched(broker, 0, -1, {"a": 0})
    assert (answer["SessionId"], rows["a"]["Records"]) == (0, batch(0))


def test_the_numbers_begin_again_at_1():
    assert [epoch_after(epoch) for epoch in (0, 1, LAST - 1, LAST)] == [1, 2, LAST, 1]


@pytest.mark.parametrize("version", [11, 12, 16])
def test_who_asks_the_wrong_broker_is_told_the_leader_where_the_version_has_room(broker, version):
    broker.topics["a"].refusals = [NOT_LEADER]
    fetch = {"MaxWaitMs": 1, "MinBytes": 1, "SessionId": 0, "SessionEpoch": -1, "ForgottenTopicsData": ()}
    named = {"TopicId": broker.topics["a"].id} if version >= 13 else {"Topic": "a"}
    topics = ({**named, "Partitions": (asked(0),)},)
    sent = broker.respond(frame("Fetch", version, {**fetch, "Topics": topics})[4:])
    _, answer = response("Fetch", version, sent.frame)
    leader = answer["Responses"][0]["Partitions"][0].get("CurrentLeader", {}).get("LeaderId")
    nodes = [(node["NodeId"], node["Host"], node["Port"]) for node in answer.get("NodeEndpoints", ())]
    assert (leader, nodes) == {11: (None, []), 12: (1, []), 16: (1, [(1, "127.0.0.1", 9092)])}[version]


@pytest.mark.parametrize("version", [9, 10])
def test_who_writes_to_the_wrong_broker_is_told_the_leader_where_the_version_has_room(broker, version):
    broker.topics["a"].refusals = [NOT_LEADER]
    part = {"Index": 0, "Records": batch(0)}
    body = {"Acks": -1, "TimeoutMs": 1, "TopicData": ({"Name": "a", "PartitionData": (part,)},)}
    sent = broker.respond(frame("Produce", version, body)[4:])
    _, answer = response("Produce", version, sent.frame)
    part = answer["Responses"][0]["PartitionResponses"][0]
    assert part["ErrorCode"] == NOT_LEADER
    assert ("NodeEndpoints" in answer, "CurrentLeader" in part) == (version == 10, version == 10)
