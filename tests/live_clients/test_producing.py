"""Producers: the responses of the mock broker, the requests to a driver, and the verdicts."""

import json
from pathlib import Path

import pytest
from command_line import conformance
from live_runs import BRIEF
from log_bytes import batch, record
from tiny_client import frame, response

from conformance import codec
from conformance.cases.api_versions_profiles import ALL, MINIMAL, NON_FLEXIBLE, with_producer_apis
from conformance.cases.client_scenarios import SCENARIOS
from conformance.catalog.catalog_builder import read_catalog
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.definitions.request_frames import UnhandledRequest
from conformance.live_clients.case_run import produced_batch_answer
from conformance.live_clients.driver_process import ClientOutput
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.produce_handlers import ANSWERS, producer_command, unsupported_batch
from conformance.mock_broker.topic import MockTopic

pytestmark = pytest.mark.integration

CLAIMS = ("none", "gzip", "timestamps", "idempotence", "transactions")
OFFER = with_producer_apis(ALL)
TWO = batch(0, range(2))


@pytest.fixture
def broker():
    return MockBroker("127.0.0.1", 9392, OFFER, {"tiny": MockTopic(b"", 0, 0, refusals=[6], producer=(4711, 3))})


def send_request(broker, name, version, body):
    sent = broker.respond(frame(name, version, body)[4:])
    return response(name, version, sent.frame)[1]


def produced(broker, version, data, acks=-1):
    topic = {"TopicId": broker.topics["tiny"].id} if version >= 13 else {"Name": "tiny"}
    rows = ({**topic, "PartitionData": ({"Index": 0, "Records": data},)},)
    value = send_request(broker, "Produce", version, {"Acks": acks, "TimeoutMs": 1000, "TopicData": rows})
    return value["Responses"][0]["PartitionResponses"][0]


@pytest.mark.parametrize("offer", [MINIMAL, NON_FLEXIBLE, ALL], ids=["bare", "low", "full"])
def test_producers_get_an_offer_for_every_codec_and_transactions(offer):
    offered = with_producer_apis(offer)
    assert set(ANSWERS) | {"FindCoordinator", "Metadata", "ApiVersions"} <= set(offered)
    assert offered["Produce"][1] >= 7
    assert offered["Fetch"][1] >= 10


@pytest.mark.parametrize("version", [3, 8, 9, OFFER["Produce"][1]])
def test_a_written_batch_is_kept_unless_it_is_rejected(broker, version):
    topic = broker.topics["tiny"]
    refused = produced(broker, version, TWO)
    assert (refused["ErrorCode"], topic.produced) == (6, [])
    taken = [produced(broker, version, data) for data in (TWO, batch(0))]
    assert [(row["ErrorCode"], row["BaseOffset"]) for row in taken] == [(0, 0), (0, 2)]
    assert topic.produced == [TWO, batch(0)]


@pytest.mark.parametrize(("version", "error"), [(3, 76), (6, 76), (7, 0)])
def test_zstd_is_rejected_before_produce_7_as_in_apache_kafka(broker, version, error):
    topic = broker.topics["tiny"]
    topic.refusals.clear()
    zstd = bytes.fromhex(read_catalog().cases["compression/zstd-same-records"].request["hex"])
    assert produced(broker, version, zstd)["ErrorCode"] == error
    assert topic.produced == ([] if error else [zstd])
    assert produced(broker, version, TWO)["ErrorCode"] == 0


@pytest.mark.parametrize("offer", [MINIMAL, NON_FLEXIBLE, ALL], ids=["bare", "low", "full"])
def test_produce_is_offered_from_0_and_accepted_from_3_as_in_apache_kafka_4(offer):
    """librdkafka before 2.14 does not compress if the broker offers Produce only from 3 (KAFKA-18659)."""
    assert (offer["Produce"][0], with_producer_apis(offer)["Produce"][0]) == (0, 0)
    broker = MockBroker("127.0.0.1", 9392, offer)
    for version in range(3):
        with pytest.raises(UnhandledRequest, match=f"Produce {version}, which Apache Kafka 4 offers but rejects"):
            broker.respond(frame("Produce", 3, {"Acks": 1, "TopicData": ()})[4:6] + bytes([0, version]) + bytes(4))


