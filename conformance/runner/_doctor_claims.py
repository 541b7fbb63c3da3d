"""The probes of `doctor`: plain requests that show if each claim of a target is true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct, field, structs

from conformance import codec
from conformance.cases.log_requests import convert_question, read_expectation
from conformance.cases.model import Case
from conformance.cases.operations import WHOLE_LOG
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.message_spec import VersionRange, type_name
from conformance.codec.primitives import ARRAYS
from conformance.targets.probes import MAGICS, decode_probe, log_probe, newest_magic, plain_log, probe_case
from conformance.targets.protocol import TargetDescription

_MAX_NAMES = 8
"""The maximum number of names in a list; further names are only counted."""


class ClaimProbe(Struct, frozen=True):
    """A claim of a target, with the plain requests that test it."""

    what: str
    cases: dict[str, Case] = field(default_factory=dict)
    """The requests by variant, such as a version; the key is empty if there is only one."""
    remark: str = ""
    """A remark about the claim itself, such as the reason why it is not tested."""
    entry_point: str = ""
    """The call that answers, with its kind; empty if `via` does not contain it."""
    one_suffices: bool = False
    """If True, the claim is true when at least one request is supported."""


def claims_of(described: TargetDescription, types: codec.TypeRegistry) -> Iterator[ClaimProbe]:
    """Return every claim of a target, in the order of operations and types. `types` contains the messages."""
    return (_with_entry_point(described, claim) for claim in _all_claims(described, types))


def _all_claims(described: TargetDescription, types: codec.TypeRegistry) -> Iterator[ClaimProbe]:
    for op, names in described.supports.items():
        for name in sorted(names):
            if name == "MESSAGE":
                yield from _message_claims(described, op, types)
            elif is_known(name):
                yield _type_claim(described, op, name)
    for op in WHOLE_LOG:
        if op in described.whole_log:
            yield _log_claim(described, op)
    yield from _format_claims(described)


def listed(names: list[str]) -> str:
    """Return the first names as text, and the number of further ones."""
    further = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return ", ".join(names[:_MAX_NAMES] + further)


def is_known(name: str) -> bool:
    """Return whether the suite tests a type of this name."""
    try:
        codec.wire(name)
    except codec.UnknownType:
        return name in ARRAYS or name == "MESSAGE"
    return True


def _with_entry_point(described: TargetDescription, claim: ClaimProbe) -> ClaimProbe:
    """Return the claim with the call that answers it; without requests if the library does not use the call."""
    case = next(iter(claim.cases.values()), None)
    entry_point = described.entry_point(case.op, case.type) if case else None
    if entry_point is None:
        return claim
    if entry_point.kind == "unused":
        return ClaimProbe(
            claim.what, remark=f"not tested, because the library does not use this call: via {entry_point}"
        )
    return structs.replace(claim, entry_point=str(entry_point))


# --- types and messages -------------------------------------------------------------------------------


def _type_claim(described: TargetDescription, op: str, name: str) -> ClaimProbe:
    if name == "LOG" and op != "decode":
        return ClaimProbe(f"{op} LOG", remark="not tested: a LOG can only be decoded")
    element = _element_type(described, op) if name in ARRAYS else ""
    if name in ARRAYS and not element:
        return ClaimProbe(f"{op} {name}", remark=f"not tested: {op} claims no element type, for example INT32")
    wire = codec.wire(f"{name}<{element}>" if element else name)
    case = probe_case(op, wire, newest_magic(described))
    assert case is not None
    return ClaimProbe(f"{op} {wire.name}", {"": case})


def _element_type(described: TargetDescription, op: str) -> str:
    """Return a claimed type as the element type of arrays; empty if there is none."""
    own = [name for name in sorted(described.supports[op]) if name in codec.TYPES]
    return next((name for name in ("INT32", "STRING", "COMPACT_STRING", *own) if name in own), "")


def _message_claims(described: TargetDescription, op: str, types: codec.TypeRegistry) -> Iterator[ClaimProbe]:
    """Yield one claim for each claimed message, with all its versions."""
    claimed = described.messages
    names = sorted(types.messages if claimed is None else claimed)
    for name in names:
        if name in types.messages:
            valid = types.messages[name].valid
            yield _message_claim(described, op, types, name, valid if claimed is None else claimed[name])
    undefined = [name for name in names if name not in types.messages]
    if undefined:
        remark = f"not tested: the suite has no definition (see --definitions) of {listed(undefined)}"
        yield ClaimProbe(f"{op} MESSAGE", remark=remark)


def _message_claim(
    described: TargetDescription, op: str, types: codec.TypeRegistry, name: str, claimed: VersionRange
) -> ClaimProbe:
    valid = types.messages[name].valid
    cases = {}
    for version in claimed.shared(valid):
        case = probe_case(op, types.wire(type_name(name, version)))
        if case is not None:
            cases[f"version {version}"] = _with_definition(described, case)
    remark = (
        "" if claimed.within(valid) else f"its definition has the versions {valid}, so other versions are not tested"
    )
    # A claimed range of versions cannot exclude a version in its middle.
    return ClaimProbe(f"{op} {name} {claimed}", cases, remark, one_suffices=True)


def _with_definition(described: TargetDescription, case: Case) -> Case:
    """Return the case with its message definition if the codec works with any definition."""
    if described.messages is not None or not isinstance(case.wire, codec.MessageType):
        return case
    return replace(case, request={**case.request, "definition": case.wire.message.source})


# --- logs and formats ---------------------------------------------------------------------------------


def _log_claim(described: TargetDescription, op: str) -> ClaimProbe:
    if op == "convert":
        down, up = plain_log(2), plain_log(1)
        cases = {
            "magic 2 to 1": log_probe(op, convert_question(down, 1), down),
            "magic 1 to 2": log_probe(op, convert_question(up, 2, 0), up),
        }
        return ClaimProbe(op, cases, one_suffices=True)
    case = probe_case(op, codec.wire("LOG"), newest_magic(described))
    assert case is not None
    return ClaimProbe(op, {"": case})


def _format_claims(described: TargetDescription) -> Iterator[ClaimProbe]:
    """Yield a claim for each codec and magic, tested with an operation that reads logs or batches."""
    for magic in sorted(described.magics or ()):
        yield _format_claim(described, f"magic {magic}", magic, 0)
    for name in sorted(described.codecs or ()):
        if name in CODEC_NAMES:
            yield _format_claim(described, f"codec {name}", newest_magic(described), CODEC_NAMES.index(name))
        else:
            yield ClaimProbe(f"codec {name}", remark=f"unknown codec, expected one of {', '.join(CODEC_NAMES)}")


def _format_claim(described: TargetDescription, what: str, magic: int, compression: int) -> ClaimProbe:
    if magic not in MAGICS:
        return ClaimProbe(what, remark=f"unknown magic, expected one of {', '.join(map(str, MAGICS))}")
    readers = {"RECORD_BATCH": magic == MAGICS[-1], "LOG": True, "MESSAGE_SET": magic != MAGICS[-1]}
    known = [name for name, reads in readers.items() if reads and described.claims("decode", name)]
    try:
        data = plain_log(magic, compression)
    except codec.Unencodable as error:
        return ClaimProbe(what, remark=f"not tested: {error}")
    if known:
        return ClaimProbe(f"{what}: decode {known[0]}", {"": decode_probe(codec.wire(known[0]), data)})
    if described.claims("read", ""):
        return ClaimProbe(f"{what}: read", {"": log_probe("read", read_expectation(data), data)})
    return ClaimProbe(what, remark="not tested: no claimed operation reads this format")
