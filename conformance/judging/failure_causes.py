"""The causes of failures: `cause_of`, total and pure (docs/concepts.md#causes).

A cause has a kind and a place. A report has one entry for all failures of a target with the same cause, for any type,
operation and requirement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from conformance import codec
from conformance.cases.client_checks import failure_text
from conformance.cases.model import (
    FAILURES,
    Accepted,
    Case,
    ExpectAnyOf,
    ExpectAppend,
    ExpectBytes,
    ExpectClientRequests,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectResponses,
    ExpectSize,
    ExpectValue,
    NoAnswer,
    Outcome,
    Rejected,
    Value,
    Verdict,
)
from conformance.cases.operations import OPERATIONS
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import UNSHOWN
from conformance.codec.log import last_offset
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.judging.differences import (
    DUPLICATE_HEADERS,
    STEP,
    cause_of_difference,
    difference_kind,
    open_places,
    value_at,
)
from conformance.semantics.consumer_view import VIEW_NOTATION, ConsumerView
from conformance.semantics.format_conversion import records_of


@dataclass(frozen=True, slots=True, order=True)
class FailureCause:
    """The kind and the place of a fault."""

    wrong: str
    """The kind: rejected, off by 1, crash…"""
    place: str
    """A field (RECORD.timestamp), a type, a broken requirement, or the message of a rejection or crash."""
    text: str = field(init=False, compare=False)
    """Both, as reports print them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.wrong}: {self.place}")


def cause_of(case: Case, outcome: Outcome, verdict: Verdict) -> FailureCause:
    """Return the cause of a failure; for any other result, the verdict and the requirement."""
    match outcome if verdict.kind in FAILURES else None:
        case NoAnswer(how, detail):
            return FailureCause(how, _crash_text(case, how, detail))
        case Rejected(error, message):
            return _rejected(case, error, message)
        case Accepted(answer):
            return _accepted(case, answer, verdict)
    return FailureCause(str(verdict.kind), _rule(case, verdict))


def _rule(case: Case, verdict: Verdict) -> str:
    return verdict.requirement or case.requirement


# --- messages of the target ---------------------------------------------------------------------------

