"""The mock broker: its response to each request, and the records of a topic."""

import asyncio
import struct
from contextlib import suppress
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_bytes import ABORT, COMMIT, batch, marker, part
from log_bytes import message as entry
from tiny_client import frame, response, wire

from conformance import codec
from conformance.cases.api_versions_profiles import ALL, KAFKA_0_10_2, MINIMAL, NON_FLEXIBLE, VERSION_PROFILES
from conformance.codec.record_batch import stored_magic
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import MalformedFrame, UnhandledRequest
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.server import MockBrokerServer
from conformance.mock_broker.topic import END_KEY, LAST_OFFSET, MockTopic

KEYS = {"Produce": 0, "Fetch": 1, "ListOffsets": 2, "Metadata": 3, "ApiVersions": 18}
LOG = batch(0) + batch(1) + batch(2)


@pytest.fixture
def broker():
    return MockBroker("127.0.0.1", 9092, topics={"t": MockTopic(LOG, 0, 3)})


def send_request(broker, name, version, body):
    """Return the body of a response and its delay in seconds."""
    sent = broker.respond(frame(name, version, body, correlation=77)[4:])
    correlation, value = response(name, version, sent.frame)
    assert correlation == 77
    return value, sent.delay


def fetched(broker, offset, topic="t", isolation=0):
    partition = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1}
    body = {"ReplicaId": -1, "MaxWaitMs": 200, "MinBytes": 1, "IsolationLevel": isolation}
    value, delay = send_request(broker, "Fetch", 4, {**body, "Topics": ({"Topic": topic, "Partitions": (partition,)},)})
    return value["Responses"][0]["Partitions"][0], delay


def is_end(records, offset):
    (entry,) = codec.decode("LOG", records).value["batches"]
    (record,) = entry["records"]
    return record["key"] == END_KEY and record["offset"] == offset


def test_the_offered_versions_are_in_the_api_versions_response(broker):
    value, _ = send_request(broker, "ApiVersions", 0, {})
    assert value["ErrorCode"] == 0
    assert {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in value["ApiKeys"]} == {
        KEYS[name]: versions for name, versions in MINIMAL.items()
    }


def test_an_unsupported_api_versions_request_gets_an_error_in_version_0(broker):
    response = broker.respond(struct.pack(">hhi", KEYS["ApiVersions"], 99, 5))
    read = codec.decode(wire("ApiVersionsResponse", 0), response.frame[4:])
    assert read.value["ErrorCode"] == 35
    (row,) = read.value["ApiKeys"]  # like Apache Kafka, only ApiVersions: a client must not use it as the whole offer
    assert (row["ApiKey"], row["MinVersion"], row["MaxVersion"]) == (KEYS["ApiVersions"], *MINIMAL["ApiVersions"])


@pytest.mark.parametrize(
    ("key", "version", "problem"), [("Fetch", 2, "Fetch 2, because it offers 4 to 4"), ("Heartbeat", 0, "not offer")]
)
def test_a_request_that_was_not_offered_has_no_response(broker, key, version, problem):
    number = shipped_types().messages[f"{key}Request"].api_key
    with pytest.raises(UnhandledRequest, match=problem):
        broker.respond(struct.pack(">hhi", number, version, 1))


@pytest.mark.parametrize(
    "sent", [struct.pack(">hhi", 999, 0, 1), struct.pack(">hhi", KEYS["Fetch"], 4, 1), b"", b"GET /"]
)
def test_an_invalid_request_is_distinguished_from_one_that_was_not_offered(broker, sent):
    with pytest.raises(MalformedFrame):
        broker.respond(sent)


@given(st.sampled_from(sorted(KEYS.values())), st.integers(0, 5), st.binary(max_size=60))
def test_random_bytes_have_a_response_or_are_unhandled(key, version, rest):
    broker = MockBroker("127.0.0.1", 9092, topics={"t": MockTopic(LOG, 0, 3)})
    with suppress(UnhandledRequest, MalformedFrame):
        assert len(broker.respond(struct.pack(">hhi", key, version, 1) + rest).frame) > 4


def test_metadata_returns_all_topics_or_the_named_ones(broker):
    everything, _ = send_request(broker, "Metadata", 1, {"Topics": None})
    assert [(row["Name"], row["ErrorCode"]) for row in everything["Topics"]] == [("t", 0)]
    assert [(row["Host"], row["Port"]) for row in everything["Brokers"]] == [("127.0.0.1", 9092)]
    named, _ = send_request(broker, "Metadata", 1, {"Topics": ({"Name": "other"},)})
    assert [(row["Name"], row["ErrorCode"]) for row in named["Topics"]] == [("other", 3)]


