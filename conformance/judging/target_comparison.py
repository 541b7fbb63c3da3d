"""What several targets made of one case, so that it can be said which of them did the same: total and pure.

A reading is an act (it refused, it accepted, it died) and, where the act alone does not tell targets apart, what it
came to. Fields that only one target shows tell nothing: targets are compared by what all of them show.
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
    """What a target did, in the words of a report."""

    ACCEPTS = "accepts"
    WRITES = "writes"
    REFUSES = "refuses"
    OTHER_CLASS = "refuses, as another class"
    OTHER_VALUE = "another value"
    OTHER_LENGTH = "consumes another number of bytes"
    OTHER_BYTES = "writes other bytes"
    CRASHES = "crashes"
    TIMES_OUT = "times out"
    MEMORY = "takes too much memory"
    SLOW = "takes too long"


Path: TypeAlias = tuple[str | int, ...]
Leaves: TypeAlias = Mapping[Path, object]
"""The parts of a value that hold no parts themselves, by path; beside them the kind of every part, and its length."""
_KIND, _LENGTH = -1, -2
"""Last steps of paths to what is told of a part."""


class ObservedBehavior(Struct, frozen=True):
    """What one target made of a case."""

    behavior: Behavior
    is_right: bool
    """Whether it broke no requirement by that."""
    text: Leaves | str | int | tuple[str, ...] | None = field(default="")
    """What the act came to, as far as that tells readings apart; None where nothing is known of it."""


def reading_of(case: Case, outcome: Outcome, verdict: Verdict) -> ObservedBehavior:
    """The reading of a target that was judged; of an outcome that passed only the expectation is looked at."""
    is_right = verdict.kind not in FAILURES
    if verdict.kind is VerdictKind.PASS:
        return _due(case)
    if verdict.kind is VerdictKind.TIMEOUT:
        return ObservedBehavior(Behavior.TIMES_OUT, is_right=is_right)
    match outcome:
        case NoAnswer(how):
            return ObservedBehavior(_DEATHS.get(how, Behavior.CRASHES), is_right=is_right)
        case Rejected(error) if not is_right and isinstance(case.expect, ExpectRejection):
            return ObservedBehavior(Behavior.OTHER_CLASS, is_right=is_right, text=error)
        case Rejected():
            return ObservedBehavior(Behavior.REFUSES, is_right=is_right)
        case Accepted(answer):
            return _open(case, answer) if is_right else _wrong(case, answer, verdict)
    return ObservedBehavior(_taking(case), is_right=is_right, text=None)


_DEATHS = {"memory": Behavior.MEMORY, "slow": Behavior.SLOW}
_EXPECTED = "as expected"


def _due(case: Case) -> ObservedBehavior:
    """What a target did that passed."""
    match case.expect:
        case ExpectRejection():
            return ObservedBehavior(Behavior.REFUSES, is_right=True)
        case ExpectConsumerView(view) if view.damage is not None:
            return ObservedBehavior(Behavior.REFUSES, is_right=True)
        case ExpectSequenceResults(answers):
            return ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=tuple(min(right) for right in answers))
    return ObservedBehavior(_taking(case), is_right=True, text=_EXPECTED)


def _taking(case: Case) -> Behavior:
    """What it is called that a target did not refuse."""
    return Behavior.WRITES if case.op in _WRITING else Behavior.ACCEPTS


_WRITING = ("encode", "convert")


def _open(case: Case, answer: Answer) -> ObservedBehavior:
    """What a target did that took an open place in one of the ways that are right."""
    given = answer.get("value")
    if case.op == "read" and stopped_with(answer) is not None:
        return ObservedBehavior(Behavior.REFUSES, is_right=True)
    match case.expect:
        case ExpectAnyOf(()):
            return ObservedBehavior(_taking(case), is_right=True, text=_shown(case, answer))
        case ExpectAnyOf(readings):
            met = [index for index, reading in enumerate(readings) if _fits(case, reading, answer)]
            return ObservedBehavior(_taking(case), is_right=True, text=str(met[0]) if len(met) == 1 else None)
        case ExpectSequenceResults(answers) if isinstance(given, list) and len(given) == len(answers):
            fates = zip(answers, given, strict=True)
            return ObservedBehavior(
                Behavior.ACCEPTS, is_right=True, text=tuple(_fate(right, fate) for right, fate in fates)
            )
        case ExpectScenario() if isinstance(given, list):
            refused = ["refused" if isinstance(told, dict) and told.get("refused") else "" for told in given]
            return ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=tuple(refused))
    return ObservedBehavior(Behavior.ACCEPTS, is_right=True, text=_EXPECTED)


def stopped_with(answer: Answer) -> object:
    """The error by which a fetch ended before the end of a log: a consumer refuses so; None where it did not."""
    given = answer.get("value")
    return given.get("error") if isinstance(given, dict) else None


def _fits(case: Case, reading: ExpectValue | ExpectRejection | ExpectBytes, answer: Answer) -> bool:
    try:
        return matches(case, reading, answer)
    except NotationError:  # what was kept of it is no whole answer
        return True


def _fate(right: frozenset[str], fate: str) -> str:
    """The fate of a batch; one refused with an error that names none of the fates met the refusal that is right."""
    return min(right - {"accept"}, default=fate) if fate == REFUSED else fate


def _wrong(case: Case, answer: Answer, verdict: Verdict) -> ObservedBehavior:
    """What a target did that accepted, and broke a requirement."""
    if verdict.path == "consumed":
        return ObservedBehavior(Behavior.OTHER_LENGTH, is_right=False, text=answer.get("consumed"))
    if case.op in ONLY_LIVE:  # its answer tells what differs from run to run, such as offsets
        return ObservedBehavior(Behavior.OTHER_VALUE, is_right=False, text=verdict.path or verdict.detail)
    if isinstance(case.expect, ExpectRejection):
        return ObservedBehavior(_taking(case), is_right=False, text=_shown(case, answer))
    if case.op in _WRITING:
        return ObservedBehavior(Behavior.OTHER_BYTES, is_right=False, text=answer.get("hex"))
    return ObservedBehavior(Behavior.OTHER_VALUE, is_right=False, text=_shown(case, answer))


# --- the parts of a value -----------------------------------------------------------------------------


def _shown(case: Case, answer: Answer) -> Leaves | None:
    """What an answer shows, part by part; None where it shows nothing."""
    parts = {name: entry for name, entry in answer.items() if name in ("consumed", "hex", "size")}
    if "value" in answer:
        parts["value"] = _in_one_notation(case, answer["value"])
    return dict(_leaves(parts, ())) if parts else None


def part_apart(case: Case, answers: Sequence[Answer]) -> str:
    """The path of the first part of the values that answers show which is not the same in all; empty if none is."""
    shown = [dict(_leaves(_in_one_notation(case, answer.get("value")), ())) for answer in answers]
    for path in shown[0] if shown else ():
        if all(path in other for other in shown) and any(other[path] != shown[0][path] for other in shown):
            steps = [step for step in path if step not in (_KIND, _LENGTH)]
            return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    return ""


def _in_one_notation(case: Case, given: object) -> object:
    """A value as we write it, as one target says 1000 and another "1000"; as it came where it is none of the type."""
    if case.op not in ("decode", "read"):
        return given
    notation = VIEW_NOTATION if case.op == "read" else case.wire.notation
    try:
        return notation.render(notation.parse(given))
    except NotationError:
        return given


def _leaves(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """The parts of JSON, each with its path."""
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


# --- who did the same ---------------------------------------------------------------------------------


def group_equal(readings: Sequence[ObservedBehavior | None]) -> tuple[int | None, ...]:
    """A number for each reading, the same for those that are one; None stays None.

    A reading of which nothing more is known than its act is taken for one with any other of that act: nobody differs by
    what he does not show. The order of the readings changes no more than the numbers.
    """
    common = _common(readings)
    groups: list[ObservedBehavior] = []
    numbers: list[int | None] = [None] * len(readings)
    told = [at for at, one in enumerate(readings) if one is not None and one.text is not None]
    untold = [at for at, one in enumerate(readings) if one is not None and one.text is None]
    for at in told + untold:
        one = readings[at]
        assert one is not None
        same = [number for number, other in enumerate(groups) if _is_equal(one, other, common)]
        if one.text is None and len(same) > 1:  # it may be either: one of its own
            same = [number for number in same if groups[number].text is None]
        if not same:
            same = [len(groups)]
            groups.append(one)
        numbers[at] = same[0]
    return tuple(numbers)


def _common(readings: Iterable[ObservedBehavior | None]) -> dict[tuple[Behavior, bool], list[Path]]:
    """By act: the parts that every value tells of, if only by having no such part."""
    values: dict[tuple[Behavior, bool], list[Leaves]] = {}
    for one in readings:
        if one is not None and isinstance(one.text, Mapping):
            values.setdefault((one.behavior, one.is_right), []).append(one.text)
    return {
        act: [path for path in dict.fromkeys(chain(*shown)) if all(_shows(leaves, path) for leaves in shown)]
        for act, shown in values.items()
    }


def _shows(leaves: Leaves, path: Path) -> bool:
    """Whether a value has this part, or cannot have it: it is null, or a list too short. Fields may be left out."""
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
