"""Rows in which every pair of levels of two factors occurs that can meet: the same rows on every machine."""

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
"""Two levels, that of the factor which is listed first in front."""
Pairs = dict[Pair, None]
"""Pairs; a dict, because it keeps its order."""


class RowRequest(NamedTuple):
    """One question of a row: what its id ends with, the operation, the type, and the parts of the request."""

    suffix: str
    op: Op
    type: str
    request: Request


class Constraint(Struct, frozen=True):
    """If one factor has a level, other factors can have only some of theirs; and why that is so."""

    when: Level
    then: dict[str, tuple[str, ...]]
    why: str


@dataclass(frozen=True, slots=True)
class FactorTable:
    """Factors with their levels, and which of these exclude each other."""

    factors: dict[str, tuple[str, ...]]
    constraints: Sequence[Constraint] = ()
    masking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels that hide what others come to: damage, and what the documents leave open.

    Every pair of other levels has a row without any, every pair with one of them a row with no other; two of them may
    stand beside others.
    """

    _forbidden: dict[Pair, str] = field(default_factory=dict, init=False, repr=False)
    """Why two levels exclude each other, in both orders."""

    def masks(self, level: Level) -> bool:
        """Whether a level hides what others come to."""
        return level[1] in self.masking.get(level[0], ())

    def pairs(self) -> Iterator[Pair]:
        """Every pair of levels of two factors, in order of the table."""
        for one, other in combinations(self.factors, 2):
            for level in self.factors[one]:
                yield from (((one, level), (other, further)) for further in self.factors[other])

    def why_apart(self, one: Level, other: Level) -> str:
        """Why no row can have both levels; empty where one can.

        It follows what the levels leave of the other factors, as far as these leave a factor one level alone.
        """
        sure, reasons = [one, other], dict[str, None]()
        for level in sure:
            reasons.update(dict.fromkeys(why for had in sure if (why := self.forbids(level, had))))
            if any(self.forbids(level, had) for had in sure):
                return "; ".join(reasons)
            for factor in [name for name in self.factors if name not in dict(sure)]:
                left = [item for item in self.factors[factor] if not self._barred((factor, item), sure)]
                if len(left) < 2:
                    reasons.update(dict.fromkeys(self._barred((factor, item), sure) for item in self.factors[factor]))
                    sure += ((factor, item) for item in left)
                if not left:
                    return "; ".join(filter(None, reasons))
        return ""

    def _barred(self, level: Level, sure: Iterable[Level]) -> str:
        """Why a level cannot stand beside these; empty if it can."""
        return next(filter(None, (self.forbids(had, level) for had in sure)), "")

    def forbids(self, one: Level, other: Level) -> str:
        """Why a constraint forbids both levels in one row; empty if none does."""
        return self._forbidden.get((one, other), "")

    def __post_init__(self) -> None:
        for constraint in reversed(self.constraints):
            for factor, levels in constraint.then.items():
                for level in {*self.factors[factor]} - {*levels}:
                    self._forbidden[constraint.when, (factor, level)] = constraint.why
                    self._forbidden[(factor, level), constraint.when] = constraint.why


def rows(table: FactorTable, kept: Iterable[Row] = ()) -> list[Row]:
    """The kept rows and behind them those that are missing, until every pair occurs that one row can have.

    A row starts from the first pair that no row has yet, those of levels that mask nothing first. For each further
    factor it takes a level that masks nothing, if there is one; of those the one that adds most new pairs; of several
    such levels the one that was used least, and then the one that is listed first.
    """
    return _PairwiseSearch(table).extended(kept)


class _PairwiseSearch:
    """Which pairs no row has yet, and how often each level was used."""

    def __init__(self, table: FactorTable) -> None:
        self._table = table
        self._todo: Pairs = dict.fromkeys(sorted(table.pairs(), key=lambda pair: sum(map(table.masks, pair))))
        self._used = Counter[Level]()
        self._apart = {pair for pair in self._todo if table.forbids(*pair)}

    def extended(self, kept: Iterable[Row]) -> list[Row]:
        covered: list[Row] = []
        for row in kept:
            self._add(row, covered)
        while self._todo:
            seed = next(iter(self._todo))
            row_or_none = self._completed(dict(seed))
            if row_or_none is None:
                del self._todo[seed]
            else:
                self._add(row_or_none, covered)
        return covered

    def _add(self, row: Row, covered: list[Row]) -> None:
        covered.append({factor: row[factor] for factor in self._table.factors})
        self._used.update(row.items())
        for pair in combinations(covered[-1].items(), 2):
            self._todo.pop(pair, None)

    def _completed(self, row: Row) -> Row | None:
        """The row with a level for every factor; None if nothing can have the levels of the row."""
        if not all(self._compatible(one, other) for one, other in combinations(row.items(), 2)):
            return None
        rest = [factor for factor in self._table.factors if factor not in row]
        if not rest:
            return row
        levels = [(rest[0], level) for level in self._table.factors[rest[0]]]
        for factor, level in sorted(levels, key=lambda new: self._rank(new, row)):
            whole = self._completed({**row, factor: level})
            if whole is not None:
                return whole
        return None

    def _rank(self, new: Level, row: Row) -> tuple[bool, int, int]:
        """Where a level stands among those that a row may take: the smaller, the sooner."""
        is_masked = sum(map(self._table.masks, row.items())) > 1
        return not is_masked and self._table.masks(new), -self._gain(new, row), self._used[new]

    def _gain(self, new: Level, row: Row) -> int:
        return sum((new, old) in self._todo or (old, new) in self._todo for old in row.items())

    def _compatible(self, one: Level, other: Level) -> bool:
        return (one, other) not in self._apart and (other, one) not in self._apart
