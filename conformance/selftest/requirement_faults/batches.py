"""One fault for each requirement on record batches, records, their headers, checksums and codecs."""

from __future__ import annotations

from collections.abc import Callable

import lz4.frame

from conformance.cases.model import Answer, Request, Value
from conformance.codec.checksums import CRC32C
from conformance.codec.derived_fields import Values
from conformance.codec.log import extents
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, with_checksums
from conformance.selftest.mutators import (
    ONE_MORE,
    WHOLE_SECONDS,
    Condition,
    Mutator,
    accept_invalid,
    accept_unencodable,
    change_bytes,
    change_consumed,
    change_size,
    change_value,
    combine,
    decode_other_bytes,
    empty_to_null,
    encode_other_value,
    field_change,
    null_to,
    number,
    object_change,
    on,
    put,
    reject_valid,
    signed,
    unsigned,
    write_surrogates,
)
from conformance.selftest.mutators.batches import (
    DECODED_BATCHES,
    batch_field,
    batch_fields,
    batch_records,
    last_of_each_key,
    record_field,
    record_fields,
    record_header_field,
)
from conformance.targets.reference import answer as correct_answer

# --- conditions ---------------------------------------------------------------------------------------


def _has_batch(test: Callable[[Value], bool]) -> Condition:
    """Return a condition on a decoded batch, or on any batch of a log."""

    def when(_: Request, answer: Answer) -> bool:
        value = answer["value"]
        return any("records" in batch and test(batch) for batch in value.get("batches", [value]))

    return when


def _reject_codec(codec: str, test: Callable[[Value], bool] = bool) -> Mutator:
    """Reject batches of a codec whose stored records pass a test."""
    has_codec = _has_batch(lambda batch: batch["compression"] == codec)
    return reject_valid(
        "RECORD_BATCH",
        lambda request, answer: has_codec(request, answer) and test(bytes.fromhex(request["hex"])[HEADER_SIZE:]),
    )


def _with_correct_crc(request: Request, data: bytes) -> Answer:
    _, end = next(extents(data), (0, 0))
    return correct_answer({**request, "hex": (with_checksums(data[:end], length=False) + data[end:]).hex()})


@on("decode", "RECORD_BATCH", accepted=False)
def _ignore_records_after_count(request: Request, answer: Answer) -> Answer:
    data = bytes.fromhex(request["hex"])
    for more in (1, 2):
        count = min(BATCH_LAYOUT.read_field("recordCount", data) + more, (1 << 31) - 1)
        whole = _with_correct_crc(request, BATCH_LAYOUT.with_field("recordCount", data, count))
        if whole["ok"]:
            return {**whole, "value": {**whole["value"], "records": whole["value"]["records"][:-more]}}
    return answer


# --- fields of a decoded batch ------------------------------------------------------------------------


def _end_of_last_record(batch: Values) -> Values:
    """Derive the last fields of a batch from the remaining records."""
    if not batch.get("records"):
        return {}
    last = max((record["timestamp"] for record in batch["records"]), key=int)
    return {"lastOffsetDelta": batch["records"][-1]["offsetDelta"], "maxTimestamp": last}


def _timestamp_of_last_record(name: str) -> Mutator:
    return batch_fields(lambda batch: {name: batch["records"][-1]["timestamp"]} if batch.get("records") else {})


def _cumulative_timestamps(batch: Values) -> Values:
    """Add each timestamp delta to the timestamp of the previous record."""
    at, records = int(batch.get("baseTimestamp", 0)), []
    for record in batch.get("records", ()):
        at += int(record["timestampDelta"])
        records.append({**record, "timestamp": str(at)})
    return {"records": records}


def _timestamps_from_deltas(batch: Values) -> Values:
    """Ignore the timestamp type."""
    base = int(batch.get("baseTimestamp", 0))
    return {
        "records": [{**one, "timestamp": str(base + int(one["timestampDelta"]))} for one in batch.get("records", ())]
    }


def _sequence_of_first_record(batch: Values) -> Values:
    """Add the offset delta of the first remaining record to baseSequence."""
    delta = batch["records"][0]["offsetDelta"] if batch.get("records") else 0
    return {"baseSequence": batch["baseSequence"] + delta} if "baseSequence" in batch else {}


def _offsets_by_index(batch: Values) -> Values:
    base = int(batch.get("baseOffset", 0))
    return {"records": [{**one, "offset": str(base + at)} for at, one in enumerate(batch.get("records", ()))]}


