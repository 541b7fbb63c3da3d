"""From one entry of a segment to the next: clean batches as columns, others as the reference reads them, and damage.

Where bytes make no entry, or one whose checksum is wrong ends where nothing begins, the way goes on at the next place
where the checksum of an entry is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from conformance import codec
from conformance.codec.log import CHECKSUM_RULES
from conformance.pipeline.audit.columns import Batch, columns
from conformance.pipeline.audit.segments import Window, extent, is_blank, resumed

LENGTH_RULE = "batch.length-wrong-rejected"


class Step(NamedTuple):
    """What lies from byte `at` to the next step: a clean batch, another entry with its bytes, or neither."""

    at: int
    end: int
    batch: Batch | None = None
    entry: codec.Entry | None = None
    data: bytes = b""

    @property
    def leads_nowhere(self) -> bool:
        """Whether the size of the entry is as wrong as the rest of it."""
        return self.entry is not None and self.end != self.at + len(self.data)


def walk(window: Window, start: int, stop: int) -> Iterator[Step]:
    """The steps from `start`, where an entry begins or the damage does, to `stop`."""
    at, stop = start, min(stop, window.size)
    while at < stop:
        step = _step(window, at, stop)
        yield step
        at = step.end


def _step(window: Window, at: int, stop: int) -> Step:
    end = extent(window, at)
    if end is None:
        return Step(at, resumed(window, at + 1, stop))
    begin = window.hold(at, end - at)
    batch = columns(window.data, begin)
    if batch is not None:
        return Step(at, end, batch)
    data = window.take(at, end - at)
    entry = next(iter(codec.entries(data)))
    if end < stop and not is_sound(entry) and extent(window, end) is None and not is_blank(window, end):
        end = resumed(window, at + 1, stop)
    return Step(at, end, None, entry, data)


def is_sound(entry: codec.Entry) -> bool:
    """Whether size and numbers of an entry can be relied on, whatever else is wrong with it."""
    return not any(one.requirement in (*CHECKSUM_RULES, LENGTH_RULE) for one in entry.violations)
