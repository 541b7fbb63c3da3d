"""Each requirement for brokers with cases detects a broker with one fault."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from broker_lies import BROKER_FAULTS
from command_line import conformance
from model_broker import OFFERED, ModelBroker, Ways, checked, fate, framed

from conformance.cases.model import FAILURES, VerdictKind
from conformance.definitions.request_frames import response_frame
from conformance.judging.judge import judge
from conformance.judging.raw_requests import codes_of
from conformance.live_brokers import bridge
from conformance.live_brokers.bridge import BrokerBridge
from conformance.live_brokers.connection import CLIENT
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration

BY_ID = {**OFFERED, "Produce": (0, 13), "Fetch": (0, 18)}
OLD = {**OFFERED, "Metadata": (0, 1), "CreateTopics": (0, 0), "Produce": (0, 3), "Fetch": (0, 4)}


def verdict(case, target):
    return judge(case, outcome(target.answer(case.request)))


def run(broker, folder, *select):
    """Return the status of `conformance run` on a broker and the results by case."""
    patterns = [part for pattern in select for part in ("--select", pattern)]
    options = ("--generated", "0", "--json", "report.json", "--quiet")
    done = conformance("run", f"broker:{broker.address}", *patterns, *options, cwd=folder)
    rows = json.loads((folder / "report.json").read_text())["results"]
    return done, {row["id"]: row for row in rows}


@pytest.fixture
def target():
    """Return a function that runs cases on a broker with these ways."""
    opened = []

    def ask(ways=None):
        opened.append(ModelBroker(ways))
        opened[-1].start()
        opened.append(BrokerBridge(BrokerAddress("127.0.0.1", opened[-1].port, "model"), reboot=opened[-1].restart))
        return opened[-1]

    yield ask
    for one in reversed(opened):
        one.close() if isinstance(one, BrokerBridge) else one.stop()


def test_a_correct_broker_passes_every_must(tmp_path):
    with ModelBroker() as broker:
        done, rows = run(broker, tmp_path, "append/*", "sequence/*", "scenario/*", "crc/*:append", "batch/*:append",
                         "exchange/metadata-1*", "exchange/hostile-*", "exchange/[asv]*")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = {row["verdict"] for row in rows.values()}
    assert kinds <= {"pass", "either", "skip"}
    assert sum(row["verdict"] == "pass" for row in rows.values()) > 150


@pytest.mark.parametrize("offered", [OFFERED, BY_ID, OLD], ids=["by name", "by id", "old versions"])
def test_a_correct_broker_passes_the_cases_that_detect_a_fault(offered, catalog, target):
    broker_bridge = target(Ways(offered=offered))
    for fault in BROKER_FAULTS.values():
        found = verdict(catalog.cases[fault.case], broker_bridge)
        is_too_new = offered is OLD and found.detail.endswith("is not offered")
        is_open = getattr(catalog.cases[fault.case].expect, "open", False)
        expected = VerdictKind.SKIP if is_too_new else VerdictKind.EITHER if is_open else VerdictKind.PASS
        assert found.kind is expected, fault.case


@pytest.mark.parametrize("name", BROKER_FAULTS)
def test_a_faulty_broker_is_detected(name, catalog, target, monkeypatch):
    fault = BROKER_FAULTS[name]
    case = catalog.cases[fault.case]
    if case.id.startswith("exchange/hostile-"):
        monkeypatch.setattr(bridge, "_SECONDS", 1.0)
        monkeypatch.setattr(bridge, "_RECONNECT_TIMEOUT_S", 0.5)
    found = verdict(case, target(fault.ways))
    assert found.kind in (FAILURES if "hostile" in case.id else (VerdictKind.FAIL,))
    assert (found.requirement or case.requirement) == fault.requirement


def test_a_broker_that_allocates_the_announced_size_is_detected(catalog):
    hoard = []
    ways = Ways(unreadable=lambda *_: hoard.append(b"x" * (300 << 20)))
    case = catalog.cases["exchange/hostile-size-2-gib"]
    with ModelBroker(ways) as broker:
        broker_bridge = BrokerBridge(BrokerAddress("127.0.0.1", broker.port, "model", pids=(os.getpid(),)))
        found = verdict(case, broker_bridge)
        broker_bridge.close()
    assert (found.kind, found.requirement, found.level) == (VerdictKind.FAIL, "robustness.answers", "should")
    assert "the memory of the broker grew by" in found.detail


def test_a_broker_that_checks_producer_epochs_across_topics_passes(catalog, target):
    """Producer ids are unique in a cluster, so no case uses the ids of another. kfake is such a broker."""
    epochs = {}

    def everywhere(batches):
        identity, epoch = batches[-1]["producerId"], batches[-1]["producerEpoch"]
        if epoch < epochs.get(identity, epoch):
            return "fenced"
        became = fate(batches)
        if became == "accept":
            epochs[identity] = epoch
        return became

    broker_bridge = target(Ways(fate=everywhere))
    cases = [case for case in catalog.cases.values() if case.op == "sequence"]
    kinds = [verdict(case, broker_bridge).kind for case in (*cases, *cases)]
    assert set(kinds) == {VerdictKind.PASS, VerdictKind.EITHER, VerdictKind.SKIP}
    assert kinds.count(VerdictKind.PASS) > 60


def test_an_undocumented_error_is_reported_and_allowed(catalog, target):
    broker_bridge = target(Ways(fate_codes={"fenced": 42, "out-of-order": 45, "duplicate": 46}))
    case = catalog.cases["sequence/older-epoch"]
    answer = outcome(broker_bridge.answer(case.request))
    assert judge(case, answer).kind is VerdictKind.EITHER
    assert codes_of(case, answer).endswith(": 42 (INVALID_REQUEST)")


def test_the_error_code_for_a_wrong_checksum_is_judged_at_should(catalog, target):
    fault = BROKER_FAULTS["refuses a wrong checksum with an error that does not say so"]
    found = verdict(catalog.cases[fault.case], target(fault.ways))
    assert (found.kind, found.level) == (VerdictKind.FAIL, "should")
    assert "87 (INVALID_RECORD)" in found.detail


def refusing_transactional_ids(code, after=0):
    """Return ways that assign ids to only a number of producers with a transactional id."""
    requests = []

    def sent(request, frame):
        if request.name != "InitProducerId" or request.body["TransactionalId"] is None:
            return frame
        requests.append(request)
        if len(requests) <= after:
            return frame
        body = {"ErrorCode": code, "ProducerId": -1, "ProducerEpoch": -1}
        return framed(response_frame(request.header["CorrelationId"], request.name, request.version, body))

    return Ways(answers=sent)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (53, "this client may not do it: error 53 (TRANSACTIONAL_ID_AUTHORIZATION_FAILED)"),
        (-1, "no transactional id had an identity before: error -1 (UNKNOWN_SERVER_ERROR)"),  # older kfake
    ],
)
def test_a_scenario_without_allowed_producer_ids_is_skipped_with_the_error(code, error, catalog, target):
    broker_bridge = target(refusing_transactional_ids(code))
    found = {case.id: verdict(case, broker_bridge) for case in catalog.cases.values() if case.op == "scenario"}
    assert {one.kind for one in found.values()} <= {VerdictKind.SKIP, VerdictKind.PASS, VerdictKind.EITHER}
    assert found["scenario/committed"].detail == f"unsupported: step 0 (init-producer-id of a): {error}"
    assert found["scenario/plain"].kind is VerdictKind.PASS


def test_rejecting_a_newer_producer_instance_fails_its_first_step(catalog, target):
    found = verdict(catalog.cases["scenario/instances"], target(refusing_transactional_ids(42, after=1)))
    assert (found.kind, found.requirement) == (VerdictKind.FAIL, "producer-id.assigned-by-broker")
    assert found.detail.endswith("rejected: error 42 (INVALID_REQUEST)")


def test_a_broker_that_rejects_leader_epochs_accepts_the_plain_batches_of_the_suite(catalog, target):
    """A producer writes -1; older kfake rejects all other values."""

    def looked(data, settings):
        is_of_producer = data[12:16] == b"\xff\xff\xff\xff"
        return checked(data, settings) if is_of_producer else 87

    broker_bridge = target(Ways(checked=looked))
    for case in ("append/one-record", "sequence/repeat-of-the-last", "scenario/committed"):
        assert verdict(catalog.cases[case], broker_bridge).kind is VerdictKind.PASS, case


def test_a_broker_that_waits_for_an_unknown_member_gets_another_group(catalog, target, monkeypatch):
    """librdkafka's mock accepts an unknown member, and then answers no other request of its group for a while."""
    monkeypatch.setattr(bridge, "_SECONDS", 1.0)
    joined = set()

    def sent(request, frame):
        if request.name != "JoinGroup" or request.header["ClientId"] == CLIENT:
            return frame
        group = request.body["GroupId"]
        is_waiting = group in joined
        joined.add(group)
        return b"" if is_waiting else frame

    broker_bridge = target(Ways(answers=sent))
    for case in ("exchange/join-group-1", "exchange/join-group-2-edges", "exchange/join-group-1"):
        assert verdict(catalog.cases[case], broker_bridge).kind is VerdictKind.PASS, case
    assert all(group.startswith("conformance-group-") for group in joined)


