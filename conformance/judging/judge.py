"""The verdict on an outcome: `judge`, total and pure.

It judges in layers: whether there is an answer, accepted or rejected, the value, the bytes, the error class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from conformance import codec
from conformance.cases.attribution import layout_rule
from conformance.cases.encode import FREE_FIELDS
from conformance.cases.model import (
    FAILURES,
    PASSED,
    ROBUSTNESS,
    Accepted,
    Answer,
    Case,
    ExpectAnyOf,
    ExpectAppend,
    Expectation,
    ExpectBytes,
    ExpectClientRequests,
    ExpectConsumerView,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    NoAnswer,
    Outcome,
    Rejected,
    Unsupported,
    Value,
    Verdict,
    VerdictKind,
)
from conformance.codec.compare import ValueComparison, compare_shown
from conformance.codec.json_notation import UNSHOWN, NotationError
from conformance.codec.log import STRUCTURED, rule_of
from conformance.codec.record_batch import stored_magic
from conformance.judging._answers import bytes_of, count
from conformance.judging.differences import DUPLICATE_HEADERS, is_of_a_map, open_places
from conformance.judging.log_operations import judge_log
from conformance.semantics.consumer_view import ConsumerView

_INDEX = re.compile(r"\[\d+\]")


def is_about(case: Case, path: str) -> bool:
    """Return whether a case tests the field at a path; a case of a type without fields tests the whole value."""
    if case.type not in STRUCTURED:
        return True
    plain = _INDEX.sub("", path).removeprefix(".")
    return any(plain == about or plain.startswith(about + ".") for about in case.checked_fields)


def touches(path: str, unobserved: tuple[str, ...]) -> bool:
    """Return whether the answer lacks a path, or a structure that contains it."""
    if path == "consumed":
        return "consumed" in unobserved
    return any(hidden in ("value", path) or path.startswith(hidden + ".") for hidden in unobserved)


_MAX_MESSAGE = 200
"""Characters of a target's error message in a verdict. The outcome has the whole message."""


def judge(case: Case, outcome: Outcome) -> Verdict:
    """Return the verdict on one outcome. It is total: every outcome gets a verdict."""
    match outcome:
        case Unsupported(reason):
            return Verdict(VerdictKind.SKIP, f"unsupported: {reason}")
        case NoAnswer():
            return _no_answer(case, outcome)
        case Rejected():
            return _rejected(case.expect, outcome)
        case Accepted(answer):
            try:
                return _accepted(case, answer)
            except NotationError as error:
                return Verdict(VerdictKind.PROTOCOL, f"the answer is not in the notation of {case.type}: {error}")


def _no_answer(case: Case, broke: NoAnswer) -> Verdict:
    if broke.unprovoked and "crash" not in case.disputed:
        return Verdict(VerdictKind.FAIL, broke.detail, requirement=ROBUSTNESS, level="must", flaky=broke.flaky)
    if broke.how in ("memory", "slow"):
        return Verdict(
            VerdictKind.FAIL, broke.detail, requirement=_memory_rule(case), level="should", flaky=broke.flaky
        )
    level = case.level if broke.how == "protocol" else "must"
    return Verdict(VerdictKind(broke.how), broke.detail, level=level, flaky=broke.flaky)


def more_serious(case: Case, outcome: Outcome) -> Outcome:
    """Return the outcome to judge if a target needed too much memory or time: a late answer that fails at must wins."""
    if not isinstance(outcome, NoAnswer) or outcome.answered is None:
        return outcome
    verdict = judge(case, outcome.answered)
    is_worse = (
        verdict.kind in {*FAILURES, VerdictKind.PROTOCOL} - case.disputed and (verdict.level or case.level) == "must"
    )
    return outcome.answered if is_worse else outcome


def _memory_rule(case: Case) -> str:
    if case.requirement.startswith("memory."):
        return case.requirement
    if "crash" in case.disputed:
        return "memory.message-size-limit"  # Apache Kafka's own code runs out of memory in these cases
    if "ARRAY" in case.type:
        return "memory.array-count-bounded"
    return "memory.string-length-bounded" if "STRING" in case.type else "memory.in-proportion"


