"""Judges what a client sent: each request by its definition, and by what the broker offered and the client was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from conformance import codec
from conformance.cases.client_scenarios import LATEST
from conformance.cases.encode import is_free
from conformance.cases.model import PASSED, ExpectClientRequests, Value, Verdict, VerdictKind
from conformance.codec.json_notation import NotationError
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import SENT, START, api_of, frame_wire
from conformance.judging.consumer_behavior import COURSES
from conformance.judging.sent_requests import at_request, body_in, fetch_in, request_name
from conformance.semantics.consumer_view import ISOLATIONS

_SIZE = "request.size"


def judge_sent(expect: ExpectClientRequests, given: object) -> Verdict:
    """Hold the requests that a client sent against what one check demands of them. Raises NotationError."""
    requests = SENT.parse(given)
    if not all(map(_is_whole, requests)):
        raise NotationError("value: each request has hex, inFlight and offered, which is null or two versions")
    if expect.check in COURSES:
        return COURSES[expect.check](requests)
    is_judged = False
    for index, request in enumerate(requests):
        if expect.request not in ("", api_of(request["hex"])):
            continue
        for flaw in _CHECKS[expect.check](request, expect):
            if flaw is not PASSED:
                return at_request(index, flaw)
            is_judged = True
    return (
        PASSED
        if is_judged
        else Verdict(VerdictKind.SKIP, f"unobserved: no {expect.request or 'such'} request was sent")
    )


def _is_whole(request: Value) -> bool:
    """Whether a request that was told of can be judged."""
    match request:
        case {"hex": bytes(), "inFlight": tuple()}:
            offered = request.get("offered")
        case _:
            return False
    return offered is None or len(offered) == 2


def failed_checks(request: Value) -> Iterator[str]:
    """The checks that a request does not stand, but for the isolation level, which each topic has its own."""
    for check in _CHECKS:
        if check != "isolation-level" and any(
            flaw is not PASSED for flaw in _CHECKS[check](request, ExpectClientRequests(check, ""))
        ):
            yield check


# --- checks -------------------------------------------------------------------------------------------
# Each yields one verdict on a request that it is about, and none on others.


def _size_field(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    data: bytes = request["hex"]
    stated = int.from_bytes(data[:4], "big", signed=True)
    if len(data) >= START.size and stated == len(data) - 4:
        yield PASSED
    else:
        yield Verdict(
            VerdictKind.FAIL, f"its size is {stated}, and {max(0, len(data) - 4)} bytes follow", "Size", _SIZE
        )


def _well_formed(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    """Judge by decoding and, where there is one encoding only, by encoding again."""
    data: bytes = request["hex"]
    wire = frame_wire(data)
    if wire is None:
        return
    read = codec.decode(wire, data)
    if read.violations:
        broken = read.violations[0]
        yield Verdict(
            VerdictKind.FAIL, f"{request_name(data)} breaks its definition: {broken}", requirement=broken.requirement
        )
    elif read.remarks:
        lapse = read.remarks[0]
        yield Verdict(
            VerdictKind.FAIL,
            f"{request_name(data)} can be read in more than one way: {lapse}",
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
    if api_of(data) not in _INSIDE or body.get("ProtocolType") not in (None, "consumer"):
        return
    array, name, message = _INSIDE[api_of(data)]
    for index, element in enumerate(body[array]):
        version, valid = int.from_bytes(element[name][:2], "big", signed=True), shipped_types().messages[message].valid
        known = version if version in valid else valid.high  # so a reader takes one that is yet to come
        read = codec.decode(shipped_types().wire(type_name(message, known)), element[name][2:])
        if read.violations:
            broken, path = read.violations[0], f"Body.{array}[{index}].{name}"
            detail = f"{path} of {request_name(data)} is no {message} {version}: {broken}"
            yield Verdict(VerdictKind.FAIL, detail, path, broken.requirement)


def _re_encoded(wire: codec.WireType, data: bytes, value: Value) -> Verdict:
    written = wire.encode(value)
    if written == data or is_free(_body_of(data)):
        return PASSED
    # The size stands first: where one is a part of the other, that differs.
    at = next(at for at, pair in enumerate(zip(written, data, strict=False)) if pair[0] != pair[1])
    return Verdict(
        VerdictKind.FAIL, f"{request_name(data)} is not written as its definition says, from byte {at}", path=f"@{at}"
    )


def _body_of(data: bytes) -> codec.WireType:
    return shipped_types().wire(type_name(f"{api_of(data)}Request", START.unpack_from(data)[2]))


def _offered(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    """Judge the version; that of ApiVersions, which tells a client what is offered, is free."""
    data, offered = request["hex"], request.get("offered")
    if len(data) < START.size or api_of(data) == "ApiVersions":
        return
    version = START.unpack_from(data)[2]
    if offered and offered[0] <= version <= offered[1]:
        yield PASSED
    elif offered:
        detail = f"{request_name(data)}, where {offered[0]} to {offered[1]} is offered"
        yield Verdict(VerdictKind.FAIL, detail, "Header.RequestApiVersion")
    else:
        yield Verdict(VerdictKind.FAIL, f"{request_name(data)}, which is not offered", "Header.RequestApiKey")


def _distinct(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    data = request["hex"]
    if len(data) < START.size:
        return
    number = START.unpack_from(data)[3]
    if number in request["inFlight"]:
        detail = "its correlation id is that of a request which is not answered yet"
        yield Verdict(VerdictKind.FAIL, detail, "Header.CorrelationId")
    else:
        yield PASSED


def _isolation_level(request: Value, expect: ExpectClientRequests) -> Iterator[Verdict]:
    body = fetch_in(request["hex"]) or _asks_for_the_end(request)
    if body is None:
        yield from _require_stable(request, expect)
        return
    level = body.get("IsolationLevel", 0)  # the first versions of ListOffsets have none, and mean this one
    if level == ISOLATIONS.index(expect.isolation):
        yield PASSED
    else:
        yield Verdict(
            VerdictKind.FAIL, f"isolation level {level} is asked for, not {expect.isolation}", "Body.IsolationLevel"
        )


def _require_stable(request: Value, expect: ExpectClientRequests) -> Iterator[Verdict]:
    """Judge whether a member that reads committed records asks for committed offsets that are decided, too."""
    body = body_in(request["hex"], "OffsetFetch")
    if body is None or "RequireStable" not in body or expect.isolation != ISOLATIONS[-1]:
        return
    if body["RequireStable"]:
        yield PASSED
    else:
        detail = (
            f"{request_name(request['hex'])} asks for offsets that are not decided yet, too, and not {expect.isolation}"
        )
        yield Verdict(VerdictKind.FAIL, detail, "Body.RequireStable")


def _asks_for_the_end(request: Value) -> Mapping[str, Value] | None:
    """The body of a ListOffsets for the last offset, which is not the same at each level, where a client can say it."""
    body = body_in(request["hex"], "ListOffsets")
    if body is None or not request.get("offered") or request["offered"][1] < _WITH_LEVEL:
        return None
    asked = {part["Timestamp"] for row in body["Topics"] for part in row["Partitions"]}
    return body if LATEST in asked else None


_WITH_LEVEL = 2
"""The first version of ListOffsets that has an isolation level."""


_CHECKS: Mapping[str, Callable[[Value, ExpectClientRequests], Iterator[Verdict]]] = {
    "size-field": _size_field,
    "well-formed": _well_formed,
    "offered": _offered,
    "unique-correlation-ids": _distinct,
    "isolation-level": _isolation_level,
}
