"""Client scenarios: the faults of the mock broker in each one, and their end."""

import asyncio

import pytest
from log_bytes import batch
from mock_requests import fetch, partition, send_request
from tiny_client import frame, response

from conformance.cases.api_versions_profiles import ALL, with_producer_apis
from conformance.cases.client_requests import batches_for
from conformance.cases.client_scenarios import SCENARIOS
from conformance.definitions.request_frames import CloseConnection, UnhandledRequest
from conformance.mock_broker._fetch_sessions import FetchSessionCache
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.request_recorder import RequestRecorder
from conformance.mock_broker.server import MockCluster
from conformance.mock_broker.topic import END_KEY, MockTopic, log_with_marker

HIGH_WATERMARK = 1


@pytest.fixture
def led():
    """Return a function from a scenario to a broker with that scenario on topic `t`."""

    def lead(scenario):
        kind = SCENARIOS[scenario]
        topics = {"t": MockTopic(batch(0), 0, HIGH_WATERMARK).with_faults(kind)}
        broker = MockBroker("127.0.0.1", 9092, {**with_producer_apis(ALL), **kind.version_overrides}, topics)
        broker.is_strict, broker.sessions = kind.is_strict, FetchSessionCache() if kind.has_sessions else None
        return broker

    return lead


def test_each_scenario_has_a_description():
    descriptions = [scenario.description for scenario in SCENARIOS.values()]
    assert all(description.endswith(".") for description in descriptions)
    messages = [name for name in SCENARIOS if name.startswith("messages-")]
    assert len({*descriptions}) == len(SCENARIOS) - len(messages) + 1


@pytest.mark.parametrize(
    "scenario", ["consume", "offset-out-of-range", "retriable-errors", "unknown-error-code", "kafka-storage-error"]
)
def test_a_request_succeeds_after_all_errors_of_the_scenario(led, scenario):
    broker, errors = led(scenario), SCENARIOS[scenario].partition_errors
    assert [partition(fetch(broker))["ErrorCode"] for _ in errors] == [*errors]
    assert partition(fetch(broker))["Records"] == batch(0)


@pytest.mark.parametrize(("scenario", "stable"), [("null-records", HIGH_WATERMARK), ("above-last-stable-offset", 0)])
def test_a_fetch_may_return_no_records_without_an_error(led, scenario, stable):
    broker = led(scenario)
    for _ in SCENARIOS[scenario].empty_fetches:
        part = partition(fetch(broker))
        assert (part["ErrorCode"], part["HighWatermark"], part["LastStableOffset"]) == (0, HIGH_WATERMARK, stable)
        assert part["Records"] == (None if scenario == "null-records" else b"")
    assert partition(fetch(broker))["Records"] == batch(0)


def test_a_throttling_broker_omits_the_topic_from_its_response(led):
    broker = led("throttled")
    answers = [fetch(broker) for _ in SCENARIOS["throttled"].empty_fetches]
    assert [(answer["Responses"], answer["ThrottleTimeMs"]) for answer in answers] == [((), 100)] * 2
    assert partition(fetch(broker))["Records"] == batch(0)


@pytest.mark.parametrize("scenario", ["consume", "offset-out-of-range"])
def test_a_fetch_from_a_negative_offset_is_not_served(led, scenario):
    broker = led(scenario)
    codes = [partition(fetch(broker, -1))["ErrorCode"] for _ in range(3)]
    assert codes[1:] == [1, 1]


@pytest.mark.parametrize(
    ("scenario", "brokers", "error", "leader"), [("no-brokers", 0, 5, None), ("no-leader", 1, 0, -1)]
)
def test_a_missing_topic_appears_in_later_metadata(led, scenario, brokers, error, leader):
    broker, body = led(scenario), {"Topics": ({"Name": "t"},)}
    first, second = (send_request(broker, "Metadata", 8, body) for _ in range(2))
    topic = first["Topics"][0]
    assert (len(first["Brokers"]), topic["ErrorCode"]) == (brokers, error)
    assert [part["LeaderId"] for part in topic["Partitions"]] == ([] if leader is None else [leader])
    assert len(second["Brokers"]) == second["Topics"][0]["Partitions"][0]["LeaderId"] == 1


