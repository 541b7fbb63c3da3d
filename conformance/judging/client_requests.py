"""The judge of `send` cases: each request must match its definition, the broker's versions and the client's options."""

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
from conformance.judging._consumer_behavior import SCENARIO_CHECKS
from conformance.judging._sent_requests import at_request, body_in, fetch_in, request_name
from conformance.semantics.consumer_view import ISOLATIONS

_SIZE = "request.size"


def judge_sent(expect: ExpectClientRequests, given: object) -> Verdict:
    """Judge the requests of a client by one check. Raises NotationError."""
    requests = SENT.parse(given)
    if not all(map(_is_complete, requests)):
        raise NotationError("value: each request has hex, inFlight and offered, which is null or two versions")
    if expect.check in SCENARIO_CHECKS:
        return SCENARIO_CHECKS[expect.check](requests)
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
        else Verdict(VerdictKind.SKIP, f"unobserved: no {expect.request or 'matching'} request was sent")
    )


def _is_complete(request: Value) -> bool:
    """Return whether a recorded request has all fields of the notation."""
    match request:
        case {"hex": bytes(), "inFlight": tuple()}:
            offered = request.get("offered")
        case _:
            return False
    return offered is None or len(offered) == 2


def failed_checks(request: Value) -> Iterator[str]:
    """Yield the checks that a request fails; the isolation level is not checked, as it depends on the topic."""
    for check in _CHECKS:
        if check != "isolation-level" and any(
            flaw is not PASSED for flaw in _CHECKS[check](request, ExpectClientRequests(check, ""))
        ):
            yield check


# --- checks -------------------------------------------------------------------------------------------
# Each function yields one verdict on a request to which the check applies, and none on other requests.


def _size_field(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    data: bytes = request["hex"]
    stated = int.from_bytes(data[:4], "big", signed=True)
    if len(data) >= START.size and stated == len(data) - 4:
        yield PASSED
    else:
        yield Verdict(
            VerdictKind.FAIL, f"the request size is {stated}, but {max(0, len(data) - 4)} bytes follow", "Size", _SIZE
        )


def _well_formed(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    """Decode the request. If its value has only one encoding, encode the value again and compare the bytes."""
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
            f"{request_name(data)} has more than one interpretation: {lapse}",
            requirement=lapse.requirement,
            level="should",
        )
    else:
        yield _re_encoded(wire, data, read.value)
        yield from _embedded_well_formed(data, read.value["Body"])


_EMBEDDED = {
    "JoinGroup": ("Protocols", "Metadata", "ConsumerProtocolSubscription"),
    "SyncGroup": ("Assignments", "Assignment", "ConsumerProtocolAssignment"),
}
"""Requests that contain another message as bytes: its array, the field of the elements, and the message."""


def _embedded_well_formed(data: bytes, body: Mapping[str, Value]) -> Iterator[Verdict]:
    """Judge the subscriptions and assignments of a consumer group: a version, and a message in that version."""
    if api_of(data) not in _EMBEDDED or body.get("ProtocolType") not in (None, "consumer"):
        return
    array, name, message = _EMBEDDED[api_of(data)]
    for index, element in enumerate(body[array]):
        version, valid = int.from_bytes(element[name][:2], "big", signed=True), shipped_types().messages[message].valid
        known = version if version in valid else valid.high  # readers decode a newer version as the newest known one
        read = codec.decode(shipped_types().wire(type_name(message, known)), element[name][2:])
        if read.violations:
            broken, path = read.violations[0], f"Body.{array}[{index}].{name}"
            detail = f"{path} of {request_name(data)} is not a valid {message} {version}: {broken}"
            yield Verdict(VerdictKind.FAIL, detail, path, broken.requirement)


def _re_encoded(wire: codec.WireType, data: bytes, value: Value) -> Verdict:
    written = wire.encode(value)
    if written == data or is_free(_body_of(data)):
        return PASSED
    # Bytes of different lengths differ in the size, so there is always a difference.
    at = next(at for at, pair in enumerate(zip(written, data, strict=False)) if pair[0] != pair[1])
    return Verdict(
        VerdictKind.FAIL, f"{request_name(data)} differs from its definition from byte {at} on", path=f"@{at}"
    )


def _body_of(data: bytes) -> codec.WireType:
    return shipped_types().wire(type_name(f"{api_of(data)}Request", START.unpack_from(data)[2]))


def _supported_version(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    """Judge the version; ApiVersions may have any, as its response contains the supported versions."""
    data, offered = request["hex"], request.get("offered")
    if len(data) < START.size or api_of(data) == "ApiVersions":
        return
    version = START.unpack_from(data)[2]
    if offered and offered[0] <= version <= offered[1]:
        yield PASSED
    elif offered:
        detail = f"the client sent {request_name(data)}, but the broker supports versions {offered[0]} to {offered[1]}"
        yield Verdict(VerdictKind.FAIL, detail, "Header.RequestApiVersion")
    else:
        yield Verdict(
            VerdictKind.FAIL,
            f"the client sent {request_name(data)}, which the broker does not support",
            "Header.RequestApiKey",
        )


def _unique_correlation_ids(request: Value, _: ExpectClientRequests) -> Iterator[Verdict]:
    data = request["hex"]
    if len(data) < START.size:
        return
    number = START.unpack_from(data)[3]
    if number in request["inFlight"]:
        detail = "an unanswered request has the same correlation id"
        yield Verdict(VerdictKind.FAIL, detail, "Header.CorrelationId")
    else:
        yield PASSED


def _isolation_level(request: Value, expect: ExpectClientRequests) -> Iterator[Verdict]:
    body = fetch_in(request["hex"]) or _latest_offset_query(request)
    if body is None:
        yield from _require_stable(request, expect)
        return
    level = body.get("IsolationLevel", 0)  # the first versions of ListOffsets mean read_uncommitted
    if level == ISOLATIONS.index(expect.isolation):
        yield PASSED
    else:
        yield Verdict(VerdictKind.FAIL, f"isolation level {level} instead of {expect.isolation}", "Body.IsolationLevel")


def _require_stable(request: Value, expect: ExpectClientRequests) -> Iterator[Verdict]:
    """Judge OffsetFetch of a read_committed member: RequireStable excludes offsets of open transactions."""
    body = body_in(request["hex"], "OffsetFetch")
    if body is None or "RequireStable" not in body or expect.isolation != ISOLATIONS[-1]:
        return
    if body["RequireStable"]:
        yield PASSED
    else:
        detail = f"{request_name(request['hex'])} has RequireStable false, although the client is {expect.isolation}"
        yield Verdict(VerdictKind.FAIL, detail, "Body.RequireStable")


def _latest_offset_query(request: Value) -> Mapping[str, Value] | None:
    """Return the body of a ListOffsets for the last offset, if the broker supports a version with an isolation level.

    Only the last offset depends on the isolation level.
    """
    body = body_in(request["hex"], "ListOffsets")
    if body is None or not request.get("offered") or request["offered"][1] < _FIRST_WITH_LEVEL:
        return None
    timestamps = {part["Timestamp"] for row in body["Topics"] for part in row["Partitions"]}
    return body if LATEST in timestamps else None


_FIRST_WITH_LEVEL = 2
"""The first version of ListOffsets with an isolation level."""


_CHECKS: Mapping[str, Callable[[Value, ExpectClientRequests], Iterator[Verdict]]] = {
    "size-field": _size_field,
    "well-formed": _well_formed,
    "offered": _supported_version,
    "unique-correlation-ids": _unique_correlation_ids,
    "isolation-level": _isolation_level,
}
