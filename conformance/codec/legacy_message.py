"""Messages of magic 0 and 1, and wrappers (message-format#old-message-format), as tables.

0      8            12  16    17         18                        magic 1: 18         26
offset message_size crc magic attributes key value                 ...      timestamp  key value

A message with a codec in its attributes is a wrapper: its value is a compressed set of the real messages (the documents
call them inner messages).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from msgspec import Struct

from conformance.codec import json_notation as n
from conformance.codec import record_batch
from conformance.codec._length_prefixed import OCTETS, LengthPrefix, sized
from conformance.codec.checksums import CRC32
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.cursor import RECORD_COST, Cursor, Definedness, Malformed
from conformance.codec.derived_fields import ByteLength, ChecksumOf, Constant, Values
from conformance.codec.dispatch import decode, encode
from conformance.codec.layout import BitField, Field, Layout, smallest, wire_of
from conformance.codec.primitives import INT8, INT32, INT64, UINT32
from conformance.codec.record_batch import (
    BATCH_LAYOUT,
    MAGIC_AT,
    OVERHEAD,
    TIMESTAMP_TYPES,
    stored_magic,
    stored_size,
    wrapped,
)


def place_inner(cursor: Cursor, wrapper: Values, start: int) -> None:
    """Set the offset, timestamp and timestamp type of inner messages as a reader sees them."""
    inner = wrapper.get("messages")
    if inner is None:
        return
    if any(message["magic"] != wrapper["magic"] for message in inner):
        cursor.remark(
            "recursive.wrapper-holds-set",
            "inner messages have another magic than the wrapper",
            at=start,
            openness=Definedness.ANY_VALUE,
        )
    if any(later["offset"] <= earlier["offset"] for earlier, later in pairwise(inner)):
        cursor.remark("message-set.v1-relative-offsets", "inner offsets do not increase", at=start)
    _place_offsets(cursor, wrapper, inner, start)
    if "timestampType" in wrapper:
        _place_timestamps(cursor, wrapper, inner, start)


def _place_offsets(cursor: Cursor, wrapper: Values, inner: list[Values], start: int) -> None:
    outer, last = wrapper["offset"], inner[-1]["offset"]
    if wrapper["magic"] == 0:
        if outer != last:
            hint = f"wrapper offset is {outer}, expected {last} (the last inner offset)"
            cursor.remark("recursive.wrapper-offset-is-last", hint, at=start)
        return
    if outer == 0:
        if last:
            # Old producers wrote such sets, and Apache Kafka keeps their inner offsets unchanged.
            cursor.remark(
                "message-set.v1-relative-offsets",
                f"wrapper offset is 0, but the last inner offset is {last}",
                at=start,
                openness=Definedness.ANY_VALUE,
            )
        return
    if wrapped(outer - last) < 0:
        hint = f"wrapper offset {outer} does not fit the last inner offset {last}"
        cursor.fail("message-set.v1-relative-offsets", hint, at=start, open=True)
    for message in inner:
        offset = message["offset"] + outer - last
        message["offset"] = wrapped(offset)
        if message["offset"] != offset:
            cursor.remark(
                "message-set.v1-relative-offsets",
                "an absolute offset does not fit in an INT64",
                at=start,
                openness=Definedness.ANY_VALUE,
            )


def _place_timestamps(cursor: Cursor, wrapper: Values, inner: list[Values], start: int) -> None:
    """Apply message-format#old-message-format: only the wrapper has the time and type of a log append."""
    for message in inner:
        if "timestamp" not in message:
            continue
        if wrapper["timestampType"]:
            message["timestamp"] = wrapper["timestamp"]
        elif message["timestampType"]:
            hint = "an inner message has LogAppendTime, its wrapper has CreateTime"
            cursor.remark("legacy.log-append-overwrites", hint, at=start, openness=Definedness.ANY_VALUE)
        message["timestampType"] = wrapper["timestampType"]


_BATCH = 2
"""The magic of record batches."""

_MUCH = 1 << 20
"""Bytes that are expensive to allocate."""
_FIT = (1 << 31) - 1 - OVERHEAD
"""A larger size overflows a signed 32-bit number when the 12 bytes before it are added."""

_SIZE_AT = BATCH_LAYOUT.offset("batchLength")


# --- fields -------------------------------------------------------------------------------------------

