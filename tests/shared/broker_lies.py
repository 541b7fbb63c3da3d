"""Brokers with one fault each, and the requirement that it violates."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from model_broker import ERROR_CODES, FATE_CODES, Ways, checked, cleaned, fate, framed, lowered, raised, stored

from conformance import codec
from conformance.cases.append import max_magic_of_fetch
from conformance.cases.model import ExpectedResponse
from conformance.cases.raw_requests import answer_to
from conformance.codec.builders import marker
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.log import extents
from conformance.codec.message_set import encode_set
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.definitions.request_frames import names, response_frame, response_in
from conformance.live_brokers.connection import CLIENT
from conformance.targets.probes import plain_log

CRC = BATCH_LAYOUT.offset("crc")


@dataclass(frozen=True)
class BrokerFault:
    """A fault of a broker, a case that detects it, and the requirement of that failure."""

    ways: Ways
    case: str
    requirement: str


def serves(change):
    """Store a batch with other fields: `change` returns them for the sent batch."""
    return Ways(stored=lambda batch, offset, settings: stored({**batch, **change(batch)}, offset, settings))


def rewrites(change):
    """Change a batch after it was stored."""

    def changed(batch, offset, settings):
        kept = codec.decode("RECORD_BATCH", stored(batch, offset, settings)).value
        return codec.encode("RECORD_BATCH", {**kept, **change(kept)})

    return Ways(stored=changed)


def ignores(*names):
    """Ignore settings of the topic."""
    return Ways(stored=lambda batch, offset, settings: stored(batch, offset, {
        name: value for name, value in settings.items() if name not in names
    }))  # fmt: skip


def calls(**fates):
    """Replace results of batches by others."""
    names = {name.replace("_", "-"): other for name, other in fates.items()}
    return Ways(fate=lambda batches: names.get(fate(batches), fate(batches)))


def sees(change):
    """Use other sequences than the sent ones."""
    return Ways(fate=lambda batches: fate([{**batch, **change(batch)} for batch in batches]))


def refuses(wanted, code):
    """Reject some valid batches."""

    def looked(data, settings):
        return code if wanted(codec.decode("RECORD_BATCH", data).value or {}) else checked(data, settings)

    return Ways(checked=looked)


def passes_over(name):
    """Accept batches that should have an error."""

    def looked(data, settings):
        error = checked(data, settings)
        return 0 if error == ERROR_CODES[name] else error

    return Ways(checked=looked)


def stale(batch, offset, settings):
    """Keep the checksum of the batch with CreateTime."""
    right = stored(batch, offset, settings)
    before = stored(batch, offset, {**settings, "timestampType": "CreateTime"})
    return right[:CRC] + before[CRC : CRC + 4] + right[CRC + 4 :]


def as_the_producer_timed_it(batch, offset, settings):
    """Keep the maxTimestamp of the producer."""
    right, at = stored(batch, offset, settings), BATCH_LAYOUT.offset("maxTimestamp")
    return with_checksums(right[:at] + struct.pack(">q", batch["maxTimestamp"]) + right[at + 8 :])


def by_time(batch):
    """Sort the records by timestamp, at the same offsets."""
    ordered = sorted(batch["records"], key=lambda record: record["timestamp"])
    places = [record["offset"] for record in batch["records"]]
    return {"records": tuple({**record, "offset": at} for record, at in zip(ordered, places, strict=True))}


def with_records(change):
    """Return the fields of a batch with each record changed."""
    return lambda batch: {"records": tuple({**record, **change(record)} for record in batch["records"])}


def loses_the_last(batch, offset, settings):
    """Drop the last of several records."""
    kept = codec.decode("RECORD_BATCH", stored(batch, offset, settings)).value
    lost = {"records": kept["records"][:-1]} if len(kept["records"]) > 1 else {}
    return codec.encode("RECORD_BATCH", {**kept, **lost})


def old(change):
    """Convert a message set to a batch with other fields, from `change`."""

    def made(data):
        made, error = raised(data)
        if error:
            return made, error
        batch = codec.decode("RECORD_BATCH", made).value
        return codec.encode("RECORD_BATCH", {**batch, **change(batch)}), 0

    return Ways(raised=made)


def lowers(change):
    """Serve other records to an old consumer: `change` returns them for a message."""

    def made(data, magic):
        lowered_data = lowered(data, magic)
        sets = codec.decode("LOG", lowered_data).value["batches"] if lowered_data else ()
        return b"".join(encode_set(tuple(map(change, one["messages"])), magic, one["compression"]) for one in sets)

    return Ways(lowered=made)


def tells(change):
    """Return another response for a request with several partitions."""
    return Ways(together=lambda told: change(told) if len(told) > 1 else told)


def fails_what_follows():
    """Reject a case after a rejected batch."""
    errors = []

    def looked(data, settings):
        error = checked(data, settings)
        if error:
            errors.append(error)
        return error or (errors.pop() if errors and data != plain_log(2) else 0)

    return Ways(checked=looked)


def first_batch(data):
    """Return the first of several batches."""
    return data[: next(stop for _, stop in extents(data))]


def answers(change, name=""):
    """Send other responses, to all requests or to one kind: `change` returns them for request and response.

    The suite's own requests, such as for a topic, get correct responses.
    """

    def sent(request, frame):
        if name not in ("", request.name) or request.header["ClientId"] == CLIENT:
            return frame
        changed = change(request, frame[4:])
        return None if changed is None else framed(changed)

    return Ways(answers=sent)


def closes(when):
    """Close the connection instead of a response to some requests."""
    return answers(lambda request, answer: None if when(request) else answer)


def in_another_order():
    """Delay a response to Metadata and Fetch until after the next one."""
    held = []

    def sent(request, frame):
        if request.header["ClientId"] != CLIENT and request.header["CorrelationId"] == 1:
            held.append(frame)
            return b""
        return frame + (held.pop() if held else b"")

    return Ways(answers=sent)


def of_version_before(request, answer):
    """Return the response in the previous version."""
    if request.name not in ("Metadata", "JoinGroup") or request.version < 5:
        return answer
    body = response_in(answer, request.name, request.version)[1]
    return response_frame(request.header["CorrelationId"], request.name, request.version - 1, body)


def closed_up(batch):
    """Return a batch that starts and ends at its existing records."""
    if not batch["records"]:
        return batch
    offsets = [record["offset"] for record in batch["records"]]
    placed = [{**one, "offsetDelta": one["offset"] - offsets[0]} for one in batch["records"]]
    return {**batch, "baseOffset": offsets[0], "lastOffsetDelta": offsets[-1] - offsets[0], "records": tuple(placed)}


def moved_on(before, batch):
    """Return a batch with the sequence of its first existing record."""
    gone = before["recordCount"] - batch["recordCount"]
    return {**batch, "baseSequence": batch["baseSequence"] + gone} if batch["producerId"] >= 0 else batch


def of_unreadable(does, sends=None):
    """Act on an unreadable frame, and send the result of `sends`; without it, close."""

    def sent(broker, frame):
        does(broker)
        return None if sends is None else sends(frame)

    return Ways(unreadable=sent)


def as_version_0(frame):
    """Return a plain response of version 0 to a request of any version."""
    key, _, correlation = struct.unpack_from(">hhi", frame)
    return framed(answer_to(ExpectedResponse(names()[key], 0, correlation)))


def counted_anew(before, batch):
    """Return a batch with a new base timestamp and the old deltas."""
    deltas = [record["timestamp"] - before["baseTimestamp"] for record in batch["records"]]
    moved = [{**one, "timestampDelta": delta, "timestamp": batch["baseTimestamp"] + delta}
             for one, delta in zip(batch["records"], deltas, strict=True)]  # fmt: skip
    return {**batch, "records": tuple(moved)}


def does_not_wrap(batches):
    """Return the result of a batch if 2147483648 should follow 2147483647."""
    own = [one for one in batches if one["producerId"] == batches[-1]["producerId"]]
    has_wrapped = len(own) > 1 and own[-2]["baseSequence"] + own[-2]["recordCount"] > 1 << 31
    return "out-of-order" if has_wrapped and own[-1]["baseSequence"] >= 0 else fate(batches)


def counts_anew(log):
    """Restart an empty log at offset 0."""
    if log.start == log.end:
        log.batches, log.start, log.end = [], 0, 0


def forgets_transactions(log):
    """Forget aborted transactions after their first record was removed."""
    log.aborted = [one for one in log.aborted if one[1] >= log.start]


def forgets_producers(log):
    """Forget the batches of producers."""
    log.sent, log.firsts = [], {}


def with_markers(data, magic):
    """Return messages, and one more for each marker."""
    shown = codec.decode("LOG", data).value["batches"]
    return lowered(b"".join(codec.encode("RECORD_BATCH", {**one, "isControlBatch": False}) for one in shown), magic)


def with_value(value):
    """Return markers with this value."""

    def made(*who, commit):
        whole = marker(*who, commit=commit)
        return {**whole, "records": tuple({**record, "value": value} for record in whole["records"])}

    return made


ONE_PRODUCER = {"producerId": 7, "producerEpoch": 0, "baseSequence": 0}

BROKER_FAULTS = {
    "loses the times of old messages": BrokerFault(
        old(with_records(lambda _: {"timestamp": -1})), "append/magic-1-in-produce-2", "convert.up-to-v2"),
    "gives messages without a time its own": BrokerFault(
        old(with_records(lambda _: {"timestamp": 5})), "append/magic-0-in-produce-0", "convert.up-to-v2"),
    "makes null in messages empty": BrokerFault(
        old(with_records(lambda one: {"key": one["key"] or b""})), "append/magic-0-in-produce-1", "convert.up-to-v2"),
    "takes a wrapper for its first message": BrokerFault(
        old(lambda batch: {"records": batch["records"][:1], "recordCount": 1, "lastOffsetDelta": 0}),
        "append/magic-1-gzip-in-produce-2", "convert.up-to-v2"),
    "takes messages with a wrong checksum": BrokerFault(
        Ways(raised=lambda _: (plain_log(2), 0)),
        "message-set/v1-crc-wrong:append", "legacy.crc-checked"),
    "takes messages of a size that is too small": BrokerFault(
        Ways(raised=lambda _: (plain_log(2), 0)),
        "message-set/v1-size-18:append", "broker.validates-records"),
    "loses the last record of a batch in an old version": BrokerFault(
        Ways(stored=loses_the_last), "append/magic-2-in-produce-2", "format.magic-versions"),
    "serves batches to consumers that know none": BrokerFault(
        Ways(carries=lambda _: 2), "append/magic-1-to-fetch-3", "convert.down-for-old-consumers"),
    "serves magic 1 to consumers that know magic 0": BrokerFault(
        Ways(carries=lambda version: max(1, max_magic_of_fetch(version))),
        "append/to-fetch-1",
        "convert.down-for-old-consumers",
    ),
    "serves magic 0 to consumers that know magic 1": BrokerFault(
        Ways(carries=lambda version: 0 if version < 4 else 2), "append/to-fetch-2", "convert.down-for-old-consumers"),
    "converts down with the times of no message": BrokerFault(
        lowers(lambda one: {**one, "timestamp": 0}), "append/times-to-fetch-3", "convert.down-for-old-consumers"),
    "converts down from offset 0": BrokerFault(
        lowers(lambda one: {**one, "offset": one["offset"] - 1}),
        "append/gzip-to-fetch-1", "offset.broker-assigns-base"),
    "forgets the type of the time on the way down": BrokerFault(
        lowers(lambda one: {**one, "timestampType": 0}),
        "append/log-append-time-to-fetch-3", "convert.down-for-old-consumers"),
    "converts zstd down": BrokerFault(
        Ways(lowered=lambda data, magic: lowered(data, magic) or b""),
        "append/zstd-to-fetch-1", "convert.down-for-old-consumers"),
    "writes headers into the value on the way down": BrokerFault(
        lowers(lambda one: {**one, "value": b"h=x" + (one["value"] or b"")}),
        "append/headers-to-fetch-3", "convert.down-loses-features"),
    "takes the damaged batches of a request with the sound one": BrokerFault(
        Ways(checked=lambda data, settings: checked(with_checksums(data), settings)),
        "append/beside-wrong-crc", "broker.tells-each-partition"),
    "stores the batches that it refuses in other partitions": BrokerFault(
        Ways(keeps_refused=True), "append/beside-codec-5", "broker.tells-each-partition"),
    "fails a whole request for one partition": BrokerFault(
        fails_what_follows(), "append/beside-wrong-crc", "broker.tells-each-partition"),
    "tells each partition the offset of another": BrokerFault(
        tells(lambda told: [{**one, "ErrorCode": 0, "BaseOffset": 1} for one in told]),
        "append/beside-cut-batch", "broker.tells-each-partition"),
    "takes the first of several batches": BrokerFault(
        Ways(checked=lambda data, settings: checked(first_batch(data), settings)),
        "append/two-batches", "offset.broker-assigns-base"),
    "does not keep to the limit of a topic": BrokerFault(
        Ways(is_too_large=lambda *_: False), "append/one-byte-too-large", "broker.keeps-size-limit"),
    "refuses what has just the size of the limit": BrokerFault(
        Ways(is_too_large=lambda size, limit: size >= limit),
        "append/of-the-largest-size", "broker.keeps-size-limit"),
    "leaves the size out that stands in front of a batch": BrokerFault(
        Ways(is_too_large=lambda size, limit: size - 12 > limit),
        "append/gzip-too-large", "broker.keeps-size-limit"),
    "keeps the offsets as sent": BrokerFault(
        Ways(stored=lambda batch, _, settings: stored(batch, 0, settings)),
        "append/offset-assigned", "offset.broker-assigns-base"),
    "keeps a maxTimestamp that is not the largest": BrokerFault(
        Ways(stored=as_the_producer_timed_it),
        "batch/max-timestamp-last-records-own:append", "broker.writes-max-timestamp"),
    "tells an offset too far on": BrokerFault(
        Ways(told=lambda offset: offset + 1), "append/offset-assigned", "offset.broker-assigns-base"),
    "tells offset 0 of every batch": BrokerFault(
        Ways(told=lambda _: 0), "append/offset-assigned", "offset.broker-assigns-base"),
    "does not check checksums": BrokerFault(
        Ways(checked=lambda data, settings: checked(with_checksums(data), settings)),
        "append/wrong-crc-gzip", "crc.broker-validates"),
    "refuses a wrong checksum with an error that does not say so": BrokerFault(
        Ways(checked=lambda data, settings: 87 * bool(checked(data, settings))),
        "append/wrong-crc-none", "crc.broker-validates"),
    "refuses a gap with an error that does not say so": BrokerFault(
        Ways(fate_codes={**FATE_CODES, "out-of-order": 42}), "sequence/gap", "sequence.gap-out-of-order"),
    "stores what it refused": BrokerFault(Ways(keeps_refused=True), "append/wrong-crc-none", "crc.broker-validates"),
    "stores a sound batch that it refused": BrokerFault(
        Ways(checked=lambda data, settings: checked(data, settings) or 87 * (len(data) > 500), keeps_refused=True),
        "append/codec-none", "offset.broker-assigns-base"),
    "does not look at records": BrokerFault(
        passes_over("malformed"), "batch/spare-record-after-records:append", "broker.validates-records"),
    "takes a codec that is none": BrokerFault(
        passes_over("unsupported-codec"), "attributes/codec-5:append", "broker.validates-records"),
    "does not serve long batches": BrokerFault(
        Ways(served=lambda batch: [batch] if len(batch) < 500 else []),
        "append/kept-none", "compression.broker-keeps-producer-codec"),
    "serves what it took twice": BrokerFault(
        Ways(served=lambda batch: [batch, batch]), "append/kept-none", "compression.broker-keeps-producer-codec"),
    "loses the last record": BrokerFault(
        Ways(stored=loses_the_last),
        "append/records-of-zstd-in-snappy", "compression.recompression-preserves-records"),
    "forgets the producer's codec": BrokerFault(
        serves(lambda _: {"compression": 0}), "append/kept-gzip", "compression.broker-keeps-producer-codec"),
    "does not uncompress": BrokerFault(
        ignores("compressionType"), "append/snappy-uncompressed", "compression.broker-none-uncompresses"),
    "does not compress as the topic says": BrokerFault(
        ignores("compressionType"), "append/none-to-gzip", "compression.broker-codec-wins"),
    "knows no zstd": BrokerFault(
        refuses(lambda batch: CODEC_NAMES[batch.get("compression", 0)] == "zstd", ERROR_CODES["unsupported-codec"]),
        "append/codec-zstd", "broker.supports-all-codecs"),
    "keeps the checksum under LogAppendTime": BrokerFault(
        Ways(stored=stale), "append/log-append-time-lz4", "crc.mismatch-corrupt"),
    "does not stamp under LogAppendTime": BrokerFault(
        ignores("timestampType"), "append/log-append-time-none", "timestamp.log-append-overwritten"),
    "writes its own time under CreateTime": BrokerFault(
        serves(with_records(lambda _: {"timestamp": 5})), "append/timestamps-kept", "timestamp.create-time-preserved"),
    "leaves the leader epoch at -1": BrokerFault(
        rewrites(lambda _: {"partitionLeaderEpoch": -1}),
        "append/leader-epoch-minus-one", "batch.partition-leader-epoch-by-broker"),
    "sorts records by time": BrokerFault(serves(by_time), "append/order", "broker.preserves-order"),
    "forgets the producer": BrokerFault(
        serves(lambda _: {"producerId": -1, "producerEpoch": -1, "baseSequence": -1}),
        "producer/id-zero:append", "batch.producer-id"),
    "appends duplicates again": BrokerFault(
        calls(duplicate="accept"), "sequence/repeat-of-the-last", "sequence.duplicate-deduplicated"),
    "accepts a gap": BrokerFault(calls(out_of_order="accept"), "sequence/gap", "sequence.gap-out-of-order"),
    "takes an older epoch": BrokerFault(calls(fenced="accept"), "sequence/older-epoch", "producer-epoch.fences"),
    "takes producers for one": BrokerFault(
        sees(lambda _: {"producerId": 7}), "sequence/two-producers", "sequence.monotonic-per-partition"),
    "counts batches without a producer": BrokerFault(
        sees(lambda batch: ONE_PRODUCER if batch["producerId"] < 0 else {}),
        "sequence/no-producer", "non-idempotent.producer-id"),
    "ends an answer with a byte too many": BrokerFault(
        answers(lambda _, answer: answer + b"\0", "Metadata"), "exchange/metadata-9", "response.size"),
    "answers in the version before": BrokerFault(
        answers(of_version_before), "exchange/metadata-5", "definitions.response-version-matches"),
    "leaves the tags out of the header": BrokerFault(
        answers(lambda request, answer: answer[:4] + answer[5:] if request.version > 8 else answer, "Metadata"),
        "exchange/metadata-9", "tagged.only-in-flexible"),
    "writes tags into every header": BrokerFault(
        answers(lambda request, answer: answer[:4] + b"\0" + answer[4:] if request.version < 9 else answer, "Metadata"),
        "exchange/metadata-8", "tagged.only-in-flexible"),
    "counts its answers itself": BrokerFault(
        answers(lambda _, answer: b"\0\0\1\0" + answer[4:], "Metadata"),
        "exchange/metadata-1", "response.correlation-id"),
    "turns correlation ids around": BrokerFault(
        answers(lambda _, answer: answer[:4][::-1] + answer[4:]),
        "exchange/correlation-ids", "response.correlation-id"),
    "answers what is quickly done first": BrokerFault(in_another_order(), "exchange/order-of-many", "response.order"),
    "does not let a fetch hold others up": BrokerFault(
        in_another_order(), "exchange/order-behind-a-fetch-that-waits", "response.order"),
    "does not answer an empty list": BrokerFault(
        closes(lambda request: request.name == "Metadata" and request.version and request.body["Topics"] == ()),
        "exchange/metadata-1-edges", "response.each-request"),
    "does not take a client without an id": BrokerFault(
        closes(lambda request: request.header["ClientId"] is None),
        "exchange/metadata-1-null", "definitions.nullable-versions-range"),
    "does not know the tags of others": BrokerFault(
        closes(lambda request: request.body.get("_unknownTaggedFields")),
        "exchange/metadata-9-tags", "tagged.unknown-skipped"),
    "answers a member that joins by the version before": BrokerFault(
        answers(of_version_before, "JoinGroup"), "exchange/join-group-7", "definitions.response-version-matches"),
    "does not answer a login that nobody has begun": BrokerFault(
        closes(lambda request: request.name == "SaslAuthenticate"),
        "exchange/sasl-authenticate-2", "response.each-request"),
    "says a size for all answers at once": BrokerFault(
        answers(lambda _, answer: answer + b"\0"),
        "exchange/sizes-at-once", "response.size"),
    "tells one offset of every batch": BrokerFault(
        Ways(told=lambda _: 1), "scenario/plain", "broker.monotonic-offsets"),
    "gives every producer one id": BrokerFault(
        Ways(identity=lambda _: 4000), "scenario/identities", "producer-id.assigned-by-broker"),
    "gives a new instance the old epoch": BrokerFault(
        Ways(epoch_rises=False), "scenario/instances", "producer-epoch.fences"),
    "takes an older instance": BrokerFault(Ways(fences=False), "scenario/instances", "producer-epoch.fences"),
    "writes no markers": BrokerFault(
        Ways(marks=lambda *_, **__: None), "scenario/committed", "broker.marks-transactions"),
    "marks every transaction as committed": BrokerFault(
        Ways(marks=lambda identity, epoch, **_: marker(identity, epoch, commit=True)),
        "scenario/aborted", "broker.marks-transactions"),
    "marks the transaction of another producer": BrokerFault(
        Ways(marks=lambda identity, epoch, commit: marker(identity + 1, epoch, commit=commit)),
        "scenario/committed", "broker.marks-transactions"),
    "marks outside of the transaction": BrokerFault(
        Ways(marks=lambda *who, commit: {**marker(*who, commit=commit), "isTransactional": False}),
        "scenario/committed", "broker.marks-transactions"),
    "writes no value into its markers": BrokerFault(
        Ways(marks=with_value(None)), "scenario/committed", "broker.marks-transactions"),
    "leaves the epoch of the coordinator out": BrokerFault(
        Ways(marks=with_value(b"\0\0")), "scenario/aborted", "broker.marks-transactions"),
    "writes a negative version into its markers": BrokerFault(
        Ways(marks=with_value(b"\xff\xff\0\0\0\0")), "scenario/committed", "broker.marks-transactions"),
    "lists no aborted transactions": BrokerFault(
        Ways(lists=lambda _: []), "scenario/aborted", "broker.marks-transactions"),
    "lists an aborted transaction one batch late": BrokerFault(
        Ways(lists=lambda due: [{**one, "FirstOffset": one["FirstOffset"] + 2} for one in due]),
        "scenario/aborted", "broker.marks-transactions"),
    "lists the last aborted transaction alone": BrokerFault(
        Ways(lists=lambda due: due[-1:]), "scenario/aborted-then-committed", "broker.marks-transactions"),
    "lists the first aborted transaction alone": BrokerFault(
        Ways(lists=lambda due: due[:1]), "scenario/aborted-over-segments", "broker.marks-transactions"),
    "holds nothing back": BrokerFault(
        Ways(holds_back=lambda _: 1 << 40), "scenario/undecided", "broker.holds-back-undecided"),
    "holds back from the newest transaction on": BrokerFault(
        Ways(holds_back=max), "scenario/two-undecided", "broker.holds-back-undecided"),
    "begins behind the batch of the offset": BrokerFault(
        Ways(inside=False), "scenario/inside-a-batch", "broker.serves-from-offset"),
    "serves no batch larger than the fetch": BrokerFault(
        Ways(whole=False), "scenario/few-bytes", "broker.serves-from-offset"),
    "answers beyond the end": BrokerFault(Ways(ends=False), "scenario/inside-a-batch", "broker.serves-from-offset"),
    "compacts to the records that are left": BrokerFault(
        Ways(cleaned=lambda batch, *how: closed_up(cleaned(batch, *how))),
        "scenario/compacted", "compaction.offsets-preserved"),
    "moves the sequence of a compacted batch": BrokerFault(
        Ways(cleaned=lambda batch, *how: moved_on(batch, cleaned(batch, *how))),
        "scenario/compacted-producers", "compaction.sequences-preserved"),
    "counts the old deltas from the new base timestamp": BrokerFault(
        Ways(cleaned=lambda batch, *how: counted_anew(batch, cleaned(batch, *how))),
        "scenario/compacted", "compaction.base-timestamp-changes"),
    "loses the last record of a key": BrokerFault(
        Ways(cleaned=lambda batch, kept, due: cleaned(batch, frozenset(kept) - {max(kept) - 1}, due)),
        "scenario/compacted", "compaction.offsets-preserved"),
    "expects no 0 behind the last sequence": BrokerFault(
        Ways(fate=does_not_wrap), "scenario/wrap", "sequence.wraps-at-int32-max"),
    "forgets producers in a restart": BrokerFault(
        Ways(restarted=forgets_producers), "scenario/wrap-and-restart", "sequence.duplicate-deduplicated"),
    "serves what was deleted": BrokerFault(Ways(begins=False), "scenario/deleted", "broker.tells-log-start"),
    "tells a low watermark one too high": BrokerFault(
        Ways(low=lambda start: start + 1), "scenario/deleted", "broker.tells-log-start"),
    "lists offset 0 as the earliest": BrokerFault(
        Ways(earliest=lambda _: 0), "scenario/deleted", "broker.tells-log-start"),
    "leads a time to a record that was deleted": BrokerFault(
        Ways(timed=lambda records, _, time: next(one for one in [*records, (-1, -1)] if one[1] >= time or one[1] < 0)),
        "scenario/by-time-in-what-is-left", "broker.finds-by-time"),
    "leads a time to the record that has just this time": BrokerFault(
        Ways(timed=lambda records, _, time: next((one for one in records if one[1] == time), (-1, -1))),
        "scenario/by-time", "broker.finds-by-time"),
    "leads a time behind all records to the last one": BrokerFault(
        Ways(timed=lambda records, start, time: next(
            (one for one in records if one[0] >= start and one[1] >= time), records[-1])),
        "scenario/by-time", "broker.finds-by-time"),
    "tells a producer a time where there is none": BrokerFault(
        Ways(append_time=lambda _: 1234), "append/create-time-tells-none", "broker.tells-append-time"),
    "tells a producer no time where there is one": BrokerFault(
        Ways(append_time=lambda _: -1), "append/append-time-is-told", "broker.tells-append-time"),
    "answers what asks for no answer": BrokerFault(
        Ways(acknowledges=lambda _: True), "scenario/without-answers", "broker.leaves-acks-0-unanswered"),
    "counts the offsets of an empty log anew": BrokerFault(
        Ways(deleted=counts_anew), "scenario/expired", "broker.monotonic-offsets"),
    "forgets in a restart what was deleted": BrokerFault(
        Ways(restarted=lambda log: setattr(log, "start", 0)),
        "scenario/deleted-and-restarted", "broker.tells-log-start"),
    "forgets an aborted transaction whose first record is deleted": BrokerFault(
        Ways(deleted=forgets_transactions), "scenario/deleted-transactions", "broker.marks-transactions"),
    "removes tombstones at once": BrokerFault(
        Ways(forgets=lambda _, every: every), "scenario/compacted-tombstones", "delete-horizon.kept-until"),
    "sets the bit of the delete horizon and leaves the base timestamp": BrokerFault(
        Ways(cleaned=lambda batch, kept, due: cleaned(batch, kept, due and batch["baseTimestamp"])),
        "scenario/compacted-tombstones", "delete-horizon.set-by-compaction"),
    "refuses an offset that compaction removed": BrokerFault(
        Ways(fills=False), "scenario/compacted-tombstones-gone", "broker.serves-from-offset"),
    "takes an aborted record for the last of its key": BrokerFault(
        Ways(is_gone=lambda _: False), "scenario/compacted-transactions", "compaction.offsets-preserved"),
    "serves markers to old consumers": BrokerFault(
        Ways(lowered=with_markers), "scenario/older-fetches", "convert.down-for-old-consumers"),
    "serves the oldest consumers messages of magic 1": BrokerFault(
        Ways(lowered=lambda data, _: lowered(data, 1)), "scenario/older-fetches", "convert.down-for-old-consumers"),
    "serves an old consumer no batch larger than the fetch": BrokerFault(
        Ways(whole=False), "scenario/older-fetches-few-bytes", "broker.serves-from-offset"),
    "waits for what a negative size announces": BrokerFault(
        of_unreadable(lambda _: None, lambda _: b""), "exchange/hostile-size-negative", "robustness.answers"),
    "dies of a frame": BrokerFault(
        of_unreadable(lambda broker: broker.stop()), "exchange/hostile-api-key", "robustness.answers"),
    "serves nobody any more after a frame": BrokerFault(
        of_unreadable(lambda broker: broker.hang()), "exchange/hostile-array-count", "robustness.answers"),
    "takes a version that it does not know for another": BrokerFault(
        of_unreadable(lambda _: None, as_version_0), "exchange/version-not-offered", "request.version-rejected"),
    "does not answer clients that are newer": BrokerFault(
        Ways(refuses_versions=False), "exchange/api-versions-not-offered", "api-versions.unknown-version"),
}  # fmt: skip