def test_a_commit_replaces_the_committed_offset_and_its_leader_epoch(led):
    broker, part = led("committed-offset"), {"PartitionIndex": 0, "CommittedOffset": 1}

    def place():
        body = {"GroupId": "t", "Topics": ({"Name": "t", "PartitionIndexes": (0,)},)}
        row = send_request(broker, "OffsetFetch", 5, body)["Topics"][0]["Partitions"][0]
        return row["CommittedOffset"], row["CommittedLeaderEpoch"]

    assert place() == (0, 5)
    body = {"GroupId": "t", "GenerationIdOrMemberEpoch": 1, "MemberId": "m"}
    send_request(broker, "OffsetCommit", 7, {**body, "Topics": ({"Name": "t", "Partitions": (part,)},)})
    assert place() == (1, -1)


def test_a_member_that_must_rejoin_has_no_assignment(led):
    mine = {"MemberId": "m", "Assignment": b"\0\0"}
    body = {"GroupId": "t", "GenerationId": 1, "MemberId": "m", "Assignments": (mine,)}
    broker = led("rebalance")
    answers = [send_request(broker, "SyncGroup", 3, body) for _ in range(2)]
    assert [(answer["ErrorCode"], answer["Assignment"]) for answer in answers] == [(27, b""), (0, b"\0\0")]


