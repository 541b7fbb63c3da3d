"""Clients and topics with long names or names of JavaScript object properties."""

import asyncio
import sys

import pytest
from live_runs import judged, tiny
from log_bytes import batch
from mock_requests import send_request

from conformance.cases.api_versions_profiles import ALL, with_producer_apis
from conformance.cases.client_scenarios import SCENARIOS
from conformance.definitions.request_frames import UnhandledRequest
from conformance.live_clients.case_run import run_topic
from conformance.live_clients.client_pool import ClientPool
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import MockTopic
from conformance.targets.manifests import DriverManifest

pytestmark = pytest.mark.integration

CALLED = {name: kind.topic_name for name, kind in SCENARIOS.items() if kind.topic_name}


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a changed client on a case and returns its row of the report."""

    def start(change, case):
        program = f"{change}\nfor line in lines(): consume(line)\n"
        (row,) = judged(tiny(tmp_path, program), tmp_path, traces.env, f"request/{case}", op="send").values()
        return row

    yield start
    assert traces.left() == []


LOSES = """
consumed = consume
def consume(line):
    return write_line(topic=line["topic"], error="other", message="no such topic") if LOST else consumed(line)
"""


@pytest.mark.parametrize(
    ("lost", "case", "verdict"),
    [
        ("len(line['topic']) >= 127", "topic-name-of-127", "fail"),
        ("len(line['topic']) > 127", "topic-name-of-127", "pass"),
        ("len(line['topic']) >= 249", "topic-name-of-249", "fail"),
        ("len(line['topic']) > 249", "topic-name-of-249", "pass"),
        ("line['topic'] == 'shift'", "topic-name-shift", "fail"),
        ("line['topic'] == 'constructor'", "topic-name-constructor", "fail"),
        ("line['topic'] == '__proto__'", "topic-name-proto", "fail"),
    ],
)
def test_a_client_that_loses_a_topic_with_a_special_name_is_found(run, lost, case, verdict):
    row = run(LOSES.replace("LOST", lost), case)
    assert (row["verdict"], row["level"], row["requirement"]) == (verdict, "should", "request.any-name"), row


ENDS = """
import json, sys
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin: print(json.dumps({"topic": json.loads(line)["topic"], "end": True}), flush=True)
"""


@pytest.mark.parametrize(("scenario", "processes"), [("topic-name-proto", 2), ("consume", 1)])
def test_a_process_ends_with_the_scenario_of_such_a_topic(scenario, processes):
    """A client that stores the topic in the shared object prototype would fail in later cases."""
    offers = {"entry_point": "none", "codecs": (), "magics": (2,), "isolations": (), "concurrency": 1}
    seats = ClientPool(DriverManifest(name="ends", command=(sys.executable, "-c", ENDS), **offers))
    met = []

    async def put(seat):
        met.append(await seat.ready())
        topic = MockTopic(batch(0), 0, 1).with_faults(SCENARIOS[scenario])
        return await run_topic(seat, MockBroker("127.0.0.1", 9092), topic, {}, lambda *_: {"ok": True})

    async def twice():
        try:
            await seats.shared_slot.ready()
            return [await seats.run_scenario(put, lambda _: False) for _ in range(2)]
        finally:
            await seats.close()

    assert asyncio.run(twice()) == [{"ok": True}] * 2
    assert len({id(client) for client in met}) == processes


@pytest.mark.parametrize(("scenario", "called"), [*CALLED.items(), ("group", "")])
def test_only_with_such_a_topic_a_leader_may_omit_its_own_assignment(scenario, called):
    topic = MockTopic(batch(0), 0, 1).with_faults(SCENARIOS[scenario])
    broker = MockBroker("127.0.0.1", 9092, with_producer_apis(ALL), {"g": topic})
    assert topic.name == called
    body = {"GroupId": "g", "GenerationId": 1, "MemberId": "m", "Assignments": ()}
    if called:
        assert send_request(broker, "SyncGroup", 3, body)["Assignment"] == b""
        return
    with pytest.raises(UnhandledRequest):
        send_request(broker, "SyncGroup", 3, body)


def test_the_longest_topic_name_is_valid():
    assert {len(called) for called in CALLED.values()} == {127, 249, len("shift"), len("constructor"), len("__proto__")}