_VALUE_LENGTH = LengthPrefix(INT32, nullable=True, negative_rule="legacy.value-nullable", negative_open=True)
_KEY = sized(
    "key",
    LengthPrefix(INT32, nullable=True, negative_rule="legacy.key-nullable", negative_open=True),
    OCTETS,
    "robustness.message-key-length",
)
_VALUE = sized("value", _VALUE_LENGTH, OCTETS, "message-set.size-mismatch-rejected")


class _MessageValue(Struct, frozen=True):
    """The value of a message; a wrapper's value is opened, and its messages are in `messages`."""

    notation: Any = n.HEX
    smallest: int = _VALUE.smallest

    def read(self, cursor: Cursor, values: Values) -> bytes | None:
        """Return the bytes of a plain message, or None for a wrapper."""
        start, codec = cursor.pos, values["compression"]
        value: bytes | None = _VALUE.decode(cursor)
        if not codec:
            return value
        at = start + _VALUE_LENGTH.wire.smallest
        if codec >= len(CODECS):
            cursor.fail(
                "codec.unassigned-values",
                f"codec is {codec}, expected 0 to {len(CODECS) - 1}",
                at=start,
            )
        if not CODECS[codec].is_read_in(values["magic"]):
            hint = f"codec {CODECS[codec].name} is not defined for magic {values['magic']}"
            cursor.fail(LAYOUTS[values["magic"]].rules_by_name()["compression"], hint, at=start, open=True)
        if cursor.layer:
            hint = "a compressed message inside a compressed message"
            cursor.fail("recursive.wrapper-holds-set", hint, at=start, open=True)
        if value is None:
            cursor.fail("recursive.wrapper-holds-set", "the value of the wrapper is null", at=start, open=True)
        mend = CODECS[codec].mend_magic_0
        if values["magic"] == 0 and mend is not None:
            value = mend(value)
        outer, cursor.pos = cursor.pos, at
        plain = CODECS[codec].open(cursor, value, lambda part: _doubt_part(cursor, part))
        cursor.pos = outer
        values["messages"] = _inner(cursor.within(plain))
        return None

    def write(self, values: Values) -> bytes:
        """Return the bytes of the value, or of the compressed set of a wrapper's messages."""
        if not values["compression"]:
            return _VALUE.encode(values["value"])
        plain = b"".join(encode(MESSAGES[inner["magic"]], inner) for inner in values["messages"])
        return _VALUE.encode(CODECS[values["compression"]].write(plain))


def _inner(cursor: Cursor) -> list[Values]:
    """Read the messages of a wrapper's set."""
    messages: list[Values] = []
    base = cursor.path
    while cursor.left:
        if is_cut_off(cursor):
            # Apache Kafka allocates the stated size before it checks that the bytes are present.
            rule = "message-set.no-count" if cursor.left < OVERHEAD else "robustness.inner-message"
            cursor.remark(rule, "the last inner message is cut off", openness=Definedness.ANY_VALUE)
            break
        cursor.count(RECORD_COST)
        if cursor.tracing:
            cursor.path = f"{base}[{len(messages)}]"
        start = cursor.pos
        try:
            messages.append(read_message(cursor, is_inner=True))
        except Malformed:
            _doubt_sizes(cursor, start)
            raise
        cursor.span("", start)
    cursor.path = base
    if not messages:
        cursor.fail("recursive.wrapper-holds-set", "the wrapper contains no message", open=True)
    return messages


def _doubt_sizes(cursor: Cursor, start: int) -> None:
    """Remark on a later size that is too large: Apache Kafka allocates all sizes before it parses a message."""
    for at, size, left in _beyond(cursor.data, start):
        hint = f"a later inner message has size {size}, but {left} bytes are left"
        cursor.remark("robustness.inner-message", hint, at=at + _SIZE_AT, openness=Definedness.ANY_VALUE)


def _doubt_part(cursor: Cursor, part: bytes) -> None:
    """Remark on a large size in a truncated payload: Apache Kafka allocates it before it finds the truncation."""
    for _, size, left in _beyond(part, 0):
        if size > _MUCH:
            hint = f"an earlier inner message has size {size}, but {left} bytes are left"
            cursor.remark("robustness.inner-message", hint, openness=Definedness.ANY_VALUE)


