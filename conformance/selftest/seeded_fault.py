"""What a seeded defect is: one way in which a target is wrong, switched on alone to see whether a case notices."""

from __future__ import annotations

from msgspec import Struct

from conformance.selftest.mutators import Mutator


class SeededFault(Struct, frozen=True):
    """One way to be wrong: where it is from, and how it bends what the reference answers."""

    id: str
    area: str
    description: str
    """What such a target does wrong, in one sentence; empty where it breaks the statement of the requirement."""
    source: str
    """The requirement that it breaks, or the public thread in which somebody met it."""
    mutate: Mutator
    try_first: tuple[str, ...] = ()
    """Requirements whose cases are tried before the others: what its run costs, not whether it is caught."""
    survives_because: str = ""
    """For one that no case catches: the reason, in one sentence."""
