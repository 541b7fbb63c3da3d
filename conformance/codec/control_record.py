"""The key of a control record (record-batch#control-record-format), as a table."""

from __future__ import annotations

import struct
from typing import Any

from conformance.codec import json_notation as n
from conformance.codec.cursor import Cursor, Definedness
from conformance.codec.derived_fields import Values
from conformance.codec.layout import Field, Layout, wire_of
from conformance.codec.primitives import INT16
from conformance.codec.wire_type import WireType

CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""Transaction markers, and the other types in Apache Kafka's code (record-batch#control-record-types)."""

CONTROL_KEYS = tuple(struct.pack(">hh", 0, number) for number in range(len(CONTROL_TYPES)))
"""The keys of these types in version 0."""


def _open_version(cursor: Cursor, version: int, start: int) -> None:
    if version:
        openness = Definedness.ANY_VALUE if version > 0 else Definedness.OPEN
        cursor.remark("control.version-zero", f"version is {version}, expected 0", at=start, openness=openness)


def _open_type(cursor: Cursor, number: int, start: int) -> None:
    if not 0 <= number <= 1:
        cursor.remark("control.type-unknown", f"type is {number}, expected 0 (ABORT) or 1 (COMMIT)", at=start)


def _open_rest(cursor: Cursor, values: Values, start: int) -> None:
    del values, start
    if cursor.left:
        cursor.remark("control.key-layout", f"{cursor.left} bytes follow the type", openness=Definedness.ANY_VALUE)


def _truncated(wire: WireType, rule: str) -> WireType:
    """Return the same type, with a separate requirement for missing bytes."""

    def decode(cursor: Cursor) -> Any:
        if cursor.left < wire.smallest:
            cursor.fail(rule, f"{wire.smallest} bytes are needed, {cursor.left} are left")
        return wire.decode(cursor)

    return WireType(wire.name, decode, wire.encode, wire.notation, wire.smallest, wire.edges)


_CONTROL_INT16 = _truncated(INT16, "control.key-layout")
_TYPE = WireType(
    "INT16",
    _CONTROL_INT16.decode,
    INT16.encode,
    n.NamedNumber(CONTROL_TYPES, further=("UNKNOWN",)),
    INT16.smallest,
    (0, 1),
)

CONTROL_RECORD = wire_of(
    Layout(
        "CONTROL_RECORD",
        (Field("version", _CONTROL_INT16, check=_open_version), Field("type", _TYPE, check=_open_type)),
        rules=(_open_rest,),
    )
)
"""The key of a control record (record-batch#control-record-format, message-format#control-batches)."""
