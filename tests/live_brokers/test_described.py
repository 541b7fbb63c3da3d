"""A broker.yaml with an address: a prefix of topics or configured topics, TLS, and a login."""

from __future__ import annotations

import json
import re
import ssl
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import conformance
from model_broker import Log, ModelBroker
from msgspec.structs import replace

from conformance import cli
from conformance.cases.model import VerdictKind
from conformance.definitions.request_frames import MalformedFrame
from conformance.judging.judge import judge
from conformance.live_brokers import bundled_broker
from conformance.live_brokers.bridge import BrokerBridge
from conformance.live_brokers.bundled_broker import BundledBroker
from conformance.live_brokers.connection import AccessDenied, BrokerConnection, ConnectionClosed
from conformance.live_brokers.topics import TopicNotAvailable
from conformance.targets.broker_address import address_of
from conformance.targets.manifests import BROKER
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration

TLS = Path(__file__).parents[1] / "shared" / "tls"
SELECT = ("append/one-record", "append/none-to-gzip", "sequence/repeat-of-the-last")
LOGIN = b"\0alice\0open sesame"
SASL = "sasl:\n  mechanism: PLAIN\n  username: alice\n  password-variable: BROKER_PASSWORD\n"
TRUSTED = f"tls:\n  ca: {TLS}/ca.pem\n  server-name: broker.test\n"
CLIENT = f"  certificate: {TLS}/client.pem\n  key: {TLS}/client.key\n"


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Return a function that writes a file for a broker and returns its path."""
    monkeypatch.setenv("BROKER_PASSWORD", "open sesame")

    def write(text):
        (tmp_path / BROKER).write_text(text)
        return str(tmp_path / BROKER)

    return write


@pytest.fixture
def verdicts(described, catalog):
    """Return a function from the file of a broker to the verdicts on its cases."""

    def judged(text):
        target = BrokerBridge(address_of(described(text)))
        try:
            cases = [catalog.cases[name] for name in SELECT]
            return [judge(case, outcome(target.answer(case.request))) for case in cases]
        finally:
            target.close()

    return judged


def run(path, *options):
    """Return the result of a run, and the verdicts by case."""
    report = Path(path).with_name("report.json")
    select = [part for pattern in SELECT for part in ("--select", pattern)]
    command = ("run", f"broker:{path}", *select, "--generated", "0", "--json", report, *options)
    done = conformance(*command, cwd=Path(path).parent)
    return done, [row["verdict"] for row in json.loads(report.read_text())["results"]]


def listener(*, asks_for_certificate=False):
    """Return the TLS context of a listener."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "broker.pem", TLS / "broker.key")
    if asks_for_certificate:
        context.load_verify_locations(TLS / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


# --- topics -------------------------------------------------------------------------------------------


def test_topics_are_created_with_the_configured_prefix(verdicts):
    with ModelBroker() as broker:
        assert {verdict.kind for verdict in verdicts(f"address: {broker.address}\nprefix: team-a.\n")} == {
            VerdictKind.PASS
        }
        assert all(re.match(r"team-a\.[0-9a-f]{8}-", name) for name in broker.logs)


def test_configured_topics_are_appended_to_and_no_topic_is_created(verdicts):
    with ModelBroker() as broker:
        broker.logs |= {name: Log({}) for name in ("one", "two", "orders")}
        for _ in range(2):
            one, with_setting, sequence = verdicts(f"address: {broker.address}\ntopics: [one, two]\n")
            assert (one.kind, with_setting.kind, sequence.kind) == (
                VerdictKind.PASS,
                VerdictKind.SKIP,
                VerdictKind.PASS,
            )
            assert "the settings of a given topic stay unchanged" in with_setting.detail
        assert {name: log.end > 0 for name, log in broker.logs.items()} == {"one": True, "two": True, "orders": False}
        assert broker.asked["CreateTopics"] == 0


def test_a_missing_configured_topic_is_named(verdicts):
    with ModelBroker() as broker:
        broker.logs["one"] = Log({})
        with pytest.raises(TopicNotAvailable, match="no leader of the topic elsewhere: error 3"):
            verdicts(f"address: {broker.address}\ntopics: [one, elsewhere]\n")
        assert set(broker.logs) == {"one"}


# --- TLS and logins -----------------------------------------------------------------------------------


def test_a_run_uses_tls_and_a_login_and_cleans_topics_with_the_prefix(described):
    with ModelBroker(tls=listener(asks_for_certificate=True), login=LOGIN) as broker:
        broker.logs["team-b"] = Log({})
        path = described(f"address: {broker.address}\nprefix: team-\n{TRUSTED}{CLIENT}{SASL}")
        done, kinds = run(path, "--clean")
        assert set(broker.logs) == {"team-b"}
        assert broker.asked["SaslAuthenticate"] == 2  # one connection for the cases and one to clean, both reused
    assert done.returncode == 0, done.stdout + done.stderr
    assert kinds == ["pass"] * 3


def test_a_failed_login_is_tried_once_and_reported_in_one_line(described):
    with ModelBroker(login=b"\0alice\0another") as broker:
        done, kinds = run(described(f"address: {broker.address}\n{SASL}"))
        assert broker.asked["SaslAuthenticate"] == 1  # a broker may count failed logins
    assert (done.returncode, kinds) == (3, [])
    output = " ".join(done.stdout.split())
    assert (
        "SASL: the broker rejects the login with error 58: Authentication failed: Invalid username or password"
        in output
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "sesame" not in done.stdout + done.stderr


REFUSED = {
    "a wrong password": (
        None,
        b"\0alice\0another",
        SASL,
        AccessDenied,
        "SASL: the broker rejects the login with error 58: Authent",
    ),
    "no login is offered": (
        None,
        None,
        SASL,
        AccessDenied,
        "SASL: PLAIN is refused with error 33; mechanisms there: none",
    ),
    "no login is given": (None, LOGIN, "", ConnectionClosed, "the connection was closed without an answer"),
    "an untrusted certificate": (
        listener(),
        None,
        "tls: {}\n",
        AccessDenied,
        "the broker's certificate is not trusted: ",
    ),
    "a certificate of another": (listener(), None, f"tls:\n  ca: {TLS}/ca.pem\n", AccessDenied, "IP address mismatch"),
    "a plain listener": (None, None, TRUSTED, AccessDenied, "TLS: the handshake fails: "),
    "TLS that is not asked for": (listener(), None, "", (MalformedFrame, ConnectionClosed), "TLS|the connection"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_cause_of_a_failed_connection_is_reported(name, described):
    tls, login, settings, error, message = REFUSED[name]
    with ModelBroker(tls=tls, login=login) as broker:
        address = address_of(described(f"address: {broker.address}\n{settings}"))
        with (
            pytest.raises(error, match=message),
            closing(BrokerConnection(address.host, address.port, 1, address.security)) as one,
        ):
            one.ask("Metadata", 1, {"Topics": ()})


def test_a_tls_connection_is_reused_for_several_cases(verdicts):
    """TLS messages, such as session tickets, are no unexpected responses."""
    with ModelBroker(tls=listener()) as broker:
        assert {verdict.kind for verdict in verdicts(f"address: {broker.address}\n{TRUSTED}")} == {VerdictKind.PASS}
        assert broker.asked["ApiVersions"] == 1


WRONG = {
    "no address": ("address: nowhere\n", 1, "address: 'nowhere' is not HOST:PORT"),
    "an unknown part": ("address: x:1\ncommand: [cat]\n", 2, "command: unknown key"),
    "an unknown part of TLS": ("address: x:1\ntls:\n  cert: x\n", 3, "tls.cert: unknown key"),
    "a file that is not there": ("address: x:1\ntls:\n  ca: ca.pem\n", 3, "tls: ca: there is no file "),
    "a file that is no certificate": (f"address: x:1\ntls:\n  ca: {BROKER}\n", 3, "cannot be used"),
    "a key alone": (f"address: x:1\ntls:\n  key: {TLS}/client.key\n", 3, "tls: key: expected a certificate, too"),
    "another mechanism": (
        "address: x:1\n" + SASL.replace("PLAIN", "SCRAM-SHA-256"),
        3,
        "sasl.mechanism: invalid enum value 'SCRAM-SHA-256'",
    ),
    "no password": (
        "address: x:1\n" + SASL.replace("BROKER_P", "NO_P"),
        3,
        "in the environment variable 'NO_PASSWORD'",
    ),
    "a prefix and topics": ("address: x:1\nprefix: a\ntopics: [b]\n", 3, "topics: expected each topic once"),
    "a topic twice": ("address: x:1\ntopics: [b, b]\n", 2, "topics: expected each topic once"),
    "no topic": ("address: x:1\ntopics: []\n", 2, "topics: expected a list of length >= 1"),
    "a prefix that no topic has": ("address: x:1\nprefix: a/b\n", 2, "prefix: expected text matching regex"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_file_is_one_line_with_the_place(name, described):
    text, line, problem = WRONG[name]
    path = described(text)
    done = CliRunner().invoke(cli.main, ["run", f"broker:{path}", "--select", SELECT[0]])
    assert done.exit_code == 2
    (message,) = done.stderr.strip().splitlines()
    assert f"{path}:{line}: " in message
    assert problem in message


# --- Apache Kafka -------------------------------------------------------------------------------------

LISTENERS = """
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SAFE://127.0.0.1:{safe}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SAFE://127.0.0.1:{safe}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SAFE:SASL_SSL
sasl.enabled.mechanisms=PLAIN
listener.name.safe.plain.sasl.jaas.config={module} user_alice="open sesame";
listener.name.safe.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca
"""
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def safe_kafka(broker_manifest, tmp_path):
    """Yield the two addresses of an Apache Kafka with a listener for TLS, a certificate and a login."""
    manifest = broker_manifest("kafka")
    safe, _ = bundled_broker.free_ports()
    (tmp_path / "broker").write_text((TLS / "broker.key").read_text() + (TLS / "broker.pem").read_text())
    (tmp_path / "ca").write_text((TLS / "ca.pem").read_text())
    settings = (manifest.home / "server.properties").read_text().splitlines()
    added = LISTENERS.format(safe=safe, folder=tmp_path, module=MODULE)
    plain = [line for line in settings if not line.startswith(("listeners=", "advertised.listeners="))]
    (tmp_path / "server.properties").write_text("\n".join(plain) + added)

    def at_home(command):
        return tuple(word.replace("{dir}", str(manifest.home)) for word in command)

    steps = tuple(map(at_home, manifest.prepare))
    with BundledBroker(
        replace(manifest, folder=tmp_path, setup=(), command=at_home(manifest.command), prepare=steps)
    ) as running:
        yield f"127.0.0.1:{safe}", f"127.0.0.1:{running.port}"


def test_apache_kafka_is_judged_through_tls_and_a_login(safe_kafka, described, verdicts):
    safe, plain = safe_kafka
    found = verdicts(f"address: {safe}\n{TRUSTED}{CLIENT}{SASL}")
    assert [verdict.kind for verdict in found] == [VerdictKind.PASS] * 3
    for settings, error, message in (
        (f"{safe}\n{TRUSTED}{CLIENT}{SASL.replace('alice', 'bob')}", AccessDenied, "error 58: Authentication failed"),
        (f"{safe}\n{TRUSTED}{SASL}", ConnectionClosed, "certificate"),
        (f"{safe}\n", (MalformedFrame, ConnectionClosed), "TLS"),
        (f"{plain}\n{TRUSTED}{SASL}", AccessDenied, "TLS: the handshake fails: "),
        (f"{plain}\n{SASL}", AccessDenied, "SASL: PLAIN is refused with error 34"),
    ):
        address = address_of(described(f"address: {settings}"))
        with pytest.raises(error, match=message):
            BrokerConnection(address.host, address.port, 10, address.security)