def test_reports_of_several_brokers_show_different_error_codes(tmp_path):
    other = {42: "42 (INVALID_REQUEST)", 87: "87 (INVALID_RECORD)", 2: "2 (CORRUPT_MESSAGE)"}
    ways = Ways(checked=lambda data, settings: {87: 42}.get(checked(data, settings), checked(data, settings)))
    case = "batch/record-length-max:append"
    with ModelBroker() as one, ModelBroker(ways) as two:
        done = subprocess.run(
            [sys.executable, "-m", "conformance", "run", f"broker:{one.address}", f"broker:{two.address}", "-v"]
            + ["--select", case, "--select", "append/wrong-crc-none", "--generated", "0"]
            + ["--json", "report.json", "--html", "page.html"],
            cwd=tmp_path, env={**os.environ, "COLUMNS": "150"},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "report.json").read_text())["results"]
    assert [row["codes"] for row in rows if row["id"] == case] == [other[87], other[42]]
    assert [row["codes"] for row in rows if row["id"] != case] == [other[2], other[2]]
    section = done.stdout.partition("Different error codes")[2]
    assert re.search(rf"{re.escape(other[87])} +{re.escape(other[42])} +1 × {case}", section)
    assert other[2] not in section
    page = (tmp_path / "page.html").read_text()
    assert re.search(rf"{case}</th>\s*<td[^>]*>{re.escape(other[87])}</td>\s*<td[^>]*>{re.escape(other[42])}<", page)


