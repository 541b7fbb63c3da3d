"""Segment files of Kafka logs: which there are, where their entries lie, and where whole entries begin after damage.

A folder named topic-partition holds files named for the first offset they may hold (20 digits, .log), with indexes of
the same name beside them. Any file system that pyarrow reaches will do; nothing here needs Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from conformance.codec import record_batch
from conformance.codec.checksums import CRC32, CRC32C
from conformance.codec.message_set import LAYOUTS, SMALLEST
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, MAGIC_AT, OVERHEAD, stored_size
from conformance.errors import UserError

WINDOW = 8 << 20
"""Bytes read at a time."""

_PATIENCE, _PATIENCE_A_BYTE = 1 << 30, 64
"""Bytes that may be held against a checksum in search of the next entry: in any case, and for each byte passed over."""

LEAST = {**SMALLEST, 2: record_batch.SMALLEST}
"""The least size of an entry by its magic, as its own size field counts (OVERHEAD not counted)."""

_SEGMENT = re.compile(r"(\d{20})\.log\Z")
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(\.[0-9a-f]{32}-future)?\Z")
_GONE = re.compile(r".+\.[0-9a-f]{32}-(delete|stray)\Z")
"""Folders that a broker is about to remove."""


class NoSegments(UserError):
    """A path under which there is nothing to scan; the message names it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file. `path` is what find_segments was given or found: a local path or a URI of pyarrow's."""

    path: str
    directory: str
    topic: str | None
    partition: int | None
    base_offset: int | None
    """The first offset it may hold, from its name; None where the name is none of Kafka's."""
    size: int
    is_last: bool
    """Whether no later segment of its folder is known: a broker may be writing to it."""


@dataclass(frozen=True, slots=True)
class Split:
    """The entries of a segment that begin at byte `start` or later and before `stop`."""

    segment: Segment
    start: int
    stop: int


# --- which there are ----------------------------------------------------------------------------------


