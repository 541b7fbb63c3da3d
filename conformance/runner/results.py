"""The results of a run: one result for each case and target, and one record for each target."""

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
"""The maximum size of a stored answer, in bytes of JSON. A longer answer is stored as its length and digest."""
MAX_ANSWER_BYTES_WHEN_FULL = 512
"""The maximum size after the stored answers of a target have reached ANSWER_BUDGET_BYTES."""
ANSWER_BUDGET_BYTES = 64 << 20
"""The total size of a target's stored answers from which on each answer gets less space."""
_MAX_DIGESTED_ELEMENTS = 24
"""The maximum length of a list whose elements get separate digests."""
_MAX_UNOBSERVED = 16
"""The maximum number of stored paths that a target did not show."""

_ELEMENT = re.compile(r"\[(\d+)\]")
"""The beginning of a path into an element of a list."""

_encode = msgspec.json.Encoder().encode


class StoredAnswer(Struct, frozen=True):
    """An accepted answer as JSON: it needs a tenth of the memory of the values."""

    json: bytes
    """The whole answer, or one whose long fields are replaced by length and digest."""
    is_cut: bool = False
    part: bytes = b""
    """The field in which an answer differs, as JSON, if the answer was cut; empty if that field is long too."""


def store_outcome(outcome: Outcome, verdict: Verdict, max_bytes: int = MAX_ANSWER_BYTES) -> Outcome | StoredAnswer:
    """Return an outcome as a result stores it: at most `most` bytes, a quarter of them for the field that differs."""
    if verdict.kind in (VerdictKind.PASS, VerdictKind.SKIP):
        return NO_ANSWER
    if not isinstance(outcome, Accepted):
        return outcome
    whole = _encode(outcome.answer)
    if len(whole) <= max_bytes:
        return StoredAnswer(_trimmed(whole))
    field_bytes = max_bytes // 4
    cut = _encode(
        {
            name[:field_bytes]: _shortened_field(entry, verdict.path, field_bytes)
            for name, entry in outcome.answer.items()
        }
    )
    if len(cut) > max_bytes:
        cut = _encode({"answer": digest_of(whole)})
    return StoredAnswer(_trimmed(cut), is_cut=True, part=_field_json(outcome.answer, verdict.path, field_bytes))


def _shortened_field(entry: object, path: str, max_bytes: int) -> object:
    """Return a long field, shortened. A short list keeps the element of the verdict, if that is not much longer."""
    at = _ELEMENT.match(path)
    if not (isinstance(entry, list) and len(entry) <= _MAX_DIGESTED_ELEMENTS and at):
        return shortened(entry, max_bytes)
    if len(_encode(entry[int(at[1]) :][:1])) > 2 * max_bytes:
        return shortened(entry, max_bytes)
    return [part if index == int(at[1]) else digest_of(_encode(part)) for index, part in enumerate(entry)]


def _trimmed(text: bytes) -> bytes:
    """Return the same bytes without the unused capacity of the encoder's buffer, which is half their size."""
    return bytes(memoryview(text))


def load_outcome(answer: Answer) -> StoredAnswer:
    """Return a stored answer that was read from a file."""
    return StoredAnswer(_encode(answer))


def failure_cause(case: Case, outcome: Outcome, verdict: Verdict) -> FailureCause:
    """Return the cause of a failure; only verdict and requirement if there is none, or if a cut answer hides it."""
    if verdict.kind not in FAILURES:
        return plain_cause(str(verdict.kind), verdict.requirement or case.requirement)
    try:
        return _interned(cause_of(case, outcome, verdict))
    except (ValueError, KeyError, TypeError):
        return plain_cause(str(verdict.kind), verdict.requirement or case.requirement)


@lru_cache(maxsize=1 << 14)
def plain_cause(kind: str, requirement: str) -> FailureCause:
    """Return the shared cause of results that have only a verdict and a requirement."""
    return FailureCause(kind, requirement)


@lru_cache(maxsize=1024)
def _interned(cause: FailureCause) -> FailureCause:
    """Return one object for equal causes: thousands of results have the same cause."""
    return cause


NO_ANSWER = Accepted({})
"""The stored outcome of results whose answer no report shows."""