_VARIABLE_PARTS = (
    (re.compile(r"(?<!\w)([bu]?)(?:'[^']*'|\"[^\"]*\"|`[^`]*`)(?!\w)"), "#"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{2,}\b"), "#"),
    (re.compile(r"(?<![A-Za-z\d#])-?\d+(?:\.\d+)?"), "#"),
    (re.compile(r"#(?:\W{1,2}#)+"), "#"),
    (re.compile(r"\s+"), " "),
)
"""The variable parts of a message, and their replacements: quoted values, hex, numbers, and lists of them."""

_MAX_TEXT = 160
"""Only this number of characters distinguishes messages."""


@lru_cache(maxsize=1 << 12)
def normalised(text: str) -> str:
    """Return a message of a target without the values that vary from case to case."""
    for pattern, instead in _VARIABLE_PARTS:
        text = pattern.sub(instead, text)
    return text.strip()[:_MAX_TEXT]


def _crash_text(case: Case, how: str, detail: str) -> str:
    """Return the message of a crash, with the format if it has its own reader; else the broken requirement."""
    mark = _first_violation(case)
    if how != "crash":
        return mark.requirement if mark else case.requirement
    reader = _own_reader(mark.requirement if mark else case.requirement)
    return normalised(detail) + (f" ({reader})" if reader else "")


def _own_reader(rule: str) -> str:
    """Return the codec or structure of a requirement, if targets have a separate reader for it; else an empty text."""
    family, _, rest = rule.partition(".")
    if family == "control":
        return "CONTROL_RECORD"
    return next((name for name in CODEC_NAMES if family in ("codec", "reader", "robustness") and name in rest), "")


def _rejected(case: Case, error: str, message: str) -> FailureCause:
    if isinstance(case.expect, ExpectRejection) and case.expect.error not in (None, error):
        return FailureCause("wrong error class", f"{error} instead of {case.expect.error}")
    return FailureCause("rejected", normalised(message) or f"{error}, {case.requirement}")


# --- faults in the bytes of the case ------------------------------------------------------------------


def _first_violation(case: Case) -> codec.Violation | None:
    """Return the first place at which the bytes, or the value to encode, break a rule or are unspecified."""
    if isinstance(case.expect, ExpectConsumerView):
        view = case.expect.view
        return next(iter([*([view.damage] if view.damage else []), *view.remarks]), None)
    if case.op == "encode" and isinstance(case.expect, ExpectRejection | ExpectAnyOf):
        return _unencodable(case)
    is_read = case.data is not None and case.op in ("decode", "convert", "append")
    read = codec.decode(case.wire, case.data or b"") if is_read else None
    return next(iter([*read.violations, *read.remarks]), None) if read else None


def _unencodable(case: Case) -> codec.Violation | None:
    """Return the violation of a value without an encoding."""
    try:
        parts = OPERATIONS["encode"].parse(case.request, case.wire)
        codec.encode(case.wire, parts.pop("value"), **parts)
    except codec.Unencodable as error:
        return codec.Violation(error.requirement, 0, error.hint)
    except ValueError:
        return None
    return None


_SAME = {"timestampDelta": "timestamp", "offsetDelta": "offset"}
"""Fields with the same meaning: a fault of a writer in the first is a fault of a reader in the second."""


def _names(path: str) -> list[str]:
    return [name for name, _ in STEP.findall(path) if name]


def _field(name: str, path: str) -> str:
    """Return a field with its structure, without indexes: RECORD.timestamp in a record, in a batch and in a log.

    For an array, return the type of the element at the path, or of the array.
    """
    path = "" if path == "value" and name != "RECORD" else path
    while path.startswith("[") and "ARRAY<" in name:
        name, path = name.partition("<")[2][:-1], path.partition("]")[2]
    if "ARRAY<" in name:
        return name.partition("<")[0]
    names = _names(path)
    if name.startswith("MESSAGE<"):
        return ".".join([name.removeprefix("MESSAGE<").partition(",")[0], *names])
    structure = "HEADER" if names[-1:] == ["headers"] and path.endswith("]") else _structure(name, names)
    ends = names and not path.endswith("]")
    return f"{structure}.{_SAME.get(names[-1], names[-1])}" if ends else structure


def _structure(name: str, names: list[str]) -> str:
    """Return the structure that contains the last name of a path."""
    if "headers" in names[:-1]:
        return "HEADER"
    if "records" in names or name == "RECORD":
        return "RECORD"
    if "messages" in names or name == "MESSAGE_SET":
        return "MESSAGE_SET"
    if name in ("LOG", "RECORD_BATCH"):
        return "RECORD_BATCH" if not names or names[-1] in _OF_BATCHES else "WRAPPER"
    return name


_OF_BATCHES = {*BATCH_LAYOUT.rules_by_name(), "batches", "partial"}


def _violation_text(case: Case, mark: codec.Violation | None, rule: str) -> str:
    """Return the broken requirement; a record's varints are named, as records often have their own varint reader."""
    broken = mark.requirement if mark else rule
    in_record = case.type in _HOLD_RECORDS and broken.partition(".")[0] in ("varint", "varlong")
    return f"{broken} in RECORD" if in_record else broken


_HOLD_RECORDS = ("RECORD", "RECORD_BATCH", "LOG")

# --- accepted input -----------------------------------------------------------------------------------
_ACCEPTED = "invalid input accepted"


def _accepted(case: Case, answer: dict[str, Value], verdict: Verdict) -> FailureCause:
    rule = _rule(case, verdict)
    match case.expect:
        case ExpectRejection():
            return FailureCause(_ACCEPTED, _violation_text(case, _first_violation(case), rule))
        case ExpectSize():
            return FailureCause("wrong size", _field(case.type, "value"))
        case ExpectConsumerView():
            return _delivered(case, case.expect, answer, verdict)
        case ExpectClientRequests() | ExpectAppend() | ExpectResponses() as live:
            way = failure_text(live.check) if isinstance(live, ExpectClientRequests) else "wrong broker response"
            return FailureCause(way, normalised(verdict.detail))
    if case.op == "encode" and isinstance(case.expect, ExpectAnyOf) and (mark := _unencodable(case)):
        return FailureCause(_ACCEPTED, _violation_text(case, mark, rule))
    if verdict.path == "consumed":
        return _consumed(case, answer)
    if verdict.path.startswith("@"):
        return FailureCause("wrong bytes written", _field_at(case, int(verdict.path[1:])))
    if isinstance(
        case.expect, ExpectValue | ExpectAnyOf | ExpectBytes | ExpectEquivalentBytes | ExpectConvertedRecords
    ) and verdict.path not in ("", "hex"):
        return _differs(case, answer, verdict)
    written = answer.get("hex")
    if isinstance(case.expect, ExpectBytes | ExpectEquivalentBytes | ExpectConvertedRecords) and isinstance(
        written, str
    ):
        return _unreadable(case, bytes.fromhex(written), rule)
    return FailureCause(_MISREAD, _violation_text(case, _first_violation(case), rule))


def _consumed(case: Case, answer: dict[str, Value]) -> FailureCause:
    """Return the cause of a wrong count; a count larger than the input means that cut-off bytes were accepted."""
    mark = _first_violation(case)
    if mark is not None and answer["consumed"] > len(case.data or b""):
        return FailureCause(_ACCEPTED, _violation_text(case, mark, ""))
    return FailureCause("wrong number of bytes consumed", _field(case.type, "value"))


def _field_at(case: Case, at: int) -> str:
    """Return the field at a byte of the expected encoding."""
    expected = case.expect.data if isinstance(case.expect, ExpectBytes) else b""
    spans = codec.decode(case.wire, expected, trail=True).spans
    around = [span for span in spans if span.layer == 0 and span.start <= at < span.stop]
    if not around:
        return _field(case.type, "value")
    innermost = min(around, key=lambda span: span.stop - span.start)
    path, _, part = innermost.path.partition("#")
    return _field(case.type, path or "value") + (f" {part}" if part else "")


def _unreadable(case: Case, written: bytes, rule: str) -> FailureCause:
    """Return the cause of written bytes that break the format, or that have more than one interpretation."""
    name = case.expect.type if isinstance(case.expect, ExpectEquivalentBytes) else "LOG" if case.op == "convert" else ""
    read = codec.decode(name or case.wire, written)
    mark = next(iter([*read.violations, *read.remarks]), None)
    if mark is None:
        return FailureCause("requirement not met by written bytes", rule)
    return FailureCause("written bytes break the format", mark.requirement)


def _differs(case: Case, answer: dict[str, Value], verdict: Verdict) -> FailureCause:
    """Return the cause of a wrong value: the unspecified place that explains it, or else the field."""
    if verdict.requirement == DUPLICATE_HEADERS:
        return _HEADERS_AS_MAP
    place = open_places(case).cause_of_difference(verdict.path) if isinstance(case.expect, ExpectAnyOf) else None
    if place is not None:
        return FailureCause(_MISREAD, _violation_text(case, place, case.requirement))
    name = case.expect.type if isinstance(case.expect, ExpectEquivalentBytes) else ""
    name = "RECORD" if case.op == "convert" else name or case.type
    expected, actual = _both(case, answer, verdict.path)
    lacking = (expected is UNSHOWN or actual is UNSHOWN) and "ARRAY<" in name
    field = _field(name, verdict.path[: verdict.path.rindex("[")] if lacking else verdict.path)
    return FailureCause(difference_kind(field, expected, actual), field)


_HEADERS_AS_MAP = FailureCause("missing", "HEADER with a repeated key")
_MISREAD = "no accepted interpretation"
"""The target neither rejects unspecified bytes nor returns an accepted interpretation."""


def _both(case: Case, answer: dict[str, Value], path: str) -> tuple[Value, Value]:
    """Return the expected and the actual value at a path; UNSHOWN for a missing one."""
    match case.expect:
        case ExpectValue(value) | ExpectAnyOf((*_, ExpectValue(value))):
            return value_at(value, path), value_at(case.wire.notation.parse(answer["value"]), path)
        case ExpectBytes(data):
            return value_at(codec.decode(case.wire, data).value, path), value_at(_read_back(case, answer, ""), path)
        case ExpectEquivalentBytes(value, name):
            return value_at(value, path), value_at(_read_back(case, answer, name), path)
        case ExpectConvertedRecords(records):
            batches = codec.decode("LOG", bytes.fromhex(answer["hex"])).value["batches"]
            return value_at(records, path), value_at(records_of(batches), path)
    return UNSHOWN, UNSHOWN


def _read_back(case: Case, answer: dict[str, Value], name: str) -> Value:
    return codec.decode(codec.wire(name or case.wire), bytes.fromhex(answer["hex"])).value


# --- delivered records --------------------------------------------------------------------------------


def _delivered(case: Case, expect: ExpectConsumerView, answer: dict[str, Value], verdict: Verdict) -> FailureCause:
    view, path = expect.view, verdict.path
    shown = VIEW_NOTATION.parse(answer.get("value"))
    records = shown.get("records", ())
    count = 0 if records is UNSHOWN else len(records)
    if path == "guardViolation":
        return FailureCause("guard violation", normalised(verdict.detail))
    if path == "nextOffset":
        return FailureCause(normalised(verdict.detail.partition(" ")[2].partition(" ")[2]), "nextOffset")
    if view.damage is not None and (path in ("", "error") or count > len(view.records)):
        return FailureCause(_ACCEPTED, _violation_text(case, view.damage, verdict.requirement))
    if shown.get("error") is not None and (path == "error" or count < len(view.records)):
        return FailureCause("rejected", f"{shown['error']}, {_stopped_at(case, view, count, shown['error'])}")
    if verdict.requirement == DUPLICATE_HEADERS:
        return _HEADERS_AS_MAP
    if "]." in path:
        place = cause_of_difference(view.remarks, path)
        return FailureCause(_MISREAD, _violation_text(case, place, "")) if place else _misdelivered(view, path, records)
    if verdict.requirement:
        return FailureCause("wrong record delivered", verdict.requirement)
    return FailureCause("records missing" if count < len(view.records) else "too many records", _kind(view, count))


def _misdelivered(view: ConsumerView, path: str, records: Value) -> FailureCause:
    """Return the cause of a wrong field of a delivered record."""
    index = int(path.removeprefix("records[").partition("]")[0])
    field = _field("LOG", path).replace("RECORD.", f"{_kind(view, index)}.", 1)
    return FailureCause(
        difference_kind(field, value_at({"records": view.records}, path), value_at({"records": records}, path)), field
    )


def _kind(view: ConsumerView, index: int) -> str:
    """Return the structure of an expected record: RECORD or MESSAGE_SET."""
    legacy = index < len(view.records) and view.records[index]["offset"] in view.legacy
    return "MESSAGE_SET" if legacy else "RECORD"


def _stopped_at(case: Case, view: ConsumerView, count: int, error: str) -> str:
    """Return the magic of the first record that was not delivered, and the codec if it may be the cause."""
    read = codec.decode("LOG", case.data or b"")
    next_expected = view.records[count]["offset"] if count < len(view.records) else view.next_offset
    entries = read.value["batches"] if read.value else ()
    entry = next((one for one in entries if last_offset(one) >= next_expected), None)
    if entry is None:
        return _kind(view, count)
    compression = CODEC_NAMES[entry["compression"]] if error in ("malformed", "unsupported-codec") else ""
    return f"magic {entry['magic']} {compression}".strip()