def test_acks_0_is_not_handled(broker):
    with pytest.raises(UnhandledRequest, match="acks 0"):
        produced(broker, 3, TWO, acks=0)


@pytest.mark.parametrize("version", range(OFFER["InitProducerId"][1] + 1))
def test_a_producer_gets_the_id_and_epoch_of_its_topic(broker, version):
    value = send_request(broker, "InitProducerId", version, {"TransactionTimeoutMs": 1})
    assert (value["ErrorCode"], value["ProducerId"], value["ProducerEpoch"]) == (0, 4711, 3)
    broker.topics.clear()
    with pytest.raises(UnhandledRequest, match="not the name of its topic"):
        send_request(broker, "InitProducerId", version, {"TransactionTimeoutMs": 1})


@pytest.mark.parametrize("version", range(OFFER["AddPartitionsToTxn"][1] + 1))
def test_a_transaction_adds_partitions_and_ends(broker, version):
    rows = ({"Name": "tiny", "Partitions": (0, 1)},)
    ids = {"V3AndBelowTransactionalId": "tiny", "V3AndBelowProducerId": 1, "V3AndBelowProducerEpoch": 0}
    value = send_request(broker, "AddPartitionsToTxn", version, {**ids, "V3AndBelowTopics": rows})
    (row,) = value["ResultsByTopicV3AndBelow"]
    assert [(part["PartitionIndex"], part["PartitionErrorCode"]) for part in row["ResultsByPartition"]] == [
        (0, 0),
        (1, 0),
    ]
    assert send_request(broker, "EndTxn", version, ENDED)["ErrorCode"] == 0


ENDED = {"TransactionalId": "tiny", "ProducerId": 1, "ProducerEpoch": 0, "Committed": True}


def test_an_empty_transaction_cannot_be_ended_and_version_2_raises_the_epoch(broker):
    assert send_request(broker, "EndTxn", 3, ENDED)["ErrorCode"] == 48
    broker.offered = {**OFFER, **SCENARIOS["transactions-v2"].version_overrides}
    broker.topics["tiny"].refusals.clear()
    produced(broker, 12, TWO)
    ended = send_request(broker, "EndTxn", 5, {**ENDED, "ProducerId": 4711, "ProducerEpoch": 3})
    assert (ended["ErrorCode"], ended["ProducerId"], ended["ProducerEpoch"]) == (0, 4711, 4)
    again = send_request(broker, "InitProducerId", 4, {"TransactionTimeoutMs": 1})
    assert (again["ProducerId"], again["ProducerEpoch"]) == (4711, 4)


@pytest.mark.parametrize(("forgets", "error"), [(False, 0), (True, 46)])
def test_a_repeated_batch_is_accepted_or_rejected_as_a_duplicate(broker, forgets, error):
    topic = broker.topics["tiny"] = MockTopic(b"", 0, 0, accepted_sequences={}, forgets_offset_of_duplicate=forgets)
    sent = batch(0, producer=7)
    assert [produced(broker, 8, sent)["ErrorCode"] for _ in range(2)] == [0, error]
    assert topic.produced == [sent]


@pytest.mark.parametrize("features", [{}, {"transaction.version": 2}])
def test_api_versions_returns_the_features(broker, features):
    broker.finalized_features = features
    value = send_request(broker, "ApiVersions", 4, {})
    assert {row["Name"]: row["MaxVersionLevel"] for row in value["FinalizedFeatures"]} == features
    assert {row["Name"]: row["MaxVersion"] for row in value["SupportedFeatures"]} == features
    assert (value["FinalizedFeaturesEpoch"] >= 0) == bool(features)
    assert send_request(broker, "ApiVersions", 0, {})["ErrorCode"] == 0


def test_broker_only_versions_are_answered_as_without_authorization():
    kind = SCENARIOS["transaction-all-versions"]
    broker = MockBroker(
        "127.0.0.1", 9392, {**OFFER, **kind.version_overrides}, {"tiny": MockTopic(b"", 0, 0).with_faults(kind)}
    )
    topics = ({"Name": "tiny", "Partitions": (0,)},)
    one = {"TransactionalId": "tiny", "ProducerId": 1, "ProducerEpoch": 0, "VerifyOnly": False, "Topics": topics}
    added = send_request(broker, "AddPartitionsToTxn", 5, {"Transactions": (one,)})
    ((result,),) = (row["TopicResults"] for row in added["ResultsByTransaction"])
    assert (result["Name"], result["ResultsByPartition"]) == ("tiny", ({"PartitionIndex": 0, "PartitionErrorCode": 0},))
    ended = send_request(broker, "EndTxn", 5, ENDED)
    assert (ended["ErrorCode"], ended["ProducerId"], ended["ProducerEpoch"]) == (0, 1, 1)


