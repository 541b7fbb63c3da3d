"""One failure explained: expected and actual, the bytes around the field, and the command that reproduces it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from conformance import codec
from conformance.cases.client_checks import CHECKS
from conformance.cases.model import (
    Accepted,
    Case,
    CaseOrigin,
    CaseSummary,
    ExpectAnyOf,
    ExpectAppend,
    Expectation,
    ExpectBytes,
    ExpectClientRequests,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectResponses,
    ExpectScenario,
    ExpectSequenceResults,
    ExpectSize,
    ExpectValue,
    NoAnswer,
    Outcome,
    Rejected,
    Unsupported,
    WholeLog,
)
from conformance.cases.operations import parts_of
from conformance.catalog.case_builder import as_given
from conformance.codec.hex_dump import DumpLine, annotate, place_of
from conformance.codec.json_notation import UNSHOWN, NotationError
from conformance.definitions.request_frames import frame_at, frame_wire
from conformance.runner.results import Result, StoredAnswer
from conformance.semantics.consumer_view import VIEW_NOTATION
from conformance.semantics.format_conversion import CONVERTED, records_of


def expected_json(case: Case) -> dict[str, object]:
    """Return the expectation of a case in value notation, as in the JSON report."""
    return expectation_json(case, case.expect)


def expectation_json(case: Case, expect: Expectation) -> dict[str, object]:
    """Return one of several expectations of a case in value notation."""
    if isinstance(expect, WholeLog):
        return _log_expectation(expect)
    render = case.wire.notation.render
    match expect:
        case ExpectValue(value, consumed):
            shown = {} if value is UNSHOWN else {"value": render(value)}
            return shown if consumed is None else {**shown, "consumed": consumed}
        case ExpectRejection(_, error_class):
            return {"reject": error_class}
        case ExpectAnyOf(readings):
            return {"either": [expectation_json(case, reading) for reading in readings] or "any"}
        case ExpectBytes(data):
            return {"hex": data.hex()}
        case ExpectEquivalentBytes(value, name):
            return {"decodes-to": codec.wire(name or case.wire).notation.render(value)}
        case ExpectSize(size):
            return {"size": size}


def _log_expectation(expect: WholeLog) -> dict[str, object]:
    match expect:
        case ExpectConsumerView(view, _, is_open):
            shown = {"value": VIEW_NOTATION.render({"records": view.records, "nextOffset": view.next_offset})}
            shown |= {} if view.damage is None else {"then": "an error"}
            return {"either": ["reject", shown]} if is_open else shown
        case ExpectConvertedRecords(records):
            return {"decodes-to": CONVERTED.render(records)}
        case ExpectAppend(records):
            return {"decodes-to": CONVERTED.render(records)}
        case ExpectSequenceResults(answers):
            return {"value": [" or ".join(sorted(right)) for right in answers]}
        case ExpectResponses(responses):
            return {"answers": [f"{one.name} {one.version}" if one.must_answer else "any" for one in responses]}
        case ExpectScenario(_, results):
            return {"value": list(results)}
        case ExpectClientRequests(check, _, request):
            return {"requests": check, **({"request": request} if request else {})}


_LONGEST = 1024
"""Bytes of a case that a command contains literally; a longer case is referenced."""


def reproduce(result: Result, origin: str = "") -> str:
    """Return the command that repeats a case on its target; see `command`."""
    if result.summary.kind is CaseOrigin.PROBE:
        return shlex.join(["conformance", "doctor", *_by(result.python), result.target])
    return command(result.summary, [result.target], origin, result.python)


def command(case: CaseSummary, targets: Sequence[str], origin: str = "", python: str = "") -> str:
    """Return one command that repeats a case on some targets.

    A large shrunk case is repeated as `origin`, the id of the generated case that it was shrunk from. `python` is
    the value of --python.
    """
    words = ["conformance", "run", *targets, *_by(python)]
    if case.defined_in:
        words += ["--definitions", case.defined_in]
    if case.kind in (CaseOrigin.VECTOR, CaseOrigin.GENERATED):
        further = ["--vectors", case.origin] if case.origin else []
        return shlex.join([*words, *further, "--select", case.id])
    return shlex.join([*words, *_in_full(case.to_case(), origin)])


def _by(python: str) -> list[str]:
    return ["--python", python] if python else []


def _in_full(case: Case, origin: str) -> list[str]:
    """Return the options that contain the case literally, or refer to its file or origin if it is long."""
    if case.op != "decode":
        given = json.dumps(as_given(parts_of(case)))
        if len(given) <= 2 * _LONGEST or not origin:
            return ["--op", case.op, "--case", f"{case.type}:{given}"]
        return ["--select", origin]
    assert case.data is not None
    if len(case.data) <= _LONGEST:
        return ["--case", f"{case.type}:{case.data.hex()}"]
    return ["--case", f"{case.type}:@{case.origin}"] if case.origin else ["--select", origin]


_AROUND = 3
"""Lines of the dump that are shown before and after the failing field."""
_VERBS = {"convert": "wrote", "append": "served"}


class FailureExplanation(Struct, frozen=True):
    """The parts of one failure that a report shows."""

    expected: str
    actual: str
    lines: tuple[DumpLine, ...]
    """The annotated bytes around the failing field."""
    place: int
    """The index of that field in `lines`; -1 if there is none."""
    reproduce: str
    """The command that repeats the case on the target."""
    via: str
    """The library call that was judged, with its entry point; empty if the target does not name it."""


def explain(result: Result, origin: str = "") -> FailureExplanation:
    """Explain a failing result; `origin` is the id of the generated case that it was shrunk from."""
    case, path = result.case, result.verdict.path
    lines, place = _sent_around(result, path) if case.op == "send" else around(case, path)
    expected, actual = expected_text(case, path), actual_text(result, path)
    return FailureExplanation(expected, actual, tuple(lines), place, reproduce(result, origin), result.via)


def around(case: Case, path: str) -> tuple[list[DumpLine], int]:
    """Return the dump lines near the field at `path`, and the index of its line (-1: no such line)."""
    if case.data is None:
        return [], -1
    return _near(case.wire, case.data, path, next(iter(case.checked_fields), ""))


def _sent_around(result: Result, path: str) -> tuple[list[DumpLine], int]:
    """Return the dump lines of a client's request, near the field that breaks the requirement."""
    if data := _frame(result, path):
        return _near(frame_wire(data) or "BYTES", data, path.partition("].")[2])
    return [], -1