def test_init_producer_id_and_add_partitions_return_concurrent_transactions(led):
    broker = led("concurrent-transactions")
    ids = [send_request(broker, "InitProducerId", 1, {"TransactionTimeoutMs": 1}) for _ in range(1)]
    add = {"V3AndBelowTransactionalId": "t", "V3AndBelowProducerId": 1, "V3AndBelowProducerEpoch": 0}
    add |= {"V3AndBelowTopics": ({"Name": "t", "Partitions": (0,)},)}
    added = [send_request(broker, "AddPartitionsToTxn", 1, add) for _ in range(2)]
    rows = [answer["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0] for answer in added]
    assert [answer["ErrorCode"] for answer in ids] == [51]
    assert [row["PartitionErrorCode"] for row in rows] == [51, 0]
    assert send_request(broker, "InitProducerId", 1, {"TransactionTimeoutMs": 1})["ErrorCode"] == 0


@pytest.mark.parametrize(
    ("scenario", "before", "after", "is_another"),
    [("leader-moved", 5, 6, False), ("leader-moved-same-epoch", 5, 5, False), ("topic-recreated", 5, 0, True)],
)
def test_after_the_first_fetch_both_nodes_return_the_new_leader(led, scenario, before, after, is_another):
    broker = led(scenario)
    other = MockBroker("127.0.0.1", 9093, broker.offered, broker.topics, node=2, other_nodes=(broker,))
    broker.other_nodes, body, first = (other,), {"Topics": ({"Name": "t"},)}, broker.topics["t"].id
    place = send_request(broker, "Metadata", 12, body)["Topics"][0]["Partitions"][0]
    assert (place["LeaderId"], place["LeaderEpoch"]) == (1, before)
    assert [partition(fetch(broker))["ErrorCode"] for _ in range(3)] == [6, 6, 6]
    for one in (broker, other):
        answer = send_request(one, "Metadata", 12, body)
        place = answer["Topics"][0]["Partitions"][0]
        assert [(row["NodeId"], row["Port"]) for row in answer["Brokers"]] == [(1, 9092), (2, 9093)]
        assert (place["LeaderId"], place["LeaderEpoch"], place["ErrorCode"]) == (2, after, 0)
        assert (answer["Topics"][0]["TopicId"] != first) is is_another
    assert partition(fetch(other))["Records"] == batch(0)
    find = {"Topics": ({"Name": "t", "Partitions": ({"PartitionIndex": 0, "Timestamp": -2},)},)}
    codes = [
        send_request(one, "ListOffsets", 1, find)["Topics"][0]["Partitions"][0]["ErrorCode"] for one in (broker, other)
    ]
    assert codes == [6, 0]


def test_an_error_response_contains_the_new_leader_and_its_address(led):
    broker = led("leader-moved")
    broker.other_nodes = (MockBroker("127.0.0.1", 9093, broker.offered, broker.topics, node=2, other_nodes=(broker,)),)
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1}
    topics = ({"TopicId": broker.topics["t"].id, "Partitions": (part,)},)
    answer = send_request(
        broker, "Fetch", 16, {"MaxWaitMs": 1, "MinBytes": 1, "Topics": topics, "ForgottenTopicsData": ()}
    )
    assert partition(answer)["CurrentLeader"] == {"LeaderId": 2, "LeaderEpoch": 6}
    assert [(row["NodeId"], row["Port"]) for row in answer["NodeEndpoints"]] == [(2, 9093)]


@pytest.mark.parametrize(
    ("scenario", "assigned"),
    [
        ("assigned-by-leader", "0003000000010001740000000100000000ffffffff"),
        ("newer-assignment-version", "0007000000010001740000000100000000ffffffff000000056c61746572"),
    ],
)
def test_another_member_assigns_the_topic_in_its_own_version(led, scenario, assigned):
    broker, body = led(scenario), {"GroupId": "t", "GenerationId": 1, "MemberId": "m", "Assignments": ()}
    assert (joined(broker)["Leader"], beaten(broker)) == ("another-member", 0)
    assert send_request(broker, "SyncGroup", 3, body)["Assignment"].hex() == assigned


def test_a_consumer_with_a_rack_gets_a_preferred_replica_that_may_lag(led):
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1}
    body = {"MaxWaitMs": 1, "MinBytes": 1, "Topics": ({"Topic": "t", "Partitions": (part,)},), "RackId": "r"}
    for scenario, other_response, then in (("replica", (0, batch(0)), 2), ("replica-behind", (1, b""), -1)):
        broker = led(scenario)
        other = MockBroker("127.0.0.1", 9093, broker.offered, broker.topics, node=2, other_nodes=(broker,))
        assert partition(fetch(broker))["Records"] == batch(0)
        broker.topics["t"].first_fetch = None
        sent = partition(send_request(broker, "Fetch", 11, body))
        assert (sent["PreferredReadReplica"], sent["Records"], sent["ErrorCode"]) == (2, b"", 0)
        found = partition(send_request(other, "Fetch", 11, body))
        assert (found["ErrorCode"], found["Records"]) == other_response
        assert partition(send_request(broker, "Fetch", 11, body))["PreferredReadReplica"] == then


def test_metadata_returns_a_topic_error_after_the_fetch_error(led):
    broker, body = led("partition-error"), {"Topics": ({"Name": "t"},)}
    assert [send_request(broker, "Metadata", 8, body)["Topics"][0]["ErrorCode"] for _ in range(2)] == [0, 0]
    assert partition(fetch(broker))["ErrorCode"] == 6
    rows = [send_request(broker, "Metadata", 8, body)["Topics"][0] for _ in range(2)]
    assert [(row["ErrorCode"], len(row["Partitions"])) for row in rows] == [(3, 2), (0, 1)]


def test_the_first_fetch_response_has_a_negative_size(led):
    broker, part = led("negative-size"), {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1}
    body = {"MaxWaitMs": 1, "MinBytes": 1, "Topics": ({"Topic": "t", "Partitions": (part,)},)}
    assert broker.respond(frame("Metadata", 8, {"Topics": ()})[4:]).size is None
    assert [broker.respond(frame("Fetch", 4, body)[4:]).size for _ in range(2)] == [-1, None]


