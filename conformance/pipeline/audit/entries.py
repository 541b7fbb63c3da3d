"""A segment entry by entry: clean batches as columns, other entries as the reference reads them. Needs pyarrow, numpy.

Where bytes are not an entry, or an entry with a wrong checksum ends where no entry begins, that is damage: reading
continues at the next entry with a right checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from conformance import codec
from conformance.codec.cursor import AT_LEISURE
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.record_batch import stored_magic
from conformance.pipeline.audit.boundaries import Window, entry_end, has_right_checksum, is_blank, next_sound_entry
from conformance.pipeline.audit.columns import Batch, BatchHeader, header_at, read_batch

LENGTH_RULE = "batch.length-wrong-rejected"


class Region(NamedTuple):
    """The bytes from `at` to `end`: a clean batch, or another entry with its bytes, or (neither is given) damage."""

    at: int
    end: int
    """Where the next region begins."""
    batch: Batch | None = None
    entry: codec.Entry | None = None
    data: bytes = b""

    @property
    def has_wrong_size(self) -> bool:
        """Whether the size of a damaged entry is wrong too, since no entry begins where it says."""
        return self.entry is not None and self.end != self.at + len(self.data)


def regions(
    window: Window, start: int, stop: int, is_wanted: Callable[[BatchHeader], bool] | None = None
) -> Iterator[Region]:
    """The regions from `start`, where an entry or damage begins, to `stop`.

    A batch whose header is not wanted is passed over, if its checksum is right: so its end is where its size says.
    """
    at, stop = start, min(stop, window.size)
    while at < stop:
        passed = None if is_wanted is None else _passed_over(window, at, is_wanted)
        if passed is not None:
            at = passed
            continue
        region = _region(window, at, stop)
        yield region
        at = region.end


def _passed_over(window: Window, at: int, is_wanted: Callable[[BatchHeader], bool]) -> int | None:
    """Where the batch at a position ends, if it is not wanted."""
    end = entry_end(window, at)
    if end is None:
        return None
    data = window.take(at, end - at)
    if stored_magic(data) != 2 or is_wanted(header_at(data, 0)) or not has_right_checksum(data):
        return None
    return end


def _region(window: Window, at: int, stop: int) -> Region:
    end = entry_end(window, at)
    if end is None:
        return Region(at, next_sound_entry(window, at + 1, stop))
    begin = window.hold(at, end - at)
    batch = read_batch(window.data, begin)
    if batch is not None:
        return Region(at, end, batch)
    data = window.take(at, end - at)
    entry = next(iter(codec.entries(data, limits=AT_LEISURE)))
    if end < stop and not has_sound_header(entry) and entry_end(window, end) is None and not is_blank(window, end):
        end = next_sound_entry(window, at + 1, stop)
    return Region(at, end, None, entry, data)


def has_sound_header(entry: codec.Entry) -> bool:
    """Whether size and offsets of an entry can be relied on, whatever else is wrong with it."""
    return not any(one.requirement in (*CHECKSUM_RULES, LENGTH_RULE) for one in entry.violations)
