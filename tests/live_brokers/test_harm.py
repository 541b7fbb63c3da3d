"""A run adds only its own topics to a broker, `--clean` removes them, and other topics are unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from command_line import conformance
from model_broker import OFFERED, Log, ModelBroker, Ways

from conformance.live_brokers.connection import BrokerConnection
from conformance.live_brokers.scope import Scope
from conformance.live_brokers.topics import TopicFactory

pytestmark = pytest.mark.integration

SELECT = ("append/one-record", "append/none-to-gzip", "sequence/repeat-of-the-last")
OTHERS = "orders", "conformance-", "conformance-elsewhere-0"
"""Topics of the broker's users; the name of one looks like ours."""


def run_arguments(address, *options):
    select = [part for pattern in SELECT for part in ("--select", pattern)]
    return ["run", f"broker:{address}", *select, "--generated", "0", *options]


def run(address, *options):
    return conformance(*run_arguments(address, *options), cwd=".")


def holding(ways=None, sends=lambda _, frame: frame):
    """Return a broker with topics of others."""
    broker = ModelBroker(ways, sends)
    broker.logs.update({name: Log({}) for name in OTHERS})
    return broker


def is_untouched(broker):
    """Return True if all topics of others exist and are unchanged."""
    return all(name in broker.logs and broker.logs[name].end == 0 for name in OTHERS)


def test_without_clean_topics_of_the_run_stay_and_others_are_unchanged():
    with holding() as broker:
        done = run(broker.address)
        assert done.returncode == 0, done.stdout + done.stderr
        (run_of_ours,) = {name.split("-")[1] for name in broker.logs if name not in OTHERS}
        assert all(name.startswith(f"conformance-{run_of_ours}-") for name in broker.logs if name not in OTHERS)
        assert is_untouched(broker)
        assert broker.asked["DeleteTopics"] == 0


@pytest.mark.parametrize("version", [1, 5, 6])
def test_with_clean_only_the_topics_of_others_are_left(version):
    ways = Ways(offered={**OFFERED, "DeleteTopics": (1, version)})
    with holding(ways) as broker:
        done = run(broker.address, "--clean")
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("CreateTopics", 7) in broker.versions
        assert ("DeleteTopics", version) in broker.versions
        assert tuple(broker.logs) == OTHERS
        assert is_untouched(broker)


def test_an_interrupted_run_is_cleaned_too():
    """The process with the connection to the broker was killed before."""
    with holding(sends=lambda request, frame: b"" if request.name == "Fetch" else frame) as broker:
        process = subprocess.Popen(
            [sys.executable, "-m", "conformance", *run_arguments(broker.address, "--clean")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        until = time.monotonic() + 60
        while not broker.asked["Fetch"] and time.monotonic() < until:
            time.sleep(0.05)
        assert len(broker.logs) > len(OTHERS)
        os.kill(process.pid, signal.SIGINT)
        output = process.communicate(timeout=60)[0]
        assert process.returncode == 130, output
        assert tuple(broker.logs) == OTHERS


def test_a_broker_crash_in_a_case_does_not_prevent_the_removal_of_topics():
    def sends(request, frame):
        """Close the connection at the fetch of the case; the plain batch before it has offset 0."""
        rows = request.body["Topics"] if request.name == "Fetch" else ()
        return None if any(row["Partitions"][0]["FetchOffset"] for row in rows) else frame

    with holding(sends=sends) as broker:
        done = run(broker.address, "--clean")
        assert done.returncode == 1
        assert "crash" in done.stdout
        assert tuple(broker.logs) == OTHERS


@pytest.mark.parametrize(
    ("ways", "problem"),
    [
        (Ways(deletion_error=73), "is not deleted: error 73 (TOPIC_DELETION_DISABLED)"),
        (Ways(offered={name: row for name, row in OFFERED.items() if name != "DeleteTopics"}), "does not offer Delete"),
    ],
    ids=["refused", "not offered"],
)
def test_a_broker_that_deletes_no_topics_is_one_clear_line(ways, problem):
    with holding(ways) as broker:
        done = run(broker.address, "--clean")
    assert done.returncode == 3
    assert "3 pass" in done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"conformance: --clean: broker:{broker.address}: ")
    assert problem in line


def test_a_missing_broker_is_reported_once():
    with ModelBroker() as broker:
        address = broker.address
    done = run(address, "--clean")
    assert done.returncode == 3
    assert "--clean" not in done.stderr


def test_clean_without_a_broker_is_wrong_usage():
    done = conformance("run", "reference", "--clean", cwd=".")
    assert done.returncode == 2
    assert "--clean: expected a broker target" in done.stderr


@pytest.mark.parametrize(("name", "status"), [("kafka", 0), ("kfake", 1)])
def test_a_real_broker_keeps_its_own_topics(name, status, bundled_broker):
    broker = bundled_broker(name)
    connection = BrokerConnection(broker.host, broker.port, 10, scope=Scope("orders-"))
    try:
        TopicFactory(connection, "orders-").take({})
        before = topics_of(connection)
        kept = run(f"{broker.host}:{broker.port}")
        assert kept.returncode == status, kept.stdout + kept.stderr
        between = topics_of(connection)
        assert between > before
        assert all(topic.startswith("conformance-") for topic in between - before)
        cleaned = run(f"{broker.host}:{broker.port}", "--clean")
        assert cleaned.returncode == status, cleaned.stdout + cleaned.stderr
        assert topics_of(connection) == between
    finally:
        connection.close()


def topics_of(connection):
    """Return the topics of a broker without its internal ones."""
    body = {"Topics": None, "AllowAutoTopicCreation": False}
    rows = connection.ask("Metadata", connection.version("Metadata", low=4, high=12), body)["Topics"]
    return {row["Name"] for row in rows if not row["Name"].startswith("__")}
