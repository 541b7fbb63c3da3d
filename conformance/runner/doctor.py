"""The checks of `conformance doctor`: the adapter follows the line protocol, and supports the types that it claims."""

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
from conformance.runner._doctor_claims import ClaimProbe, claims_of, is_known, listed
from conformance.runner.selection import nearest
from conformance.targets import protocol, reference
from conformance.targets.limits import ResourceLimits
from conformance.targets.protocol import OPS, TargetDescription, shorten
from conformance.targets.session import TargetSession

_MAX_PART_CHARS, _MAX_LINE_CHARS = 48, 400
"""Maximum length of one value in a line, and of a request or answer on its own line, in characters."""

_INPUT_PARTS = ("hex", "value", "batches", "scenario", "frames", "steps")
"""The fields for the input; each request has one of them."""


class Severity(IntEnum):
    """The severity of an answer."""

    SOUND = 0
    REMARK = 1
    """The answer is correct, but the suite cannot judge a part of it."""
    FAILURE = 2
    """A failure that the library may cause: `doctor` only notes it, and `run` judges it."""
    WRONG = 3
    """A fault of the adapter."""


class ProbeReport(Struct, frozen=True):
    """The result of one probe request."""

    severity: Severity
    text: str
    """The request and the answer, on one line."""
    advice: tuple[str, ...] = ()
    """Further lines, which show the correct answer."""


def probe_report(case: Case, outcome: Outcome, types: codec.TypeRegistry, *, lenient: bool = False) -> ProbeReport:
    """Return the report of an outcome; if `lenient` is True, `unsupported` is only a remark."""
    text = f"sent {_request_text(case.request)}, received {_outcome_text(outcome)}"
    if isinstance(outcome, Unsupported):
        if lenient:
            return ProbeReport(Severity.REMARK, text)
        return ProbeReport(
            Severity.WRONG, f"{text}, although it is claimed", (_REMOVE_CLAIM, *_compared_answers(case, outcome, types))
        )
    verdict = judge(case, outcome)
    if verdict.kind is VerdictKind.PROTOCOL:
        return ProbeReport(
            Severity.WRONG, f"{text}: {verdict.detail}", (*_compared_answers(case, outcome, types), _NOTATION_PAGE)
        )
    if verdict.kind not in (VerdictKind.PASS, VerdictKind.SKIP, VerdictKind.EITHER):
        text = f"{text}; {verdict.kind} on a plain value: {verdict.detail}"
        return ProbeReport(Severity.FAILURE, text, _compared_answers(case, outcome, types))
    remarks = _remarks(case, outcome, verdict)
    return ProbeReport(Severity.REMARK if remarks else Severity.SOUND, "; ".join([text, *remarks]))


_REMOVE_CLAIM = "remove the claim from the answer to describe, or support it"
_NOTATION_PAGE = "docs/adapters.md#how-values-are-written describes the notation of each type"


def _remarks(case: Case, outcome: Outcome, verdict: Verdict) -> list[str]:
    if not isinstance(outcome, Accepted) or case.op not in ("decode", "read"):
        return []
    unknown = unknown_fields(case.wire.notation, outcome.answer.get("value")) if case.op == "decode" else []
    remarks = [f"shows fields that are not judged: {listed(unknown)}"] if unknown else []
    if case.op == "decode" and "value" not in outcome.answer:
        return [*remarks, "shows no value, so values are not judged"]
    hidden = [path for path in verdict.unobserved if path != "consumed"]
    if hidden:
        remarks.append(f"does not show {listed(hidden)}, so cases about it are not judged")
    if "consumed" in verdict.unobserved:
        remarks.append("shows no `consumed`, so cases about it are not judged")
    return remarks


# --- texts --------------------------------------------------------------------------------------------


def _request_text(request: Request) -> str:
    return next(_part_text(name, request[name]) for name in _INPUT_PARTS if name in request)


def _outcome_text(outcome: Outcome) -> str:
    match outcome:
        case Accepted(answer):
            return _answer_text(answer)
        case Rejected(error, message):
            return f"a rejection ({error}{f': {message:.80}' if message else ''})"
        case Unsupported(reason):
            return f"unsupported ({reason:.80})"
        case NoAnswer(how):
            return f"no answer ({how})"


def _answer_text(answer: Answer) -> str:
    shown = [_part_text(name, answer[name]) for name in ("value", "hex", "size") if name in answer]
    consumed = [f"consumed {_part_text('consumed', answer['consumed'])}"] if "consumed" in answer else []
    return ", ".join([*shown, *consumed]) or "only `ok`"


def _part_text(name: str, part: object) -> str:
    """Return a field of a request or answer as short text; hex has no quotation marks."""
    if name == "hex" and isinstance(part, str):
        return _shortened(part, _MAX_PART_CHARS) or "no bytes"
    return _shortened(_json(part), _MAX_PART_CHARS)


