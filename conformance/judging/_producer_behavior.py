"""The checks of a producer in a client scenario: its batches, messages and transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from conformance import codec
from conformance.cases.client_requests import COUNTS, PRODUCER, TOGETHER, batches_for
from conformance.cases.client_scenarios import FATAL_ERROR_BATCH, MAX_VERSION_WITHOUT_TV2, TRANSACTION_RESULTS
from conformance.cases.model import PASSED, Value, Verdict, VerdictKind
from conformance.codec.log import extents
from conformance.codec.record_batch import BATCH_LAYOUT, stored_magic
from conformance.definitions.request_frames import START, api_of
from conformance.judging._sent_requests import RECORDS, at_request, batches_in, body_in, producer_text, request_name


def in_messages(requests: Sequence[Value]) -> Verdict:
    """Check that all records reach a broker without record batches, as valid message sets."""
    expected = {
        (record["key"], record["value"]): record["timestamp"] for record in batches_for("messages-none")[0]["records"]
    }
    found: set[tuple[bytes, bytes]] = set()
    index = 0
    for index, request in enumerate(requests):
        body = body_in(request["hex"], "Produce") or {"TopicData": ()}
        for data in [part["Records"] or b"" for row in body["TopicData"] for part in row["PartitionData"]]:
            flaw, messages = _message_set_fault(data)
            if flaw is not None:
                return at_request(index, flaw)
            for message in messages:
                name = message["key"], message["value"]
                if name not in expected or (message["magic"] and message["timestamp"] < expected[name]):
                    return at_request(
                        index,
                        Verdict(VerdictKind.FAIL, "a message was written that the application did not send", RECORDS),
                    )
                found.add(name)
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written")
    detail = f"{len(found)} of {len(expected)} records are written"
    return PASSED if len(found) == len(expected) else at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))


_OFFSET_BITS = 20
"""The offsets of the messages in one entry fit into this number of bits."""


def _message_set_fault(data: bytes) -> tuple[Verdict | None, Sequence[Value]]:
    """Return the fault of a message set that a producer writes, if any, and its messages.

    The producer may choose any offsets of the entries, as the broker replaces them. This function replaces them too.
    """
    if any(stored_magic(data, start) > 1 for start, _ in extents(data)):
        return Verdict(
            VerdictKind.FAIL, "a record batch is written, but the broker supports only messages", RECORDS
        ), ()
    offsets = ((place << _OFFSET_BITS).to_bytes(8, "big") for place in count(1))
    renumbered = (offset + data[start + 8 : end] for offset, (start, end) in zip(offsets, extents(data), strict=False))
    read = codec.decode("LOG", b"".join(renumbered), trail=True)
    for level, broken in (("", read.violations), ("should", read.remarks)):
        if broken:
            return Verdict(
                VerdictKind.FAIL, f"not a valid message set: {broken[0]}", RECORDS, broken[0].requirement, level
            ), ()
    entries = read.value["batches"]
    if read.value["partial"]:
        return Verdict(VerdictKind.FAIL, "the last message is cut off", RECORDS), ()
    inner = {span.path: span.value for span in read.spans or ()}
    for place, entry in enumerate(entries):
        counted = [
            inner.get(f"batches[{place}].value[{number}].offset", number) for number in range(len(entry["messages"]))
        ]
        if entry["magic"] and counted != [*range(len(counted))]:
            rule = "legacy.compressed-inner-offsets-from-zero"
            return Verdict(
                VerdictKind.FAIL, f"the offsets in a wrapper are {counted} and do not count from 0", RECORDS, rule
            ), ()
    messages = [message for entry in entries for message in entry["messages"]]
    if any(message.get("timestampType") for message in messages):
        rule = "legacy.producer-timestamp-type-zero"
        return Verdict(VerdictKind.FAIL, "the producer sets the timestamp type LogAppendTime", RECORDS, rule), ()
    return None, messages


_STEPS = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")


def _ended(requests: Sequence[Value]) -> Verdict:
    """Check that a transaction is written and committed after retriable errors of its coordinator."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no request was sent")
    sent = {api_of(request["hex"]) for request in requests}
    missing = [name for name in _STEPS if name not in sent]
    if missing:
        detail = f"the client sent no {missing[0]}, although the broker returned only retriable errors"
        return at_request(len(requests) - 1, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
    ends = _ends_in(requests)
    if any(commits for _, commits in ends):
        return PASSED
    detail = "the transaction is aborted, although the application commits it"
    return at_request(ends[-1][0], Verdict(VerdictKind.FAIL, detail, "Body.Committed")) if ends else PASSED


def _ends_in(requests: Sequence[Value]) -> list[tuple[int, bool]]:
    """Return the index of each valid EndTxn, and whether it commits."""
    bodies = ((index, body_in(request["hex"], "EndTxn")) for index, request in enumerate(requests))
    return [(index, body["Committed"]) for index, body in bodies if body is not None]


def _ended_again(requests: Sequence[Value]) -> Verdict:
    """Check that EndTxn is sent again after a retriable error or a lost response."""
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    if not ends:
        return Verdict(VerdictKind.SKIP, "unobserved: no EndTxn was sent")
    detail = "EndTxn is not sent again after a retriable error or a lost response"
    return PASSED if len(ends) > 1 else at_request(ends[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _transaction_version(requests: Sequence[Value]) -> Verdict:
    """Check the versions in a transaction: higher ones need the feature transaction.version 2 of the broker."""
    sent = [(index, request["hex"], api_of(request["hex"])) for index, request in enumerate(requests)]
    judged = [
        (index, data, MAX_VERSION_WITHOUT_TV2[name]) for index, data, name in sent if name in MAX_VERSION_WITHOUT_TV2
    ]
    for index, data, highest in judged:
        if START.unpack_from(data)[2] > highest:
            detail = f"{request_name(data)} needs transaction.version 2; without it the highest version is {highest}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiVersion"))
    return PASSED if judged else Verdict(VerdictKind.SKIP, "unobserved: no request of a transaction was sent")


def _transaction_complete(requests: Sequence[Value]) -> Verdict:
    """Check each transaction: its partition is added, its sequence numbers are correct, and its result is correct."""
    if not any(batches_in(requests)):
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written")
    return (
        _partition_not_added(requests) or _sequence_violation(requests) or _wrong_transaction_result(requests) or PASSED
    )


def _sequence_after_fatal_error(requests: Sequence[Value]) -> Verdict:
    """Check the batches after one that was rejected with a fatal error: its sequence numbers are still unused."""
    if len([*batches_in(requests)]) <= FATAL_ERROR_BATCH + 1:
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written after the rejected one")
    return _sequence_violation(requests, rejected=FATAL_ERROR_BATCH) or PASSED


def _partition_not_added(requests: Sequence[Value]) -> Verdict | None:
    """Return a failure if a transaction lacks its partition; Produce adds it from version 12 on."""
    is_added = False
    for index, request in enumerate(requests):
        name = api_of(request["hex"])
        is_added |= name == "AddPartitionsToTxn" or (name == "Produce" and _uses_tv2(request["hex"]))
        if name == "Produce" and not is_added:
            detail = f"{request_name(request['hex'])} is sent before its partition was added to the transaction"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
        is_added &= name != "EndTxn"
    return None


def _uses_tv2(data: bytes) -> bool:
    """Return whether the version of a request needs the feature transaction.version 2."""
    return bool(START.unpack_from(data)[2] > MAX_VERSION_WITHOUT_TV2[api_of(data)])


def _sequence_violation(requests: Sequence[Value], *, rejected: int | None = None) -> Verdict | None:
    """Return a failure for a wrong sequence: it continues in one epoch and restarts at 0 in the next.

    `rejected` is the index of a batch that the broker did not append, so it uses no sequence.
    """
    ends = [i for i, row in enumerate(requests) if api_of(row["hex"]) == "EndTxn" and _uses_tv2(row["hex"])]
    # By producer and epoch: for each sequence number the batch that contains it.
    logs: dict[tuple[int, int], list[bytes]] = {}
    first_indexes: dict[tuple[int, int], int] = {}
    for number, (index, batch) in enumerate(batches_in(requests)):
        if number == rejected:
            continue
        producer = BATCH_LAYOUT.read_field("producerId", batch), BATCH_LAYOUT.read_field("producerEpoch", batch)
        log, first = logs.setdefault(producer, []), BATCH_LAYOUT.read_field("baseSequence", batch)
        first_index = first_indexes.setdefault(producer, index)
        # EndTxn of transaction.version 2 returns a new epoch, so the old one must not be used after it.
        if any(first_index < end < index for end in ends):
            detail = f"{producer_text((*producer, first))}, although the EndTxn response returned a new epoch"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
        if first == len(log):
            log += [batch] * BATCH_LAYOUT.read_field("recordCount", batch)
        elif first > len(log):
            detail = f"{producer_text((*producer, first))} instead of sequence {len(log)}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
        elif batch not in log:
            detail = f"{producer_text((*producer, first))} is used for two batches: a broker drops the second one"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
    return None


def _wrong_transaction_result(requests: Sequence[Value]) -> Verdict | None:
    """Return a failure if the transactions do not end with TRANSACTION_RESULTS."""
    found = _ends_in(requests)
    results = ["commit" if committed else "abort" for _, committed in found]
    if results == [*TRANSACTION_RESULTS]:
        return None
    detail = f"the transactions end with {', '.join(results) or 'nothing'} instead of {', '.join(TRANSACTION_RESULTS)}"
    return at_request(found[-1][0] if found else 0, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _no_empty_end_txn(requests: Sequence[Value]) -> Verdict:
    """Check that the client sends no EndTxn for a transaction without a partition."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no request was sent")
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    detail = "EndTxn is sent for a transaction without a record, which the coordinator does not know"
    return PASSED if not ends else at_request(ends[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


TRANSACTIONS: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    "ended": _ended,
    "ended-again": _ended_again,
    "transaction-version": _transaction_version,
    "transaction-complete": _transaction_complete,
    "sequence-after-fatal-error": _sequence_after_fatal_error,
    "no-empty-end-txn": _no_empty_end_txn,
}
"""The checks of transactions."""


# Most of these checks get the batches of the Produce requests in order, each with the index of its request.


def _retried(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Check that the client sends a batch again after the retriable KAFKA_STORAGE_ERROR."""
    if len(batches) > 1:
        return PASSED
    if not batches:
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written")
    return at_request(
        batches[0][0],
        Verdict(VerdictKind.FAIL, "the batch that was rejected with KAFKA_STORAGE_ERROR is not sent again", RECORDS),
    )


def _writes_on(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Check that the new leader gets the second batch, which the client sends after the first one is acknowledged."""
    if not batches:
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written")
    # All batches of a scenario have different record counts, so another count is another batch.
    first, *others = (BATCH_LAYOUT.read_field("recordCount", batch) for _, batch in batches)
    if first >= sum(COUNTS):
        return Verdict(VerdictKind.SKIP, "unobserved: the client writes all records in one batch")
    if any(count != first for count in others):
        return PASSED
    times = f"{len(batches)} times" if others else "once"
    detail = f"the client sends no batch after the first one, which it sends {times}"
    return at_request(batches[-1][0], Verdict(VerdictKind.FAIL, detail, RECORDS))


def _writes(requests: Sequence[Value]) -> Verdict:
    """Check that the client writes all records of the application."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no request was sent")
    found = sum(BATCH_LAYOUT.read_field("recordCount", batch) for batch in {batch for _, batch in batches_in(requests)})
    detail = f"{found} of {sum(COUNTS)} records are written"
    last = len(requests) - 1
    return (
        PASSED if found >= sum(COUNTS) else at_request(last, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
    )


def _retried_unchanged(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Check that the second batch equals the first one, which the broker rejected."""
    if len(batches) < 2:
        return Verdict(VerdictKind.SKIP, "unobserved: the rejected batch was not sent again")
    (_, first), (index, second) = batches[:2]
    if first == second:
        return PASSED
    other = (place for place, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
    detail = f"the batch that is sent again differs from the rejected one from byte {next(other, len(first))} on"
    return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))


def _sequence_numbers(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Check the producer id, epoch and sequence of each batch; a batch that is sent again keeps them."""
    if not batches:
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written")
    expected, last = 0, b""
    for index, batch in batches:
        # A batch equal to the one before is a retry, so it has the same sequence.
        expected = expected if batch != last else expected - BATCH_LAYOUT.read_field("recordCount", last)
        found = tuple(BATCH_LAYOUT.read_field(name, batch) for name in ("producerId", "producerEpoch", "baseSequence"))
        if found != (*PRODUCER, expected):
            return at_request(
                index,
                Verdict(
                    VerdictKind.FAIL,
                    f"{producer_text(found)} instead of {producer_text((*PRODUCER, expected))}",
                    RECORDS,
                ),
            )
        expected, last = expected + BATCH_LAYOUT.read_field("recordCount", batch), batch
    return PASSED


def _no_loss(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Check that a broker gets all batches: it rejects the first one once, and later batches with a sequence gap.

    A batch may arrive early, as a client that does not wait has not got the error of the one before it yet. A client
    that requests a new producer id begins with sequence 0 again.
    """
    # By producer and epoch: for each sequence number the batch that contains it.
    logs: dict[tuple[int, int], list[bytes]] = {}
    early: tuple[int, tuple[int, int]] | None = None
    for index, batch in batches[1:]:
        producer = BATCH_LAYOUT.read_field("producerId", batch), BATCH_LAYOUT.read_field("producerEpoch", batch)
        log, first = logs.setdefault(producer, []), BATCH_LAYOUT.read_field("baseSequence", batch)
        if first == len(log):
            log += [batch] * BATCH_LAYOUT.read_field("recordCount", batch)
        elif first > len(log):
            early = index, producer
        elif batch not in log:
            detail = f"{producer_text((*producer, first))} is used for two batches: a broker drops the second one"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
    if sum(map(len, logs.values())) >= TOGETHER:
        return PASSED
    if early is None:
        return Verdict(VerdictKind.SKIP, "unobserved: no batch was written after the rejected one")
    index, producer = early
    detail = f"{producer_text((*producer, len(logs[producer])))} is never written, but later batches are"
    # No document demands a retry, so this fails only at should; but a producer without a retry has to stop.
    return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS, level="should"))


def _error_reported(requests: Sequence[Value]) -> Verdict:
    """Return a failure of a producer that reported no error, although the broker returned one each time."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no matching request was sent")
    last = request_name(requests[-1]["hex"])
    detail = f"the application gets no error, although the broker returned a permanent error for {last}"
    return at_request(len(requests) - 1, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _of_batches(judge: Callable[[Sequence[tuple[int, bytes]]], Verdict]) -> Callable[[Sequence[Value]], Verdict]:
    return lambda requests: judge(list(batches_in(requests)))


PRODUCER_CHECKS: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    **TRANSACTIONS,
    "error-reported": _error_reported,
    "writes": _writes,
    "in-messages": in_messages,
    "retried": _of_batches(_retried),
    "writes-on": _of_batches(_writes_on),
    "retried-unchanged": _of_batches(_retried_unchanged),
    "sequence-numbers": _of_batches(_sequence_numbers),
    "no-loss": _of_batches(_no_loss),
}
"""The checks of producers."""