def beaten(broker, member="m"):
    return send_request(broker, "Heartbeat", 3, {"GroupId": "t", "GenerationId": 1, "MemberId": member})["ErrorCode"]


def joined(broker, member="m"):
    protocols = ({"Name": "range", "Metadata": b"\0\0"},)
    return send_request(broker, "JoinGroup", 3, {"GroupId": "t", "MemberId": member, "Protocols": protocols})


@pytest.mark.parametrize(
    ("scenario", "first", "then"),
    [("empty-assignment", 27, 27), ("illegal-generation", 22, 22), ("coordinator-moved", 16, 27)],
)
def test_a_member_without_partitions_gets_errors_until_it_rejoins(led, scenario, first, then):
    broker = led(scenario)
    assert joined(broker)["Leader"] == "another-member"
    body = {"GroupId": "t", "GenerationId": 1, "MemberId": "m", "Assignments": ()}
    assert send_request(broker, "SyncGroup", 3, body)["Assignment"] == bytes.fromhex("000300000000ffffffff")
    assert (beaten(broker), beaten(broker)) == (first, then)
    assert joined(broker)["Leader"] == "m"
    assert beaten(broker) == 0


def test_an_unknown_member_is_rejected_until_it_joins_without_an_id(led):
    broker, body = led("unknown-member-id"), {"GroupId": "t", "GenerationId": 1, "MemberId": "m", "Assignments": ()}
    joined(broker)
    assert (
        send_request(broker, "SyncGroup", 3, body)["ErrorCode"] == beaten(broker) == joined(broker)["ErrorCode"] == 25
    )
    assert (joined(broker, "")["ErrorCode"], joined(broker, "")["MemberId"] == "m") == (0, False)


@pytest.mark.parametrize(
    ("scenario", "metadata"),
    [
        ("two-members", "000300000001000174ffffffff00000000ffffffff00047261636b"),
        ("empty-metadata", ""),
        ("malformed-metadata", "000300000001000174"),
    ],
)
def test_the_members_of_a_group_leader_include_another_member(led, scenario, metadata):
    mine, other = joined(led(scenario))["Members"]
    assert (mine["MemberId"], other["MemberId"]) == ("m", "another-member")
    assert other["Metadata"].hex() == metadata


def test_another_member_may_subscribe_to_another_existing_topic(led):
    broker = led("two-topics")
    for _ in range(2):
        other = joined(broker)["Members"][1]["Metadata"]
        assert bytes.fromhex("0003 00000001 0007") + b"t-other" + b"\xff" == other[:16]
        assert partition(fetch(broker))["Records"] == b""
    (topic,) = send_request(broker, "Metadata", 8, {"Topics": ({"Name": "t-other"},)})["Topics"]
    assert [(part["ErrorCode"], part["LeaderId"]) for part in topic["Partitions"]] == [(0, 1)]
    assert len(joined(broker)["Members"]) == 1
    assert partition(fetch(broker))["Records"] == batch(0)


def test_another_member_may_claim_the_partition_of_the_client(led):
    broker = led("owned-partition-conflict")
    first, second, third = (joined(broker) for _ in range(3))
    assert [answer["GenerationId"] for answer in (first, second, third)] == [1, 3, 4]
    metadata = second["Members"][1]["Metadata"]
    topic = b"\0\1" + b"t" + bytes.fromhex("00000001 00000000")
    assert bytes.fromhex("0003 00000001 0007") + b"t-other" + b"\xff" * 4 == metadata[:19]
    assert metadata[19:] == b"\0\0\0\1" + topic + bytes.fromhex("00000002 0004") + b"rack"