def _swap_key_and_value(record: Values) -> Values:
    return {"key": record["value"], "value": record["key"]}


def _swap_header(header: Values) -> Values:
    value = bytes.fromhex(header["value"] or "").decode("utf-8", "replace")
    return {"key": value, "value": header["key"].encode().hex()}


def _unpack_batch(value: str | None) -> str | None:
    """Return the records of a value that is a batch with magic 2."""
    return value[2 * HEADER_SIZE :] if value and value[32:34] == "02" else value


def _sort_headers(headers: list[Values]) -> list[Values]:
    return sorted(headers, key=lambda header: header["key"] or "")


# --- encoded batches ----------------------------------------------------------------------------------


def _write_offsets(change: Callable[[Values, Values], Value]) -> Mutator:
    """Write other offsets, given the batch and the record."""
    return encode_other_value(
        "RECORD_BATCH",
        lambda value: {**value, "records": [{**one, "offset": change(value, one)} for one in value["records"]]},
    )


def _write_header_bytes(position: int, part: bytes) -> Mutator:
    """Write other bytes into the header of a batch, with a correct checksum."""
    return change_bytes("RECORD_BATCH", lambda data: with_checksums(put(position, part)(data), length=False))


def _store(codec: str, change: Callable[[bytes, bytes], bytes]) -> Mutator:
    """Write compressed records in another format, given the compressed and the plain records."""

    @on("encode", "RECORD_BATCH", lambda request, _: bool(request["value"]["compression"] == codec))
    def mutate(request: Request, answer: Answer) -> Answer:
        data = bytes.fromhex(answer["hex"])
        plain = correct_answer({**request, "value": {**request["value"], "compression": "none"}})["hex"]
        records = change(data[HEADER_SIZE:], bytes.fromhex(plain)[HEADER_SIZE:])
        return {**answer, "hex": with_checksums(data[:HEADER_SIZE] + records, length=True).hex()}

    return mutate


def _wrong_lz4_header_checksum(stored: bytes, _: bytes) -> bytes:
    """The header checksum of an LZ4 frame follows its descriptor of two bytes."""
    return put(6, bytes([stored[6] ^ 0xFF]))(stored)


def _linked_lz4_blocks(_: bytes, plain: bytes) -> bytes:
    return bytes(lz4.frame.compress(plain, block_linked=True, store_size=False))


def _snappy_framing(_: bytes, plain: bytes) -> bytes:
    """Return one uncompressed chunk of the snappy framing format, with its masked checksum."""
    crc = CRC32C.compute(plain)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return b"\xff\x06\0\0sNaPpY\1" + (len(plain) + 4).to_bytes(3, "little") + masked.to_bytes(4, "little") + plain