def _json(part: object) -> str:
    return json.dumps(part, separators=(",", ":"))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _compared_answers(case: Case, outcome: Outcome, types: codec.TypeRegistry) -> tuple[str, ...]:
    """Return one line each for the request, the answer, and the answer of the reference."""
    request = {name: part for name, part in case.request.items() if name != "definition"}
    answer = outcome.answer if isinstance(outcome, Accepted) else None
    answered = [f"received {_shortened(_json({'ok': True, **answer}), _MAX_LINE_CHARS)}"] if answer is not None else []
    expected = f"expected {_shortened(_json(reference.answer(case.request, types)), _MAX_LINE_CHARS)}"
    return (f"sent     {_shortened(_json(request), _MAX_LINE_CHARS)}", *answered, expected)


_PIPELINED_REQUESTS = 200
"""Requests that are sent at once, to check that the answers are in order and flushed."""

_GOOD, _BAD = True, False


class DoctorCheck(Struct, frozen=True):
    """The result of one check."""

    good: bool
    what: str
    detail: str = ""
    advice: tuple[str, ...] = ()
    """Further lines that show the correct behaviour."""
    is_noted: bool = False
    """True if the check passed but its detail is important."""


SendRequests: TypeAlias = Callable[[Sequence[Request]], Iterable[Outcome]]
"""Sends requests to a target, and returns their outcomes in order."""


def examine(
    launch: LaunchSpec | None, types: codec.TypeRegistry, limits: ResourceLimits | None = None
) -> Iterator[DoctorCheck]:
    """Run each check and yield its result. `launch` is None for the reference; `types` contains the messages."""
    if launch is None:
        for claim in claims_of(protocol.description(reference.describe()), types):
            yield _check_claim(claim, types, _send_to_reference(types))
        return
    try:
        with TargetSession(launch, limits or ResourceLimits()) as session:
            described = session.describe()
            yield DoctorCheck(_GOOD, "starts and describes itself", f"{described.name} {described.version}".strip())
            yield from _check_description(described)
            yield _check_entry_points(described)
            claims = list(claims_of(described, types))
            for claim in claims:
                yield _check_claim(claim, types, lambda requests: session.ask([*map(protocol.body, requests)]))
            yield from _check_behaviour(claims, session)
            yield _check_exit(session)
    except CannotStart as error:
        yield DoctorCheck(_BAD, "starts and describes itself", str(error))


def _send_to_reference(types: codec.TypeRegistry) -> SendRequests:
    return lambda requests: (protocol.outcome(reference.answer(request, types)) for request in requests)


def _outcome_of(session: TargetSession, request: Request) -> Outcome:
    return next(session.ask([protocol.body(request)]))


# --- describe -----------------------------------------------------------------------------------------


def _check_description(described: TargetDescription) -> Iterator[DoctorCheck]:
    for name in ("name", "version", "language"):
        if not getattr(described, name):
            yield DoctorCheck(_BAD, f"describe contains its {name}", "it is empty, so reports cannot show it")
    if reason := described.raw.get("unjudged"):
        yield DoctorCheck(_BAD, "supports everything that this kind of target is tested for", str(reason))
    if unknown := [*_unread_fields(described)]:
        text = ", ".join(unknown)
        yield DoctorCheck(
            _GOOD, "describe has entries that this release of the suite does not read", text, is_noted=True
        )
    claimed = {name for types in described.supports.values() for name in types}
    unknown_types = [name for name in sorted(claimed) if not is_known(name)]
    if unknown_types:
        text = ", ".join(unknown_types)
        yield DoctorCheck(_GOOD, "claims types that this release of the suite does not judge", text, is_noted=True)
    if not described.whole_log and len(unknown_types) == len(claimed):
        known_types = ", ".join([*codec.TYPES, *ARRAYS, "MESSAGE"])
        yield DoctorCheck(_BAD, f"claims a type, or one of {', '.join(WHOLE_LOG)}", f"the types are {known_types}")


_DESCRIPTION_FIELDS = (
    *("protocol", "name", "version", "language", "supports", "codecs", "magics", "messages", "via", "surrogates"),
    *("unjudged", "versions"),  # of live clients
)
"""The fields of the answer to `describe`."""


def _unread_fields(described: TargetDescription) -> Iterator[str]:
    """Yield the fields of the description that the suite does not read, each with similar known names."""
    for prefix, names, known in (
        ("", described.raw, _DESCRIPTION_FIELDS),
        ("supports.", described.raw.get("supports", {}), (*OPS, *WHOLE_LOG)),
    ):
        for name in names:
            if name not in known:
                suggestion = f" (is it {' or '.join(similar)}?)" if (similar := nearest(name, known)) else ""
                yield f"{prefix}{shorten(name)}{suggestion}"