def store_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict with few of the paths that the target did not show."""
    if len(verdict.unobserved) <= _MAX_UNOBSERVED:
        return verdict
    return Verdict(
        verdict.kind,
        verdict.detail,
        verdict.path,
        verdict.requirement,
        verdict.level,
        verdict.unobserved[:_MAX_UNOBSERVED],
        verdict.flaky,
    )


def _field_json(answer: Answer, path: str, max_bytes: int) -> bytes:
    part = value_at(answer.get("value"), path) if path else UNSHOWN
    shown = b"" if part is UNSHOWN else _encode(part)
    return _trimmed(shown) if len(shown) <= max_bytes else b""


def shortened(entry: object, max_bytes: int = MAX_ANSWER_BYTES) -> object:
    """Return a value in notation, or its length and digest if its JSON is longer. Hex digits count as bytes."""
    text = _encode(entry)
    if len(text) <= max_bytes:
        return entry
    try:
        return digest_of(bytes.fromhex(entry)) if isinstance(entry, str) else digest_of(text)
    except ValueError:
        return digest_of(text)


def digest_of(data: bytes) -> dict[str, object]:
    """Return the replacement for bytes that are too many to show."""
    return {"length": len(data), "sha256": sha256(data).hexdigest()}


_UNSET_CAUSE = FailureCause("", "")
_NO_ANSWER_REQUIREMENTS = (ROBUSTNESS,)


class Result(Struct, frozen=True):
    """A case, the outcome of the target, and the verdict."""

    target: str
    """The target's name on the command line."""
    summary: CaseSummary
    """The case, or its stored form in large runs: reports list every case, passed or not."""
    outcome: Outcome | StoredAnswer
    verdict: Verdict
    level: str
    basis: str = ""
    """The basis of the requirement of the verdict."""
    known: bool = False
    counts: bool = False
    """True if it fails at the level of --fail-on or above, and is not disputed (or --strict is given); known or not."""
    disputed: bool = False
    """True if the broken requirement is one that Apache Kafka itself does not meet."""
    via: str = ""
    """The tested call and its kind, if the description has it and the case did not pass."""
    cause: FailureCause = _UNSET_CAUSE
    """The cause that it shares with other failures (docs/concepts.md#causes)."""
    codes: str = ""
    """The error codes of a broker's error responses, each with its request."""
    name: str = ""
    """The name in the target's description, which known failures use; `target` if that is empty."""
    python: str = ""
    """The interpreter of --python that runs the target; empty without that option."""

    requirement: str = ""
    """The requirement of the verdict. It is always derived from the verdict."""
    also: tuple[str, ...] = ()
    """Further broken requirements: a target has to answer any input. They are derived from the verdict, too."""

    def __post_init__(self) -> None:
        force_setattr(self, "requirement", self.verdict.requirement or self.summary.requirement)
        force_setattr(
            self,
            "also",
            _NO_ANSWER_REQUIREMENTS if self.verdict.kind in (VerdictKind.CRASH, VerdictKind.TIMEOUT) else (),
        )
        if not self.name:
            force_setattr(self, "name", self.target)
        if self.cause is _UNSET_CAUSE:
            assert not isinstance(self.outcome, StoredAnswer)  # a stored answer may be cut
            force_setattr(self, "cause", failure_cause(self.case, self.outcome, self.verdict))

    @property
    def failed(self) -> bool:
        """Return whether the target broke the requirement, at any level."""
        return self.verdict.kind in FAILURES

    @property
    def is_unexpected(self) -> bool:
        """Return whether it counts and is not a known failure. One such result makes the exit status 1."""
        return self.counts and not self.known

    @property
    def case(self) -> Case:
        """The whole case."""
        return self.summary.to_case()

    @property
    def comment(self) -> str:
        """Return the note or the mutation of the case; empty if a vector shows another fault than its note names."""
        case = self.case
        is_its_own = self.requirement in (case.requirement, ROBUSTNESS)
        return case.comment if is_its_own or not case.note else ""


class ShrunkFailure(Struct, frozen=True):
    """The smallest case that fails in the same way as several generated ones."""

    result: Result
    count: int
    """The number of generated cases that fail in this way."""
    origin: str
    """The id of the generated case that was shrunk."""
    flaky: bool = False
    """True if the case did not fail again, so it was not shrunk."""
    why_not: str = ""
    """The reason why it was not shrunk; empty if it was shrunk or is flaky."""


class ResultCounts(Struct):
    """The numbers of a target: its results of each kind."""

    verdicts: Counter[tuple[str, VerdictKind]] = msgspec.field(default_factory=Counter)
    """Results by level and verdict."""
    known: Counter[tuple[str, VerdictKind]] = msgspec.field(default_factory=Counter)
    """Known failures by level and verdict."""
    disputed: Counter[str] = msgspec.field(default_factory=Counter)
    """Disputed failures by level."""
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    """Skipped cases by reason."""
    unobserved: int = 0
    """Cases that passed although the target does not show all fields: the shown fields are correct."""

    def unexcused(self) -> Counter[tuple[str, VerdictKind]]:
        """Return the results by level and verdict, without known failures."""
        return self.verdicts - self.known

    def known_at(self, level: str) -> int:
        """Return the number of known failures of a level."""
        return sum(self.known[level, kind] for kind in VerdictKind)


