"""Violations of the requirements on record batches, records and their headers, checksums and codecs."""

from __future__ import annotations

from collections.abc import Callable

import lz4.frame

from conformance.cases.model import Answer, Request, Value
from conformance.codec.checksums import CRC32C
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import with_checksums
from conformance.selftest import mutators
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import (
    ONE_MORE,
    Change,
    When,
    accept_invalid,
    accepts_values,
    as_null,
    batch,
    both,
    change_bytes,
    change_size,
    change_value,
    consumes,
    decode_other_bytes,
    encode_other_value,
    entry,
    header,
    null_as,
    number,
    objects,
    of_header,
    record,
    reject_valid,
    signed,
    unsigned,
)
from conformance.targets.reference import answer as honest

Shown = Values

_BATCHES = "RECORD_BATCH LOG"


def _records(change: Change) -> Mutator:
    """Show other records of every batch."""
    return batch(lambda shown: {"records": change(shown["records"])} if shown.get("records") else {})


def _if_batch(test: Callable[[Value], bool]) -> When:
    """Whether a decoded batch (or some batch of a log) is such a one."""

    def when(_: Request, answer: Answer) -> bool:
        value = answer["value"]
        return any("records" in one and test(one) for one in value.get("batches", [value]))

    return when


def _codec(name: str, test: Callable[[Value], bool] = bool) -> When:
    """Whether a batch of this codec was decoded, whose stored records are such ones."""
    return lambda request, answer: (
        _if_batch(lambda one: one["compression"] == name)(request, answer) and test(bytes.fromhex(request["hex"])[61:])
    )


def _refuses_codec(name: str, test: Callable[[Value], bool] = bool) -> Mutator:
    return reject_valid("RECORD_BATCH", _codec(name, test))


def _from_records(shown: Shown) -> Shown:
    """The end of a batch, derived from the records that are left."""
    records = shown.get("records")
    if not records:
        return {}
    return {
        "lastOffsetDelta": records[-1]["offsetDelta"],
        "maxTimestamp": max((one["timestamp"] for one in records), key=int),
    }


def _chained(shown: Shown) -> Shown:
    """Timestamps as if each delta counted from the record before."""
    at, records = int(shown.get("baseTimestamp", 0)), []
    for one in shown.get("records", ()):
        at += int(one["timestampDelta"])
        records.append({**one, "timestamp": str(at)})
    return {"records": records}


def _from_delta(shown: Shown) -> Shown:
    """Timestamps from the deltas, whatever the type says."""
    base = int(shown.get("baseTimestamp", 0))
    return {
        "records": [{**one, "timestamp": str(base + int(one["timestampDelta"]))} for one in shown.get("records", ())]
    }


def _end_of_last(shown: Shown) -> Shown:
    """MaxTimestamp as the timestamp of the last record."""
    return {"maxTimestamp": shown["records"][-1]["timestamp"]} if shown.get("records") else {}


def _base_of_last(shown: Shown) -> Shown:
    """BaseTimestamp as the timestamp of the last record."""
    return {"baseTimestamp": shown["records"][-1]["timestamp"]} if shown.get("records") else {}


def _sequence_of_first(shown: Shown) -> Shown:
    """BaseSequence as the sequence number of the first record that is left."""
    moved = shown["records"][0]["offsetDelta"] if shown.get("records") else 0
    return {"baseSequence": shown["baseSequence"] + moved} if "baseSequence" in shown else {}


def _offsets(change: Callable[[Values, Values], Value]) -> Mutator:
    """Write other offsets in a batch than the given ones."""
    return encode_other_value(
        "RECORD_BATCH",
        lambda value: {**value, "records": [{**one, "offset": change(value, one)} for one in value["records"]]},
    )


def _header_swapped(header_: Shown) -> Shown:
    value = bytes.fromhex(header_["value"] or "").decode("utf-8", "replace")
    return {"key": value, "value": header_["key"].encode().hex()}


def _unpacked(value: str | None) -> str | None:
    """The records of a value that is a batch of magic 2."""
    return value[122:] if value and value[32:34] == "02" else value


