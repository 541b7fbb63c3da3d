"""One fault for each requirement on the requests that a client sends."""

from __future__ import annotations

from conformance.cases.client_requests import PRODUCER
from conformance.cases.client_scenarios import REQUESTED_METRIC, SCENARIOS
from conformance.definitions.request_frames import START
from conformance.selftest.mutators import Mutator, answer_as, on, put
from conformance.selftest.mutators.requests import (
    SIZE,
    VERSION,
    Rows,
    change_frame,
    change_request,
    change_requests,
    frames,
    in_scenarios,
    named,
    start_number,
)
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.targets.reference import answer as correct_answer

_TRANSACTIONS = [name for name, row in SCENARIOS.items() if row.produces and row.produces.transaction_per_batch]
_OTHER_ISOLATION = dict(zip(ISOLATIONS, reversed(ISOLATIONS), strict=True))


def _change_start(field: int, more: int) -> Mutator:
    """Add to SIZE or VERSION of each request."""
    return change_request(lambda row: change_frame(row, start_number(field, lambda value: value + more)))


def _change_last_value(data: bytes) -> bytes:
    """Change the last byte of the records; tagged fields follow it."""
    return put(data.rindex(b"v"), b"w")(data)


def _remove_sequence(data: bytes) -> bytes:
    producer = PRODUCER[0].to_bytes(8, "big") + PRODUCER[1].to_bytes(2, "big")
    return put(data.index(producer) + len(producer), b"\xff\xff\xff\xff")(data)


def _reuse_first_sequence(rows: Rows) -> Rows:
    """Send the first batch twice, then another batch with its sequence."""
    return [rows[0], rows[0], change_frame(rows[0], lambda data: data.replace(b"00", b"11"))]


def _omit(name: str, *scenarios: str) -> Mutator:
    """Send no requests with a name in these client scenarios."""
    return change_requests(named(name, lambda _: []), *scenarios)


def _stop_fetching(*scenarios: str) -> Mutator:
    return _omit("Fetch", *scenarios)


def _replace(name: str, before: bytes, after: bytes) -> Mutator:
    """Replace bytes in each request with a name."""
    return change_requests(frames(name, lambda _, data: data.replace(before, after, 1)))


def _ignore_check(check: str) -> Mutator:
    """Send the requests of the check `well-formed`, which allows them to be wrong."""
    return on("send", when=in_scenarios(check), accepted=None)(
        lambda request, _: correct_answer({**request, "check": "well-formed"})
    )


