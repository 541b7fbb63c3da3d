"""Builds cases from bytes, values or requests; the reference computes the expected result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from conformance import codec
from conformance.cases.attribution import WRITING_OPS, broker_requirement, layout_rule, writer_requirement
from conformance.cases.encode import encode_expectation, encode_question, expected_rejection
from conformance.cases.log_requests import is_checksum_case
from conformance.cases.model import (
    Case,
    CaseOrigin,
    ExpectAnyOf,
    Expectation,
    ExpectConsumerView,
    ExpectRejection,
    ExpectSequenceResults,
    ExpectValue,
    NotTestable,
    Op,
    Request,
    Value,
    VerdictKind,
)
from conformance.cases.operations import OPERATIONS, WHOLE_LOG, request_of
from conformance.catalog.catalog import Catalog
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import NotationError, is_nan
from conformance.codec.log import CHECKSUM_RULES, codecs_and_magics
from conformance.codec.message_spec import MessageSpec
from conformance.codec.record_batch import BATCH_LAYOUT, stored_magic
from conformance.semantics.consumer_view import READ_COMMITTED

_RECORDS = ("RECORDS", "COMPACT_RECORDS")


def holds_other_bytes(wire: codec.WireType, value: Value) -> bool:
    """Return whether a value has a records field that is not complete batches, which some readers reject."""
    if wire.name in _RECORDS:
        return not _is_clean_log(value)
    if not isinstance(wire, codec.MessageType):
        return False
    return not all(map(_is_clean_log, _record_sets(wire.message, wire.message.name, value)))


def _record_sets(message: MessageSpec, structure: str, value: Value) -> Iterator[bytes | None]:
    """Yield the bytes of all records fields in a structure of a message."""
    for member in message.structures[structure]:
        field_value = value.get(member.name)
        if member.type == "records":
            yield field_value
        elif member.type in message.structures and field_value is not None:
            for part in field_value if member.is_array else (field_value,):
                yield from _record_sets(message, member.type, part)


def _is_clean_log(data: bytes | None) -> bool:
    read = codec.decode("LOG", data or b"")
    return read.ok and not read.remarks and not read.value["partial"]


_LARGE_SIZE = 1 << 20
"""Bytes or elements from which on a reader can waste memory or time if it trusts a stated size."""
_RESOURCE_PREFIXES = ("memory.", "robustness.")
"""The prefixes of requirements about memory and time."""
_NUMBER = re.compile("[0-9]{7,}")


def is_resource_requirement(requirement: str) -> bool:
    """Return whether a requirement is about memory and time."""
    return requirement.startswith(_RESOURCE_PREFIXES)


def measured_size(requirement: str, data: bytes, read: codec.DecodeResult) -> int:
    """Return the bytes that limit memory and time: input and decompressed payloads; 0 for a case that is not hostile.

    A case is hostile if its requirement is about memory or time, or if the reference found a wrong length or count of a
    mebibyte or more.
    """
    if not is_resource_requirement(requirement) and not any(
        _states_large_size(violation) for violation in (*read.violations, *read.remarks)
    ):
        return 0
    return max(1, len(data) + sum(map(len, read.layers)))


def _states_large_size(violation: codec.Violation) -> bool:
    """Return whether the hint of a violation quotes such a large number."""
    return any(int(number) >= _LARGE_SIZE for number in _NUMBER.findall(violation.hint))


GENERAL_RULE = "general.exact-encoding"
"""A requirement for every type. The layout of a type is more specific, so generated cases use that."""
_DUPLICATE_KEY_RULE = "definitions.map-key-makes-set"
_NAN_RULE = "float64.canonical-nan-written"

# --- bytes --------------------------------------------------------------------------------------------


def expectation(wire: codec.WireType, data: bytes) -> tuple[Expectation, str]:
    """Return the expected result for bytes, and its requirement, by rule 6 of decisions#how-we-judge-with-this-page.

    A definite violation means a rejection. Unspecified behaviour has several results. All other bytes have one value.
    """
    return _expectation(wire, codec.decode(wire, data))


def _expectation(wire: codec.WireType, read: codec.DecodeResult) -> tuple[Expectation, str]:
    """Return the same for bytes that the reference has read."""
    violations = [*read.violations, *read.remarks]
    requirement = _first_rule(violations, next(iter(read.rests_on), layout_rule(wire)))
    first = read.violations[0] if read.violations else None
    may_misread = (
        any(remark.openness is codec.Definedness.ELSEWHERE for remark in read.remarks)
        and first
        and first.requirement not in CHECKSUM_RULES
    )
    if may_misread or any(violation.open for violation in read.violations):
        return ExpectAnyOf(), requirement
    if read.violations:
        corrupt = all(violation.requirement in CHECKSUM_RULES for violation in read.violations)
        return ExpectRejection("corrupt" if corrupt else None, "corrupt" if corrupt else "malformed"), requirement
    value = ExpectValue(read.value, read.consumed)
    if holds_other_bytes(wire, read.value):
        # Some readers treat these fields as bytes, others as record batches: only content that both accept has one
        # result.
        return ExpectAnyOf((ExpectRejection(), value)), requirement if read.rests_on else "records.content-batches"
    if any(remark.openness is codec.Definedness.ANY_VALUE for remark in read.remarks):
        return ExpectAnyOf(), requirement
    return (ExpectAnyOf((ExpectRejection(), value)) if read.remarks else value), requirement


def _first_rule(violations: Sequence[codec.Violation], otherwise: str) -> str:
    """Return the requirement of a case: one about known crashes if there is one, else the first."""
    rules = [one.requirement for one in violations]
    return next((rule for rule in rules if rule.startswith("robustness.")), next(iter(rules), otherwise))


def decode_case(identity: str, wire: codec.WireType, data: bytes, catalog: Catalog, *, mutation: str = "") -> Case:
    """Return a generated case that decodes bytes; `mutation` names the change of the bytes."""
    read = codec.decode(wire, data)
    expect, requirement = _expectation(wire, read)
    request = {"hex": data.hex()}
    case = _case(
        identity, "decode", wire, request, catalog, expect=expect, rule=requirement, data=data, mutation=mutation
    )
    measured = measured_size(requirement, data, read)
    case = replace(case, measured_bytes=measured) if measured else case
    if case.disputed and (isinstance(wire, codec.MessageType) or wire.name == "TAGGED_FIELDS"):
        # Apache Kafka's code continues after such a place, and the next bytes may be a size on which it crashes.
        return replace(case, disputed=case.disputed | {"crash"})
    return case


# --- values -------------------------------------------------------------------------------------------


def encode_case(identity: str, wire: codec.WireType, given: object, catalog: Catalog, *, value: Value = None) -> Case:
    """Return a generated case that encodes a value. A MESSAGE_SET also has `magic` and `compression`, next to `value`.

    `given` is the value in notation, `value` its parsed form if there is one. Raises NotationError for a value of
    another type, and NotTestable for a value that some encoders cannot accept.
    """
    if wire.name == "MESSAGE_SET":
        return _message_set_case(identity, given, catalog)
    if wire.name == "LOG":
        raise NotTestable("encode needs a RECORD_BATCH or a MESSAGE_SET, not a LOG")
    value = wire.notation.parse(given) if value is None else value
    data: bytes | None = None
    expect: Expectation
    try:
        data = codec.encode(wire, value)
    except codec.Unencodable as error:
        expect, rule = expected_rejection(wire, value), error.requirement
    else:
        read = codec.decode(wire, data)
        is_set = any(remark.requirement == _DUPLICATE_KEY_RULE for remark in read.remarks)
        # A writer that stores elements by key keeps only one of two with the same key.
        expect = ExpectAnyOf() if is_set else encode_expectation(wire, value, data, data)
        rule = _DUPLICATE_KEY_RULE if is_set else next(iter(read.rests_on), layout_rule(wire))
        if wire.name == "FLOAT64" and is_nan(value):
            rule = _NAN_RULE
    return _case(identity, "encode", wire, {"value": given}, catalog, expect=expect, rule=rule, data=data)


def _message_set_case(identity: str, given: object, catalog: Catalog) -> Case:
    """Return the case of a message set with rising offsets, because every writer can write only those."""
    row, wire = OPERATIONS["encode"], codec.wire("MESSAGE_SET")
    if not isinstance(given, dict) or set(given) != set(row.names):
        raise NotationError("expected a MESSAGE_SET as an object of magic, compression and value")
    parts = row.parse(given, wire)
    messages = parts.pop("value")
    try:
        data = codec.encode(wire, messages, **parts)
    except codec.Unencodable as error:
        raise NotationError(f"this message set has no encoding: {error}") from None
    read = codec.decode(wire, data)
    offsets = [message["offset"] for message in messages]
    if not read.ok or read.remarks or offsets != sorted(set(offsets)):
        raise NotTestable("encode is not tested with message sets whose offsets do not rise")
    request, expect = encode_question(wire, read.value, data)
    return _case(identity, "encode", wire, request, catalog, expect=expect, rule=layout_rule(wire), data=data)


# --- logs ---------------------------------------------------------------------------------------------


def log_case(identity: str, op: Op, request: object, catalog: Catalog, *, mutation: str = "") -> Case:
    """Return a generated case of a whole-log operation, from its request in notation (docs/adapters.md#whole-logs).

    Raises NotationError for a request with invalid notation, and NotTestable for a request that is not tested.
    """
    wire = codec.wire("LOG")
    parts = OPERATIONS[op].parse(_only_parts(op, request), wire)
    question = OPERATIONS[op].question
    assert question is not None
    sent, expect = question(parts)
    data = parts.get("hex")
    rule = next(_rules(op, sent, expect, data))
    case = _case(identity, op, wire, sent, catalog, expect=expect, rule=rule, data=data, mutation=mutation)
    if is_resource_requirement(rule) and data is not None:
        case = replace(case, measured_bytes=measured_size(rule, data, codec.decode(wire, data)))
    if op == "append":
        case = broker_requirement(case, catalog.requirements)
        return (
            replace(case, disputed=case.disputed | {VerdictKind.FAIL}) if _kafka_ignores_length(data or b"") else case
        )
    if op == "read" and data is not None and _kafka_crashes(case, data, catalog):
        case = replace(case, disputed=case.disputed | {VerdictKind.CRASH})
    # A consumer should check checksums, a decoder must (docs/concepts.md#how-a-case-is-judged).
    return replace(case, level="should") if is_checksum_case(expect) and case.level == "must" else case


def _only_parts(op: Op, request: object) -> Request:
    """Return the request if it is an object with all required fields of the operation and no unknown ones."""
    needed = {part.name for part in OPERATIONS[op].parts if part.needed}
    further = set(OPERATIONS[op].names) - needed
    if isinstance(request, dict) and needed <= set(request) <= needed | further:
        return request
    may_have = f", and may have {', '.join(sorted(further))}" if further else ""
    raise NotationError(f"a {op} request has {', '.join(sorted(needed))}{may_have}")


def _rules(op: Op, request: Request, expect: Expectation, data: bytes | None) -> Iterator[str]:
    """Yield the requirements on which a case about a log can rest, the most specific first."""
    if isinstance(expect, ExpectSequenceResults):
        answers = [next(iter(right)) for right in expect.answers if len(right) == 1]
        yield from (rule for answer, rule in _RESULT_RULES.items() if answer in answers)
        yield "sequence.monotonic-per-partition"
    if op == "convert":
        yield "convert.up-to-v2" if request["magic"] == 2 else "convert.down-for-old-consumers"
    if isinstance(expect, ExpectConsumerView):
        violations = [*([expect.view.damage] if expect.view.damage else []), *expect.view.remarks]
        yield from filter(None, [_first_rule(violations, next(iter(expect.view.rests_on), ""))])
        yield from sorted(set(expect.view.hidden.values()))
    elif data is not None:
        read = codec.decode("LOG", data)
        yield from filter(None, [_first_rule((*read.violations, *read.remarks), next(iter(read.rests_on), ""))])
    if op == "append":
        yield _rule_of_settings(request)
    yield "offset.fetch-absolute"


def _kafka_crashes(case: Case, data: bytes, catalog: Catalog) -> bool:
    """Return whether Apache Kafka's consumer crashes on a fetch at a place that no violation of the case names."""
    expect = case.expect
    is_committed = case.request["isolation"] == READ_COMMITTED
    # A consumer that does not notice the first damage, or may ignore it, also reads the damaged entries after it.
    may_ignore = isinstance(expect, ExpectAnyOf) or VerdictKind.FAIL in case.disputed
    is_sound = isinstance(expect, ExpectConsumerView) and not (expect.view.damage or expect.view.remarks)
    if is_sound or not (is_committed or may_ignore):
        return False
    entries = list(codec.entries(data))
    known = (catalog.requirements[violation.requirement] for entry in entries for violation in entry.violations)
    return (is_committed and any(_kafka_crashes_on_marker(expect, data, entry) for entry in entries)) or (
        may_ignore and any(VerdictKind.CRASH in row.disputed("read") for row in known)
    )


def _kafka_crashes_on_marker(expect: Expectation, data: bytes, entry: codec.LogEntry) -> bool:
    """Return whether an entry is a marker on which that consumer crashes under read_committed.

    The consumer reads the key of the first record, which may be null. It reads compressed records into a list of the
    size that the batch states.
    """
    names = ("isControlBatch", "producerId", "compression", "recordCount")
    is_control, producer, codec_number, count = (BATCH_LAYOUT.read_field(name, data, entry.start) for name in names)
    if stored_magic(data, entry.start) < 2 or not is_control or producer < 0:
        return False
    if count > entry.stop - entry.start:
        return codec_number > 0
    remarks = expect.view.remarks if isinstance(expect, ExpectConsumerView) else None
    reads_key = remarks is None or any(violation.requirement == "control.key-layout" for violation in remarks)
    first = entry.value["records"][:1] if entry.value else ()
    return reads_key and any(record["key"] is None for record in first)


def _kafka_ignores_length(data: bytes) -> bool:
    """Return whether a length in compressed records is wrong: Apache Kafka's broker does not check record lengths."""
    read = codec.decode("LOG", data)
    compressed = [violation for violation in read.violations if violation.layer]
    # If a cut field has bytes after it, only the length of its record is wrong.
    return any(
        violation.requirement in _LENGTH_RULES
        or (violation.requirement in _TRUNCATION_RULES and violation.at < len(read.layers[violation.layer - 1]))
        for violation in compressed
    )


_LENGTH_RULES = (
    *("record.length-mismatch-rejected", "record.key-length", "record.value-length"),
    *("header.key-length", "header.value-length"),
)
"""The violations that a wrong record length can cause."""
_TRUNCATION_RULES = ("int.truncated-rejected", "varint.truncated-rejected")


def _rule_of_settings(request: Request) -> str:
    """Return the requirement of a valid batch in a topic with these settings."""
    if "timestampType" in request:
        return "timestamp.log-append-overwritten"
    if "compressionType" not in request:
        return "broker.preserves-order"
    is_plain = request["compressionType"] == CODEC_NAMES[0]
    return "compression.broker-none-uncompresses" if is_plain else "compression.broker-codec-wins"


_RESULT_RULES = {
    "fenced": "producer-epoch.fences",
    "out-of-order": "sequence.gap-out-of-order",
    "duplicate": "sequence.duplicate-deduplicated",
}

# --- common -------------------------------------------------------------------------------------------


def _case(
    identity: str,
    op: Op,
    wire: codec.WireType,
    parts: Request,
    catalog: Catalog,
    *,
    expect: Expectation,
    rule: str,
    data: bytes | None,
    mutation: str = "",
) -> Case:
    rule, known = layout_rule(wire) if rule == GENERAL_RULE else rule, catalog.requirements
    requirement = writer_requirement(rule, wire, known) if op in WRITING_OPS else known[rule]
    codecs, magics = codecs_and_magics(wire.name, data or b"")
    return Case(
        identity,
        op,
        wire,
        requirement.id,
        requirement.level,
        request_of(op, wire, parts),
        expect,
        data,
        disputed=requirement.disputed(op),
        codecs=codecs,
        magics=magics,
        kind=CaseOrigin.GENERATED,
        mutation=mutation,
    )


def ad_hoc_case(
    op: Op,
    wire: codec.WireType,
    parts: Request,
    catalog: Catalog,
    *,
    kind: CaseOrigin = CaseOrigin.AD_HOC,
    origin: str = "",
) -> Case:
    """Return the case of a request's parts; its id has the type and a digest. `origin` is the file with its bytes.

    Raises NotationError for parts with invalid notation, and NotTestable for a request that is not tested.
    """
    identity = ad_hoc_id(op, wire.name, parts)
    if op == "decode":
        case = decode_case(identity, wire, bytes.fromhex(parts["hex"]), catalog)
    elif op in WHOLE_LOG:
        case = log_case(identity, op, parts, catalog)
    else:
        case = encode_case(identity, wire, as_given(parts), catalog)
    return replace(case, kind=kind, origin=origin)


def ad_hoc_id(op: Op, name: str, parts: Request) -> str:
    """Return the id of a shrunk or ad hoc case: its type, and a digest of its bytes, its value or all of its parts."""
    data = bytes.fromhex(parts["hex"]) if op == "decode" else json.dumps(as_given(parts)).encode()
    return f"bytes/{name}/{hashlib.sha256(data).hexdigest()[:12]}"


def as_given(parts: Request) -> object:
    """Return the text after `TYPE:` on the command line: the value if it is the only part, or all parts."""
    return parts["value"] if set(parts) == {"value"} else parts
