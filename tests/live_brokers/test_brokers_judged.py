"""Runs on bundled brokers give the verdicts of the findings."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from finding_pages import findings

from conformance import cli
from conformance.cases.model import VerdictKind
from conformance.judging.judge import judge
from conformance.live_brokers import bridge
from conformance.live_brokers.bridge import BrokerBridge
from conformance.targets.protocol import outcome

pytestmark = pytest.mark.integration


def address(broker):
    return (f"broker:{broker.host}:{broker.port}", *(["--log-dir", str(broker.log_dir)] if broker.log_dir else []))


def judged(target, tmp_path, *patterns, status):
    """Return the verdict on each case of a broker."""
    select = [option for pattern in patterns for option in ("--select", pattern)]
    report = tmp_path / "report.json"
    done = CliRunner().invoke(cli.main, ["run", *target, *select, "--generated", "0", "--json", str(report)])
    assert done.exit_code == status, done.output
    return {row["id"]: row for row in json.loads(report.read_text())["results"]}


@pytest.mark.parametrize(("name", "least"), [("kafka", 900), ("kafka-3", 1080)])  # 3.9.2 accepts old formats too
def test_apache_kafka_meets_every_must(name, least, bundled_broker, tmp_path):
    select = ("*:append", "append/*", "sequence/*", "scenario/*", "exchange/*")
    found = judged(address(bundled_broker(name)), tmp_path, *select, status=0)
    verdicts = [row["verdict"] for row in found.values()]
    assert verdicts.count("pass") > least
    failed = {identity for identity, row in found.items() if row["verdict"] in ("fail", "crash", "timeout")}
    # Version 3 accepts a compressed record with a negative length.
    known = {f"compression/{codec}-record-length-negative:append" for codec in ("gzip", "snappy", "lz4", "zstd")}
    assert failed == (known if name == "kafka-3" else set())


def test_a_broker_that_keeps_its_log_is_restarted_if_a_case_requires_it(bundled_broker, tmp_path):
    bundled_broker("kafka")  # builds what it needs, or skips
    found = judged(["broker:kafka"], tmp_path, "scenario/*restart*", status=0)
    assert [row["verdict"] for row in found.values()] == ["pass"] * 3


def covered(name, *kinds):
    """Return the verdict of each case that the findings on a broker cover, of these kinds of verdict."""
    rows = [(one.fields["verdict"], one.cases) for one in findings("broker", name)]
    return {case: verdict for verdict, cases in rows for case in cases if verdict in kinds}


def test_the_findings_on_brokers_are_about_two_bundled_ones():
    assert {name for one in findings("broker") for name in one.versions} == {"kfake", "librdkafka-mock"}


@pytest.mark.parametrize("name", ["kfake", "librdkafka-mock"])
def test_a_broker_fails_the_cases_of_its_findings(name, bundled_broker, tmp_path):
    expected = covered(name, "fail")
    bundled_broker(name)  # builds what it needs, or skips
    found = judged([f"broker:{name}"], tmp_path, *expected, status=1)
    assert {case: found[case]["verdict"] for case in expected} == expected


@pytest.mark.parametrize("name", ["kfake", "librdkafka-mock"])
def test_a_broker_crashes_on_the_cases_of_its_findings(name, bundled_broker, tmp_path):
    expected = covered(name, "crash")
    bundled_broker(name)  # builds what it needs, or skips
    found = judged([f"broker:{name}"], tmp_path, *expected, status=1)
    assert {case: row["verdict"] for case, row in found.items()} == expected


def test_a_broker_times_out_on_the_cases_of_its_findings(bundled_broker, catalog, monkeypatch):
    monkeypatch.setattr(bridge, "_SECONDS", 1.0)
    assert covered("librdkafka-mock", "timeout") == {}
    broker_bridge = BrokerBridge(bundled_broker("kfake").address)
    try:
        for case in (catalog.cases[case] for case in covered("kfake", "timeout")):
            assert judge(case, outcome(broker_bridge.answer(case.request))).kind is VerdictKind.TIMEOUT, case.id
    finally:
        broker_bridge.close()


def test_a_crashed_bundled_broker_is_restarted(bundled_broker, tmp_path):
    bundled_broker("librdkafka-mock")  # builds what it needs, or skips
    report = tmp_path / "report.json"
    select = ["--select", "batch/cut-to-nothing:append", "--select", "batch/three-records:append"]
    done = CliRunner().invoke(cli.main, ["run", "broker:librdkafka-mock", *select, "--json", str(report)])
    assert done.exit_code == 1, done.output
    found = {row["id"]: row["verdict"] for row in json.loads(report.read_text())["results"]}
    assert found == {"batch/cut-to-nothing:append": "crash", "batch/three-records:append": "pass"}
