"""Client telemetry (KIP-714): the subscriptions of the mock broker, and the pushes of clients."""

import pytest
from live_runs import judged, tiny
from log_bytes import batch
from mock_requests import send_request

from conformance.cases.api_versions_profiles import ALL, with_producer_apis
from conformance.cases.client_scenarios import CLIENT_INSTANCE_ID, REQUESTED_METRIC, SCENARIOS, SUBSCRIPTION_ID
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import MockTopic

MEASURED = [name for name, kind in SCENARIOS.items() if "PushTelemetry" in kind.version_overrides]
PUSH = {
    "ClientInstanceId": CLIENT_INSTANCE_ID,
    "SubscriptionId": SUBSCRIPTION_ID,
    "Terminating": False,
    "CompressionType": 0,
}


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a changed client on a case and returns its row of the report."""

    def start(change, case):
        program = f"import time\n{change}\nfor line in lines(): consume(line)\n"
        target = tiny(tmp_path, program, versions="full")
        (row,) = judged(target, tmp_path, traces.env, f"request/{case}", op="send").values()
        return row

    yield start
    assert traces.left() == []


def led(scenario):
    kind = SCENARIOS[scenario]
    return MockBroker(
        "127.0.0.1", 9092, {**ALL, **kind.version_overrides}, {"t": MockTopic(batch(0), 0, 1).with_faults(kind)}
    )


@pytest.mark.parametrize(
    ("scenario", "wanted", "accepted"),
    [
        ("telemetry", ("*",), (0,)),
        ("telemetry-by-prefix", (REQUESTED_METRIC[:-2], "conformance.none"), (0,)),
        ("telemetry-compressed", (REQUESTED_METRIC,), (4, 3, 2, 1)),
        ("telemetry-unmatched", ("conformance.none",), (0,)),
        ("telemetry-unwanted", (), (0,)),
    ],
)
def test_a_subscription_contains_the_metrics_and_the_client_instance_id(scenario, wanted, accepted):
    broker = led(scenario)
    for known in (bytes(16), CLIENT_INSTANCE_ID):  # Apache Kafka's consumer rejects a zero id
        answer = send_request(broker, "GetTelemetrySubscriptions", 0, {"ClientInstanceId": known})
        assert (answer["RequestedMetrics"], answer["AcceptedCompressionTypes"]) == (wanted, accepted)
        assert (answer["ClientInstanceId"], answer["SubscriptionId"], answer["ErrorCode"]) == (
            CLIENT_INSTANCE_ID,
            SUBSCRIPTION_ID,
            0,
        )
    assert send_request(broker, "PushTelemetry", 0, {**PUSH, "Metrics": b""})["ErrorCode"] == 0


@pytest.mark.parametrize(
    ("scenario", "name", "body", "errors"),
    [
        ("telemetry-unknown-subscription", "PushTelemetry", {**PUSH, "Metrics": b""}, [117, 117, 0]),
        ("telemetry-rejected", "PushTelemetry", {**PUSH, "Metrics": b""}, [118, 76, 87, 0]),
        (
            "telemetry-subscription-rejected",
            "GetTelemetrySubscriptions",
            {"ClientInstanceId": bytes(16)},
            [32000, 42, 0],
        ),
    ],
)
def test_a_push_may_get_a_retriable_error(scenario, name, body, errors):
    broker = led(scenario)
    assert [send_request(broker, name, 0, body)["ErrorCode"] for _ in errors] == errors


def test_only_telemetry_scenarios_request_metrics():
    assert {name for name, kind in SCENARIOS.items() if kind.requested_metrics} == {*MEASURED} - {"telemetry-unwanted"}
    assert not {"PushTelemetry", "GetTelemetrySubscriptions"} & {*with_producer_apis(ALL)}


PUSHES = """
began = Connection.__init__
def begin(self, bootstrap, client="tiny"):
    began(self, bootstrap, client)
    if 71 not in [row["ApiKey"] for row in self.ask("ApiVersions", 0, {})["ApiKeys"]]: return
    subscription = self.ask("GetTelemetrySubscriptions", 0, {"ClientInstanceId": bytes(16)})
    WHERE
    push = {name: subscription[name] for name in ("ClientInstanceId", "SubscriptionId")}
    self.ask("PushTelemetry", 0, {**push, "Terminating": False, "CompressionType": 0, "Metrics": METRICS})
consumed = consume
def consume(line):
    Connection.__init__ = begin
    Connection.fetch, Connection.version = by_name, 12
    consumed(line)
def by_name(self, line, offset):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    topics = ({"Topic": line["topic"], "Partitions": (part,)},)
    body = {"MaxWaitMs": 100, "MinBytes": 1, "IsolationLevel": 0, "Topics": topics, "ForgottenTopicsData": ()}
    return self.ask("Fetch", 12, body)["Responses"][0]["Partitions"][0]
"""
IS_REQUESTED = f"any('{REQUESTED_METRIC}'.startswith(one) or one == '*' for one in subscription['RequestedMetrics'])"
NAMED = f"b'{REQUESTED_METRIC}' if {IS_REQUESTED} else b''"
DIES = "if subscription['ErrorCode'] or not subscription['RequestedMetrics']: raise SystemExit(2)"


@pytest.mark.parametrize(
    ("where", "metrics", "case", "verdict"),
    [
        ("pass", NAMED, "metrics-all", "pass"),
        ("pass", NAMED.replace("'*'", "''"), "metrics-all", "fail"),
        ("pass", NAMED, "metrics-by-prefix", "pass"),
        ("pass", NAMED.replace(".startswith(one)", " == one"), "metrics-by-prefix", "fail"),
        ("pass", NAMED, "metrics-compressed", "pass"),
        ("pass", "b''", "metrics-compressed", "fail"),
        ("pass", "b''", "push-telemetry-unmatched", "pass"),
        ("pass", "b''", "metrics-unmatched", "pass"),
        ("pass", "b''", "metrics-unwanted", "pass"),
        (DIES, "b''", "metrics-unwanted", "crash"),
        ("pass", "b''", "metrics-unasked", "pass"),
        (DIES, "b''", "metrics-unasked", "crash"),
        ("pass", "b''", "metrics-anew", "pass"),
        ("pass", "b''", "metrics-refused", "pass"),
    ],
)
def test_a_client_with_wrong_telemetry_is_found(run, where, metrics, case, verdict):
    row = run(PUSHES.replace("WHERE", where).replace("METRICS", metrics), case)
    assert row["verdict"] == verdict, row


def test_a_client_without_telemetry_is_not_judged_on_it(run):
    assert run("", "metrics-all")["verdict"] == "skip"
