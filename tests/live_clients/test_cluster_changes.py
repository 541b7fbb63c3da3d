"""Clients and changes of a cluster: a new leader or coordinator, removed nodes, and trimmed logs."""

import pytest
from live_runs import BRIEF, judged, tiny
from log_bytes import batch
from mock_requests import fetch, partition, send_request

from conformance.cases.api_versions_profiles import ALL, with_producer_apis
from conformance.cases.client_scenarios import SCENARIOS
from conformance.definitions.request_frames import CloseConnection
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import NO_ID, MockTopic

pytestmark = pytest.mark.integration


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a changed client on a case and returns its row of the report."""

    def start(change, case, offers="bare"):
        program = f"import time\n{change}\nfor line in lines(): consume(line)\n"
        target = tiny(tmp_path, program, versions=offers)
        (row,) = judged(target, tmp_path, traces.env, f"request/{case}", op="send", limits=BRIEF).values()
        return row

    yield start
    assert traces.left() == []


ONE_FETCH = """
def fetch(self, line, offset):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    topics = ({"Topic": line["topic"], "Partitions": (part,)},)
    body = {"MaxWaitMs": 100, "MinBytes": 1, "IsolationLevel": 0, "Topics": topics, "ForgottenTopicsData": ()}
    found = self.ask("Fetch", 12, {**body, "RackId": RACK})["Responses"][0]["Partitions"][0]
    AND_THEN
    return found
Connection.fetch, Connection.version = fetch, 12
"""
IGNORES = """
fetched = Connection.fetch
def fetch(self, line, offset):
    part = fetched(self, line, offset)
    return {**part, "ErrorCode": 0} if part.get("ErrorCode") == 1 else part
Connection.fetch = fetch
"""
RESETS = """
begins = tiny_client.beginning
def beginning(line, connection, offset):
    found = begins(line, connection, offset)
    return WHERE if found == 10 else found
tiny_client.beginning = beginning
"""
GIVES_UP = """
begins = tiny_client.beginning
def beginning(line, connection, offset):
    found = begins(line, connection, offset)
    if found == offset and line["topic"].startswith("case"): raise SystemExit("ListOffsets was refused")
    return found
tiny_client.beginning = beginning
"""
KNOWS_IT = """
def at_first(line):
    while True:
        found = Connection(line["bootstrap"]).ask("Metadata", 1, {"Topics": ({"Name": line["topic"]},)})
        (row,) = found["Topics"]
        CHECK
        time.sleep(0.02)
consumed = consume
def consume(line):
    at_first(line)
    consumed(line)
"""
ALONE = KNOWS_IT.replace(
    "CHECK", "if len({node['Port'] for node in found['Brokers']}) < 3: raise SystemExit(2)\n        return"
)
SEES = KNOWS_IT.replace("CHECK", "if row['Partitions']: return")
DIES = KNOWS_IT.replace("CHECK", "row['Partitions'][0]; return")
LOYAL = """
connect, found, Connection.leader = Connection.__init__, tiny_client.leading, None
def begin(self, bootstrap, client="tiny"):
    connect(self, Connection.leader or bootstrap, client)
def leading(line, connection):
    led = found(line, connection)
    Connection.leader = "%s:%s" % led.socket.getpeername()
    return led
Connection.__init__, tiny_client.leading = begin, leading
"""
BY_ID = """
def fetch(self, line, offset):
    rows = self.ask("Metadata", 12, {"Topics": ({"Name": line["topic"], "TopicId": bytes(16)},)})["Topics"]
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    topics = ({"TopicId": rows[0]["TopicId"], "Partitions": (part,)},)
    body = {"MaxWaitMs": 100, "MinBytes": 1, "IsolationLevel": 0, "Topics": topics, "ForgottenTopicsData": ()}
    return self.ask("Fetch", 13, body)["Responses"][0]["Partitions"][0]
