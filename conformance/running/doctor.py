"""Checks an adapter before it judges its target: whether it keeps to the protocol, whatever the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance import codec
from conformance.cases.model import Accepted, Broke, Case, Kind, Outcome, Unsupported
from conformance.codec.notation import unknown_fields
from conformance.codec.primitives import ARRAYS
from conformance.judging.judge import judge
from conformance.running.probes import probe_case
from conformance.targets import protocol, reference
from conformance.targets.process import Launch
from conformance.targets.protocol import Description
from conformance.targets.session import Allowance, CannotStart, Session

_MANY = 200
"""Requests sent without waiting, to see that answers come in order and are flushed."""


_GOOD, _BAD = True, False


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    good: bool
    what: str
    detail: str = ""


def examine(launch: Launch | None) -> Iterator[Finding]:
    """Look at everything, one finding at a time (`launch` None: the reference)."""
    if launch is None:
        yield from _claims(protocol.description(reference.describe()), _reference_outcome)
        return
    try:
        with Session(launch, Allowance()) as session:
            described = session.describe()
            yield Finding(_GOOD, "starts and describes itself", f"{described.name} {described.version}".strip())
            yield from _description(described)
            yield from _claims(described, lambda request: _ask(session, request))
            yield from _habits(described, session)
            yield _ends(session)
    except CannotStart as error:
        yield Finding(_BAD, "starts and describes itself", str(error))


def _reference_outcome(request: dict[str, Any]) -> Outcome:
    return protocol.outcome(reference.answer(request))


def _ask(session: Session, request: dict[str, Any]) -> Outcome:
    return next(session.ask([protocol.body(request)]))


# --- what it says of itself ---------------------------------------------------------------------------


def _description(described: Description) -> Iterator[Finding]:
    for name in ("name", "version", "language"):
        if not getattr(described, name):
            yield Finding(_BAD, f"describe says its {name}", "it is empty, reports will not say what was judged")
    claimed = {name for types in described.supports.values() for name in types}
    strange = [name for name in sorted(claimed) if not _known_type(name)]
    if strange:
        yield Finding(_GOOD, "claims types that this release does not judge", ", ".join(strange))
    if not claimed & set(map(str, [*codec.TYPES, *ARRAYS])):
        yield Finding(_BAD, "claims at least one type", f"there are {', '.join([*codec.TYPES, *ARRAYS])}")


def _known_type(name: str) -> bool:
    try:
        codec.wire(name)
    except codec.UnknownType:
        return name in ARRAYS
    return True


def _claims(described: Description, ask: Any) -> Iterator[Finding]:
    """One plain value for each type and operation it claims."""
    for op, names in described.supports.items():
        for name in sorted(names):
            example = _example(described, op, name)
            case = probe_case(op, codec.wire(example)) if example else None
            if case is not None:
                yield _claim(case, ask(case.request))


def _example(described: Description, op: str, name: str) -> str:
    """A type to probe a claim with: an array form needs an element that it supports."""
    if name in ARRAYS:
        elements = ("INT32", "STRING", "COMPACT_STRING", *sorted(described.supports[op]))
        return next((f"{name}<{element}>" for element in elements if element in described.supports[op]), "")
    return name if _known_type(name) else ""


def _claim(case: Case, outcome: Outcome) -> Finding:
    what = f"{case.op} {case.type}"
    if isinstance(outcome, Unsupported):
        return Finding(_BAD, what, f"claimed, but answered unsupported: {outcome.reason}")
    verdict = judge(case, outcome)
    if verdict.kind is Kind.PROTOCOL:
        return Finding(_BAD, what, verdict.detail)
    remarks = _remarks(case, outcome)
    if verdict.kind is not Kind.PASS:
        remarks.append(f"{verdict.kind} on a plain value: {verdict.detail}")
    return Finding(_GOOD, what, "; ".join(remarks))


def _remarks(case: Case, outcome: Outcome) -> list[str]:
    if not isinstance(outcome, Accepted) or case.op != "decode":
        return []
    unknown = unknown_fields(case.wire.notation, outcome.answer.get("value"))
    remarks = [f"shows fields that nothing is judged by: {', '.join(unknown)}"] if unknown else []
    if "value" not in outcome.answer:
        remarks.append("shows no value, so values go unjudged")
    elif "consumed" not in outcome.answer:
        remarks.append("shows no `consumed`, so cases about it go unjudged")
    return remarks


# --- habits -------------------------------------------------------------------------------------------


def _habits(described: Description, session: Session) -> Iterator[Finding]:
    yield _admits(session, {"op": "decode", "type": "NO_SUCH_TYPE", "hex": "00"}, "an unknown type is `unsupported`")
    yield _admits(session, {"op": "no-such-operation"}, "an unknown operation is `unsupported`")
    name = next((name for name in sorted(described.supports["decode"]) if name in codec.TYPES), None)
    if name is None:
        return
    yield _answers(session, {"op": "decode", "type": name, "hex": ""}, f"empty input is answered ({name})")
    yield _answers(session, {"op": "decode", "type": name, "hex": "ff" * 100_000}, f"a long line is answered ({name})")
    case = probe_case("decode", codec.wire(name))
    assert case is not None
    outcomes = list(session.ask([protocol.body(case.request)] * _MANY))
    broken = [outcome for outcome in outcomes if isinstance(outcome, Broke)]
    detail = broken[0].detail if broken else ""
    yield Finding(not broken, f"{_MANY} requests at once are answered in order", detail)


def _admits(session: Session, request: dict[str, Any], what: str) -> Finding:
    outcome = _ask(session, request)
    return Finding(
        isinstance(outcome, Unsupported), what, "" if isinstance(outcome, Unsupported) else f"but: {outcome}"
    )


def _answers(session: Session, request: dict[str, Any], what: str) -> Finding:
    outcome = _ask(session, request)
    adapter_at_fault = isinstance(outcome, Broke) and outcome.how == "protocol"
    detail = f"{outcome.how}: {outcome.detail}" if isinstance(outcome, Broke) else ""
    return Finding(not adapter_at_fault, what, detail)


def _ends(session: Session) -> Finding:
    status = session.finish()
    good = status == 0
    return Finding(good, "exits with 0 at the end of input", "" if good else f"but: {status}")
