"""Brokers that crash, hang, or send invalid responses: one verdict each, and the next case runs."""

import io
import struct
import sys
from types import SimpleNamespace

import msgspec
import pytest
from command_line import conformance
from model_broker import OFFERED, ModelBroker, Ways, checked

from conformance.cases.model import VerdictKind
from conformance.definitions.request_frames import MalformedFrame
from conformance.judging.judge import judge
from conformance.live_brokers import bridge, partition, topics
from conformance.live_brokers.bridge import BrokerBridge, serve
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.probes import plain_log
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration

CASE, NEXT, OF_SEQUENCES = "append/order", "append/one-record", "sequence/repeat-of-the-last"


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Use short timeouts."""
    for module, name, seconds in (
        (bridge, "_SECONDS", 0.4), (bridge, "_RECONNECT_TIMEOUT_S", 0.2), (bridge, "_CONNECT_POLL_S", 0.02),
        (partition, "_READY_TIMEOUT_S", 0.2), (partition, "_SERVED_TIMEOUT_S", 0.3), (topics, "_LEADER_TIMEOUT_S", 0.2),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)


@pytest.fixture
def start_target():
    """Return a function that starts a broker and runs cases on it."""
    opened = []

    def start(sends=lambda _, frame: frame, ways=None):
        broker = ModelBroker(ways, sends)
        opened.append(broker)
        broker.start()
        opened.append(BrokerBridge(BrokerAddress("127.0.0.1", broker.port, "model")))
        return broker, opened[-1]

    yield start
    for one in reversed(opened):
        one.close() if isinstance(one, BrokerBridge) else one.stop()


def is_of_case(request, data):
    """Return True if a request writes the bytes of the case."""
    rows = request.body["TopicData"] if request.name == "Produce" else ()
    return any(part["Records"] == data for row in rows for part in row["PartitionData"])


def is_plain(request):
    return is_of_case(request, plain_log(2))


def only_at(case, sends):
    """Return ways with correct responses except for the case."""
    data = bytes.fromhex(case.request["hex"])
    return lambda request, frame: sends(frame) if is_of_case(request, data) else frame


def verdicts(target, catalog, *names):
    return [judge(catalog.cases[name], outcome(target.answer(catalog.cases[name].request))) for name in names]


SIZE = struct.Struct(">i")
ANSWERS = {
    "says nothing": (lambda _: b"", "timeout", "no answer within 0.4 s"),
    "answers half a frame": (lambda frame: frame[: len(frame) // 2], "timeout", "no answer within"),
    "says 2 GiB": (lambda frame: SIZE.pack((1 << 31) - 1) + frame[4:], "crash", "2147483647 bytes"),
    "says a negative size": (lambda frame: SIZE.pack(-1) + frame[4:], "crash", "-1 bytes"),
    "says no size": (lambda _: SIZE.pack(0), "crash", "an answer cannot be read"),
    "has another correlation id": (lambda frame: frame[:4] + SIZE.pack(77) + frame[8:], "crash", "correlation id 77"),
    "answers with no response": (lambda frame: frame[:8] + b"\xff" * (len(frame) - 8), "crash", "cannot be read"),
    "answers in HTTP": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "crash", "1213486160 bytes"),
    "floods": (lambda frame: frame + bytes(1 << 20), "crash", "an answer cannot be read"),
}


@pytest.mark.parametrize(("sends", "how", "detail"), ANSWERS.values(), ids=ANSWERS)
def test_an_invalid_response_is_one_verdict_and_the_next_case_runs(sends, how, detail, catalog, start_target):
    _, target = start_target(only_at(catalog.cases[CASE], sends))
    found = target.answer(catalog.cases[CASE].request)
    assert detail in str(found)
    assert how in found
    assert not target.gone
    assert [verdict.kind for verdict in verdicts(target, catalog, NEXT, OF_SEQUENCES)] == [VerdictKind.PASS] * 2


def test_a_connection_closed_instead_of_a_response_is_a_rejection(catalog, start_target):
    data = bytes.fromhex(catalog.cases[CASE].request["hex"])

    def gone(batch, settings):
        if batch == data:
            raise ConnectionError
        return checked(batch, settings)

    _, target = start_target(ways=Ways(checked=gone))
    assert target.answer(catalog.cases[CASE].request) == {
        **{"ok": False, "error": "other", "message": "the connection was closed without an answer"},
        "codes": "no answer",
    }
    assert verdicts(target, catalog, NEXT)[0].kind is VerdictKind.PASS


def test_a_batch_served_without_a_produce_response_fails(catalog, start_target):
    _, target = start_target(only_at(catalog.cases[CASE], lambda _: None))
    assert [verdict.kind for verdict in verdicts(target, catalog, CASE, NEXT)] == [VerdictKind.FAIL, VerdictKind.PASS]


def test_an_error_with_an_unknown_outcome_is_no_failure(catalog, start_target):
    data = bytes.fromhex(catalog.cases[CASE].request["hex"])
    late = Ways(checked=lambda batch, settings: 7 if batch == data else checked(batch, settings), keeps_refused=True)
    _, target = start_target(ways=late)
    assert [verdict.kind for verdict in verdicts(target, catalog, CASE, NEXT)] == [VerdictKind.SKIP, VerdictKind.PASS]


def test_a_broker_crash_is_attributed_only_to_its_case(catalog, start_target):
    broker, target = start_target()
    broker.sends = only_at(catalog.cases[CASE], lambda _: broker.stop())
    killed, *rest = (target.answer(catalog.cases[name].request) for name in (CASE, NEXT, OF_SEQUENCES))
    assert "does not come back" in killed["crash"]
    assert all("model does not answer any more" in answer["targetUnavailable"] for answer in rest)


def test_a_broker_crash_between_two_cases_is_attributed_to_no_case(catalog, start_target):
    broker, target = start_target()
    assert verdicts(target, catalog, NEXT)[0].kind is VerdictKind.PASS
    broker.stop()
    assert "model does not answer any more" in target.answer(catalog.cases[CASE].request)["targetUnavailable"]


def test_a_broker_restarted_between_two_cases_is_still_tested(catalog, start_target):
    broker, target = start_target()
    for _ in range(2):
        assert [verdict.kind for verdict in verdicts(target, catalog, CASE, OF_SEQUENCES)] == [VerdictKind.PASS] * 2
        broker.stop()
        broker.start()


NOT_READY = {
    "closes after ApiVersions": lambda request, frame: frame if request.name == "ApiVersions" else None,
    "does not make topics": lambda request, frame: b"" if request.name == "CreateTopics" else frame,
    "does not take a plain batch": lambda request, frame: b"" if is_plain(request) else frame,
    "does not serve": lambda request, frame: b"" if request.name == "Fetch" else frame,
}


@pytest.mark.parametrize("sends", NOT_READY.values(), ids=NOT_READY)
def test_an_unready_broker_fails_no_case_and_is_tried_three_times(sends, catalog, start_target):
    _, target = start_target(sends)
    answers = [target.answer(catalog.cases[name].request) for name in (CASE, NEXT, OF_SEQUENCES, CASE)]
    assert all("the broker was not ready" in answer["unsupported"] for answer in answers[:3])
    assert answers[3]["targetUnavailable"].startswith("model is not ready")


NEVER = {
    "refuses every batch": Ways(checked=lambda *_: 29),
    "tells a negative offset": Ways(told=lambda _: -1),
    "serves nothing": Ways(served=lambda _: []),
}


@pytest.mark.parametrize("ways", NEVER.values(), ids=NEVER)
def test_a_rejected_plain_batch_neither_fails_nor_passes_a_case(ways, catalog, start_target):
    _, target = start_target(ways=ways)
    assert {verdict.kind for verdict in verdicts(target, catalog, "append/wrong-crc-none", CASE)} == {VerdictKind.SKIP}


def test_an_accepted_batch_with_a_fetch_error_is_not_rejected(catalog, start_target):
    """An error of the fetch is not the required rejection of a wrong checksum."""
    broker, target = start_target(ways=Ways(checked=lambda *_: 0))
    verdicts(target, catalog, NEXT)
    broker.failing = 2
    wrong, right = verdicts(target, catalog, "append/wrong-crc-none", CASE)
    assert wrong.kind is right.kind is VerdictKind.FAIL


def test_a_partition_blocked_by_a_case_fails_that_case(catalog, start_target):
    data = bytes.fromhex(catalog.cases[CASE].request["hex"])
    broken = []

    def jammed(batch, _):
        broken.extend([True] * (batch == data))
        return 56 if broken and batch != data else 0

    _, target = start_target(ways=Ways(checked=jammed))
    verdicts(target, catalog, NEXT)
    answer = target.answer(catalog.cases[CASE].request)
    assert "the broker rejects a plain batch: error 56" in answer["crash"]
    broken.clear()
    assert verdicts(target, catalog, NEXT)[0].kind is VerdictKind.PASS


@pytest.mark.parametrize("size", [1, 11, 12, 17, 60], ids=str)
def test_served_bytes_that_are_no_batch_are_one_verdict(size, catalog, start_target):
    broker, target = start_target()
    verdicts(target, catalog, NEXT)
    broker.served = bytes(16) + b"\x02" + bytes(60)
    broker.served = broker.served[:size]
    assert verdicts(target, catalog, CASE)[0].kind is VerdictKind.FAIL


def test_a_batch_that_is_never_complete_is_fetched_only_twice(catalog, start_target, monkeypatch):
    """librdkafka's mock serves a batch with a length beyond its bytes."""
    monkeypatch.setattr(partition, "_SERVED_TIMEOUT_S", 60)
    broker, target = start_target()
    verdicts(target, catalog, NEXT)
    broker.served = bytes.fromhex(catalog.cases[CASE].request["hex"])[:-1]
    before = broker.asked["Fetch"]
    assert verdicts(target, catalog, CASE)[0].kind is VerdictKind.FAIL
    assert broker.asked["Fetch"] == before + 2


