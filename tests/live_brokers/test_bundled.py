"""Bundled brokers: they start on free ports, answer, and leave no process or file, even faulty ones."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from conformance import codec
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.errors import FileError
from conformance.live_brokers import bundled_broker as bundled
from conformance.live_brokers.bundled_broker import BrokerError, BundledBroker, read_broker
from conformance.targets.manifests import BROKER
from conformance.targets.resolve import ADAPTERS, brokers

pytestmark = pytest.mark.integration

SERVE = """
import os, socket, struct, sys, time
def serve(port):
    # Refuses any version of ApiVersions, in the form of version 0.
    server = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = server.accept()
        request = connection.recv(1000)
        body = request[8:12] + struct.pack(">hi", 35, 0)
        answer = struct.pack(">i", len(body)) + body
        connection.sendall(answer)
def drip(connection, answer):
    try:
        for byte in answer:
            connection.sendall(bytes([byte]))
            time.sleep(0.4)
    except OSError:
        pass
"""
FAKE = """
name: fake
version: "1"
module: broker.py
startup: 20
files: [port]
"""
GOOD = "name: fake\nversion: '1'\ncommand: [cat]\nstartup: 20\n"
WRONG = {
    "no version": (
        "name: fake\ncommand: [cat]\nstartup: 20\n",
        ":1: missing required field `version`",
    ),
    "another name": (GOOD.replace("fake", "other"), "expected the folder's name as `name`"),
    "an unknown key": (GOOD + "doors: x\n", "broker.yaml:5: doors: unknown key"),
    "a time in words": (GOOD.replace("20", "soon"), "broker.yaml:4: startup: expected a number, got text"),
    "no time": (GOOD.replace("20", "0"), "broker.yaml:4: startup: expected a number >= 1"),
    "a number in a command": (
        GOOD.replace("[cat]", "[cat, 1]"),
        ":3: command[1]: expected text, got a number",
    ),
    "a command in place of commands": (
        GOOD + "prepare: [cat]\n",
        ":5: prepare[0]: expected a list, got text",
    ),
    "an unknown place": (GOOD.replace("[cat]", "[cat, '{prot}']"), r"broker.yaml: {prot} is not one of {dir}, {run}"),
    "an unknown place in a file": (GOOD + "files: [wrong]\n", r"wrong: {node} is not one of {dir}, {run}"),
    "a file that is not there": (GOOD + "files: [nowhere]\n", "there is no file 'nowhere' beside it"),
    "a file elsewhere": (GOOD + "files: [../fake/wrong]\n", "there is no file '../fake/wrong' beside it"),
    "not YAML": ("name: [", "broker.yaml"),
}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Return the parent folder of broker folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: list(tmp_path.glob("conformance-broker-*"))


@pytest.fixture
def fake(tmp_path, traces, folders):
    """Return a function that describes a broker as a Python program, with `serve` and its port."""
    assert folders() == []

    def describe(body, manifest=FAKE):
        folder = tmp_path / "fake"
        folder.mkdir(exist_ok=True)
        (folder / "port").write_text("{port}")
        (folder / "broker.py").write_text(SERVE + "port = int(open('port').read())\n" + body)
        (folder / BROKER).write_text(manifest)
        return replace(read_broker(folder / BROKER), env=traces.env)

    return describe


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
def test_an_invalid_manifest_is_one_clear_error(tmp_path, text, problem):
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "wrong").write_text("node: {node}")
    (folder / BROKER).write_text(text)
    with pytest.raises(FileError) as error:
        read_broker(folder / BROKER)
    assert problem in str(error.value)
    assert str(error.value).startswith(str(folder / BROKER))
    assert "\n" not in str(error.value)


def test_only_broker_yaml_describes_a_broker():
    with pytest.raises(FileError, match=r"a broker is described by a file with the name broker\.yaml"):
        read_broker(ADAPTERS / "kcat" / "driver.yaml")


def test_a_broker_starts_answers_and_leaves_no_files(fake, folders):
    with BundledBroker(fake("serve(port)")) as broker:
        assert broker.is_alive
        assert broker.log_dir is None
        assert len(broker.pids) == len(folders()) == 1
        socket.create_connection((broker.host, broker.port)).close()
    assert not broker.is_alive
    assert folders() == []


def test_a_broker_that_chooses_its_port_prints_its_address(fake):
    manifest = FAKE.replace("files: [port]\n", "")
    chosen = 'print("hello", "listens on 127.0.0.1:%d" % free, sep="\\n", flush=True); serve(free)'
    body = f's = socket.create_server(("127.0.0.1", 0)); free = s.getsockname()[1]; s.close()\n{chosen}'
    described = fake(body, manifest)
    (described.home / "broker.py").write_text(SERVE + body)
    with BundledBroker(described) as broker:
        socket.create_connection((broker.host, broker.port)).close()


def test_a_broker_with_endless_output_is_not_blocked(fake):
    flood = (
        "for pipe in (sys.stdout, sys.stderr):\n    for _ in range(100): pipe.write('x' * 99_999 + '\\n')\nserve(port)"
    )
    with BundledBroker(fake(flood)) as broker:
        assert broker.is_alive
        assert len(broker.last_stderr_line) < 5000


NEVER = {
    "dies at once": (
        "print('no room', file=sys.stderr); print('  at frame 3', file=sys.stderr); sys.exit(3)",
        "broker:fake did not start: it exited with status 3; it wrote last: no room",
    ),
    "dies of a signal": ("os.kill(os.getpid(), 9)", "did not start: it was killed by SIGKILL; it wrote nothing"),
    "listens and never answers": (
        "socket.create_server(('127.0.0.1', port)); time.sleep(100)",
        "did not answer within",
    ),
    "answers with something else": (
        SERVE.replace("request[8:12]", "b'HTTP'") + "serve(port)",
        "did not answer within 1 seconds",
    ),
    "answers drop by drop": (
        SERVE.replace("connection.sendall(answer)", "drip(connection, answer)") + "serve(port)",
        "did not answer within 1 seconds",
    ),
    "leaves a child": ("os.fork() or os.setsid(); time.sleep(100)", "did not answer within 1 seconds"),
}


@pytest.mark.parametrize(("body", "problem"), NEVER.values(), ids=NEVER)
def test_a_broker_that_does_not_start_is_one_clear_error_and_leaves_no_files(fake, folders, monkeypatch, body, problem):
    monkeypatch.setattr("conformance.live_brokers.bundled_broker._ANSWER_TIMEOUT_S", 1)
    manifest = FAKE if "did not start" in problem else FAKE.replace("20", "1")
    with pytest.raises(BrokerError) as error:
        BundledBroker(fake(body, manifest))
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert folders() == []


def test_the_last_output_of_a_broker_that_never_listens_is_shown(fake, folders):
    thinks = GOOD.replace("cat", "sh, -c, 'echo still thinking; exec sleep 100'").replace("20", "2")
    with pytest.raises(BrokerError, match="did not answer within 2 seconds; it wrote last: still thinking"):
        BundledBroker(fake("", thinks))
    assert folders() == []


def test_a_missing_program_is_named(fake):
    with pytest.raises(BrokerError, match="did not start: it could not be started: No such file or directory"):
        BundledBroker(fake("", GOOD.replace("cat", "/nowhere/broker")))


@pytest.mark.parametrize(
    ("step", "problem"), [("[sh, -c, 'echo full; exit 4']", "exited with status 4; it wrote last: full"),
                          ("[sleep, '100']", "did not end within 1 seconds; it wrote nothing")]
)  # fmt: skip
def test_a_broker_that_cannot_be_prepared_is_not_started(fake, folders, step, problem):
    with pytest.raises(BrokerError) as error:
        BundledBroker(fake("serve(port)", f"{FAKE.replace('20', '1')}prepare: [{step}]\n"))
    assert problem in str(error.value)
    assert folders() == []


def test_a_broker_without_set_up_shows_the_command(fake):
    manifest = f"{FAKE}tools: [no-such-tool]\nsetup: [['true']]\n"
    described = fake("", manifest)
    with pytest.raises(BrokerError) as error:
        BundledBroker(described)
    lacking = "cannot run here; missing: no-such-tool on the PATH, its set-up (conformance targets --setup broker:/"
    assert lacking in str(error.value)
    assert str(error.value).endswith("/fake/broker.yaml)")


def test_a_restart_keeps_the_port_and_the_data_after_a_clean_shutdown(fake):
    body = """
