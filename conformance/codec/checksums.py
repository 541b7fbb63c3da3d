"""Checksums, a row each: name to function over bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import crc32c as _crc32c


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum: what it is called and how it is computed (to an unsigned 32-bit number)."""

    name: str
    compute: Callable[[bytes | memoryview], int]


CRC32C = Checksum("CRC-32C", _crc32c.crc32c)
"""Castagnoli, polynomial 0x1EDC6F41, of record batches (record-batch#crc32-c-calculation)."""

CRC32 = Checksum("CRC-32", zlib.crc32)
"""Of messages of magic 0 and 1, polynomial 0x04C11DB7 (message-format#old-message-format)."""