def test_generated_batches_are_sent_to_a_broker_and_a_failure_is_shrunk(tmp_path):
    wanted = ("gen/4/APPEND/0/22", *(f"gen/4/APPEND/0/{number}" for number in range(6)))
    fault = BROKER_FAULTS["does not look at records"]
    with ModelBroker() as honest, ModelBroker(fault.ways) as faulty:
        _, passed = run(honest, tmp_path, *wanted)
        done, rows = run(faulty, tmp_path, *wanted)
    assert {row["verdict"] for row in passed.values()} <= {"pass", "either", "skip"}
    assert len(passed) == 7
    assert done.returncode == 0  # it fails only at should
    failing = rows[wanted[0]]
    assert (failing["verdict"], failing["requirement"]) == ("fail", fault.requirement)
    shrunk = [row for row in json.loads((tmp_path / "report.json").read_text())["shrunk"] if row["of"] == wanted[0]]
    assert shrunk[0]["id"].startswith("bytes/LOG/")
    assert len(shrunk[0]["hex"]) < len(failing["hex"])


def test_every_broker_requirement_with_a_case_has_a_faulty_broker(catalog):
    own = [case for case in catalog.cases.values() if case.op == "append" and case.id.startswith("append/")]
    own += [case for case in catalog.cases.values() if case.op == "sequence" and case.level == "must"]
    own += [case for case in catalog.cases.values() if case.op == "exchange"]
    own += [case for case in catalog.cases.values() if case.op == "scenario"]
    assert len(own) > 95
    assert {case.requirement for case in own} <= {
        catalog.cases[fault.case].requirement for fault in BROKER_FAULTS.values()
    }


def test_a_run_on_a_faulty_broker_fails_and_names_the_requirement(tmp_path):
    fault = BROKER_FAULTS["appends duplicates again"]
    with ModelBroker(fault.ways) as broker:
        done, rows = run(broker, tmp_path, fault.case, "append/one-record")
    assert done.returncode == 1
    assert rows[fault.case]["verdict"] == "fail"
    assert rows["append/one-record"]["verdict"] == "pass"
    assert fault.requirement in done.stdout + str(rows[fault.case])