@pytest.mark.parametrize(
    ("scenario", "top", "inside", "times"),
    [("unstable-offsets", 0, 88, 5), ("offsets-loading", 14, None, 5), ("offsets-rejected", 30, None, 1)],
)
def test_offset_fetch_succeeds_after_all_errors(led, scenario, top, inside, times):
    broker, body = led(scenario), {"GroupId": "t", "Topics": ({"Name": "t", "PartitionIndexes": (0,)},)}
    answers = [send_request(broker, "OffsetFetch", 5, body) for _ in range(times + 1)]
    for answer in answers[:-1]:
        rows = [row["Partitions"][0]["ErrorCode"] for row in answer["Topics"]]
        assert (answer["ErrorCode"], rows) == (top, [] if inside is None else [inside])
    (last,) = answers[-1]["Topics"]
    assert (last["Partitions"][0]["ErrorCode"], last["Partitions"][0]["CommittedOffset"]) == (0, -1)


@pytest.mark.parametrize(
    ("scenario", "features"), [("transactions", {}), ("transactions-v2", {"transaction.version": 2})]
)
def test_only_one_scenario_offers_transaction_version_2(scenario, features):
    async def api_versions():
        cluster = MockCluster(print)
        await cluster.start()
        try:
            row = SCENARIOS[scenario]
            broker = await cluster.start_cluster(row, with_producer_apis(ALL), RequestRecorder(), print)
            return send_request(broker, "ApiVersions", 4, {})
        finally:
            await cluster.close()

    assert {row["Name"]: row["MaxVersionLevel"] for row in asyncio.run(api_versions())["FinalizedFeatures"]} == features


def test_the_first_response_to_each_request_of_a_transaction_is_lost(led):
    broker, topics = led("transaction-connection-closed"), ({"Name": "t", "Partitions": (0,)},)
    ids = {"TransactionalId": "t", "ProducerId": 1, "ProducerEpoch": 0, "Committed": True}
    added = {"V3AndBelowTransactionalId": "t", "V3AndBelowProducerId": 1, "V3AndBelowProducerEpoch": 0}
    bodies = {
        "InitProducerId": {"TransactionalId": "t", "TransactionTimeoutMs": 1},
        "AddPartitionsToTxn": {**added, "V3AndBelowTopics": topics},
        "EndTxn": ids,
    }
    for name, body in bodies.items():
        with pytest.raises(CloseConnection):
            send_request(broker, name, 3, body)
        answer = send_request(broker, name, 3, body)
        assert answer.get("ErrorCode", 0) == 0


def test_a_commit_is_rejected_before_the_next_record_is_served(led):
    broker, part = led("commit-loading"), {"PartitionIndex": 0, "CommittedOffset": 1}
    body = {"GroupId": "t", "GenerationIdOrMemberEpoch": 1, "MemberId": "m"}
    assert partition(fetch(broker))["Records"] == batch(0)
    for error in (14, 14, 0):
        assert (partition(fetch(broker, 1))["Records"], broker.topics["t"].committed) == (b"", -1)
        answer = send_request(broker, "OffsetCommit", 7, {**body, "Topics": ({"Name": "t", "Partitions": (part,)},)})
        assert answer["Topics"][0]["Partitions"][0]["ErrorCode"] == error
    assert END_KEY in partition(fetch(broker, 1))["Records"]


def test_end_txn_has_one_retriable_error(led):
    broker, body = (
        led("end-txn-retried"),
        {"TransactionalId": "t", "ProducerId": 1, "ProducerEpoch": 0, "Committed": True},
    )
    broker.topics["t"].has_started = True
    assert [send_request(broker, "EndTxn", 3, body)["ErrorCode"] for _ in range(2)] == [51, 0]


def test_a_fatal_error_scenario_writes_one_record():
    rejected = [name for name, kind in SCENARIOS.items() if kind.error_is_permanent]
    assert all(SCENARIOS[name].produces.one_record for name in rejected)
    assert [len(batch["records"]) for name in rejected for batch in batches_for(name)] == [1] * len(rejected)


