"""A run changes only its own topics and transactions, and only on brokers that the user named."""

from __future__ import annotations

from contextlib import closing

import pytest
from command_line import conformance
from model_broker import Log, ModelBroker

from conformance.cases.model import VerdictKind
from conformance.judging.judge import judge
from conformance.live_brokers import scope as scopes
from conformance.live_brokers.bridge import BrokerBridge
from conformance.live_brokers.connection import BrokerConnection
from conformance.live_brokers.scope import OutOfScope, Scope, is_loopback
from conformance.targets.broker_address import BrokerAddress, address_of
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration

OURS, THEIRS = "conformance-1-0", "orders"
PART = {"PartitionIndex": 0, "Offset": 9}
REQUESTS = {
    "Produce": lambda name: {"TransactionalId": None, "TopicData": ({"Name": name, "PartitionData": ()},)},
    "Produce in a transaction": lambda name: {"TransactionalId": name, "TopicData": ()},
    "DeleteRecords": lambda name: {"Topics": ({"Name": name, "Partitions": (PART,)},)},
    "DeleteTopics": lambda name: {"TopicNames": (name,)},
    "CreateTopics": lambda name: {"Topics": ({"Name": name, "NumPartitions": 1, "Configs": ()},)},
    "InitProducerId": lambda name: {"TransactionalId": name},
    "AddPartitionsToTxn": lambda name: {"V3AndBelowTransactionalId": name, "V3AndBelowTopics": ()},
    "AddPartitionsToTxn of a topic": lambda name: {
        "V3AndBelowTransactionalId": OURS,
        "V3AndBelowTopics": ({"Name": name, "Partitions": (0,)},),
    },
    "EndTxn": lambda name: {"TransactionalId": name, "ProducerId": 1, "ProducerEpoch": 0},
}
READS = {"ApiVersions", "Metadata", "Fetch", "ListOffsets", "FindCoordinator"}


class ListsAllTopics(ModelBroker):
    """A broker whose Metadata responses list every topic, requested or not."""

    def __init__(self, *others):
        super().__init__()
        self.logs.update({name: Log({}) for name in others})
        self.other_port = None
        """The port of the leader of the topics of others."""

    def _Metadata(self, request):  # noqa: N802
        answer = super()._Metadata(request)
        listed = {row["Name"] for row in answer["Topics"]}
        part = {"ErrorCode": 0, "LeaderId": 2, "ReplicaNodes": [2], "IsrNodes": [2], "PartitionIndex": 0}
        others = [name for name in self.logs if name not in listed and not name.startswith("conformance-")]
        answer["Topics"][:0] = [{"ErrorCode": 0, "Name": name, "Partitions": [part]} for name in others]
        answer["Brokers"].append({"NodeId": 2, "Host": "127.0.0.1", "Port": self.other_port or self.port})
        return answer


def verdicts(target, catalog, *cases):
    found = []
    for case in map(catalog.cases.__getitem__, cases):
        answer = target.answer({"op": case.op, **case.request})
        found.append(judge(case, outcome(answer)) if "targetUnavailable" not in answer else answer["targetUnavailable"])
    return found