def _by_position(shown: Shown) -> Shown:
    """Offsets counted by the position in the batch."""
    base = int(shown.get("baseOffset", 0))
    return {"records": [{**one, "offset": str(base + at)} for at, one in enumerate(shown.get("records", ()))]}


def _swapped(record_: Shown) -> Shown:
    return {"key": record_["value"], "value": record_["key"]}


def _resealed(change: Change) -> Value:
    """Other bytes of a batch, with the checksum that belongs to them."""
    return lambda data: with_checksums(change(data), length=False)


def _at(position: int, value: bytes) -> Value:
    return lambda data: data[:position] + value + data[position + len(value) :]


def _stores(codec: str, change: Callable[[bytes, bytes], bytes]) -> Mutator:
    """Write the compressed records of a batch in another form."""

    def lie(request: Request, answer: Answer) -> Answer:
        fits = (request["op"], request.get("type")) == ("encode", "RECORD_BATCH") and answer.get("ok")
        if not fits or request["value"]["compression"] != codec:
            return answer
        data = bytes.fromhex(answer["hex"])
        plain = bytes.fromhex(honest({**request, "value": {**request["value"], "compression": "none"}})["hex"])[61:]
        return {**answer, "hex": with_checksums(data[:61] + change(data[61:], plain), length=True).hex()}

    return lie


def _bad_header_checksum(stored: bytes, _: bytes) -> bytes:
    """The header checksum of an LZ4 frame stands behind its descriptor, here of two bytes."""
    return stored[:6] + bytes([stored[6] ^ 0xFF]) + stored[7:]


def _linked_blocks(_: bytes, plain: bytes) -> bytes:
    return bytes(lz4.frame.compress(plain, block_linked=True, store_size=False))


def _snappy_framing(_: bytes, plain: bytes) -> bytes:
    """One uncompressed chunk of the snappy framing format, with its masked checksum."""
    crc = CRC32C.compute(plain)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return b"\xff\x06\0\0sNaPpY\1" + (len(plain) + 4).to_bytes(3, "little") + masked.to_bytes(4, "little") + plain


