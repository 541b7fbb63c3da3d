"""What stands in the records of covering sets: keys, values and headers by the names of their levels, and markers."""

from __future__ import annotations

import struct

from conformance.codec.control_record import CONTROL_TYPES
from conformance.codec.derived_fields import Values

START_MS = 1_700_000_000_000
EPOCH = 3
"""The epoch of producers."""

CONTENTS: dict[str, bytes | None] = {"short": b"content", "null": None, "empty": b"", "300 bytes": b"0123456789" * 30}
"""Keys and values by their level."""

HEADERS: dict[str, tuple[tuple[str, bytes | None], ...]] = {
    "none": (),
    "one": (("trace", b"\x00\xff"),),
    "null value": (("absent", None), ("empty", b"")),
    "many": tuple((f"h{index}", b"%d" % index) for index in range(70)),
}
"""Headers by their level."""

MARKER_VALUES: dict[str, bytes | None] = {
    "right": struct.pack(">hi", 0, 5),
    "null": None,
    "empty": b"",
    "short": b"\0\0",
    "other version": struct.pack(">hi", 1, 5),
    "longer": struct.pack(">hiq", 0, 5, 9),
}
"""The value of a marker: version and coordinator epoch."""

MARKER_TYPES = {**{name: number for number, name in enumerate(CONTROL_TYPES)}, "type 7": 7, "type 32767": (1 << 15) - 1}
"""Types of markers: those that Apache Kafka has, and some that nobody has."""


def marker_key(number: int, version: int = 0) -> bytes:
    """The key of a control record: INT16 version and INT16 type."""
    return struct.pack(">hh", version, number)


def headers(level: str) -> tuple[Values, ...]:
    """The headers of a level."""
    return tuple({"key": key, "value": value} for key, value in HEADERS[level])
