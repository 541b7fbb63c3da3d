"""The statements on brokers in docs/brokers.md match a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import cli
from conformance.cases.model import VerdictKind
from conformance.judging.judge import judge
from conformance.live_brokers import bridge
from conformance.live_brokers.bridge import BrokerBridge
from conformance.targets.protocol import outcome

PAGE = (Path(__file__).parents[2] / "docs" / "brokers.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^### (.+)\n\nbroker: (\S+)\n\ncases: (.+)\n\nverdict: (\w+)\n\n(\S)", PAGE, re.MULTILINE)


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


def test_every_entry_of_the_page_names_a_bundled_broker_and_cases():
    assert len(ENTRIES) == PAGE.split("## Seen in brokers", 1)[1].split("\n## ", 1)[0].count("\n### ")
    assert {broker for _, broker, _, _, _ in ENTRIES} == {"kfake", "librdkafka-mock"}


@pytest.mark.parametrize("name", ["kfake", "librdkafka-mock"])
def test_a_broker_behaves_as_documented(name, bundled_broker, tmp_path):
    rows = [(cases.split(", "), verdict) for _, broker, cases, verdict, _ in ENTRIES if broker == name]
    due = {case: verdict for cases, verdict in rows for case in cases if verdict not in ("crash", "timeout")}
    bundled_broker(name)  # builds what it needs, or skips
    found = judged([f"broker:{name}"], tmp_path, *due, status=1)
    assert {case: found[case]["verdict"] for case in due} == due


@pytest.mark.parametrize("name", ["kfake", "librdkafka-mock"])
def test_a_broker_crashes_as_documented(name, bundled_broker, tmp_path):
    rows = [(cases.split(", "), verdict) for _, broker, cases, verdict, _ in ENTRIES if broker == name]
    due = {case: verdict for cases, verdict in rows for case in cases if verdict == "crash"}
    bundled_broker(name)  # builds what it needs, or skips
    found = judged([f"broker:{name}"], tmp_path, *due, status=1)
    assert {case: row["verdict"] for case, row in found.items()} == due


def test_a_broker_hangs_as_documented(bundled_broker, catalog, monkeypatch):
    monkeypatch.setattr(bridge, "_SECONDS", 1.0)
    rows = [(cases.split(", "), broker) for _, broker, cases, verdict, _ in ENTRIES if verdict == "timeout"]
    assert {broker for _, broker in rows} == {"kfake"}
    asked = BrokerBridge(bundled_broker("kfake").address)
    try:
        for case in (catalog.cases[case] for cases, _ in rows for case in cases):
            assert judge(case, outcome(asked.answer(case.request))).kind is VerdictKind.TIMEOUT, case.id
    finally:
        asked.close()


def test_a_crashed_bundled_broker_is_restarted(bundled_broker, tmp_path):
    bundled_broker("librdkafka-mock")  # builds what it needs, or skips
    report = tmp_path / "report.json"
    select = ["--select", "batch/cut-to-nothing:append", "--select", "batch/three-records:append"]
    done = CliRunner().invoke(cli.main, ["run", "broker:librdkafka-mock", *select, "--json", str(report)])
    assert done.exit_code == 1, done.output
    found = {row["id"]: row["verdict"] for row in json.loads(report.read_text())["results"]}
    assert found == {"batch/cut-to-nothing:append": "crash", "batch/three-records:append": "pass"}
