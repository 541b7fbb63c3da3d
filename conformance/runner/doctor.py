"""The checks of `conformance doctor`: an adapter that passes them follows the protocol for any input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from conformance import codec
from conformance.cases.model import (
    Accepted,
    Answer,
    Case,
    NoAnswer,
    Outcome,
    Rejected,
    Request,
    Unsupported,
    Verdict,
    VerdictKind,
)
from conformance.cases.operations import WHOLE_LOG
from conformance.codec.compare import unknown_fields
from conformance.codec.primitives import ARRAYS
from conformance.errors import CannotStart
from conformance.judging.judge import judge
from conformance.process.launcher import LaunchSpec
from conformance.runner.doctor_claims import ClaimProbe, claims_of, first, is_known
from conformance.runner.selection import nearest
from conformance.targets import protocol, reference
from conformance.targets.limits import ResourceLimits
from conformance.targets.protocol import OPS, TargetDescription, shorten
from conformance.targets.session import TargetSession

_SHORT, _LONG = 48, 400
"""The maximum length, in characters, of one value inside a line, and of a request or an answer on its own line."""

_ABOUT = ("hex", "value", "batches", "scenario", "frames", "steps")
"""The input of a request: each request has one of these fields."""


class Severity(IntEnum):
    """The severity of an answer."""

    SOUND = 0
    REMARK = 1
    """The answer is correct, but the suite cannot judge a part of it."""
    FAILURE = 2
    """A failure, possibly of the library: `run` judges it."""
    WRONG = 3
    """A fault of the adapter."""


class ProbeReport(Struct, frozen=True):
    """The result of one probe request."""

    weight: Severity
    text: str
    """The request and the answer, on one line."""
    advice: tuple[str, ...] = ()
    """Further lines, which show the correct answer."""


def exchange(case: Case, outcome: Outcome, types: codec.TypeRegistry, *, lenient: bool = False) -> ProbeReport:
    """Return the report of an outcome; with `lenient`, `unsupported` is allowed."""
    told = f"sent {_asked(case.request)}, received {_answered(outcome)}"
    if isinstance(outcome, Unsupported):
        if lenient:
            return ProbeReport(Severity.REMARK, told)
        return ProbeReport(
            Severity.WRONG, f"{told}, although it is claimed", (_LEAVE_OUT, *_lines(case, outcome, types))
        )
    verdict = judge(case, outcome)
    if verdict.kind is VerdictKind.PROTOCOL:
        return ProbeReport(Severity.WRONG, f"{told}: {verdict.detail}", (*_lines(case, outcome, types), _HOW))
    if verdict.kind not in (VerdictKind.PASS, VerdictKind.SKIP, VerdictKind.EITHER):
        text = f"{told}; {verdict.kind} on a plain value: {verdict.detail}"
        return ProbeReport(Severity.FAILURE, text, _lines(case, outcome, types))
    remarks = _remarks(case, outcome, verdict)
    return ProbeReport(Severity.REMARK if remarks else Severity.SOUND, "; ".join([told, *remarks]))


_LEAVE_OUT = "remove the claim from the answer to describe, or support it"
_HOW = "docs/adapters.md#how-values-are-written describes the notation of each type"


def _remarks(case: Case, outcome: Outcome, verdict: Verdict) -> list[str]:
    if not isinstance(outcome, Accepted) or case.op not in ("decode", "read"):
        return []
    unknown = unknown_fields(case.wire.notation, outcome.answer.get("value")) if case.op == "decode" else []
    remarks = [f"shows fields that are not judged: {first(unknown)}"] if unknown else []
    if case.op == "decode" and "value" not in outcome.answer:
        return [*remarks, "shows no value, so values are not judged"]
    hidden = [path for path in verdict.unobserved if path != "consumed"]
    if hidden:
        remarks.append(f"does not show {first(hidden)}, so cases about it are not judged")
    if "consumed" in verdict.unobserved:
        remarks.append("shows no `consumed`, so cases about it are not judged")
    return remarks


# --- texts --------------------------------------------------------------------------------------------


def _asked(request: Request) -> str:
    return next(_brief(name, request[name]) for name in _ABOUT if name in request)


def _answered(outcome: Outcome) -> str:
    match outcome:
        case Accepted(answer):
            return _shown(answer)
        case Rejected(error, message):
            return f"a rejection as {error}" + (f" ({message:.80})" if message else "")
        case Unsupported(reason):
            return f"unsupported ({reason:.80})"
        case NoAnswer(how):
            return f"no answer ({how})"


def _shown(answer: Answer) -> str:
    shown = [_brief(name, answer[name]) for name in ("value", "hex", "size") if name in answer]
    consumed = [f"consumed {_brief('consumed', answer['consumed'])}"] if "consumed" in answer else []
    return ", ".join([*shown, *consumed]) or "only ok"


def _brief(name: str, part: object) -> str:
    """Return a field of a request or an answer, shortened; bytes have no quotation marks."""
    if name == "hex" and isinstance(part, str):
        return _cut(part, _SHORT) or "no bytes"
    return _cut(_json(part), _SHORT)


def _json(part: object) -> str:
    return json.dumps(part, separators=(",", ":"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _lines(case: Case, outcome: Outcome, types: codec.TypeRegistry) -> tuple[str, ...]:
    """Return the request, the answer, and the answer of the reference."""
    request = {name: part for name, part in case.request.items() if name != "definition"}
    answer = outcome.answer if isinstance(outcome, Accepted) else None
    answered = [f"received {_cut(_json({'ok': True, **answer}), _LONG)}"] if answer is not None else []
    due = f"expected {_cut(_json(reference.answer(case.request, types)), _LONG)}"
    return (f"sent     {_cut(_json(request), _LONG)}", *answered, due)


_MANY = 200
"""The number of requests in flight for the check of order and flushing."""


_GOOD, _BAD = True, False


class DoctorCheck(Struct, frozen=True):
    """The result of one check."""

    good: bool
    what: str
    detail: str = ""
    advice: tuple[str, ...] = ()
    """Further lines, which show the correct behaviour."""
    is_noted: bool = False
    """True if the check passed but its detail is important."""


Ask: TypeAlias = Callable[[Sequence[Request]], Iterable[Outcome]]
"""Sends requests to a target, and returns their outcomes in order."""


def examine(
    launch: LaunchSpec | None, types: codec.TypeRegistry, allowance: ResourceLimits | None = None
) -> Iterator[DoctorCheck]:
    """Yield the checks, one at a time. `launch` is None for the reference; `types` contains the messages.

    `allowance` replaces the default resource limits of a target.
    """
    if launch is None:
        for claim in claims_of(protocol.description(reference.describe()), types):
            yield _claim(claim, types, _reference_outcomes(types))
        return
    try:
        with TargetSession(launch, allowance or ResourceLimits()) as session:
            described = session.describe()
            yield DoctorCheck(_GOOD, "starts and describes itself", f"{described.name} {described.version}".strip())
            yield from _description(described)
            yield _doors(described)
            claims = list(claims_of(described, types))
            for claim in claims:
                yield _claim(claim, types, lambda requests: session.ask([*map(protocol.body, requests)]))
            yield from _habits(claims, session)
            yield _ends(session)
    except CannotStart as error:
        yield DoctorCheck(_BAD, "starts and describes itself", str(error))


def _reference_outcomes(types: codec.TypeRegistry) -> Ask:
    return lambda requests: (protocol.outcome(reference.answer(request, types)) for request in requests)


def _ask(session: TargetSession, request: Request) -> Outcome:
    return next(session.ask([protocol.body(request)]))


# --- describe -----------------------------------------------------------------------------------------


def _description(described: TargetDescription) -> Iterator[DoctorCheck]:
    for name in ("name", "version", "language"):
        if not getattr(described, name):
            yield DoctorCheck(_BAD, f"describe contains its {name}", "it is empty, so reports cannot show it")
    if reason := described.raw.get("unjudged"):
        yield DoctorCheck(_BAD, "supports everything that this kind of target is tested for", str(reason))
    if unread := [*_unread(described)]:
        told = ", ".join(unread)
        yield DoctorCheck(
            _GOOD, "describe has entries that this release of the suite does not read", told, is_noted=True
        )
    claimed = {name for types in described.supports.values() for name in types}
    strange = [name for name in sorted(claimed) if not is_known(name)]
    if strange:
        told = ", ".join(strange)
        yield DoctorCheck(_GOOD, "claims types that this release of the suite does not judge", told, is_noted=True)
    if not described.whole_log and len(strange) == len(claimed):
        there_are = ", ".join([*codec.TYPES, *ARRAYS, "MESSAGE"])
        yield DoctorCheck(_BAD, f"claims a type, or one of {', '.join(WHOLE_LOG)}", f"the types are {there_are}")


_DESCRIBED = (
    *("protocol", "name", "version", "language", "supports", "codecs", "magics", "messages", "via", "surrogates"),
    *("unjudged", "versions"),  # of live clients
)
"""The fields of the answer to `describe`."""


def _unread(described: TargetDescription) -> Iterator[str]:
    """Yield the fields of the description that the suite does not read, with similar known names."""
    for inside, names, known in (
        ("", described.raw, _DESCRIBED),
        ("supports.", described.raw.get("supports", {}), (*OPS, *WHOLE_LOG)),
    ):
        for name in names:
            if name not in known:
                meant = f" (is it {' or '.join(near)}?)" if (near := nearest(name, known)) else ""
                yield f"{inside}{shorten(name)}{meant}"


def _doors(described: TargetDescription) -> DoctorCheck:
    """Check that `via` names a call for each claim. A missing call is only a note."""
    lacking = {
        op: [name for name in sorted(names) if described.entry_point(op, name) is None]
        for op, names in _claimed(described).items()
    }
    missing = [f"{op} {first(names)}".strip() for op, names in lacking.items() if names]
    vain = [f"{op} {name}".strip() for op, name in described.doors if not _is_claimed(described, op, name)]
    remarks = [f"missing: {'; '.join(missing)}"] if missing else []
    remarks += [f"not claimed: {', '.join(vain)}"] if vain else []
    what = "names in `via` the library call that is judged"
    return DoctorCheck(_GOOD, what, "; ".join(remarks), is_noted=bool(remarks))


def _claimed(described: TargetDescription) -> dict[str, set[str]]:
    """Return the claimed types by operation; each message counts as a type, and whole-log operations have none."""
    claimed: dict[str, set[str]] = {op: {""} for op in sorted(described.whole_log)}
    for op, names in described.supports.items():
        claimed[op] = set(names)
        if "MESSAGE" in names and described.messages:
            claimed[op] = {*names} - {"MESSAGE"} | {f"MESSAGE<{message}>" for message in described.messages}
    return claimed


def _is_claimed(described: TargetDescription, op: str, name: str) -> bool:
    return bool(described.supports.get(op)) if op in OPS and not name else described.claims(op, name)


# --- claims -------------------------------------------------------------------------------------------


def _claim(claim: ClaimProbe, types: codec.TypeRegistry, ask: Ask) -> DoctorCheck:
    """Send the probes of a claim, and report the most severe answer; it represents equal ones."""
    if not claim.cases:
        return DoctorCheck(_GOOD, claim.what, claim.remark)
    outcomes = list(ask([case.request for case in claim.cases.values()]))
    lenient = claim.one_suffices and not all(isinstance(outcome, Unsupported) for outcome in outcomes)
    exchanges = [
        (exchange(case, outcome, types, lenient=lenient), label)
        for (label, case), outcome in zip(claim.cases.items(), outcomes, strict=True)
    ]
    told, label = max(reversed(exchanges), key=lambda pair: pair[0].weight)
    alike = sum(one.weight is told.weight for one, _ in exchanges)
    front = f"{label}{_like(alike, len(exchanges))}: " if label else ""
    detail = "; ".join(filter(None, [f"{front}{told.text}", claim.remark, claim.door and f"via {claim.door}"]))
    is_noted = told.weight in (Severity.REMARK, Severity.FAILURE)
    return DoctorCheck(told.weight < Severity.WRONG, claim.what, detail, told.advice, is_noted)


def _like(alike: int, of: int) -> str:
    """Return the number of answers that are as severe as the reported one, as text."""
    if alike == 1:
        return ""
    return f" (all {of} alike)" if alike == of else f" ({alike} of {of} alike)"


# --- behaviour ----------------------------------------------------------------------------------------


def _habits(claims: Sequence[ClaimProbe], session: TargetSession) -> Iterator[DoctorCheck]:
    yield _admits(
        session, {"op": "decode", "type": "NO_SUCH_TYPE", "hex": "00"}, "answers `unsupported` to an unknown type"
    )
    yield _admits(session, {"op": "no-such-operation"}, "answers `unsupported` to an unknown operation")
    asked = [(claim.what, case.request) for claim in claims for case in claim.cases.values()]
    what, of_bytes = next(((what, request) for what, request in asked if "hex" in request), ("", {}))
    if of_bytes:
        yield _answers(session, {**of_bytes, "hex": ""}, f"answers empty input ({what})")
        yield _answers(session, {**of_bytes, "hex": "ff" * 100_000}, f"answers a long line ({what})")
    if asked:
        outcomes = list(session.ask([protocol.body(asked[0][1])] * _MANY))
        broken = [outcome for outcome in outcomes if isinstance(outcome, NoAnswer)]
        detail = broken[0].detail if broken else ""
        yield DoctorCheck(not broken, f"answers {_MANY} requests at once in order", detail)


def _admits(session: TargetSession, request: Request, what: str) -> DoctorCheck:
    outcome = _ask(session, request)
    return DoctorCheck(
        isinstance(outcome, Unsupported), what, "" if isinstance(outcome, Unsupported) else f"found: {outcome}"
    )


def _answers(session: TargetSession, request: Request, what: str) -> DoctorCheck:
    outcome = _ask(session, request)
    adapter_at_fault = isinstance(outcome, NoAnswer) and outcome.how == "protocol"
    detail = f"{outcome.how}: {outcome.detail}" if isinstance(outcome, NoAnswer) else ""
    return DoctorCheck(not adapter_at_fault, what, detail)


def _ends(session: TargetSession) -> DoctorCheck:
    status = session.finish()
    good = status == 0
    detail = "it did not end, and was killed" if status is None else f"found: {status}"
    return DoctorCheck(good, "exits with 0 at the end of input", "" if good else detail)