def test_unrequested_topics_are_not_used(tmp_path):
    with ListsAllTopics(THEIRS, "payments") as broker:
        select = ("--select", "crc/*:append", "--select", "sequence/*", "--select", "scenario/deleted*")
        done = conformance("run", f"broker:{broker.address}", *select, "--generated", "20", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert broker.asked["Produce"] > 100
        assert broker.asked["DeleteRecords"]
        assert [(broker.logs[name].start, broker.logs[name].end) for name in (THEIRS, "payments")] == [(0, 0)] * 2


def test_only_configured_topics_are_used(catalog):
    with ListsAllTopics(THEIRS) as broker, ListsAllTopics(THEIRS) as other:
        broker.logs["scratch"], broker.other_port = Log({}), other.port
        address = BrokerAddress("127.0.0.1", broker.port, "model", topics=("scratch",))
        with closing(BrokerBridge(address)) as target:
            found = verdicts(target, catalog, "append/order", "append/one-record", "sequence/gap")
            assert {verdict.kind for verdict in found} == {VerdictKind.PASS}
        assert broker.logs["scratch"].end > 0
        assert broker.logs[THEIRS].end == other.logs[THEIRS].end == other.asked.total() == 0


@pytest.mark.parametrize("request_of", REQUESTS)
def test_a_request_that_names_a_topic_or_transaction_of_others_is_not_sent(request_of):
    api, body = request_of.split()[0], REQUESTS[request_of]
    with ModelBroker() as broker:
        broker.logs[THEIRS] = Log({})
        scope = Scope("conformance-1-")
        with closing(BrokerConnection("127.0.0.1", broker.port, 5, scope=scope)) as connection:
            with pytest.raises(OutOfScope, match=f"{api}: 'orders' does not belong to this run"):
                connection.ask(api, connection.version(api, high=3), body(THEIRS))
            with pytest.raises(OutOfScope):
                connection.send_without_response(api, connection.version(api, high=3), body(THEIRS))
            assert broker.asked[api] == 0
            scope.check_request(api, body(OURS))


def test_without_a_scope_a_connection_sends_no_writing_request():
    with ModelBroker() as broker, closing(BrokerConnection("127.0.0.1", broker.port, 5)) as connection:
        for name, body in REQUESTS.items():
            with pytest.raises(OutOfScope):
                connection.ask(name.split()[0], 1, body(OURS))
        assert {*broker.asked} == {"ApiVersions"}


def test_a_configured_topic_is_no_transactional_id():
    scope = Scope("conformance-1-", ("scratch",))
    scope.check_request("Produce", REQUESTS["Produce"]("scratch"))
    with pytest.raises(OutOfScope):
        scope.check_request("InitProducerId", {"TransactionalId": "scratch"})
    assert scope.own("scratch-t") == "conformance-1-scratch-t"
    assert scope.own("conformance-1-0-t") == "conformance-1-0-t"


@pytest.mark.parametrize("topics", [(), ("scratch",)], ids=["made", "given"])
def test_each_sent_request_is_checked_or_read_only(topics, catalog):
    """A request in neither set is new and needs a decision about its names."""
    with ModelBroker() as broker:
        broker.logs["scratch"] = Log({})
        address = BrokerAddress("127.0.0.1", broker.port, "model", topics=topics)
        with closing(BrokerBridge(address, reboot=broker.restart)) as target:
            for case in catalog.cases.values():
                if case.op == "scenario":
                    target.answer({"op": "scenario", **case.request})
        assert {*broker.asked} - READS <= {*scopes._NAMES}
        assert broker.asked["EndTxn"] > 10
        assert {name.split("-")[0] for name in broker.newest} == {"conformance"}


def test_writing_frames_contain_names_of_the_run(catalog):
    """Raw frames are sent unchanged, so their names are checked here."""
    placeholders = {"{topic}", "{transaction}", ""}
    frames = [
        frame for case in catalog.cases.values() if case.op == "exchange" for frame in case.request["frames"]
    ]  # fmt: skip
    named = {
        name
        for frame in frames
        for path in scopes._NAMES.get(str(frame.get("message")).removesuffix("Request"), ())
        for name in scopes._values(frame.get("body", {}), path)
    }
    assert placeholders <= named
    assert all(name in placeholders or name.startswith("conformance-") for name in named)


# --- hosts --------------------------------------------------------------------------------------------


OTHER_HOST = "0.0.0.0"
"""An address of this machine that is no loopback address."""


@pytest.fixture
def two():
    """Yield two brokers; the first returns the second as every leader, at another host."""
    with ModelBroker() as named, ModelBroker() as other:
        other.logs = named.logs
        named.advertised = other.advertised = (OTHER_HOST, other.port)
        yield named, other


def test_a_leader_at_another_host_gets_no_connection(two, catalog):
    named, other = two
    with closing(BrokerBridge(BrokerAddress("127.0.0.1", named.port, "model"))) as target:
        first, second = verdicts(target, catalog, "append/order", "append/one-record")
    assert first == second
    assert f"returns '{OTHER_HOST}' port {other.port} as a leader" in first
    assert "--follow-redirects" in first
    assert other.asked.total() == 0


@pytest.mark.parametrize("how", ["named", "followed"])
def test_a_leader_at_an_allowed_host_gets_a_connection(how, two, catalog):
    named, other = two
    allowed = {"named": {"brokers": ((OTHER_HOST, other.port),)}, "followed": {"follow_redirects": True}}[how]
    with closing(BrokerBridge(BrokerAddress("127.0.0.1", named.port, "model", **allowed))) as target:
        assert [verdict.kind for verdict in verdicts(target, catalog, "append/order")] == [VerdictKind.PASS]
    assert other.asked["Produce"]
    assert not named.asked["Produce"]


def test_a_coordinator_at_another_host_gets_no_connection(two, catalog):
    named, other = two
    named.advertised = None
    node = {"ErrorCode": 0, "NodeId": 2, "Host": OTHER_HOST, "Port": other.port, "Key": "t"}
    named._FindCoordinator = lambda _: {"Coordinators": [node]}
    with closing(BrokerBridge(BrokerAddress("127.0.0.1", named.port, "model"))) as target:
        (found,) = verdicts(target, catalog, "scenario/committed")
    assert "as a leader or coordinator" in found
    assert other.asked.total() == 0


@pytest.mark.parametrize(
    ("arguments", "status"), [((), 3), (("--follow-redirects",), 0)], ids=["by default", "--follow-redirects"]
)
def test_a_run_ends_at_a_leader_at_another_host_unless_allowed(arguments, status, tmp_path, two):
    named, other = two
    done = conformance("run", f"broker:{named.address}", "--select", "append/order", *arguments, cwd=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("--follow-redirects" in done.stdout) == (status == 3)
    assert bool(other.asked) == (status == 0)


def test_a_redirect_between_loopback_addresses_is_allowed():
    own = Scope(places=(("127.0.0.1", 9092),))
    for host in ("localhost", "127.8.0.1", "::1"):
        assert is_loopback(host)
        own.check_place(host, 1)
    for host in ("192.0.2.1", "example.org", "localhost.example.org", "0.0.0.0", ""):
        with pytest.raises(OutOfScope):
            own.check_place(host, 9092)
    away = Scope(places=(("192.0.2.1", 9092),))
    away.check_place("192.0.2.1", 9092)
    for host, port in (("127.0.0.1", 9092), ("192.0.2.1", 22)):
        with pytest.raises(OutOfScope):
            away.check_place(host, port)


def test_a_file_may_list_further_brokers(tmp_path):
    path = tmp_path / "broker.yaml"
    path.write_text("address: a.example:9092\nbrokers: [b.example:9092, '[2001:db8::1]:9093']\n")
    scope = Scope.of(address_of(str(path)))
    scope.check_place("b.example", 9092)
    scope.check_place("2001:db8::1", 9093)
    with pytest.raises(OutOfScope):
        scope.check_place("b.example", 9093)


def test_an_invalid_broker_address_is_reported_with_its_key(tmp_path):
    (tmp_path / "broker.yaml").write_text("address: a.example:9092\nbrokers: [b.example]\n")
    done = conformance("run", "broker:./broker.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "brokers: 'b.example' is not HOST:PORT" in done.stderr


def test_only_broker_targets_follow_redirects(tmp_path):
    done = conformance("run", "reference", "--follow-redirects", cwd=tmp_path)
    assert done.returncode == 2
    assert "--follow-redirects: expected a broker target" in done.stderr