def _skip_reason(verdict: Verdict) -> str:
    """Return the reason of a skip; `unobserved` for a pass in which the target did not show all fields."""
    if verdict.kind is VerdictKind.SKIP:
        return verdict.detail
    return "unobserved" if verdict.kind is VerdictKind.PASS and verdict.unobserved else ""


def tally(results: Iterable[Result]) -> ResultCounts:
    """Count results."""
    numbers = ResultCounts()
    groups = Counter(
        (one.level, one.verdict.kind, one.known, one.disputed, _skip_reason(one.verdict)) for one in results
    )
    for (level, kind, known, disputed, remark), count in groups.items():
        numbers.verdicts[level, kind] += count
        numbers.known[level, kind] += count * known
        numbers.disputed[level] += count * disputed
        if kind is VerdictKind.SKIP:
            numbers.skipped[remark] += count
        numbers.unobserved += count * (kind is VerdictKind.PASS and bool(remark))
    return numbers


class TargetRun(Struct):
    """The record of one target: its description, its results, and the problem that ended its run early."""

    name: str
    description: TargetDescription | None = None
    problem: str = ""
    """The reason why it did not start or its run ended early; empty if the run is complete."""
    results: list[Result] = msgspec.field(default_factory=list)
    shrunk: list[ShrunkFailure] = msgspec.field(default_factory=list)
    counted: ResultCounts | None = None
    """The numbers of all results if `results` contains only some of them, as in a campaign."""
    answered: bool = True
    """True if the target answered at least one case or probe."""
    waited: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Seconds of waiting for answers, by the type of the cases."""
    on_result: Callable[[Result], object] | None = None
    """A function that gets each new result, or None."""
    interrupted: bool = False
    """True if the run was interrupted before the target had all its results."""
    failures: int = 0
    """The number of results that are unexpected."""
    unjudged: Callable[[], int] = lambda: 0
    """Returns the number of outcomes that wait for an earlier one. Another thread may call it for its progress bar."""
    is_shrinking: bool = False
    """True while failures are shrunk."""

    def interrupt(self, planned: int | None) -> None:
        """Record an interrupt of the run. A target with all results, or with a problem, stays unchanged.

        `planned` is the number of its cases, or None while cases are generated.
        """
        # A disproved claim also has a result, but it is not a case of the run.
        probes = sum(result.summary.kind is CaseOrigin.PROBE for result in self.results)
        done = self.numbers.verdicts.total() - probes
        if self.problem or done == planned:
            return
        self.interrupted = True
        self.problem = f"interrupted after {done}{'' if planned is None else f' of {planned}'} cases"

    def add(self, result: Result) -> None:
        """Add a result at the end."""
        self.results.append(result)
        self.failures += result.is_unexpected
        if self.on_result is not None:
            self.on_result(result)

    @property
    def called(self) -> str:
        """The name in the target's description; the name on the command line if that is empty."""
        return (self.description.name if self.description else "") or self.name

    @property
    def numbers(self) -> ResultCounts:
        """The number of results of each kind."""
        return self.counted or tally(self.results)

    @property
    def judged(self) -> bool:
        """Return whether any case was judged."""
        if self.counted is not None:
            return any(_is_judged(kind) for _, kind in self.counted.verdicts)
        return any(_is_judged(result.verdict.kind) for result in self.results)


def _is_judged(kind: VerdictKind) -> bool:
    return kind not in (VerdictKind.SKIP, VerdictKind.PROTOCOL)


def status_of(runs: Sequence[TargetRun], *, stale_entries: bool = False) -> ExitStatus:
    """Return the exit status of a complete run. Stale known failures make it fail."""
    reasons = [ExitStatus.FAILED] if stale_entries else []
    for run in runs:
        if run.problem or not run.judged or any(result.verdict.kind is VerdictKind.PROTOCOL for result in run.results):
            reasons.append(ExitStatus.NOT_JUDGED)
        # Known failures can excuse each result, but a target without any answer does not conform.
        if not run.answered or any(result.is_unexpected for result in run.results):
            reasons.append(ExitStatus.FAILED)
    return overall(reasons)
