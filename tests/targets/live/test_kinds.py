"""The kinds of conversations: what the scripted broker answers otherwise in each, and that it is over soon."""

import pytest
from log_bytes import batch
from tiny_client import frame, response

from conformance.cases.conversations import CONVERSATIONS
from conformance.targets.live.broker import Broker
from conformance.targets.live.frames import Closed, Unanswerable
from conformance.targets.live.kinds import KINDS
from conformance.targets.live.offers import FULL, to_producers
from conformance.targets.live.sessions import Sessions
from conformance.targets.live.topics import Topic

HIGH_WATERMARK = 1


@pytest.fixture
def led():
    """A broker that leads a conversation over a topic `t`."""

    def lead(conversation):
        kind = KINDS[conversation]
        topics = {"t": Topic(batch(0), 0, HIGH_WATERMARK).led(kind)}
        broker = Broker("127.0.0.1", 9092, {**to_producers(FULL), **kind.but}, topics)
        broker.is_strict, broker.sessions = kind.is_strict, Sessions() if kind.has_sessions else None
        return broker

    return lead


def asked(broker, name, version, body):
    return response(name, version, broker.respond(frame(name, version, body, client="t")[4:]).frame)[1]


def fetched(broker, offset=0, session=(0, -1)):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1}
    topics = ({"Topic": "t", "Partitions": (part,)},) if offset is not None else ()
    body = {"MaxWaitMs": 1, "MinBytes": 1, "SessionId": session[0], "SessionEpoch": session[1], "Topics": topics}
    return asked(broker, "Fetch", 12, {**body, "ForgottenTopicsData": ()})


def partition(answer):
    return answer["Responses"][0]["Partitions"][0]


def test_each_conversation_has_its_kind():
    assert set(KINDS) == set(CONVERSATIONS)


@pytest.mark.parametrize("conversation", ["consume", "reset", "unavailable", "unknown-error", "disk"])
def test_what_is_refused_is_served_once_all_errors_are_told(led, conversation):
    broker, errors = led(conversation), KINDS[conversation].refusals
    assert [partition(fetched(broker))["ErrorCode"] for _ in errors] == [*errors]
    assert partition(fetched(broker))["Records"] == batch(0)


@pytest.mark.parametrize(("conversation", "stable"), [("null", HIGH_WATERMARK), ("undecided", 0)])
def test_a_fetch_may_bring_nothing_without_an_error(led, conversation, stable):
    broker = led(conversation)
    for _ in KINDS[conversation].hollow:
        part = partition(fetched(broker))
        assert (part["ErrorCode"], part["HighWatermark"], part["LastStableOffset"]) == (0, HIGH_WATERMARK, stable)
        assert part["Records"] == (None if conversation == "null" else b"")
    assert partition(fetched(broker))["Records"] == batch(0)


def test_a_broker_with_too_much_to_do_answers_without_a_topic(led):
    broker = led("throttled")
    answers = [fetched(broker) for _ in KINDS["throttled"].hollow]
    assert [(answer["Responses"], answer["ThrottleTimeMs"]) for answer in answers] == [((), 100)] * 2
    assert partition(fetched(broker))["Records"] == batch(0)


@pytest.mark.parametrize("conversation", ["consume", "reset"])
def test_no_fetch_from_below_0_is_served(led, conversation):
    broker = led(conversation)
    codes = [partition(fetched(broker, -1))["ErrorCode"] for _ in range(3)]
    assert codes[1:] == [1, 1]


@pytest.mark.parametrize(
    ("conversation", "brokers", "error", "leader"), [("no-brokers", 0, 5, None), ("no-leader", 1, 0, -1)]
)
def test_metadata_may_lack_what_it_has_soon(led, conversation, brokers, error, leader):
    broker, body = led(conversation), {"Topics": ({"Name": "t"},)}
    first, second = (asked(broker, "Metadata", 8, body) for _ in range(2))
    topic = first["Topics"][0]
    assert (len(first["Brokers"]), topic["ErrorCode"]) == (brokers, error)
    assert [part["LeaderId"] for part in topic["Partitions"]] == ([] if leader is None else [leader])
    assert len(second["Brokers"]) == second["Topics"][0]["Partitions"][0]["LeaderId"] == 1


def test_a_member_that_has_to_join_again_is_assigned_nothing(led):
    mine = {"MemberId": "m", "Assignment": b"\0\0"}
    body = {"GroupId": "t", "GenerationId": 1, "MemberId": "m", "Assignments": (mine,)}
    broker = led("rebalance")
    answers = [asked(broker, "SyncGroup", 3, body) for _ in range(2)]
    assert [(answer["ErrorCode"], answer["Assignment"]) for answer in answers] == [(27, b""), (0, b"\0\0")]


def test_a_transaction_before_that_is_not_done_is_told_to_who_wants_an_id_and_to_who_adds_partitions(led):
    broker = led("busy")
    ids = [asked(broker, "InitProducerId", 1, {"TransactionTimeoutMs": 1}) for _ in range(1)]
    add = {"V3AndBelowTransactionalId": "t", "V3AndBelowProducerId": 1, "V3AndBelowProducerEpoch": 0}
    add |= {"V3AndBelowTopics": ({"Name": "t", "Partitions": (0,)},)}
    added = [asked(broker, "AddPartitionsToTxn", 1, add) for _ in range(2)]
    rows = [answer["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0] for answer in added]
    assert [answer["ErrorCode"] for answer in ids] == [51]
    assert [row["PartitionErrorCode"] for row in rows] == [51, 0]
    assert asked(broker, "InitProducerId", 1, {"TransactionTimeoutMs": 1})["ErrorCode"] == 0


def test_a_session_that_is_lost_is_not_found_and_another_one_can_be_opened(led):
    broker = led("session-lost")
    number = fetched(broker, 0, (0, 0))["SessionId"]
    assert fetched(broker, None, (number, 1))["ErrorCode"] == 70
    assert fetched(broker, None, (number, 2))["ErrorCode"] == 70
    again = fetched(broker, 0, (0, 0))
    assert (again["SessionId"] > number, partition(again)["Records"]) == (True, batch(0))


def test_an_older_broker_tells_of_apiversions_alone_and_closes_over_what_it_does_not_offer(led):
    broker, body = led("older"), {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"}
    sent = broker.respond(frame("ApiVersions", 4, body)[4:])
    _, told = response("ApiVersions", 0, sent.frame)
    assert [(row["ApiKey"], row["MaxVersion"]) for row in told["ApiKeys"]] == [(18, 2)]
    with pytest.raises(Closed):
        broker.respond(frame("Metadata", 13, {"Topics": ()})[4:])
    with pytest.raises(Unanswerable):
        led("without-ids").respond(frame("Metadata", 13, {"Topics": ()})[4:])


def test_a_write_whose_answer_is_lost_was_taken_and_is_no_other_when_it_comes_again(led):
    broker, written = led("answer-lost"), batch(0, producer=7)
    broker.topics["t"].due = {}
    rows = ({"Name": "t", "PartitionData": ({"Index": 0, "Records": written},)},)
    write = frame("Produce", 8, {"Acks": -1, "TimeoutMs": 1, "TopicData": rows})[4:]
    with pytest.raises(Closed):
        broker.respond(write)
    assert broker.topics["t"].produced == [written]
    rows = response("Produce", 8, broker.respond(write).frame)[1]["Responses"]
    assert rows[0]["PartitionResponses"][0]["ErrorCode"] == 0
    assert broker.topics["t"].produced == [written]
