"""The table of compression codecs, one row per codec.

To add a codec, add its format to `compression_formats`, its forms without a compressor to `stored_frames`, and a row.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from conformance.codec import _stored_frames as frames
from conformance.codec import compression_formats as formats
from conformance.codec.compression_formats import BoundedStream
from conformance.codec.cursor import Cursor, Malformed


class Codec(Struct, frozen=True):
    """A codec: its name in the documents, its reader and writer, and the magics that it is used in."""

    name: str
    requirement: str
    """The requirement that defines its number."""
    unpack: Callable[[BoundedStream], None]
    write: Callable[[bytes], bytes]
    forms: tuple[Callable[[bytes], bytes], ...]
    """Writers without a compressor: their bytes are the same on every machine. The simplest form is first."""
    magics: tuple[int, ...] = (0, 1, 2)
    """The magics for which the documents define it."""
    mend_magic_0: Callable[[bytes], bytes] | None = None
    """Makes a magic 0 payload valid, for a codec that Apache Kafka reads there although no document defines it."""

    def open(self, cursor: Cursor, payload: bytes, rescued: Callable[[bytes], None] | None = None) -> bytes:
        """Return the decompressed bytes of a payload at the cursor, which does not move.

        Raises Malformed. Before that, `rescued` receives the bytes decompressed so far.
        """
        stream = BoundedStream(cursor, payload)
        try:
            self.unpack(stream)
        except Malformed:
            if rescued is not None:
                rescued(b"".join(stream.plain))
            raise
        return b"".join(stream.plain)

    def is_read_in(self, magic: int) -> bool:
        """Return True if Apache Kafka reads this codec in entries of a magic."""
        return magic in self.magics or (magic == 0 and self.mend_magic_0 is not None)


CODECS: tuple[Codec, ...] = (
    Codec("none", "codec.none", formats.open_plain, bytes, (bytes,)),
    Codec("gzip", "codec.gzip", formats.open_gzip, formats.write_gzip, frames.GZIP),
    Codec("snappy", "codec.snappy", formats.open_snappy, formats.write_snappy, frames.SNAPPY),
    Codec(
        "lz4",
        "codec.lz4",
        formats.open_lz4,
        formats.write_lz4,
        frames.LZ4,
        magics=(1, 2),
        mend_magic_0=formats.with_header_checksum,
    ),
    Codec("zstd", "codec.zstd", formats.open_zstd, formats.write_zstd, frames.ZSTD, magics=(2,)),
)
"""Indexed by the number on the wire (record-batch#compression-codec-values)."""

CODEC_NAMES = tuple(codec.name for codec in CODECS)
