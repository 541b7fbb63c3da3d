"""`conformance serve-broker`: the mock broker as a command."""

import signal
import subprocess
import sys

import pytest
from log_bytes import batch
from tiny_client import Connection

from conformance.cases.api_versions_profiles import VERSION_PROFILES

LOG = batch(0) + batch(1)


@pytest.fixture
def serve(tmp_path, traces):
    """Return a function that starts the command on a file with two batches and returns a connection to it."""
    (tmp_path / "some log").write_bytes(LOG)
    running, connections = [], []

    def start(*options):
        command = [sys.executable, "-u", "-m", "conformance", "serve-broker", "some log", *options]
        running.append(subprocess.Popen(command, cwd=tmp_path, env=traces.env, stdout=subprocess.PIPE, text=True))
        topic, listening = (running[-1].stdout.readline().rstrip() for _ in range(2))
        assert topic == f"some.log\tfrom offset 0\t{len(LOG)} bytes"
        connections.append(Connection(listening.removeprefix("listening on ")))
        return connections[-1]

    yield start
    for connection in connections:
        connection.socket.close()
    for process in running:
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        process.stdout.close()
    assert traces.left() == []


@pytest.mark.parametrize("offer", [None, *VERSION_PROFILES])
def test_a_file_is_served_with_the_chosen_offer(serve, offer):
    connection = serve(*(() if offer is None else ("--offer", offer)))
    offered = connection.ask("ApiVersions", 0, {})["ApiKeys"]
    assert len(offered) == len(VERSION_PROFILES[offer or "bare"])
    line = {"topic": "some.log", "isolation": "read_uncommitted"}
    if offer == "old":
        connection.version = 3
        assert connection.fetch(line, 0)["ErrorCode"] == 35, "this version cannot return the batches of the file"
        return
    assert connection.fetch(line, 0)["Records"] == LOG
    assert b"conformance.end" in connection.fetch(line, 2)["Records"]
