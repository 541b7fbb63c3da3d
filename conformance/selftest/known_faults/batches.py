"""Defects met in the field in record batches and their codecs."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int32
from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.cursor import Cursor
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.selftest.codec_mutators import Function, entries_of, wrong
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import REJECTION, batch, both, change_value, encode_other_value, fits
from conformance.selftest.seeded_fault import SeededFault

_HEADER_VALUE = "header.value-absent-when-negative"
_REST_OF_HEADER = 49
"""Bytes that batchLength counts before the records."""


# --- records ------------------------------------------------------------------------------------------


def _prefix(change: Callable[[int | None], int | None], rule: str) -> Mutator:
    """Read the length before a part of a record otherwise."""

    def make(right: Function) -> Function:
        def read(self: Value, cursor: Cursor) -> int | None:
            length: int | None = right(self, cursor)
            return change(length) if self.negative_rule == rule else length

        return read

    return wrong("codec.length_prefixed.LengthPrefix.read", make, "decode", "read")


def _low_half(text: str) -> str:
    return str(c_int32(int(text)).value)


def _short_delta(shown: Values) -> Values:
    """Timestamps from deltas of 32 bits."""
    base = int(shown.get("baseTimestamp", 0))
    late = shown.get("timestampType") == "LogAppendTime"
    return {
        "records": [
            {**one, "timestampDelta": _low_half(one["timestampDelta"])}
            | ({} if late else {"timestamp": str(base + c_int32(int(one["timestampDelta"])).value)})
            for one in shown.get("records", ())
        ]
    }


def _at_read(change: Callable[[Values, Values], Values]) -> Mutator:
    """Show other records of each batch in a fetch, told by the batch and the record."""

    def make(right: Function) -> Function:
        def of_batch(whole: Values) -> list[Values]:
            return [{**seen, **change(whole, one)} for seen, one in zip(right(whole), whole["records"], strict=True)]

        return of_batch

    return wrong("semantics.consumer_view._of_batch", make, "read")


def _written(change: Callable[[bytes, Values], bytes]) -> Mutator:
    """Write a batch otherwise, told by its bytes and its value; its length and crc are made right again."""

    def lie(request: Request, answer: Answer) -> Answer:
        if request["op"] != "encode" or not fits(request, "RECORD_BATCH") or not answer.get("ok"):
            return answer
        data = change(bytes.fromhex(answer["hex"]), request["value"])
        return {**answer, "hex": with_checksums(data).hex()}

    return lie


def _time_of_the_last(data: bytes, value: Values) -> bytes:
    return BATCH_LAYOUT.with_field("maxTimestamp", data, int(value["records"][-1]["timestamp"]))


def _number_of_records(data: bytes, value: Values) -> bytes:
    return BATCH_LAYOUT.with_field("lastOffsetDelta", data, len(value["records"]))


def _each_counted_from_one(value: Values) -> Values:
    return {**value, "records": [{**one, "offset": str(int(one["offset"]) + 1)} for one in value["records"]]}


def _crc_of_all(data: bytes) -> bytes:
    """The checksum over the bytes from the magic on."""
    from conformance.codec.checksums import CRC32C

    return BATCH_LAYOUT.with_field("crc", data, CRC32C.compute(data[16:17] + data[21:]))


def _plain_crc32(data: bytes) -> bytes:
    """The checksum of the older formats."""
    from conformance.codec.checksums import CRC32

    return BATCH_LAYOUT.with_field("crc", data, CRC32.compute(data[21:]))


def _sealed_otherwise(seal: Callable[[bytes], bytes]) -> Mutator:
    def lie(request: Request, answer: Answer) -> Answer:
        asked = request["op"] == "encode" and fits(request, "RECORD_BATCH") and answer.get("ok")
        return {**answer, "hex": seal(bytes.fromhex(answer["hex"])).hex()} if asked else answer

    return lie


# --- codecs -------------------------------------------------------------------------------------------


def _first_block_only(right: Function) -> Function:
    """Look at the first block of a xerial stream alone."""

    def block(stream: Value) -> None:
        right(stream)
        stream.pos = stream.end

    return block


def _one_member(right: Function) -> Function:
    """Read the first member of a gzip stream, and pass over the others."""

    def member(stream: Value) -> None:
        right(stream)
        stream.pos = stream.end

    return member


def _first_entry(request: Request) -> Values:
    log = entries_of(request["hex"]) if "hex" in request else ()
    return log[0] if log else {}


def _fails_where(test: Callable[[Values], bool], *ops: str, answers: Answer = REJECTION) -> Mutator:
    """Fail at a log or batch whose first entry is such a one."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = request["op"] in ops and answer.get("ok") is True and (request["op"] != "decode" or _batches(request))
        entry = _first_entry(request) if asked else {}
        return answers if "records" in entry and test(entry) else answer

    return lie


def _emptied_with(name: str) -> Callable[[Values], bool]:
    return lambda one: one["compression"] == name and not one["records"]


def _batches(request: Request) -> bool:
    return fits(request, "RECORD_BATCH LOG")


_one = partial(SeededFault, area="record batches")
_codec = partial(SeededFault, area="codecs")