def test_metadata_0_with_an_empty_list_returns_all_topics(broker):
    everything, _ = send_request(broker, "Metadata", 0, {"Topics": ()})
    assert [(row["Name"], row["ErrorCode"]) for row in everything["Topics"]] == [("t", 0)]
    none, _ = send_request(broker, "Metadata", 1, {"Topics": ()})
    assert none["Topics"] == ()


def test_list_offsets_returns_the_log_start_and_the_end(broker):
    broker.topics["t"].start = 1
    for timestamp, offset in ((-2, 1), (-1, 3)):
        rows = ({"PartitionIndex": 0, "Timestamp": timestamp},)
        value, _ = send_request(
            broker, "ListOffsets", 1, {"ReplicaId": -1, "Topics": ({"Name": "t", "Partitions": rows},)}
        )
        assert value["Topics"][0]["Partitions"][0]["Offset"] == offset


def test_a_fetch_returns_the_log_then_the_end_record_then_an_empty_response(broker):
    first, delay = fetched(broker, 0)
    assert (first["Records"], first["HighWatermark"], delay) == (LOG, 3, 0)
    last, delay = fetched(broker, 3)
    assert is_end(last["Records"], 3)
    assert (last["HighWatermark"], delay) == (4, 0)
    empty, delay = fetched(broker, 4)
    assert empty["Records"] == b""
    assert delay == 0.05, "shorter than requested, because a closing consumer waits for it"


def test_a_fetch_of_a_removed_topic_is_an_error(broker):
    assert fetched(broker, 0, topic="gone")[0]["ErrorCode"] == 3


@pytest.mark.parametrize("isolation", [0, 1])
def test_aborted_transactions_are_listed_at_every_isolation_level(broker, isolation):
    assert fetched(broker, 0, isolation=isolation)[0]["AbortedTransactions"] == (() if isolation else None)
    broker.topics["t"].aborted = [{"ProducerId": 7, "FirstOffset": 1}]
    assert [dict(row) for row in fetched(broker, 0, isolation=isolation)[0]["AbortedTransactions"]] == [
        {"ProducerId": 7, "FirstOffset": 1}
    ]


def test_the_isolation_level_of_each_fetch_is_kept(broker):
    fetched(broker, 0), fetched(broker, 0, isolation=1)
    assert broker.topics["t"].isolations == {0, 1}


# --- more versions ------------------------------------------------------------------------------------


@pytest.fixture
def full():
    return MockBroker("127.0.0.1", 9092, ALL, {"s": MockTopic(b"", 0, 0), "t": MockTopic(LOG, 0, 3)})


@pytest.mark.parametrize("offer", VERSION_PROFILES.values(), ids=VERSION_PROFILES)
def test_every_offered_version_has_a_definition(offer):
    messages = shipped_types().messages
    for name, (low, high) in offer.items():
        for message in (messages[f"{name}Request"], messages[f"{name}Response"]):
            assert low in message.valid
            assert high in message.valid


def test_the_full_offer_goes_up_to_the_newest_definitions():
    assert {name: high for name, (_, high) in ALL.items()} == {
        name: shipped_types().messages[f"{name}Request"].valid.high for name in ALL
    }


def test_the_low_offer_ends_before_the_flexible_versions():
    assert not [
        name for name, (_, high) in NON_FLEXIBLE.items() if high in shipped_types().messages[f"{name}Request"].flexible
    ]


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_the_offer_is_in_each_version_of_api_versions(full, version):
    value, _ = send_request(full, "ApiVersions", version, {})
    assert len(value["ApiKeys"]) == len(ALL)


@pytest.mark.parametrize("version", [1, 8, 9, 10, 13])
def test_metadata_returns_topic_name_and_partition(full, version):
    value, _ = send_request(full, "Metadata", version, {"Topics": ({"Name": "t"}, {"Name": "gone"})})
    assert [(row["Name"], row["ErrorCode"], len(row["Partitions"])) for row in value["Topics"]] == [
        ("t", 0, 1),
        ("gone", 3, 0),
    ]
    assert value["Topics"][0].get("TopicId", full.topics["t"].id) == full.topics["t"].id