def test_a_write_to_an_unknown_topic_id_is_rejected(broker):
    broker.topics["tiny"].refusals.clear()
    rows = ({"TopicId": bytes(16), "PartitionData": ({"Index": 0, "Records": TWO},)},)
    value = send_request(broker, "Produce", 13, {"Acks": -1, "TimeoutMs": 1000, "TopicData": rows})
    assert value["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == 100


# --- requests to a driver -----------------------------------------------------------------------------


def value(data):
    return codec.decode("RECORD_BATCH", data).value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (TWO, ""),
        (batch(0, producer=7), ""),
        (batch(0, producer=7, transactional=True), ""),
        (batch(5), "cannot write control batches, LogAppendTime or offsets"),
        (batch(0, timestampType=1), "LogAppendTime"),
        (batch(0, producer=7, transactional=True, control=True), "control batches"),
        (batch(0, compression=4), "zstd: not claimed"),
        (batch(0, producerId=7, producerEpoch=0, baseSequence=5), "chooses its first sequence"),
        (batch(0, [record(0, timestamp=-1)]), "a timestamp below 0"),
    ],
)
def test_a_driver_is_only_asked_for_settings_of_applications(data, reason):
    found = unsupported_batch(value(data), CLAIMS)
    assert reason in found
    assert bool(reason) == bool(found)


def test_a_missing_claim_is_named():
    assert unsupported_batch(value(batch(0, producer=7, transactional=True)), ("none",)) == (
        "timestamps, idempotence, transactions: not claimed"
    )


def test_a_driver_gets_records_codec_and_producer_kind():
    row = record(0, timestamp=5, key=None, headers=({"key": "h", "value": None},))
    command = producer_command([value(batch(0, [row], compression=1)), value(TWO)])
    assert [len(rows) for rows in command["batches"]] == [1, 2]
    assert command["batches"][0] == [
        {"timestamp": "5", "key": None, "value": "76", "headers": [{"key": "h", "value": None}]}
    ]
    assert (command["compression"], command["idempotent"], command["transactional"]) == ("gzip", False, False)
    assert producer_command([value(batch(0, producer=7, transactional=True))])["transactional"]


def test_a_driver_gets_the_end_of_each_transaction_and_allowed_errors():
    plain, transactional = [value(TWO)] * 3, [value(batch(0, producer=7, transactional=True))] * 3
    assert [producer_command(batches)["ends"] for batches in (plain, transactional)] == [
        ["", "", ""],
        ["", "", "commit"],
    ]
    assert producer_command(transactional, ("commit", "abort", "commit"))["ends"] == ["commit", "abort", "commit"]
    assert producer_command(plain)["givenUp"] == [False, False, False]
    assert producer_command(plain, given_up={1})["givenUp"] == [False, True, False]


def test_records_spread_over_several_batches_are_not_judged():
    topic = MockTopic(b"", 0, 0)
    topic.produced = [TWO, batch(0)]
    assert produced_batch_answer(topic, ClientOutput(ended=True)) == {
        "unsupported": "the client spread the records over 2 batches"
    }
    topic.produced = [TWO]
    assert produced_batch_answer(topic, ClientOutput(ended=True)) == {"ok": True, "hex": TWO.hex()}


# --- whole producers ----------------------------------------------------------------------------------

PRODUCER = (
    f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "shared")!r})
from tiny_client import *
"""
    """
