"""What a run gathers: a result for each case and target, and the record of each target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from conformance.cases.model import (
    FAILURES,
    ROBUSTNESS,
    Accepted,
    Answer,
    Case,
    CaseOrigin,
    CaseSummary,
    Outcome,
    Verdict,
    VerdictKind,
)
from conformance.codec.json_notation import UNSHOWN
from conformance.errors import ExitStatus, overall
from conformance.judging.differences import value_at
from conformance.judging.failure_causes import FailureCause, cause_of

if TYPE_CHECKING:
    from conformance.targets.protocol import TargetDescription


MAX_ANSWER_BYTES = 4096
"""Bytes of an answer, as JSON, that are kept; of what is longer, length and digest."""
MAX_ANSWER_BYTES_WHEN_FULL = 512
"""The same for a target of whose answers so much is kept already as ANSWER_BUDGET_BYTES says."""
ANSWER_BUDGET_BYTES = 64 << 20
"""Bytes of a target's answers that are kept before less is kept of each."""
_FEW = 24
"""Elements of a list of which each has a digest of its own."""
_UNOBSERVED = 16
"""Paths that a target did not show, kept of all of them."""

_ELEMENT = re.compile(r"\[(\d+)\]")
"""How the path of an element of a list begins."""

_encode = msgspec.json.Encoder().encode


class StoredAnswer(Struct, frozen=True):
    """An accepted answer as a result keeps it: as text, which takes a tenth of what the values do."""

    json: bytes
    """Whole, or with length and digest in the place of what is long."""
    is_cut: bool = False
    part: bytes = b""
    """Of an answer that was cut, the field at which expected and actual part, as JSON; empty where that is long too."""


def store_outcome(outcome: Outcome, verdict: Verdict, most: int = MAX_ANSWER_BYTES) -> Outcome | StoredAnswer:
    """What a result keeps of an outcome, of an answer `most` bytes; a quarter of that of the field that differs."""
    if verdict.kind in (VerdictKind.PASS, VerdictKind.SKIP):
        return NO_ANSWER
    if not isinstance(outcome, Accepted):
        return outcome
    whole = _encode(outcome.answer)
    if len(whole) <= most:
        return StoredAnswer(_exact(whole))
    of_part = most // 4
    left = _encode({name[:of_part]: _left(entry, verdict.path, of_part) for name, entry in outcome.answer.items()})
    if len(left) > most:
        left = _encode({"answer": digest_of(whole)})
    return StoredAnswer(_exact(left), is_cut=True, part=_part(outcome.answer, verdict.path, of_part))


def _left(entry: object, path: str, most: int) -> object:
    """What is left of a long entry: of a list, the element that a verdict is about, if that is not much longer."""
    at = _ELEMENT.match(path)
    if not (isinstance(entry, list) and len(entry) <= _FEW and at):
        return shortened(entry, most)
    if len(_encode(entry[int(at[1]) :][:1])) > 2 * most:
        return shortened(entry, most)
    return [part if index == int(at[1]) else digest_of(_encode(part)) for index, part in enumerate(entry)]


def _exact(text: bytes) -> bytes:
    """The same bytes without the room that an encoder leaves behind them, half as much again."""
    return bytes(memoryview(text))


def load_outcome(answer: Answer) -> StoredAnswer:
    """An answer as a result kept it, read back from where it was written down."""
    return StoredAnswer(_encode(answer))


def failure_cause(case: Case, outcome: Outcome, verdict: Verdict) -> FailureCause:
    """The cause of a failure; where there is none, or an answer was cut and does not tell, verdict and requirement."""
    if verdict.kind not in FAILURES:
        return plain_cause(str(verdict.kind), verdict.requirement or case.requirement)
    try:
        return _same(cause_of(case, outcome, verdict))
    except (ValueError, KeyError, TypeError):
        return plain_cause(str(verdict.kind), verdict.requirement or case.requirement)


@lru_cache(maxsize=1 << 14)
def plain_cause(kind: str, requirement: str) -> FailureCause:
    """What results have in common of which there is no more to say than this."""
    return FailureCause(kind, requirement)


@lru_cache(maxsize=1024)
def _same(cause: FailureCause) -> FailureCause:
    """One object for all that are equal: thousands of results have one cause."""
    return cause


NO_ANSWER = Accepted({})
"""What is kept where no report shows what the target did."""


