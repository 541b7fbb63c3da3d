"""Judges the course of a conversation: whether a client goes on, and what becomes of the batches that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from conformance import codec
from conformance.cases.conversations import GATHERED, HOLLOW, PLACE, PRODUCER, START, TOGETHER, api_of, frame_wire
from conformance.cases.model import PASSED, Kind, Value, Verdict
from conformance.codec.message_definition import type_name
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.definitions.shipped import shipped_types


def at(index: int, flaw: Verdict) -> Verdict:
    """The verdict on a request, by its place among those that were sent."""
    joint = "." if flaw.path else ""
    return Verdict(flaw.kind, flaw.detail, f"[{index}]{joint}{flaw.path}", flaw.requirement, flaw.level)


def _onward(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on: a Fetch begins behind the first offset, which only its records tell."""
    tagged = [index for index, request in enumerate(requests) if _is_flexible(request["hex"])]
    if any(_fetches_behind_the_first(request["hex"]) for request in requests):
        return PASSED if tagged else Verdict(Kind.SKIP, "unobserved: no answer had room for tagged fields")
    if not tagged:
        return Verdict(Kind.SKIP, "unobserved: no answer had room for tagged fields")
    to = f"where header and body of answers, as to {named(requests[tagged[0]]['hex'])}, hold unknown tags"
    detail = f"no fetch goes on behind the first offset, {to}"
    return at(tagged[0], Verdict(Kind.FAIL, detail, "Header.RequestApiVersion"))


