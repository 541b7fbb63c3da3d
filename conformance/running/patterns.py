"""Whether each pattern of a selection can match a case, told before any case is made or a target is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from conformance.cases.model import LEVELS
from conformance.catalog.catalog import Catalog, select
from conformance.errors import UsageError
from conformance.strategies.seeded.cases import case_of, generated_ids, is_generated_id, message_types, types_for
from conformance.strategies.seeded.log_questions import OF_BROKERS

_ENOUGH = 1000
"""Generated cases of a type whose ids are looked through; a pattern that matches only a later one is let through."""


def check_patterns(
    patterns: Sequence[str], catalog: Catalog, generated: int, seed: int, option: str = "--select"
) -> None:
    """Refuse a pattern that no case can match, and offer the nearest names. Raises UsageError or UnknownType.

    `generated` is how many cases are generated of each type.
    """
    for pattern in patterns:
        if not _may_match(pattern, catalog, generated, seed):
            raise UsageError(option, no_case_matches(pattern, catalog, seed))


def no_case_matches(pattern: str, catalog: Catalog, seed: int = 0) -> str:
    """What is said of a pattern that matches no case: what comes nearest to it."""
    kind, colon, rest = pattern.partition(":")
    if colon and kind in ("type", "requirement", "level"):
        near = [f"{kind}:{name}" for name in nearest(rest, _names(kind, catalog))]
    elif pattern.startswith("gen/"):
        ids = (next(generated_ids([name], 1, seed, catalog)) for name in types_for([]))
        near = nearest(pattern, (f"{identity.rpartition('/')[0]}/*" for identity in ids))
    else:
        families = {f"{name.partition('/')[0]}/*" for name in catalog.cases.labels}
        near = nearest(pattern, families if pattern.endswith("/*") else (*catalog.cases.labels, *families))
    offered = f"nearest: {', '.join(near)}; " if near else ""
    return f"no case matches {pattern[:60]!r} ({offered}see `conformance list`)"


def nearest(asked: str, names: Iterable[str]) -> list[str]:
    """The names that come nearest to one that does not exist, whatever their case; at most three."""
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in names}
    return [by_folded[near] for near in get_close_matches(asked.casefold(), by_folded, 3)]


def _may_match(pattern: str, catalog: Catalog, generated: int, seed: int) -> bool:
    kind, colon, rest = pattern.partition(":")
    if select(catalog.cases.labels.values(), [pattern]):
        return True
    if colon and kind in ("type", "requirement", "level"):
        return any(fnmatchcase(name, rest) or name.partition("<")[0] == rest for name in _names(kind, catalog))
    if is_generated_id(pattern):
        return bool(case_of(pattern, catalog))
    if not generated or not pattern.startswith(("gen/", "*")):
        return False
    names = types_for([], [*OF_BROKERS, *message_types(catalog.types.messages.values())])
    ids = generated_ids(names, min(generated, _ENOUGH), seed, catalog)
    return generated > _ENOUGH or any(fnmatchcase(identity, pattern) for identity in ids)


def _names(kind: str, catalog: Catalog) -> Iterator[str]:
    """All that may stand after `type:`, `requirement:` or `level:`."""
    if kind == "requirement":
        yield from catalog.requirements
    elif kind == "level":
        yield from LEVELS
    else:
        yield from dict.fromkeys(label.type for label in catalog.cases.labels.values())
        yield from types_for([], message_types(catalog.types.messages.values()))