def _frame(result: Result, path: str) -> bytes:
    """Return the request with which a client broke a requirement; empty if unnamed or not stored."""
    try:
        return frame_at(_unpacked(result.outcome), path) if isinstance(result.outcome, StoredAnswer) else b""
    except (LookupError, TypeError):  # a stored answer has digests in place of long values
        return b""


def _near(wire: codec.WireType | str, data: bytes, path: str, about: str = "") -> tuple[list[DumpLine], int]:
    read, lines = annotate(wire, data)
    first = max(0, (place := place_of(lines, read, path, about)) - _AROUND)
    return lines[first : max(place, 0) + _AROUND + 1], place - first if place >= 0 else -1


# --- expected and actual ------------------------------------------------------------------------------


def actual_json(result: Result) -> dict[str, object]:
    """Return the outcome of the target, as in the JSON report."""
    match result.outcome:
        case StoredAnswer() as packed:
            return _unpacked(packed)
        case Accepted(answer):
            return answer
        case Rejected(error, message):
            return {"error": error, "message": message}
        case Unsupported(reason):
            return {"unsupported": reason}
        case NoAnswer(how, detail):
            return {how: detail}


def expected_text(case: Case, path: str = "") -> str:
    """Return the expectation in one line; if only the field at `path` differs, only that field."""
    match case.expect:
        case ExpectRejection(_, error_class):
            return f"rejected ({error_class})"
        case ExpectAnyOf(readings):
            shown = (
                "rejected" if isinstance(r, ExpectRejection) else _json(expectation_json(case, r)) for r in readings
            )
            return " or ".join(shown) or "any answer"
        case (
            ExpectValue()
            | ExpectEquivalentBytes()
            | ExpectConvertedRecords()
            | ExpectSequenceResults()
            | ExpectAppend()
            | ExpectScenario()
        ):
            return _narrowed(expected_json(case), path)
        case ExpectConsumerView() as delivers:
            return _delivered_text(case, delivers, path)
        case ExpectBytes(data) if path and not path.startswith("@"):
            return _written_text(case.wire, data.hex(), path)
        case ExpectBytes(data):
            return _hex_near(data, path)
        case ExpectSize(size):
            return str(size)
        case ExpectResponses():
            return _narrowed({"value": expected_json(case)["answers"]}, path)
        case ExpectClientRequests() as sends:
            return _sent_text(sends)


