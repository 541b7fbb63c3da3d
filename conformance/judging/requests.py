"""Judges what a client sent: each request by its definition, and by what the broker offered and the client was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from conformance import codec
from conformance.cases.conversations import PRODUCER, SENT, START, TOGETHER, api_of, frame_wire
from conformance.cases.encoding import is_free
from conformance.cases.model import PASSED, Kind, Sends, Value, Verdict
from conformance.codec.message_definition import type_name
from conformance.codec.notation import UNSHOWN, NotationError
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.definitions.shipped import shipped_types
from conformance.semantics.visibility import ISOLATIONS

_SIZE = "request.size"


def judge_sent(expect: Sends, given: object) -> Verdict:
    """Hold the requests that a client sent against what one check demands of them. Raises NotationError."""
    if given is None:
        raise NotationError("value: expected the requests that were sent")
    requests = SENT.parse(given)
    if any(UNSHOWN in (request.get("hex", UNSHOWN), request.get("inFlight", UNSHOWN)) for request in requests):
        raise NotationError("value: each request has hex, inFlight and offered")
    if expect.check in _WAYS_ON:
        return _WAYS_ON[expect.check](requests)
    if expect.check in _COURSES:
        return _COURSES[expect.check](list(_batches(requests)))
    judged = 0
    for index, request in enumerate(requests):
        if expect.of not in ("", api_of(request["hex"])):
            continue
        for flaw in _CHECKS[expect.check](request, expect):
            if flaw is not PASSED:
                return _at(index, flaw)
            judged += 1
    return PASSED if judged else Verdict(Kind.SKIP, f"unobserved: no {expect.of or 'such'} request was sent")


def flaws_of(request: Value) -> Iterator[str]:
    """The checks that a request does not stand, but for the isolation level, which each topic has its own."""
    for check in _CHECKS:
        if check != "isolated" and any(flaw is not PASSED for flaw in _CHECKS[check](request, Sends(check, ""))):
            yield check


def frame_at(answer: Mapping[str, Value], path: str) -> bytes:
    """The bytes of the request that the path of a verdict names."""
    index = int(path[1:].partition("]")[0])
    return bytes.fromhex(answer["value"][index]["hex"])


def _at(index: int, flaw: Verdict) -> Verdict:
    joint = "." if flaw.path else ""
    return Verdict(flaw.kind, flaw.detail, f"[{index}]{joint}{flaw.path}", flaw.requirement, flaw.level)


# --- checks -------------------------------------------------------------------------------------------
# Each yields one verdict on a request that it is about, and none on others.


def _framed(request: Value, _: Sends) -> Iterator[Verdict]:
    data: bytes = request["hex"]
    stated = int.from_bytes(data[:4], "big", signed=True)
    if len(data) >= START.size and stated == len(data) - 4:
        yield PASSED
    else:
        yield Verdict(Kind.FAIL, f"its size is {stated}, and {max(0, len(data) - 4)} bytes follow", "Size", _SIZE)


def _well_formed(request: Value, _: Sends) -> Iterator[Verdict]:
    """Judge by decoding and, where there is one encoding only, by encoding again."""
    data: bytes = request["hex"]
    wire = frame_wire(data)
    if wire is None:
        return
    read = codec.decode(wire, data)
    if read.violations:
        broken = read.violations[0]
        yield Verdict(Kind.FAIL, f"{_named(data)} breaks its definition: {broken}", requirement=broken.requirement)
    elif read.remarks:
        lapse = read.remarks[0]
        yield Verdict(
            Kind.FAIL,
            f"{_named(data)} can be read in more than one way: {lapse}",
            requirement=lapse.requirement,
            level="should",
        )
    else:
        yield _re_encoded(wire, data, read.value)
        yield from _well_formed_inside(data, read.value["Body"])


_INSIDE = {
    "JoinGroup": ("Protocols", "Metadata", "ConsumerProtocolSubscription"),
    "SyncGroup": ("Assignments", "Assignment", "ConsumerProtocolAssignment"),
}
"""The requests that hold bytes with a definition of their own: the array, the field of its elements, the message."""


def _well_formed_inside(data: bytes, body: Mapping[str, Value]) -> Iterator[Verdict]:
    """Judge what members of a group of consumers say to one another: a version, and a message in that."""
    array, name, message = _INSIDE.get(api_of(data), ("", "", ""))
    if body.get("ProtocolType") not in (None, "consumer"):
        return
    for index, element in enumerate(body.get(array, ())):
        version, valid = int.from_bytes(element[name][:2], "big", signed=True), shipped_types().messages[message].valid
        known = version if version in valid else valid.high  # so a reader takes one that is yet to come
        read = codec.decode(shipped_types().wire(type_name(message, known)), element[name][2:])
        if read.violations:
            broken, path = read.violations[0], f"Body.{array}[{index}].{name}"
            detail = f"{path} of {_named(data)} is no {message} {version}: {broken}"
            yield Verdict(Kind.FAIL, detail, path, broken.requirement)


def _re_encoded(wire: codec.Wire, data: bytes, value: Value) -> Verdict:
    written = wire.encode(value)
    if written == data or is_free(_body_of(data)):
        return PASSED
    # The size stands first: where one is a part of the other, that differs.
    at = next(at for at, pair in enumerate(zip(written, data, strict=False)) if pair[0] != pair[1])
    return Verdict(Kind.FAIL, f"{_named(data)} is not written as its definition says, from byte {at}", path=f"@{at}")


def _body_of(data: bytes) -> codec.Wire:
    return shipped_types().wire(type_name(f"{api_of(data)}Request", START.unpack_from(data)[2]))


def _offered(request: Value, _: Sends) -> Iterator[Verdict]:
    """Judge the version; that of ApiVersions, which tells a client what is offered, is free."""
    data, offered = request["hex"], request.get("offered")
    if len(data) < START.size or api_of(data) == "ApiVersions":
        return
    version = START.unpack_from(data)[2]
    if offered and offered[0] <= version <= offered[1]:
        yield PASSED
    elif offered:
        detail = f"{_named(data)}, where {offered[0]} to {offered[1]} is offered"
        yield Verdict(Kind.FAIL, detail, "Header.RequestApiVersion")
    else:
        yield Verdict(Kind.FAIL, f"{_named(data)}, which is not offered", "Header.RequestApiKey")


def _distinct(request: Value, _: Sends) -> Iterator[Verdict]:
    data = request["hex"]
    if len(data) < START.size:
        return
    number = START.unpack_from(data)[3]
    if number in request["inFlight"]:
        detail = "its correlation id is that of a request which is not answered yet"
        yield Verdict(Kind.FAIL, detail, "Header.CorrelationId")
    else:
        yield PASSED


def _isolated(request: Value, expect: Sends) -> Iterator[Verdict]:
    body = _fetch(request["hex"])
    if body is None:
        return
    level = body["IsolationLevel"]
    if level == ISOLATIONS.index(expect.isolation):
        yield PASSED
    else:
        yield Verdict(Kind.FAIL, f"isolation level {level} is asked for, not {expect.isolation}", "Body.IsolationLevel")


def _onward(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on: a Fetch begins behind the first offset, which only its records tell."""
    tagged = [index for index, request in enumerate(requests) if _is_flexible(request["hex"])]
    if any(_fetches_behind_the_first(request["hex"]) for request in requests):
        return PASSED if tagged else Verdict(Kind.SKIP, "unobserved: no answer had room for tagged fields")
    if not tagged:
        return Verdict(Kind.SKIP, "unobserved: no answer had room for tagged fields")
    named = _named(requests[tagged[0]]["hex"])
    detail = (
        f"no fetch goes on behind the first offset, where header and body of answers, as to {named}, hold unknown tags"
    )
    return _at(tagged[0], Verdict(Kind.FAIL, detail, "Header.RequestApiVersion"))