def _check_entry_points(described: TargetDescription) -> DoctorCheck:
    """Check that `via` names a call for each claim, and no others. A difference is only a note."""
    unnamed = {
        op: [name for name in sorted(names) if described.entry_point(op, name) is None]
        for op, names in _claimed_types(described).items()
    }
    missing = [f"{op} {listed(names)}".strip() for op, names in unnamed.items() if names]
    unclaimed = [f"{op} {name}".strip() for op, name in described.entry_points if not _is_claimed(described, op, name)]
    remarks = [f"missing: {'; '.join(missing)}"] if missing else []
    remarks += [f"not claimed: {', '.join(unclaimed)}"] if unclaimed else []
    what = "names in `via` the library call that is judged"
    return DoctorCheck(_GOOD, what, "; ".join(remarks), is_noted=bool(remarks))


def _claimed_types(described: TargetDescription) -> dict[str, set[str]]:
    """Return the claimed types by operation, with each message as a type; `""` for a whole-log operation."""
    claimed: dict[str, set[str]] = {op: {""} for op in sorted(described.whole_log)}
    for op, names in described.supports.items():
        claimed[op] = set(names)
        if "MESSAGE" in names and described.messages:
            claimed[op] = {*names} - {"MESSAGE"} | {f"MESSAGE<{message}>" for message in described.messages}
    return claimed


def _is_claimed(described: TargetDescription, op: str, name: str) -> bool:
    return bool(described.supports.get(op)) if op in OPS and not name else described.claims(op, name)


# --- claims -------------------------------------------------------------------------------------------


def _check_claim(claim: ClaimProbe, types: codec.TypeRegistry, send: SendRequests) -> DoctorCheck:
    """Send the probes of a claim; report the most severe answer, and the number of equally severe ones."""
    if not claim.cases:
        return DoctorCheck(_GOOD, claim.what, claim.remark)
    outcomes = list(send([case.request for case in claim.cases.values()]))
    lenient = claim.one_suffices and not all(isinstance(outcome, Unsupported) for outcome in outcomes)
    reports = [
        (probe_report(case, outcome, types, lenient=lenient), variant)
        for (variant, case), outcome in zip(claim.cases.items(), outcomes, strict=True)
    ]
    # Of equally severe answers, report the last one: for a message, it is the newest version.
    worst, variant = max(reversed(reports), key=lambda pair: pair[0].severity)
    alike = sum(one.severity is worst.severity for one, _ in reports)
    prefix = f"{variant}{_alike_text(alike, len(reports))}: " if variant else ""
    detail = "; ".join(
        filter(None, [f"{prefix}{worst.text}", claim.remark, claim.entry_point and f"via {claim.entry_point}"])
    )
    is_noted = worst.severity in (Severity.REMARK, Severity.FAILURE)
    return DoctorCheck(worst.severity < Severity.WRONG, claim.what, detail, worst.advice, is_noted)


def _alike_text(alike: int, of: int) -> str:
    """Return the text for the number of answers that are as severe as the reported one."""
    if alike == 1:
        return ""
    return f" (all {of} alike)" if alike == of else f" ({alike} of {of} alike)"


# --- behaviour ----------------------------------------------------------------------------------------


def _check_behaviour(claims: Sequence[ClaimProbe], session: TargetSession) -> Iterator[DoctorCheck]:
    yield _check_unsupported(
        session, {"op": "decode", "type": "NO_SUCH_TYPE", "hex": "00"}, "answers `unsupported` to an unknown type"
    )
    yield _check_unsupported(session, {"op": "no-such-operation"}, "answers `unsupported` to an unknown operation")
    requests = [(claim.what, case.request) for claim in claims for case in claim.cases.values()]
    what, with_bytes = next(((what, request) for what, request in requests if "hex" in request), ("", {}))
    if with_bytes:
        yield _check_answer(session, {**with_bytes, "hex": ""}, f"answers empty input ({what})")
        yield _check_answer(session, {**with_bytes, "hex": "ff" * 100_000}, f"answers a long line ({what})")
    if requests:
        outcomes = list(session.ask([protocol.body(requests[0][1])] * _PIPELINED_REQUESTS))
        broken = [outcome for outcome in outcomes if isinstance(outcome, NoAnswer)]
        detail = broken[0].detail if broken else ""
        yield DoctorCheck(not broken, f"answers {_PIPELINED_REQUESTS} requests at once in order", detail)


def _check_unsupported(session: TargetSession, request: Request, what: str) -> DoctorCheck:
    outcome = _outcome_of(session, request)
    return DoctorCheck(
        isinstance(outcome, Unsupported), what, "" if isinstance(outcome, Unsupported) else f"found: {outcome}"
    )


def _check_answer(session: TargetSession, request: Request, what: str) -> DoctorCheck:
    outcome = _outcome_of(session, request)
    adapter_at_fault = isinstance(outcome, NoAnswer) and outcome.how == "protocol"
    detail = f"{outcome.how}: {outcome.detail}" if isinstance(outcome, NoAnswer) else ""
    return DoctorCheck(not adapter_at_fault, what, detail)


def _check_exit(session: TargetSession) -> DoctorCheck:
    status = session.finish()
    good = status == 0
    detail = "it did not exit and was killed" if status is None else f"found: {status}"
    return DoctorCheck(good, "exits with 0 at the end of input", "" if good else detail)
