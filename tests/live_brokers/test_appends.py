"""Append cases on a broker: offered and missing versions, and several partitions in one request."""

from __future__ import annotations

import pytest
from model_broker import OFFERED, ModelBroker, Ways
from msgspec.structs import replace

from conformance.cases.model import VerdictKind
from conformance.judging.judge import judge
from conformance.live_brokers.bridge import BrokerBridge
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration

OLD_FORMATS = ("message-set/v1-codec-0:append", "message-set/v0-codec-1:append", "append/magic-1-to-fetch-3")


def judged(catalog, broker, *cases, **address):
    """Return the verdicts on cases, with one connection."""
    broker_bridge = BrokerBridge(replace(BrokerAddress("127.0.0.1", broker.port, "model"), **address))
    try:
        picked = [catalog.cases[case] for case in cases]
        return [judge(case, outcome(broker_bridge.answer(case.request))) for case in picked]
    finally:
        broker_bridge.close()


def test_a_case_with_versions_that_are_not_offered_is_skipped(catalog):
    with ModelBroker(Ways(offered={**OFFERED, "Produce": (3, 9), "Fetch": (4, 12)})) as broker:
        found = judged(catalog, broker, *OLD_FORMATS, "append/to-fetch-1")
        made = len(broker.logs)
    assert {one.kind for one in found} == {VerdictKind.SKIP}
    assert [one.detail for one in found][::3] == [
        "unsupported: Produce 2 is not offered",
        "unsupported: Fetch 1 is not offered",
    ]
    assert made == 0


@pytest.mark.parametrize(
    ("offered", "magics"),
    [({}, [0, 1, 2]), ({"Fetch": (4, 12)}, [2]), ({"Produce": (3, 9)}, [2])],
    ids=["both", "no old fetch", "no old produce"],
)
def test_old_formats_are_claimed_if_they_can_be_written_and_read(offered, magics):
    with ModelBroker(Ways(offered={**OFFERED, **offered})) as broker:
        broker_bridge = BrokerBridge(BrokerAddress("127.0.0.1", broker.port, "model"))
        described = broker_bridge.describe()
        broker_bridge.close()
    assert described["magics"] == magics


def test_a_broker_that_rejects_offered_old_formats_is_tested_once(catalog):
    def closes(request, frame):
        return None if request.name == "Produce" and request.version < 3 else frame

    with ModelBroker(sends=closes) as broker:
        found = judged(catalog, broker, *OLD_FORMATS, "append/to-fetch-1")
        sent = broker.asked["Produce"]
    assert [one.kind for one in found] == [VerdictKind.SKIP, VerdictKind.SKIP, VerdictKind.SKIP, VerdictKind.PASS]
    assert "Produce 2 is offered, and a plain message in it is not taken" in found[0].detail
    # A plain batch, then the rejected message; for the last case the three batches.
    assert sent == 5


@pytest.mark.parametrize("code", [35, 43])
def test_an_unsupported_compression_error_skips_the_case(code, catalog):
    def looked(data):
        return data, code

    plain = ModelBroker(Ways()).ways.raised
    ways = Ways(raised=lambda data: looked(data) if data[17] else plain(data))
    with ModelBroker(ways) as broker:
        found = judged(catalog, broker, *OLD_FORMATS)
    assert [one.kind for one in found] == [VerdictKind.PASS, VerdictKind.SKIP, VerdictKind.SKIP]
    assert f"what it does not take in Produce 2: error {code}" in found[1].detail


def test_only_the_first_partitions_of_configured_topics_are_written(catalog):
    with ModelBroker() as broker:
        judged(catalog, broker, "append/beside-wrong-crc")
        name = next(name for name, log in broker.logs.items() if log.others)
        found = judged(catalog, broker, "append/beside-wrong-crc", "append/one-record", topics=(name,))
        ends = [log.end for log in broker.logs[name].others.values()]
    assert [one.kind for one in found] == [VerdictKind.SKIP, VerdictKind.PASS]
    assert ends == [5, 2]  # the state after the first client: two plain batches each, the case in the first


def test_closing_the_connection_on_damaged_batches_fails_the_valid_batch(catalog):
    def closes(request, frame):
        is_of_several = request.name == "Produce" and len(request.body["TopicData"][0]["PartitionData"]) > 1
        return None if is_of_several else frame

    with ModelBroker(sends=closes) as broker:
        (found,) = judged(catalog, broker, "append/beside-wrong-crc")
    assert found.kind is VerdictKind.FAIL