def write(line, change=lambda data, number: data, again=(6, 7, 56), tells=True, gap=False, anew=False, adds=(0, 1, 2),
          ends=True, version=3):
    connection, options, number, offset = Connection(line["bootstrap"], line["topic"]), line["produce"], 0, 0
    who = {"producerId": -1, "producerEpoch": -1, "baseSequence": -1}
    named, has_begun = line["topic"] if options["transactional"] else None, False
    if options["idempotent"]:
        given = connection.ask("InitProducerId", 0, {"TransactionalId": named, "TransactionTimeoutMs": 1000})
        who = {"producerId": given["ProducerId"], "producerEpoch": given["ProducerEpoch"], "baseSequence": 0}
    for at, rows in enumerate(options["batches"]):
        if named and rows and not has_begun:
            has_begun, topics = True, ({"Name": named, "Partitions": (0,)},)
            ids = {"TransactionalId": named, "ProducerId": given["ProducerId"], "ProducerEpoch": given["ProducerEpoch"]}
            added = {**{f"V3AndBelow{name}": each for name, each in ids.items()}, "V3AndBelowTopics": topics}
            if at in adds: connection.ask("AddPartitionsToTxn", 0, added)
        if not rows and not ends: connection.ask("EndTxn", 0, {"TransactionalId": named, "Committed": True})
        if not rows: continue
        records = [{**row, "offset": str(at)} for at, row in enumerate(rows)]
        shown = {"baseOffset": "0", "partitionLeaderEpoch": -1, "timestampType": "CreateTime", "isControlBatch": False,
                 "compression": options["compression"], "isTransactional": options["transactional"], "records": records,
                 **{name: str(part) if name == "producerId" else part for name, part in who.items()}}
        data = bytes.fromhex(answer({"op": "encode", "type": "RECORD_BATCH", "value": shown})["hex"])
        error = 1
        while error:
            data, number = change(data, number), number + 1
            part = {"Index": 0, "Records": data}
            rows_sent = ({"Name": line["topic"], "PartitionData": (part,)},)
            body = {"TransactionalId": named, "Acks": -1, "TimeoutMs": 1000, "TopicData": rows_sent}
            try:
                error = connection.ask("Produce", version, body)["Responses"][0]["PartitionResponses"][0]["ErrorCode"]
            except ConnectionError:
                connection, error = Connection(line["bootstrap"], line["topic"]), 7
            if error == 6: connection = leading(line, connection)
            if error and error not in again:
                if options["givenUp"][at]: break
                if tells: return write_line(topic=line["topic"], error="other", message=f"error {error}")
                break
            if error: time.sleep(0.1)
        is_lost = error and options["givenUp"][at] and not gap
        if options["idempotent"] and not is_lost: who["baseSequence"] += len(records)
        if error and anew:
            given = connection.ask("InitProducerId", 0, {"TransactionalId": named, "TransactionTimeoutMs": 1000})
            who = {"producerId": given["ProducerId"], "producerEpoch": given["ProducerEpoch"], "baseSequence": 0}
        if has_begun and options["ends"][at]:
            has_begun, committed = False, options["ends"][at] == "commit" or not ends
            connection.ask("EndTxn", 0, {**ids, "Committed": committed})
    write_line(topic=line["topic"], end=True)
"""
)
SERVE = "for line in lines():\n    write(line, {change}) if 'produce' in line else consume(line)\n"


@pytest.fixture
def wrote(tmp_path, traces):
    """Return a function that runs a producer with changed batches and returns the results by case."""

    def start(change, *select, status, produces="none, gzip, timestamps, idempotence", serve=""):
        (tmp_path / "driver.py").write_text(PRODUCER + (serve or SERVE.format(change=change)))
        (tmp_path / "driver.yaml").write_text(DRIVER.format(name=tmp_path.name, produces=produces))
        patterns = [part for pattern in select for part in ("--select", pattern)]
        command = ("run", "live:./driver.yaml", *patterns, "--generated", "0", "--json", "r.json", "--quiet")
        done = conformance(*command, cwd=tmp_path, env=traces.env, limits=BRIEF)
        assert done.returncode == status, done.stdout + done.stderr
        return {row["id"]: row for row in json.loads((tmp_path / "r.json").read_text())["results"]}

    yield start
    assert traces.left() == []


DRIVER = """
name: {name}
language: python
module: driver.py
entry-point: tiny.consume
codecs: [none, gzip, snappy, lz4, zstd]
magics: [2]
isolations: [read_uncommitted, read_committed]
producer-features: [{produces}]
concurrency: 2
"""
HONEST = "lambda data, number: data"
CASES = ("batch/three-records:encode", "gzip/over-1-kilobyte:encode", "producer/id-max:encode", "producer/none:encode")


NEEDS_MORE = """
write_line(version="1")
for line in map(json.loads, sys.stdin):
    Connection(line["bootstrap"]).ask("Metadata", 9, {"Topics": ()})
    write(line) if "produce" in line else consume(line)