def _goes_on(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on, whatever the broker does."""
    if any(_fetches_behind_the_first(request["hex"]) for request in requests):
        return PASSED
    return _stays(requests, "the first offset, as where the broker answers in the usual way")


def _stays(requests: Sequence[Value], where: str) -> Verdict:
    """The verdict on a client that does not go on behind a place; none on one that sent nothing."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was sent")
    detail = f"no fetch goes on behind {where}: it sent {named(requests[0]['hex'])}"
    return at(0, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _waits(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on, and only once a fetch of the first offset could bring what stands there."""
    bodies = [(index, body) for index, request in enumerate(requests) if (body := fetch_in(request["hex"]))]
    behind = [index for index, body in bodies if _is_behind_the_first(body)]
    at_first = len(bodies) - len(behind)
    if not behind or at_first > HOLLOW:
        return _goes_on(requests)
    detail = f"{at_first} fetches of the first offset brought nothing, and the next one passes over what stands there"
    return at(behind[-1], Verdict(Kind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))


def _keeps(requests: Sequence[Value]) -> Verdict:
    """Judge the last topic: each fetch brings one record, and that of the place was refused before it is fetched."""
    places = [
        (index, row.get("Topic", row.get("TopicId")), part["FetchOffset"])
        for index, request in [*enumerate(requests)][::-1]  # the last ones come first
        for row in (fetch_in(request["hex"]) or {"Topics": ()})["Topics"]
        for part in row["Partitions"]
    ]
    of_last = [(index, offset) for index, topic, offset in places if topic == places[-1][1]]
    behind = next((number for number, (_, offset) in enumerate(of_last) if offset > PLACE), None)
    if behind is None:
        return _stays(requests, f"offset {PLACE}, from which on another node leads")
    index, offset = of_last[behind]
    if offset == PLACE + 1 and sum(before == PLACE for _, before in of_last[:behind]) > 1:
        return PASSED
    detail = f"the fetch behind the move begins at {offset}, where {PLACE} is due: it was refused when the leader moved"
    return at(index, Verdict(Kind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))


def _follows(requests: Sequence[Value]) -> Verdict:
    """Judge whether a client went on that names its rack: no other one is sent to another replica."""
    if any(body.get("RackId") for request in requests if (body := fetch_in(request["hex"]))):
        return _goes_on(requests)
    return Verdict(Kind.SKIP, "unobserved: it names no rack")


def _in_session(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on inside a fetch session that it has, and numbered its fetches there."""
    fetches = [(index, body) for index, request in enumerate(requests) if (body := fetch_in(request["hex"]))]
    asked = [(index, body) for index, body in fetches if body.get("SessionEpoch", -1) >= _OPENING]
    numbered = [(index, body) for index, body in asked if body["SessionId"] and body["SessionEpoch"] != _OPENING]
    inside = numbered[::-1]  # the last ones come first
    last: dict[int, int] = {}
    for index, body in inside:
        number, epoch = body["SessionId"], body["SessionEpoch"]
        if epoch != last.get(number, epoch - 1) + 1:
            detail = f"epoch {epoch} follows epoch {last[number]} in fetch session {number}"
            return at(index, Verdict(Kind.FAIL, detail, "Body.SessionEpoch"))
        last[number] = epoch
    if any(_is_behind_the_first(body) for _, body in inside):
        return PASSED
    if not asked or (len(asked) <= _MET and any(_is_behind_the_first(body) for _, body in fetches)):
        return Verdict(Kind.SKIP, "unobserved: it has no fetch session")
    detail = "no fetch of a session goes on behind the first offset, where an answer holds only what is new"
    if not inside:
        detail = "each fetch opens another session, and none is in the one that an answer told"
    return at(asked[0][0], Verdict(Kind.FAIL, detail, "Body.SessionEpoch"))


def _commits(requests: Sequence[Value]) -> Verdict:
    """Judge what is committed, where an application was handed a record at offset 0 and perhaps the next; no epoch."""
    found = [
        (index, body.get("RetentionTimeMs", _UNSAID), part)
        for index, request in enumerate(requests)
        if (body := body_in(request["hex"], "OffsetCommit")) is not None
        for row in body["Topics"]
        for part in row["Partitions"]
    ]
    if not found:
        return Verdict(Kind.SKIP, "unobserved: no offset was committed")
    path = "Body.Topics[0].Partitions[0]"
    for index, kept, part in found:
        offset, epoch = part["CommittedOffset"], part.get("CommittedLeaderEpoch", _UNSAID)
        if offset not in (0, 1, 2):
            detail = f"offset {offset} is committed, behind records at 0 and 1"
            return at(index, Verdict(Kind.FAIL, detail, f"{path}.CommittedOffset"))
        if epoch not in (_UNSAID, 0 if offset > 1 else _UNSAID):  # the second record is in a batch of epoch 0
            detail = f"the epoch {epoch} is committed, where the record that was read has none: -1 is due"
            return at(index, Verdict(Kind.FAIL, detail, f"{path}.CommittedLeaderEpoch"))
        if kept != _UNSAID:
            detail = f"a commit is to be kept for {kept} ms, where the application says nothing of that: -1 is due"
            return at(index, Verdict(Kind.FAIL, detail, "Body.RetentionTimeMs"))
    index, _, last = found[-1]
    detail = "offset 0 is committed, where 1 is read next"
    return PASSED if last["CommittedOffset"] else at(index, Verdict(Kind.FAIL, detail, f"{path}.CommittedOffset"))


_UNSAID = -1


def _shares(requests: Sequence[Value]) -> Verdict:
    """Judge what a leader of two members assigns in the end: the only partition there is, to one member alone."""
    wire = shipped_types().wire(type_name("ConsumerProtocolAssignment", 0))
    for index, request in [*enumerate(requests)][::-1]:
        body = body_in(request["hex"], "SyncGroup")
        if body is None or body["GenerationId"] > GATHERED or not body["Assignments"]:
            continue
        read = [codec.decode(wire, row["Assignment"][2:]) for row in body["Assignments"] if row["Assignment"]]
        if any(one.violations for one in read):
            return Verdict(Kind.SKIP, "unobserved: an assignment cannot be read")
        times = sum(len(row["Partitions"]) for one in read for row in one.value["AssignedPartitions"])
        detail = f"the only partition is assigned {times} times among {len(body['Assignments'])} members"
        return PASSED if times == 1 else at(index, Verdict(Kind.FAIL, detail, "Body.Assignments"))
    joins = [index for index, request in enumerate(requests) if body_in(request["hex"], "JoinGroup") is not None]
    if not joins:
        return Verdict(Kind.SKIP, "unobserved: it joins no group")
    return at(joins[0], Verdict(Kind.FAIL, "it leads two members, and assigns nothing", "Body.Protocols"))


def _is_flexible(data: bytes) -> bool:
    if frame_wire(data) is None:
        return False
    return START.unpack_from(data)[2] in shipped_types().messages[f"{api_of(data)}Request"].flexible


def _fetches_behind_the_first(data: bytes) -> bool:
    body = fetch_in(data)
    return body is not None and _is_behind_the_first(body)


def _is_behind_the_first(fetch: Mapping[str, Value]) -> bool:
    return any(part["FetchOffset"] > 0 for row in fetch["Topics"] for part in row["Partitions"])


def fetch_in(data: bytes) -> Mapping[str, Value] | None:
    """The body of a request that is a sound Fetch."""
    return body_in(data, "Fetch")


def body_in(data: bytes, name: str) -> Mapping[str, Value] | None:
    """The body of a request that is a sound one of this name."""
    wire = frame_wire(data) if api_of(data) == name else None
    read = codec.decode(wire, data) if wire is not None else None
    return read.value["Body"] if read is not None and read.ok else None


_MET = 2
"""Times that a client is met at most in a conversation, in each of which it may open a session."""
_OPENING = 0
"""The epoch of a fetch that opens a session; those behind it count from 1 on, and -1 wants none."""


# Each looks at the batches that Produce brought, in order, with the index of their request.


def _batches(requests: Sequence[Value]) -> Iterator[tuple[int, bytes]]:
    """The batches that were written, without the leader epoch, which is the broker's."""
    for index, request in enumerate(requests):
        wire = frame_wire(request["hex"]) if api_of(request["hex"]) == "Produce" else None
        read = codec.decode(wire, request["hex"]) if wire is not None else None
        if read is not None and read.ok:
            for row in read.value["Body"]["TopicData"]:
                for part in row["PartitionData"]:
                    yield index, BATCH_LAYOUT.put("partitionLeaderEpoch", part["Records"] or b"", -1)


_RECORDS = "Body.TopicData[0].PartitionData[0].Records"


def _again(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge whether what was refused for the moment is written again, at all."""
    if len(batches) > 1:
        return PASSED
    if not batches:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    return at(batches[0][0], Verdict(Kind.FAIL, "what was refused by error 56 is not written again", _RECORDS))


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
    return at(index, Verdict(Kind.FAIL, detail, _RECORDS))


def _in_sequence(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the producer id, epoch and sequence of each; one that comes again has those that it had."""
    if not batches:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    due, last = 0, b""
    for index, batch in batches:
        due = due if batch != last else due - BATCH_LAYOUT.peek("recordCount", last)
        found = tuple(BATCH_LAYOUT.peek(name, batch) for name in ("producerId", "producerEpoch", "baseSequence"))
        if found != (*PRODUCER, due):
            return at(
                index, Verdict(Kind.FAIL, f"{_triple(found)}, where {_triple((*PRODUCER, due))} is due", _RECORDS)
            )
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
            detail = f"{_triple((*producer, first))} is given to two batches, of which a broker drops the second"
            return at(index, Verdict(Kind.FAIL, detail, _RECORDS))
    if sum(map(len, taken.values())) >= TOGETHER:
        return PASSED
    if early is None:
        return Verdict(Kind.SKIP, "unobserved: nothing was written behind what was refused")
    index, producer = early
    detail = f"{_triple((*producer, len(taken[producer])))} never comes, and what is behind it does"
    # No document demands that a producer tries again; one that does not has to stop, and is told so here.
    return at(index, Verdict(Kind.FAIL, detail, _RECORDS, level="should"))


_STEPS = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")


def _ended(requests: Sequence[Value]) -> Verdict:
    """Judge whether a transaction that the broker was too busy for at first was written and committed all the same."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was sent")
    sent = {api_of(request["hex"]) for request in requests}
    missing = [name for name in _STEPS if name not in sent]
    if not missing:
        return PASSED
    detail = f"no {missing[0]} came, though the error that it was told passes"
    return at(len(requests) - 1, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _ended_again(requests: Sequence[Value]) -> Verdict:
    """Judge whether the end of a transaction is asked for again, which was refused for the moment."""
    ends = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "EndTxn"]
    if not ends:
        return Verdict(Kind.SKIP, "unobserved: no EndTxn was sent")
    detail = "EndTxn is not sent again, after error 51 to it"
    return PASSED if len(ends) > 1 else at(ends[0], Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _tells(requests: Sequence[Value]) -> Verdict:
    """Judge a producer that said nothing of an error, with which these requests were answered each time."""
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: no such request was sent")
    last = named(requests[-1]["hex"])
    detail = f"the application is told that all went well, where {last} was answered with an error that stays"
    return at(len(requests) - 1, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _triple(producer: Sequence[int]) -> str:
    return "producer id {}, epoch {}, sequence {}".format(*producer)


def _of_batches(judge: Callable[[Sequence[tuple[int, bytes]]], Verdict]) -> Callable[[Sequence[Value]], Verdict]:
    return lambda requests: judge(list(_batches(requests)))


COURSES: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    "onward": _onward,
    "goes-on": _goes_on,
    "waits": _waits,
    "keeps": _keeps,
    "in-session": _in_session,
    "follows": _follows,
    "commits": _commits,
    "shares": _shares,
    "ended": _ended,
    "ended-again": _ended_again,
    "tells": _tells,
    "again": _of_batches(_again),
    "repeated": _of_batches(_repeated),
    "in-sequence": _of_batches(_in_sequence),
    "in-order": _of_batches(_in_order),
}
"""The checks of which all requests of a conversation tell together."""


def named(data: bytes) -> str:
    """The request and its version, as a message of the suite names it."""
    _, key, version, _ = START.unpack_from(data)
    return f"{api_of(data) or f'API {key}'} {version}"
