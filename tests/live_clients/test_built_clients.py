"""Unmodified clients built from a manifest: each runs once, is judged, and behaves as documented."""

from __future__ import annotations

from itertools import chain

import pytest
from live_findings import NAMED, shown, verdicts

from conformance.targets.resolve import drivers

pytestmark = pytest.mark.integration

THREE = "batch/three-records:read"
WRITTEN = {
    "idempotence": ("producer/id-max:encode", "request/produce-retried", "request/produce-sequences"),
    "transactions": ("producer/transactional:encode", "request/transaction-sequences", "request/end-txn"),
}
"""The cases that a producer passes, by the claims of its driver."""
LARGE = "batch/records-value-of-200-kilobytes:encode"
BUILT = ["kafkajs", "platformatic", "franz-go", "sarama", "kafka-go", "rskafka", "rdkafka"]


def selected_cases(name):
    """Return the cases for a client."""
    if name not in BUILT:
        return tuple(verdicts(name))
    # kafkajs retries an offset beyond the last one endlessly: that minute shows nothing about the build.
    offsets = "offset/[!o]*:read" if name == "kafkajs" else "offset/*:read"
    return ("batch/*-records:read", offsets, "request/*", LARGE, *chain(*WRITTEN.values()), *verdicts(name))


@pytest.mark.parametrize("name", BUILT)
def test_a_client_built_from_its_manifest_is_judged_live(name, run):
    _, found = run(name)
    reads = [row["verdict"] for case, row in found.items() if row["op"] == "read" and case not in verdicts(name)]
    assert found[THREE]["verdict"] == "pass"
    assert sum(verdict in ("pass", "either") for verdict in reads) > len(reads) // 2
    claims = drivers()[name].producer_features
    expected = {"request/size", "request/produce"}.union(*(WRITTEN[claim] for claim in claims if claim in WRITTEN))
    assert {case: found[case]["verdict"] for case in expected} == dict.fromkeys(expected, "pass")
    assert found[LARGE]["verdict"] in ("pass", "fail")


@pytest.mark.parametrize("name", [name for name in NAMED if drivers()[name].setup])
def test_a_built_client_behaves_as_documented(name, run):
    assert shown(name, run) == verdicts(name)