"""


def test_a_producer_that_needs_a_larger_offer_gets_it(wrote):
    found = wrote(HONEST, "batch/three-records:encode", status=0, serve=NEEDS_MORE)
    assert found["batch/three-records:encode"]["verdict"] == "pass"


def test_a_correct_producer_conforms(wrote):
    found = wrote(HONEST, *CASES, "producer/*:encode", "lz4/*:encode", "request/produce*", "request/init*", status=0)
    assert {found[name]["verdict"] for name in CASES} == {"pass"}
    for name in ("produce", "produce-retried", "produce-sequences", "init-producer-id"):
        assert found[f"request/{name}"]["verdict"] == "pass", found[f"request/{name}"]
    assert "lz4: not claimed" in found["lz4/over-1-kilobyte:encode"]["detail"]
    assert "transactions is not claimed" in found["request/produce-in-transaction"]["detail"]


IN_TRANSACTIONS = "none, gzip, timestamps, idempotence, transactions, aborts"


@pytest.mark.parametrize(
    ("lie", "failed"),
    [
        ("", set()),
        ("anew=True", set()),
        ("gap=True", {"request/transaction-given-up", "request/produce-given-up"}),
        ("adds=(0,)", {"request/transactions-in-turn", "request/transactions-of-newer-kind"}),
        (
            "ends=False",
            {
                "request/transactions-in-turn",
                "request/transactions-of-newer-kind",
                "request/transaction-without-records",
            },
        ),
    ],
    ids=["honest", "as another producer", "leaves a gap", "adds its partition once", "commits all, and nothing"],
)
def test_several_transactions_of_a_producer_are_judged(wrote, lie, failed):
    cases = ("transactions-*", "transaction-given-up", "transaction-without-records", "produce-given-up")
    serve = f"for line in lines():\n    write(line, {lie}) if 'produce' in line else consume(line)\n"
    select = [f"request/{name}" for name in cases]
    found = wrote(None, *select, status=0, produces=IN_TRANSACTIONS, serve=serve)
    assert {name for name, row in found.items() if row["verdict"] != "pass"} == failed, found
    assert len(found) == len(cases) + 1


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_producer_gets_the_full_offer_if_the_scenario_requires_it(wrote, version):
    serve = f"for line in lines():\n    write(line, version={version}) if 'produce' in line else consume(line)\n"
    found = wrote(None, "request/produce-newest*", status=0, serve=serve)
    assert {row["verdict"] for row in found.values()} == {"pass"}, found


def test_one_of_several_batches_has_a_fatal_error(broker):
    broker.topics["tiny"] = MockTopic(b"", 0, 0, accepted_sequences={}).with_faults(
        SCENARIOS["transaction-fatal-error"]
    )
    sent = [batch(0, producerId=7, producerEpoch=0, baseSequence=number) for number in (0, 1, 2, 1)]
    assert [produced(broker, 8, data)["ErrorCode"] for data in sent] == [0, 87, 45, 0]
    assert SCENARIOS["produce-fatal-error"].partition_errors == SCENARIOS["transaction-fatal-error"].partition_errors


def test_a_driver_without_aborts_gets_no_abort_case(wrote):
    patterns = ("request/transactions-*", "request/produce-given-up", "request/transaction-without-records")
    found = wrote(HONEST, *patterns, status=3)
    assert {row["detail"] for row in found.values()} == {"unsupported: aborts is not claimed"}


STAYS = "leading = lambda line, connection: connection\n"


@pytest.mark.parametrize(("change", "verdict"), [("", "pass"), (STAYS, "fail")], ids=["follows", "stays"])
def test_a_producer_that_keeps_writing_to_the_old_leader_is_found(wrote, change, verdict):
    serve = change + SERVE.format(change=HONEST)
    (row,) = wrote(None, "request/produce-leader-moved", status=0, serve=serve).values()
    assert (row["verdict"], row["level"], row["requirement"]) == (verdict, "should", "response.leader-elsewhere")


def test_a_producer_without_idempotence_is_judged_too(wrote):
    found = wrote(HONEST, "request/produce*", "request/init*", status=0, produces="none, timestamps")
    assert found["request/produce"]["verdict"] == "pass", found["request/produce"]
    skipped = {name: row["detail"] for name, row in found.items() if row["verdict"] == "skip"}
    assert "idempotence is not claimed" in skipped["request/produce-retried"]
    assert "idempotence is not claimed" in skipped["request/produce-sequences"]
    assert "no InitProducerId request was sent" in skipped["request/init-producer-id"]


DIES = "import os\nfor line in lines():\n    if 'produce' in line: {deed}; os.abort()\n    consume(line)\n"
ASKS = "Connection(line['bootstrap'], line['topic']).ask('ApiVersions', 0, {})"
WRITES = "write(line, lambda data, number: data if number < 1 else os.abort())"
OF_PRODUCE = ("produce", "produce-retried", "produce-sequences", "init-producer-id")


@pytest.mark.parametrize(
    ("deed", "crashed"), [(ASKS, {*OF_PRODUCE}), (WRITES, {"produce-retried"})], ids=["at once", "after a batch"]
)
def test_a_crash_before_the_judged_request_is_a_crash(wrote, deed, crashed):
    found = wrote(None, "request/produce*", "request/init-producer-id", status=1, serve=DIES.format(deed=deed))
    assert {name for name in OF_PRODUCE if found[f"request/{name}"]["verdict"] == "crash"} == crashed
    assert {found[f"request/{name}"]["verdict"] for name in {*OF_PRODUCE} - crashed} <= {"pass"}
    assert all("SIGABRT" in found[f"request/{name}"]["detail"] for name in crashed)


NO_SUCH = "raise TypeError('this release has no such argument')"


@pytest.mark.parametrize(("where", "verdict"), [("True", "skip"), ("'gzip' in str(line)", "crash")])
def test_a_limitation_of_a_driver_is_no_failure_of_the_client(wrote, where, verdict):
    serve = f"""
