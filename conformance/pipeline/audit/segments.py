"""The search for segment files of Kafka logs on any file system that pyarrow supports. Needs pyarrow.

A folder `topic-partition` contains segments, named by their base offset (20 digits, .log), and indexes with the same
names. Copies may have a prefix instead (topic-partition or another text, and a separator): the files of a folder with
the same prefix are one log. An unreadable file with such a name is a segment too, with the reason as its problem.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyarrow import fs

from conformance.errors import FileError

_SEGMENT = re.compile(r"(?:(?P<prefix>.+)[-_.])?(?P<offset>\d{20})\.log\Z")
_LOG = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(\.[0-9a-f]{32}-future)?\Z")
"""The name of a folder, or the prefix of a copy."""
_REMOVED = re.compile(r".+\.[0-9a-f]{32}-(delete|stray)\Z")
"""Folders that a broker is going to delete."""
_LARGEST_OFFSET, _LARGEST_PARTITION = (1 << 63) - 1, (1 << 31) - 1


class NoSegmentsError(FileError):
    """No segment was found under a path."""


class Segment(Struct, frozen=True):
    """A segment file. `path` is a local path or a URI of pyarrow, as given or found."""

    path: str
    directory: str
    """The place of one log: a folder, or a glob for the files of a folder with one prefix."""
    topic: str | None
    partition: int | None
    base_offset: int | None
    """The lowest allowed offset, from the file name; None for a file with another name."""
    size: int
    """Bytes."""
    is_last: bool
    """True for the last segment of a log: a broker may be writing to it."""
    problem: str = ""
    """Why it is unreadable; empty if no reason is known."""


class SegmentPart(Struct, frozen=True):
    """The entries of a segment that begin at byte `start` or later, and before byte `stop`."""

    segment: Segment
    start: int
    stop: int


def file_system_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a local path or URI, and the path within it. Raises OSError or ValueError."""
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        return system, inner
    return fs.LocalFileSystem(), str(Path(path).resolve())


def find_segments(paths: Sequence[str]) -> list[Segment]:
    """Return the segments under paths (files or folders) without duplicates, by folder and base offset.

    Raises NoSegmentsError for a path that does not exist or contains no segment.
    """
    by_path: dict[str, Segment] = {}
    for path in paths:
        segments = _segments_under(path)
        if not segments:
            raise NoSegmentsError(path, "expected a segment (a file named with 20 digits and .log), found none")
        by_path |= {segment.path: segment for segment in segments}
    ordered = sorted(by_path.values(), key=lambda segment: (segment.directory, segment.base_offset or 0, segment.path))
    following = [*ordered[1:], None]
    return [replace(one, is_last=_is_last(one, after)) for one, after in zip(ordered, following, strict=True)]


def _is_last(segment: Segment, following: Segment | None) -> bool:
    return segment.base_offset is None or following is None or following.directory != segment.directory


def _segments_under(path: str) -> list[Segment]:
    try:
        system, inner = file_system_of(path)
        info = system.get_file_info(inner)
        if info.type is fs.FileType.NotFound:
            raise NoSegmentsError(path, "no such file or folder")
        if info.type is fs.FileType.File:
            return [_segment(inner, info.size or 0, "", _around(path, inner))]
        if "://" not in path:
            return list(_segments_in(inner))
        below = system.get_file_info(fs.FileSelector(inner, recursive=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NoSegmentsError(path, " ".join(str(error).split())) from None
    around = _around(path, inner)
    kinds = ((file, "" if file.is_file else _OF_FOLDER) for file in below if _is_live(file.path))
    return [_segment(file.path, file.size or 0, problem, around) for file, problem in kinds]


_OF_FOLDER = "a folder, expected a file"


def _segments_in(folder: str) -> Iterator[Segment]:
    """Yield the segments below a local folder; a folder that cannot be listed is a segment with a problem."""
    unlisted: list[OSError] = []
    been: set[tuple[int, int]] = set()
    for here, folders, files in os.walk(folder, onerror=unlisted.append, followlinks=True):
        place = os.stat(here)  # noqa: PTH116 - as os.walk names it
        if (place.st_dev, place.st_ino) in been:
            folders.clear()  # a symbolic link leads to a folder that was already visited
            continue
        been.add((place.st_dev, place.st_ino))
        for name in sorted((*folders, *files)):
            path = os.path.join(here, name)  # noqa: PTH118 - a Path costs more than the stat of the file
            if _is_live(path):
                yield _local_segment(path)
    for error in unlisted:
        yield _segment(os.fsdecode(error.filename), 0, f"the folder cannot be listed: {error.strerror}", ("", ""))


def _local_segment(path: str) -> Segment:
    try:
        found = os.stat(path)  # noqa: PTH116 - see above
    except OSError as error:
        is_link = os.path.islink(path)  # noqa: PTH114
        problem = "a broken symbolic link" if is_link else error.strerror or str(error)
        return _segment(path, 0, problem, ("", ""))
    problem = "" if stat.S_ISREG(found.st_mode) else _OF_FOLDER if stat.S_ISDIR(found.st_mode) else "not a file"
    return _segment(path, found.st_size if not problem else 0, problem, ("", ""))


def _around(path: str, inner: str) -> tuple[str, str]:
    """Return the prefix and suffix that make a path within a file system a URI again; empty for local files."""
    if "://" not in path:
        return "", ""
    before, _, after = path.partition(inner.strip("/"))
    return before.removesuffix("/") if inner.startswith("/") else before, after.strip("/")


def _is_live(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    found = _SEGMENT.match(name)
    return found is not None and not _REMOVED.match(folder) and not _REMOVED.match(found["prefix"] or "")


def _segment(path: str, size: int, problem: str, around: tuple[str, str]) -> Segment:
    """Return the segment at a path; an impossible offset or partition in its name is a problem."""
    before, after = around
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    if shown != path:
        problem = problem or "the path is not UTF-8"
    folder, _, name = shown.rpartition("/")
    named = _SEGMENT.match(name)
    prefix = named["prefix"] if named else None
    by_prefix = _LOG.match(prefix or "")
    log = by_prefix or _LOG.match(folder.rpartition("/")[2])
    base_offset = int(named["offset"]) if named else None
    partition = int(log["partition"]) if log else None
    if base_offset is not None and base_offset > _LARGEST_OFFSET:
        base_offset, problem = None, problem or f"the offset in its name is above {_LARGEST_OFFSET}"
    if partition is not None and partition > _LARGEST_PARTITION:
        partition, problem = None, problem or _of_partition("prefix" if by_prefix else "folder")
    return Segment(
        path=before + shown + after,
        directory=before + folder + (f"/{name[: len(prefix) + 1]}*" if prefix else "") + after,
        topic=log["topic"] if log else None,
        partition=partition,
        base_offset=base_offset,
        size=size,
        is_last=True,
        problem=problem,
    )


def _of_partition(part: str) -> str:
    return f"the partition in its {part} name is above {_LARGEST_PARTITION}"