@pytest.mark.parametrize("name", ["Produce", "Fetch"])
def test_an_answer_without_the_partition_is_one_verdict(name, catalog, start_target):
    broker, target = start_target()
    verdicts(target, catalog, NEXT)
    broker.silent_on = name
    assert VerdictKind.PASS not in {verdict.kind for verdict in verdicts(target, catalog, CASE)}
    broker.silent_on = ""
    assert verdicts(target, catalog, NEXT)[0].kind is VerdictKind.PASS


def test_topics_are_created_by_metadata_if_the_broker_offers_no_create_topics(catalog, start_target):
    offered = {name: versions for name, versions in OFFERED.items() if name != "CreateTopics"}
    _, target = start_target(ways=Ways(offered=offered))
    plain, with_setting = verdicts(target, catalog, CASE, "append/none-to-gzip")
    assert plain.kind is VerdictKind.PASS
    assert with_setting.kind is VerdictKind.SKIP
    assert "CreateTopics" in with_setting.detail


def test_a_rejected_topic_is_reported_with_the_error(catalog, start_target):
    _, target = start_target(ways=Ways(topic_error=29))
    (found,) = verdicts(target, catalog, CASE)
    assert found.kind is VerdictKind.SKIP
    assert "the topic was not made: error 29" in found.detail


