"""Violations of the requirements on what a client sends."""

from __future__ import annotations

from collections.abc import Callable

from conformance.cases.client_requests import PRODUCER
from conformance.cases.client_scenarios import REQUESTED_METRIC, SCENARIOS
from conformance.codec.derived_fields import Values
from conformance.definitions.request_frames import START, api_of
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import change_request
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.targets.reference import answer as honest

_TRANSACTIONS = [name for name, row in SCENARIOS.items() if row.produces and row.produces.transaction_per_batch]


def _begun(row: Values, *, size: int = 0, version: int = 0) -> Values:
    """A request with so much more in its size or version."""
    data = bytes.fromhex(row["hex"])
    stated, key, of, correlation = START.unpack_from(data)
    return {"hex": (START.pack(stated + size, key, of + version, correlation) + data[START.size :]).hex()}


def _isolated_otherwise(request: Values, answer: Values) -> Values:
    if request["op"] != "send":
        return answer
    other = next(level for level in ISOLATIONS if level != request["isolation"])
    return honest({**request, "isolation": other})


def _produced(change: Callable[[bytes], bytes], *, first: bool) -> Mutator:
    """Write each batch otherwise, or only the one that comes again."""

    def told(request: Values, answer: Values) -> Values:
        if request["op"] != "send" or request["scenario"] != "produce":
            return answer
        changed = [at for at, row in enumerate(answer["value"]) if api_of(bytes.fromhex(row["hex"])) == "Produce"]
        changed = changed if first else changed[1:2]
        rows = [
            {**row, "hex": change(bytes.fromhex(row["hex"])).hex()} if at in changed else row
            for at, row in enumerate(answer["value"])
        ]
        return {**answer, "value": rows}

    return told


def _with_last_byte(data: bytes) -> bytes:
    """Another last byte of the records, which the tagged sections after them follow."""
    at = data.rindex(b"v")
    return data[:at] + b"w" + data[at + 1 :]


def _without_sequence(data: bytes) -> bytes:
    at = data.index(PRODUCER[0].to_bytes(8, "big") + PRODUCER[1].to_bytes(2, "big")) + 10
    return data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]


def _stays(*scenarios: str, without: str = "Fetch") -> Mutator:
    """Fetch nothing any more in these scenarios, or send no other request of a name."""

    def told(request: Values, answer: Values) -> Values:
        if request["op"] != "send" or request["scenario"] not in scenarios:
            return answer
        rows = [row for row in answer["value"] if api_of(bytes.fromhex(row["hex"])) != without]
        return {**answer, "value": rows}

    return told


def _stuck(request: Values, answer: Values) -> Values:
    """Write the first batch over and over, where it was refused as a repetition."""
    if request["op"] != "send" or request["scenario"] != "duplicate-sequence":
        return answer
    writes = [row for row in answer["value"] if api_of(bytes.fromhex(row["hex"])) == "Produce"]
    return {**answer, "value": [row for row in answer["value"] if row not in writes[2:]]}


def _gapped(request: Values, answer: Values) -> Values:
    """Go on behind the sequences of the batch that was refused."""
    is_asked = request["op"] == "send" and request["check"] == "sequence-after-fatal-error"
    return honest({**request, "scenario": "transactions"}) if is_asked else answer


def _written(name: str, before: bytes, after: bytes) -> Mutator:
    """Write other bytes into each request of this name."""

    def change(row: Values) -> Values:
        data = bytes.fromhex(row["hex"])
        return {"hex": data.replace(before, after, 1).hex()} if api_of(data) == name else {}

    return change_request(change)


def _twice(request: Values, answer: Values) -> Values:
    """Give each fetch of a session the number of the one before."""
    if request["op"] != "send" or request["scenario"] != "fetch-session":
        return answer
    return {**answer, "value": [row for row in answer["value"] for _ in range(2)]}


def _given_twice(request: Values, answer: Values) -> Values:
    """Give the sequence of the first batch to another one."""
    if request["op"] != "send" or request["scenario"] != "pipelined":
        return answer
    first = answer["value"][0]
    other = {**first, "hex": bytes.fromhex(first["hex"]).replace(b"00", b"11").hex()}
    return {**answer, "value": [first, first, other]}


def _heedless(check: str) -> Mutator:
    """Send what is sent where nobody looks: nothing is said of what is refused, what has not begun is ended."""
    return lambda request, answer: (
        honest({**request, "check": "well-formed"}) if request.get("check") == check else answer
    )


def _batched(request: Values, answer: Values) -> Values:
    """Write batches where only messages are known."""
    if not request.get("scenario", "").startswith("messages-"):
        return answer
    return honest({**request, "scenario": "produce", "check": "well-formed", "request": "Produce"})


