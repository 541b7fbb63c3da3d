"""Messages of magic 0 and 1 and the sets they stand in (message-format#old-message-format), as tables.

0      8            12  16    17         18                        magic 1: 18         26
offset message_size crc magic attributes key value                 ...      timestamp  key value

A message with a codec in its attributes is a wrapper: its value is a compressed message set, whose messages are the
real ones (the documents call them inner messages).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from conformance.codec import notation as n
from conformance.codec import record_batch
from conformance.codec.checksums import CRC32
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.cursor import Cursor, Openness, Unencodable
from conformance.codec.lengths import OCTETS, Prefix, sized
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
from conformance.codec.structure import (
    Bits,
    ByteLength,
    ChecksumOf,
    Constant,
    Field,
    Layout,
    Values,
    read,
    smallest,
    write,
)
from conformance.codec.wire import Wire

_BATCH = 2
"""The magic of record batches."""

_FIT = (1 << 31) - 1 - OVERHEAD
"""A size above this overflows a signed 32-bit number once the 12 bytes before it are added."""

_SIZE_AT = BATCH_LAYOUT.offset("batchLength")

_SIZE = "message-set.size-mismatch-rejected"
_SET = "recursive.wrapper-holds-set"
_RELATIVE = "message-set.v1-relative-offsets"
_KEY_LENGTH = "robustness.message-key-length"
_INNER = "robustness.inner-message"

# --- fields -------------------------------------------------------------------------------------------

_VALUE_LENGTH = Prefix(INT32, nullable=True, negative_rule="legacy.value-nullable", negative_open=True)
_KEY = sized(
    "key",
    Prefix(INT32, nullable=True, negative_rule="legacy.key-nullable", negative_open=True),
    OCTETS,
    _KEY_LENGTH,
)
_VALUE = sized("value", _VALUE_LENGTH, OCTETS, _SIZE)


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of a message; that of a wrapper is opened, and its messages are kept under `messages`."""

    notation: Any = n.HEX
    smallest: int = _VALUE.smallest

    def read(self, cursor: Cursor, values: Values) -> bytes | None:
        """The bytes of a plain message, None for a wrapper."""
        start, codec = cursor.pos, values["compression"]
        found: bytes | None = _VALUE.decode(cursor)
        if not codec:
            return found
        at = start + _VALUE_LENGTH.wire.smallest
        if codec >= len(CODECS):
            cursor.fail("codec.unassigned-values", f"codec {codec} is none", at=start)
        if not CODECS[codec].is_read_in(values["magic"]):
            hint = f"{CODECS[codec].name} is not a codec of magic {values['magic']}"
            cursor.fail("legacy.v1-attributes", hint, at=start)
        if cursor.layer:
            cursor.fail(_SET, "a compressed message inside a compressed message", at=start, open=True)
        if found is None:
            cursor.fail(_SET, "a wrapper without a value", at=start, open=True)
        mend = CODECS[codec].mend_magic_0
        if values["magic"] == 0 and mend is not None:
            found = mend(found)
        outer, cursor.pos = cursor.pos, at
        plain = CODECS[codec].open(cursor, found)
        cursor.pos = outer
        layers = cursor.findings.layers
        layers.append(plain)
        values["messages"] = _inner(Cursor(plain, cursor.findings, layer=len(layers), path=cursor.path))
        return None

    def write(self, values: Values) -> bytes:
        """The value, or the compressed set of a wrapper's messages."""
        if not values["compression"]:
            return _VALUE.encode(values["value"])
        plain = b"".join(write(LAYOUTS[inner["magic"]], inner) for inner in values["messages"])
        return _VALUE.encode(CODECS[values["compression"]].write(plain))


def _inner(cursor: Cursor) -> list[Values]:
    """The messages of a wrapper's set."""
    found: list[Values] = []
    base = cursor.path
    while cursor.left:
        if is_cut_off(cursor):
            # Where a size is there to be read, Apache Kafka sets so much memory aside before it looks for the bytes.
            rule = "message-set.no-count" if cursor.left < OVERHEAD else _INNER
            cursor.remark(rule, "the last inner message is cut off", openness=Openness.ANY_VALUE)
            break
        cursor.count(1)
        if cursor.tracing:
            cursor.path = f"{base}[{len(found)}]"
        start = cursor.pos
        found.append(_message(cursor, is_inner=True))
        cursor.span("", start)
    cursor.path = base
    if not found:
        cursor.fail(_SET, "no message inside a wrapper", open=True)
    return found


@dataclass(frozen=True, slots=True)
class _Slack:
    """Bytes between the value and the end that message_size gives: the checksum covers them, Kafka passes them over."""

    notation: Any = n.HEX
    smallest: int = 0

    def read(self, cursor: Cursor, values: Values) -> bytes:
        """Whatever is left."""
        del values
        if cursor.left:
            cursor.remark(_SIZE, f"{cursor.left} bytes after the value")
        found = cursor.data[cursor.pos : cursor.end]
        cursor.pos = cursor.end
        return found

    def write(self, values: Values) -> bytes:
        """Nothing."""
        del values
        return b""


