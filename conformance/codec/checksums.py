"""Checksums, one row each: a name and a function over bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache

from msgspec import Struct


class Checksum(Struct, frozen=True):
    """A checksum: its name, and a function that returns an unsigned 32-bit number."""

    name: str
    compute: Callable[[bytes | memoryview], int]


def _crc32c(data: bytes | memoryview) -> int:
    return _castagnoli()(data)


@cache
def _castagnoli() -> Callable[[bytes | memoryview], int]:
    """Return the package's function. The import is lazy because the package reads its own metadata."""
    from crc32c import crc32c

    return crc32c


CRC32C = Checksum("CRC-32C", _crc32c)
"""Castagnoli, polynomial 0x1EDC6F41, for record batches (record-batch#crc32-c-calculation)."""

CRC32 = Checksum("CRC-32", zlib.crc32)
"""Polynomial 0x04C11DB7, for messages of magic 0 and 1 (message-format#old-message-format)."""


def _xxh32(data: bytes | memoryview) -> int:
    """Return the 32-bit xxHash, with seed 0, of fewer than 16 bytes: an LZ4 header has no more."""
    assert len(data) < 16
    words, rest = data[: len(data) & ~3], data[len(data) & ~3 :]
    number = (_PRIMES[4] + len(data)) & _MASK
    for (word,) in struct.iter_unpack("<I", words):
        number = _rotated(number + word * _PRIMES[2], 17) * _PRIMES[3] & _MASK
    for octet in rest:
        number = _rotated(number + octet * _PRIMES[4], 11) * _PRIMES[0] & _MASK
    number = (number ^ number >> 15) * _PRIMES[1] & _MASK
    number = (number ^ number >> 13) * _PRIMES[2] & _MASK
    return number ^ number >> 16


_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK = (1 << 32) - 1


def _rotated(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> 32 - by) & _MASK


XXH32 = Checksum("XXH32", _xxh32)
"""For the header of an LZ4 frame: its checksum is the second byte of this (LZ4 frame format, *Header Checksum*)."""
