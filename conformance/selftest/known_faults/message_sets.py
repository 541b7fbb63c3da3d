"""Defects met in the field in message sets and the messages of magic 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.compression_formats import with_header_checksum
from conformance.codec.derived_fields import Values
from conformance.selftest.codec_mutators import Function, wrong
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import REJECTION, change_records, fits
from conformance.selftest.seeded_fault import SeededFault

_XERIAL = b"\x82SNAPPY\0"
_PLACES = "codec.legacy_message._place_offsets"
_TIMES = "codec.legacy_message._place_timestamps"


def _placed(offset: Callable[[Values, list[int], int], int], *magics: int) -> Mutator:
    """Messages of wrappers of these magics at other offsets, told by the wrapper, the inner offsets and the place."""

    def make(right: Function) -> Function:
        def place(cursor: Value, wrapper: Values, inner: list[Values], start: int) -> None:
            if wrapper["magic"] not in magics:
                right(cursor, wrapper, inner, start)
                return
            stored = [message["offset"] for message in inner]
            for at, message in enumerate(inner):
                message["offset"] = offset(wrapper, stored, at)

        return place

    return wrong(_PLACES, make, "decode", "read", "convert")


def _value_of(data: bytes) -> bytes:
    """The value of the first message of a set, as it is stored."""
    at = 18 + 8 * data[16]
    key = int.from_bytes(data[at : at + 4], "big", signed=True)
    return data[at + 8 + max(key, 0) :]


def _refuses_value(codec: int, magics: tuple[int, ...], test: Callable[[bytes], bool]) -> Mutator:
    """Refuse wrappers of a codec and magic by what is stored in them."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = request["op"] == "read" or (request["op"] == "decode" and fits(request, "MESSAGE_SET LOG"))
        if not asked or not answer.get("ok"):
            return answer
        data = bytes.fromhex(request["hex"])
        if len(data) < 34 or data[16] not in magics or data[17] & 7 != codec:
            return answer
        return REJECTION if test(_value_of(data)) else answer

    return lie


def _dies_of_nesting(request: Request, answer: Answer) -> Answer:
    """Unpack wrappers inside wrappers until there is no stack left."""
    deep = "a compressed message inside a compressed message" in str(answer.get("message", ""))
    return {"crash": "RecursionError"} if request["op"] == "decode" and deep else answer


def _inner_times(right: Function) -> Function:
    """Leave the times of inner messages as they are."""

    def place(_: Value, wrapper: Values, inner: list[Values], __: int) -> None:
        for message in inner:
            message["timestampType"] = wrapper["timestampType"]

    del right
    return place


def _inner_types(right: Function) -> Function:
    """Leave the types of times of inner messages as they are."""

    def place(cursor: Value, wrapper: Values, inner: list[Values], start: int) -> None:
        stored = [message["timestampType"] for message in inner]
        right(cursor, wrapper, inner, start)
        for message, kind in zip(inner, stored, strict=True):
            message["timestampType"] = kind

    return place


def _time_of_wrapper(right: Function) -> Function:
    """The wrapper's time for every inner message, whatever its type."""

    def place(cursor: Value, wrapper: Values, inner: list[Values], start: int) -> None:
        right(cursor, wrapper, inner, start)
        for message in inner:
            message["timestamp"] = wrapper["timestamp"]

    return place


_one = partial(SeededFault, area="message sets")
_RUBY = "https://github.com/zendesk/ruby-kafka"
_PYTHON = "https://github.com/dpkp/kafka-python"
_PERL = "https://github.com/TrackingSoft/Kafka"
_SARAMA = "https://github.com/IBM/sarama"
_HEADER = {"key": "made-up", "value": None}
_OFFSETS = ("message-set.v1-relative-offsets",)

