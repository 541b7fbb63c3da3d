"""The judge of `exchange` cases: each response must match its definition to the last byte, in the frames' order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance import codec
from conformance.cases.model import (
    PASSED,
    ROBUSTNESS,
    Accepted,
    Answer,
    Case,
    ExpectedResponse,
    ExpectResponses,
    Outcome,
    Rejected,
    Value,
    Verdict,
    VerdictKind,
)
from conformance.cases.raw_requests import ENDS, EXCHANGED, RULES
from conformance.codec.error_codes import ErrorCode, named
from conformance.codec.json_notation import NotationError
from conformance.codec.message_spec import header_version, type_name
from conformance.definitions.loader import shipped_types

_LONGEST = 4000
"""Characters of error codes at most; longer texts are ignored. A broker returns one code for each of a few steps."""


def codes_of(case: Case, outcome: Outcome) -> str:
    """Return the error codes of an answer, each with its batch or frame; empty if there are none."""
    match outcome:
        case Rejected(codes=codes):
            return codes
        case Accepted(answer) if isinstance(case.expect, ExpectResponses):
            return ", ".join(_of_frames(case.expect, answer))
        case Accepted({"codes": str() as codes}):
            return codes if len(codes) <= _LONGEST else ""
    return ""


def _of_frames(expect: ExpectResponses, answer: Answer) -> Iterator[str]:
    """Yield the error codes in the response to each frame, each code once."""
    try:
        rows = EXCHANGED.parse(answer.get("value"))
    except NotationError:
        return
    for at, (expected, row) in enumerate(zip(expect.expected, rows, strict=False)):
        codes = dict.fromkeys(filter(None, errors_in(expected, row.get("hex") or b"")))
        if codes:
            yield f"frame {at}: {' and '.join(map(named, codes))}"


MOST_GROWN = 256 << 20
"""Bytes by which the memory of a broker may grow during a case, whose frames have few bytes."""
_OF_VERSION = RULES["plain"]


def judge_exchanged(expect: ExpectResponses, answer: Mapping[str, Value]) -> Verdict:
    """Compare the response to each frame with the expected one. Raises NotationError."""
    rows = _rows(expect, answer.get("value"))
    for at, (expected, (data, end)) in enumerate(zip(expect.expected, rows, strict=True)):
        flaw = _ended(expect, expected, end) if data is None else _answered(expected, data, expect.expected)
        if flaw is not PASSED:
            path = f"[{at}]" + (f".{flaw.path}" if flaw.path else "")
            return Verdict(flaw.kind, flaw.detail, path, flaw.requirement, flaw.level)
    return _memory(answer.get("memoryGrowth"))


def _rows(expect: ExpectResponses, given: object) -> list[tuple[bytes | None, object]]:
    """Return the response to each frame as bytes; None and a reason for a frame without a response."""
    rows = EXCHANGED.parse(given)
    if not isinstance(given, list) or len(rows) != len(expect.expected):
        raise NotationError(f"value: expected one entry for each of {len(expect.expected)} frames")
    ends = [row.get("end") for row in given]
    if any(row.get("hex") is None and end not in ENDS for row, end in zip(rows, ends, strict=True)):
        raise NotationError(f"value: expected the hex of a response, or end: {' or '.join(ENDS)}")
    return [(row.get("hex"), end) for row, end in zip(rows, ends, strict=True)]


def _ended(expect: ExpectResponses, expected: ExpectedResponse, end: object) -> Verdict:
    """Return the verdict on a missing response."""
    if not expected.must_answer and (end == "closed" or expected.may_wait):
        return PASSED
    if end == "silent":
        # No document specifies how a broker rejects an invalid frame, so an open connection fails only at should.
        level = "must" if expected.must_answer else "should"
        return Verdict(
            VerdictKind.TIMEOUT, f"{_named(expected)} is not answered, and the connection stays open", level=level
        )
    detail = f"the broker closes the connection without a response to {_named(expected)}"
    return Verdict(VerdictKind.FAIL, detail, requirement=expect.unanswered)


def _named(expected: ExpectedResponse) -> str:
    return f"{expected.name} {expected.version}" if expected.name else "a frame"


def _memory(grown: object) -> Verdict:
    if not isinstance(grown, int) or grown <= MOST_GROWN:
        return PASSED
    detail = f"the memory of the broker grew by {grown >> 20} MiB"
    return Verdict(VerdictKind.FAIL, detail, requirement=ROBUSTNESS, level="should")


# --- one response -------------------------------------------------------------------------------------


def _answered(expected: ExpectedResponse, data: bytes, all_expected: Sequence[ExpectedResponse]) -> Verdict:
    if len(data) < 4:
        return Verdict(
            VerdictKind.FAIL, f"the response to {_named(expected)} has only {len(data)} bytes", requirement=_OF_VERSION
        )
    correlation = int.from_bytes(data[:4], "big", signed=True)
    if correlation != expected.correlation:
        return _of_another(expected, correlation, all_expected)
    return _parsed(expected, data) if expected.name else PASSED


def _of_another(expected: ExpectedResponse, correlation: int, all_expected: Sequence[ExpectedResponse]) -> Verdict:
    detail = f"the response to {_named(expected)} has correlation id {correlation} instead of {expected.correlation}"
    if correlation in (other.correlation for other in all_expected):
        return Verdict(VerdictKind.FAIL, f"{detail}, which belongs to another request", requirement="response.order")
    return Verdict(VerdictKind.FAIL, detail, requirement="response.correlation-id")


def _parsed(expected: ExpectedResponse, data: bytes) -> Verdict:
    """Judge the header and the body; the response to an invalid frame or unsupported version may have any version."""
    message = shipped_types().messages[f"{expected.name}Response"]
    versions = [expected.version] if expected.version in message.valid else []
    if not expected.must_answer:
        versions += [version for version in message.valid if version != expected.version]
    flaws = [_by_version(expected, version, data) for version in versions]
    return next((flaw for flaw in flaws if flaw is PASSED), flaws[0])


def _refused(expected: ExpectedResponse, body: Value) -> Verdict:
    """Judge the response to an unsupported version, which must contain an error code."""
    codes = list(_errors(body))
    if any(codes) and (not expected.must_answer or ErrorCode.UNSUPPORTED_VERSION in codes):
        return PASSED
    return Verdict(
        VerdictKind.FAIL, f"{_named(expected)} is unsupported, but the response has the error codes {codes or 'none'}"
    )


def errors_in(expected: ExpectedResponse, data: bytes) -> list[int]:
    """Return the error codes of a response in the expected version; none if it cannot be decoded."""
    message = shipped_types().messages.get(f"{expected.name}Response")
    if message is None or expected.version not in message.valid:
        return []
    read, rest = _read(message.name, expected.version, header_version(message, expected.version), data)
    return list(_errors(read.value)) if read.ok and not rest else []


def _errors(value: Value) -> Iterator[int]:
    """Yield the error codes of a response."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if name == "ErrorCode":
                yield entry
            else:
                yield from _errors(entry)
    elif isinstance(value, tuple):
        for entry in value:
            yield from _errors(entry)


