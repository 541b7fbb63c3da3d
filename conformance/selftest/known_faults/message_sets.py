"""Faults of real software in message sets and messages with magic 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.compression_formats import with_header_checksum
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import REJECTION, Function, Mutator, combine, on, replace_function
from conformance.selftest.mutators.logs import change_records
from conformance.selftest.seeded_fault import SeededFault

_XERIAL = b"\x82SNAPPY\0"


def _inner_offsets(offset: Callable[[Values, list[int], int], int], *magics: int) -> Mutator:
    """Place inner messages at other offsets, given the wrapper, the stored offsets and the index."""

    def place(original: Function, cursor: Value, wrapper: Values, inner: list[Values], start: int) -> None:
        if wrapper["magic"] not in magics:
            original(cursor, wrapper, inner, start)
            return
        stored = [message["offset"] for message in inner]
        for at, message in enumerate(inner):
            message["offset"] = offset(wrapper, stored, at)

    return replace_function("codec.legacy_message._place_offsets", place, "decode read convert")


def _inner_timestamps(change: Callable[[Values, Values], Values]) -> Mutator:
    """Change fields of inner messages, given the wrapper and the message as stored."""

    def place(original: Function, cursor: Value, wrapper: Values, inner: list[Values], start: int) -> None:
        stored = [dict(message) for message in inner]
        original(cursor, wrapper, inner, start)
        for before, message in zip(stored, inner, strict=True):
            message.update(change(wrapper, before))

    return replace_function("codec.legacy_message._place_timestamps", place, "decode read")


def _value_of(data: bytes) -> bytes:
    """Return the stored value of the first message of a set."""
    at = 18 + 8 * data[16]
    key = int.from_bytes(data[at : at + 4], "big", signed=True)
    return data[at + 8 + max(key, 0) :]


def _reject_wrapper(codec: int, magics: tuple[int, ...], test: Callable[[bytes], bool]) -> Mutator:
    """Reject wrappers with a codec, a magic and a stored value that passes a test."""

    def mutate(request: Request, answer: Answer) -> Answer:
        data = bytes.fromhex(request["hex"])
        if len(data) < 34 or data[16] not in magics or data[17] & 7 != codec:
            return answer
        return REJECTION if test(_value_of(data)) else answer

    return combine(on("read")(mutate), on("decode", "MESSAGE_SET LOG")(mutate))


def _is_nested(_: Request, answer: Answer) -> bool:
    return "a compressed message inside a compressed message" in str(answer.get("message", ""))


_fault = partial(SeededFault, area="message sets")
_RUBY = "https://github.com/zendesk/ruby-kafka"
_PYTHON = "https://github.com/dpkp/kafka-python"
_PERL = "https://github.com/TrackingSoft/Kafka"
_SARAMA = "https://github.com/IBM/sarama"
_HEADER = {"key": "made-up", "value": None}
_OFFSETS = ("message-set.v1-relative-offsets",)

MESSAGE_SETS = (
    _fault(
        "pair/headers-of-old-messages",
        description="a reader shows a header for each record without headers",
        source="legacy.v1-features",
        mutate=change_records(lambda records: [{**one, "headers": one["headers"] or [_HEADER]} for one in records]),
        try_first=("legacy.v1-features", "message-set.v1-relative-offsets"),
    ),
    _fault(
        "known/relative-as-absolute",
        description="a reader takes relative inner offsets as absolute ones",
        source=f"{_RUBY}/pull/458",
        mutate=_inner_offsets(lambda _, stored, at: stored[at], 1),
        try_first=_OFFSETS,
    ),
    _fault(
        "known/offsets-by-place",
        description="a reader counts offsets back from the wrapper by index, which is wrong after compaction",
        source=f"{_RUBY}/pull/495",
        mutate=_inner_offsets(lambda wrapper, stored, at: wrapper["offset"] - len(stored) + 1 + at, 1),
        try_first=_OFFSETS,
    ),
    _fault(
        "known/first-offset-is-zero",
        description="a reader expects the first relative offset to be 0",
        source=f"{_SARAMA}/pull/721",
        mutate=_inner_offsets(lambda wrapper, stored, at: wrapper["offset"] - stored[-1] + stored[at] - stored[0], 1),
        try_first=_OFFSETS,
    ),
    _fault(
        "known/wrapper-offset-added-to-absolute",
        description="a reader adds the wrapper's offset to inner offsets that are already absolute",
        source=f"{_RUBY}/issues/505",
        mutate=_inner_offsets(
            lambda wrapper, stored, at: stored[at] + wrapper["offset"] - (0 if stored[0] else stored[-1]), 1
        ),
        try_first=_OFFSETS,
    ),
    _fault(
        "known/wrapper-offset-is-the-first",
        description="a reader uses the wrapper's offset for the first message",
        source=f"{_PERL}/pull/33",
        mutate=_inner_offsets(lambda wrapper, stored, at: wrapper["offset"] + stored[at] - stored[0], 1),
        try_first=_OFFSETS,
    ),
    _fault(
        "known/v0-wrapper-offset-is-the-first",
        description="a reader counts the messages of a wrapper with magic 0 from the wrapper's offset",
        source=f"{_PERL}/pull/33",
        mutate=_inner_offsets(lambda wrapper, _, at: wrapper["offset"] + at, 0),
        try_first=("recursive.v0-inner-absolute",),
    ),
    _fault(
        "known/v0-offsets-by-place",
        description="a reader derives the offset of a message with magic 0 from its index in the wrapper",
        source="https://github.com/Parsely/pykafka/pull/460",
        mutate=_inner_offsets(lambda _, stored, at: stored[0] + at, 0),
        try_first=("recursive.v0-inner-absolute",),
    ),
    _fault(
        "known/v0-taken-as-relative",
        description="a reader takes the offsets in a wrapper with magic 0 as relative",
        source="https://github.com/confluentinc/librdkafka/issues/1192",
        mutate=_inner_offsets(lambda wrapper, stored, at: wrapper["offset"] + stored[at], 0),
        try_first=("recursive.v0-inner-absolute",),
    ),
    _fault(
        "known/append-time-of-inner",
        description="a reader shows the inner timestamps instead of the wrapper's LogAppendTime",
        source=f"{_SARAMA}/issues/885",
        mutate=_inner_timestamps(lambda wrapper, stored: {**stored, "timestampType": wrapper["timestampType"]}),
        try_first=("legacy.log-append-overwrites",),
    ),
    _fault(
        "pair/append-time-keeps-the-inner-type",
        description="a reader shows the wrapper's timestamp for inner messages, but keeps their type CreateTime",
        source="legacy.log-append-overwrites",
        mutate=_inner_timestamps(lambda _, stored: {"timestampType": stored["timestampType"]}),
    ),
    _fault(
        "pair/wrapper-time-for-all",
        description="a reader shows the wrapper's timestamp for every inner message, also under CreateTime",
        source="legacy.timestamp-milliseconds",
        mutate=_inner_timestamps(lambda wrapper, _: {"timestamp": wrapper["timestamp"]}),
    ),
    _fault(
        "known/xerial-unknown",
        description="a reader reads the xerial header as a raw block",
        source=f"{_PERL}/issues/18",
        mutate=_reject_wrapper(2, (0, 1), lambda stored: stored.startswith(_XERIAL)),
    ),
    _fault(
        "known/xerial-only",
        description="a reader requires the xerial header, which only the Java client wrote",
        source=f"{_PYTHON}/pull/127",
        mutate=_reject_wrapper(2, (0, 1), lambda stored: not stored.startswith(_XERIAL)),
    ),
    _fault(
        "known/xerial-versions-checked",
        description="a reader of message sets checks the version and compatible fields of the xerial header",
        source=f"{_PYTHON}/issues/2414",
        mutate=_reject_wrapper(
            2, (0, 1), lambda stored: stored.startswith(_XERIAL) and stored[8:16] != b"\0\0\0\1\0\0\0\1"
        ),
        survives_because="Message sets have no other version, so reading one is a may.",
    ),
    _fault(
        "known/lz4-header-checksum-in-magic-0",
        description="a reader rejects the LZ4 header checksum that Apache Kafka writes in magic 0",
        source=f"{_SARAMA}/issues/1205",
        mutate=_reject_wrapper(3, (0,), lambda stored: with_header_checksum(stored) != stored),
    ),
    _fault(
        "known/nested-without-end",
        description="a reader unpacks nested wrappers until the stack overflows",
        source=f"{_PYTHON}/pull/755",
        mutate=on("decode", when=_is_nested, accepted=None)(lambda *_: {"crash": "RecursionError"}),
        try_first=("robustness.inner-message", "recursive.wrapper-holds-set"),
    ),
    _fault(
        "pair/xerial-in-magic-1",
        description="a reader knows the xerial header only in magic 0",
        source="reader.snappy-xerial",
        mutate=_reject_wrapper(2, (1,), lambda stored: stored.startswith(_XERIAL)),
    ),
    _fault(
        "pair/raw-snappy-in-magic-1",
        description="a reader knows raw snappy only in magic 0",
        source="reader.snappy-raw",
        mutate=_reject_wrapper(2, (1,), lambda stored: not stored.startswith(_XERIAL)),
    ),
    _fault(
        "pair/gzip-members-in-a-wrapper",
        description="a reader rejects a wrapper of several gzip members",
        source="reader.gzip-members",
        mutate=_reject_wrapper(1, (0, 1), lambda stored: stored.count(b"\x1f\x8b\x08") > 1),
    ),
)
"""Defects of readers of message sets."""
