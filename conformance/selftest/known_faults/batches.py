"""Faults of real software in record batches and compression codecs."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int32
from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.checksums import CRC32, CRC32C
from conformance.codec.cursor import Cursor
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.selftest.mutators import (
    LOW_32_BITS,
    REJECTION,
    Function,
    Mutator,
    change_bytes,
    change_value,
    combine,
    encode_other_value,
    field_change,
    on,
    replace_function,
)
from conformance.selftest.mutators.batches import batch_fields
from conformance.selftest.mutators.logs import entries_of
from conformance.selftest.seeded_fault import SeededFault

_HEADER_VALUE = "header.value-absent-when-negative"
_REST_OF_HEADER = 49
"""Bytes that batchLength counts before the records."""


# --- records ------------------------------------------------------------------------------------------


def _null_length(length: int, rule: str) -> Mutator:
    """Read a null length as another one. The rule names the part of the record."""

    def read(original: Function, prefix: Value, cursor: Cursor) -> int | None:
        given: int | None = original(prefix, cursor)
        return length if given is None and prefix.negative_rule == rule else given

    return replace_function("codec._length_prefixed.LengthPrefix.read", read, "decode read")


def _timestamps_from_32_bit_deltas(batch: Values) -> Values:
    base = int(batch.get("baseTimestamp", 0))
    is_late = batch.get("timestampType") == "LogAppendTime"
    return {
        "records": [
            {**one, "timestampDelta": LOW_32_BITS(one["timestampDelta"])}
            | ({} if is_late else {"timestamp": str(base + c_int32(int(one["timestampDelta"])).value)})
            for one in batch.get("records", ())
        ]
    }


def _consumed_records(change: Callable[[Values, Values], Values]) -> Mutator:
    """Show other records of each batch in a fetch, given the batch and the record."""

    def of_batch(original: Function, batch: Values) -> list[Values]:
        return [{**seen, **change(batch, one)} for seen, one in zip(original(batch), batch["records"], strict=True)]

    return replace_function("semantics.consumer_view._of_batch", of_batch, "read")


def _write_header_number(name: str, number: Callable[[list[Values]], int]) -> Mutator:
    """Write another number into the header of a batch, given the records; length and crc are correct."""

    @on("encode", "RECORD_BATCH")
    def mutate(request: Request, answer: Answer) -> Answer:
        data = BATCH_LAYOUT.with_field(name, bytes.fromhex(answer["hex"]), number(request["value"]["records"]))
        return {**answer, "hex": with_checksums(data).hex()}

    return mutate


def _write_crc(compute: Callable[[bytes], int]) -> Mutator:
    return change_bytes("RECORD_BATCH", lambda data: BATCH_LAYOUT.with_field("crc", data, compute(data)))


def _offsets_plus_one(value: Values) -> Values:
    return {**value, "records": [{**one, "offset": str(int(one["offset"]) + 1)} for one in value["records"]]}


# --- codecs -------------------------------------------------------------------------------------------


def _first_block_only(original: Function, stream: Value) -> None:
    """Read one block, member or frame of a compressed stream and skip the others."""
    original(stream)
    stream.pos = stream.end


def _fail_at(test: Callable[[Values], bool], ops: str = "decode read", result: Answer = REJECTION) -> Mutator:
    """Fail if the first entry is a batch that passes a test."""

    def mutate(request: Request, answer: Answer) -> Answer:
        first, *_ = (*entries_of(request["hex"]), {})
        return result if "records" in first and test(first) else answer

    return combine(*(on(op, "RECORD_BATCH LOG" if op == "decode" else "")(mutate) for op in ops.split()))


def _has_no_records(codec: str) -> Callable[[Values], bool]:
    return lambda batch: batch["compression"] == codec and not batch["records"]


_fault = partial(SeededFault, area="record batches")
_codec_fault = partial(SeededFault, area="codecs")

BATCHES = (
    _fault(
        "known/header-null-moves-back",
        description="a reader moves the cursor back at header value length -1, and misreads the next record",
        source="https://github.com/dpkp/kafka-python/pull/2004",
        mutate=_null_length(-1, _HEADER_VALUE),
        try_first=(_HEADER_VALUE,),
    ),
    _fault(
        "known/header-null-without-zig-zag",
        description="a reader without zig-zag reads the length 01 of a header value as one byte",
        source="https://github.com/platformatic/kafka/pull/54",
        mutate=_null_length(1, _HEADER_VALUE),
        try_first=(_HEADER_VALUE,),
    ),
    _fault(
        "known/value-null-moves-back",
        description="a reader moves the cursor back at value length -1",
        source="https://github.com/dpkp/kafka-python/pull/2004",
        mutate=_null_length(-1, "record.value-absent-when-negative"),
        try_first=("record.value-absent-when-negative",),
    ),
    _fault(
        "known/timestamp-delta-32-bits",
        description="a reader reads the VARLONG of a timestamp delta as a 32-bit VARINT",
        source="https://github.com/twmb/franz-go/issues/324",
        mutate=combine(
            batch_fields(_timestamps_from_32_bit_deltas),
            change_value("RECORD", field_change("", "timestampDelta", LOW_32_BITS)),
        ),
        try_first=("record.timestamp-delta",),
    ),
    _fault(
        "known/timestamp-delta-32-bits-in-a-fetch",
        description="a consumer returns timestamps from deltas that are cut to 32 bits",
        source="https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/158",
        mutate=_consumed_records(
            lambda whole, one: (
                {}
                if whole["timestampType"]
                else {"timestamp": whole["baseTimestamp"] + c_int32(one["timestampDelta"]).value}
            )
        ),
    ),
    _fault(
        "known/append-time-ignored-in-a-fetch",
        description="a consumer adds the deltas to baseTimestamp instead of returning maxTimestamp",
        source="https://github.com/tulios/kafkajs/issues/768",
        mutate=_consumed_records(lambda whole, one: {"timestamp": whole["baseTimestamp"] + one["timestampDelta"]}),
    ),
    _fault(
        "known/append-time-with-negative-deltas",
        description="a consumer adds negative deltas to maxTimestamp under LogAppendTime",
        source="https://github.com/zendesk/ruby-kafka/pull/706",
        mutate=_consumed_records(
            lambda whole, one: (
                {"timestamp": whole["maxTimestamp"] + min(one["timestampDelta"], 0)} if whole["timestampType"] else {}
            )
        ),
    ),
    _fault(
        "known/max-timestamp-of-the-last",
        description="a writer writes the timestamp of the last record instead of the largest",
        source="https://github.com/IBM/sarama/pull/3108",
        mutate=_write_header_number("maxTimestamp", lambda records: int(records[-1]["timestamp"])),
        try_first=("batch.max-timestamp",),
    ),
    _fault(
        "known/offsets-from-one",
        description="a producer counts offset deltas from 1",
        source="https://github.com/IBM/sarama/pull/1026",
        mutate=encode_other_value("RECORD_BATCH", _offsets_plus_one),
        try_first=("offset.producer-relative",),
    ),
    _fault(
        "known/at-most-131070-records",
        description="a reader accepts at most 131070 records in a batch",
        source="https://github.com/IBM/sarama/pull/3120",
        mutate=_fail_at(lambda one: one["recordCount"] > 2 * 0xFFFF),
        try_first=("batch.record-count",),
    ),
    _fault(
        "pair/last-offset-delta-is-the-count",
        description="a writer puts the number of records into lastOffsetDelta",
        source="batch.last-offset-delta",
        mutate=_write_header_number("lastOffsetDelta", len),
    ),
    _fault(
        "pair/crc-over-the-magic",
        description="a writer includes the magic in the checksum",
        source="batch.crc-covers-21-to-end",
        mutate=_write_crc(lambda data: CRC32C.compute(data[16:17] + data[21:])),
    ),
    _fault(
        "pair/crc-of-the-older-formats",
        description="a writer computes the checksum with the polynomial of the older formats",
        source="batch.crc-algorithm",
        mutate=_write_crc(lambda data: CRC32.compute(data[21:])),
    ),
)

CODECS = (
    _codec_fault(
        "known/xerial-first-block",
        description="a reader reads only the first of several xerial blocks",
        source="https://github.com/TrackingSoft/Kafka/issues/38",
        mutate=replace_function("codec.compression_formats._xerial_block", _first_block_only, "decode read"),
        try_first=("reader.snappy-xerial", "codec.snappy"),
    ),
    _codec_fault(
        "pair/gzip-first-member",
        description="a reader reads only the first of several gzip members",
        source="reader.gzip-members",
        mutate=replace_function("codec.compression_formats._gzip_member", _first_block_only, "decode read"),
    ),
    _codec_fault(
        "pair/zstd-first-frame",
        description="a reader reads only the first of several zstd frames",
        source="reader.zstd-frames",
        mutate=replace_function("codec.compression_formats._zstd_frame", _first_block_only, "decode read"),
    ),
    _codec_fault(
        "pair/no-more-records-than-bytes",
        description="a reader accepts no more records in a batch than the compressed payload has bytes",
        source="batch.record-count",
        mutate=_fail_at(lambda one: one["recordCount"] > one["batchLength"] - _REST_OF_HEADER),
        try_first=("batch.record-count",),
    ),
    _codec_fault(
        "known/control-batch-without-records",
        description="a reader rejects a control batch that compaction emptied",
        source="https://github.com/apache/kafka/pull/5727",
        mutate=_fail_at(lambda one: one["isControlBatch"] and not one["records"], "decode"),
        try_first=("control.single-record", "compaction.empty-batch-retained"),
    ),
    *(
        _codec_fault(
            f"pair/emptied-{name}",
            description=f"a reader dies of a batch without records whose attributes name {name}",
            source="compression.empty-batch",
            mutate=_fail_at(_has_no_records(name), result={"crash": "EOFError"}),
        )
        for name in ("gzip", "snappy", "lz4", "zstd")
    ),
)
"""Defects of readers of compressed and of emptied batches."""