def _beyond(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Yield the first message that is larger than the bytes left: its position, its size, and the bytes left."""
    while len(data) - at >= OVERHEAD and (size := stored_size(data, at)) >= SMALLEST[0]:
        left = len(data) - at - OVERHEAD
        if size > left:
            yield at, size, left
            return
        at += OVERHEAD + size


class _TrailingBytes(Struct, frozen=True):
    """Bytes between the value and the end from message_size: the checksum covers them, Apache Kafka skips them."""

    notation: Any = n.HEX
    smallest: int = 0

    def read(self, cursor: Cursor, values: Values) -> bytes:
        """Return the remaining bytes."""
        del values
        if cursor.left:
            cursor.remark("message-set.size-mismatch-rejected", f"{cursor.left} bytes follow the value")
        rest = cursor.data[cursor.pos : cursor.end]
        cursor.pos = cursor.end
        return rest

    def write(self, values: Values) -> bytes:
        """Return no bytes."""
        del values
        return b""


class _MessageCrc(Struct, frozen=True):
    """The crc of a message. That of a wrapper has its own requirement: Apache Kafka's consumer does not check it."""

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Record a mismatch; reading continues."""
        begin = start - LAYOUTS[0].offset("crc")
        compression = LAYOUTS[0].read_field("compression", cursor.data, begin)
        rule = "legacy.wrapper-crc-checked" if compression else "legacy.crc-checked"
        ChecksumOf(CRC32, rule).check(cursor, start, stated)

    def compute(self, values: Values, tail: bytes) -> int:
        """Return the checksum of the bytes that follow."""
        del values
        return CRC32.compute(tail)


# --- rules over a whole message -----------------------------------------------------------------------


def _high_bits(known: int) -> Callable[[Cursor, Any, int], None]:
    def check(cursor: Cursor, attributes: int, start: int) -> None:
        if attributes & 0xFF >> known << known:
            hint = f"attributes are {attributes & 0xFF:02x}, which sets unassigned bits"
            cursor.remark("legacy.attributes-high-bits-zero", hint, at=start)

    return check


def _leaves_room(cursor: Cursor, key: bytes | None, start: int) -> None:
    del key
    if cursor.left < _VALUE_LENGTH.wire.smallest:
        hint = f"the key leaves {cursor.left} bytes for the length of the value"
        cursor.fail("robustness.message-key-length", hint, at=start)


def _open_places(cursor: Cursor, message: Values, start: int) -> None:
    if message["offset"] < 0:
        cursor.remark("message-set.entry-layout", f"offset is {message['offset']}, expected 0 or more", at=start)
    if message.get("timestamp", 0) < -1:
        hint = f"timestamp is {message['timestamp']}, expected -1 or more"
        cursor.remark("legacy.timestamp-milliseconds", hint, at=start + LAYOUTS[1].offset("timestamp"))
    if "messages" in message and message["key"] is not None:
        after_key = start + LAYOUTS[message["magic"]].offset("key") + _VALUE_LENGTH.wire.smallest
        cursor.remark("recursive.wrapper-key-null", "the wrapper has a key, expected null", at=after_key)


# --- the tables ---------------------------------------------------------------------------------------

_COMPRESSION = n.NamedNumber(CODEC_NAMES)


def _counted(magic: int, attributes: Field, *timestamp: Field) -> tuple[Field, ...]:
    """Return the fields that message_size counts."""
    return (
        Field("crc", UINT32, "legacy.crc32-not-crc32c", _MessageCrc()),
        Field("magic", INT8, "format.magic-versions", Constant(magic, "format.magic-versions")),
        attributes,
        *timestamp,
        Field("key", _KEY, "legacy.key-nullable", check=_leaves_room),
        Field("value", _MessageValue(), "legacy.value-nullable"),
        Field("slack", _TrailingBytes(), "message-set.size-mismatch-rejected"),
    )


_COUNTED = {
    0: _counted(
        0,
        Field(
            "attributes",
            INT8,
            "legacy.v0-attributes",
            bits=(BitField("compression", 0, 3, _COMPRESSION, "legacy.v0-attributes"),),
            check=_high_bits(3),
        ),
    ),
    1: _counted(
        1,
        Field(
            "attributes",
            INT8,
            "legacy.v1-attributes",
            bits=(
                BitField("compression", 0, 3, _COMPRESSION, "legacy.v1-attributes"),
                BitField("timestampType", 3, 1, n.NamedNumber(TIMESTAMP_TYPES), "legacy.v1-attributes"),
            ),
            check=_high_bits(4),
        ),
        Field("timestamp", INT64, "legacy.timestamp-milliseconds"),
    ),
}

SMALLEST = {magic: smallest(fields) for magic, fields in _COUNTED.items()}
"""The least message_size: null key and null value (record-batch#magic-0, #magic-1)."""

_TOO_SMALL = {0: "", 1: "robustness.message-size-v1"}
"""The requirement that a smaller size breaks, if it is a separate one."""

LAYOUTS = {
    magic: Layout(
        f"MESSAGE_{magic}",
        (
            Field("offset", INT64, "message-set.entry-layout"),
            Field(
                "messageSize",
                INT32,
                "message-set.entry-layout",
                ByteLength("message-set.size-mismatch-rejected", SMALLEST[magic], _TOO_SMALL[magic]),
            ),
            *counted,
        ),
        rules=(_open_places, place_inner),
    )
    for magic, counted in _COUNTED.items()
}
"""The layouts of messages by magic."""
MESSAGES = {magic: wire_of(layout) for magic, layout in LAYOUTS.items()}

# --- reading -----------------------------------------------------------------------------------------


def is_cut_off(cursor: Cursor, *, magics: tuple[int, ...] = (0, 1)) -> bool:
    """Return True if the rest is an entry that is truncated. Fail if its size is too small for any entry."""
    start, rest = cursor.pos, cursor.left
    if rest < OVERHEAD:
        return True
    size = stored_size(cursor.data, start)
    if size < SMALLEST[0]:
        rule = "batch.length-wrong-rejected" if _BATCH in magics else "message-set.size-mismatch-rejected"
        cursor.fail(rule, f"size is {size}, expected at least {SMALLEST[0]}", at=start + _SIZE_AT)
    is_cut = size > rest - OVERHEAD
    if is_cut:
        _doubt_cut(cursor, size, magics)
    return is_cut


def _doubt_cut(cursor: Cursor, size: int, magics: tuple[int, ...]) -> None:
    """Remark on a truncated entry that some readers reject."""
    # Without its magic byte the entry may be a batch, which some readers take every entry for.
    unseen = _BATCH if _BATCH in magics else 0
    magic = cursor.data[cursor.pos + MAGIC_AT] if cursor.left > MAGIC_AT else unseen
    rule = "message-set.size-mismatch-rejected" if magic in SMALLEST else "batch.length-wrong-rejected"
    if size < SMALLEST.get(magic, record_batch.SMALLEST):
        cursor.remark(rule, f"size of the truncated entry is {size}, too small for its magic", at=cursor.pos + _SIZE_AT)
    if size > _FIT:
        cursor.remark(rule, f"size {size} plus {OVERHEAD} overflows 32 bits", at=cursor.pos + _SIZE_AT)
    if magic not in magics:
        cursor.remark("format.magic-versions", f"magic of the truncated entry is {magic}", at=cursor.pos + MAGIC_AT)


def is_wrapper(entry: bytes) -> bool:
    """Return True if an entry of a log is a compressed message of magic 0 or 1."""
    magic = stored_magic(entry)
    return magic in LAYOUTS and LAYOUTS[magic].read_field("compression", entry) > 0


def read_message(cursor: Cursor, *, is_inner: bool = False) -> Values:
    """Read a message with its offset and size, by its magic byte."""
    magic = cursor.data[cursor.pos + MAGIC_AT]
    if magic not in LAYOUTS:
        rule = "robustness.inner-message" if is_inner else "format.magic-versions"
        hint = f"magic is {magic}, expected 0 or 1 in a message set"
        cursor.fail(rule, hint, at=cursor.pos + MAGIC_AT, open=is_inner or magic == _BATCH)
    message: Values = decode(MESSAGES[magic], cursor)
    return message


def message_with_checksums(message: bytes, *, length: bool = True, crc: bool = True) -> bytes:
    """Return a message with correct size and checksum for its bytes; an incomplete one stays unchanged."""
    return LAYOUTS[0].with_checksums(message, [*["messageSize"] * length, *["crc"] * crc])
