"""Producers with a mock broker without record batches: accepted requests, and verdicts on the messages."""

import gzip
import zlib

import pytest
from live_runs import judged, tiny
from log_bytes import batch
from tiny_client import frame, response

from conformance.cases.api_versions_profiles import KAFKA_0_10_2, with_producer_apis
from conformance.cases.client_requests import batches_for
from conformance.cases.client_scenarios import MESSAGES_IN
from conformance.cases.model import ExpectClientRequests, VerdictKind
from conformance.codec.message_set import encode_set
from conformance.definitions.request_frames import SENT, UnhandledRequest
from conformance.judging.client_requests import judge_sent
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import MockTopic

pytestmark = pytest.mark.integration

(GIVEN,) = batches_for("messages-none")
RECORDS = GIVEN["records"]


def request(data, version=2):
    rows = ({"Name": "t", "PartitionData": ({"Index": 0, "Records": data},)},)
    return frame("Produce", version, {"Acks": -1, "TimeoutMs": 1000, "TopicData": rows})


def verdict(*sets):
    rows = [{"hex": request(data), "inFlight": (), "offered": (0, 2)} for data in sets]
    return judge_sent(ExpectClientRequests("in-messages", "read_uncommitted", "Produce"), SENT.render(rows))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_messages_are_accepted_if_only_they_are_offered(version):
    broker = MockBroker("127.0.0.1", 9092, with_producer_apis(KAFKA_0_10_2), {"t": MockTopic(b"", 0, 0)})
    for base in (0, 1):
        sent = broker.respond(request(encode_set(RECORDS, 1, 0), version)[4:])
        (row,) = response("Produce", version, sent.frame)[1]["Responses"]
        assert [(part["ErrorCode"], part["BaseOffset"]) for part in row["PartitionResponses"]] == [(0, base)]
    assert broker.topics["t"].produced == [encode_set(RECORDS, 1, 0)] * 2
    with pytest.raises(UnhandledRequest, match="Produce 3, because it offers 0 to 2"):
        broker.respond(frame("Produce", 3, {"Acks": -1, "TimeoutMs": 1, "TopicData": ()})[4:])


@pytest.mark.parametrize("codec", MESSAGES_IN)
def test_the_records_to_write_are_equal_for_each_codec_and_compressible(codec):
    (written,) = batches_for(f"messages-{codec}")
    assert {**written, "compression": 0} == GIVEN
    assert written["compression"] == MESSAGES_IN[codec]
    assert sum(len(record["value"]) for record in written["records"]) > 1024
    assert verdict(encode_set(written["records"], 1, written["compression"])).kind is VerdictKind.PASS


ZIPPED = encode_set(RECORDS, 1, 1)
APPENDED = encode_set([{**record, "timestampType": 1} for record in RECORDS], 1, 0)


@pytest.mark.parametrize(
    ("sets", "problem", "requirement", "level"),
    [
        ([encode_set(RECORDS, 0, 0)], "", "", ""),
        ([encode_set(RECORDS[:1], 1, 0), encode_set(RECORDS[1:], 1, 0)], "", "", ""),
        ([encode_set(RECORDS, 1, 0), encode_set(RECORDS, 1, 0)], "", "", ""),
        ([encode_set([{**record, "offset": 0} for record in RECORDS], 1, 0)], "", "", ""),
        ([bytes(8) + ZIPPED[8:]], "", "", ""),
        ([encode_set(RECORDS[:2], 1, 0)], "2 of 3 records are written", "", ""),
        ([encode_set(RECORDS, 1, 0)[:-1]], "the last message is cut off", "", ""),
        ([b""], "0 of 3 records are written", "", ""),
        ([batch(0)], "a record batch is written, but the broker supports only messages", "", ""),
        (
            [encode_set(RECORDS, 1, 0)[:-1] + b"w"],
            "not a valid message set: legacy.crc-checked",
            "legacy.crc-checked",
            "",
        ),
        (
            [encode_set([{**record, "timestamp": 1} for record in RECORDS], 1, 0)],
            "a message was written that the application did not send",
            "",
            "",
        ),
        ([encode_set([{**record, "key": b"z"} for record in RECORDS], 1, 0)], "a message was written that", "", ""),
        ([APPENDED], "the producer sets the timestamp type LogAppendTime", "legacy.producer-timestamp-type-zero", ""),
    ],
)
def test_correct_messages_contain_all_given_fields(sets, problem, requirement, level):
    found = verdict(*sets)
    assert found.kind is (VerdictKind.FAIL if problem else VerdictKind.PASS), found
    assert found.detail.startswith(problem)
    assert (found.requirement, found.level) == (requirement, level)


def test_offsets_in_a_wrapper_count_from_0():
    inner = encode_set([{**record, "offset": at + 5} for at, record in enumerate(RECORDS)], 1, 0)
    wrapped = rewrapped(inner)
    found = verdict(wrapped)
    assert (found.kind, found.detail) == (
        VerdictKind.FAIL,
        "the offsets in a wrapper are [5, 6, 7] and do not count from 0",
    )
    assert found.requirement == "legacy.compressed-inner-offsets-from-zero"
    assert verdict(rewrapped(encode_set(RECORDS, 1, 0))).kind is VerdictKind.PASS


def rewrapped(inner):
    """Return a wrapper around these messages, written without the codec."""
    (outer,) = [{"offset": 2, "timestamp": RECORDS[-1]["timestamp"], "key": None, "value": gzip.compress(inner)}]
    data = bytearray(encode_set([outer], 1, 0))
    data[17] = 1
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    return bytes(data)


def test_a_producer_without_a_write_is_not_judged():
    assert verdict().kind is VerdictKind.SKIP


WRITES = """
from conformance.codec.message_set import encode_set
def write(line):
    connection = Connection(line["bootstrap"], line["topic"])
    offered = {row["ApiKey"]: row["MaxVersion"] for row in connection.ask("ApiVersions", 0, {})["ApiKeys"]}
    options = line["produce"]
    rows = [{"offset": at, "timestamp": int(row["timestamp"]), "key": bytes.fromhex(row["key"]),
             "value": bytes.fromhex(row["value"])} for at, row in enumerate(options["batches"][0])]
    assert offered[0] == 2, offered
    codec = ["none", "gzip"].index(options["compression"])
    rows = ({"Name": line["topic"], "PartitionData": ({"Index": 0, "Records": CHANGED},)},)
    connection.ask("Produce", 2, {"Acks": -1, "TimeoutMs": 1000, "TopicData": rows})
    write_line(topic=line["topic"], end=True)
for line in lines(): write(line) if "produce" in line else consume(line)
"""


@pytest.mark.parametrize(
    ("changed", "claims", "verdicts"),
    [
        ("encode_set(rows, 1, codec)", "none gzip messages", ["pass", "pass"]),
        ("encode_set(rows[1:], 1, codec)", "none gzip messages", ["fail", "fail"]),
        ("encode_set(rows, 1, codec)", "none messages", ["pass", "skip"]),
        ("encode_set(rows, 1, codec)", "none gzip", ["skip", "skip"]),
    ],
)
def test_a_producer_that_claims_messages_is_judged_on_them(tmp_path, traces, changed, claims, verdicts):
    target = tiny(tmp_path, WRITES.replace("CHANGED", changed), producer_features=[*claims.split(), "timestamps"])
    cases = [f"request/produce-messages-{codec}" for codec in ("none", "gzip")]
    found = judged(target, tmp_path, traces.env, *cases, op="send")
    assert [found[case]["verdict"] for case in cases] == verdicts, found
    assert {row["level"] for row in found.values()} == {"should"}
    assert traces.left() == []
