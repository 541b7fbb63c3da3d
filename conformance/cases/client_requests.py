"""The batches that a client writes in a scenario, and the requests that the reference sends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate, repeat

from conformance import codec
from conformance.cases.client_checks import CHECKS
from conformance.cases.client_scenarios import (
    BATCHES,
    CONSUMED_OFFSET,
    EMPTY_FETCHES,
    LATEST,
    MAX_VERSION_WITHOUT_TV2,
    MESSAGES_IN,
    OFFSET_AFTER_MARKER,
    OTHER_MEMBER_ID,
    OTHER_TOPIC_SUFFIX,
    REJECTED_COMMITS,
    REQUESTED_METRIC,
    SCENARIOS,
    SHARED_GENERATIONS,
    TRANSACTION_RESULTS,
    TRIMMED_LOG_OFFSETS,
)
from conformance.cases.model import Answer, ExpectClientRequests, Request, RequestWithExpectation, Value
from conformance.codec.builders import batch, record
from conformance.codec.message_set import encode_set
from conformance.definitions.request_frames import SENT, message_of, names, wire_in
from conformance.semantics.consumer_view import ISOLATIONS

PRODUCER = (4711, 3)
"""The producer id and epoch that the broker assigns."""
COUNTS = (2, 1, 3)
"""Numbers of records in the batches that a client writes one after the other."""
TOGETHER = 5
"""Number of batches that a client sends without waiting, each with one record."""
_LONG = 600
"""Bytes of the value of such a record, so large that two do not fit into one batch."""


def batches_for(scenario: str, *, idempotent: bool = True) -> tuple[Value, ...]:
    """Return the batches that a client writes in a scenario, each with its expected sequence."""
    task = SCENARIOS[scenario].produces or BATCHES
    if task.message_codec:
        records = tuple(record(at, key=b"%d" % at, value=b"v" * _LONG) for at in range(COUNTS[-1]))
        (first, *_) = _written(transactional=False, idempotent=False)
        return ({**first, "compression": MESSAGES_IN[task.message_codec], "records": records},)
    batches = _written(transactional=task.transactional, idempotent=idempotent)
    if task.one_record:
        return ({**batches[0], "records": batches[0]["records"][:1]},)
    if task.no_records:
        return ({**batches[0], "records": ()},)
    if task.fatal_error_batch is not None:
        rejected, following = batches[task.fatal_error_batch : task.fatal_error_batch + 2]
        # The broker did not append the rejected batch, so the next one has the same first sequence.
        return (*batches[: task.fatal_error_batch], rejected, {**following, "baseSequence": rejected["baseSequence"]})
    if not task.without_waiting:
        return batches
    values = [b"%0*d" % (_LONG, number) for number in range(TOGETHER)]
    return tuple(
        {**batches[0], "baseSequence": number, "records": (record(0, value=value),)}
        for number, value in enumerate(values)
    )


def _written(*, transactional: bool, idempotent: bool) -> tuple[Value, ...]:
    producer, epoch = PRODUCER if idempotent else (-1, -1)
    shared = {"isTransactional": transactional, "producerId": producer, "producerEpoch": epoch}
    starts = accumulate(COUNTS, initial=0) if idempotent else repeat(-1)
    return tuple(
        batch(map(record, range(count)), baseSequence=start, **shared)
        for start, count in zip(starts, COUNTS, strict=False)
    )


def send_question(parts: Request) -> RequestWithExpectation:
    """Return the parts and the expectation of a parsed `send` request."""
    return RequestWithExpectation(
        parts, ExpectClientRequests(parts["check"], parts["isolation"], parts.get("request", ""))
    )


def reference_requests(_: codec.WireType, parts: Request) -> Answer:
    """Return one request per definition, or only the requests of the check; or the reported error."""
    if parts["check"] == "error-reported":
        return {"ok": False, "error": "other", "message": "the broker returned an error"}
    task = SCENARIOS[parts["scenario"]].produces
    is_older = task is not None and task.transactional and not _has_tv2(parts)
    highest = MAX_VERSION_WITHOUT_TV2 if is_older else {}
    rows = [_sent(name, body, highest) for name, body in _request_bodies(parts)]
    return {"ok": True, "value": SENT.render(rows)}


def _request_bodies(parts: Request) -> Iterator[tuple[str, Value]]:
    """Yield the name and the body of each request that is sent."""
    if parts["check"] == "transaction-complete":
        for body, end in zip(_bodies("Produce", parts), TRANSACTION_RESULTS, strict=True):
            yield from () if _has_tv2(parts) else (("AddPartitionsToTxn", {}),)
            yield from (("Produce", body), ("EndTxn", {"Committed": end == "commit"}))
        return
    for name in names().values():
        if parts.get("request", name) == name and (parts["check"], name) != ("no-empty-end-txn", "EndTxn"):
            yield from ((name, body) for body in _bodies(name, parts))


def _bodies(name: str, parts: Request) -> list[Value]:
    """Return the bodies of the requests with a name; a producer sends the first batch twice."""
    if name == "Fetch":
        next_fetch = _fetch_of(1) if CHECKS[parts["check"]].about_fetch_progress else {}
        if parts["check"] == "in-session":  # epoch 0 opened the session
            next_fetch |= {"SessionId": 1, "SessionEpoch": 1}
        if parts["check"] == "follows":
            next_fetch |= {"RackId": "rack"}
        if parts["check"] in _OFFSETS:
            return [_fetch_of(offset) for offset in _OFFSETS[parts["check"]]]
        before: list[Value] = [{}] * (EMPTY_FETCHES + 1) if parts["check"] == "no-skip-after-empty-fetch" else []
        return [*before, {"IsolationLevel": ISOLATIONS.index(parts["isolation"]), **next_fetch}]
    if name == "ListOffsets" and parts["check"] == "isolation-level":
        level = {"ReplicaId": -1, "IsolationLevel": ISOLATIONS.index(parts["isolation"])}
        return [{**level, "Topics": ({"Partitions": ({"Timestamp": LATEST},)},)}]
    if name == "OffsetFetch" and parts["check"] == "isolation-level":
        return [{"RequireStable": parts["isolation"] == ISOLATIONS[-1]}]
    if (name, parts["check"]) in _VALID_BODIES:
        return _VALID_BODIES[name, parts["check"]]
    if name != "Produce" or SCENARIOS[parts["scenario"]].produces is None:
        return [{}]
    return [{"TopicData": ({"PartitionData": ({"Records": data},)},)} for data in _sets(parts)]


def _has_tv2(parts: Request) -> bool:
    """Return whether transaction.version 2 applies: Produce adds partitions, and EndTxn returns a new epoch."""
    return bool(parts["check"] == "transaction-complete" and parts["scenario"] == "transactions-v2")


def _sets(parts: Request) -> list[bytes]:
    """Return the record data of each Produce request, in order."""
    batches = [batch for batch in batches_for(parts["scenario"]) if batch["records"]]
    if _has_tv2(parts):
        epochs = [{"producerEpoch": PRODUCER[1] + at, "baseSequence": 0} for at in range(len(batches))]
        batches = [{**batch, **epoch} for batch, epoch in zip(batches, epochs, strict=True)]
    if parts["check"] == "in-messages":
        return [encode_set(batch["records"], 1, batch["compression"]) for batch in batches]
    sets = [codec.encode("RECORD_BATCH", batch) for batch in batches]
    task = SCENARIOS[parts["scenario"]].produces or BATCHES
    return sets if task.transactional or task.fatal_error_batch is not None else [sets[0], *sets]


_OFFSETS = {
    "same-offset-after-move": (CONSUMED_OFFSET + 1, CONSUMED_OFFSET, CONSUMED_OFFSET),
    "no-rewind-after-marker": (OFFSET_AFTER_MARKER + 1, OFFSET_AFTER_MARKER, OFFSET_AFTER_MARKER),
    "rewind-after-truncation": (0, CONSUMED_OFFSET, 0),
    "continue-at-log-start": (TRIMMED_LOG_OFFSETS.start,),
}
"""By check: the offsets of fetches that pass it, the last fetch first."""


def _fetch_of(offset: int) -> Value:
    return {"Topics": ({"Partitions": ({"FetchOffset": offset},)},)}


_ASSIGNED = bytes.fromhex("0000 00000001 0001 74 00000001 00000000 00000004 ffffffff")
"""A ConsumerProtocolAssignment: partition 0 of topic `t`, and user data."""

_SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")
"""A ConsumerProtocolSubscription to topic `t`: without user data, and without owned partitions."""

_VALID_BODIES: Mapping[tuple[str, str], list[Value]] = {
    ("OffsetCommit", "commits"): [
        {"Topics": ({"Partitions": ({"CommittedOffset": offset, "CommittedLeaderEpoch": epoch},)},)}
        for offset, epoch in ((0, -1), (2, 0), (1, -1))
    ],
    ("OffsetCommit", "commits-again"): [{}] * (REJECTED_COMMITS + 1),
    ("JoinGroup", "well-formed"): [
        {"ProtocolType": "consumer", "Protocols": ({"Name": "range", "Metadata": _SUBSCRIPTION},)},
    ],
    ("SyncGroup", "well-formed"): [{"ProtocolType": "consumer", "Assignments": ({"Assignment": _ASSIGNED},)}],
    ("SyncGroup", "assignment"): [
        {
            **{"GroupId": "t", "GenerationId": SHARED_GENERATIONS, "MemberId": "m"},
            "Assignments": ({"MemberId": "m", "Assignment": _ASSIGNED},),
        }
    ],
    ("PushTelemetry", "metrics-pushed"): [{"Metrics": REQUESTED_METRIC.encode()}],
    ("SyncGroup", "assignment-by-subscription"): [
        {
            **{"GroupId": "t", "GenerationId": 1, "MemberId": "m"},
            "Assignments": (
                {"MemberId": "m", "Assignment": _ASSIGNED},
                {
                    "MemberId": OTHER_MEMBER_ID,
                    "Assignment": _ASSIGNED.replace(b"\0\1t", b"\0\7t" + OTHER_TOPIC_SUFFIX.encode()),
                },
            ),
        }
    ],
    ("EndTxn", "ended"): [{"Committed": True}],
    ("EndTxn", "ended-again"): [{"Committed": True}] * 2,
}
"""By request and check: the bodies that pass it."""


def _sent(name: str, body: Value, highest: Mapping[str, int]) -> Value:
    key, version = message_of(name).api_key, min(message_of(name).valid.high, highest.get(name, math.inf))
    header = {"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": key, "ClientId": "reference"}
    data = wire_in(name, version).encode({"Header": header, "Body": body})
    return {"hex": data, "inFlight": (), "offered": (version, version)}
