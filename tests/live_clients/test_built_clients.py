"""Unmodified clients that are built from a manifest, each run once: they are judged, and do what the page says."""

from __future__ import annotations

from itertools import chain

import pytest
from live_findings import NAMED, findings, shown

from conformance.targets.resolve import drivers

THREE = "batch/three-records:read"
WRITTEN = {
    "idempotence": ("producer/id-max:encode", "request/produce-retried", "request/produce-sequences"),
    "transactions": ("producer/transactional:encode", "request/transaction-sequences", "request/end-txn"),
}
"""What a client writes as it is due, by what its driver claims."""
LARGE = "batch/records-value-of-200-kilobytes:encode"
BUILT = ["kafkajs", "platformatic", "franz-go", "sarama", "kafka-go", "rskafka", "rdkafka"]


def asked(name):
    """The cases that a client is run on."""
    if name not in BUILT:
        return tuple(findings(name))
    # kafkajs seeks the offset behind the last one there is without end: its minute shows nothing more of a build.
    offsets = "offset/[!o]*:read" if name == "kafkajs" else "offset/*:read"
    return ("batch/*-records:read", offsets, "request/*", LARGE, *chain(*WRITTEN.values()), *findings(name))


@pytest.mark.parametrize("name", BUILT)
def test_a_client_that_is_built_from_its_manifest_is_judged_live(name, run):
    _, found = run(name)
    reads = [row["verdict"] for case, row in found.items() if row["op"] == "read" and case not in findings(name)]
    assert found[THREE]["verdict"] == "pass"
    assert sum(verdict in ("pass", "either") for verdict in reads) > len(reads) // 2
    claims = drivers()[name].producer_features
    due = {"request/size", "request/produce"}.union(*(WRITTEN[claim] for claim in claims if claim in WRITTEN))
    assert {case: found[case]["verdict"] for case in due} == dict.fromkeys(due, "pass")
    assert found[LARGE]["verdict"] in ("pass", "fail")


@pytest.mark.parametrize("name", [name for name in NAMED if drivers()[name].setup])
def test_a_client_that_is_built_does_what_the_page_says_of_it(name, run):
    assert shown(name, run) == findings(name)
