"""The pairwise algorithm: rows that contain every possible pair of levels, equal on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from msgspec import Struct

from conformance.cases.model import Op, Request

Row = dict[str, str]
"""A level for each factor."""
Level = tuple[str, str]
"""A factor and one of its levels."""
Pair = tuple[Level, Level]
"""Two levels, in the order of their factors."""
Pairs = dict[Pair, None]
"""Pairs; a dict, because it keeps its order."""


class RowRequest(NamedTuple):
    """One request of a row: the suffix of its id, the operation, the type, and the parts of the request."""

    suffix: str
    op: Op
    type: str
    request: Request


class Constraint(Struct, frozen=True):
    """Limits the levels of other factors if one factor has a level, with the reason."""

    when: Level
    then: dict[str, tuple[str, ...]]
    why: str


@dataclass(frozen=True, slots=True)
class FactorTable:
    """Factors with their levels, and the constraints between them."""

    factors: dict[str, tuple[str, ...]]
    constraints: Sequence[Constraint] = ()
    masking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels that hide the effect of others: damage and unspecified behaviour.

    Every pair without such a level is in a row without any. Every pair with one is in a row with no other. Two such
    levels may share a row.
    """

    _forbidden: dict[Pair, str] = field(default_factory=dict, init=False, repr=False)
    """The reason why two levels exclude each other, in both orders."""

    def masks(self, level: Level) -> bool:
        """Return whether a level hides the effect of others."""
        return level[1] in self.masking.get(level[0], ())

    def pairs(self) -> Iterator[Pair]:
        """Yield every pair of levels of two factors, in order of the table."""
        for one, other in combinations(self.factors, 2):
            for level in self.factors[one]:
                yield from (((one, level), (other, further)) for further in self.factors[other])

    def why_incompatible(self, one: Level, other: Level) -> str:
        """Return the reason why no row can have both levels; empty if one can.

        It also follows indirect constraints, as long as they leave a factor only one level.
        """
        implied, reasons = [one, other], dict[str, None]()
        for level in implied:
            reasons.update(dict.fromkeys(why for other_level in implied if (why := self.forbids(level, other_level))))
            if any(self.forbids(level, other_level) for other_level in implied):
                return "; ".join(reasons)
            for factor in [name for name in self.factors if name not in dict(implied)]:
                remaining = [item for item in self.factors[factor] if not self._why_excluded((factor, item), implied)]
                if len(remaining) < 2:
                    reasons.update(
                        dict.fromkeys(self._why_excluded((factor, item), implied) for item in self.factors[factor])
                    )
                    implied += ((factor, item) for item in remaining)
                if not remaining:
                    return "; ".join(filter(None, reasons))
        return ""

    def _why_excluded(self, level: Level, implied: Iterable[Level]) -> str:
        """Return the reason why a level excludes one of these; empty if it does not."""
        return next(filter(None, (self.forbids(other_level, level) for other_level in implied)), "")

    def forbids(self, one: Level, other: Level) -> str:
        """Return the reason of a constraint between both levels; empty if there is none."""
        return self._forbidden.get((one, other), "")

    def __post_init__(self) -> None:
        for constraint in reversed(self.constraints):
            for factor, levels in constraint.then.items():
                for level in {*self.factors[factor]} - {*levels}:
                    self._forbidden[constraint.when, (factor, level)] = constraint.why
                    self._forbidden[(factor, level), constraint.when] = constraint.why


def rows(table: FactorTable, existing: Iterable[Row] = ()) -> list[Row]:
    """Return the existing rows, and new rows until every possible pair is in one.

    A row starts from the first pair without a row; pairs without a masking level are first. For each further factor,
    the row takes a level that masks nothing, if there is one; of these the level with the most new pairs; then the
    level that was used least; then the first in the table.
    """
    return _PairwiseSearch(table).extended(existing)


class _PairwiseSearch:
    """The pairs without a row, and the number of uses of each level."""

    def __init__(self, table: FactorTable) -> None:
        self._table = table
        self._missing: Pairs = dict.fromkeys(sorted(table.pairs(), key=lambda pair: sum(map(table.masks, pair))))
        self._used = Counter[Level]()
        self._incompatible = {pair for pair in self._missing if table.forbids(*pair)}

    def extended(self, existing: Iterable[Row]) -> list[Row]:
        all_rows: list[Row] = []
        for row in existing:
            self._add(row, all_rows)
        while self._missing:
            seed = next(iter(self._missing))
            row_or_none = self._completed(dict(seed))
            if row_or_none is None:
                del self._missing[seed]
            else:
                self._add(row_or_none, all_rows)
        return all_rows

    def _add(self, row: Row, all_rows: list[Row]) -> None:
        all_rows.append({factor: row[factor] for factor in self._table.factors})
        self._used.update(row.items())
        for pair in combinations(all_rows[-1].items(), 2):
            self._missing.pop(pair, None)

    def _completed(self, row: Row) -> Row | None:
        """Return the row with a level for every factor; None if the levels of the row exclude each other."""
        if not all(self._compatible(one, other) for one, other in combinations(row.items(), 2)):
            return None
        missing_factors = [factor for factor in self._table.factors if factor not in row]
        if not missing_factors:
            return row
        levels = [(missing_factors[0], level) for level in self._table.factors[missing_factors[0]]]
        for factor, level in sorted(levels, key=lambda new: self._rank(new, row)):
            whole = self._completed({**row, factor: level})
            if whole is not None:
                return whole
        return None

    def _rank(self, new: Level, row: Row) -> tuple[bool, int, int]:
        """Return the rank of a level for a row; the smallest rank comes first."""
        is_masked = sum(map(self._table.masks, row.items())) > 1
        return not is_masked and self._table.masks(new), -self._gain(new, row), self._used[new]

    def _gain(self, new: Level, row: Row) -> int:
        return sum((new, old) in self._missing or (old, new) in self._missing for old in row.items())

    def _compatible(self, one: Level, other: Level) -> bool:
        return (one, other) not in self._incompatible and (other, one) not in self._incompatible
