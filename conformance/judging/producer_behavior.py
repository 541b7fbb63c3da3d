"""Judges what becomes of the batches that a client writes in a scenario."""

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
from conformance.judging.sent_requests import RECORDS, at_request, batches_in, body_in, producer_text, request_name


def in_messages(requests: Sequence[Value]) -> Verdict:
    """Judge what is written to a broker that knows no batches: sound sets of messages, with all that was given."""
    due = {
        (record["key"], record["value"]): record["timestamp"] for record in batches_for("messages-none")[0]["records"]
    }
    found: set[tuple[bytes, bytes]] = set()
    index = 0
    for index, request in enumerate(requests):
        body = body_in(request["hex"], "Produce") or {"TopicData": ()}
        for data in [part["Records"] or b"" for row in body["TopicData"] for part in row["PartitionData"]]:
            flaw, messages = _flaw_of_messages(data)
            if flaw is not None:
                return at_request(index, flaw)
            for message in messages:
                name = message["key"], message["value"]
                if name not in due or (message["magic"] and message["timestamp"] < due[name]):
                    return at_request(
                        index, Verdict(VerdictKind.FAIL, "a message is written that nobody gave", RECORDS)
                    )
                found.add(name)
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written")
    detail = f"{len(found)} of {len(due)} records are written"
    return PASSED if len(found) == len(due) else at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))


_APART = 20
"""Bits of the offsets of messages in one entry at most."""


