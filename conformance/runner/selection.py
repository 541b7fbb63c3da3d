"""The selection of a run: cases of the catalogue, and generated cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from functools import partial

from msgspec import Struct

from conformance.cases.model import LEVELS, Case, CaseSummary
from conformance.cases.stored_cases import StoredCase, stored_all
from conformance.catalog.catalog import Catalog, as_of, select
from conformance.codec.message_spec import MessageSpec
from conformance.definitions.loader import types_with
from conformance.errors import CannotStart, UsageError
from conformance.runner.generated_cases import GenerationRequest, generate
from conformance.strategies.seeded.cases import (
    case_of,
    expected_number,
    generated_ids,
    is_generated_id,
    message_types,
    types_for,
)
from conformance.strategies.seeded.log_requests import OF_BROKERS
from conformance.targets.protocol import TargetDescription
from conformance.targets.target import TargetSpec

_MAX_COMPARED_IDS = 1000
"""The number of generated ids per type that are compared with a pattern. With more cases, any pattern is accepted."""


def check_patterns(
    patterns: Sequence[str], catalog: Catalog, generated: int, seed: int, option: str = "--select"
) -> None:
    """Reject a pattern that no case can match, and suggest similar names. Raises UsageError or UnknownType.

    `generated` is the number of generated cases of each type.
    """
    for pattern in patterns:
        if not _may_match(pattern, catalog, generated, seed):
            raise UsageError(option, no_case_matches(pattern, catalog, seed))


def no_case_matches(pattern: str, catalog: Catalog, seed: int = 0) -> str:
    """Return the error message for a pattern that matches no case, with similar names."""
    kind, colon, rest = pattern.partition(":")
    if colon and kind in ("type", "requirement", "level"):
        similar = [f"{kind}:{name}" for name in nearest(rest, _names(kind, catalog))]
    elif pattern.startswith("gen/"):
        ids = (next(generated_ids([name], 1, seed, catalog)) for name in types_for([]))
        similar = nearest(pattern, (f"{identity.rpartition('/')[0]}/*" for identity in ids))
    else:
        families = {f"{name.partition('/')[0]}/*" for name in catalog.cases.summaries}
        similar = nearest(pattern, families if pattern.endswith("/*") else (*catalog.cases.summaries, *families))
    suggestion = f"nearest: {', '.join(similar)}; " if similar else ""
    return f"no case matches {pattern[:60]!r} ({suggestion}see `conformance list`)"


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return at most three existing names that are similar to an unknown one, in any letter case."""
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in names}
    return [by_folded[similar] for similar in get_close_matches(name.casefold(), by_folded, 3)]


def _may_match(pattern: str, catalog: Catalog, generated: int, seed: int) -> bool:
    kind, colon, rest = pattern.partition(":")
    if select(catalog.cases.summaries.values(), [pattern]):
        return True
    if colon and kind in ("type", "requirement", "level"):
        return any(fnmatchcase(name, rest) or name.partition("<")[0] == rest for name in _names(kind, catalog))
    if is_generated_id(pattern):
        return bool(case_of(pattern, catalog))
    if not generated or not pattern.startswith(("gen/", "*")):
        return False
    names = types_for([], [*OF_BROKERS, *message_types(catalog.types.messages.values())])
    ids = generated_ids(names, min(generated, _MAX_COMPARED_IDS), seed, catalog)
    # Comparing all ids of a large run takes long, and a pattern without a match only selects nothing.
    return generated > _MAX_COMPARED_IDS or any(fnmatchcase(identity, pattern) for identity in ids)


def _names(kind: str, catalog: Catalog) -> Iterator[str]:
    """Yield all names that can follow `type:`, `requirement:` or `level:`."""
    if kind == "requirement":
        yield from catalog.requirements
    elif kind == "level":
        yield from LEVELS
    else:
        yield from dict.fromkeys(case.type for case in catalog.cases.summaries.values())
        yield from types_for([], message_types(catalog.types.messages.values()))


_MANY_CASES = 1000
"""The number of generated cases whose generation takes noticeable time."""