REQUESTS: dict[str, Mutator] = {
    "producer.retries-same-batch": change_requests(
        frames("Produce", lambda at, data: _change_last_value(data) if at == 1 else data), "produce"
    ),
    "producer.one-sequence-one-batch": change_requests(_reuse_first_sequence, "pipelined"),
    "base-sequence.assigned-by-producer": change_requests(
        frames("Produce", lambda _, data: _remove_sequence(data)), "produce"
    ),
    "request.size": _change_start(SIZE, 4),
    "request.version-offered": _change_start(VERSION, 1),
    "request.correlation-id": change_request(
        lambda row: {"inFlight": [START.unpack_from(bytes.fromhex(row["hex"]))[-1]]}
    ),
    "request.isolation-level": answer_as("send", lambda request: {"isolation": _OTHER_ISOLATION[request["isolation"]]}),
    "list-offsets.isolation-level": _replace("ListOffsets", b"\xff\xff\xff\xff\1", b"\xff\xff\xff\xff\0"),
    "offset-fetch.require-stable": _replace("OffsetFetch", b"\1\0", b"\0\0"),
    "response.read-by-size": _stop_fetching("split-response"),
    "response.nothing-to-fetch": _stop_fetching("null-records", "throttled", "above-last-stable-offset"),
    "response.error-for-the-moment": _stop_fetching(
        *("retriable-errors", "no-brokers", "no-leader", "partition-error", "rebalance", "coordinator-loading"),
        *("coordinator-moved", "leader-epoch-bumped", "list-offsets-retried", "topic-unknown", "group-topic-unknown"),
        *("unstable-offsets", "offsets-loading"),
    ),
    "response.connection-ended": _stop_fetching("connection-closed", "broker-restarted", "group-restarted"),
    "response.repetition-is-written": change_requests(named("Produce", lambda rows: rows[:2]), "duplicate-sequence"),
    "producer.refused-has-no-place": answer_as(
        "send", lambda _: {"scenario": "transactions"}, when=in_scenarios("sequence-after-fatal-error")
    ),
    "response.place-valid": _stop_fetching(
        "epoch-validated", "epoch-validated-late", "epoch-validation-rejected", "epoch-validated-after-marker"
    ),
    "response.place-cut": _stop_fetching("log-truncated"),
    "producer.messages-to-older-broker": answer_as(
        "send",
        lambda _: {"scenario": "produce", "check": "well-formed", "request": "Produce"},
        when=lambda request, _: request["scenario"].startswith("messages-"),
    ),
    "telemetry.wanted-metrics": _replace("PushTelemetry", REQUESTED_METRIC.encode(), b"x"),
    "telemetry.goes-on": _stop_fetching(
        *("telemetry", "telemetry-unmatched", "telemetry-unwanted", "telemetry-unknown-subscription"),
        *("telemetry-rejected", "telemetry-subscription-rejected"),
    ),
    "request.any-name": _stop_fetching(
        "topic-name-127", "topic-name-249", "topic-name-shift", "topic-name-constructor", "topic-name-proto"
    ),
    "response.coordinator-elsewhere": _stop_fetching("coordinator-changed", "coordinator-gone"),
    "metadata.leader-unlisted": _stop_fetching("leader-unlisted"),
    "metadata.nodes-at-one-address": _stop_fetching("one-address"),
    "response.preferred-replica": _replace("Fetch", (1).to_bytes(8, "big"), bytes(8)),
    "response.size-below-zero": _stop_fetching("negative-size"),
    "response.error-told": _stop_fetching("offsets-rejected"),
    "producer.refusal-told": _ignore_check("error-reported"),
    "producer.transaction-whole": _omit("AddPartitionsToTxn", *_TRANSACTIONS),
    "producer.transaction-unbegun": _ignore_check("no-empty-end-txn"),
    "group.generation-over": _stop_fetching("illegal-generation"),
    "group.others-damaged": _stop_fetching("empty-metadata", "malformed-metadata"),
    "response.leader-elsewhere": _stop_fetching(
        "leader-moved", "leader-moved-same-epoch", "leader-moved-no-epoch", "leader-gone", "topic-recreated"
    ),
    "producer.transaction-by-feature": _replace("EndTxn", b"\0\x1a\0\4", b"\0\x1a\0\5"),
    "group.offset-none": _stop_fetching("group"),
    "group.unknown-member": _stop_fetching("unknown-member-id"),
    "group.assignment-read": _stop_fetching(
        "assigned-by-leader", "newer-assignment-version", "empty-assignment", "two-members"
    ),
    "group.commits-next-offset": _replace("OffsetCommit", (1).to_bytes(8, "big"), bytes(8)),
    "group.leader-shares": _replace("SyncGroup", b"t\0\0\0\1\0\0\0\0", b"t\0\0\0\2\0\0\0\0"),
    "group.leader-by-subscription": _replace("SyncGroup", b"t-other", b"t-third"),
    "response.unknown-error": _stop_fetching("unknown-error-code"),
    "response.offset-out-of-range": _stop_fetching("offset-out-of-range", "log-trimmed"),
    "api-versions.older-broker": _stop_fetching("older-broker"),
    "request.topic-id-known": _stop_fetching("without-topic-ids", "zero-topic-ids"),
    "fetch.session": change_requests(lambda rows: [row for row in rows for _ in range(2)], "fetch-session"),
}
