"""A seeded fault: one way in which a target is wrong."""

from __future__ import annotations

from msgspec import Struct

from conformance.selftest.mutators import Mutator


class SeededFault(Struct, frozen=True):
    """One wrong behaviour of the reference, with its source."""

    id: str
    area: str
    description: str
    """One sentence; empty if the fault breaks the statement of its requirement."""
    source: str
    """The requirement that it breaks, or the URL of a public report of this fault."""
    mutate: Mutator
    try_first: tuple[str, ...] = ()
    """The cases of these requirements run first, to save time."""
    survives_because: str = ""
    """The reason, if no case catches the fault."""
