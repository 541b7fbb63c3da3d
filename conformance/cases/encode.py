"""What an encoder is asked for a value, and what it must write."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product

from conformance import codec
from conformance.cases.model import (
    ExpectAnyOf,
    ExpectBytes,
    ExpectEquivalentBytes,
    ExpectRejection,
    NotTestable,
    Request,
    RequestWithExpectation,
    Value,
)
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import LONE
from conformance.codec.message_spec import type_name
from conformance.codec.record_batch import BATCH_LAYOUT, ENCODE_FIELDS, HEADER_SIZE, RECORD_ENCODE_FIELDS

LEADER_EPOCH = (BATCH_LAYOUT.offset("partitionLeaderEpoch"), BATCH_LAYOUT.offset("magic"))
"""Where partitionLeaderEpoch lies: outside the checksum, written by the broker, not judged in what encoders write."""

FREE_FIELDS = ("batchLength", "crc", "attributes", "partitionLeaderEpoch")
"""Fields of a compressed batch that an encoder does not choose, or is not judged on."""

_COMPRESSIBLE = 1000
"""Bytes of plain records from which on every encoder compresses; fewer it may write as they are."""


def encode_question(wire: codec.WireType, value: Value, data: bytes) -> RequestWithExpectation:
    """How an encoder is asked for a value that lies in `data`, and what it must write. Raises NotTestable.

    `value` is the whole value, as the reference reads it; only of a message, fields at their default may be missing.
    """
    parts, parameters = _encode_parts(wire, value, data)
    try:
        written = codec.encode(wire, value, **parameters)
    except codec.Unencodable as error:
        raise NotTestable(f"the value has no encoding ({error})") from None
    return RequestWithExpectation(parts, encode_expectation(wire, value, data, written))


def encode_expectation(
    wire: codec.WireType, value: Value, data: bytes, written: bytes
) -> ExpectBytes | ExpectEquivalentBytes:
    """What an encoder that is asked for `value` must write.

    The value lies in `data`; the reference writes `written` for it. Raises NotTestable where not every encoder can be
    asked for these bytes.
    """
    if wire.name == "RECORD_BATCH":
        return _batch_expectation(value, data, written)
    if wire.name == "MESSAGE_SET":
        return _set_expectation(value, data, written)
    if written != data:
        raise NotTestable("these are not the bytes that an encoder writes")
    return ExpectEquivalentBytes(codec.decode(wire, data).value) if is_free(wire) else ExpectBytes(data)


def expected_rejection(wire: codec.WireType, value: Value) -> ExpectRejection | ExpectAnyOf:
    """What must come of a value without an encoding.

    It is refused, or a value that comes of it by the format's own rules is written: tagged fields in ascending order,
    one of each tag, 0 as the attributes of a record, no topics for null in MetadataRequest 0, where that asks for all
    of them (decisions#how-we-judge-with-this-page, rule 8), and text without the lone surrogates in it
    (decisions#strings-bytes-arrays).
    """
    refused = ExpectRejection(None, "invalid-value")
    ignoring = LEADER_EPOCH if wire.name == "RECORD_BATCH" else (0, 0)
    written = []
    for mended in _mended(wire, value):
        with suppress(codec.Unencodable):
            written.append(ExpectBytes(codec.encode(wire, mended), ignoring))
    if written and (is_free(wire) or (wire.name == "RECORD_BATCH" and value.get("compression"))):
        return ExpectAnyOf()
    return ExpectAnyOf((refused, *written)) if written else refused


def _mended(wire: codec.WireType, value: Value) -> Iterable[Value]:
    if wire.name == "TAGGED_FIELDS":
        if any("tag" not in entry for entry in value):
            return ()
        by_tag: dict[int, list[Value]] = {}
        for entry in value:
            by_tag.setdefault(entry["tag"], []).append(entry)
        return product(*(by_tag[tag] for tag in sorted(by_tag)))
    if wire.name == _ALL_TOPICS and value.get("Topics", ()) is None:
        return ({**value, "Topics": ()},)
    if wire.name == "RECORD" and value.get("attributes"):
        return ({**value, "attributes": 0},)
    return [text for by in _REPLACEMENTS if (text := _as_text(value, by)) != value]


_REPLACEMENTS = ("?", "\ufffd", "")
"""What stands for a lone surrogate where a writer replaces it: Java's, that of most others, and nothing."""


def _as_text(value: Value, by: str) -> Value:
    """The value with each lone surrogate of its strings replaced."""
    if isinstance(value, str):
        return LONE.sub(by, value)
    if isinstance(value, dict):
        return {name: _as_text(entry, by) for name, entry in value.items()}
    return tuple(_as_text(entry, by) for entry in value) if isinstance(value, tuple) else value


_ALL_TOPICS = type_name("MetadataRequest", 0)
"""Null stands for all topics from version 1 on, an empty array in this one."""


def is_free(wire: codec.WireType) -> bool:
    """Whether a value of a type has more encodings than one: tagged fields at their default may be left out or not."""
    if not isinstance(wire, codec.MessageType):
        return False
    return any(wire.version in member.tagged for members in wire.message.structures.values() for member in members)


def _encode_parts(wire: codec.WireType, value: Value, data: bytes) -> tuple[Request, dict[str, int]]:
    """The request, and what the reference is told beside the value: the magic and the codec of a message set."""
    if wire.name == "RECORD_BATCH":
        return {"value": batch_to_encode(value)}, {}
    shown = {"value": wire.notation.render(value)}
    if wire.name != "MESSAGE_SET":
        return shown, {}
    magic, compression = _one_format(codec.decode("LOG", data).value["batches"])
    request = {"magic": magic, "compression": CODEC_NAMES[compression], **shown}
    return request, {"magic": magic, "compression": compression}


# --- record batches -----------------------------------------------------------------------------------


def batch_to_encode(value: Value) -> Request:
    """What an encoder is told of a batch, in notation."""
    shown = codec.TYPES["RECORD_BATCH"].notation.render(value)
    request = {name: shown[name] for name in ENCODE_FIELDS}
    request["records"] = [{name: record[name] for name in RECORD_ENCODE_FIELDS} for record in shown["records"]]
    return request


def _batch_expectation(value: Value, data: bytes, written: bytes) -> ExpectBytes | ExpectEquivalentBytes:
    start, stop = LEADER_EPOCH
    places = [record["offset"] - value["baseOffset"] for record in value["records"]]
    if places != list(range(len(places))):
        raise NotTestable("an encoder gives the records of a batch offsets without gaps, so no others are asked for")
    if value["compression"] == 0:
        if written[:start] != data[:start] or written[stop:] != data[stop:]:
            raise NotTestable("these are not the bytes that an encoder writes")
        return ExpectBytes(data, LEADER_EPOCH)
    read = codec.decode("RECORD_BATCH", data).value
    plain = sum(len(codec.wire("RECORD").encode(record)) for record in read["records"])
    _check_pays(plain, len(written) - HEADER_SIZE)
    kept = _judged_fields(read)
    if written != data and _judged_fields(codec.decode("RECORD_BATCH", written).value) != kept:
        raise NotTestable("the request cannot say all that these bytes hold")
    return ExpectEquivalentBytes(kept)


def _judged_fields(batch: Value) -> Value:
    return {name: entry for name, entry in batch.items() if name not in FREE_FIELDS}


def _check_pays(plain: int, compressed: int) -> None:
    """Raise NotTestable for records that an encoder may leave uncompressed, by their sizes in bytes."""
    if plain < _COMPRESSIBLE or compressed > plain // 2:
        raise NotTestable(
            f"an encoder may leave these records uncompressed ({plain} bytes, compressed {compressed}): only from "
            f"{_COMPRESSIBLE} bytes on that shrink to half is compression asked for"
        )


# --- message sets -------------------------------------------------------------------------------------


def _one_format(entries: Value) -> tuple[int, int]:
    """Magic and codec of all entries of a log. Raises NotTestable where these differ."""
    formats = {(entry["magic"], entry["compression"]) for entry in entries}
    if len(formats) != 1:
        raise NotTestable("an encoder writes messages of one magic and codec, so no others are asked for")
    return next(iter(formats))


def _set_expectation(messages: Value, data: bytes, written: bytes) -> ExpectBytes | ExpectEquivalentBytes:
    """Plain messages, or one wrapper with all of them."""
    log = codec.decode("LOG", data).value
    magic, compression = _one_format(log["batches"])
    if any(message.get("timestampType") for message in messages):
        raise NotTestable("only a broker writes LogAppendTime, so no encoder is asked for it")
    if compression == 0:
        if written != data:
            raise NotTestable("these are not the bytes that an encoder writes")
        return ExpectBytes(data)
    _check_pays(len(codec.encode("MESSAGE_SET", messages, magic=magic)), len(written))
    if written != data and codec.decode("LOG", written).value != log:
        raise NotTestable("the request cannot say all that these bytes hold")
    return ExpectEquivalentBytes(log, "LOG")