_SENT = 128
"""Bytes of a request that are shown in a line."""


def _sent_text(expect: ExpectClientRequests) -> str:
    """Return a description of the requests that a client is expected to send."""
    if text := CHECKS[expect.check].expected:
        return text
    isolation = f" ({expect.isolation})" if expect.check == "isolation-level" else ""
    return f"every {expect.request}{' ' * bool(expect.request)}request passes the check {expect.check}{isolation}"


def _sent(data: bytes) -> str:
    more = f" … {len(data)} bytes" if len(data) > _SENT else ""
    return f"sent {data[:_SENT].hex(' ')}{more}"


def _delivered_text(case: Case, expect: ExpectConsumerView, path: str) -> str:
    """Return the records that a read must deliver; damaged and unspecified bytes allow other outcomes too."""
    damaged = expect.view.damage is not None
    if path == "error":
        return "an error" if damaged else "no error"
    shown = _narrowed(expectation_json(case, replace(expect, open=False)), path)
    return shown + (" or rejected" if expect.open else " or an error" if damaged else "")


def actual_text(result: Result, path: str = "") -> str:
    """Return the outcome of the target in one line, narrowed to the field at `path` like `expected_text`."""
    if not isinstance(result.outcome, StoredAnswer):
        return _outcome_text(result.case, result.outcome, path)
    if not result.outcome.is_cut:
        return _outcome_text(result.case, Accepted(_unpacked(result.outcome)), path)
    if result.outcome.part and path == result.verdict.path:
        return f"{path} = {_json(msgspec.json.decode(result.outcome.part))}"
    if result.case.op == "send" and (data := _frame(result, path)):
        return _sent(data)
    left = _unpacked(result.outcome)
    return _narrowed(left, "consumed") if path == "consumed" else f"accepted: {_json(left)}"


def _outcome_text(case: Case, outcome: Outcome, path: str) -> str:
    match outcome:
        case Accepted(answer) if path.startswith("@") and isinstance(answer.get("hex"), str):
            return _hex_near(bytes.fromhex(answer["hex"]), path)
        case Accepted(answer) if case.op == "send" and (data := frame_at(answer, path)):
            return _sent(data)
        case Accepted(answer) if case.op in _VERBS:
            return f"{_VERBS[case.op]} {_converted_text(answer.get('hex'), path)}"
        case Accepted(answer) if case.op == "encode" and isinstance(answer.get("hex"), str):
            expect = case.expect
            name = expect.type if isinstance(expect, ExpectEquivalentBytes) else ""
            return "wrote " + _written_text(codec.wire(name or case.wire), answer["hex"], path)
        case Accepted(answer) if isinstance(case.expect, ExpectSize) and answer.get("size") is not None:
            return _json(answer["size"])
        case Accepted(answer):
            shown, message = _narrowed(_in_our_notation(case, answer), path, prefix="accepted"), answer.get("message")
            return f"{shown} ({_cut(message)})" if case.op == "read" and message and isinstance(message, str) else shown
        case Rejected(error, message):
            return f"rejected ({error}{': ' + _cut(message) if message else ''})"
        case Unsupported(reason):
            return f"unsupported: {_cut(reason) or 'no reason given'}"
        case NoAnswer(how, detail):
            return f"{how}: {_cut(detail) or 'no message'}"


