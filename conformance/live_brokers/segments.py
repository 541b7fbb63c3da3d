"""The segment files of a topic in the log folder of a broker (Kafka's log.dirs: one folder a partition)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from conformance.codec.record_batch import stored_offset
from conformance.live_brokers.partition import batches_until
from conformance.process.waiting import poll

_FLUSH_TIMEOUT_S = 1.0
"""Seconds until the segments contain all accepted batches."""


class SegmentDataNotFound(Exception):
    """Segments without the topic or without its last batches; the message has the folder."""


class SegmentBytes(Struct, frozen=True):
    """Batches in a segment."""

    data: bytes
    place: str
    """The file and the byte where the batches begin."""


class SegmentFiles(Struct, frozen=True):
    """The segments of a topic's first partition, with their sizes at one time."""

    folder: Path
    sizes: Mapping[Path, int]

    @classmethod
    def of(cls, log_dir: Path, topic: str) -> SegmentFiles:
        """Return the current segments. Raises SegmentDataNotFound."""
        folder = log_dir / f"{topic}-0"
        try:
            sizes = {path: path.stat().st_size for path in _files(folder)}
        except OSError as problem:
            raise SegmentDataNotFound(f"the log folder cannot be read: {problem}") from None
        if not any(sizes.values()):
            raise SegmentDataNotFound(f"{folder} has no data of the topic")
        return cls(folder, sizes)

    def since(self, end: int, after: int) -> SegmentBytes:
        """Return the batches that were added since then, from one offset to a later one.

        Raises SegmentDataNotFound.
        """

        def stored() -> tuple[SegmentBytes, bool]:
            data, place = self._added()
            before, _, is_all = batches_until(data, end, after)
            is_found = is_all and stored_offset(data, len(before)) == after
            # Without the last batch, the caller gets all bytes that were added.
            return SegmentBytes(before if is_found else data, place), is_found

        try:
            found, is_found = poll(stored, lambda one: one[1], _FLUSH_TIMEOUT_S)
        except OSError as problem:
            raise SegmentDataNotFound(f"the log folder cannot be read: {problem}") from None
        if not is_found and not found.data.strip(b"\0"):
            raise SegmentDataNotFound(f"{self.folder} has no new data")
        return found

    def _added(self) -> tuple[bytes, str]:
        """Return the bytes that were added, and their place. Raises OSError."""
        added, place = b"", ""
        for path in _files(self.folder):
            begin = self.sizes.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                more = file.read()
            place = place or (f"{path} at byte {begin}" if more else "")
            added += more
        return added, place


def _files(folder: Path) -> list[Path]:
    """Return the segments in the order of their offsets, which are their names."""
    return sorted(folder.glob("*.log"))