def _rejected(expect: Expectation, outcome: Rejected) -> Verdict:
    text = f"rejected as {outcome.error}" + (f": {outcome.message:.{_MAX_MESSAGE}}" if outcome.message else "")
    match expect:
        case ExpectRejection(error) if error is not None and outcome.error != error:
            return Verdict(VerdictKind.FAIL, f"{text}, but the error class should be {error}", level="should")
        case (
            ExpectRejection()
            | ExpectConsumerView(ConsumerView(damage=codec.Violation()))
            | ExpectClientRequests("error-reported")
        ):
            return PASSED
        case ExpectAnyOf(()) | ExpectConsumerView(open=True) | ExpectAppend(open=True):
            return Verdict(VerdictKind.EITHER, "rejected")
        case ExpectAnyOf(readings) if any(isinstance(reading, ExpectRejection) for reading in readings):
            return Verdict(VerdictKind.EITHER, "rejected")
    hint = ", but no accepted interpretation rejects these bytes" if isinstance(expect, ExpectAnyOf) else ""
    return Verdict(VerdictKind.FAIL, text + hint)


def _accepted(case: Case, answer: Answer) -> Verdict:
    match case.expect:
        case ExpectValue() as reading:
            return _compare(case, reading, answer)
        case ExpectRejection():
            _answered_value(case, answer)
            return Verdict(
                VerdictKind.FAIL, "accepted, but it must be rejected" if case.level == "must" else "accepted"
            )
        case ExpectAnyOf(readings) if case.op == "encode":
            return _bytes_match_any(case, readings, bytes_of(answer))
        case ExpectAnyOf(readings):
            return _matches_any(case, readings, answer)
        case ExpectBytes() as writes:
            return _compare_bytes(case, writes, bytes_of(answer))
        case ExpectEquivalentBytes(value, name):
            return _compare_meaning(replace(case, wire=codec.wire(name or case.wire)), value, bytes_of(answer))
        case ExpectSize(size):
            stated = count(answer, "size")
            return PASSED if stated == size else Verdict(VerdictKind.FAIL, f"size {stated} instead of {size}")
        case whole_log:
            return judge_log(whole_log, answer)


def _answered_value(case: Case, answer: Answer) -> tuple[Value, int | None]:
    """Return the value and the number of consumed bytes of an answer. Raises NotationError."""
    if case.op != "decode":
        return UNSHOWN, None
    consumed = count(answer, "consumed") if "consumed" in answer else None
    return case.wire.notation.parse(answer["value"]) if "value" in answer else UNSHOWN, consumed


def _compare(case: Case, reading: ExpectValue, answer: Answer) -> Verdict:
    value, consumed = _answered_value(case, answer)
    comparison = compare_shown(case.wire, reading.value, value)
    if (differs := _difference(case, reading, comparison, value, consumed)) is not None:
        return differs
    unobserved = (*comparison.unshown, *(["consumed"] if consumed is None else []))
    about = [path for path in case.checked_fields if touches(path, unobserved)]
    if about:
        return Verdict(VerdictKind.SKIP, "unobserved: " + ", ".join(about), unobserved=unobserved)
    # The value of a message without fields in its version is an empty object.
    if not case.checked_fields and not comparison.observed and not value == reading.value == {}:
        return Verdict(VerdictKind.SKIP, "unobserved: the target shows no value", unobserved=unobserved)
    return Verdict(VerdictKind.PASS, unobserved=unobserved) if unobserved else PASSED


def _difference(
    case: Case, reading: ExpectValue, comparison: ValueComparison, value: Value, consumed: int | None
) -> Verdict | None:
    if comparison.mismatches:
        return _value_difference(case, reading.value, value, comparison.mismatches)
    if reading.consumed is None:
        return _impossible_count(case, consumed)
    if consumed not in (None, reading.consumed):
        return Verdict(VerdictKind.FAIL, f"{consumed} bytes consumed instead of {reading.consumed}", path="consumed")
    return None


def _impossible_count(case: Case, consumed: int | None) -> Verdict | None:
    """Return a failure if the number of consumed bytes is negative, or larger than the input."""
    most = len(case.data or b"")
    if consumed is None or 0 <= consumed <= most:
        return None
    return Verdict(VerdictKind.FAIL, f"{consumed} bytes consumed, but the input has {most}", path="consumed")