def _by_version(expected: ExpectedResponse, version: int, data: bytes) -> Verdict:
    message = shipped_types().messages[f"{expected.name}Response"]
    expected_header = header_version(message, version)
    read, rest = _read(message.name, version, expected_header, data)
    if read.ok and not rest:
        return _refused(expected, read.value) if expected.must_refuse else PASSED
    other, other_rest = _read(message.name, version, 1 - expected_header, data)
    if other.ok and not other_rest:
        detail = f"{message.name} {version} has header version {1 - expected_header} instead of {expected_header}"
        return Verdict(VerdictKind.FAIL, detail, requirement="tagged.only-in-flexible")
    if read.ok:
        extent = f"{rest} byte{'s' if rest > 1 else ''}"
        return Verdict(
            VerdictKind.FAIL, f"{extent} after the end of {message.name} {version}", requirement="response.size"
        )
    broken = read.violations[0]
    return Verdict(
        VerdictKind.FAIL, f"{message.name} {version} breaks its definition: {broken}", requirement=_OF_VERSION
    )


def _read(name: str, version: int, header: int, data: bytes) -> tuple[codec.DecodeResult, int]:
    """Decode the body after a header of this version; also return the number of bytes after the body."""
    types = shipped_types()
    head = codec.decode(types.wire(type_name("ResponseHeader", header)), data)
    if not head.ok:
        return head, 0
    body = codec.decode(types.wire(type_name(name, version)), data[head.consumed :])
    return body, len(data) - head.consumed - body.consumed
