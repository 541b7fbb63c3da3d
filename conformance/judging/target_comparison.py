"""The comparison of several targets on one case, to group those that behave equally: total and pure.

An observed behaviour is an act, such as accepts, rejects or crashes, and the result if targets with this act can
differ. Only fields that all targets show are compared, as a missing field proves no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TypeAlias

from msgspec import Struct, field

from conformance.cases.model import (
    FAILURES,
    REFUSED,
    Accepted,
    Answer,
    Case,
    ExpectAnyOf,
    ExpectBytes,
    ExpectConsumerView,
    ExpectRejection,
    ExpectScenario,
    ExpectSequenceResults,
    ExpectValue,
    NoAnswer,
    Outcome,
    Rejected,
    Verdict,
    VerdictKind,
)
from conformance.cases.operations import ONLY_LIVE
from conformance.codec.json_notation import NotationError
from conformance.judging.judge import matches
from conformance.semantics.consumer_view import VIEW_NOTATION


class Behavior(StrEnum):
    """The behaviour of a target, in the words of a report."""

    ACCEPTS = "accepts"
    WRITES = "writes"
    REFUSES = "rejects"
    OTHER_CLASS = "rejects with another error class"
    OTHER_VALUE = "another value"
    OTHER_LENGTH = "consumes another number of bytes"
    OTHER_BYTES = "writes other bytes"
    CRASHES = "crashes"
    TIMES_OUT = "times out"
    MEMORY = "needs too much memory"
    SLOW = "needs too much time"


Path: TypeAlias = tuple[str | int, ...]
Leaves: TypeAlias = Mapping[Path, object]
"""The scalars in a value, by path, and also the kind of every part and the length of every list."""
_KIND, _LENGTH = -1, -2
"""Last steps of the paths of a part's kind and length."""


class ObservedBehavior(Struct, frozen=True):
    """The behaviour of one target on a case."""

    behavior: Behavior
    is_right: bool
    """The behaviour breaks no requirement."""
    text: Leaves | str | int | tuple[str, ...] | None = field(default="")
    """The result, if targets with this behaviour can differ in it; None if it is unknown."""


def reading_of(case: Case, outcome: Outcome, verdict: Verdict) -> ObservedBehavior:
    """Return the behaviour of a judged target; if it passed, the expectation determines the behaviour."""
    is_right = verdict.kind not in FAILURES
    if verdict.kind is VerdictKind.PASS:
        return _passed(case)
    if verdict.kind is VerdictKind.TIMEOUT:
        return ObservedBehavior(Behavior.TIMES_OUT, is_right=is_right)
    match outcome:
        case NoAnswer(how):
            return ObservedBehavior(_NO_ANSWER.get(how, Behavior.CRASHES), is_right=is_right)
        case Rejected(error) if not is_right and isinstance(case.expect, ExpectRejection):
            return ObservedBehavior(Behavior.OTHER_CLASS, is_right=is_right, text=error)
        case Rejected():
            return ObservedBehavior(Behavior.REFUSES, is_right=is_right)
        case Accepted(answer):
            return _unspecified(case, answer) if is_right else _fault(case, answer, verdict)
    return ObservedBehavior(_acceptance(case), is_right=is_right, text=None)


_NO_ANSWER = {"memory": Behavior.MEMORY, "slow": Behavior.SLOW}
_EXPECTED = "as expected"


def _passed(case: Case) -> ObservedBehavior:
    """Return the behaviour of a target that passed."""
    match case.expect:
        case ExpectRejection():
            return ObservedBehavior(Behavior.REFUSES, is_right=True)
        case ExpectConsumerView(view) if view.damage is not None:
            return ObservedBehavior(Behavior.REFUSES, is_right=True)
        case ExpectSequenceResults(answers):
            return ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=tuple(min(right) for right in answers))
    return ObservedBehavior(_acceptance(case), is_right=True, text=_EXPECTED)


def _acceptance(case: Case) -> Behavior:
    """Return the name of the behaviour of a target that rejected nothing."""
    return Behavior.WRITES if case.op in _WRITING else Behavior.ACCEPTS


_WRITING = ("encode", "convert")


def _unspecified(case: Case, answer: Answer) -> ObservedBehavior:
    """Return the behaviour of a target with an accepted result for unspecified behaviour."""
    given = answer.get("value")
    if case.op == "read" and stopped_with(answer) is not None:
        return ObservedBehavior(Behavior.REFUSES, is_right=True)
    match case.expect:
        case ExpectAnyOf(()):
            return ObservedBehavior(_acceptance(case), is_right=True, text=_shown(case, answer))
        case ExpectAnyOf(readings):
            matching = [index for index, reading in enumerate(readings) if _matches(case, reading, answer)]
            return ObservedBehavior(
                _acceptance(case), is_right=True, text=str(matching[0]) if len(matching) == 1 else None
            )
        case ExpectSequenceResults(answers) if isinstance(given, list) and len(given) == len(answers):
            results = zip(answers, given, strict=True)
            return ObservedBehavior(
                Behavior.ACCEPTS,
                is_right=True,
                text=tuple(_normalised_result(right, result) for right, result in results),
            )
        case ExpectScenario() if isinstance(given, list):
            refused = ["refused" if isinstance(result, dict) and result.get("refused") else "" for result in given]
            return ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=tuple(refused))
    return ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=_EXPECTED)


def stopped_with(answer: Answer) -> object:
    """Return the error that ended a fetch early (a rejection); None if the fetch reached the end of the log."""
    given = answer.get("value")
    return given.get("error") if isinstance(given, dict) else None