BATCHES = (
    _one(
        "known/header-null-moves-back",
        description="a reader moves the cursor back for a header value of length -1, and misreads the next record",
        source="https://github.com/dpkp/kafka-python/pull/2004",
        mutate=_prefix(lambda length: -1 if length is None else length, _HEADER_VALUE),
        try_first=(_HEADER_VALUE,),
    ),
    _one(
        "known/header-null-without-zig-zag",
        description="a reader without zig-zag takes the length 01 of a header's value as one byte",
        source="https://github.com/platformatic/kafka/pull/54",
        mutate=_prefix(lambda length: 1 if length is None else length, _HEADER_VALUE),
        try_first=(_HEADER_VALUE,),
    ),
    _one(
        "known/value-null-moves-back",
        description="a reader lets the length -1 of a value move the cursor back",
        source="https://github.com/dpkp/kafka-python/pull/2004",
        mutate=_prefix(lambda length: -1 if length is None else length, "record.value-absent-when-negative"),
        try_first=("record.value-absent-when-negative",),
    ),
    _one(
        "known/timestamp-delta-32-bits",
        description="a reader takes the VARLONG of a timestamp delta as a 32-bit VARINT",
        source="https://github.com/twmb/franz-go/issues/324",
        mutate=both(
            batch(_short_delta),
            change_value("RECORD", lambda one: {**one, "timestampDelta": _low_half(one["timestampDelta"])}),
        ),
        try_first=("record.timestamp-delta",),
    ),
    _one(
        "known/timestamp-delta-32-bits-in-a-fetch",
        description="a consumer hands out timestamps of deltas cut to 32 bits",
        source="https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/158",
        mutate=_at_read(
            lambda whole, one: (
                {}
                if whole["timestampType"]
                else {"timestamp": whole["baseTimestamp"] + c_int32(one["timestampDelta"]).value}
            )
        ),
    ),
    _one(
        "known/append-time-ignored-in-a-fetch",
        description="a consumer adds the old deltas to baseTimestamp instead of giving maxTimestamp",
        source="https://github.com/tulios/kafkajs/issues/768",
        mutate=_at_read(lambda whole, one: {"timestamp": whole["baseTimestamp"] + one["timestampDelta"]}),
    ),
    _one(
        "known/append-time-with-negative-deltas",
        description="a consumer adds negative deltas to maxTimestamp under LogAppendTime",
        source="https://github.com/zendesk/ruby-kafka/pull/706",
        mutate=_at_read(
            lambda whole, one: (
                {"timestamp": whole["maxTimestamp"] + min(one["timestampDelta"], 0)} if whole["timestampType"] else {}
            )
        ),
    ),
    _one(
        "known/max-timestamp-of-the-last",
        description="a writer writes the timestamp of the last record instead of the largest",
        source="https://github.com/IBM/sarama/pull/3108",
        mutate=_written(_time_of_the_last),
        try_first=("batch.max-timestamp",),
    ),
    _one(
        "known/offsets-from-one",
        description="a producer counts offset deltas from 1",
        source="https://github.com/IBM/sarama/pull/1026",
        mutate=encode_other_value("RECORD_BATCH", _each_counted_from_one),
        try_first=("offset.producer-relative",),
    ),
    _one(
        "known/at-most-131070-records",
        description="a reader takes no more than 131070 records in a batch",
        source="https://github.com/IBM/sarama/pull/3120",
        mutate=_fails_where(lambda one: one["recordCount"] > 2 * 0xFFFF, "decode", "read"),
        try_first=("batch.record-count",),
    ),
    _one(
        "pair/last-offset-delta-is-the-count",
        description="a writer puts the number of records into lastOffsetDelta",
        source="batch.last-offset-delta",
        mutate=_written(_number_of_records),
    ),
    _one(
        "pair/crc-over-the-magic",
        description="a writer computes the checksum over the magic too",
        source="batch.crc-covers-21-to-end",
        mutate=_sealed_otherwise(_crc_of_all),
    ),
    _one(
        "pair/crc-of-the-older-formats",
        description="a writer computes the checksum with the polynomial of the older formats",
        source="batch.crc-algorithm",
        mutate=_sealed_otherwise(_plain_crc32),
    ),
)

CODECS = (
    _codec(
        "known/xerial-first-block",
        description="a reader takes the first of several xerial blocks, and no other",
        source="https://github.com/TrackingSoft/Kafka/issues/38",
        mutate=wrong("codec.compression_formats._xerial_block", _first_block_only, "decode", "read"),
        try_first=("reader.snappy-xerial", "codec.snappy"),
    ),
    _codec(
        "pair/gzip-first-member",
        description="a reader takes the first of several gzip members, and no other",
        source="reader.gzip-members",
        mutate=wrong("codec.compression_formats._gzip_member", _one_member, "decode", "read"),
    ),
    _codec(
        "pair/zstd-first-frame",
        description="a reader takes the first of several zstd frames, and no other",
        source="reader.zstd-frames",
        mutate=wrong("codec.compression_formats._zstd_frame", _one_member, "decode", "read"),
    ),
    _codec(
        "pair/no-more-records-than-bytes",
        description="a reader takes no more records in a batch than its compressed payload has bytes",
        source="batch.record-count",
        mutate=_fails_where(lambda one: one["recordCount"] > one["batchLength"] - _REST_OF_HEADER, "decode", "read"),
        try_first=("batch.record-count",),
    ),
    _codec(
        "known/control-batch-without-records",
        description="a reader refuses a control batch that compaction emptied",
        source="https://github.com/apache/kafka/pull/5727",
        mutate=_fails_where(lambda one: one["isControlBatch"] and not one["records"], "decode"),
        try_first=("control.single-record", "compaction.empty-batch-retained"),
    ),
    *(
        _codec(
            f"pair/emptied-{name}",
            description=f"a reader dies of a batch without records whose attributes name {name}",
            source="compression.empty-batch",
            mutate=_fails_where(
                _emptied_with(name),
                "decode",
                "read",
                answers={"crash": "EOFError"},
            ),
        )
        for name in ("gzip", "snappy", "lz4", "zstd")
    ),
)
"""Defects of readers of compressed and of emptied batches."""