def test_a_fenced_producer_cannot_commit(led):
    broker, body = (
        led("producer-fenced"),
        {"TransactionalId": "t", "ProducerId": 1, "ProducerEpoch": 0, "Committed": True},
    )
    assert [send_request(broker, "EndTxn", 3, body)["ErrorCode"] for _ in range(3)] == [47] * 3


def test_a_missing_authorization_is_permanent(led):
    added = {"V3AndBelowTransactionalId": "t", "V3AndBelowProducerId": 1, "V3AndBelowProducerEpoch": 0}
    added |= {"V3AndBelowTopics": ({"Name": "t", "Partitions": (0,)},)}
    requests = (
        ("transactional-id-authorization", "InitProducerId", {"TransactionTimeoutMs": 1}, 53),
        ("invalid-txn-state", "AddPartitionsToTxn", added, 48),
    )
    for scenario, name, body, error in requests:
        broker = led(scenario)
        answers = [send_request(broker, name, 1, body) for _ in range(3)]
        assert [str(answer).count(f": {error}") for answer in answers] == [1] * 3, name


def test_a_loading_coordinator_returns_no_producer_id_at_first(led):
    broker, body = led("coordinator-not-ready"), {"TransactionTimeoutMs": 1}
    assert [send_request(broker, "InitProducerId", 1, body)["ErrorCode"] for _ in range(2)] == [14, 0]


def test_a_lost_fetch_session_is_not_found_and_a_new_one_can_be_opened(led):
    broker = led("fetch-session-lost")
    number = fetch(broker, 0, (0, 0))["SessionId"]
    assert fetch(broker, None, (number, 1))["ErrorCode"] == 70
    assert fetch(broker, None, (number, 2))["ErrorCode"] == 70
    again = fetch(broker, 0, (0, 0))
    assert (again["SessionId"] > number, partition(again)["Records"]) == (True, batch(0))


