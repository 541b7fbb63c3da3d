"""Judges what becomes of the transactions that a client writes in a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.cases.client_scenarios import ENDS, OF_CLIENTS, REFUSED
from conformance.cases.model import PASSED, Kind, Value, Verdict
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.definitions.request_frames import START, api_of
from conformance.judging.sent_requests import RECORDS, at, batches_in, body_in, named, triple

_STEPS = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")


def _ended(requests: Sequence[Value]) -> Verdict:
    """Judge whether a transaction that the broker was too busy for at first was written and committed all the same."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was sent")
    sent = {api_of(request["hex"]) for request in requests}
    missing = [name for name in _STEPS if name not in sent]
    if missing:
        detail = f"no {missing[0]} came, though what it was told passes"
        return at(len(requests) - 1, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))
    ends = _ends_in(requests)
    if any(commits for _, commits in ends):
        return PASSED
    detail = "the transaction is aborted, though the application commits it"
    return at(ends[-1][0], Verdict(Kind.FAIL, detail, "Body.Committed")) if ends else PASSED


def _ends_in(requests: Sequence[Value]) -> list[tuple[int, bool]]:
    """The index of each EndTxn that can be read, and whether it commits."""
    bodies = ((index, body_in(request["hex"], "EndTxn")) for index, request in enumerate(requests))
    return [(index, body["Committed"]) for index, body in bodies if body is not None]


def _ended_again(requests: Sequence[Value]) -> Verdict:
    """Judge whether the end of a transaction is asked for again, which was put off, or of which nothing is known."""
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    if not ends:
        return Verdict(Kind.SKIP, "unobserved: no EndTxn was sent")
    detail = "EndTxn is not sent again, where its end was put off, or the answer was lost"
    return PASSED if len(ends) > 1 else at(ends[0], Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _by_feature(requests: Sequence[Value]) -> Verdict:
    """Judge the versions in a transaction: higher ones are of other transactions, of which the broker tells."""
    sent = [(index, request["hex"], api_of(request["hex"])) for index, request in enumerate(requests)]
    judged = [(index, data, OF_CLIENTS[name]) for index, data, name in sent if name in OF_CLIENTS]
    for index, data, highest in judged:
        if START.unpack_from(data)[2] > highest:
            detail = f"{named(data)} in a transaction, where no transaction.version is told: {highest} at most"
            return at(index, Verdict(Kind.FAIL, detail, "Header.RequestApiVersion"))
    return PASSED if judged else Verdict(Kind.SKIP, "unobserved: nothing was sent in a transaction")


def _in_turn(requests: Sequence[Value]) -> Verdict:
    """Judge each transaction: its partition is added, its batches have their place, and it ends as it should."""
    if not any(batches_in(requests)):
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    return _unadded(requests) or _displaced(requests) or _ended_otherwise(requests) or PASSED


def _behind_refused(requests: Sequence[Value]) -> Verdict:
    """Judge what is written behind a batch which was refused for good: nobody has its sequences."""
    if len([*batches_in(requests)]) <= REFUSED + 1:
        return Verdict(Kind.SKIP, "unobserved: nothing was written behind the batch that was refused")
    return _displaced(requests, refused=REFUSED) or PASSED


def _unadded(requests: Sequence[Value]) -> Verdict | None:
    """Judge whether the partition is part of each transaction; from version 12 on Produce adds it."""
    is_added = False
    for index, request in enumerate(requests):
        name = api_of(request["hex"])
        is_added |= name == "AddPartitionsToTxn" or (name == "Produce" and _is_of_the_newer_kind(request["hex"]))
        if name == "Produce" and not is_added:
            detail = f"{named(request['hex'])} comes in a transaction that its partition was not added to"
            return at(index, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))
        is_added &= name != "EndTxn"
    return None


def _is_of_the_newer_kind(data: bytes) -> bool:
    """Whether a request is of the transactions that a broker tells of by the feature transaction.version."""
    return bool(START.unpack_from(data)[2] > OF_CLIENTS[api_of(data)])


def _displaced(requests: Sequence[Value], *, refused: int | None = None) -> Verdict | None:
    """Judge where batches stand: they go on in one epoch, and begin anew in the next; a refused one stands nowhere."""
    ends = [i for i, row in enumerate(requests) if api_of(row["hex"]) == "EndTxn" and _is_of_the_newer_kind(row["hex"])]
    taken: dict[tuple[int, int], list[bytes]] = {}
    since: dict[tuple[int, int], int] = {}
    for number, (index, batch) in enumerate(batches_in(requests)):
        if number == refused:
            continue
        producer = BATCH_LAYOUT.peek("producerId", batch), BATCH_LAYOUT.peek("producerEpoch", batch)
        kept, first = taken.setdefault(producer, []), BATCH_LAYOUT.peek("baseSequence", batch)
        begun = since.setdefault(producer, index)
        if any(begun < end < index for end in ends):
            detail = f"{triple((*producer, first))}, where the answer to EndTxn told another epoch"
            return at(index, Verdict(Kind.FAIL, detail, RECORDS))
        if first == len(kept):
            kept += [batch] * BATCH_LAYOUT.peek("recordCount", batch)
        elif first > len(kept):
            detail = f"{triple((*producer, first))}, where the sequence {len(kept)} is due"
            return at(index, Verdict(Kind.FAIL, detail, RECORDS))
        elif batch not in kept:
            detail = f"{triple((*producer, first))} is given to two batches, of which a broker drops the second"
            return at(index, Verdict(Kind.FAIL, detail, RECORDS))
    return None


def _ended_otherwise(requests: Sequence[Value]) -> Verdict | None:
    """Judge whether each transaction is committed or aborted as the application has it; one may be asked for again."""
    found = _ends_in(requests)
    told = ["commit" if committed else "abort" for _, committed in found]
    if told == [*ENDS]:
        return None
    detail = f"the transactions end by {', '.join(told) or 'nothing'}, where {', '.join(ENDS)} is due"
    return at(found[-1][0] if found else 0, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _unbegun(requests: Sequence[Value]) -> Verdict:
    """Judge whether a transaction is ended to which no partition was added."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was sent")
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    detail = "EndTxn is sent for a transaction without a record, which no broker knows of"
    return PASSED if not ends else at(ends[0], Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


TRANSACTIONS: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    "ended": _ended,
    "ended-again": _ended_again,
    "by-feature": _by_feature,
    "in-turn": _in_turn,
    "behind-refused": _behind_refused,
    "unbegun": _unbegun,
}
"""The checks of transactions."""
