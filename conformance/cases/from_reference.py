"""Cases of one's own: a question about bytes, a value or a log, and what the reference says must come of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from conformance import codec
from conformance.cases.catalog import Catalog
from conformance.cases.from_vectors import LEADER_EPOCH, codecs_and_magics, is_free, set_request, typed
from conformance.cases.log_questions import (
    ABORTED,
    NotAsked,
    Question,
    convert_question,
    is_checksum_case,
    read_question,
    sequence_question,
)
from conformance.cases.model import (
    WHOLE_LOG,
    AnyOf,
    Case,
    CaseKind,
    Delivers,
    Expectation,
    Op,
    Reads,
    Refuses,
    Sequences,
    Writes,
    WritesAs,
)
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.notation import DECIMAL, HEX, NUMBER, NotationError
from conformance.semantics.sequences import BATCHES
from conformance.semantics.visibility import ISOLATIONS

GENERAL = "general.exact-encoding"

# --- bytes --------------------------------------------------------------------------------------------


def expectation(wire: codec.Wire, data: bytes) -> tuple[Expectation, str]:
    """What a target must make of bytes, and by which requirement, by rule 6 of decisions#how-we-judge-with-this-page.

    A definite violation is refused, open places leave readings, everything else is the value.
    """
    read = codec.decode(wire, data)
    found = [*read.violations, *read.remarks]
    requirement = _first_rule(found, next(iter(read.rests_on), GENERAL))
    first = read.violations[0] if read.violations else None
    moved = (
        any(remark.openness is codec.Openness.ELSEWHERE for remark in read.remarks)
        and first
        and first.requirement not in CHECKSUM_RULES
    )
    if moved or any(violation.open for violation in read.violations):
        return AnyOf(), requirement
    if read.violations:
        corrupt = all(violation.requirement in CHECKSUM_RULES for violation in read.violations)
        return Refuses("corrupt" if corrupt else None, "corrupt" if corrupt else "malformed"), requirement
    value = Reads(read.value, read.consumed)
    if wire.name in _RECORDS and not _is_clean_log(read.value):
        # The type is bytes to some readers and record batches to others; only what is both is settled.
        return AnyOf((Refuses(), value)), requirement if read.rests_on else "records.content-batches"
    if any(remark.openness is codec.Openness.ANY_VALUE for remark in read.remarks):
        return AnyOf(), requirement
    return (AnyOf((Refuses(), value)) if read.remarks else value), requirement


def _first_rule(found: Sequence[codec.Violation], otherwise: str) -> str:
    """The requirement that a case rests on: where readers are known to die if there is such a place, or the first."""
    rules = [one.requirement for one in found]
    return next((rule for rule in rules if rule.startswith("robustness.")), next(iter(rules), otherwise))


_RECORDS = ("RECORDS", "COMPACT_RECORDS")


def _is_clean_log(data: bytes | None) -> bool:
    read = codec.decode("LOG", data or b"")
    return read.ok and not read.remarks and not read.value["partial"]


def decode_case(identity: str, wire: codec.Wire, data: bytes, catalog: Catalog) -> Case:
    """A generated case that asks for bytes to be decoded."""
    expect, requirement = expectation(wire, data)
    request = {"hex": data.hex()}
    case = _case(identity, "decode", wire, request, catalog, expect=expect, rule=requirement, data=data)
    if case.disputed and isinstance(wire, codec.MessageWire):
        # Apache Kafka's code reads on behind such a place, and what it meets there may be a size that it dies of.
        return replace(case, disputed=case.disputed | {"crash"})
    return case


# --- values -------------------------------------------------------------------------------------------


def encode_case(identity: str, wire: codec.Wire, asked: Any, catalog: Catalog) -> Case:
    """A generated case that asks for a value to be encoded; for a MESSAGE_SET also in which `magic` and `compression`.

    These stand beside `value` in an object. Raises NotationError for what is none of the type, NotAsked for what no
    encoder is asked for.
    """
    name = wire.name
    if name == "MESSAGE_SET":
        return _set_case(identity, asked, catalog)
    value = wire.notation.parse(asked)
    data: bytes | None = None
    expect: Expectation
    rule = GENERAL
    try:
        data = codec.encode(wire, value)
    except codec.Unencodable as error:
        expect, rule = Refuses(None, "invalid-value"), error.requirement
    else:
        rule = next(iter(codec.decode(wire, data).rests_on), GENERAL)
        expect = Writes(data, LEADER_EPOCH if name == "RECORD_BATCH" else (0, 0))
        if is_free(wire):
            expect = WritesAs(codec.decode(wire, data).value)
        if name == "RECORD_BATCH" and value["compression"] != 0:
            free = ("batchLength", "crc", "partitionLeaderEpoch", "attributes")
            expect = WritesAs({key: entry for key, entry in codec.decode(wire, data).value.items() if key not in free})
    return _case(identity, "encode", wire, {"value": asked}, catalog, expect=expect, rule=rule, data=data)


def _set_case(identity: str, asked: Any, catalog: Catalog) -> Case:
    """The case of a message set; only what every writer can be asked for: offsets that rise, what compresses well."""
    if not isinstance(asked, dict) or set(asked) != {"magic", "compression", "value"}:
        raise NotationError("a MESSAGE_SET to encode is an object of magic, compression and value")
    messages = codec.wire("MESSAGE_SET").notation.parse(asked["value"])
    number = codec.TYPES["LOG"].notation.fields["batches"].element.fields["compression"].parse(asked["compression"])
    try:
        data = codec.encode("MESSAGE_SET", messages, magic=NUMBER.parse(asked["magic"]), compression=number)
    except codec.Unencodable as error:
        raise NotationError(f"there is no such message set: {error}") from None
    read = codec.decode("MESSAGE_SET", data)
    offsets = [message["offset"] for message in messages]
    if not read.ok or read.remarks or offsets != sorted(set(offsets)):
        raise NotAsked("no writer is asked for such a message set: its offsets have to rise")
    request, expect = set_request(read.value, data)
    if expect is None:
        raise NotAsked("no writer is asked to compress so little, or to write a time of log append")
    wire = codec.wire("MESSAGE_SET")
    return _case(identity, "encode", wire, request, catalog, expect=expect, rule=GENERAL, data=data)


# --- logs ---------------------------------------------------------------------------------------------


def log_case(identity: str, op: Op, request: dict[str, Any], catalog: Catalog) -> Case:
    """A generated case of an operation on a whole log, from its request in notation (docs/adapters.md#whole-logs).

    Raises NotationError for what is no such request, NotAsked for what nobody is asked.
    """
    data = _log_bytes(op, request)
    asked, expect = _QUESTIONS[op](request, data)
    case = _case(
        *(identity, op, codec.wire("LOG"), asked, catalog),
        expect=expect,
        rule=next(_rules(op, asked, expect, data)),
        data=data,
    )
    # A consumer should check checksums, a decoder must (docs/concepts.md#how-a-case-is-judged).
    return replace(case, level="should") if is_checksum_case(expect) and case.level == "must" else case


_PARTS = {
    "read": ({"hex", "isolation"}, {"fetchOffset", "highWatermark", "aborted", "checkCrcs"}),
    "convert": ({"hex", "magic"}, {"baseOffset"}),
    "sequence": ({"batches"}, set()),
}
"""What a request has, and what it may have besides."""


def _log_bytes(op: str, request: Any) -> bytes | None:
    """The bytes of a log, None where there are none, once the parts of a request are right."""
    needed, further = _PARTS[op]
    if not isinstance(request, dict) or not needed <= set(request) <= needed | further:
        raise NotationError(
            f"a {op} request has {', '.join(sorted(needed))}, and may have {', '.join(sorted(further))}"
        )
    data: bytes | None = HEX.parse(request.get("hex"))
    if data is None and "hex" in needed:
        raise NotationError("hex is missing")
    return data


def _question_to_read(request: dict[str, Any], data: Any) -> Question:
    if request["isolation"] not in ISOLATIONS:
        raise NotationError(f"isolation is one of {', '.join(ISOLATIONS)}")
    places = {"fetchOffset": "fetch_offset", "highWatermark": "high_watermark"}
    return read_question(
        data,
        isolation=request["isolation"],
        aborted=_complete(ABORTED, request.get("aborted", [])),
        check_crcs=request.get("checkCrcs", True) is not False,
        **{name: DECIMAL.parse(request[key]) for key, name in places.items() if key in request},
    )


def _question_to_convert(request: dict[str, Any], data: Any) -> Question:
    base = DECIMAL.parse(request["baseOffset"]) if "baseOffset" in request else None
    return convert_question(data, NUMBER.parse(request["magic"]), base)


def _question_of_sequences(request: dict[str, Any], data: Any) -> Question:
    del data
    return sequence_question(_complete(BATCHES, request["batches"]))


_QUESTIONS = {"read": _question_to_read, "convert": _question_to_convert, "sequence": _question_of_sequences}


def _complete(notation: Any, given: Any) -> Any:
    """A list of objects none of which lacks a field."""
    found = notation.parse(given)
    if any(set(entry) != set(notation.element.fields) for entry in found):
        raise NotationError(f"every entry has {', '.join(notation.element.fields)}")
    return found


def _rules(op: Op, request: dict[str, Any], expect: Expectation, data: bytes | None) -> Iterator[str]:
    """The requirement that a case about a log rests on first of all."""
    if isinstance(expect, Sequences):
        answers = [next(iter(right)) for right in expect.answers if len(right) == 1]
        yield from (rule for answer, rule in _OF_ANSWERS.items() if answer in answers)
        yield "sequence.monotonic-per-partition"
    if op == "convert":
        yield "convert.up-to-v2" if request["magic"] == 2 else "convert.down-for-old-consumers"
    if isinstance(expect, Delivers):
        found = [*([expect.view.damage] if expect.view.damage else []), *expect.view.remarks]
        yield from filter(None, [_first_rule(found, "")])
        yield from sorted(set(expect.view.hidden.values()))
    elif data is not None:
        read = codec.decode("LOG", data)
        yield from filter(None, [_first_rule((*read.violations, *read.remarks), "")])
    yield "offset.fetch-absolute"


_OF_ANSWERS = {
    "fenced": "producer-epoch.fences",
    "out-of-order": "sequence.gap-out-of-order",
    "duplicate": "sequence.duplicate-deduplicated",
}

# --- any ----------------------------------------------------------------------------------------------


def _case(
    identity: str,
    op: Op,
    wire: codec.Wire,
    request: dict[str, Any],
    catalog: Catalog,
    *,
    expect: Expectation,
    rule: str,
    data: bytes | None,
) -> Case:
    requirement = catalog.requirements.get(rule) or catalog.requirements[GENERAL]
    codecs, magics = codecs_and_magics(wire.name, data) if data else (frozenset(), frozenset())
    return Case(
        identity,
        op,
        wire,
        requirement.id,
        requirement.level,
        {"op": op, **({} if op in WHOLE_LOG else typed(wire)), **request},
        expect,
        data,
        disputed=requirement.disputed(op),
        codecs=codecs,
        magics=magics,
        kind=CaseKind.GENERATED,
    )


def parts_of(case: Case) -> dict[str, Any]:
    """The request of a case without what it asks and of which type."""
    return {name: entry for name, entry in case.request.items() if name not in _ASKED}


_ASKED = ("op", "type", "message", "version", "definition")


def ad_hoc_case(
    op: Op,
    wire: codec.Wire,
    parts: dict[str, Any],
    catalog: Catalog,
    *,
    kind: CaseKind = CaseKind.AD_HOC,
    origin: str = "",
) -> Case:
    """The case of a request's parts, under an id of its own: its type and a digest; `origin` is the file of its bytes.

    Raises NotationError for what is none of the type, NotAsked for what nobody is asked.
    """
    identity = ad_hoc_id(op, wire.name, parts)
    if op == "decode":
        case = decode_case(identity, wire, bytes.fromhex(parts["hex"]), catalog)
    elif op in WHOLE_LOG:
        case = log_case(identity, op, parts, catalog)
    else:
        case = encode_case(identity, wire, as_given(parts), catalog)
    return replace(case, kind=kind, origin=origin)


def ad_hoc_id(op: Op, name: str, parts: dict[str, Any]) -> str:
    """The id of a shrunk or ad hoc case: its type and a digest of its bytes, of its value, or of all it says."""
    data = bytes.fromhex(parts["hex"]) if op == "decode" else json.dumps(as_given(parts)).encode()
    return f"bytes/{name}/{hashlib.sha256(data).hexdigest()[:12]}"


def as_given(parts: dict[str, Any]) -> Any:
    """What a user writes after `TYPE:` for a request: its value where there is nothing besides, or all of its parts."""
    return parts["value"] if set(parts) == {"value"} else parts
