"""The boundaries of entries in a segment: by size, and after damage by checksum. Needs pyarrow, numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from conformance import codec
from conformance.codec import record_batch
from conformance.codec.checksums import CRC32, CRC32C
from conformance.codec.cursor import OFFLINE_LIMITS
from conformance.codec.legacy_message import LAYOUTS, SMALLEST
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, MAGIC_AT, OVERHEAD, stored_magic, stored_size
from conformance.pipeline.audit.batch_columns import BatchColumns, BatchHeader, header_at, read_batch
from conformance.pipeline.audit.segments import Segment, SegmentPart, file_system_of

WINDOW = 8 << 20
"""Bytes read at a time."""

_SEARCH_BUDGET, _SEARCH_BUDGET_PER_BYTE = 1 << 30, 64
"""Limit of checksummed bytes in searches for entries: bytes per file, plus bytes per searched byte."""

_FIRST_LOOK = 1 << 12
"""Bytes of the first step in a search for an entry or for the end of zeros; each further step doubles it."""

LEAST_SIZE = {**SMALLEST, 2: record_batch.SMALLEST}
"""The smallest valid size field of an entry by magic; the field does not count the OVERHEAD before it."""


class FileWindow:
    """A file with a part of it in memory; positions are bytes of the file."""

    __slots__ = ("_file", "at", "data", "search_budget", "size")

    def __init__(self, path: str, size: int) -> None:
        """Open the file; only its first `size` bytes are used. Raises OSError."""
        system, inner = file_system_of(path)
        self._file = system.open_input_file(inner)
        self.size = min(size, self._file.size())
        self.at = 0
        self.data = b""
        self.search_budget = _SEARCH_BUDGET

    def hold(self, at: int, count: int) -> int:
        """Load `count` bytes from a position, or fewer at the end; return their start in `data`."""
        stop = min(at + count, self.size)
        if at < self.at or stop > self.at + len(self.data):
            self._file.seek(at)
            self.data = self._file.read(min(max(count, WINDOW), max(self.size - at, 0)))
            self.at = at
        return at - self.at

    def take(self, at: int, count: int) -> bytes:
        """Return `count` bytes from a position, or fewer at the end."""
        begin = self.hold(at, count)
        return self.data[begin : begin + count]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def entry_end(window: FileWindow, at: int) -> int | None:
    """Return the end of the entry at a position, by its size; None for a wrong size or magic or a cut entry."""
    head = window.take(at, MAGIC_AT + 1)
    if len(head) <= MAGIC_AT:
        return None
    size = stored_size(head)
    stop = at + OVERHEAD + size
    return stop if size >= LEAST_SIZE.get(head[MAGIC_AT], 1 << 31) and stop <= window.size else None


def is_blank(window: FileWindow, at: int) -> bool:
    """Return whether all bytes from a position are zeros: space that a broker allocated in advance."""
    look = _FIRST_LOOK
    while at < window.size:
        part = window.take(at, look)
        if part.strip(b"\0"):
            return False
        at += len(part)
        look = min(2 * look, WINDOW)
    return True


def next_sound_entry(window: FileWindow, at: int, stop: int) -> int:
    """Return the first position from `at` of an entry with a correct checksum; `stop` if there is none.

    It is also `stop` if the search budget is exhausted by bytes that look like the starts of many large entries.
    """
    look = _FIRST_LOOK
    while at < stop:
        part = window.take(at, min(look, WINDOW, stop - at + HEADER_SIZE))
        look *= 2
        window.search_budget += _SEARCH_BUDGET_PER_BYTE * len(part)
        for begin in _candidates(part, window.size - at):
            if at + begin >= stop:
                break
            end = entry_end(window, at + begin)
            window.search_budget -= 0 if end is None else end - at - begin
            if window.search_budget < 0:
                return stop
            if end is not None and has_right_checksum(window.take(at + begin, end - at - begin)):
                return at + begin
        at += max(len(part) - HEADER_SIZE, 1) if at + len(part) < window.size else len(part)
    return stop


def _candidates(part: bytes, left: int) -> Iterator[int]:
    """Yield the possible starts of entries in some bytes, by magic and size; the file has `left` bytes from there."""
    octets = np.frombuffer(part, np.uint8)
    count = len(octets) - MAGIC_AT
    if count <= 0:
        return
    magic = octets[MAGIC_AT:]
    sizes = np.zeros(count, np.int64)
    size = BATCH_LAYOUT.span("batchLength")
    for place in range(size.start, size.stop):
        sizes = sizes << 8 | octets[place : place + count]
    least = np.select([magic == number for number in LEAST_SIZE], list(LEAST_SIZE.values()), 1 << 40)
    for begin in np.flatnonzero((sizes >= least) & (sizes <= left) & (octets[:count] == 0)):
        yield int(begin)


def has_right_checksum(entry: bytes) -> bool:
    """Return whether the checksum of a complete entry of magic 0 to 2 is correct."""
    if entry[MAGIC_AT] == 2:
        crc = BATCH_LAYOUT.span("crc")
        return CRC32C.compute(entry[crc.stop :]) == BATCH_LAYOUT.read_field("crc", entry)
    crc = LAYOUTS[0].span("crc")
    return CRC32.compute(entry[crc.stop :]) == LAYOUTS[0].read_field("crc", entry)


def parts_of(segment: Segment, size: int) -> Iterator[SegmentPart]:
    """Yield the parts of a segment, of about `size` bytes, which begin at entries. A small segment is not read.

    Raises OSError for an unreadable file.
    """
    if segment.size <= size:
        yield SegmentPart(segment, 0, segment.size)
        return
    window = FileWindow(segment.path, segment.size)
    at = start = 0
    while at < segment.size:
        stop = entry_end(window, at)
        if stop is None:
            at = next_sound_entry(window, at + 1, segment.size)
            continue
        if at - start >= size:
            yield SegmentPart(segment, start, at)
            start = at
        at = stop
    window.close()
    yield SegmentPart(segment, start, segment.size)


LENGTH_RULE = "batch.length-wrong-rejected"


class Region(NamedTuple):
    """The bytes from `at` to `end`: a clean batch, another entry with its bytes, or (without both) damage."""

    at: int
    end: int
    """The start of the next region."""
    batch: BatchColumns | None = None
    entry: codec.LogEntry | None = None
    data: bytes = b""

    @property
    def has_wrong_size(self) -> bool:
        """Return whether the size of a damaged entry is wrong too: no entry begins at its end."""
        return self.entry is not None and self.end != self.at + len(self.data)


def regions(
    window: FileWindow, start: int, stop: int, is_wanted: Callable[[BatchHeader], bool] | None = None
) -> Iterator[Region]:
    """Yield the regions from `start`, the start of an entry or of damage, to `stop`.

    A batch with an unwanted header is skipped if its checksum is correct, because then its size is reliable.
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


