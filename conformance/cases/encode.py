"""`encode` cases: the request for a value, and the bytes that an encoder must write."""

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
"""The span of partitionLeaderEpoch, which is not judged: the broker sets it, and the checksum does not cover it."""

FREE_FIELDS = ("batchLength", "crc", "attributes", "partitionLeaderEpoch")
"""Fields of a compressed batch that an encoder does not choose, or that are not judged."""

_COMPRESSIBLE = 1000
"""An encoder may leave fewer bytes of records uncompressed."""


def encode_question(wire: codec.WireType, value: Value, data: bytes) -> RequestWithExpectation:
    """Return the parts and the expectation of the request to encode the value in `data`. Raises NotTestable.

    `value` is the whole value, as the reference reads it; only a message may lack fields at their default.
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
    """Return the bytes that an encoder must write for `value`.

    `data` contains the value, and the reference writes `written` for it. Raises NotTestable if a correct encoder may
    write other bytes.
    """
    if wire.name == "RECORD_BATCH":
        return _batch_expectation(value, data, written)
    if wire.name == "MESSAGE_SET":
        return _set_expectation(value, data, written)
    if written != data:
        raise NotTestable("these are not the bytes that an encoder writes")
    return ExpectEquivalentBytes(codec.decode(wire, data).value) if is_free(wire) else ExpectBytes(data)


def expected_rejection(wire: codec.WireType, value: Value) -> ExpectRejection | ExpectAnyOf:
    """Return the expectation for a value without an encoding: a rejection, or the bytes of a corrected value.

    Corrections that the format itself gives (decisions#how-we-judge-with-this-page, rule 8): tagged fields in
    ascending order, one field per tag, 0 as the attributes of a record, and an empty array for null topics in
    MetadataRequest 0, which requests all topics. A string may lose its lone surrogates
    (decisions#strings-bytes-arrays).
    """
    rejection = ExpectRejection(None, "invalid-value")
    ignoring = LEADER_EPOCH if wire.name == "RECORD_BATCH" else (0, 0)
    written = []
    for corrected in _corrections(wire, value):
        with suppress(codec.Unencodable):
            written.append(ExpectBytes(codec.encode(wire, corrected), ignoring))
    if written and (is_free(wire) or (wire.name == "RECORD_BATCH" and value.get("compression"))):
        return ExpectAnyOf()
    return ExpectAnyOf((rejection, *written)) if written else rejection


def _corrections(wire: codec.WireType, value: Value) -> Iterable[Value]:
    """Return the corrected values that an encoder may write instead of the value."""
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
    return [text for by in _REPLACEMENTS if (text := _without_surrogates(value, by)) != value]


_REPLACEMENTS = ("?", "\ufffd", "")
"""Replacements of a lone surrogate: by Java, by most other languages, and its removal."""


def _without_surrogates(value: Value, by: str) -> Value:
    """Return the value with each lone surrogate of its strings replaced."""
    if isinstance(value, str):
        return LONE.sub(by, value)
    if isinstance(value, dict):
        return {name: _without_surrogates(entry, by) for name, entry in value.items()}
    return tuple(_without_surrogates(entry, by) for entry in value) if isinstance(value, tuple) else value


_ALL_TOPICS = type_name("MetadataRequest", 0)
"""In this version an empty array requests all topics; from version 1 on, null does."""


def is_free(wire: codec.WireType) -> bool:
    """Return whether a type has several encodings of a value: an encoder may omit tagged fields at their default."""
    if not isinstance(wire, codec.MessageType):
        return False
    return any(wire.version in member.tagged for members in wire.message.structures.values() for member in members)


def _encode_parts(wire: codec.WireType, value: Value, data: bytes) -> tuple[Request, dict[str, int]]:
    """Return the parts of the request, and the parameters of the reference: magic and codec of a message set."""
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
    """Return the fields of a batch that an encode request contains, in notation."""
    shown = codec.TYPES["RECORD_BATCH"].notation.render(value)
    request = {name: shown[name] for name in ENCODE_FIELDS}
    request["records"] = [{name: record[name] for name in RECORD_ENCODE_FIELDS} for record in shown["records"]]
    return request


def _batch_expectation(value: Value, data: bytes, written: bytes) -> ExpectBytes | ExpectEquivalentBytes:
    start, stop = LEADER_EPOCH
    places = [record["offset"] - value["baseOffset"] for record in value["records"]]
    if places != list(range(len(places))):
        raise NotTestable("the offsets have gaps, but an encoder numbers the records of a batch without gaps")
    if value["compression"] == 0:
        if written[:start] != data[:start] or written[stop:] != data[stop:]:
            raise NotTestable("these are not the bytes that an encoder writes")
        return ExpectBytes(data, LEADER_EPOCH)
    read = codec.decode("RECORD_BATCH", data).value
    plain = sum(len(codec.wire("RECORD").encode(record)) for record in read["records"])
    _check_pays(plain, len(written) - HEADER_SIZE)
    kept = _judged_fields(read)
    if written != data and _judged_fields(codec.decode("RECORD_BATCH", written).value) != kept:
        raise NotTestable("the request cannot express everything in these bytes")
    return ExpectEquivalentBytes(kept)


def _judged_fields(batch: Value) -> Value:
    return {name: entry for name, entry in batch.items() if name not in FREE_FIELDS}


def _check_pays(plain: int, compressed: int) -> None:
    """Raise NotTestable if an encoder may leave records of these sizes in bytes uncompressed."""
    if plain < _COMPRESSIBLE or compressed > plain // 2:
        raise NotTestable(
            f"an encoder may leave these records uncompressed ({plain} bytes, compressed {compressed}): compression is "
            f"tested only for at least {_COMPRESSIBLE} bytes that it halves"
        )


# --- message sets -------------------------------------------------------------------------------------


def _one_format(entries: Value) -> tuple[int, int]:
    """Return the magic and codec of all entries of a log. Raises NotTestable if they differ."""
    formats = {(entry["magic"], entry["compression"]) for entry in entries}
    if len(formats) != 1:
        raise NotTestable("an encoder writes only messages of one magic and codec")
    return next(iter(formats))


def _set_expectation(messages: Value, data: bytes, written: bytes) -> ExpectBytes | ExpectEquivalentBytes:
    """Return the expectation for plain messages, or for one wrapper that contains all of them."""
    log = codec.decode("LOG", data).value
    magic, compression = _one_format(log["batches"])
    if any(message.get("timestampType") for message in messages):
        raise NotTestable("only a broker writes LogAppendTime")
    if compression == 0:
        if written != data:
            raise NotTestable("these are not the bytes that an encoder writes")
        return ExpectBytes(data)
    _check_pays(len(codec.encode("MESSAGE_SET", messages, magic=magic)), len(written))
    if written != data and codec.decode("LOG", written).value != log:
        raise NotTestable("the request cannot express everything in these bytes")
    return ExpectEquivalentBytes(log, "LOG")