@pytest.mark.parametrize(("version", "nameless"), [(10, ""), (13, None)])
def test_metadata_finds_a_topic_by_its_id(full, version, nameless):
    rows = tuple({"Name": None, "TopicId": topic_id} for topic_id in (full.topics["t"].id, b"?" * 16))
    value, _ = send_request(full, "Metadata", version, {"Topics": rows})
    assert [(row["Name"], row["ErrorCode"]) for row in value["Topics"]] == [("t", 0), (nameless, 100)]


@pytest.mark.parametrize("version", [1, 5, 6, 11])
def test_offsets_are_listed_in_each_version(full, version):
    parts = tuple({"PartitionIndex": 0, "Timestamp": timestamp} for timestamp in (-1, -2))
    value, _ = send_request(
        full, "ListOffsets", version, {"ReplicaId": -1, "Topics": ({"Name": "t", "Partitions": parts},)}
    )
    assert [row["Offset"] for row in value["Topics"][0]["Partitions"]] == [3, 0]


@pytest.fixture
def old():
    """Return a broker for clients without batches: a topic of magic 0, one of magic 1, and one of batches."""
    logs = {"0": entry(0, 0) + entry(1, 0), "1": entry(0), "2": LOG}
    return MockBroker("127.0.0.1", 9092, KAFKA_0_10_2, {name: MockTopic(log, 0, 2) for name, log in logs.items()})


def test_list_offsets_0_returns_a_list_of_offsets(old):
    parts = tuple({"PartitionIndex": 0, "Timestamp": at, "MaxNumOffsets": 1} for at in (-1, -2))
    rows = ({"Name": "0", "Partitions": parts}, {"Name": "gone", "Partitions": parts[:1]})
    value, _ = send_request(old, "ListOffsets", 0, {"ReplicaId": -1, "Topics": rows})
    assert [row["OldStyleOffsets"] for row in value["Topics"][0]["Partitions"]] == [(2,), (0,)]
    assert [row["OldStyleOffsets"] for row in value["Topics"][1]["Partitions"]] == [()]