def test_an_unreachable_leader_is_named(catalog, start_target):
    broker, target = start_target()
    broker.advertised = ("127.0.0.1", 1)
    (found,) = verdicts(target, catalog, CASE)
    assert found.kind is VerdictKind.SKIP
    assert "Metadata names 127.0.0.1:1 as leader of a new topic" in found.detail


def test_an_error_response_to_api_versions_is_one_clear_error(tmp_path):
    with ModelBroker(sends=lambda _, frame: SIZE.pack(10) + frame[4:8] + struct.pack(">hi", 35, 0)) as broker:
        with pytest.raises(MalformedFrame, match="ApiVersions 0 is answered with error 35"):
            BrokerBridge(BrokerAddress("127.0.0.1", broker.port, "model"))
        done = conformance("run", f"broker:{broker.address}", "--select", CASE, cwd=tmp_path)
    assert done.returncode == 3
    assert "the broker does not answer: ApiVersions 0 is answered with error 35" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr


def test_a_broker_without_topic_creation_still_answers_requests(catalog, start_target):
    _, target = start_target(ways=Ways(topic_error=29))
    answered, appended = verdicts(target, catalog, "exchange/metadata-9-edges", CASE)
    assert (answered.kind, appended.kind) == (VerdictKind.PASS, VerdictKind.SKIP)


GONE = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answers = {
        "describe": {"ok": True, "protocol": 1, "name": "x", "supports": {"append": True, "sequence": True}},
        "sequence": {"unsupported": "not this one"},
        "append": {"targetUnavailable": "the server does not answer"},
    }
    print(json.dumps({"id": request["id"], **answers[request["op"]]}), flush=True)
"""


def test_a_target_that_reports_a_lost_broker_ends_the_run_without_a_failure(tmp_path):
    (tmp_path / "adapter.py").write_text(GONE)
    done = conformance("run", f"command:{sys.executable} adapter.py", "--select", "append/*", cwd=tmp_path)
    assert done.returncode == 3
    assert "the server does not answer" in " ".join(done.stdout.split())
    assert "crash" not in done.stdout


def test_a_crashed_bundled_broker_may_restart_at_another_port(catalog, monkeypatch, start_target):
    """librdkafka's mock chooses a new port at each start."""
    broker, _ = start_target()
    broker.sends = only_at(catalog.cases[CASE], lambda _: broker.stop())
    after = ModelBroker()

    def restart():
        after.start()
        return BrokerAddress("127.0.0.1", after.port, "model")

    lines = [msgspec.json.encode({"id": at, **catalog.cases[name].request}) for at, name in enumerate((CASE, NEXT))]
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=lines))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    try:
        serve(BrokerAddress("127.0.0.1", broker.port, "model"), restart)
    finally:
        after.stop()
    killed, judged = map(msgspec.json.decode, output.getvalue().splitlines())
    assert "does not come back" in killed["crash"]
    assert judged["ok"]