@dataclass(frozen=True, slots=True)
class _Crc:
    """The crc of a message. A wrapper's is a requirement of its own: Apache Kafka's consumer does not look at it."""

    def check(self, cursor: Cursor, start: int, found: int) -> None:
        """Notes a mismatch and lets reading go on."""
        begin = start - LAYOUTS[0].offset("crc")
        compression = LAYOUTS[0].peek("compression", cursor.data, begin)
        rule = "legacy.wrapper-crc-checked" if compression else "legacy.crc-checked"
        ChecksumOf(CRC32, rule).check(cursor, start, found)

    def compute(self, values: Values, tail: bytes) -> int:
        """The checksum of what follows."""
        del values
        return CRC32.compute(tail)


# --- rules over a whole message -----------------------------------------------------------------------


def _high_bits(known: int) -> Callable[[Cursor, Any, int], None]:
    def check(cursor: Cursor, found: int, start: int) -> None:
        if found & 0xFF >> known << known:
            hint = f"attributes {found & 0xFF:02x} has bits set that mean nothing"
            cursor.remark("legacy.attributes-high-bits-zero", hint, at=start)

    return check


def _leaves_room(cursor: Cursor, key: bytes | None, start: int) -> None:
    del key
    if cursor.left < _VALUE_LENGTH.wire.smallest:
        cursor.fail(_KEY_LENGTH, f"a key that leaves {cursor.left} bytes for the value's length", at=start)


def _open_places(cursor: Cursor, message: Values, start: int) -> None:
    if message["offset"] < 0:
        cursor.remark("message-set.entry-layout", f"offset {message['offset']}", at=start)
    if message.get("timestamp", 0) < -1:
        at = start + LAYOUTS[1].offset("timestamp")
        cursor.remark("legacy.timestamp-milliseconds", f"timestamp {message['timestamp']}", at=at)


def _place_inner(cursor: Cursor, wrapper: Values, start: int) -> None:
    """Give inner messages the offset, timestamp and timestamp type that a reader sees."""
    inner = wrapper.get("messages")
    if inner is None:
        return
    if wrapper["key"] is not None:
        after_key = start + OVERHEAD + SMALLEST[wrapper["magic"]] - _VALUE.smallest
        cursor.remark("recursive.wrapper-key-null", "a wrapper with a key", at=after_key)
    if any(message["magic"] != wrapper["magic"] for message in inner):
        cursor.remark(_SET, "inner messages of another magic than the wrapper's", at=start, openness=Openness.ANY_VALUE)
    if any(later["offset"] <= earlier["offset"] for earlier, later in pairwise(inner)):
        cursor.remark(_RELATIVE, "inner offsets do not rise", at=start)
    _place_offsets(cursor, wrapper, inner, start)
    if "timestampType" in wrapper:
        _place_timestamps(cursor, wrapper, inner, start)


def _place_offsets(cursor: Cursor, wrapper: Values, inner: list[Values], start: int) -> None:
    outer, last = wrapper["offset"], inner[-1]["offset"]
    if wrapper["magic"] == 0:
        if outer != last:
            cursor.remark("recursive.wrapper-offset-is-last", f"offset {outer}, the last inner one is {last}", at=start)
        return
    if outer == 0:
        if last:
            # Sets of old producers: Apache Kafka leaves their inner offsets as they are.
            cursor.remark(
                _RELATIVE, "a wrapper at offset 0 with further messages", at=start, openness=Openness.ANY_VALUE
            )
        return
    if wrapped(outer - last) < 0:
        cursor.fail(_RELATIVE, f"wrapper offset {outer} does not fit the last inner offset {last}", at=start, open=True)
    for message in inner:
        offset = message["offset"] + outer - last
        message["offset"] = wrapped(offset)
        if message["offset"] != offset:
            cursor.remark(_RELATIVE, "an absolute offset is no INT64", at=start, openness=Openness.ANY_VALUE)


def _place_timestamps(cursor: Cursor, wrapper: Values, inner: list[Values], start: int) -> None:
    """message-format#old-message-format: the broker writes time and type of log append on the wrapper alone."""
    for message in inner:
        if "timestamp" not in message:
            continue
        if wrapper["timestampType"]:
            message["timestamp"] = wrapper["timestamp"]
        elif message["timestampType"]:
            hint = "LogAppendTime inside a wrapper of CreateTime"
            cursor.remark("legacy.log-append-overwrites", hint, at=start, openness=Openness.ANY_VALUE)
        message["timestampType"] = wrapper["timestampType"]


