"""Judges how a broker answered frames: each answer by its definition, to its last byte, in the order of the frames."""

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
"""Characters of them: a broker tells a code for each of a few steps."""


def codes_of(case: Case, outcome: Outcome) -> str:
    """The error codes of an answer, each with what it answers; empty where there are none."""
    match outcome:
        case Rejected(codes=codes):
            return codes
        case Accepted(answer) if isinstance(case.expect, ExpectResponses):
            return ", ".join(_of_frames(case.expect, answer))
        case Accepted({"codes": str() as codes}):
            return codes if len(codes) <= _LONGEST else ""
    return ""


def _of_frames(expect: ExpectResponses, answer: Answer) -> Iterator[str]:
    """The codes in the answers to frames, those of one frame once."""
    try:
        rows = EXCHANGED.parse(answer.get("value"))
    except NotationError:
        return
    for at, (due, row) in enumerate(zip(expect.due, rows, strict=False)):
        codes = dict.fromkeys(filter(None, errors_in(due, row.get("hex") or b"")))
        if codes:
            yield f"frame {at}: {' and '.join(map(named, codes))}"


MOST_GROWN = 256 << 20
"""Bytes by which the memory of a broker may grow while it is sent the few bytes of a case."""
_OF_VERSION = RULES["plain"]


def judge_exchanged(expect: ExpectResponses, answer: Mapping[str, Value]) -> Verdict:
    """Hold what came of each frame against what is due. Raises NotationError."""
    rows = _rows(expect, answer.get("value"))
    for at, (due, (data, end)) in enumerate(zip(expect.due, rows, strict=True)):
        flaw = _ended(expect, due, end) if data is None else _answered(due, data, expect.due)
        if flaw is not PASSED:
            path = f"[{at}]" + (f".{flaw.path}" if flaw.path else "")
            return Verdict(flaw.kind, flaw.detail, path, flaw.requirement, flaw.level)
    return _memory(answer.get("memoryGrowth"))


def _rows(expect: ExpectResponses, given: object) -> list[tuple[bytes | None, object]]:
    """For each frame the bytes of the answer, or None and why there is none."""
    rows = EXCHANGED.parse(given)
    if not isinstance(given, list) or len(rows) != len(expect.due):
        raise NotationError(f"value: expected what came of each of {len(expect.due)} frames")
    ends = [row.get("end") for row in given]
    if any(row.get("hex") is None and end not in ENDS for row, end in zip(rows, ends, strict=True)):
        raise NotationError(f"value: expected the hex of an answer, or end: {' or '.join(ENDS)}")
    return [(row.get("hex"), end) for row, end in zip(rows, ends, strict=True)]


def _ended(expect: ExpectResponses, due: ExpectedResponse, end: object) -> Verdict:
    """Judge that no answer came."""
    if not due.must_answer and (end == "closed" or due.may_wait):
        return PASSED
    if end == "silent":
        # No document says how a broken frame is refused: to leave its connection open in silence is at should.
        level = "must" if due.must_answer else "should"
        return Verdict(VerdictKind.TIMEOUT, f"{_named(due)} is not answered, and the connection stays", level=level)
    detail = f"the connection is closed without an answer to {_named(due)}"
    return Verdict(VerdictKind.FAIL, detail, requirement=expect.unanswered)


def _named(due: ExpectedResponse) -> str:
    return f"{due.name} {due.version}" if due.name else "a frame"


def _memory(grown: object) -> Verdict:
    if not isinstance(grown, int) or grown <= MOST_GROWN:
        return PASSED
    detail = f"its memory grew by {grown >> 20} MiB"
    return Verdict(VerdictKind.FAIL, detail, requirement=ROBUSTNESS, level="should")


# --- an answer ----------------------------------------------------------------------------------------


def _answered(due: ExpectedResponse, data: bytes, all_due: Sequence[ExpectedResponse]) -> Verdict:
    if len(data) < 4:
        return Verdict(VerdictKind.FAIL, f"the answer to {_named(due)} has {len(data)} bytes", requirement=_OF_VERSION)
    correlation = int.from_bytes(data[:4], "big", signed=True)
    if correlation != due.correlation:
        return _of_another(due, correlation, all_due)
    return _parsed(due, data) if due.name else PASSED


def _of_another(due: ExpectedResponse, correlation: int, all_due: Sequence[ExpectedResponse]) -> Verdict:
    detail = f"correlation id {correlation} in the answer to {_named(due)}, which has {due.correlation}"
    if correlation in (other.correlation for other in all_due):
        return Verdict(VerdictKind.FAIL, f"{detail}: that of another request", requirement="response.order")
    return Verdict(VerdictKind.FAIL, detail, requirement="response.correlation-id")


def _parsed(due: ExpectedResponse, data: bytes) -> Verdict:
    """Judge the header and the body; of a frame that is broken, or in no version that is offered, in any version."""
    message = shipped_types().messages[f"{due.name}Response"]
    versions = [due.version] if due.version in message.valid else []
    if not due.must_answer:
        versions += [version for version in message.valid if version != due.version]
    flaws = [_by_version(due, version, data) for version in versions]
    return next((flaw for flaw in flaws if flaw is PASSED), flaws[0])


def _refused(due: ExpectedResponse, body: Value) -> Verdict:
    """Judge the answer to a version that is not offered: it holds an error."""
    codes = list(_errors(body))
    if any(codes) and (not due.must_answer or ErrorCode.UNSUPPORTED_VERSION in codes):
        return PASSED
    return Verdict(VerdictKind.FAIL, f"{_named(due)} is not offered, and its answer holds the errors {codes or 'none'}")


def errors_in(due: ExpectedResponse, data: bytes) -> list[int]:
    """The error codes in an answer of the version that is due; none where it cannot be read."""
    message = shipped_types().messages.get(f"{due.name}Response")
    if message is None or due.version not in message.valid:
        return []
    read, rest = _read(message.name, due.version, header_version(message, due.version), data)
    return list(_errors(read.value)) if read.ok and not rest else []


def _errors(value: Value) -> Iterator[int]:
    """The error codes in an answer."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if name == "ErrorCode":
                yield entry
            else:
                yield from _errors(entry)
    elif isinstance(value, tuple):
        for entry in value:
            yield from _errors(entry)


def _by_version(due: ExpectedResponse, version: int, data: bytes) -> Verdict:
    message = shipped_types().messages[f"{due.name}Response"]
    due_header = header_version(message, version)
    read, rest = _read(message.name, version, due_header, data)
    if read.ok and not rest:
        return _refused(due, read.value) if due.must_refuse else PASSED
    other, other_rest = _read(message.name, version, 1 - due_header, data)
    if other.ok and not other_rest:
        detail = f"the header before {message.name} {version} is of version {1 - due_header}, not {due_header}"
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
    """The body behind a header of some version, and the bytes behind it."""
    types = shipped_types()
    head = codec.decode(types.wire(type_name("ResponseHeader", header)), data)
    if not head.ok:
        return head, 0
    body = codec.decode(types.wire(type_name(name, version)), data[head.consumed :])
    return body, len(data) - head.consumed - body.consumed
