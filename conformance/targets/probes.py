"""Probes: one plain value per claimed type and operation, sent before the cases that need the claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, cast

from conformance import codec
from conformance.cases.attribution import WRITING_OPS
from conformance.cases.client_requests import send_question
from conformance.cases.encode import encode_question
from conformance.cases.log_requests import read_expectation, scenario_question, sequence_question, steps_of
from conformance.cases.model import (
    Case,
    CaseOrigin,
    CaseSummary,
    ExpectSize,
    ExpectValue,
    Op,
    Outcome,
    RequestWithExpectation,
    Unsupported,
    Value,
    Verdict,
    VerdictKind,
)
from conformance.cases.operations import WHOLE_LOG, request_of
from conformance.cases.raw_requests import exchange_question
from conformance.codec import builders
from conformance.judging.judge import judge
from conformance.targets.protocol import TargetDescription

MAGICS = (0, 1, 2)
PROBE_REQUIREMENT = "general.exact-encoding"
"""The requirement of a probe."""

Claim: TypeAlias = tuple[str, str]
"""A claim of a target: an operation, and its type if it has one."""


def claim_key(case: CaseSummary) -> Claim:
    """Return the claim that a case needs; arrays of all elements are one claim, operations on logs have no type.

    Each message is a separate claim, with all its versions.
    """
    if case.op in WHOLE_LOG:
        return case.op, ""
    return case.op, case.type.partition("," if case.type.startswith(_MESSAGE) else "<")[0]


_MESSAGE = "MESSAGE<"


def probes_for(description: TargetDescription, cases: Iterable[CaseSummary]) -> Iterator[Case]:
    """Yield one plain value per claimed type and operation of the cases; one message represents all."""
    seen: set[Claim] = set()
    for case in cases:
        probed = case.op, claim_key(case)[1].partition("<")[0]
        if probed in seen or case.op == "send":  # the bridge claims `send`, and a client may keep state from a probe
            continue
        if description.claims(case.op, case.type) and description.has(case) and not description.unused(case):
            probe = probe_case(case.op, case.wire, newest_magic(description))
            if probe is not None:
                seen.add(probed)
                yield probe


def probe_verdict(case: Case, outcome: Outcome) -> Verdict:
    """Return PROTOCOL for `unsupported` and for an answer of the wrong shape, which disprove a claim; else PASS.

    Code that writes requests need not support every message, so `unsupported` for one message disproves no claim.
    """
    if isinstance(outcome, Unsupported):
        if isinstance(case.wire, codec.MessageType) and case.op in WRITING_OPS:
            return Verdict(VerdictKind.PASS)
        return Verdict(
            VerdictKind.PROTOCOL,
            f"{case.op} of {case.type} is claimed, but the answer is unsupported ({outcome.reason})",
        )
    verdict = judge(case, outcome)
    return verdict if verdict.kind is VerdictKind.PROTOCOL else Verdict(VerdictKind.PASS)


def newest_magic(description: TargetDescription) -> int:
    """Return the newest magic that a target claims."""
    return max((description.magics or set(MAGICS)) & set(MAGICS), default=MAGICS[-1])


def probe_case(op: str, wire: codec.WireType, magic: int = 2) -> Case | None:
    """Return a case about a plain value of a type; None for a type without one, or an operation without a probe.

    The value has this magic, or the next older one that the type permits.
    """
    if op in WHOLE_LOG:
        return _log_probe(op, magic)
    name = wire.name
    try:
        if name == "LOG":
            data = plain_log(magic)
        elif name == "MESSAGE_SET":
            data = plain_log(min(magic, 1))
        else:
            data = codec.encode(wire, _plain_value(wire))
    except codec.Unencodable:
        return None  # this version cannot represent the defaults of the message
    value = codec.decode(wire, data).value
    if op == "decode":
        return _reading(wire, data, value)
    if name == "LOG":
        return None
    question = encode_question(wire, value, data)
    if op == "size":
        question = RequestWithExpectation(question.parts, ExpectSize(len(data)))
    return _probe(f"probe/{name}:{op}", op, wire, question, data)


def decode_probe(wire: codec.WireType, data: bytes) -> Case:
    """Return a decode case about valid bytes of a type."""
    return _reading(wire, data, codec.decode(wire, data).value)


def _reading(wire: codec.WireType, data: bytes, value: Value) -> Case:
    question = RequestWithExpectation({"hex": data.hex()}, ExpectValue(value, None))
    return _probe(f"probe/{wire.name}:decode", "decode", wire, question, data)


def log_probe(op: str, question: RequestWithExpectation, data: bytes) -> Case:
    """Return a case about a log, with its request and expectation."""
    return _probe(f"probe/{op}", op, codec.wire("LOG"), question, data)


def _probe(identity: str, op: str, wire: codec.WireType, question: RequestWithExpectation, data: bytes) -> Case:
    known = cast("Op", op)
    request = request_of(known, wire, question.parts)
    return Case(identity, known, wire, PROBE_REQUIREMENT, "must", request, question.expect, data, kind=CaseOrigin.PROBE)


def _log_probe(op: str, magic: int) -> Case | None:
    """Return a case about a plain batch, a first batch of a producer, or a request; None for `convert`."""
    data = plain_log(magic=2)
    plain = {"producerId": 1, "producerEpoch": 0, "baseSequence": 0, "recordCount": 1}
    match op:
        case "read":
            data = plain_log(magic)
            return log_probe(op, read_expectation(data), data)
        case "sequence":
            return log_probe(op, sequence_question([plain]), data)
        case "send":
            return log_probe(op, send_question(_CONSUME_REQUEST), data)
        case "append":
            from conformance.cases.append import append_question

            return log_probe(op, append_question({"hex": data}), data)
        case "scenario":
            return log_probe(op, scenario_question({"steps": steps_of([{"do": "produce"}, {"do": "fetch"}])}), data)
        case "exchange":
            return log_probe(op, exchange_question(_RAW_REQUEST), data)
    return None


def plain_log(magic: int, compression: int = 0) -> bytes:
    """Return a log of one plain record in a batch or message of this magic. Raises codec.Unencodable."""
    if magic == _BATCH_MAGIC:
        batch = {**_plain_value(codec.wire("RECORD_BATCH")), "compression": compression}
        return codec.encode("RECORD_BATCH", batch)
    return codec.encode("MESSAGE_SET", _plain_value(codec.wire("MESSAGE_SET")), magic=magic, compression=compression)


_BATCH_MAGIC = 2
_CONSUME_REQUEST = {"scenario": "consume", "isolation": "read_uncommitted", "check": "offered"}
_RAW_REQUEST = {"frames": ({"message": "ApiVersionsRequest", "version": 0},)}


def _plain_value(wire: codec.WireType) -> Value:
    record = {"attributes": 0, "timestampDelta": 0, "offsetDelta": 0, "key": b"k", "value": b"v", "headers": ()}
    batch = builders.batch([{**record, "offset": 0, "timestamp": 1000}])
    message = {"offset": 0, "timestamp": 1000, "key": b"k", "value": b"v"}
    plain: dict[str, Value] = {"RECORD": record, "RECORD_BATCH": batch, "CONTROL_RECORD": {"version": 0, "type": 1}}
    plain["MESSAGE_SET"] = (message,)
    if wire.name in plain or isinstance(wire, codec.MessageType):
        return plain.get(wire.name, {})
    edges = wire.edges
    return next((edge for edge in edges if type(edge) is int and edge == 1), edges[0])