# --- the tables ---------------------------------------------------------------------------------------

_COMPRESSION = n.Names(CODEC_NAMES)


def _counted(magic: int, attributes: Field, *timestamp: Field) -> tuple[Field, ...]:
    """The fields that message_size counts."""
    return (
        Field("crc", UINT32, "legacy.crc32-not-crc32c", _Crc()),
        Field("magic", INT8, "format.magic-versions", Constant(magic, "format.magic-versions")),
        attributes,
        *timestamp,
        Field("key", _KEY, "legacy.key-nullable", check=_leaves_room),
        Field("value", _Value(), "legacy.value-nullable"),
        Field("slack", _Slack(), _SIZE),
    )


_COUNTED = {
    0: _counted(
        0,
        Field(
            "attributes",
            INT8,
            "legacy.v0-attributes",
            bits=(Bits("compression", 0, 3, _COMPRESSION, "legacy.v0-attributes"),),
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
                Bits("compression", 0, 3, _COMPRESSION, "legacy.v1-attributes"),
                Bits("timestampType", 3, 1, n.Names(TIMESTAMP_TYPES), "legacy.v1-attributes"),
            ),
            check=_high_bits(4),
        ),
        Field("timestamp", INT64, "legacy.timestamp-milliseconds"),
    ),
}

SMALLEST = {magic: smallest(fields) for magic, fields in _COUNTED.items()}
"""Bytes that message_size counts at least: null key and null value (record-batch#magic-0, #magic-1)."""

_TOO_SMALL = {0: "", 1: "robustness.message-size-v1"}
"""What a smaller size breaks, where that is a requirement of its own."""

LAYOUTS = {
    magic: Layout(
        f"MESSAGE_{magic}",
        (
            Field("offset", INT64, "message-set.entry-layout"),
            Field(
                "messageSize",
                INT32,
                "message-set.entry-layout",
                ByteLength(_SIZE, SMALLEST[magic], _TOO_SMALL[magic]),
            ),
            *counted,
        ),
        rules=(_open_places, _place_inner),
    )
    for magic, counted in _COUNTED.items()
}
"""The layout of a message by its magic."""

MESSAGE = n.Fields(
    {
        "offset": n.DECIMAL,
        "magic": n.NUMBER,
        "timestampType": n.Names(TIMESTAMP_TYPES, further=("NoTimestampType",)),
        "timestamp": n.DECIMAL,
        "key": n.HEX,
        "value": n.HEX,
    }
)
"""A message as a consumer sees it; magic 0 has no timestamp and no type, which Apache Kafka has a name for."""

ENTRY = n.Fields(
    {
        "magic": n.NUMBER,
        "offset": n.DECIMAL,
        "compression": _COMPRESSION,
        "messages": n.ListOf(MESSAGE, nullable=False),
    }
)
"""A top-level message in a log."""

MESSAGE_RULES = {
    "offset": _RELATIVE,
    "magic": "format.magic-versions",
    "timestampType": "legacy.log-append-overwrites",
    "timestamp": "legacy.timestamp-milliseconds",
    "key": "legacy.key-nullable",
    "value": "legacy.value-nullable",
}
"""The requirement that says what a part of a message is."""

# --- entries ------------------------------------------------------------------------------------------


def is_cut_off(cursor: Cursor, *, magics: tuple[int, ...] = (0, 1)) -> bool:
    """Whether what is left is an entry cut off at the end; a size too small is refused wherever it stands."""
    start, rest = cursor.pos, cursor.left
    if rest < OVERHEAD:
        return True
    size = stored_size(cursor.data, start)
    if size < SMALLEST[0]:
        rule = "batch.length-wrong-rejected" if _BATCH in magics else _SIZE
        cursor.fail(rule, f"size {size} is below that of any entry", at=start + _SIZE_AT)
    is_cut = size > rest - OVERHEAD
    if is_cut:
        _doubt_cut(cursor, size, magics)
    return is_cut


def _doubt_cut(cursor: Cursor, size: int, magics: tuple[int, ...]) -> None:
    """What others may refuse at the entry that is cut off at the cursor."""
    # While the magic is not to be seen, the entry may be a batch to those who know nothing else.
    unseen = _BATCH if _BATCH in magics else 0
    magic = cursor.data[cursor.pos + MAGIC_AT] if cursor.left > MAGIC_AT else unseen
    rule = _SIZE if magic in SMALLEST else "batch.length-wrong-rejected"
    if size < SMALLEST.get(magic, record_batch.SMALLEST):
        cursor.remark(rule, f"size {size} of the cut entry is too small for its magic", at=cursor.pos + _SIZE_AT)
    if size > _FIT:
        cursor.remark(rule, f"size {size} overflows a 32-bit number", at=cursor.pos + _SIZE_AT)
    if magic not in magics:
        cursor.remark("format.magic-versions", "the cut entry has no known magic", at=cursor.pos + MAGIC_AT)