for line in lines():
    try:
        if 'produce' in line and {where}: {NO_SUCH}
        write(line) if 'produce' in line else consume(line)
    except TypeError as error:
        write_line(topic=line['topic'], crash=repr(error))
"""
    case = "gzip/over-1-kilobyte:encode"
    found = wrote(None, case, status=1 if verdict == "crash" else 3, serve=serve)
    assert found[case]["verdict"] == verdict
    reason = "the client wrote no plain batch, so its writes are not judged: {'crash': \"TypeError"
    assert any(reason in row["detail"] for row in found.values()) == (verdict == "skip")


DIES_OF_THE_PAST = """
import os, tiny_client
past = []
tiny_client.consume = lambda line: past.append(consume(line))
for line in lines():
    if 'produce' in line and past: Connection(line['bootstrap'], line['topic']).ask('ApiVersions', 0, {}); os.abort()
    write(line) if 'produce' in line else consume(line)
"""


def test_a_crash_in_a_used_process_is_not_attributed(wrote):
    found = wrote(None, "request/produce*", "request/init-producer-id", status=0, serve=DIES_OF_THE_PAST)
    assert {found[f"request/{name}"]["verdict"] for name in OF_PRODUCE} == {"pass"}


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ("lambda data, number: data[:-2] + b'w' + data[-1:]", {*CASES}),
        (
            "lambda data, number: data[:-2] + bytes([data[-2] ^ number]) + data[-1:]",
            {f"request/produce-{name}" for name in ("retried", "sequences", "newest-sequences", "answer-lost")},
        ),
    ],
    ids=["records", "second-time"],
)
def test_a_wrong_field_of_a_written_batch_is_found(wrote, change, failed):
    found = wrote(change, *CASES, "request/produce-*", status=1)
    others = {name for name in read_catalog().cases if name.startswith("request/produce-")}
    assert found.keys() == {*CASES} | others
    assert {name for name, row in found.items() if row["verdict"] == "fail"} == failed
    assert all(json.dumps(found[name]["actual"]) for name in failed)


@pytest.mark.parametrize(
    ("then", "verdict", "status"),
    [("tells=True", "pass", 0), ("tells=False", "fail", 0), ("again=range(99)", "skip", 3)],
    ids=["tells the application", "says that it is written", "goes on trying"],
)
def test_a_producer_that_hides_a_fatal_error_is_found(wrote, then, verdict, status):
    serve = f"for line in lines():\n    write(line, {then}) if 'produce' in line else consume(line)\n"
    (row,) = wrote(None, "request/produce-refused", status=status, serve=serve).values()
    assert (row["verdict"], row["level"], row["requirement"]) == (verdict, "should", "producer.refusal-told")


MOVED = "__import__('conformance.codec.record_batch', fromlist=['x'])"
CHANGED = f"{MOVED}.with_checksums({MOVED}.BATCH_LAYOUT.with_field('baseSequence', data, @))"
PUT = f"lambda data, number: {CHANGED} if number @@ else data"
"""Requests: batch 0 (rejected) and 1, then 2, then 3; their base sequences are 0, 2 and 3."""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (PUT.replace("@@", "== 2").replace("@", "0"), "sequence 0 instead of producer id 4711, epoch 3, sequence 2"),
        (PUT.replace("@@", "== 3").replace("@", "4"), "sequence 4 instead of producer id 4711, epoch 3, sequence 3"),
        (PUT.replace("@@", "== 3").replace("@", "2"), "sequence 2 instead of producer id 4711, epoch 3, sequence 3"),
        (PUT.replace("@@", "== 1").replace("@", "2"), "sequence 2 instead of producer id 4711, epoch 3, sequence 4"),
    ],
    ids=["repeats", "skips", "counts batches", "moves on after a refusal"],
)
def test_non_consecutive_sequences_are_found(wrote, change, problem):
    found = wrote(change, "request/produce-sequences", "request/produce-retried", status=1)
    assert found["request/produce-sequences"]["verdict"] == "fail"
    assert problem in found["request/produce-sequences"]["detail"]
    again = found["request/produce-retried"]["verdict"]
    assert again == ("fail" if "== 1" in change else "pass")


def sequenced(data, base, producer=4711, epoch=3):
    put = BATCH_LAYOUT.with_field
    who = {"producerId": producer, "producerEpoch": epoch, "baseSequence": base}
    for name, part in who.items():
        data = put(name, data, part)
    return with_checksums(data)


def test_pipelined_batches_are_accepted_once_and_in_order(broker):
    topic = broker.topics["tiny"]
    topic.accepted_sequences = {}
    first, second, third = (sequenced(data, base) for data, base in ((TWO, 0), (batch(0), 2), (batch(0), 3)))
    codes = [produced(broker, 9, data) for data in (first, second, first, third, second, second, third, first)]
    assert [(row["ErrorCode"], row["BaseOffset"]) for row in codes] == [
        *((6, -1), (45, -1), (0, 0), (45, -1), (0, 2), (0, 2), (0, 3), (0, 0)),
    ]
    assert topic.produced == [first, second, third]


def test_a_producer_id_requested_during_pipelining_starts_another_producer(broker):
    broker.topics["tiny"].accepted_sequences, broker.topics["tiny"].refusals = {}, []
    ids = [send_request(broker, "InitProducerId", 1, {"TransactionTimeoutMs": 1})["ProducerId"] for _ in range(2)]
    assert ids == [4711, 4712]
    codes = [produced(broker, 9, sequenced(batch(0), *of)) for of in ((0, 4711), (0, 4712), (1, 4712), (0, 4711, 4))]
    assert [(row["ErrorCode"], row["BaseOffset"]) for row in codes] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_driver_gets_the_batch_size_and_the_waiting_mode():
    apart, together = (producer_command([value(batch(0))], together=way) for way in (False, True))
    assert (apart["together"], apart["batchBytes"]) == (False, 4 << 20)
    assert (together["together"], together["batchBytes"]) == (True, 1024)


def test_a_sequence_used_for_two_batches_is_found_at_the_second(wrote):
    counts_from_the_second = PUT.replace("@@", ">= 2").replace("@", "number - 2")
    found = wrote(counts_from_the_second, "request/produce-together", status=1)
    row = found["request/produce-together"]
    assert (row["verdict"], row["level"]) == ("fail", "must")
    assert row["detail"].startswith("producer id 4711, epoch 3, sequence 0 is used for two batches")
    assert ["hex" in request for request in row["actual"]["value"]] == [False, False, True, False, False, False]
