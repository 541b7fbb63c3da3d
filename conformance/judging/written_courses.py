"""Judges what becomes of the batches that a client writes in a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.cases.client_requests import COUNTS, PRODUCER, TOGETHER
from conformance.cases.model import PASSED, Kind, Value, Verdict
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.judging.sent_requests import RECORDS, at, batches_in, named, triple
from conformance.judging.written_messages import in_messages
from conformance.judging.written_transactions import TRANSACTIONS

# Most look at the batches that Produce brought, in order, with the index of their request.


def _again(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge whether what was refused for the moment is written again, at all."""
    if len(batches) > 1:
        return PASSED
    if not batches:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    return at(batches[0][0], Verdict(Kind.FAIL, "what was refused by error 56 is not written again", RECORDS))


def _writes_on(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge whether the second batch comes, which waits until the first one is written, at the node that leads then."""
    if not batches:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    first, *others = (BATCH_LAYOUT.peek("recordCount", batch) for _, batch in batches)
    if first >= sum(COUNTS):
        return Verdict(Kind.SKIP, "unobserved: the client writes all records in one batch")
    if any(count != first for count in others):
        return PASSED
    times = f"it was sent {len(batches)} times" if others else "it was sent once"
    detail = f"the first batch is not taken for written at the node that leads now, and none comes behind it: {times}"
    return at(batches[-1][0], Verdict(Kind.FAIL, detail, RECORDS))


def _writes(requests: Sequence[Value]) -> Verdict:
    """Judge whether all records come that the application gave."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was sent")
    found = sum(BATCH_LAYOUT.peek("recordCount", batch) for batch in {batch for _, batch in batches_in(requests)})
    detail = f"{found} of {sum(COUNTS)} records are written"
    last = len(requests) - 1
    return PASSED if found >= sum(COUNTS) else at(last, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _repeated(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the second of them: it is the first once more, which was refused."""
    if len(batches) < 2:
        return Verdict(Kind.SKIP, "unobserved: what was refused was not written again")
    (_, first), (index, second) = batches[:2]
    if first == second:
        return PASSED
    other = (place for place, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
    detail = (
        f"what is written again is not what was refused: it differs from byte {next(other, len(first))} of the batch"
    )
    return at(index, Verdict(Kind.FAIL, detail, RECORDS))


def _in_sequence(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the producer id, epoch and sequence of each; one that comes again has those that it had."""
    if not batches:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    due, last = 0, b""
    for index, batch in batches:
        due = due if batch != last else due - BATCH_LAYOUT.peek("recordCount", last)
        found = tuple(BATCH_LAYOUT.peek(name, batch) for name in ("producerId", "producerEpoch", "baseSequence"))
        if found != (*PRODUCER, due):
            return at(index, Verdict(Kind.FAIL, f"{triple(found)}, where {triple((*PRODUCER, due))} is due", RECORDS))
        due, last = due + BATCH_LAYOUT.peek("recordCount", batch), batch
    return PASSED


def _in_order(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge what a broker has in the end that refuses the first batch once, and then what does not follow.

    A batch may come early: who sends on without waiting does not know yet that the one before it was refused. Who asks
    for a producer id once more counts anew.
    """
    taken: dict[tuple[int, int], list[bytes]] = {}
    early: tuple[int, tuple[int, int]] | None = None
    for index, batch in batches[1:]:
        producer = BATCH_LAYOUT.peek("producerId", batch), BATCH_LAYOUT.peek("producerEpoch", batch)
        kept, first = taken.setdefault(producer, []), BATCH_LAYOUT.peek("baseSequence", batch)
        if first == len(kept):
            kept += [batch] * BATCH_LAYOUT.peek("recordCount", batch)
        elif first > len(kept):
            early = index, producer
        elif batch not in kept:
            detail = f"{triple((*producer, first))} is given to two batches, of which a broker drops the second"
            return at(index, Verdict(Kind.FAIL, detail, RECORDS))
    if sum(map(len, taken.values())) >= TOGETHER:
        return PASSED
    if early is None:
        return Verdict(Kind.SKIP, "unobserved: nothing was written behind what was refused")
    index, producer = early
    detail = f"{triple((*producer, len(taken[producer])))} never comes, and what is behind it does"
    # No document demands that a producer tries again; one that does not has to stop, and is told so here.
    return at(index, Verdict(Kind.FAIL, detail, RECORDS, level="should"))


def _tells(requests: Sequence[Value]) -> Verdict:
    """Judge a producer that said nothing of an error, with which these requests were answered each time."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: no such request was sent")
    last = named(requests[-1]["hex"])
    detail = f"the application is told that all went well, where {last} was answered with an error that stays"
    return at(len(requests) - 1, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _of_batches(judge: Callable[[Sequence[tuple[int, bytes]]], Verdict]) -> Callable[[Sequence[Value]], Verdict]:
    return lambda requests: judge(list(batches_in(requests)))


WRITTEN: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    **TRANSACTIONS,
    "tells": _tells,
    "writes": _writes,
    "in-messages": in_messages,
    "again": _of_batches(_again),
    "writes-on": _of_batches(_writes_on),
    "repeated": _of_batches(_repeated),
    "in-sequence": _of_batches(_in_sequence),
    "in-order": _of_batches(_in_order),
}
"""The checks of what is written."""