MESSAGE_SETS = (
    _one(
        "pair/headers-of-old-messages",
        description="a reader shows a header of each record that has none",
        source="legacy.v1-features",
        mutate=change_records(lambda records: [{**one, "headers": one["headers"] or [_HEADER]} for one in records]),
        try_first=("legacy.v1-features", "message-set.v1-relative-offsets"),
    ),
    _one(
        "known/relative-as-absolute",
        description="a reader takes relative inner offsets as absolute ones",
        source=f"{_RUBY}/pull/458",
        mutate=_placed(lambda _, stored, at: stored[at], 1),
        try_first=_OFFSETS,
    ),
    _one(
        "known/offsets-by-place",
        description="a reader counts offsets back from the wrapper's by place, which is wrong after compaction",
        source=f"{_RUBY}/pull/495",
        mutate=_placed(lambda wrapper, stored, at: wrapper["offset"] - len(stored) + 1 + at, 1),
        try_first=_OFFSETS,
    ),
    _one(
        "known/first-offset-is-zero",
        description="a reader expects the first relative offset to be 0",
        source=f"{_SARAMA}/pull/721",
        mutate=_placed(lambda wrapper, stored, at: wrapper["offset"] - stored[-1] + stored[at] - stored[0], 1),
        try_first=_OFFSETS,
    ),
    _one(
        "known/wrapper-offset-added-to-absolute",
        description="a reader adds the wrapper's offset to inner offsets that are already absolute",
        source=f"{_RUBY}/issues/505",
        mutate=_placed(
            lambda wrapper, stored, at: stored[at] + wrapper["offset"] - (0 if stored[0] else stored[-1]), 1
        ),
        try_first=_OFFSETS,
    ),
    _one(
        "known/wrapper-offset-is-the-first",
        description="a reader takes the wrapper's offset as that of the first message",
        source=f"{_PERL}/pull/33",
        mutate=_placed(lambda wrapper, stored, at: wrapper["offset"] + stored[at] - stored[0], 1),
        try_first=_OFFSETS,
    ),
    _one(
        "known/v0-wrapper-offset-is-the-first",
        description="a reader counts the messages of a wrapper of magic 0 from the wrapper's offset on",
        source=f"{_PERL}/pull/33",
        mutate=_placed(lambda wrapper, _, at: wrapper["offset"] + at, 0),
        try_first=("recursive.v0-inner-absolute",),
    ),
    _one(
        "known/v0-offsets-by-place",
        description="a reader takes the offset of a message of magic 0 from its place in the wrapper",
        source="https://github.com/Parsely/pykafka/pull/460",
        mutate=_placed(lambda _, stored, at: stored[0] + at, 0),
        try_first=("recursive.v0-inner-absolute",),
    ),
    _one(
        "known/v0-taken-as-relative",
        description="a reader takes the offsets in a wrapper of magic 0 as relative",
        source="https://github.com/confluentinc/librdkafka/issues/1192",
        mutate=_placed(lambda wrapper, stored, at: wrapper["offset"] + stored[at], 0),
        try_first=("recursive.v0-inner-absolute",),
    ),
    _one(
        "known/append-time-of-inner",
        description="a reader gives the inner timestamps instead of the wrapper's LogAppendTime",
        source=f"{_SARAMA}/issues/885",
        mutate=wrong(_TIMES, _inner_times, "decode", "read"),
        try_first=("legacy.log-append-overwrites",),
    ),
    _one(
        "pair/append-time-keeps-the-inner-type",
        description="a reader gives inner messages the wrapper's time and leaves their type at CreateTime",
        source="legacy.log-append-overwrites",
        mutate=wrong(_TIMES, _inner_types, "decode", "read"),
    ),
    _one(
        "pair/wrapper-time-for-all",
        description="a reader gives every inner message the wrapper's time, also under CreateTime",
        source="legacy.timestamp-milliseconds",
        mutate=wrong(_TIMES, _time_of_wrapper, "decode", "read"),
    ),
    _one(
        "known/xerial-unknown",
        description="a reader takes the xerial header as a raw block",
        source=f"{_PERL}/issues/18",
        mutate=_refuses_value(2, (0, 1), lambda stored: stored.startswith(_XERIAL)),
    ),
    _one(
        "known/xerial-only",
        description="a reader insists on the xerial header, which only the Java client wrote",
        source=f"{_PYTHON}/pull/127",
        mutate=_refuses_value(2, (0, 1), lambda stored: not stored.startswith(_XERIAL)),
    ),
    _one(
        "known/xerial-versions-checked",
        description="a reader of message sets checks the version and compatible fields of the xerial header",
        source=f"{_PYTHON}/issues/2414",
        mutate=_refuses_value(
            2, (0, 1), lambda stored: stored.startswith(_XERIAL) and stored[8:16] != b"\0\0\0\1\0\0\0\1"
        ),
        survives_because="Message sets have no other version, so reading one is a may.",
    ),
    _one(
        "known/lz4-header-checksum-in-magic-0",
        description="a reader refuses the checksum over the magic byte, too, that Apache Kafka writes in magic 0",
        source=f"{_SARAMA}/issues/1205",
        mutate=_refuses_value(3, (0,), lambda stored: with_header_checksum(stored) != stored),
    ),
    _one(
        "known/nested-without-end",
        description="a reader unpacks wrappers inside wrappers until it has no stack left",
        source=f"{_PYTHON}/pull/755",
        mutate=_dies_of_nesting,
        try_first=("robustness.inner-message", "recursive.wrapper-holds-set"),
    ),
    _one(
        "pair/xerial-in-magic-1",
        description="a reader knows the xerial header in magic 0 alone",
        source="reader.snappy-xerial",
        mutate=_refuses_value(2, (1,), lambda stored: stored.startswith(_XERIAL)),
    ),
    _one(
        "pair/raw-snappy-in-magic-1",
        description="a reader knows raw snappy in magic 0 alone",
        source="reader.snappy-raw",
        mutate=_refuses_value(2, (1,), lambda stored: not stored.startswith(_XERIAL)),
    ),
    _one(
        "pair/gzip-members-in-a-wrapper",
        description="a reader refuses a wrapper of several gzip members",
        source="reader.gzip-members",
        mutate=_refuses_value(1, (0, 1), lambda stored: stored.count(b"\x1f\x8b\x08") > 1),
    ),
)
"""Defects of readers of message sets."""