def _flaw_of_messages(data: bytes) -> tuple[Verdict | None, Sequence[Value]]:
    """What is wrong with a set of messages as a producer writes it, if anything, and the messages.

    The offsets of its entries are free: a broker gives them others, as is done here.
    """
    if any(stored_magic(data, start) > 1 for start, _ in extents(data)):
        return Verdict(VerdictKind.FAIL, "a batch is written, where messages alone are known", RECORDS), ()
    given = ((place << _APART).to_bytes(8, "big") for place in count(1))
    kept = (offset + data[start + 8 : end] for offset, (start, end) in zip(given, extents(data), strict=False))
    read = codec.decode("LOG", b"".join(kept), trail=True)
    for rank, broken in (("", read.violations), ("should", read.remarks)):
        if broken:
            return Verdict(
                VerdictKind.FAIL, f"no set of messages: {broken[0]}", RECORDS, broken[0].requirement, rank
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
            return Verdict(VerdictKind.FAIL, f"the offsets in a wrapper are {counted}, not 0 and on", RECORDS, rule), ()
    messages = [message for entry in entries for message in entry["messages"]]
    if any(message.get("timestampType") for message in messages):
        rule = "legacy.producer-timestamp-type-zero"
        return Verdict(VerdictKind.FAIL, "a producer says that the broker gave the time", RECORDS, rule), ()
    return None, messages


_STEPS = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")


def _ended(requests: Sequence[Value]) -> Verdict:
    """Judge whether a transaction that the broker was too busy for at first was written and committed all the same."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was sent")
    sent = {api_of(request["hex"]) for request in requests}
    missing = [name for name in _STEPS if name not in sent]
    if missing:
        detail = f"no {missing[0]} came, though what it was told passes"
        return at_request(len(requests) - 1, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
    ends = _ends_in(requests)
    if any(commits for _, commits in ends):
        return PASSED
    detail = "the transaction is aborted, though the application commits it"
    return at_request(ends[-1][0], Verdict(VerdictKind.FAIL, detail, "Body.Committed")) if ends else PASSED


def _ends_in(requests: Sequence[Value]) -> list[tuple[int, bool]]:
    """The index of each EndTxn that can be read, and whether it commits."""
    bodies = ((index, body_in(request["hex"], "EndTxn")) for index, request in enumerate(requests))
    return [(index, body["Committed"]) for index, body in bodies if body is not None]


def _ended_again(requests: Sequence[Value]) -> Verdict:
    """Judge whether the end of a transaction is asked for again, which was put off, or of which nothing is known."""
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    if not ends:
        return Verdict(VerdictKind.SKIP, "unobserved: no EndTxn was sent")
    detail = "EndTxn is not sent again, where its end was put off, or the answer was lost"
    return PASSED if len(ends) > 1 else at_request(ends[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _by_feature(requests: Sequence[Value]) -> Verdict:
    """Judge the versions in a transaction: higher ones are of other transactions, of which the broker tells."""
    sent = [(index, request["hex"], api_of(request["hex"])) for index, request in enumerate(requests)]
    judged = [
        (index, data, MAX_VERSION_WITHOUT_TV2[name]) for index, data, name in sent if name in MAX_VERSION_WITHOUT_TV2
    ]
    for index, data, highest in judged:
        if START.unpack_from(data)[2] > highest:
            detail = f"{request_name(data)} in a transaction, where no transaction.version is told: {highest} at most"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiVersion"))
    return PASSED if judged else Verdict(VerdictKind.SKIP, "unobserved: nothing was sent in a transaction")


def _in_turn(requests: Sequence[Value]) -> Verdict:
    """Judge each transaction: its partition is added, its batches have their place, and it ends as it should."""
    if not any(batches_in(requests)):
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written")
    return (
        _partition_not_added(requests) or _sequence_violation(requests) or _wrong_transaction_result(requests) or PASSED
    )


def _sequence_after_fatal_error(requests: Sequence[Value]) -> Verdict:
    """Judge what is written behind a batch which was refused for good: nobody has its sequences."""
    if len([*batches_in(requests)]) <= FATAL_ERROR_BATCH + 1:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written behind the batch that was refused")
    return _sequence_violation(requests, refused=FATAL_ERROR_BATCH) or PASSED


def _partition_not_added(requests: Sequence[Value]) -> Verdict | None:
    """Judge whether the partition is part of each transaction; from version 12 on Produce adds it."""
    is_added = False
    for index, request in enumerate(requests):
        name = api_of(request["hex"])
        is_added |= name == "AddPartitionsToTxn" or (name == "Produce" and _is_of_the_newer_kind(request["hex"]))
        if name == "Produce" and not is_added:
            detail = f"{request_name(request['hex'])} comes in a transaction that its partition was not added to"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
        is_added &= name != "EndTxn"
    return None


def _is_of_the_newer_kind(data: bytes) -> bool:
    """Whether a request is of the transactions that a broker tells of by the feature transaction.version."""
    return bool(START.unpack_from(data)[2] > MAX_VERSION_WITHOUT_TV2[api_of(data)])


def _sequence_violation(requests: Sequence[Value], *, refused: int | None = None) -> Verdict | None:
    """Judge where batches stand: they go on in one epoch, and begin anew in the next; a refused one stands nowhere."""
    ends = [i for i, row in enumerate(requests) if api_of(row["hex"]) == "EndTxn" and _is_of_the_newer_kind(row["hex"])]
    taken: dict[tuple[int, int], list[bytes]] = {}
    since: dict[tuple[int, int], int] = {}
    for number, (index, batch) in enumerate(batches_in(requests)):
        if number == refused:
            continue
        producer = BATCH_LAYOUT.read_field("producerId", batch), BATCH_LAYOUT.read_field("producerEpoch", batch)
        kept, first = taken.setdefault(producer, []), BATCH_LAYOUT.read_field("baseSequence", batch)
        begun = since.setdefault(producer, index)
        if any(begun < end < index for end in ends):
            detail = f"{producer_text((*producer, first))}, where the answer to EndTxn told another epoch"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
        if first == len(kept):
            kept += [batch] * BATCH_LAYOUT.read_field("recordCount", batch)
        elif first > len(kept):
            detail = f"{producer_text((*producer, first))}, where the sequence {len(kept)} is due"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
        elif batch not in kept:
            detail = f"{producer_text((*producer, first))} is given to two batches, of which a broker drops the second"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
    return None


def _wrong_transaction_result(requests: Sequence[Value]) -> Verdict | None:
    """Judge whether each transaction is committed or aborted as the application has it; one may be asked for again."""
    found = _ends_in(requests)
    told = ["commit" if committed else "abort" for _, committed in found]
    if told == [*TRANSACTION_RESULTS]:
        return None
    detail = f"the transactions end by {', '.join(told) or 'nothing'}, where {', '.join(TRANSACTION_RESULTS)} is due"
    return at_request(found[-1][0] if found else 0, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _empty_end_txn(requests: Sequence[Value]) -> Verdict:
    """Judge whether a transaction is ended to which no partition was added."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was sent")
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    detail = "EndTxn is sent for a transaction without a record, which no broker knows of"
    return PASSED if not ends else at_request(ends[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


TRANSACTIONS: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    "ended": _ended,
    "ended-again": _ended_again,
    "transaction-version": _by_feature,
    "transaction-complete": _in_turn,
    "sequence-after-fatal-error": _sequence_after_fatal_error,
    "no-empty-end-txn": _empty_end_txn,
}
"""The checks of transactions."""


# Most look at the batches that Produce brought, in order, with the index of their request.


def _retried(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge whether what was refused for the moment is written again, at all."""
    if len(batches) > 1:
        return PASSED
    if not batches:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written")
    return at_request(
        batches[0][0], Verdict(VerdictKind.FAIL, "what was refused by error 56 is not written again", RECORDS)
    )


def _writes_on(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge whether the second batch comes, which waits until the first one is written, at the node that leads then."""
    if not batches:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written")
    first, *others = (BATCH_LAYOUT.read_field("recordCount", batch) for _, batch in batches)
    if first >= sum(COUNTS):
        return Verdict(VerdictKind.SKIP, "unobserved: the client writes all records in one batch")
    if any(count != first for count in others):
        return PASSED
    times = f"it was sent {len(batches)} times" if others else "it was sent once"
    detail = f"the first batch is not taken for written at the node that leads now, and none comes behind it: {times}"
    return at_request(batches[-1][0], Verdict(VerdictKind.FAIL, detail, RECORDS))


def _writes(requests: Sequence[Value]) -> Verdict:
    """Judge whether all records come that the application gave."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was sent")
    found = sum(BATCH_LAYOUT.read_field("recordCount", batch) for batch in {batch for _, batch in batches_in(requests)})
    detail = f"{found} of {sum(COUNTS)} records are written"
    last = len(requests) - 1
    return (
        PASSED if found >= sum(COUNTS) else at_request(last, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
    )


def _retried_unchanged(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the second of them: it is the first once more, which was refused."""
    if len(batches) < 2:
        return Verdict(VerdictKind.SKIP, "unobserved: what was refused was not written again")
    (_, first), (index, second) = batches[:2]
    if first == second:
        return PASSED
    other = (place for place, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
    detail = (
        f"what is written again is not what was refused: it differs from byte {next(other, len(first))} of the batch"
    )
    return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))


def _sequence_numbers(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the producer id, epoch and sequence of each; one that comes again has those that it had."""
    if not batches:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written")
    due, last = 0, b""
    for index, batch in batches:
        due = due if batch != last else due - BATCH_LAYOUT.read_field("recordCount", last)
        found = tuple(BATCH_LAYOUT.read_field(name, batch) for name in ("producerId", "producerEpoch", "baseSequence"))
        if found != (*PRODUCER, due):
            return at_request(
                index,
                Verdict(
                    VerdictKind.FAIL, f"{producer_text(found)}, where {producer_text((*PRODUCER, due))} is due", RECORDS
                ),
            )
        due, last = due + BATCH_LAYOUT.read_field("recordCount", batch), batch
    return PASSED


def _no_loss(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge what a broker has in the end that refuses the first batch once, and then what does not follow.

    A batch may come early: who sends on without waiting does not know yet that the one before it was refused. Who asks
    for a producer id once more counts anew.
    """
    taken: dict[tuple[int, int], list[bytes]] = {}
    early: tuple[int, tuple[int, int]] | None = None
    for index, batch in batches[1:]:
        producer = BATCH_LAYOUT.read_field("producerId", batch), BATCH_LAYOUT.read_field("producerEpoch", batch)
        kept, first = taken.setdefault(producer, []), BATCH_LAYOUT.read_field("baseSequence", batch)
        if first == len(kept):
            kept += [batch] * BATCH_LAYOUT.read_field("recordCount", batch)
        elif first > len(kept):
            early = index, producer
        elif batch not in kept:
            detail = f"{producer_text((*producer, first))} is given to two batches, of which a broker drops the second"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS))
    if sum(map(len, taken.values())) >= TOGETHER:
        return PASSED
    if early is None:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was written behind what was refused")
    index, producer = early
    detail = f"{producer_text((*producer, len(taken[producer])))} never comes, and what is behind it does"
    # No document demands that a producer tries again; one that does not has to stop, and is told so here.
    return at_request(index, Verdict(VerdictKind.FAIL, detail, RECORDS, level="should"))


def _error_reported(requests: Sequence[Value]) -> Verdict:
    """Judge a producer that said nothing of an error, with which these requests were answered each time."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no such request was sent")
    last = request_name(requests[-1]["hex"])
    detail = f"the application is told that all went well, where {last} was answered with an error that stays"
    return at_request(len(requests) - 1, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _of_batches(judge: Callable[[Sequence[tuple[int, bytes]]], Verdict]) -> Callable[[Sequence[Value]], Verdict]:
    return lambda requests: judge(list(batches_in(requests)))


WRITTEN: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
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
"""The checks of what is written."""
