"""Which cases of the catalogue, and which generated ones, a run asks."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.cases.catalog import Catalog, as_of, select
from conformance.cases.model import Case
from conformance.codec.message_definition import Message
from conformance.errors import UsageError
from conformance.strategies.seeded.cases import case_of, generated_cases, message_types, types_for


@dataclass(frozen=True, slots=True)
class Selection:
    """The options of the command line that say which cases are asked."""

    patterns: tuple[str, ...] = ()
    """Globs over ids, or `type:`, `requirement:` or `level:` and a glob; none: all."""
    as_of: str | None = None
    """A release of the suite: only the cases that it had, and no generated ones."""
    generated: int = 200
    """Generated cases per type."""
    seed: int = 0
    messages: tuple[Message, ...] = ()
    """Messages for which cases are generated too."""


def selected_cases(selection: Selection, catalog: Catalog) -> list[Case]:
    """The cases of a selection, in order: vectors, then generated ones. Raises UsageError."""
    cases = list(catalog.cases.values())
    if selection.as_of is not None:
        try:
            cases = as_of(cases, selection.as_of)
        except ValueError:
            problem = f"{selection.as_of!r} is not a version of the suite, such as 0.1.0"
            raise UsageError("--as-of", problem) from None
    named = [case for pattern in selection.patterns for case in case_of(pattern, catalog)]
    if len(named) == len(selection.patterns) > 0:
        return named
    if selection.as_of is None:
        names = types_for(selection.patterns, message_types(selection.messages))
        cases += generated_cases(names, selection.generated, selection.seed, catalog)
    return select(cases, selection.patterns) + [case for case in named if case not in cases]