def _unpacked(packed: StoredAnswer) -> dict[str, object]:
    """Return the stored answer; of a long answer only a part is stored."""
    answer: dict[str, object] = msgspec.json.decode(packed.json)
    return answer


def _in_our_notation(case: Case, answer: Mapping[str, object]) -> Mapping[str, object]:
    """Return the answer with its value in our notation ("1000", not 1000); unchanged if it is no value of the type."""
    notation = VIEW_NOTATION if case.op == "read" else case.wire.notation
    try:
        return {**answer, "value": notation.render(notation.parse(answer["value"]))}
    except (KeyError, NotationError):
        return answer


def _written_text(wire: codec.WireType, digits: str, path: str) -> str:
    """Return the field at `path` that an encoder wrote, as the reference reads it, or the bytes."""
    if not digits:
        return "no bytes"
    try:
        read = codec.decode(wire, bytes.fromhex(digits))
    except ValueError:
        return _json(digits)
    if not path or not read.ok:
        return _json(digits)
    return _narrowed({"value": wire.notation.render(read.value)}, path)


def _converted_text(digits: object, path: str) -> str:
    """Return the field at `path` that a converter wrote, as the reference reads it, or the bytes."""
    if not isinstance(digits, str) or not digits:
        return "no bytes" if digits == "" else _json(digits)
    try:
        read = codec.decode("LOG", bytes.fromhex(digits))
    except ValueError:
        return _json(digits)
    if not read.ok:
        return _json(digits)
    return _narrowed({"value": CONVERTED.render(records_of(read.value["batches"]))}, path)


def _hex_near(data: bytes, path: str) -> str:
    """Return the bytes around the position in `path` (`@17`), and the total number of bytes."""
    if not data:
        return "no bytes"
    at = int(path[1:]) if path.startswith("@") else 0
    first = max(0, at - 4)
    window = data[first : at + 8].hex(" ")
    return f"{'… ' if first else ''}{window}{' …' if at + 8 < len(data) else ''} ({len(data)} bytes)"


def _narrowed(answer: Mapping[str, object], path: str, *, prefix: str = "") -> str:
    """Return an answer in one line, or only its field at `path`; `prefix` precedes a whole value."""
    if path == "consumed":
        return f"consumed {answer.get('consumed')}"
    if path and path not in ("value", "hex"):
        value = _at(answer.get("value", answer.get("decodes-to")), path)
        return f"no {path}" if value is _ABSENT else f"{path} = {_json(value)}"
    if "value" in answer:
        return f"{prefix + ': ' if prefix else ''}{_json(answer['value'])}"
    if prefix:
        return f"{prefix}, without a value"
    return _json(answer) if answer else "accepted, with any value"


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


_ABSENT = object()


def _at(value: object, path: str) -> object:
    """Return the part of a value at a path of names and indexes, or _ABSENT."""
    for name, index in _STEP.findall(path):
        if index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return _ABSENT
    return value


def _cut(text: str) -> str:
    """Return a text of a target, cut if it is long."""
    return text if len(text) <= 400 else f"{text[:390]}… ({len(text)} characters)"


def _json(value: object) -> str:
    """Return a value as JSON, cut if it is long."""
    shown = json.dumps(value, ensure_ascii=False)
    shown = shown.encode("utf-8", "backslashreplace").decode("utf-8")
    return shown if len(shown) <= 160 else f"{shown[:150]}… ({len(shown)} characters)"