Connection.fetch, Connection.version = fetch, 13
"""
FROM_REPLICA = """if found["PreferredReadReplica"] > 0:
        nodes = self.ask("Metadata", 1, {"Topics": ({"Name": line["topic"]},)})["Brokers"]
        if len(nodes) < 2: DEED
        else: return fetch(Connection("127.0.0.1:%d" % nodes[1]["Port"]), line, offset)"""
RACK = ONE_FETCH.replace("RACK", "'rack'").replace("AND_THEN", FROM_REPLICA)
CUT = """if found["ErrorCode"] == 6:
        led = tiny_client.leading(line, self)
        rows = ({"Topic": line["topic"], "Partitions": ({"Partition": 0, "LeaderEpoch": 0},)},)
        ends = led.ask("OffsetForLeaderEpoch", 3, {"ReplicaId": -1, "Topics": rows})["Topics"][0]["Partitions"][0]
        return {**fetch(led, line, WHERE), "ErrorCode": 6}"""
LISTED = KNOWS_IT.replace(
    "CHECK", "if row['Partitions'][0]['LeaderId'] in [node['NodeId'] for node in found['Brokers']]: return"
)
EXPECTS = KNOWS_IT.replace(
    "CHECK", "next(node for node in found['Brokers'] if node['NodeId'] == row['Partitions'][0]['LeaderId']); return"
)
PLACE = ONE_FETCH.replace("RACK", "''").replace("AND_THEN", CUT)


MARKER = PLACE.replace("WHERE", "min(offset, ends['EndOffset'])").replace('"LeaderEpoch": 0', '"LeaderEpoch": EPOCH')


@pytest.mark.parametrize(
    ("change", "case", "verdict"),
    [
        (LISTED, "leader-unlisted", "pass"),
        (EXPECTS, "leader-unlisted", "crash"),
        (MARKER.replace("EPOCH", "4"), "place-behind-marker", "pass"),
        (MARKER.replace("EPOCH", "3"), "place-behind-marker", "fail"),
        ("", "place-behind-marker", "skip"),
        ("", "leader-gone", "pass"),
        (LOYAL, "leader-gone", "crash"),
        ("", "leader-moved-without-epoch", "pass"),
        ("", "log-trimmed", "pass"),
        (IGNORES, "log-trimmed", "fail"),
        (RESETS.replace("WHERE", "12"), "log-trimmed", "pass"),
        (RESETS.replace("WHERE", "11"), "log-trimmed", "fail"),
        ("", "list-offsets-refused", "pass"),
        (GIVES_UP, "list-offsets-refused", "crash"),
        (SEES, "topic-unknown", "pass"),
        (DIES, "topic-unknown", "crash"),
        (SEES, "nodes-at-one-address", "pass"),
        (ALONE, "nodes-at-one-address", "crash"),
        (RACK.replace("DEED", "pass"), "replica-unlisted", "pass"),
        (RACK.replace("DEED", "raise SystemExit(2)"), "replica-unlisted", "crash"),
        ("", "replica-unlisted", "skip"),
        ("", "topic-id-zero", "pass"),
        (BY_ID, "topic-id-zero", "fail"),
        (PLACE.replace("WHERE", "ends['EndOffset']"), "log-cut", "pass"),
        (PLACE.replace("WHERE", "3"), "log-cut", "pass"),
        (PLACE.replace("WHERE", "offset"), "log-cut", "fail"),
        ("", "log-cut", "skip"),
    ],
)
def test_a_client_that_loses_its_leader_or_coordinator_is_found(run, change, case, verdict):
    row = run(change, case, offers="bare" if change in ("", LOYAL) else "full")
    assert (row["verdict"], row["level"]) == (verdict, "must" if verdict == "crash" else "should"), row


# --- the broker ---------------------------------------------------------------------------------------


@pytest.fixture
def nodes():
    """Return a function from a scenario to both nodes of a cluster with that scenario on topic `t`."""

    def lead(scenario):
        kind = SCENARIOS[scenario]
        topics, offered = (
            {"t": MockTopic(batch(0), 0, 1).with_faults(kind)},
            {**with_producer_apis(ALL), **kind.version_overrides},
        )
        first, other = (MockBroker("127.0.0.1", 9091 + node, offered, topics, node=node) for node in (1, 2))
        first.other_nodes, other.other_nodes = (other,), (first,)
        first.aliases = kind.aliases
        return first, other

    return lead


def found(broker):
    return send_request(broker, "FindCoordinator", 1, {"Key": "t", "KeyType": 0})["NodeId"]


def beaten(broker):
    return send_request(broker, "Heartbeat", 3, {"GroupId": "t", "GenerationId": 1, "MemberId": "m"})["ErrorCode"]


def described(broker):
    return send_request(broker, "Metadata", 12, {"Topics": ({"Name": "t"},)})


def test_after_not_coordinator_the_other_node_is_coordinator(nodes):
    first, other = nodes("coordinator-changed")
    assert (found(first), found(other), beaten(other)) == (1, 1, 16)
    assert [beaten(first) for _ in range(3)] == [16, 16, 16]
    assert (found(first), found(other), beaten(other)) == (2, 2, 0)
    commit = {"GroupId": "t", "GenerationIdOrMemberEpoch": 1, "MemberId": "m"}
    commit["Topics"] = ({"Name": "t", "Partitions": ({"PartitionIndex": 0, "CommittedOffset": 1},)},)
    codes = [
        send_request(one, "OffsetCommit", 7, commit)["Topics"][0]["Partitions"][0]["ErrorCode"]
        for one in (first, other)
    ]
    assert codes == [16, 0]


def test_a_transaction_continues_at_the_other_node(nodes):
    first, other = nodes("transaction-coordinator-changed")
    ids = {"TransactionalId": "t", "ProducerId": 1, "ProducerEpoch": 0, "Committed": True}
    add = {"V3AndBelowTransactionalId": "t", "V3AndBelowProducerId": 1, "V3AndBelowProducerEpoch": 0}
    add["V3AndBelowTopics"] = ({"Name": "t", "Partitions": (0,)},)

    def added(broker):
        rows = send_request(broker, "AddPartitionsToTxn", 1, add)["ResultsByTopicV3AndBelow"]
        return rows[0]["ResultsByPartition"][0]["PartitionErrorCode"]

    begin = {"TransactionalId": "t", "TransactionTimeoutMs": 1}
    assert [send_request(one, "InitProducerId", 1, begin)["ErrorCode"] for one in (other, first)] == [16, 0]
    assert [added(first), added(first), added(other)] == [16, 16, 0]
    assert [send_request(one, "EndTxn", 1, ids)["ErrorCode"] for one in (first, other)] == [16, 0]
    assert send_request(first, "InitProducerId", 1, {**begin, "TransactionalId": None})["ErrorCode"] == 0


def test_a_removed_node_is_not_in_metadata_and_is_no_bootstrap_server(nodes):
    first, other = nodes("coordinator-gone")
    first.downtime_s = other.downtime_s = SCENARIOS["coordinator-gone"].refuse_connections_s
    assert first.bootstrap == f"127.0.0.1:{other.port}"
    assert described(other)["Topics"][0]["Partitions"][0]["LeaderId"] == 2
    with pytest.raises(CloseConnection):
        beaten(first)
    first.is_stopped = True  # as its server finds
    metadata = described(other)
    assert ([row["NodeId"] for row in metadata["Brokers"]], metadata["ControllerId"]) == ([2], 2)
    assert (found(other), beaten(other)) == (2, 0)


def test_a_request_to_a_follower_changes_no_state(nodes):
    first, other = nodes("leader-gone")
    assert partition(fetch(other))["ErrorCode"] == 6
    with pytest.raises(CloseConnection):
        fetch(first)
    assert partition(fetch(other))["Records"] == batch(0)


@pytest.mark.parametrize("scenario", ["produce-leader-moved", "produce-leader-gone"])
def test_only_the_current_leader_accepts_writes(nodes, scenario):
    first, other = nodes(scenario)
    part = {"Index": 0, "Records": batch(0)}
    body = {"Acks": -1, "TimeoutMs": 1, "TopicData": ({"Name": "t", "PartitionData": (part,)},)}

    def code(broker):
        return send_request(broker, "Produce", 3, body)["Responses"][0]["PartitionResponses"][0]["ErrorCode"]

    assert code(other) == 6
    if scenario == "produce-leader-gone":
        with pytest.raises(CloseConnection):
            code(first)
    assert [code(first), code(other)] == [6, 0]


def test_a_log_is_trimmed_when_its_second_record_is_fetched(nodes):
    broker, _ = nodes("log-trimmed")
    assert partition(fetch(broker))["Records"] == batch(0)
    assert [partition(fetch(broker, offset))["ErrorCode"] for offset in (1, 9, 0)] == [1, 1, 1]
    assert partition(fetch(broker, 10))["Records"]

    def offset(timestamp):
        part = {"PartitionIndex": 0, "Timestamp": timestamp}
        rows = ({"Name": "t", "Partitions": (part,)},)
        return send_request(broker, "ListOffsets", 1, {"Topics": rows})["Topics"][0]["Partitions"][0]["Offset"]

    assert [offset(timestamp) for timestamp in (-2, -1, 5, 1000, 1001)] == [10, 12, 10, 10, -1]


def test_a_replica_is_in_metadata_after_a_fetch_and_a_new_request(nodes):
    broker, _ = nodes("replica-unlisted")
    assert [len(described(broker)["Brokers"]) for _ in range(3)] == [1, 1, 1]
    fetch(broker)
    assert [len(described(broker)["Brokers"]) for _ in range(3)] == [1, 2, 2]


def test_a_topic_is_unknown_at_first(nodes):
    broker, _ = nodes("topic-unknown")
    rows = [described(broker)["Topics"][0] for _ in range(3)]
    assert [(row["ErrorCode"], len(row["Partitions"])) for row in rows] == [(3, 0), (3, 0), (0, 1)]


def test_several_nodes_may_have_one_address(nodes):
    broker, _ = nodes("one-address")
    broker.other_nodes = ()
    metadata = described(broker)["Brokers"]
    assert [(row["NodeId"], row["Port"]) for row in metadata] == [(1, 9092), (2, 9092), (3, 9092)]


def test_a_zero_topic_id_names_no_topic(nodes):
    broker, _ = nodes("zero-topic-ids")
    assert described(broker)["Topics"][0]["TopicId"] == NO_ID
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1}
    body = {
        "MaxWaitMs": 1,
        "MinBytes": 1,
        "ForgottenTopicsData": (),
        "Topics": ({"TopicId": NO_ID, "Partitions": (part,)},),
    }
    assert partition(send_request(broker, "Fetch", 13, body))["ErrorCode"] == 100
    assert partition(fetch(broker))["Records"] == batch(0)


def test_an_epoch_may_end_below_the_consumed_offset(nodes):
    first, other = nodes("log-truncated")
    assert partition(fetch(first))["Records"] == batch(0)
    assert partition(fetch(first, 1))["ErrorCode"] == 6
    rows = ({"Topic": "t", "Partitions": ({"Partition": 0, "CurrentLeaderEpoch": 6, "LeaderEpoch": 5},)},)
    ends = send_request(other, "OffsetForLeaderEpoch", 3, {"ReplicaId": -2, "Topics": rows})["Topics"][0]["Partitions"][
        0
    ]
    assert (ends["ErrorCode"], ends["LeaderEpoch"], ends["EndOffset"]) == (0, 4, 0)