def store_verdict(verdict: Verdict) -> Verdict:
    """The verdict, without most of the paths that a target did not show."""
    if len(verdict.unobserved) <= _UNOBSERVED:
        return verdict
    return Verdict(
        verdict.kind,
        verdict.detail,
        verdict.path,
        verdict.requirement,
        verdict.level,
        verdict.unobserved[:_UNOBSERVED],
        verdict.flaky,
    )


def _part(answer: Answer, path: str, most: int) -> bytes:
    part = value_at(answer.get("value"), path) if path else UNSHOWN
    shown = b"" if part is UNSHOWN else _encode(part)
    return _exact(shown) if len(shown) <= most else b""


def shortened(entry: object, most: int = MAX_ANSWER_BYTES) -> object:
    """A value in notation, or, where its JSON has more bytes, length and digest of it; of hex digits, of the bytes."""
    text = _encode(entry)
    if len(text) <= most:
        return entry
    try:
        return digest_of(bytes.fromhex(entry)) if isinstance(entry, str) else digest_of(text)
    except ValueError:
        return digest_of(text)


def digest_of(data: bytes) -> dict[str, object]:
    """What stands for bytes that are too many to be shown."""
    return {"length": len(data), "sha256": sha256(data).hexdigest()}


_UNTOLD = FailureCause("", "")
_ALSO = (ROBUSTNESS,)


class Result(Struct, frozen=True):
    """A case, what the target did, and the verdict on it."""

    target: str
    """The target as the command line names it."""
    summary: CaseSummary
    """The case or, where there are many, the stored case: reports list every case, passed or not."""
    outcome: Outcome | StoredAnswer
    verdict: Verdict
    level: str
    basis: str = ""
    """That of the requirement which the verdict is about."""
    known: bool = False
    counts: bool = False
    """It fails at the level of --fail-on or above, and is not disputed (or --strict is given); known or not."""
    disputed: bool = False
    """It breaks a requirement that Apache Kafka itself does not meet."""
    via: str = ""
    """The call that was judged and whose door it is, where the target says so and did not pass."""
    cause: FailureCause = _UNTOLD
    """What it has in common with other failures (docs/concepts.md#causes)."""
    codes: str = ""
    """The error codes by which a broker refused, each with what it refused."""
    name: str = ""
    """What the target calls itself, by which known failures name it; where it says nothing, `target`."""
    python: str = ""
    """The interpreter of --python, by which the target runs; empty where none is given."""

    requirement: str = ""
    """The requirement that the verdict is about. It follows from the verdict, whatever is given."""
    also: tuple[str, ...] = ()
    """Further requirements that it breaks: a target answers, whatever the bytes. They follow from the verdict, too."""

    def __post_init__(self) -> None:
        force_setattr(self, "requirement", self.verdict.requirement or self.summary.requirement)
        force_setattr(self, "also", _ALSO if self.verdict.kind in (VerdictKind.CRASH, VerdictKind.TIMEOUT) else ())
        if not self.name:
            force_setattr(self, "name", self.target)
        if self.cause is _UNTOLD:
            assert not isinstance(self.outcome, StoredAnswer)  # it may be cut
            force_setattr(self, "cause", failure_cause(self.case, self.outcome, self.verdict))

    @property
    def failed(self) -> bool:
        """Whether the target broke the requirement, whatever its level."""
        return self.verdict.kind in FAILURES

    @property
    def is_unexpected(self) -> bool:
        """Whether it counts and is not a known failure: one such result makes the exit status 1."""
        return self.counts and not self.known

    @property
    def case(self) -> Case:
        """The case, unpacked."""
        return self.summary.to_case()

    @property
    def comment(self) -> str:
        """What the case catches or how it was made; nothing where a vector shows another fault than its own."""
        case = self.case
        is_its_own = self.requirement in (case.requirement, ROBUSTNESS)
        return case.comment if is_its_own or not case.note else ""


class ShrunkFailure(Struct, frozen=True):
    """The smallest case that fails in the same way as several generated ones."""

    result: Result
    count: int
    """How many generated cases fail in this way."""
    origin: str
    """The id of the generated case that was shrunk."""
    flaky: bool = False
    """The case did not fail again when it was tried again, so it was not shrunk."""
    why_not: str = ""
    """Why it was not shrunk; empty where it was, or where it is flaky."""


