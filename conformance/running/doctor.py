"""Checks an adapter before it judges its target: whether it keeps to the protocol, whatever the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from conformance import codec
from conformance.cases.model import Accepted, Broke, Case, Kind, Outcome, Request, Unsupported
from conformance.codec.observation import unknown_fields
from conformance.codec.primitives import ARRAYS
from conformance.judging.judge import judge
from conformance.targets import protocol, reference
from conformance.targets.launch import Launch
from conformance.targets.probes import probe_case
from conformance.targets.protocol import OPS, Description
from conformance.targets.session import Allowance, CannotStart, Session

_MANY = 200
"""Requests sent without waiting, to see that answers come in order and are flushed."""


_SHOWN = 8
"""Claims of an operation without a door that are named."""

_GOOD, _BAD = True, False


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked: what, whether it is in order, and what there is to say about it."""

    good: bool
    what: str
    detail: str = ""


def examine(launch: Launch | None) -> Iterator[Check]:
    """Look at everything, one check at a time (`launch` None: the reference)."""
    if launch is None:
        yield from _claims(protocol.description(reference.describe()), _reference_outcome)
        return
    try:
        with Session(launch, Allowance()) as session:
            described = session.describe()
            yield Check(_GOOD, "starts and describes itself", f"{described.name} {described.version}".strip())
            yield from _description(described)
            yield _doors(described)
            yield from _claims(described, lambda request: _ask(session, request))
            yield from _habits(described, session)
            yield _ends(session)
    except CannotStart as error:
        yield Check(_BAD, "starts and describes itself", str(error))


def _reference_outcome(request: Request) -> Outcome:
    return protocol.outcome(reference.answer(request))


def _ask(session: Session, request: Request) -> Outcome:
    return next(session.ask([protocol.body(request)]))


# --- what it says of itself ---------------------------------------------------------------------------


def _description(described: Description) -> Iterator[Check]:
    for name in ("name", "version", "language"):
        if not getattr(described, name):
            yield Check(_BAD, f"describe says its {name}", "it is empty, so reports do not say what was judged")
    claimed = {name for types in described.supports.values() for name in types}
    strange = [name for name in sorted(claimed) if not _known_type(name)]
    if strange:
        yield Check(_GOOD, "claims types that this release of the suite does not judge", ", ".join(strange))
    if not claimed & set(map(str, [*codec.TYPES, *ARRAYS])):
        yield Check(_BAD, "claims at least one type", f"there are {', '.join([*codec.TYPES, *ARRAYS])}")


def _doors(described: Description) -> Check:
    """Whether it says for each claim which call answers it. An adapter that does not is sound."""
    lacking = {
        op: [name for name in sorted(names) if described.door(op, name) is None]
        for op, names in _claimed(described).items()
    }
    missing = [f"{op} {_first(names)}".strip() for op, names in lacking.items() if names]
    vain = [f"{op} {name}".strip() for op, name in described.doors if not _is_claimed(described, op, name)]
    remarks = [f"not of {'; '.join(missing)}"] if missing else []
    remarks += [f"of what it does not claim: {', '.join(vain)}"] if vain else []
    return Check(_GOOD, "says by `via` which call it judges, and who calls that", "; ".join(remarks))


def _first(names: list[str]) -> str:
    """The first of many names, and how many there are besides."""
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join(names[:_SHOWN] + more)


def _claimed(described: Description) -> dict[str, set[str]]:
    """The types that it claims, by operation; each message is a type, and operations on whole logs have none."""
    claimed: dict[str, set[str]] = {op: {""} for op in sorted(described.whole_log)}
    for op, names in described.supports.items():
        claimed[op] = set(names)
        if "MESSAGE" in names and described.messages:
            claimed[op] = {*names} - {"MESSAGE"} | {f"MESSAGE<{message}>" for message in described.messages}
    return claimed


def _is_claimed(described: Description, op: str, name: str) -> bool:
    return bool(described.supports.get(op)) if op in OPS and not name else described.claims(op, name)


def _known_type(name: str) -> bool:
    try:
        codec.wire(name)
    except codec.UnknownType:
        return name in ARRAYS
    return True


def _claims(described: Description, ask: Callable[[Request], Outcome]) -> Iterator[Check]:
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


def _claim(case: Case, outcome: Outcome) -> Check:
    what = f"{case.op} {case.type}"
    if isinstance(outcome, Unsupported):
        return Check(_BAD, what, f"claimed, but answered unsupported: {outcome.reason}")
    verdict = judge(case, outcome)
    if verdict.kind is Kind.PROTOCOL:
        return Check(_BAD, what, verdict.detail)
    remarks = _remarks(case, outcome)
    if verdict.kind is not Kind.PASS:
        remarks.append(f"{verdict.kind} on a plain value: {verdict.detail}")
    return Check(_GOOD, what, "; ".join(remarks))


def _remarks(case: Case, outcome: Outcome) -> list[str]:
    if not isinstance(outcome, Accepted) or case.op != "decode":
        return []
    unknown = unknown_fields(case.wire.notation, outcome.answer.get("value"))
    remarks = [f"shows fields that are not judged: {', '.join(unknown)}"] if unknown else []
    if "value" not in outcome.answer:
        remarks.append("shows no value, so values are not judged")
    elif "consumed" not in outcome.answer:
        remarks.append("shows no `consumed`, so cases about it are not judged")
    return remarks


# --- habits -------------------------------------------------------------------------------------------


def _habits(described: Description, session: Session) -> Iterator[Check]:
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
    yield Check(not broken, f"{_MANY} requests at once are answered in order", detail)


def _admits(session: Session, request: Request, what: str) -> Check:
    outcome = _ask(session, request)
    return Check(isinstance(outcome, Unsupported), what, "" if isinstance(outcome, Unsupported) else f"but: {outcome}")


def _answers(session: Session, request: Request, what: str) -> Check:
    outcome = _ask(session, request)
    adapter_at_fault = isinstance(outcome, Broke) and outcome.how == "protocol"
    detail = f"{outcome.how}: {outcome.detail}" if isinstance(outcome, Broke) else ""
    return Check(not adapter_at_fault, what, detail)


def _ends(session: Session) -> Check:
    status = session.finish()
    good = status == 0
    return Check(good, "exits with 0 at the end of input", "" if good else f"but: {status}")