def _matches(case: Case, reading: ExpectValue | ExpectRejection | ExpectBytes, answer: Answer) -> bool:
    try:
        return matches(case, reading, answer)
    except NotationError:  # a result stores only a part of a long answer
        return True


def _normalised_result(right: frozenset[str], result: str) -> str:
    """Return the result of a batch; a rejection with an unspecific error counts as the expected rejection."""
    return min(right - {"accept"}, default=result) if result == REFUSED else result


def _fault(case: Case, answer: Answer, verdict: Verdict) -> ObservedBehavior:
    """Return the behaviour of a target that accepted the input and broke a requirement."""
    if verdict.path == "consumed":
        return ObservedBehavior(Behavior.OTHER_LENGTH, is_right=False, text=answer.get("consumed"))
    if case.op in ONLY_LIVE:  # the answer contains values that differ from run to run, such as offsets
        return ObservedBehavior(Behavior.OTHER_VALUE, is_right=False, text=verdict.path or verdict.detail)
    if isinstance(case.expect, ExpectRejection):
        return ObservedBehavior(_acceptance(case), is_right=False, text=_shown(case, answer))
    if case.op in _WRITING:
        return ObservedBehavior(Behavior.OTHER_BYTES, is_right=False, text=answer.get("hex"))
    return ObservedBehavior(Behavior.OTHER_VALUE, is_right=False, text=_shown(case, answer))


# --- the parts of a value -----------------------------------------------------------------------------


def _shown(case: Case, answer: Answer) -> Leaves | None:
    """Return the compared parts of an answer; None for an answer without such a part."""
    parts = {name: entry for name, entry in answer.items() if name in ("consumed", "hex", "size")}
    if "value" in answer:
        parts["value"] = _normalised_value(case, answer["value"])
    return dict(_leaves(parts, ())) if parts else None


def differing_part(case: Case, answers: Sequence[Answer]) -> str:
    """Return the path of the first part that differs between the answers; empty if they are equal."""
    shown = [dict(_leaves(_normalised_value(case, answer.get("value")), ())) for answer in answers]
    for path in shown[0] if shown else ():
        if all(path in other for other in shown) and any(other[path] != shown[0][path] for other in shown):
            steps = [step for step in path if step not in (_KIND, _LENGTH)]
            return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    return ""


def _normalised_value(case: Case, given: object) -> object:
    """Return a value in the suite's notation, as targets may write 1000 or "1000"; an invalid value is unchanged."""
    if case.op not in ("decode", "read"):
        return given
    notation = VIEW_NOTATION if case.op == "read" else case.wire.notation
    try:
        return notation.render(notation.parse(given))
    except NotationError:
        return given


def _leaves(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield the parts of JSON, each with its path."""
    yield (*path, _KIND), "object" if isinstance(value, dict) else "list" if isinstance(value, list | tuple) else ""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from _leaves(entry, (*path, name))
    elif isinstance(value, list | tuple):
        yield (*path, _LENGTH), len(value)
        for index, entry in enumerate(value):
            yield from _leaves(entry, (*path, index))
    else:
        yield path, value


# --- groups of equal targets --------------------------------------------------------------------------


def group_equal(readings: Sequence[ObservedBehavior | None]) -> tuple[int | None, ...]:
    """Return a group number for each behaviour, equal for equal ones; None stays None.

    A behaviour without a known result equals any other with the same act: a value that is not shown proves no
    difference. The order of the behaviours changes only the numbers.
    """
    common = _common(readings)
    groups: list[ObservedBehavior] = []
    numbers: list[int | None] = [None] * len(readings)
    described = [at for at, one in enumerate(readings) if one is not None and one.text is not None]
    undescribed = [at for at, one in enumerate(readings) if one is not None and one.text is None]
    # Known results form the groups first: an unknown result then joins the only group that it matches, if any.
    for at in described + undescribed:
        one = readings[at]
        assert one is not None
        same = [number for number, other in enumerate(groups) if _is_equal(one, other, common)]
        if one.text is None and len(same) > 1:  # it matches several groups, so it gets its own group
            same = [number for number in same if groups[number].text is None]
        if not same:
            same = [len(groups)]
            groups.append(one)
        numbers[at] = same[0]
    return tuple(numbers)


def _common(readings: Iterable[ObservedBehavior | None]) -> dict[tuple[Behavior, bool], list[Path]]:
    """Return by act the paths that every value shows, also as a part that cannot exist."""
    values: dict[tuple[Behavior, bool], list[Leaves]] = {}
    for one in readings:
        if one is not None and isinstance(one.text, Mapping):
            values.setdefault((one.behavior, one.is_right), []).append(one.text)
    return {
        act: [path for path in dict.fromkeys(chain(*shown)) if all(_shows(leaves, path) for leaves in shown)]
        for act, shown in values.items()
    }


def _shows(leaves: Leaves, path: Path) -> bool:
    """Return whether a value has this part, or cannot have it: null, or a shorter list. A missing field is unknown."""
    while path not in leaves:
        path = path[:-1]
        if (*path, _KIND) in leaves:
            return leaves[*path, _KIND] != "object"
    return True


def _is_equal(
    one: ObservedBehavior, other: ObservedBehavior, common: Mapping[tuple[Behavior, bool], Iterable[Path]]
) -> bool:
    if (one.behavior, one.is_right) != (other.behavior, other.is_right):
        return False
    if isinstance(one.text, Mapping) and isinstance(other.text, Mapping):
        parts = common[one.behavior, one.is_right]
        return all(one.text.get(path, _ABSENT) == other.text.get(path, _ABSENT) for path in parts)
    return one.text is None or other.text is None or one.text == other.text


_ABSENT = object()
