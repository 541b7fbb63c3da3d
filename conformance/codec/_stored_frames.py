"""Payloads in each codec's framing with stored (not compressed) data, made without a compressor.

A compressor's output depends on its version. These bytes are the same on every machine, and they include forms that a
local library does not write.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator


def _pieces(data: bytes, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield pieces of at most `size` bytes and True for the last one; empty data is one empty piece."""
    for at in range(0, max(len(data), 1), size):
        yield data[at : at + size], at + size >= len(data)


def gzip(data: bytes, *, flags: int = 0, fields: bytes = b"", block: int = 0xFFFF) -> bytes:
    """Return a member of stored deflate blocks (RFC 1951, 3.2.4; RFC 1952), with optional fields after the header."""
    out = [b"\x1f\x8b\x08" + bytes((flags,)) + b"\0\0\0\0\0\xff" + fields]
    for piece, last in _pieces(data, block):
        out += struct.pack("<BHH", last, len(piece), len(piece) ^ 0xFFFF), piece
    out.append(struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF))
    return b"".join(out)


def _two_members(data: bytes) -> bytes:
    return gzip(data[: len(data) // 2]) + gzip(data[len(data) // 2 :])


def snappy(data: bytes, *, block: int = 32 * 1024) -> bytes:
    """Return a xerial stream with one literal in each block."""
    out = [b"\x82SNAPPY\0", struct.pack(">ii", 1, 1)]
    for piece, _ in _pieces(data, block):
        raw = _raw_snappy(piece)
        out += struct.pack(">i", len(raw)), raw
    return b"".join(out)


def _raw_snappy(data: bytes) -> bytes:
    """Return one raw block with literals of at most 32 KiB."""
    literals = (_literal_tag(len(piece)) + piece for piece, _ in _pieces(data, 32 * 1024) if piece)
    return _uvarint(len(data)) + b"".join(literals)


def _literal_tag(size: int) -> bytes:
    """Return the shortest tag of a literal: its length minus 1 is in the tag, or in one or two bytes after it."""
    if size <= 60:
        return bytes((size - 1 << 2,))
    return struct.pack("<BB", 60 << 2, size - 1) if size <= 256 else struct.pack("<BH", 61 << 2, size - 1)


def lz4(data: bytes, *, block: int = 1 << 16, literals: bool = False) -> bytes:
    """Return a frame of blocks of at most 64 KiB (stored or literals), without checksums or content size."""
    out = [b"\x04\x22\x4d\x18\x60\x40\x82"]  # 82: the checksum of the descriptor 60 40
    for piece, _ in _pieces(data, block):
        if piece:
            body = _lz4_literals(piece) if literals else piece
            out += struct.pack("<I", len(body) | (0 if literals else 1 << 31)), body
    return b"".join((*out, b"\0\0\0\0"))


def _lz4_literals(data: bytes) -> bytes:
    """Return a block of one sequence that has only literals."""
    if len(data) < 15:
        return bytes((len(data) << 4,)) + data
    whole, rest = divmod(len(data) - 15, 255)
    return b"\xf0" + b"\xff" * whole + bytes((rest,)) + data


def zstd(data: bytes, *, block: int = 1 << 17) -> bytes:
    """Return a frame of raw blocks, without content size or checksum, with a window of 128 KiB (RFC 8878, 3.1.1)."""
    return b"\x28\xb5\x2f\xfd\x00\x38" + _zstd_blocks(data, block)


def _zstd_blocks(data: bytes, size: int) -> bytes:
    pieces = ((int(last) | len(piece) << 3, piece) for piece, last in _pieces(data, size))
    return b"".join(head.to_bytes(3, "little") + piece for head, piece in pieces)


def _zstd_sized(data: bytes) -> bytes:
    """Return a frame with a content size of 4 bytes and no separate window size."""
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) + _zstd_blocks(data, 1 << 17)


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


GZIP: tuple[Callable[[bytes], bytes], ...] = (
    gzip,
    lambda data: gzip(data, flags=0x08, fields=b"name\0"),
    lambda data: gzip(data, flags=0x04, fields=b"\x03\0abc", block=100),
    _two_members,
)
SNAPPY: tuple[Callable[[bytes], bytes], ...] = (snappy, lambda data: snappy(data, block=100), _raw_snappy)
LZ4: tuple[Callable[[bytes], bytes], ...] = (
    lz4,
    lambda data: lz4(data, block=100),
    lambda data: lz4(data, block=1 << 15, literals=True),
)
ZSTD: tuple[Callable[[bytes], bytes], ...] = (
    zstd,
    lambda data: zstd(data, block=100),
    lambda data: zstd(data[:50]) + zstd(data[50:]),
    lambda data: b"\x5a\x2a\x4d\x18\x03\0\0\0abc" + zstd(data),
    _zstd_sized,
)
"""The forms of each codec that Apache Kafka reads, the simplest first (decisions#compression)."""