class Selection(Struct, frozen=True):
    """The command line options that select cases."""

    patterns: tuple[str, ...] = ()
    """Globs over ids, or `type:`, `requirement:` or `level:` with a glob; empty: all."""
    as_of: str | None = None
    """A release of the suite: only cases of that release, and no generated ones."""
    generated: int = 200
    """The number of generated cases per type."""
    seed: int = 0
    messages: tuple[MessageSpec, ...] = ()
    """Messages for which cases are generated; a shipped message of the same name is replaced."""


def selected_cases(selection: Selection, catalog: Catalog, targets: Sequence[TargetSpec]) -> list[StoredCase]:
    """Return the cases of a selection: vectors, then generated ones. Raises UsageError or UnknownType."""
    return [*first_cases(selection, catalog), *stored_all(further_cases(selection, catalog, targets))]


def first_cases(selection: Selection, catalog: Catalog) -> list[StoredCase]:
    """Return the vectors of a selection. Raises UsageError or UnknownType."""
    check_patterns(selection.patterns, catalog, _generated_count(selection), selection.seed)
    vectors = list(catalog.cases.summaries.values())
    if selection.as_of is not None:
        try:
            vectors = as_of(vectors, selection.as_of)
        except ValueError:
            problem = f"{selection.as_of!r} is not a version of the suite, such as 0.1.0"
            raise UsageError("--as-of", problem) from None
    return select(vectors, selection.patterns)


def further_cases(
    selection: Selection,
    catalog: Catalog,
    targets: Sequence[TargetSpec],
    make: Callable[[GenerationRequest, Catalog], Iterable[CaseSummary]] = generate,
) -> Iterator[CaseSummary]:
    """Yield the generated cases of a selection, which `make` makes; cases selected by their ids are last.

    It generates cases only of messages and versions that at least one target claims.
    """
    by_id = _cases_by_id(selection, catalog)
    count, ids = _generated_count(selection), set()
    if count and not len(by_id) == len(selection.patterns) > 0:
        names = types_for(selection.patterns, OF_BROKERS if any(map(_is_broker, targets)) else ())
        names += claimed_messages(selection.patterns, selection.messages, partial(_descriptions, targets))
        for case in make(GenerationRequest(tuple(names), count, selection.seed, selection.patterns), catalog):
            ids.add(case.id)
            yield case
    yield from (case for case in by_id if case.id not in ids)


def expected_further(selection: Selection, catalog: Catalog) -> int:
    """Return about the number of generated cases of a selection, without those of messages."""
    return expected_number(types_for(selection.patterns), _generated_count(selection), catalog)


def makes_many(selection: Selection) -> bool:
    """Return whether generation takes so long that the vectors are judged at the same time."""
    count = _generated_count(selection)
    return bool(count) and count * len(types_for(selection.patterns)) >= _MANY_CASES


def _generated_count(selection: Selection) -> int:
    return 0 if selection.as_of is not None else selection.generated


def _cases_by_id(selection: Selection, catalog: Catalog) -> list[Case]:
    """Return the generated cases that the selection names by id."""
    return [case for pattern in selection.patterns if pattern.startswith("gen/") for case in case_of(pattern, catalog)]


def claimed_messages(
    patterns: Sequence[str], messages: Iterable[MessageSpec], describe: Callable[[], Iterable[TargetDescription]]
) -> list[str]:
    """Return the messages in a version, as types, that match the selection and that a target claims.

    They are the shipped messages and `messages`, which replace shipped ones of the same name. `describe` starts the
    targets, so it is called only if a message can match.
    """
    known = types_with(messages).messages.values()
    matching = set(types_for(patterns, message_types(known)))
    if matching.isdisjoint(message_types(known)):
        return []
    described = list(describe())
    claimed = message_types(known, lambda name, version: any(one.has_message(name, version) for one in described))
    return [name for name in claimed if name in matching]


def _is_broker(spec: TargetSpec) -> bool:
    return spec.name.startswith("broker:")


def _descriptions(targets: Iterable[TargetSpec]) -> Iterator[TargetDescription]:
    """Yield the descriptions of the targets that can start."""
    for spec in targets:
        with closing(spec.open()) as target, suppress(CannotStart):
            yield target.describe()