REQUESTS: dict[str, Mutator] = {
    "producer.retries-same-batch": _produced(_with_last_byte, first=False),
    "producer.one-sequence-one-batch": _given_twice,
    "base-sequence.assigned-by-producer": _produced(_without_sequence, first=True),
    "request.size": change_request(lambda row: _begun(row, size=4)),
    "request.version-offered": change_request(lambda row: _begun(row, version=1)),
    "request.correlation-id": change_request(
        lambda row: {"inFlight": [START.unpack_from(bytes.fromhex(row["hex"]))[-1]]}
    ),
    "request.isolation-level": _isolated_otherwise,
    "list-offsets.isolation-level": _written("ListOffsets", b"\xff\xff\xff\xff\1", b"\xff\xff\xff\xff\0"),
    "offset-fetch.require-stable": _written("OffsetFetch", b"\1\0", b"\0\0"),
    "response.read-by-size": _stays("split-response"),
    "response.nothing-to-fetch": _stays("null-records", "throttled", "above-last-stable-offset"),
    "response.error-for-the-moment": _stays(
        *(
            "retriable-errors",
            "no-brokers",
            "no-leader",
            "partition-error",
            "rebalance",
            "coordinator-loading",
            "coordinator-moved",
        ),
        *("leader-epoch-bumped", "list-offsets-retried", "topic-unknown", "group-topic-unknown"),
        *("unstable-offsets", "offsets-loading"),
    ),
    "response.connection-ended": _stays("connection-closed", "broker-restarted", "group-restarted"),
    "response.repetition-is-written": _stuck,
    "producer.refused-has-no-place": _gapped,
    "response.place-valid": _stays(
        "epoch-validated", "epoch-validated-late", "epoch-validation-rejected", "epoch-validated-after-marker"
    ),
    "response.place-cut": _stays("log-truncated"),
    "producer.messages-to-older-broker": _batched,
    "telemetry.wanted-metrics": _written("PushTelemetry", REQUESTED_METRIC.encode(), b"x"),
    "telemetry.goes-on": _stays(
        *(
            "telemetry",
            "telemetry-unmatched",
            "telemetry-unwanted",
            "telemetry-unknown-subscription",
            "telemetry-rejected",
            "telemetry-subscription-rejected",
        )
    ),
    "request.any-name": _stays(
        "topic-name-127", "topic-name-249", "topic-name-shift", "topic-name-constructor", "topic-name-proto"
    ),
    "response.coordinator-elsewhere": _stays("coordinator-changed", "coordinator-gone"),
    "metadata.leader-unlisted": _stays("leader-unlisted"),
    "metadata.nodes-at-one-address": _stays("one-address"),
    "response.preferred-replica": _written("Fetch", (1).to_bytes(8, "big"), bytes(8)),
    "response.size-below-zero": _stays("negative-size"),
    "response.error-told": _stays("offsets-rejected"),
    "producer.refusal-told": _heedless("error-reported"),
    "producer.transaction-whole": _stays(*_TRANSACTIONS, without="AddPartitionsToTxn"),
    "producer.transaction-unbegun": _heedless("no-empty-end-txn"),
    "group.generation-over": _stays("illegal-generation"),
    "group.others-damaged": _stays("empty-metadata", "malformed-metadata"),
    "response.leader-elsewhere": _stays(
        "leader-moved", "leader-moved-same-epoch", "leader-moved-no-epoch", "leader-gone", "topic-recreated"
    ),
    "producer.transaction-by-feature": _written("EndTxn", b"\0\x1a\0\4", b"\0\x1a\0\5"),
    "group.offset-none": _stays("group"),
    "group.unknown-member": _stays("unknown-member-id"),
    "group.assignment-read": _stays(
        "assigned-by-leader", "newer-assignment-version", "empty-assignment", "two-members"
    ),
    "group.commits-next-offset": _written("OffsetCommit", (1).to_bytes(8, "big"), bytes(8)),
    "group.leader-shares": _written("SyncGroup", b"t\0\0\0\1\0\0\0\0", b"t\0\0\0\2\0\0\0\0"),
    "group.leader-by-subscription": _written("SyncGroup", b"t-other", b"t-third"),
    "response.unknown-error": _stays("unknown-error-code"),
    "response.offset-out-of-range": _stays("offset-out-of-range", "log-trimmed"),
    "api-versions.older-broker": _stays("older-broker"),
    "request.topic-id-known": _stays("without-topic-ids", "zero-topic-ids"),
    "fetch.session": _twice,
}