@pytest.mark.parametrize(("version", "carried"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_fetch_returns_no_magic_unknown_to_its_version(old, version, carried):
    for name, magic in (("0", 0), ("1", 1), ("2", 2)):
        for offset in (0, 2):
            part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1}
            body = {"ReplicaId": -1, "MaxWaitMs": 200, "MinBytes": 1}
            value, _ = send_request(
                old, "Fetch", version, {**body, "Topics": ({"Topic": name, "Partitions": (part,)},)}
            )
            (found,) = value["Responses"][0]["Partitions"]
            if magic > carried:
                assert (found["ErrorCode"], found["Records"]) == (35, b"")
            elif offset:
                assert stored_magic(found["Records"]) == carried
                assert END_KEY in found["Records"]
            else:
                assert found["Records"] == old.topics[name].log
    assert old.max_fetch_magic == carried


def test_an_offset_that_only_the_records_contain_is_not_guessed(full):
    rows = ({"PartitionIndex": 0, "Timestamp": 1234},)
    with pytest.raises(UnhandledRequest, match="timestamp 1234"):
        send_request(full, "ListOffsets", 1, {"ReplicaId": -1, "Topics": ({"Name": "t", "Partitions": rows},)})


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_a_fetch_names_its_topic_by_name_or_by_id(full, version):
    row = {"Partitions": ({"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1},)}
    named = {"TopicId": full.topics["t"].id} if version >= 13 else {"Topic": "t"}
    gone = {"TopicId": b"?" * 16} if version >= 13 else {"Topic": "gone"}
    body = {"MaxWaitMs": 200, "MinBytes": 1, "Topics": ({**named, **row}, {**gone, **row})}
    value, _ = send_request(full, "Fetch", version, body)
    assert [row["Partitions"][0]["Records"] for row in value["Responses"]] == [LOG, b""]
    assert [row["Partitions"][0]["ErrorCode"] for row in value["Responses"]] == [0, 100 if version >= 13 else 3]
    assert [{key: row[key] for key in row if key.startswith("Topic")} for row in value["Responses"]] == [named, gone]


def test_a_fetch_that_requests_a_session_gets_none(full):
    value, _ = send_request(full, "Fetch", 7, {"MaxWaitMs": 0, "MinBytes": 1, "SessionEpoch": 0, "Topics": ()})
    assert value["SessionId"] == 0


def test_an_offered_request_without_a_response_is_reported(full):
    full.offered = {**full.offered, "SaslHandshake": (0, 1)}
    with pytest.raises(UnhandledRequest, match="SaslHandshake 1"):
        send_request(full, "SaslHandshake", 1, {"Mechanism": "PLAIN"})


# --- topics -------------------------------------------------------------------------------------------


def test_a_fetch_inside_the_log_starts_at_the_entry_with_the_offset():
    assert MockTopic(LOG, 0, 3).fetch(1, 0) == batch(1) + batch(2)


def test_bytes_fetched_repeatedly_are_replaced_by_the_end_record():
    topic = MockTopic(LOG, 0, 3)
    served = [topic.fetch(0, 0) for _ in range(6)]
    topic.first_fetch = 50.0
    assert served[:4] == [LOG] * 4
    assert all(is_end(records, 0) for records in served[4:])
    assert topic.end_was_served
    assert topic.refetch_text(52.0) == "fetched offset 0 6 times in 2.0 s, 3.0 a second"


def test_a_topic_fetched_once_has_no_refetch_text():
    topic = MockTopic(LOG, 0, 3)
    topic.fetch(0, 0)
    assert topic.refetch_text(52.0) == ""


def test_a_consumed_topic_is_not_ended_early():
    topic = MockTopic(LOG, 0, 3)
    topic.fetch(0, 0)
    topic.fetch(3, 0)
    assert (topic.end, topic.end_was_served) == (3, False)


def test_a_cut_entry_is_served_after_others_and_never_alone():
    topic = MockTopic(LOG + batch(3)[:30], 0, 4)
    assert topic.fetch(0, 0) == LOG + batch(3)[:30]
    assert is_end(topic.fetch(3, 0), 3)


def test_by_entry_a_fetch_returns_only_the_entry_with_the_offset():
    topic = MockTopic(LOG, 0, 3, one_entry_per_fetch=True)
    assert [topic.fetch(offset, 0) for offset in (0, 1, 2)] == [batch(0), batch(1), batch(2)]
    assert is_end(topic.fetch(3, 0), 3)


def test_by_entry_a_transaction_is_listed_as_aborted_until_its_marker():
    log = part(0) + marker(2, ABORT) + part(3) + marker(5, COMMIT)
    listed = [{"ProducerId": 7, "FirstOffset": 0}]
    topic = MockTopic(log, 0, 6, listed, one_entry_per_fetch=True)
    assert [topic.aborted_transactions(offset) for offset in (0, 2, 3, 5)] == [listed, listed, [], []]
    assert MockTopic(log, 0, 6, listed).aborted_transactions(3) == listed


def test_an_error_of_the_mock_broker_is_reported_as_such():
    messages = asyncio.run(failing_broker())
    assert messages == ["the mock broker failed: ZeroDivisionError: a fault of ours"]


async def failing_broker():
    """Return the messages of a server whose broker raises."""
    messages = []
    server = MockBrokerServer(messages.append)
    broker = await server.start()
    server._broker = Mock(respond=Mock(side_effect=ZeroDivisionError("a fault of ours")))
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    writer.write(frame("ApiVersions", 0, {}))
    assert await reader.read() == b""
    writer.close()
    await server.close()
    return messages


def test_a_log_of_only_a_cut_entry_is_served():
    assert MockTopic(batch(0)[:30], 0, 1).fetch(0, 0) == batch(0)[:30]


def test_a_log_below_the_fetch_offset_is_not_served():
    assert is_end(MockTopic(LOG, 3, 3).fetch(3, 0), 3)


def test_a_log_with_an_invalid_size_is_served():
    damaged = b"\xff" * 40
    assert MockTopic(damaged, 5, 6).fetch(5, 0) == damaged


def test_a_topic_that_ends_at_the_last_offset_has_no_end_record():
    topic = MockTopic(LOG, 0, 3)
    topic.fetch(LAST_OFFSET + 1, 0)
    assert topic.cannot_end


def test_with_serve_broker_a_topic_is_served_without_a_refetch_limit():
    topic = MockTopic(LOG, 0, 3, refetch_limit=float("inf"))
    for _ in range(3):
        assert topic.fetch(0, 0) == LOG
        assert is_end(topic.fetch(3, 0), 3)
