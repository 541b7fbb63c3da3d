"""What a hostile case costs a target."""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """What a hostile case took of a target that had nothing else to do; it is measured of no other case."""

    seconds: float
    memory: int
    """Bytes by which its resident memory grew at most, from the request to the answer."""