def _wide_window(_: bytes, plain: bytes) -> bytes:
    """A Zstandard frame of one raw block, with a window of 256 MiB."""
    block = (len(plain) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\0" + bytes([28 - 10 << 3]) + block + plain


_SORTED = lambda values: sorted(values, key=lambda one: one["key"] or "")  # noqa: E731 - a change

BATCHES: dict[str, Mutator] = {
    # header
    "batch.header-61-bytes": decode_other_bytes("RECORD_BATCH", lambda data: data[:57] + data[61:]),
    "batch.base-offset": header("baseOffset", ONE_MORE),
    "batch.batch-length": header("batchLength", number(lambda length: length + 12)),
    "batch.length-wrong-rejected": accept_invalid("batch.length-wrong-rejected"),
    "batch.partition-leader-epoch": header("partitionLeaderEpoch", unsigned(32)),
    "batch.magic": header("magic", ONE_MORE),
    "batch.crc": header("crc", signed(32)),
    "batch.attributes": header("attributes", number(lambda bits: bits << 8)),
    "batch.last-offset-delta": header("lastOffsetDelta", ONE_MORE),
    "batch.base-timestamp": header("baseTimestamp", ONE_MORE),
    "batch.max-timestamp": batch(_end_of_last),
    "batch.producer-id": header("producerId", signed(32)),
    "batch.producer-epoch": header("producerEpoch", ONE_MORE),
    "batch.base-sequence": header("baseSequence", ONE_MORE),
    "batch.record-count": _records(lambda records: records[:-1]),
    "batch.record-count-mismatch": mutators.stop_at_the_count,
    "batch.records-at-61": decode_other_bytes("RECORD_BATCH", lambda data: data[:61] + data[57:]),
    "batch.end-kept-when-records-gone": batch(_from_records),
    "batch.always-batched": accept_invalid(
        "batch.length-wrong-rejected", "message-set.size-mismatch-rejected", "batch.magic"
    ),
    "batch.compressed-data-after-count": encode_other_value(
        "RECORD_BATCH", lambda value: {**value, "records": value["records"][:-1]}
    ),
    "batch.magic-before-crc": header("partitionLeaderEpoch", ONE_MORE),
    "producer.magic-two": change_bytes("RECORD_BATCH", _at(16, b"\1")),
    # attributes
    "attributes.compression-bits": header("compression", lambda _: "none"),
    "attributes.timestamp-type-bit": header("timestampType", lambda _: "CreateTime"),
    "attributes.transactional-bit": header("isTransactional", lambda _: False),
    "attributes.control-bit": header("isControlBatch", lambda _: False),
    "attributes.delete-horizon-bit": header("hasDeleteHorizonMs", lambda _: False),
    "attributes.reserved-bits": change_value("RECORD_BATCH", entry("", "attributes", number(lambda bits: bits & 0x7F))),
    # codecs
    "codec.none": reject_valid("RECORD_BATCH", _codec("none")),
    "codec.gzip": _refuses_codec("gzip"),
    "codec.snappy": _refuses_codec("snappy"),
    "codec.lz4": _refuses_codec("lz4"),
    "codec.zstd": _refuses_codec("zstd"),
    "codec.unassigned-values": accept_invalid("codec.unassigned-values"),
    "compression.header-never-compressed": reject_valid(_BATCHES, _if_batch(lambda one: one["compression"] != "none")),
    "compression.no-nesting": both(
        accept_invalid("record.length-mismatch-rejected", "batch.record-count-mismatch"),
        record("value", _unpacked),
    ),
    "compression.empty-batch": reject_valid("RECORD_BATCH", _if_batch(lambda one: not one["records"])),
    "compression.crc-over-compressed": accept_invalid("crc.mismatch-corrupt"),
    "consumer.decompresses-transparently": _refuses_codec("zstd"),
    "reader.gzip-members": _refuses_codec("gzip"),
    "reader.snappy-xerial": _refuses_codec("snappy", lambda stored: stored.startswith(b"\x82SNAPPY\0")),
    "reader.snappy-raw": _refuses_codec("snappy", lambda stored: not stored.startswith(b"\x82SNAPPY\0")),
    "reader.snappy-xerial-versions": _refuses_codec("snappy", lambda stored: stored[8:16] != b"\0\0\0\1\0\0\0\1"),
    "reader.lz4-frame-options": _refuses_codec("lz4", lambda stored: stored[4:6] != b"\x60\x40"),
    "reader.zstd-frames": _refuses_codec("zstd"),
    "reader.zstd-no-content-size": _refuses_codec("zstd", lambda stored: not stored[4] & 0xE0),
    "reader.zstd-window": _refuses_codec("zstd", lambda stored: stored[5] >> 3 > 12),
    "robustness.snappy-block-length": accept_invalid("robustness.snappy-block-length", "codec.snappy"),
    # checksums
    "batch.crc-algorithm": accept_invalid("crc.mismatch-corrupt"),
    "batch.crc-covers-21-to-end": accept_invalid("crc.mismatch-corrupt"),
    "batch.crc-ignores-prefix": reject_valid("RECORD_BATCH", _if_batch(lambda one: one["partitionLeaderEpoch"] >= 0)),
    "crc.producer-computes": change_bytes("RECORD_BATCH", mutators.without_crc),
    "crc.mismatch-corrupt": accept_invalid("crc.mismatch-corrupt"),
    # records
    "record.field-order": both(
        change_value("RECORD", lambda value: {**value, **_swapped(value)}),
        change_value(_BATCHES, objects("records", _swapped)),
    ),
    "record.length-covers-attributes-to-headers": change_bytes(
        "RECORD", lambda data: bytes([data[0] + 2 & 0xFF]) + data[1:]
    ),
    "record.length-mismatch-rejected": accept_invalid("record.length-mismatch-rejected"),
    "record.attributes-zero": accepts_values("RECORD"),
    "record.timestamp-delta": record("timestampDelta", unsigned(64)),
    "record.offset-delta": record("offsetDelta", unsigned(32)),
    "record.key-length": record("key", lambda key: key and key[:126]),
    "record.key-absent-when-negative": record("key", as_null),
    "record.value-length": record("value", null_as("")),
    "record.value-absent-when-negative": record("value", as_null),
    "record.headers-count": record("headers", lambda headers: headers[:1]),
    "record.headers-follow-count": record("headers", _SORTED),
    "size.record-calculation": change_size("RECORD", lambda size: size - 1),
    "size.batch-calculation": consumes("RECORD_BATCH", -12),
    "size.batch-overhead": reject_valid("RECORD_BATCH", _if_batch(lambda one: one["batchLength"] == 49)),
    # headers
    "header.field-order": change_value("RECORD RECORD_BATCH", objects("headers", _header_swapped)),
    "header.key-length": of_header("key", lambda key: key[:63]),
    "header.key-not-nullable": accept_invalid("header.key-not-nullable"),
    "header.key-bytes": of_header("key", lambda key: key.encode().decode("latin-1")),
    "header.key-surrogate-unwritable": mutators.write_halves,
    "header.key-valid-utf8": change_bytes("RECORD", lambda data: data.replace(b"\xf0", b"\xf8")),
    "header.duplicate-keys-permitted": encode_other_value(
        "RECORD", lambda value: {**value, **mutators.last_header_wins(value)}
    ),
    "header.duplicate-keys-kept": record(
        "headers", lambda headers: list({one["key"]: one for one in headers}.values())
    ),
    "header.value-length": of_header("value", null_as("")),
    "header.value-absent-when-negative": of_header("value", as_null),
    "writer.header-key-not-null": accepts_values("RECORD RECORD_BATCH"),
    # offsets and timestamps
    "offset.last-formula": header("lastOffsetDelta", ONE_MORE),
    "sequence.record-formula": batch(_sequence_of_first),
    "offset.record-formula": batch(_by_position),
    "offset.producer-relative": _offsets(lambda value, _: value["baseOffset"]),
    "offset.gaps-allowed": batch(_by_position),
    "timestamp.record-formula": batch(_chained),
    "timestamp.create-time-preserved": change_value(_BATCHES, objects("records", mutators.whole_seconds)),
    "timestamp.log-append-overwritten": batch(_from_delta),
    "writer.offsets-consecutive": _offsets(lambda _, one: str(2 * int(one["offset"]))),
    # writers of compressed batches
    "writer.lz4-header-checksum": _stores("lz4", _bad_header_checksum),
    "writer.lz4-independent-blocks": _stores("lz4", _linked_blocks),
    "writer.snappy-framing": _stores("snappy", _snappy_framing),
    "writer.zstd-window": _stores("zstd", _wide_window),
    # producer
    "non-idempotent.producer-id": change_bytes("RECORD_BATCH", _resealed(_at(43, bytes(8)))),
    "non-idempotent.producer-epoch": change_bytes("RECORD_BATCH", _resealed(_at(51, bytes(2)))),
    "non-idempotent.base-sequence": change_bytes("RECORD_BATCH", _resealed(_at(53, bytes(4)))),
    # control
    "control.key-layout": accept_invalid("control.key-layout"),
    "control.type-abort": change_value(
        "CONTROL_RECORD", entry("", "type", lambda name: "COMMIT" if name == "ABORT" else name)
    ),
    "control.type-commit": change_value(
        "CONTROL_RECORD", entry("", "type", lambda name: "ABORT" if name == "COMMIT" else name)
    ),
    "control.type-unknown": change_value(
        "CONTROL_RECORD", entry("", "type", lambda name: name if name in ("ABORT", "COMMIT") else "COMMIT")
    ),
    "control.version-zero": change_value("CONTROL_RECORD", entry("", "version", ONE_MORE)),
    "control.single-record": _records(lambda records: records * 2 if len(records) == 1 else records),
    "batch.one-or-more-records": change_bytes(
        "RECORD_BATCH", lambda data: with_checksums(_at(57, bytes(4))(data[:61]), length=True)
    ),
    # compaction
    "compaction.gaps-in-batch": reject_valid(
        _BATCHES, _if_batch(lambda one: one["recordCount"] <= one["lastOffsetDelta"])
    ),
    "compaction.empty-batch-retained": reject_valid(_BATCHES, _if_batch(lambda one: one["recordCount"] == 0)),
    "delete-horizon.set-by-compaction": reject_valid("RECORD_BATCH", _if_batch(lambda one: one["hasDeleteHorizonMs"])),
    "compaction.base-timestamp-changes": batch(_base_of_last),
}
