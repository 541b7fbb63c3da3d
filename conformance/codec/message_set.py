"""Sets of messages of magic 0 and 1, and a consumer's view of their entries (message-format#old-message-format)."""

from __future__ import annotations

from itertools import chain
from typing import Any

from conformance.codec import json_notation as n
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.cursor import Cursor, Unencodable
from conformance.codec.derived_fields import Values
from conformance.codec.dispatch import encode
from conformance.codec.legacy_message import LAYOUTS, MESSAGES, is_cut_off, read_message
from conformance.codec.record_batch import (
    TIMESTAMP_TYPES,
)
from conformance.codec.wire_type import WireType

_COMPRESSION = n.NamedNumber(CODEC_NAMES)

MESSAGE = n.ObjectOf(
    {
        "offset": n.DECIMAL,
        "magic": n.NUMBER,
        "timestampType": n.NamedNumber(TIMESTAMP_TYPES, further=("NoTimestampType",)),
        "timestamp": n.DECIMAL,
        "key": n.HEX,
        "value": n.HEX,
    }
)
"""A message as a consumer sees it. Magic 0 has no timestamp and no type; Apache Kafka calls that NoTimestampType."""

ENTRY = n.ObjectOf(
    {
        "magic": n.NUMBER,
        "offset": n.DECIMAL,
        "compression": _COMPRESSION,
        "messages": n.ListOf(MESSAGE, nullable=False),
    }
)
"""A top-level message in a log."""

MESSAGE_RULES = {
    "offset": "message-set.v1-relative-offsets",
    "magic": "format.magic-versions",
    "timestampType": "legacy.log-append-overwrites",
    "timestamp": "legacy.timestamp-milliseconds",
    "key": "legacy.key-nullable",
    "value": "legacy.value-nullable",
}
"""The requirement that defines each part of a message."""

# --- entries ------------------------------------------------------------------------------------------


def read_entry(cursor: Cursor) -> Values:
    """Read a top-level message in the form of ENTRY."""
    message = read_message(cursor)
    inner = message.get("messages", (message,))
    return {
        "magic": message["magic"],
        "offset": message["offset"],
        "compression": message["compression"],
        "messages": tuple({name: one[name] for name in MESSAGE.fields if name in one} for one in inner),
    }


def entry_of(messages: tuple[Values, ...], magic: int, codec: int) -> Values:
    """Return all fields of the wrapper that a writer puts around messages. In magic 1, inner offsets count from 0.

    It has the offset of the last message and the largest timestamp. Raises Unencodable if there is no such wrapper.
    """
    if codec not in range(len(CODECS)):
        raise Unencodable("codec.unassigned-values", f"codec is {codec!r}, expected 0 to {len(CODECS) - 1}")
    if not CODECS[codec].is_read_in(magic):
        rule = LAYOUTS[magic].rules_by_name()["compression"]
        raise Unencodable(rule, f"codec {CODECS[codec].name} is not defined for magic {magic}")
    if not messages:
        raise Unencodable("recursive.wrapper-holds-set", "a wrapper needs at least one message")
    inner = [_fields(message, magic) for message in messages]
    offset, base = inner[-1]["offset"], inner[0]["offset"] if magic else 0
    inner = [{**message, "offset": message["offset"] - base} for message in inner]
    outer = {"offset": offset, "magic": magic, "compression": codec, "key": None, "value": None, "messages": inner}
    if magic:
        kinds, stamps = ({message[name] for message in inner} for name in ("timestampType", "timestamp"))
        if kinds != {0} and not len(kinds) == len(stamps) == 1:
            hint = "the messages of a wrapper have different timestamp types or append times"
            raise Unencodable("legacy.v1-attributes", hint)
        outer |= {"timestampType": kinds.pop(), "timestamp": max(stamps)}
    return outer


def _fields(message: Values, magic: int) -> Values:
    """Return all fields of a plain message."""
    names = ("offset", "key", "value", "timestamp")[: 3 + magic]
    missing = [name for name in names if name not in message]
    if missing:
        raise Unencodable("general.exact-encoding", f"{missing[0]} is missing")
    own = {name: message[name] for name in names}
    kind = {"timestampType": message.get("timestampType", 0)} if magic else {}
    return {**own, **kind, "magic": magic, "compression": 0}


def encode_set(messages: Any, magic: int, codec: int) -> bytes:
    """Encode messages as a set: each separately or, with a codec, all in one wrapper. Raises Unencodable."""
    if magic not in LAYOUTS:
        raise Unencodable("format.magic-versions", f"magic is {magic!r}, expected 0 or 1")
    if codec:
        return encode(MESSAGES[magic], entry_of(tuple(messages), magic, codec))
    return b"".join(encode(MESSAGES[magic], _fields(message, magic)) for message in messages)


def encode_entry(entry: Values) -> bytes:
    """Encode a top-level message with its inner messages, in the form of ENTRY."""
    return encode_set(entry["messages"], entry["magic"], entry["compression"])


# --- message set --------------------------------------------------------------------------------------


def _decode(cursor: Cursor) -> tuple[Values, ...]:
    entries: list[tuple[Values, ...]] = []
    base = cursor.path
    while cursor.left and not is_cut_off(cursor):
        if cursor.tracing:
            cursor.path = f"{base}[{len(entries)}]"
        start = cursor.pos
        entries.append(read_entry(cursor)["messages"])
        cursor.span("", start)
    cursor.path = base
    return tuple(chain.from_iterable(entries))


def _encode(messages: Any) -> bytes:
    return b"".join(encode_set((message,), message["magic"], 0) for message in messages)


MESSAGE_SET = WireType("MESSAGE_SET", _decode, _encode, n.ListOf(MESSAGE, nullable=False), 0)