def _value_difference(case: Case, expected: Value, actual: Value, paths: Sequence[str]) -> Verdict:
    """Return the failure for values that differ at these paths, if possible at a path that the case tests.

    A difference in another field breaks the requirement of that field instead. Headers in a map are reported only if
    there is no other difference: every case with repeated keys would fail otherwise.
    """
    others = [path for path in paths if not is_of_a_map(expected, actual, path)]
    if not others:
        return Verdict(
            VerdictKind.FAIL,
            f"{paths[0]} differs: only one header per key is shown",
            paths[0],
            requirement=DUPLICATE_HEADERS,
        )
    paths = others
    path = next((path for path in paths if is_about(case, path)), None)
    requirement = "" if path else rule_of(case.type, paths[0], expected)
    path = path or paths[0]
    detail = "the value differs" if path == "value" else f"{path} differs"
    detail += f" (and {len(paths) - 1} further)" if len(paths) > 1 else ""
    return Verdict(VerdictKind.FAIL, detail, path=path, requirement=requirement)


def _bytes_match_any(
    case: Case, readings: tuple[ExpectValue | ExpectRejection | ExpectBytes, ...], written: bytes
) -> Verdict:
    """Return the verdict on bytes for a value that an encoder may reject or correct."""
    if not readings:
        return Verdict(VerdictKind.EITHER, "accepted")
    verdicts = [_compare_bytes(case, reading, written) for reading in readings if isinstance(reading, ExpectBytes)]
    if any(verdict.kind is VerdictKind.PASS for verdict in verdicts):
        return Verdict(VerdictKind.EITHER, f"written as {written.hex():.60}")
    return structs.replace(verdicts[0], detail=f"the value has no encoding: {verdicts[0].detail}", requirement="")


def _matches_any(
    case: Case, readings: tuple[ExpectValue | ExpectRejection | ExpectBytes, ...], answer: Answer
) -> Verdict:
    value, consumed = _answered_value(case, answer)
    if not readings:
        return _impossible_count(case, consumed) or Verdict(VerdictKind.EITHER, "accepted")
    wrong = []
    for reading in readings:
        if isinstance(reading, ExpectValue):
            differs = _difference(case, reading, compare_shown(case.wire, reading.value, value), value, consumed)
            if differs is None:
                if value is UNSHOWN:
                    return Verdict(VerdictKind.SKIP, "unobserved: the target shows no value")
                return Verdict(VerdictKind.EITHER, f"accepted, {_shortened(case, value)}")
            wrong.append(differs)
    none = "accepted, but no accepted interpretation gives this value"
    if len(wrong) != 1:
        return Verdict(VerdictKind.FAIL, none)
    differs = wrong[0]
    return Verdict(
        VerdictKind.FAIL,
        f"{none}: {differs.detail}",
        path=differs.path,
        requirement=_misread_requirement(case, differs),
    )


def matches(case: Case, reading: ExpectValue | ExpectRejection | ExpectBytes, answer: Answer) -> bool:
    """Return whether all shown parts of an answer match one accepted interpretation. Raises NotationError."""
    match reading:
        case ExpectRejection():
            return False
        case ExpectBytes():
            return _compare_bytes(case, reading, bytes_of(answer)).kind is VerdictKind.PASS
    value, consumed = _answered_value(case, answer)
    return _difference(case, reading, compare_shown(case.wire, reading.value, value), value, consumed) is None


def _misread_requirement(case: Case, differs: Verdict) -> str:
    """Return the requirement of a value that matches no accepted interpretation; empty for that of the case.

    It is the requirement of the unspecified place that explains the difference, or else of the field.
    """
    found = open_places(case)
    if not found.places or differs.path == "consumed":
        return ""
    place = found.cause_of_difference(differs.path)
    is_open = case.requirement == found.places[0].requirement
    if place is None:
        return differs.requirement or (layout_rule(case.wire) if is_open else "")
    return place.requirement if is_open else ""


def _shortened(case: Case, value: Value) -> str:
    shown = str(case.wire.notation.render(value))
    return shown if len(shown) < 80 else shown[:77] + "..."