def _goes_on(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on, whatever the broker does."""
    if any(_fetches_behind_the_first(request["hex"]) for request in requests):
        return PASSED
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was sent")
    named = _named(requests[0]["hex"])
    detail = f"no fetch goes on behind the first offset, as where the broker answers in the usual way: it sent {named}"
    return _at(0, Verdict(Kind.FAIL, detail, "Header.RequestApiKey"))


def _in_session(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on inside a fetch session that it has, and numbered its fetches there."""
    fetches = [(index, body) for index, request in enumerate(requests) if (body := _fetch(request["hex"]))]
    asked = [(index, body) for index, body in fetches if body.get("SessionEpoch", -1) >= _OPENING]
    inside = [(index, body) for index, body in reversed(asked) if body["SessionId"]]  # the last ones come first
    last: dict[int, int] = {}
    for index, body in inside:
        number, epoch = body["SessionId"], body["SessionEpoch"]
        if epoch != last.get(number, epoch - 1) + 1:
            detail = f"epoch {epoch} follows epoch {last[number]} in fetch session {number}"
            return _at(index, Verdict(Kind.FAIL, detail, "Body.SessionEpoch"))
        last[number] = epoch
    if any(_is_behind_the_first(body) for _, body in inside):
        return PASSED
    if not asked or (not inside and any(_is_behind_the_first(body) for _, body in fetches)):
        return Verdict(Kind.SKIP, "unobserved: it has no fetch session")
    detail = "no fetch of a session goes on behind the first offset, where an answer holds only what is new"
    return _at(asked[0][0], Verdict(Kind.FAIL, detail, "Body.SessionEpoch"))


def _is_flexible(data: bytes) -> bool:
    if frame_wire(data) is None:
        return False
    return START.unpack_from(data)[2] in shipped_types().messages[f"{api_of(data)}Request"].flexible


def _fetches_behind_the_first(data: bytes) -> bool:
    body = _fetch(data)
    return body is not None and _is_behind_the_first(body)


def _is_behind_the_first(fetch: Mapping[str, Value]) -> bool:
    return any(part["FetchOffset"] > 0 for row in fetch["Topics"] for part in row["Partitions"])


def _fetch(data: bytes) -> Mapping[str, Value] | None:
    """The body of a request that is a sound Fetch."""
    wire = frame_wire(data) if api_of(data) == "Fetch" else None
    read = codec.decode(wire, data) if wire is not None else None
    return read.value["Body"] if read is not None and read.ok else None


_OPENING = 0
"""The epoch of a fetch that opens a session; those behind it count from 1 on, and -1 wants none."""

_WAYS_ON: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    "onward": _onward,
    "goes-on": _goes_on,
    "in-session": _in_session,
}


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


