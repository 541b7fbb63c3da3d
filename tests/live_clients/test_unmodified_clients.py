"""Unmodified clients without a build, and Apache Kafka's own; each runs once for all tests here."""

from __future__ import annotations

import json
from fnmatch import fnmatch

import pytest
from finding_pages import findings
from live_findings import NAMED, shown, verdicts
from live_runs import judged, lacking

from conformance.cases.api_versions_profiles import profiles_from
from conformance.files.yaml_loader import load
from conformance.targets.resolve import drivers

pytestmark = pytest.mark.integration

VERDICTS = {"crash", "timeout", "fail"}
SAMPLE = ("batch/*-records:read", "read/aborted*", "lz4/*:read", "offset/*:read")
THREE = "batch/three-records:read"
WITH_THE_SUITE = ["kafka-python", "aiokafka", "confluent-kafka", "kcat"]
ABORTS = {
    "read/wrapper-without-messages": "rd_slice_init_full",
    "gzip/empty-member-first:read": "rd_slice_init_full",
    "read/second-message-size-0": "rd_slice_narrow_copy",
}
"""Cases that abort librdkafka 2.0.2, by the function with the failed assertion."""
OTHER_READS = ("batch/*-records:read", "compression/*:read")
UNSHOWN = ("mixed-log/v0-only:read", "read/only-a-cut-batch", "read/base-offset-negative")
"""Fields missing in the output of kcat: it prints 0 for a missing timestamp, and has its own end."""
SELECTED_CASES = {
    "kafka-clients": ("*:read", "read/*", "request/*", "*:encode"),
    "kafka-python": (*SAMPLE, "read/abort*", "read/v1-*", "request/*"),
    "aiokafka": (*SAMPLE, "read/abort*", "read/v1-*", "request/*"),
    "confluent-kafka": (THREE, "read/abort*", "read/v1-*", "request/*"),
    "kcat": ("read/abort*", "read/v1-*", "request/*", *ABORTS, *OTHER_READS, *UNSHOWN),
}


def selected_cases(name):
    """Return the cases for a client."""
    return (*SELECTED_CASES[name], *verdicts(name))


def matching(found, *patterns):
    """Return the rows of cases with ids that match one of these patterns."""
    return {case: row for case, row in found.items() if any(fnmatch(case, pattern) for pattern in patterns)}


def test_each_finding_on_a_live_client_has_cases_and_a_verdict():
    assert all(one.cases for one in findings("live"))
    assert {one.fields["verdict"] for one in findings("live")} <= VERDICTS


@pytest.mark.parametrize("name", WITH_THE_SUITE)
def test_a_bundled_client_is_judged_live(name, run):
    _, found = run(name)
    sent = ("fetch", "size", "version-offered", "produce-retried", "produce-sequences", "end-txn")
    assert {found[f"request/{name}"]["verdict"] for name in sent} == {"pass"}
    assert found[THREE]["verdict"] == "pass"
    fine = [row["verdict"] == "pass" for case, row in found.items() if case not in verdicts(name)]
    assert sum(fine) > len(fine) // 2


@pytest.mark.parametrize("name", [name for name in NAMED if not drivers()[name].setup])
def test_a_live_client_behaves_as_documented(name, run):
    assert shown(name, run) == verdicts(name)


@pytest.fixture
def offered(tmp_path):
    """Return a function that writes a bundled client's driver with another offer and returns its target."""

    def write(name, offer):
        adapter = drivers()[name]
        given = {
            key: value
            for key, value in load(adapter.folder / "driver.yaml").items()
            if key not in ("setup", "requires", "tools")
        }
        program = {"module": str(adapter.home / adapter.module)} if adapter.module else {}
        command = {"command": [part.replace("{dir}", str(adapter.home)) for part in adapter.command]}
        file = tmp_path / offer / name / "driver.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({**given, **(program or command), "versions": offer}))
        return f"live:{file}"

    return write


@pytest.mark.parametrize("name", ["kcat", "aiokafka", "kafka-python", "kafka-clients"])
def test_the_offer_of_the_broker_changes_no_verdict(name, request, offered, tmp_path, traces):
    if name == "kafka-clients":
        request.getfixturevalue("kafka_clients")
    if missing := lacking(name):
        pytest.skip(f"live:{name} lacks {', '.join(missing)}")
    verdicts = {}
    for offer in profiles_from("bare")[:-1]:  # the last offer has no batches
        target = offered(name, offer)
        found = judged(target, tmp_path / offer, traces.env, "batch/*-records:read", "read/aborted-*")
        verdicts[offer] = {case: row["verdict"] for case, row in found.items()}
    assert len(verdicts["bare"]) > 15
    assert "protocol" not in verdicts["bare"].values()
    assert verdicts["low"] == verdicts["bare"]
    assert verdicts["full"] == verdicts["bare"]


def test_kcat_fails_no_case_for_fields_missing_in_its_output(run):
    _, found = run("kcat")
    assert [found[case]["verdict"] for case in UNSHOWN] == ["pass", "either", "either"]


def test_the_aborts_of_librdkafka_are_attributed_only_to_their_cases(run):
    version, found = run("kcat")
    if "librdkafka 2.0.2" not in version:
        pytest.skip("this kcat has another librdkafka, which may have mended them")
    rows = matching(found, *ABORTS, *OTHER_READS)
    crashes = {case: row["detail"] for case, row in rows.items() if row["verdict"] == "crash"}
    assert set(ABORTS) <= set(crashes)
    assert all(function in crashes[case] for case, function in ABORTS.items())
    assert all("Assertion" in detail for detail in crashes.values())


UNLIKE = {
    "offset/overflow-by-max-delta:read": "kafka-python cannot write its next fetch, which only a live client has to"
}
"""Cases that show more live than through an adapter, and why."""
SHAKY = {"message-set/v1-inner-size-13:read", "message-set/v1-inner-tail-of-one-byte:read"}
"""aiokafka reads beyond its buffer in these cases, with random results."""


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka", "kafka-clients"])
def test_adapter_and_live_client_agree(name, request, run, tmp_path, traces):
    """A client has equal verdicts through its adapter and live, in the cases of both."""
    if name == "kafka-clients":
        request.getfixturevalue("kafka_clients")
    live = matching(run(name)[1], *SAMPLE)
    adapter = judged(name, tmp_path, traces.env, *SAMPLE)
    fine = ("pass", "either")
    compared = {
        case: (adapter[case]["verdict"], row["verdict"])
        for case, row in live.items()
        if row["verdict"] != "skip" and case not in SHAKY and case not in UNLIKE
    }
    assert len(compared) > 80
    assert {case: both for case, both in compared.items() if both[0] != both[1] and not set(both) <= set(fine)} == {}


def test_apache_kafkas_own_consumer_passes_every_undisputed_must(kafka_clients, run):
    """The fixture checks that the run ends with status 0."""
    _, found = run(kafka_clients)
    assert len(found) > 1200
    sent = ("fetch", "isolation-read-committed", "produce-retried", "transaction-sequences", "end-txn")
    assert {found[f"request/{name}"]["verdict"] for name in sent} == {"pass"}
    assert sum(row["op"] == "encode" and row["verdict"] == "pass" for row in found.values()) > 120
    assert sum(row["verdict"] == "pass" for row in found.values()) > 800