def _compare_bytes(case: Case, writes: ExpectBytes, written: bytes) -> Verdict:
    start, stop = writes.ignoring
    if written[:start] == writes.data[:start] and written[stop:] == writes.data[stop:]:
        return PASSED
    if case.type in STRUCTURED:
        meant = _compare_meaning(case, codec.decode(case.wire, writes.data).value, written)
        if meant.kind is not VerdictKind.PASS:
            return meant
    at = _first_difference(writes, written)
    read = codec.decode(case.wire, written)
    unreadable = "" if read.ok and read.consumed == len(written) else ", and cannot be decoded"
    return Verdict(VerdictKind.FAIL, f"the bytes differ from byte {at} on{unreadable}", path=f"@{at}")


def _first_difference(writes: ExpectBytes, written: bytes) -> int:
    start, stop = writes.ignoring
    for at, (one, other) in enumerate(zip(writes.data, written, strict=False)):
        if one != other and not start <= at < stop:
            return at
    return min(len(writes.data), len(written))


def _compare_meaning(case: Case, value: Value, written: bytes) -> Verdict:
    """Compare the value of the written bytes, as the reference decodes it, with the expected value."""
    read = codec.decode(case.wire, written)
    if not read.ok:
        broken = read.violations[0]
        return Verdict(
            VerdictKind.FAIL, f"the written bytes cannot be decoded: {broken}", requirement=broken.requirement
        )
    if read.consumed != len(written):
        return Verdict(VerdictKind.FAIL, f"{len(written) - read.consumed} bytes follow after the {case.type}")
    if case.type == "LOG":
        return _compare_sets(case, value, read, written)
    meant = read.value
    if case.type == "RECORD_BATCH":
        meant = {name: entry for name, entry in meant.items() if name not in FREE_FIELDS}
    differs = _written_difference(case, value, meant)
    if differs is None and read.remarks and case.type.startswith("MESSAGE<"):
        return _writer_violation(read, written)
    return differs or PASSED


def _written_difference(case: Case, expected: Value, meant: Value) -> Verdict | None:
    paths = compare_shown(case.wire, expected, meant).mismatches
    if not paths:
        return None
    if case.type == "MESSAGE_SET":  # only of uncompressed messages, whose offsets a producer may choose
        others = [path for path in paths if not path.endswith(".offset")]
        if not others:
            return Verdict(
                VerdictKind.FAIL, "the written offsets differ", paths[0], "legacy.uncompressed-offsets-free", "may"
            )
        paths = tuple(others)
    differs = _value_difference(case, expected, meant, paths)
    return structs.replace(differs, detail=f"{differs.detail} in the written bytes")


def _compare_sets(case: Case, value: Value, read: codec.DecodeResult, written: bytes) -> Verdict:
    """Judge the messages of a wrapper, then the wrapper itself at should: Apache Kafka accepts any wrapper."""
    plain = {"batches": tuple({**entry, "offset": 0} for entry in value["batches"]), "partial": 0}
    meant = {**read.value, "batches": tuple({**entry, "offset": 0} for entry in read.value["batches"])}
    differs = _written_difference(case, plain, meant)
    if differs is not None:
        return differs
    lapse = _written_difference(case, value, read.value) or _writer_violation(read, written)
    return lapse if lapse.kind is VerdictKind.PASS else structs.replace(lapse, level="should")


def _writer_violation(read: codec.DecodeResult, written: bytes) -> Verdict:
    """Return a failure for bytes that readers accept, but that a writer should not write."""
    if read.remarks:
        first = read.remarks[0]
        return Verdict(
            VerdictKind.FAIL,
            f"the written bytes have more than one interpretation: {first}",
            requirement=first.requirement,
        )
    spans = codec.decode("LOG", written, trail=True).spans
    first_inner = next((span for span in spans if span.path == "batches[0].value[0].offset"), None)
    if first_inner is not None and first_inner.value and stored_magic(written) == 1:
        hint = f"the first inner offset is {first_inner.value}, not 0"
        return Verdict(VerdictKind.FAIL, hint, requirement="legacy.compressed-inner-offsets-from-zero")
    return PASSED