def _repeated(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the second of them: it is the first once more, which was refused."""
    if len(batches) < 2:
        return Verdict(Kind.SKIP, "unobserved: what was refused was not written again")
    (_, first), (index, second) = batches[:2]
    if first == second:
        return PASSED
    at = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first))
    detail = f"what is written again is not what was refused: it differs from byte {at} of the batch"
    return _at(index, Verdict(Kind.FAIL, detail, _RECORDS))


def _in_sequence(batches: Sequence[tuple[int, bytes]]) -> Verdict:
    """Judge the producer id, epoch and sequence of each; one that comes again has those that it had."""
    if not batches:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    due, last = 0, b""
    for index, batch in batches:
        due = due if batch != last else due - BATCH_LAYOUT.peek("recordCount", last)
        found = tuple(BATCH_LAYOUT.peek(name, batch) for name in ("producerId", "producerEpoch", "baseSequence"))
        if found != (*PRODUCER, due):
            return _at(
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
            return _at(index, Verdict(Kind.FAIL, detail, _RECORDS))
    if sum(map(len, taken.values())) >= TOGETHER:
        return PASSED
    if early is None:
        return Verdict(Kind.SKIP, "unobserved: nothing was written behind what was refused")
    index, producer = early
    detail = f"{_triple((*producer, len(taken[producer])))} never comes, and what is behind it does"
    return _at(index, Verdict(Kind.FAIL, detail, _RECORDS))


def _triple(producer: Sequence[int]) -> str:
    return "producer id {}, epoch {}, sequence {}".format(*producer)


_COURSES: Mapping[str, Callable[[Sequence[tuple[int, bytes]]], Verdict]] = {
    "repeated": _repeated,
    "in-sequence": _in_sequence,
    "in-order": _in_order,
}

_CHECKS: Mapping[str, Callable[[Value, Sends], Iterator[Verdict]]] = {
    "framed": _framed,
    "well-formed": _well_formed,
    "offered": _offered,
    "distinct": _distinct,
    "isolated": _isolated,
}


def _named(data: bytes) -> str:
    """The request and its version, as a message of the suite names it."""
    _, key, version, _ = START.unpack_from(data)
    return f"{api_of(data) or f'API {key}'} {version}"
