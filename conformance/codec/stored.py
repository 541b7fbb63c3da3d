"""Payloads in each codec's framing that hold their data as it is, made without a compressor.

A compressor's output depends on its version; these bytes are the same on every machine, and forms that a local library
would not write by itself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator


def _pieces(data: bytes, size: int) -> Iterator[tuple[bytes, bool]]:
    """Pieces of at most `size` bytes, each with whether it is the last; one empty piece of nothing."""
    for at in range(0, max(len(data), 1), size):
        yield data[at : at + size], at + size >= len(data)


def gzip(data: bytes) -> bytes:
    """One member of stored deflate blocks (RFC 1951, 3.2.4; RFC 1952)."""
    out = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    for piece, last in _pieces(data, 0xFFFF):
        out += struct.pack("<BHH", last, len(piece), len(piece) ^ 0xFFFF), piece
    out.append(struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF))
    return b"".join(out)


def snappy(data: bytes) -> bytes:
    """A xerial stream whose blocks are one literal each."""
    out = [b"\x82SNAPPY\0", struct.pack(">ii", 1, 1)]
    for piece, _ in _pieces(data, 32 * 1024):
        block = _uvarint(len(piece)) + (_literal_tag(len(piece)) + piece if piece else b"")
        out += struct.pack(">i", len(block)), block
    return b"".join(out)


def _literal_tag(size: int) -> bytes:
    """The tag of a literal in its shortest form: the length less one in the tag, or in one or two bytes after it."""
    if size <= 60:
        return bytes((size - 1 << 2,))
    return struct.pack("<BB", 60 << 2, size - 1) if size <= 256 else struct.pack("<BH", 61 << 2, size - 1)


def lz4(data: bytes) -> bytes:
    """A frame of 64 KiB blocks stored uncompressed, without checksums or content size."""
    out = [b"\x04\x22\x4d\x18\x60\x40\x82"]  # 82: the checksum of the descriptor 60 40
    for piece, _ in _pieces(data, 1 << 16):
        if piece:
            out += struct.pack("<I", len(piece) | 1 << 31), piece
    return b"".join((*out, b"\0\0\0\0"))


def zstd(data: bytes) -> bytes:
    """A frame of raw blocks, without content size or checksum, with a window of 128 KiB (RFC 8878, 3.1.1)."""
    out = [b"\x28\xb5\x2f\xfd\x00\x38"]
    for piece, last in _pieces(data, 1 << 17):
        out += (int(last) | len(piece) << 3).to_bytes(3, "little"), piece
    return b"".join(out)


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


STORED: tuple[Callable[[bytes], bytes], ...] = (bytes, gzip, snappy, lz4, zstd)
"""By the codec's number on the wire, as in compression.CODECS."""
