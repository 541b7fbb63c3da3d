"""Unmodified clients, each run once: they are judged, and do what docs/live-findings.md says of them."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path

import pytest
from live_runs import judged, lacking

from conformance.cases.yaml_files import load
from conformance.targets.live.offers import from_on
from conformance.targets.resolve import adapters, drivers

PAGE = (Path(__file__).parents[3] / "docs" / "live-findings.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
VERDICTS = {"crash", "timeout", "fail"}


def entries(heading):
    """The entries under a heading, by their titles: the cases of each, and what is said of them."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^### (.+)\n\ncases: (.+)\n\nverdict: (.+)\n\n(\S)", part, re.MULTILINE)
    assert len(found) == part.count("\n### ")
    return {title: (cases.split(", "), verdict) for title, cases, verdict, _ in found}


@pytest.mark.parametrize("heading", HEADINGS)
def test_each_entry_names_cases_and_a_verdict(heading):
    assert entries(heading)
    assert {verdict for _, verdict in entries(heading).values()} <= VERDICTS


SAMPLE = ("batch/*-records:read", "read/aborted*", "lz4/*:read", "offset/*:read")
THREE = "batch/three-records:read"
WRITTEN = {
    "idempotence": ("producer/id-max:encode", "request/produce-retried", "request/produce-sequences"),
    "transactions": ("producer/transactional:encode", "request/transaction-sequences", "request/end-txn"),
}
"""What a client writes as it is due, by what its driver claims."""
LARGE = "batch/records-value-of-200-kilobytes:encode"
WITH_THE_SUITE = ["kafka-python", "aiokafka", "confluent-kafka", "kcat"]
BUILT = ["kafkajs", "platformatic", "franz-go", "sarama", "kafka-go", "rskafka", "rdkafka"]
NAMED = sorted({name for heading in HEADINGS for name in heading.split(", ")})


def findings(name):
    """The cases by which the page tells of a client, and the verdict on each."""
    rows = [row for heading in HEADINGS if name in heading.split(", ") for row in entries(heading).values()]
    return {case: verdict for cases, verdict in rows for case in cases}


def asked(name):
    """The cases that a client is run on."""
    if name in WITH_THE_SUITE:
        return (THREE, "read/abort*", "read/v1-*", "request/*")
    # kafkajs seeks the offset behind the last one there is without end: its minute shows nothing more of a build.
    offsets = "offset/[!o]*:read" if name == "kafkajs" else "offset/*:read"
    return ("batch/*-records:read", offsets, "request/*", LARGE, *chain(*WRITTEN.values())) if name in BUILT else ()


@pytest.fixture(scope="module")
def runs():
    """The runs that were made, by the client."""
    return {}


@pytest.fixture
def run(runs, live_client, tmp_path_factory, traces):
    """What a client's only run says: the version that it tells, and the rows by their cases."""

    def rows(name):
        if drivers()[name].setup and name not in adapters():
            live_client(name)
        if missing := lacking(name):
            pytest.skip(f"live:{name} lacks {', '.join(missing)}")
        if name not in runs:
            folder = tmp_path_factory.mktemp(name)
            found = judged(f"live:{name}", folder, traces.env, *asked(name), *findings(name), op="")
            runs[name] = json.loads((folder / "r.json").read_text())["targets"][0]["describe"]["version"], found
            assert traces.left() == []
        return runs[name]

    return rows


@pytest.mark.parametrize("name", WITH_THE_SUITE)
def test_a_client_that_comes_with_the_suite_is_judged_live(name, run):
    _, found = run(name)
    sent = ("fetch", "size", "version-offered", "produce-retried", "produce-sequences", "end-txn")
    assert {found[f"request/{name}"]["verdict"] for name in sent} == {"pass"}
    assert found[THREE]["verdict"] == "pass"
    fine = [row["verdict"] == "pass" for case, row in found.items() if case not in findings(name)]
    assert sum(fine) > len(fine) // 2


@pytest.mark.parametrize("name", BUILT)
def test_a_client_that_is_built_from_its_manifest_is_judged_live(name, run):
    _, found = run(name)
    reads = [row["verdict"] for case, row in found.items() if row["op"] == "read" and case not in findings(name)]
    assert found[THREE]["verdict"] == "pass"
    assert sum(verdict in ("pass", "either") for verdict in reads) > len(reads) // 2
    claims = drivers()[name].live["produces"]
    due = {"request/size", "request/produce"}.union(*(WRITTEN[claim] for claim in claims if claim in WRITTEN))
    assert {case: found[case]["verdict"] for case in due} == dict.fromkeys(due, "pass")
    assert found[LARGE]["verdict"] in ("pass", "fail")


@pytest.mark.parametrize("name", NAMED)
def test_a_live_client_does_what_the_page_says_of_it(name, run):
    described, found = run(name)
    said = re.search(r"librdkafka ([\d.]+)", described)
    version = said[1] if said else described
    headings = [heading for heading in HEADINGS if name in heading.split(", ")]
    if any(version not in PAGE.split(f"## {heading}\n", 1)[1].split("###", 1)[0] for heading in headings):
        pytest.skip(f"the page does not tell of {name} {version}")
    due = findings(name)
    assert {case: found[case]["verdict"] for case in due} == due


