"""The cases of a campaign in slices of 1,000. A slice depends only on the campaign and its number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from conformance import __version__
from conformance.cases.model import Case
from conformance.catalog.catalog import Catalog, of_bases
from conformance.codec.message_spec import MessageSpec
from conformance.strategies.seeded.cases import cases_at
from conformance.strategies.seeded.generator import VERSION
from conformance.targets.limits import ResourceLimits

SLICE = 1000
"""Generated cases of a slice. An undamaged case is decoded and encoded, but counts once."""


class Campaign(Struct, frozen=True):
    """The targets, cases and limits of a campaign: everything that determines the results of a slice."""

    targets: tuple[str, ...]
    names: tuple[str, ...]
    """The types of the generated cases, in turn."""
    cases: int
    seed: int = 0
    terms: ResourceLimits = field(default_factory=ResourceLimits)
    python: str | None = None
    messages: tuple[MessageSpec, ...] = ()
    corpus: tuple[Case, ...] = ()
    """Cases of earlier campaigns; they are the first slices."""
    bases: tuple[str, ...] = ()
    """Only cases whose requirement has one of these bases; empty: all cases."""

    @property
    def slices(self) -> int:
        """Return the number of slices."""
        return self._corpus_slices + -(-self.cases // SLICE)

    @property
    def _corpus_slices(self) -> int:
        return -(-len(self.corpus) // SLICE)

    def cases_of(self, number: int, catalog: Catalog) -> Sequence[Case]:
        """Return the cases of a slice in order; `conformance run` has the same cases with the same ids."""
        return of_bases([*self._of_every_basis(number, catalog)], self.bases, catalog.requirements)

    def _of_every_basis(self, number: int, catalog: Catalog) -> Iterator[Case]:
        if number < self._corpus_slices:
            yield from self.corpus[number * SLICE : (number + 1) * SLICE]
            return
        first = (number - self._corpus_slices) * SLICE
        for drawn in range(first, min(first + SLICE, self.cases)):
            index, which = divmod(drawn, len(self.names))
            yield from cases_at(self.names[which], self.seed, index, catalog)

    def identity(self) -> dict[str, object]:
        """Return the values that all slices of one campaign share, by option, as JSON."""
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
            "basis": sorted(self.bases),
        }


def _digest(parts: Iterable[str]) -> str:
    """Return a short digest of some texts; empty without texts."""
    joined = "\n".join(parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:12] if joined else ""