class ResultCounts(Struct):
    """The numbers of a target: how many results there are of each kind."""

    verdicts: Counter[tuple[str, VerdictKind]] = msgspec.field(default_factory=Counter)
    """Results by level and verdict."""
    known: Counter[tuple[str, VerdictKind]] = msgspec.field(default_factory=Counter)
    """Those of them that are known failures."""
    disputed: Counter[str] = msgspec.field(default_factory=Counter)
    """Disputed failures by level."""
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    """Skipped cases by the reason."""
    unobserved: int = 0
    """Cases that passed although the target does not show all fields: those it shows are right."""

    def unexcused(self) -> Counter[tuple[str, VerdictKind]]:
        """Results by level and verdict, without known failures."""
        return self.verdicts - self.known

    def known_at(self, level: str) -> int:
        """How many known failures there are at a level."""
        return sum(self.known[level, kind] for kind in VerdictKind)


def _remark(verdict: Verdict) -> str:
    """Why a case was skipped; of one that passed, what the target did not show."""
    if verdict.kind is VerdictKind.SKIP:
        return verdict.detail
    return "unobserved" if verdict.kind is VerdictKind.PASS and verdict.unobserved else ""


def tally(results: Iterable[Result]) -> ResultCounts:
    """Count results."""
    numbers = ResultCounts()
    alike = Counter((one.level, one.verdict.kind, one.known, one.disputed, _remark(one.verdict)) for one in results)
    for (level, kind, known, disputed, remark), count in alike.items():
        numbers.verdicts[level, kind] += count
        numbers.known[level, kind] += count * known
        numbers.disputed[level] += count * disputed
        if kind is VerdictKind.SKIP:
            numbers.skipped[remark] += count
        numbers.unobserved += count * (kind is VerdictKind.PASS and bool(remark))
    return numbers


class TargetRun(Struct):
    """The record of one target: what it said of itself, its results, and why it was not judged to the end, if so."""

    name: str
    description: TargetDescription | None = None
    problem: str = ""
    """Why it could not be started, or not be judged to the end; empty when it was."""
    results: list[Result] = msgspec.field(default_factory=list)
    shrunk: list[ShrunkFailure] = msgspec.field(default_factory=list)
    counted: ResultCounts | None = None
    """The numbers of all results where `results` holds only some of them, as in a campaign."""
    answered: bool = True
    """Whether it answered anything, be it a case or the probe of a claim."""
    waited: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Seconds that its answers were waited for, by the type of the cases."""
    told: Callable[[Result], object] | None = None
    """Who is told of each result as it comes, if anybody."""
    interrupted: bool = False
    """Whether the run was interrupted before the target had all its results."""

    def interrupt(self, planned: int | None) -> None:
        """Record an interrupt of the run. A target with all results, or with a problem, stays unchanged.

        `planned` is the number of its cases, or None while cases are generated.
        """
        # A claim that proved false has a result too, and is no case of the run.
        probes = sum(result.summary.kind is CaseOrigin.PROBE for result in self.results)
        done = self.numbers.verdicts.total() - probes
        if self.problem or done == planned:
            return
        self.interrupted = True
        self.problem = f"interrupted after {done}{'' if planned is None else f' of {planned}'} cases"

    def add(self, result: Result) -> None:
        """Add a result at the end."""
        self.results.append(result)
        if self.told is not None:
            self.told(result)

    @property
    def called(self) -> str:
        """What the target calls itself; where it says nothing, what the command line calls it."""
        return (self.description.name if self.description else "") or self.name

    @property
    def numbers(self) -> ResultCounts:
        """How many results there are of each kind."""
        return self.counted or tally(self.results)

    @property
    def judged(self) -> bool:
        """Whether any case was judged."""
        if self.counted is not None:
            return any(_is_judged(kind) for _, kind in self.counted.verdicts)
        return any(_is_judged(result.verdict.kind) for result in self.results)


def _is_judged(kind: VerdictKind) -> bool:
    return kind not in (VerdictKind.SKIP, VerdictKind.PROTOCOL)


def status_of(runs: Sequence[TargetRun], *, stale_entries: bool = False) -> ExitStatus:
    """The exit status of a run that came to its end; stale known failures fail it."""
    reasons = [ExitStatus.FAILED] if stale_entries else []
    for run in runs:
        if run.problem or not run.judged or any(result.verdict.kind is VerdictKind.PROTOCOL for result in run.results):
            reasons.append(ExitStatus.NOT_JUDGED)
        # Whatever excuses each failure, a target that does not answer at all does not conform.
        if not run.answered or any(result.is_unexpected for result in run.results):
            reasons.append(ExitStatus.FAILED)
    return overall(reasons)