@pytest.fixture
def offered(tmp_path):
    """A driver like that of a bundled client, with another offer of the broker: its name as a target."""

    def write(name, offer):
        adapter = drivers()[name]
        given = {key: value for key, value in load(adapter.driver).items() if key not in ("setup", "requires", "tools")}
        program = {"module": str(adapter.home / adapter.module)} if adapter.module else {}
        command = {"command": [part.replace("{dir}", str(adapter.home)) for part in adapter.command]}
        file = tmp_path / offer / name / "driver.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({**given, **(program or command), "offers": offer}))
        return f"live:{file}"

    return write


@pytest.mark.parametrize("name", ["kcat", "aiokafka", "kafka-python", "kafka-clients"])
def test_what_the_broker_offers_changes_no_verdict(name, request, offered, tmp_path, traces):
    if name == "kafka-clients":
        request.getfixturevalue("kafka_clients")
    if missing := lacking(name):
        pytest.skip(f"live:{name} lacks {', '.join(missing)}")
    verdicts = {}
    for offer in from_on("bare")[:-1]:  # the last one holds no batches
        target = offered(name, offer)
        found = judged(target, tmp_path / offer, traces.env, "batch/*-records:read", "read/aborted-*")
        verdicts[offer] = {case: row["verdict"] for case, row in found.items()}
    assert len(verdicts["bare"]) > 15
    assert "protocol" not in verdicts["bare"].values()
    assert verdicts["low"] == verdicts["bare"]
    assert verdicts["full"] == verdicts["bare"]


def test_kcat_is_not_charged_with_what_its_output_does_not_show(tmp_path, traces):
    """It prints 0 for a timestamp that is not there; and an end of a topic that it saw early was taken for a death."""
    if missing := lacking("kcat"):
        pytest.skip(f"live:kcat lacks {', '.join(missing)}")
    cases = ("mixed-log/v0-only:read", "read/only-a-cut-batch", "read/base-offset-negative")
    found = judged("live:kcat", tmp_path, traces.env, *cases)
    assert [found[case]["verdict"] for case in cases] == ["pass", "either", "either"]


ABORTS = {
    "read/wrapper-without-messages": "rd_slice_init_full",
    "gzip/empty-member-first:read": "rd_slice_init_full",
    "read/second-message-size-0": "rd_slice_narrow_copy",
}
"""What ends librdkafka 2.0.2, by the function whose assertion fails."""


def test_the_aborts_of_librdkafka_are_found_and_charged_to_their_cases_alone(tmp_path, traces):
    if missing := lacking("kcat"):
        pytest.skip(f"live:kcat lacks {', '.join(missing)}")
    found = judged("live:kcat", tmp_path, traces.env, *ABORTS, "batch/*-records:read", "compression/*:read")
    if "librdkafka 2.0.2" not in json.dumps(json.loads((tmp_path / "r.json").read_text())["targets"]):
        pytest.skip("this kcat has another librdkafka, which may have mended them")
    crashes = {case: row["detail"] for case, row in found.items() if row["verdict"] == "crash"}
    assert set(ABORTS) <= set(crashes)
    assert all(function in crashes[case] for case, function in ABORTS.items())
    assert all("Assertion" in detail for detail in crashes.values())
    assert traces.left() == []


UNLIKE = {
    "offset/overflow-by-max-delta:read": "kafka-python cannot write its next fetch, which only a live client has to"
}
"""Cases that show more live than through an adapter, with the reason."""
SHAKY = {"message-set/v1-inner-size-13:read", "message-set/v1-inner-tail-of-one-byte:read"}
"""aiokafka reads behind its buffer here, and what comes of it is chance."""


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka", "kafka-clients"])
def test_adapter_and_live_client_agree(name, request, tmp_path, traces):
    """A client is judged alike through its adapter and live; what the live one is not asked is left out."""
    if name == "kafka-clients":
        request.getfixturevalue("kafka_clients")
    if missing := lacking(name):
        pytest.skip(f"live:{name} lacks {', '.join(missing)}")
    (tmp_path / "live").mkdir()
    live = judged(f"live:{name}", tmp_path / "live", traces.env, *SAMPLE)
    adapter = judged(name, tmp_path, traces.env, *SAMPLE)
    fine = ("pass", "either")
    told = {
        case: (adapter[case]["verdict"], row["verdict"])
        for case, row in live.items()
        if row["verdict"] != "skip" and case not in SHAKY and case not in UNLIKE
    }
    assert len(told) > 80
    assert {case: both for case, both in told.items() if both[0] != both[1] and not set(both) <= set(fine)} == {}


def test_apache_kafkas_own_consumer_passes_every_undisputed_must(kafka_clients, tmp_path, traces):
    found = judged(
        f"live:{kafka_clients}", tmp_path, traces.env, "*:read", "read/*", "request/*", "*:encode", status=0, op=""
    )
    assert len(found) > 1200
    sent = ("fetch", "isolation-read-committed", "produce-retried", "transaction-sequences", "end-txn")
    assert {found[f"request/{name}"]["verdict"] for name in sent} == {"pass"}
    assert sum(row["op"] == "encode" and row["verdict"] == "pass" for row in found.values()) > 120
    assert sum(row["verdict"] == "pass" for row in found.values()) > 800