def opened(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a local path or URI, and the path within it. Raises OSError or ValueError."""
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        return system, inner
    return fs.LocalFileSystem(), str(Path(path).resolve())


def find_segments(paths: Sequence[str]) -> list[Segment]:
    """The segments under paths, each a file or a folder, by folder and base offset; none twice.

    Raises NoSegments where a path does not exist or holds none.
    """
    found: dict[str, Segment] = {}
    for path in paths:
        segments = _segments_under(path)
        if not segments:
            raise NoSegments(f"{path}: there is no segment (a file of 20 digits and .log)")
        found |= {segment.path: segment for segment in segments}
    ordered = sorted(found.values(), key=lambda one: (one.directory, one.base_offset or 0, one.path))
    return [_with_last(one, ordered[index + 1 : index + 2]) for index, one in enumerate(ordered)]


def _with_last(segment: Segment, following: Sequence[Segment]) -> Segment:
    is_last = not any(later.directory == segment.directory for later in following)
    return Segment(
        segment.path,
        segment.directory,
        segment.topic,
        segment.partition,
        segment.base_offset,
        segment.size,
        is_last=is_last or segment.base_offset is None,
    )


def _segments_under(path: str) -> list[Segment]:
    try:
        system, inner = opened(path)
        info = system.get_file_info(inner)
        if info.type is fs.FileType.NotFound:
            raise NoSegments(f"{path}: no such file or folder")
        if info.type is fs.FileType.File:
            return [_segment(info, _wrapping(path, inner))]
        below = system.get_file_info(fs.FileSelector(inner, recursive=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NoSegments(f"{path}: {' '.join(str(error).split())}") from None
    return [_segment(one, _wrapping(path, inner)) for one in below if _is_live_segment(one)]


def _wrapping(path: str, inner: str) -> tuple[str, str]:
    """What stands before and after the paths of a file system to make them URIs again; nothing for local files."""
    if "://" not in path:
        return "", ""
    before, _, after = path.partition(inner.strip("/"))
    return before.removesuffix("/") if inner.startswith("/") else before, after.strip("/")


def _is_live_segment(info: fs.FileInfo) -> bool:
    folder = info.path.rpartition("/")[0]
    return info.is_file and bool(_SEGMENT.match(info.base_name)) and not _GONE.match(folder)


def _segment(info: fs.FileInfo, wrapping: tuple[str, str]) -> Segment:
    before, after = wrapping
    folder = info.path.rpartition("/")[0]
    named, kept = _SEGMENT.match(info.base_name), _FOLDER.match(folder.rpartition("/")[2])
    return Segment(
        path=before + info.path + after,
        directory=before + folder + after,
        topic=kept["topic"] if kept else None,
        partition=int(kept["partition"]) if kept else None,
        base_offset=int(named[1]) if named else None,
        size=info.size or 0,
        is_last=True,
    )


# --- reading ------------------------------------------------------------------------------------------


class Window:
    """A file of which a part is held; positions are the file's own."""

    __slots__ = ("_file", "at", "data", "size")

    def __init__(self, path: str, size: int) -> None:
        """Opens the file, of which the first `size` bytes count. Raises OSError."""
        system, inner = opened(path)
        self._file = system.open_input_file(inner)
        self.size = min(size, self._file.size())
        self.at = 0
        self.data = b""

    def hold(self, at: int, count: int) -> int:
        """Hold so many bytes from a position on, or those there are; returns where in `data` they begin."""
        stop = min(at + count, self.size)
        if at < self.at or stop > self.at + len(self.data):
            self._file.seek(at)
            self.data = self._file.read(min(max(count, WINDOW), max(self.size - at, 0)))
            self.at = at
        return at - self.at

    def take(self, at: int, count: int) -> bytes:
        """So many bytes from a position on, or those there are."""
        begin = self.hold(at, count)
        return self.data[begin : begin + count]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def extent(window: Window, at: int) -> int | None:
    """Where the entry at a position ends, by its size; None where size or magic are none, or the file ends before."""
    head = window.take(at, MAGIC_AT + 1)
    if len(head) <= MAGIC_AT:
        return None
    size = stored_size(head)
    stop = at + OVERHEAD + size
    return stop if size >= LEAST.get(head[MAGIC_AT], 1 << 31) and stop <= window.size else None


def is_blank(window: Window, at: int) -> bool:
    """Whether nothing but zeros is left from a position on: space that was set aside."""
    while at < window.size:
        part = window.take(at, WINDOW)
        if part.strip(b"\0"):
            return False
        at += len(part)
    return True


def resumed(window: Window, at: int, stop: int) -> int:
    """The first position from `at` on where an entry begins whose checksum is right; `stop` where there is none.

    Bytes made to look like the beginnings of many large entries are given up at some point: then it is `stop`, too.
    """
    patience = _PATIENCE
    while at < stop:
        part = window.take(at, min(WINDOW, stop - at + HEADER_SIZE))
        patience += _PATIENCE_A_BYTE * len(part)
        for begin in _plausible(part, window.size - at):
            if at + begin >= stop:
                break
            end = extent(window, at + begin)
            patience -= 0 if end is None else end - at - begin
            if patience < 0:
                return stop
            if end is not None and _is_sound(window.take(at + begin, end - at - begin)):
                return at + begin
        at += max(len(part) - HEADER_SIZE, 1) if at + len(part) < window.size else len(part)
    return stop


def _plausible(part: bytes, left: int) -> Iterator[int]:
    """Where in a part an entry may begin by its magic and size, of which `left` bytes at most are there."""
    octets = np.frombuffer(part, np.uint8)
    count = len(octets) - MAGIC_AT
    if count <= 0:
        return
    magic = octets[MAGIC_AT:]
    sizes = np.zeros(count, np.int64)
    size = BATCH_LAYOUT.span("batchLength")
    for place in range(size.start, size.stop):
        sizes = sizes << 8 | octets[place : place + count]
    least = np.select([magic == number for number in LEAST], list(LEAST.values()), 1 << 40)
    for begin in np.flatnonzero((sizes >= least) & (sizes <= left) & (octets[:count] == 0)):
        yield int(begin)


def _is_sound(entry: bytes) -> bool:
    if entry[MAGIC_AT] == 2:
        crc = BATCH_LAYOUT.span("crc")
        return CRC32C.compute(entry[crc.stop :]) == BATCH_LAYOUT.peek("crc", entry)
    crc = LAYOUTS[0].span("crc")
    return CRC32.compute(entry[crc.stop :]) == LAYOUTS[0].peek("crc", entry)


# --- splitting ----------------------------------------------------------------------------------------


def splits(segment: Segment, size: int) -> Iterator[Split]:
    """A segment cut where entries begin, into parts of about `size` bytes; a small one is one part, and not read.

    Raises OSError where it cannot be read.
    """
    if segment.size <= size:
        yield Split(segment, 0, segment.size)
        return
    window = Window(segment.path, segment.size)
    at = start = 0
    while at < segment.size:
        stop = extent(window, at)
        if stop is None:
            at = resumed(window, at + 1, segment.size)
            continue
        if at - start >= size:
            yield Split(segment, start, at)
            start = at
        at = stop
    window.close()
    yield Split(segment, start, segment.size)
