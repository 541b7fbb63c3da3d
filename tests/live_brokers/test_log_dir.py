"""The stored bytes of a broker are further evidence: they must match the sent and the served bytes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from model_broker import ModelBroker, Ways

from conformance import cli, codec
from conformance.cases.model import VerdictKind
from conformance.codec.record_batch import stored_size
from conformance.judging.judge import judge
from conformance.live_brokers.bridge import BrokerBridge
from conformance.live_brokers.partition import PartitionClient
from conformance.live_brokers.segments import SegmentFiles
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.probes import plain_log
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration

CASE, DAMAGED = "append/one-record", "crc/one:append"
LATER = b"\x7f" * 8


def verdict(address, case):
    target = BrokerBridge(address)
    try:
        return judge(case, outcome(target.answer(case.request)))
    finally:
        target.close()


def changed(**fields):
    """Return the batch with other values in its header or first record, and a correct checksum."""

    def change(batch):
        value = codec.decode("RECORD_BATCH", batch).value
        records = ({**value["records"][0], **fields.pop("record", {})}, *value["records"][1:])
        return codec.encode("RECORD_BATCH", {**value, "records": records, **fields})

    return change


LIES = {
    "another value": changed(record={"value": b"another"}),
    "another checksum": lambda batch: batch[:17] + bytes(4) + batch[21:],
    "no leader epoch": changed(partitionLeaderEpoch=-1),
    "another offset": changed(baseOffset=7),
    "a cut batch": lambda batch: batch[:-1],
    "nothing": lambda _: b"",
    "twice": lambda batch: batch + batch,
    "bytes that are no batch": lambda batch: bytes(len(batch)),
}


def only_of(case, fault):
    """Return ways that store the served bytes, except for the batch of a case."""
    data = bytes.fromhex(case.request["hex"])
    return lambda stored, sent: fault(stored) if sent == data and sent != plain_log(2) else stored


@pytest.mark.parametrize("name", ["nothing is wrong", *LIES])
def test_a_difference_between_stored_and_served_bytes_is_found(name, catalog, tmp_path):
    case = catalog.cases[CASE]
    ways = Ways(kept=only_of(case, LIES[name])) if name in LIES else Ways()
    with ModelBroker(ways, log_dir=tmp_path) as broker:
        seen = verdict(BrokerAddress("127.0.0.1", broker.port, "model", log_dir=tmp_path), case)
        unseen = verdict(BrokerAddress("127.0.0.1", broker.port, "model"), case)
    assert unseen.kind is VerdictKind.PASS
    assert seen.kind is (VerdictKind.FAIL if name in LIES else VerdictKind.PASS), seen
    if name in LIES:
        assert f"(segment {tmp_path}/conformance-" in seen.detail
        assert ".log at byte " in seen.detail


def test_a_stored_rejected_batch_is_found(catalog, tmp_path):
    case = catalog.cases[DAMAGED]
    ways = Ways(kept=lambda stored, sent: stored or sent)
    with ModelBroker(ways, log_dir=tmp_path) as broker:
        seen = verdict(BrokerAddress("127.0.0.1", broker.port, "model", log_dir=tmp_path), case)
        unseen = verdict(BrokerAddress("127.0.0.1", broker.port, "model"), case)
    assert (unseen.kind, seen.kind) == (VerdictKind.PASS, VerdictKind.FAIL)


@pytest.mark.parametrize("kept", [lambda *_: b"", None], ids=["empty segments", "another folder"])
def test_a_folder_without_the_topic_is_no_failure(kept, catalog, tmp_path):
    ways = Ways(kept=kept) if kept else Ways()
    (tmp_path / "elsewhere").mkdir()
    with ModelBroker(ways, log_dir=tmp_path) as broker:
        folder = tmp_path if kept else tmp_path / "elsewhere"
        found = verdict(BrokerAddress("127.0.0.1", broker.port, "model", log_dir=folder), catalog.cases[CASE])
    assert found.kind is VerdictKind.SKIP
    assert f"{folder}/conformance-" in found.detail
    assert "has no data of the topic" in found.detail


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (["reference"], "--log-dir: expected exactly one broker target, found 0"),
        (["broker:127.0.0.1:1", "broker:127.0.0.1:2"], "expected exactly one broker target, found 2"),
        (["broker:mine/broker.yaml"], "--log-dir: the suite starts broker:mine/broker.yaml with its own log folder"),
    ],
    ids=["none", "two", "one of the suite"],
)
def test_the_folder_belongs_to_one_broker(targets, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "broker.yaml").write_text("name: mine\nversion: '1'\ncommand: [cat]\nstartup: 20\n")
    done = CliRunner().invoke(cli.main, ["run", *targets, "--log-dir", str(tmp_path)])
    assert done.exit_code == 2
    assert problem in done.stderr


def test_a_run_accepts_the_log_folder(tmp_path, catalog):
    ways = Ways(kept=only_of(catalog.cases[CASE], LIES["another checksum"]))
    with ModelBroker(ways, log_dir=tmp_path) as broker:
        arguments = ["run", f"broker:{broker.address}", "--select", CASE, "--log-dir", str(tmp_path)]
        done = CliRunner(env={"COLUMNS": "300"}).invoke(cli.main, arguments)
    assert done.exit_code == 1
    assert "(segment " in " ".join(done.stdout.split())


def test_a_log_rolls_new_segments_if_a_case_requires_it(bundled_broker, catalog):
    broker = bundled_broker("kafka")

    def segments(case):
        """Return the number of segments of the topic of a case."""
        before = set(broker.log_dir.iterdir())
        target = BrokerBridge(broker.address)
        try:
            assert judge(case, outcome(target.answer(case.request))).kind is VerdictKind.PASS
            return max(len([*one.glob("*.log")]) for one in set(broker.log_dir.iterdir()) - before if one.is_dir())
        finally:
            target.close()

    case = catalog.cases["scenario/aborted-over-segments"]
    rolls = sum(step["do"] == "roll-segment" for step in case.request["steps"])
    assert segments(case) == segments(catalog.cases["scenario/aborted"]) + rolls


def test_apache_kafka_stores_the_served_bytes(bundled_broker, catalog):
    broker = bundled_broker("kafka")
    target = BrokerBridge(broker.address)
    try:
        for name in (CASE, DAMAGED, "append/none-to-gzip", "timestamp/log-append-fresh:append"):
            found = judge(catalog.cases[name], outcome(target.answer(catalog.cases[name].request)))
            assert found.kind in (VerdictKind.PASS, VerdictKind.EITHER), found
        partition, end = target._new_partition({})
        segments = SegmentFiles.of(broker.log_dir, partition.topic.name)
        first, after = partition.produce_one_record(), partition.produce_one_record()
        stored = segments.since(end, after)
        assert isinstance(partition, PartitionClient)
        assert first == end
        assert stored.data == partition.fetch(end, until=after)
        assert len(stored.data) == 12 + stored_size(stored.data, 0)
    finally:
        target.close()