def _wide_zstd_window(_: bytes, plain: bytes) -> bytes:
    """Return a Zstandard frame of one raw block, with a window of 256 MiB."""
    block = (len(plain) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\0" + bytes([28 - 10 << 3]) + block + plain


BATCHES: dict[str, Mutator] = {
    # header
    "batch.header-61-bytes": decode_other_bytes("RECORD_BATCH", lambda data: data[:57] + data[HEADER_SIZE:]),
    "batch.base-offset": batch_field("baseOffset", ONE_MORE),
    "batch.batch-length": batch_field("batchLength", number(lambda length: length + 12)),
    "batch.length-wrong-rejected": accept_invalid("batch.length-wrong-rejected"),
    "batch.partition-leader-epoch": batch_field("partitionLeaderEpoch", unsigned(32)),
    "batch.magic": batch_field("magic", ONE_MORE),
    "batch.crc": batch_field("crc", signed(32)),
    "batch.attributes": batch_field("attributes", number(lambda bits: bits << 8)),
    "batch.last-offset-delta": batch_field("lastOffsetDelta", ONE_MORE),
    "batch.base-timestamp": batch_field("baseTimestamp", ONE_MORE),
    "batch.max-timestamp": _timestamp_of_last_record("maxTimestamp"),
    "batch.producer-id": batch_field("producerId", signed(32)),
    "batch.producer-epoch": batch_field("producerEpoch", ONE_MORE),
    "batch.base-sequence": batch_field("baseSequence", ONE_MORE),
    "batch.record-count": batch_records(lambda records: records[:-1]),
    "batch.record-count-mismatch": _ignore_records_after_count,
    "batch.records-at-61": decode_other_bytes("RECORD_BATCH", lambda data: data[:HEADER_SIZE] + data[57:]),
    "batch.end-kept-when-records-gone": batch_fields(_end_of_last_record),
    "batch.always-batched": accept_invalid(
        "batch.length-wrong-rejected", "message-set.size-mismatch-rejected", "batch.magic"
    ),
    "batch.compressed-data-after-count": encode_other_value(
        "RECORD_BATCH", lambda value: {**value, "records": value["records"][:-1]}
    ),
    "batch.magic-before-crc": batch_field("partitionLeaderEpoch", ONE_MORE),
    "producer.magic-two": change_bytes("RECORD_BATCH", put(16, b"\1")),
    # attributes
    "attributes.compression-bits": batch_field("compression", lambda _: "none"),
    "attributes.timestamp-type-bit": batch_field("timestampType", lambda _: "CreateTime"),
    "attributes.transactional-bit": batch_field("isTransactional", lambda _: False),
    "attributes.control-bit": batch_field("isControlBatch", lambda _: False),
    "attributes.delete-horizon-bit": batch_field("hasDeleteHorizonMs", lambda _: False),
    "attributes.reserved-bits": change_value(
        "RECORD_BATCH", field_change("", "attributes", number(lambda bits: bits & 0x7F))
    ),
    # codecs
    "codec.none": _reject_codec("none"),
    "codec.gzip": _reject_codec("gzip"),
    "codec.snappy": _reject_codec("snappy"),
    "codec.lz4": _reject_codec("lz4"),
    "codec.zstd": _reject_codec("zstd"),
    "codec.unassigned-values": accept_invalid("codec.unassigned-values"),
    "compression.header-never-compressed": reject_valid(
        DECODED_BATCHES, _has_batch(lambda one: one["compression"] != "none")
    ),
    "compression.no-nesting": combine(
        accept_invalid("record.length-mismatch-rejected", "batch.record-count-mismatch"),
        record_field("value", _unpack_batch),
    ),
    "compression.empty-batch": reject_valid("RECORD_BATCH", _has_batch(lambda one: not one["records"])),
    "compression.crc-over-compressed": accept_invalid("crc.mismatch-corrupt"),
    "consumer.decompresses-transparently": _reject_codec("zstd"),
    "reader.gzip-members": _reject_codec("gzip"),
    "reader.snappy-xerial": _reject_codec("snappy", lambda stored: stored.startswith(b"\x82SNAPPY\0")),
    "reader.snappy-raw": _reject_codec("snappy", lambda stored: not stored.startswith(b"\x82SNAPPY\0")),
    "reader.snappy-xerial-versions": _reject_codec("snappy", lambda stored: stored[8:16] != b"\0\0\0\1\0\0\0\1"),
    "reader.lz4-frame-options": _reject_codec("lz4", lambda stored: stored[4:6] != b"\x60\x40"),
    "reader.zstd-frames": _reject_codec("zstd"),
    "reader.zstd-no-content-size": _reject_codec("zstd", lambda stored: not stored[4] & 0xE0),
    "reader.zstd-window": _reject_codec("zstd", lambda stored: stored[5] >> 3 > 12),
    "robustness.snappy-block-length": accept_invalid("robustness.snappy-block-length", "codec.snappy"),
    # checksums
    "batch.crc-algorithm": accept_invalid("crc.mismatch-corrupt"),
    "batch.crc-covers-21-to-end": accept_invalid("crc.mismatch-corrupt"),
    "batch.crc-ignores-prefix": reject_valid("RECORD_BATCH", _has_batch(lambda one: one["partitionLeaderEpoch"] >= 0)),
    "crc.producer-computes": change_bytes("RECORD_BATCH", lambda data: BATCH_LAYOUT.with_field("crc", data, 0)),
    "crc.mismatch-corrupt": accept_invalid("crc.mismatch-corrupt"),
    # records
    "record.field-order": record_fields(_swap_key_and_value),
    "record.length-covers-attributes-to-headers": change_bytes(
        "RECORD", lambda data: bytes([data[0] + 2 & 0xFF]) + data[1:]
    ),
    "record.length-mismatch-rejected": accept_invalid("record.length-mismatch-rejected"),
    "record.attributes-zero": accept_unencodable("RECORD"),
    "record.timestamp-delta": record_field("timestampDelta", unsigned(64)),
    "record.offset-delta": record_field("offsetDelta", unsigned(32)),
    "record.key-length": record_field("key", lambda key: key and key[:126]),
    "record.key-absent-when-negative": record_field("key", empty_to_null),
    "record.value-length": record_field("value", null_to("")),
    "record.value-absent-when-negative": record_field("value", empty_to_null),
    "record.headers-count": record_field("headers", lambda headers: headers[:1]),
    "record.headers-follow-count": record_field("headers", _sort_headers),
    "size.record-calculation": change_size("RECORD", lambda size: size - 1),
    "size.batch-calculation": change_consumed("RECORD_BATCH", -12),
    "size.batch-overhead": reject_valid("RECORD_BATCH", _has_batch(lambda one: one["batchLength"] == 49)),
    # headers
    "header.field-order": change_value("RECORD RECORD_BATCH", object_change("headers", _swap_header)),
    "header.key-length": record_header_field("key", lambda key: key[:63]),
    "header.key-not-nullable": accept_invalid("header.key-not-nullable"),
    "header.key-bytes": record_header_field("key", lambda key: key.encode().decode("latin-1")),
    "header.key-surrogate-unwritable": write_surrogates,
    "header.key-valid-utf8": change_bytes("RECORD", lambda data: data.replace(b"\xf0", b"\xf8")),
    "header.duplicate-keys-permitted": encode_other_value(
        "RECORD", lambda value: {**value, "headers": last_of_each_key(value["headers"])}
    ),
    "header.duplicate-keys-kept": record_field("headers", last_of_each_key),
    "header.value-length": record_header_field("value", null_to("")),
    "header.value-absent-when-negative": record_header_field("value", empty_to_null),
    "writer.header-key-not-null": accept_unencodable("RECORD RECORD_BATCH"),
    # offsets and timestamps
    "offset.last-formula": batch_field("lastOffsetDelta", ONE_MORE),
    "sequence.record-formula": batch_fields(_sequence_of_first_record),
    "offset.record-formula": batch_fields(_offsets_by_index),
    "offset.producer-relative": _write_offsets(lambda value, _: value["baseOffset"]),
    "offset.gaps-allowed": batch_fields(_offsets_by_index),
    "timestamp.record-formula": batch_fields(_cumulative_timestamps),
    "timestamp.create-time-preserved": change_value(
        DECODED_BATCHES, field_change("records", "timestamp", WHOLE_SECONDS)
    ),
    "timestamp.log-append-overwritten": batch_fields(_timestamps_from_deltas),
    "writer.offsets-consecutive": _write_offsets(lambda _, one: str(2 * int(one["offset"]))),
    # writers of compressed batches
    "writer.lz4-header-checksum": _store("lz4", _wrong_lz4_header_checksum),
    "writer.lz4-independent-blocks": _store("lz4", _linked_lz4_blocks),
    "writer.snappy-framing": _store("snappy", _snappy_framing),
    "writer.zstd-window": _store("zstd", _wide_zstd_window),
    # producer
    "non-idempotent.producer-id": _write_header_bytes(43, bytes(8)),
    "non-idempotent.producer-epoch": _write_header_bytes(51, bytes(2)),
    "non-idempotent.base-sequence": _write_header_bytes(53, bytes(4)),
    # control
    "control.key-layout": accept_invalid("control.key-layout"),
    "control.type-abort": change_value(
        "CONTROL_RECORD", field_change("", "type", lambda name: "COMMIT" if name == "ABORT" else name)
    ),
    "control.type-commit": change_value(
        "CONTROL_RECORD", field_change("", "type", lambda name: "ABORT" if name == "COMMIT" else name)
    ),
    "control.type-unknown": change_value(
        "CONTROL_RECORD", field_change("", "type", lambda name: name if name in ("ABORT", "COMMIT") else "COMMIT")
    ),
    "control.version-zero": change_value("CONTROL_RECORD", field_change("", "version", ONE_MORE)),
    "control.single-record": batch_records(lambda records: records * 2 if len(records) == 1 else records),
    "batch.one-or-more-records": change_bytes(
        "RECORD_BATCH", lambda data: with_checksums(put(57, bytes(4))(data[:HEADER_SIZE]), length=True)
    ),
    # compaction
    "compaction.gaps-in-batch": reject_valid(
        DECODED_BATCHES, _has_batch(lambda one: one["recordCount"] <= one["lastOffsetDelta"])
    ),
    "compaction.empty-batch-retained": reject_valid(DECODED_BATCHES, _has_batch(lambda one: one["recordCount"] == 0)),
    "delete-horizon.set-by-compaction": reject_valid("RECORD_BATCH", _has_batch(lambda one: one["hasDeleteHorizonMs"])),
    "compaction.base-timestamp-changes": _timestamp_of_last_record("baseTimestamp"),
}
