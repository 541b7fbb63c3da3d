"""What a campaign asks: slices of a thousand cases, each rebuilt from the campaign and its number alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance import __version__
from conformance.cases.catalog import Catalog
from conformance.cases.model import Case
from conformance.codec.messages import Message
from conformance.strategies.seeded.cases import cases_at
from conformance.strategies.seeded.generator import VERSION
from conformance.targets.session import Terms

SLICE = 1000
"""Generated cases of a slice; an undamaged one is decoded and encoded, and counts once."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Who is asked what, and on which terms: with the number of a slice, all that its results follow from."""

    targets: tuple[str, ...]
    names: tuple[str, ...]
    """The types that cases are generated for, a case of each in turn."""
    cases: int
    seed: int = 0
    terms: Terms = field(default_factory=Terms)
    python: str | None = None
    messages: tuple[Message, ...] = ()
    corpus: tuple[Case, ...] = ()
    """Cases of earlier campaigns; they fill the first slices."""

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return self._replayed + -(-self.cases // SLICE)

    @property
    def _replayed(self) -> int:
        return -(-len(self.corpus) // SLICE)

    def cases_of(self, number: int, catalog: Catalog) -> Iterator[Case]:
        """The cases of a slice, in order: those that `run` has under the same ids."""
        if number < self._replayed:
            yield from self.corpus[number * SLICE : (number + 1) * SLICE]
            return
        first = (number - self._replayed) * SLICE
        for drawn in range(first, min(first + SLICE, self.cases)):
            index, which = divmod(drawn, len(self.names))
            yield from cases_at(self.names[which], self.seed, index, catalog)

    def identity(self) -> dict[str, Any]:
        """What must be the same for slices to be of the same campaign, by the names of the options that say it."""
        return {
            "suite": __version__,
            "generator": VERSION,
            "targets": list(self.targets),
            "cases": self.cases,
            "seed": self.seed,
            "types": list(self.names),
            "definitions": _digest(message.digest for message in self.messages),
            "timeout": self.terms.timeout,
            "memory": self.terms.memory >> 20,
            "python": self.python,
            "corpus": _digest(case.id for case in self.corpus),
        }


def _digest(parts: Iterable[str]) -> str:
    """A short name for so many texts; empty for none."""
    joined = "\n".join(parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:12] if joined else ""