def is_wrapper(entry: bytes) -> bool:
    """Whether an entry of a log is, by its magic and attributes, a message of magic 0 or 1 with a codec."""
    magic = stored_magic(entry)
    return magic in LAYOUTS and LAYOUTS[magic].peek("compression", entry) > 0


def _message(cursor: Cursor, *, is_inner: bool = False) -> Values:
    """A message and what stands before it, by the magic that it names."""
    magic = cursor.data[cursor.pos + MAGIC_AT]
    if magic not in LAYOUTS:
        rule = _INNER if is_inner else "format.magic-versions"
        hint = f"magic {magic} in a message set"
        cursor.fail(rule, hint, at=cursor.pos + MAGIC_AT, open=is_inner or magic == _BATCH)
    return read(LAYOUTS[magic], cursor)


def read_entry(cursor: Cursor) -> Values:
    """A top-level message: what ENTRY shows of it."""
    message = _message(cursor)
    inner = message.get("messages", (message,))
    return {
        "magic": message["magic"],
        "offset": message["offset"],
        "compression": message["compression"],
        "messages": tuple({name: one[name] for name in MESSAGE.fields if name in one} for one in inner),
    }


def entry_of(messages: tuple[Values, ...], magic: int, codec: int) -> Values:
    """All fields of the wrapper that a writer puts around messages: as magic 1, their offsets count from 0.

    Its offset is the last message's, its timestamp the largest. Raises Unencodable where there is no such wrapper.
    """
    if codec not in range(len(CODECS)):
        raise Unencodable("codec.unassigned-values", f"there is no codec {codec!r}")
    if not CODECS[codec].is_read_in(magic):
        raise Unencodable("legacy.v1-attributes", f"{CODECS[codec].name} is not a codec of magic {magic}")
    if not messages:
        raise Unencodable(_SET, "a wrapper holds at least one message")
    inner = [_fields(message, magic) for message in messages]
    offset, base = inner[-1]["offset"], inner[0]["offset"] if magic else 0
    inner = [{**message, "offset": message["offset"] - base} for message in inner]
    outer = {"offset": offset, "magic": magic, "compression": codec, "key": None, "value": None, "messages": inner}
    if magic:
        kinds, stamps = ({message[name] for message in inner} for name in ("timestampType", "timestamp"))
        if kinds != {0} and not len(kinds) == len(stamps) == 1:
            raise Unencodable("legacy.log-append-overwrites", "a wrapper has one type, and one time of appending")
        outer |= {"timestampType": kinds.pop(), "timestamp": max(stamps)}
    return outer


def _fields(message: Values, magic: int) -> Values:
    """All fields of a plain message."""
    names = ("offset", "key", "value", "timestamp")[: 3 + magic]
    missing = [name for name in names if name not in message]
    if missing:
        raise Unencodable("general.exact-encoding", f"{missing[0]} is missing")
    own = {name: message[name] for name in names}
    kind = {"timestampType": message.get("timestampType", 0)} if magic else {}
    return {**own, **kind, "magic": magic, "compression": 0}


def encode_set(messages: Any, magic: int, codec: int) -> bytes:
    """Messages as a set: each on its own, or, with a codec, all in one wrapper. Raises Unencodable."""
    if magic not in LAYOUTS:
        raise Unencodable("format.magic-versions", f"there is no message of magic {magic!r}")
    if codec:
        return write(LAYOUTS[magic], entry_of(tuple(messages), magic, codec))
    return b"".join(write(LAYOUTS[magic], _fields(message, magic)) for message in messages)


def sealed_message(message: bytes, *, length: bool = True, crc: bool = True) -> bytes:
    """One message with its size and checksum made right for the bytes it has; too short a one is left as it is."""
    return LAYOUTS[0].sealed(message, [*["messageSize"] * length, *["crc"] * crc])


def encode_entry(entry: Values) -> bytes:
    """A top-level message with its inner ones, as ENTRY shows it."""
    return encode_set(entry["messages"], entry["magic"], entry["compression"])


# --- message set --------------------------------------------------------------------------------------


def _decode(cursor: Cursor) -> tuple[Values, ...]:
    found: list[tuple[Values, ...]] = []
    base = cursor.path
    while cursor.left and not is_cut_off(cursor):
        if cursor.tracing:
            cursor.path = f"{base}[{len(found)}]"
        start = cursor.pos
        found.append(read_entry(cursor)["messages"])
        cursor.span("", start)
    cursor.path = base
    return tuple(chain.from_iterable(found))


def _encode(messages: Any) -> bytes:
    return b"".join(encode_set((message,), message["magic"], 0) for message in messages)


MESSAGE_SET = Wire("MESSAGE_SET", _decode, _encode, n.ListOf(MESSAGE, nullable=False), 0)