import signal
data = os.environ["DATA"] if "DATA" in os.environ else "data"
open(os.path.join(data, "starts"), "a").write("start ")
def end(*_):
    open(os.path.join(data, "starts"), "a").write("end ")
    sys.exit()
signal.signal(signal.SIGTERM, end)
serve(port)
"""
    with BundledBroker(fake(body, f'{FAKE}log: "{{data}}"\n')) as broker:
        port = broker.port
        broker.restart()
        assert broker.port == port
        assert (broker.log_dir / "starts").read_text() == "start end start "


def test_a_broker_that_does_not_shut_down_is_reported_and_killed(fake, folders, monkeypatch):
    monkeypatch.setattr(bundled, "_SHUTDOWN", 0.5)
    deaf = fake("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); serve(port)")
    with BundledBroker(deaf) as broker, pytest.raises(BrokerError, match=r"did not shut down within 0\.5 seconds"):
        broker.restart()
    assert folders() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_or_folder_is_left_after_an_interrupt_or_a_kill(fake, folders, traces, tmp_path, number):
    """The next start of a broker removes the folder of a killed suite; tests must not see it while in use."""
    manifest = fake("serve(port)")
    suite = (
        "import sys, time, tempfile\nfrom pathlib import Path\n"
        "from conformance.live_brokers.bundled_broker import BundledBroker, read_broker\n"
        "with BundledBroker(read_broker(Path(sys.argv[1]))) as broker:\n"
        "    print(broker.pids, flush=True); time.sleep(100)"
    )
    command = [sys.executable, "-c", suite, str(manifest.home / BROKER)]
    env = {**traces.env, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() != b""
    with BundledBroker(manifest):
        assert len(folders()) == 2
    process.send_signal(number)
    process.communicate(timeout=60)
    assert traces.left() == []
    if number != signal.SIGINT:
        assert len(folders()) == 1
        BundledBroker(manifest).close()
    assert folders() == []


def test_a_partly_removed_folder_is_removed_at_the_next_start_of_a_broker(fake, folders, monkeypatch):
    def interrupted(folder, **_):
        for path in Path(folder).iterdir():
            if path.is_file():
                path.unlink()
        raise KeyboardInterrupt

    manifest = fake("serve(port)")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), BundledBroker(manifest):
        patch.setattr("shutil.rmtree", interrupted)
    assert len(folders()) == 1
    BundledBroker(manifest).close()
    assert folders() == []


# --- the bundled brokers ----------------------------------------------------------------------------------


def ask(broker, key, version, body):
    """Return the body of the response to a request, as bytes, in versions before the flexible ones."""
    frame = struct.pack(">hhih", key, version, 7, -1) + body
    with socket.create_connection((broker.host, broker.port), 30) as connection, connection.makefile("rb") as answer:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        body = answer.read(struct.unpack(">i", answer.read(4))[0])
    assert body[:4] == struct.pack(">i", 7)
    return body[4:]


def topics(broker):
    """Return the names of the topics that a broker leads."""
    body = ask(broker, 3, 4, struct.pack(">ib", -1, 0))
    rows = codec.decode(shipped_types().wire(type_name("MetadataResponse", 4)), body).value["Topics"]
    return {row["Name"] for row in rows if not row["ErrorCode"]}


def comes_to_lead(broker, name):
    """Return True if a broker leads a topic after a short wait, because metadata of new topics is delayed."""
    until = time.monotonic() + 60
    while name not in topics(broker) and time.monotonic() < until:
        time.sleep(0.1)
    return name in topics(broker)


def create(broker, name):
    """Create a topic with one partition."""
    body = struct.pack(f">ih{len(name)}sihiiib", 1, len(name), name.encode(), 1, 1, 0, 0, 30_000, 0)
    answer = ask(broker, 19, 2, body)
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))
    assert error == 0, answer


def test_librdkafkas_mock_answers_and_loses_its_data_at_a_restart(bundled_broker):
    broker = bundled_broker("librdkafka-mock")
    assert not broker.keeps_data
    broker.restart()
    assert topics(broker) == set()


def test_kfake_keeps_its_topics_after_a_restart(bundled_broker):
    broker = bundled_broker("kfake")
    create(broker, "kept")
    assert comes_to_lead(broker, "kept")
    assert broker.keeps_data
    port = broker.port
    broker.restart()
    assert broker.port == port
    assert comes_to_lead(broker, "kept")


@pytest.mark.parametrize("name", ["kafka", "kafka-3"])
def test_apache_kafka_keeps_its_topics_and_its_logs_after_a_restart(name, bundled_broker):
    broker = bundled_broker(name)
    create(broker, "kept")
    assert comes_to_lead(broker, "kept")
    assert broker.keeps_data
    segment = broker.log_dir / "kept-0" / "00000000000000000000.log"
    until = time.monotonic() + 60
    while not segment.exists() and time.monotonic() < until:
        time.sleep(0.1)
    before = segment.stat().st_ino
    broker.restart()
    assert comes_to_lead(broker, "kept")
    assert segment.stat().st_ino == before


def test_every_bundled_broker_has_a_manifest():
    assert {"kafka", "kafka-3", "kfake", "librdkafka-mock"} <= set(brokers())
    for name, adapter in brokers().items():
        manifest = read_broker(adapter.folder / BROKER)
        assert manifest.version in adapter.about
        assert adapter.target == f"broker:{name}"