def test_an_older_broker_returns_only_api_versions_and_closes_on_other_versions(led):
    broker, body = led("older-broker"), {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"}
    sent = broker.respond(frame("ApiVersions", 4, body)[4:])
    _, answer = response("ApiVersions", 0, sent.frame)
    assert [(row["ApiKey"], row["MaxVersion"]) for row in answer["ApiKeys"]] == [(18, 2)]
    with pytest.raises(CloseConnection):
        broker.respond(frame("Metadata", 13, {"Topics": ()})[4:])
    with pytest.raises(UnhandledRequest):
        led("without-topic-ids").respond(frame("Metadata", 13, {"Topics": ()})[4:])


def test_a_write_with_a_lost_response_is_stored_and_its_retry_is_a_duplicate(led):
    broker, written = led("produce-response-lost"), batch(0, producer=7)
    broker.topics["t"].accepted_sequences = {}
    rows = ({"Name": "t", "PartitionData": ({"Index": 0, "Records": written},)},)
    write = frame("Produce", 8, {"Acks": -1, "TimeoutMs": 1, "TopicData": rows})[4:]
    with pytest.raises(CloseConnection):
        broker.respond(write)
    assert broker.topics["t"].produced == [written]
    rows = response("Produce", 8, broker.respond(write).frame)[1]["Responses"]
    assert rows[0]["PartitionResponses"][0]["ErrorCode"] == 0
    assert broker.topics["t"].produced == [written]


def of_epoch(broker, current, error, end):
    """Return True if OffsetForLeaderEpoch for epoch 0, sent with this leader epoch, has this response."""
    part = {"Partition": 0, "CurrentLeaderEpoch": current, "LeaderEpoch": 0}
    topics = ({"Topic": "t", "Partitions": (part,)},)
    (row,) = send_request(broker, "OffsetForLeaderEpoch", 4, {"ReplicaId": -1, "Topics": topics})["Topics"][0][
        "Partitions"
    ]
    return (row["ErrorCode"], row["EndOffset"]) == (error, end) and row["LeaderEpoch"] == (0 if end >= 0 else -1)


@pytest.mark.parametrize(
    ("scenario", "errors"),
    [("epoch-validated", ()), ("epoch-validated-late", (75, 75)), ("epoch-validation-rejected", (29,))],
)
def test_the_new_leader_finally_confirms_the_offset(led, scenario, errors):
    first = led(scenario)
    second = MockBroker("127.0.0.1", 9093, first.offered, first.topics, node=2)
    assert partition(fetch(first))["ErrorCode"] == 0
    assert partition(fetch(first, 1))["ErrorCode"] == 6
    assert of_epoch(first, 6, 6, -1)
    assert all(of_epoch(second, 6, error, -1) for error in errors)
    assert of_epoch(second, 6, 0, HIGH_WATERMARK)
    assert partition(fetch(second, 1))["ErrorCode"] == 0


@pytest.mark.parametrize(("epoch", "expected"), [(3, (3, 1)), (4, (4, 3)), (5, (4, 3)), (6, (6, 3)), (2, (2, 0))])
def test_an_epoch_ends_at_the_start_of_the_next_one(epoch, expected):
    topic = MockTopic(log_with_marker(), 0, 3, epoch=6)
    assert topic.end_of(epoch) == expected


def test_after_a_marker_of_a_newer_epoch_another_node_is_leader(led):
    first = led("epoch-validated-after-marker")
    assert [partition(fetch(first, offset))["ErrorCode"] for offset in range(3)] == [0, 0, 6]
    second = MockBroker("127.0.0.1", 9093, first.offered, first.topics, node=2)
    assert partition(fetch(second, 2))["ErrorCode"] == 0


def test_a_leader_rejects_requests_with_another_leader_epoch(led):
    broker = led("leader-epoch-bumped")

    def refused(epoch):
        part = {"Partition": 0, "CurrentLeaderEpoch": epoch, "FetchOffset": 0, "PartitionMaxBytes": 1}
        of_fetch = {"Topics": ({"Topic": "t", "Partitions": (part,)},), "ForgottenTopicsData": ()}
        listed = {"PartitionIndex": 0, "CurrentLeaderEpoch": epoch, "Timestamp": -2}
        of_list = {"Topics": ({"Name": "t", "Partitions": (listed,)},)}
        codes = [
            partition(send_request(broker, "Fetch", 12, {"MaxWaitMs": 1, "MinBytes": 1, **of_fetch}))["ErrorCode"],
            send_request(broker, "ListOffsets", 6, {"ReplicaId": -1, **of_list})["Topics"][0]["Partitions"][0][
                "ErrorCode"
            ],
        ]
        assert of_epoch(broker, epoch, codes[0], -1 if codes[0] else HIGH_WATERMARK)
        return codes

    broker.offered = {**broker.offered, "OffsetForLeaderEpoch": (2, 4)}
    assert refused(5) == [74, 74]
    assert refused(7) == [75, 75]
    assert refused(6) == refused(-1) == [0, 0]
    (described,) = send_request(broker, "Metadata", 9, {"Topics": ({"Name": "t"},)})["Topics"]
    assert (described["Partitions"][0]["LeaderId"], described["Partitions"][0]["LeaderEpoch"]) == (1, 6)


def test_a_leader_without_an_epoch_accepts_any(led):
    broker = led("consume")
    broker.topics["t"].refusals.clear()
    broker.offered = {**broker.offered, "OffsetForLeaderEpoch": (2, 4)}
    assert of_epoch(broker, 3, 0, HIGH_WATERMARK)


@pytest.mark.parametrize(
    ("scenario", "times"), [("connection-closed", 2), ("broker-restarted", 1), ("group-restarted", 1)]
)
def test_a_connection_is_closed_instead_of_the_first_fetch_responses(led, scenario, times):
    broker = led(scenario)
    for _ in range(times):
        with pytest.raises(CloseConnection):
            fetch(broker)
    assert partition(fetch(broker))["Records"] == batch(0)