def _passed_over(window: FileWindow, at: int, is_wanted: Callable[[BatchHeader], bool]) -> int | None:
    """Return the end of the batch at a position if it is unwanted, else None."""
    end = entry_end(window, at)
    if end is None:
        return None
    data = window.take(at, end - at)
    if stored_magic(data) != 2 or is_wanted(header_at(data, 0)) or not has_right_checksum(data):
        return None
    return end


def _region(window: FileWindow, at: int, stop: int) -> Region:
    end = entry_end(window, at)
    if end is None:
        return Region(at, next_sound_entry(window, at + 1, stop))
    begin = window.hold(at, end - at)
    batch = read_batch(window.data, begin)
    if batch is not None:
        return Region(at, end, batch)
    data = window.take(at, end - at)
    entry = next(iter(codec.entries(data, limits=OFFLINE_LIMITS)))
    if end < stop and not has_sound_header(entry) and entry_end(window, end) is None and not is_blank(window, end):
        end = next_sound_entry(window, at + 1, stop)
    return Region(at, end, None, entry, data)


def has_sound_header(entry: codec.LogEntry) -> bool:
    """Return whether size and offsets of an entry are reliable, even if other parts are wrong."""
    return not any(one.requirement in (*CHECKSUM_RULES, LENGTH_RULE) for one in entry.violations)
