"""Which segment files of Kafka logs there are under paths, on any file system that pyarrow reaches. Needs pyarrow.

A folder named topic-partition holds files named for the first offset they may hold (20 digits, .log), with indexes of
the same name beside them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from conformance.errors import FileError

_SEGMENT = re.compile(r"(\d{20})\.log\Z")
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(\.[0-9a-f]{32}-future)?\Z")
_REMOVED = re.compile(r".+\.[0-9a-f]{32}-(delete|stray)\Z")
"""Folders that a broker is about to remove."""


class NoSegments(FileError):
    """A path under which there is no segment to audit."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file. `path` is what find_segments was given or found: a local path or a URI that pyarrow reads."""

    path: str
    directory: str
    topic: str | None
    partition: int | None
    base_offset: int | None
    """The first offset it may hold, from its name; None where the file is not named as Kafka names segments."""
    size: int
    """Bytes."""
    is_last: bool
    """Whether no later segment of its folder is known: a broker may be writing to it."""


@dataclass(frozen=True, slots=True)
class Part:
    """The entries of a segment that begin at byte `start` or later and before byte `stop`."""

    segment: Segment
    start: int
    stop: int


def file_system_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a local path or URI, and the path within it. Raises OSError or ValueError."""
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        return system, inner
    return fs.LocalFileSystem(), str(Path(path).resolve())


def find_segments(paths: Sequence[str]) -> list[Segment]:
    """The segments under paths, each a file or a folder, by folder and base offset; none twice.

    Raises NoSegments where a path does not exist or holds none.
    """
    by_path: dict[str, Segment] = {}
    for path in paths:
        segments = _segments_under(path)
        if not segments:
            raise NoSegments(path, "there is no segment (a file named with 20 digits and .log)")
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
            raise NoSegments(path, "no such file or folder")
        if info.type is fs.FileType.File:
            return [_segment(info, _around(path, inner))]
        below = system.get_file_info(fs.FileSelector(inner, recursive=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NoSegments(path, " ".join(str(error).split())) from None
    return [_segment(file, _around(path, inner)) for file in below if _is_live_segment(file)]


def _around(path: str, inner: str) -> tuple[str, str]:
    """What to put before and after a path within a file system to make it a URI again; nothing for local files."""
    if "://" not in path:
        return "", ""
    before, _, after = path.partition(inner.strip("/"))
    return before.removesuffix("/") if inner.startswith("/") else before, after.strip("/")


def _is_live_segment(info: fs.FileInfo) -> bool:
    folder = info.path.rpartition("/")[0]
    return info.is_file and bool(_SEGMENT.match(info.base_name)) and not _REMOVED.match(folder)


def _segment(info: fs.FileInfo, around: tuple[str, str]) -> Segment:
    before, after = around
    folder = info.path.rpartition("/")[0]
    file_name, folder_name = _SEGMENT.match(info.base_name), _FOLDER.match(folder.rpartition("/")[2])
    return Segment(
        path=before + info.path + after,
        directory=before + folder + after,
        topic=folder_name["topic"] if folder_name else None,
        partition=int(folder_name["partition"]) if folder_name else None,
        base_offset=int(file_name[1]) if file_name else None,
        size=info.size or 0,
        is_last=True,
    )
