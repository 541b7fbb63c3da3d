"""Inputs that grow in one dimension: a row for each codec, count and list in untrusted input."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from typing import TypeVar

from log_bytes import ABORT, batch, marker, message, part, record, wrapper

from conformance import codec
from conformance.cases.log_requests import read_expectation, sequence_question
from conformance.cases.operations import OPERATIONS
from conformance.codec import _stored_frames as stored_frames
from conformance.codec.builders import NO_PRODUCER
from conformance.codec.hex_dump import annotate
from conformance.codec.message_set import encode_set
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, with_checksums
from conformance.judging.log_operations import judge_read
from conformance.semantics.partition_log import compact_batch
from conformance.targets.reference import answer

T = TypeVar("T")
Request = dict[str, object]
Row = Callable[[int], Callable[[], object]]
"""A function from a size to the work at that size, which returns its answer for a check."""

ONE = batch(0)
PLAIN = ONE[HEADER_SIZE:]
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_XERIAL = stored_frames.SNAPPY[0](b"")[:16]
_LZ4_HEADER = stored_frames.LZ4[0](b"")[:7]
_ZSTD_HEADER = stored_frames.ZSTD[0](b"")[:6]
_EMPTY_FRAME = _ZSTD_HEADER + b"\1\0\0"
_SKIPPABLE = b"\x5a\x2a\x4d\x18" + bytes(4)


# --- requests -----------------------------------------------------------------------------------------


def answering(make: Callable[[int], Request]) -> Row:
    """Return the work of the reference for a protocol request."""

    def row(size: int) -> Callable[[], object]:
        request = make(size)
        return lambda: answer(request)

    return row


def decoding(name: str, make: Callable[[int], bytes]) -> Row:
    return answering(lambda size: {"op": "decode", "type": name, "hex": make(size).hex()})


def packed(number: int, make: Callable[[int], bytes], count: Callable[[int], int] = lambda _: 1) -> Row:
    """Return a batch with this payload in a codec and this record count."""
    return decoding("RECORD_BATCH", lambda size: _batch(number, make(size), count(size)))


def _batch(number: int, payload: bytes, count: int) -> bytes:
    head = BATCH_LAYOUT.with_field("recordCount", ONE[:HEADER_SIZE], count)
    head = BATCH_LAYOUT.with_field("lastOffsetDelta", BATCH_LAYOUT.with_field("compression", head, number), count - 1)
    return with_checksums(head + payload)


def _records(size: int) -> bytes:
    return PLAIN * size


def _with_headers(size: int) -> bytes:
    return batch(0, [record(0, headers=_two(size, {"key": "a", "value": b""}, {"key": "b", "value": b""}))])


def _two(size: int, one: T, other: T) -> tuple[T, ...]:
    """Alternate two elements, because the codec reads equal neighbours once."""
    return (one, other) * (size // 2) + (one,) * (size % 2)


def _uvarint(number: int) -> bytes:
    return codec.encode("UNSIGNED_VARINT", number)


def _read(log: bytes, *, aborted: int = 0) -> Request:
    listed = [{"producerId": "7", "firstOffset": str(at)} for at in range(aborted)]
    return {"op": "read", "hex": log.hex(), "isolation": "read_committed", "fetchOffset": "0", "aborted": listed}


def _transactions(size: int) -> bytes:
    return b"".join(part(3 * at) + marker(3 * at + 2, ABORT) for at in range(size))


def _sequence(size: int, step: int) -> Request:
    rows = [
        {"producerId": "7", "producerEpoch": 0, "baseSequence": (1 + at * step) % (1 << 31), "recordCount": 1}
        for at in range(size)
    ]
    return {"op": "sequence", "batches": rows}


def _to_encode(size: int) -> Request:
    rows = [{"offset": str(at), "timestamp": "0", "key": None, "value": "00", "headers": []} for at in range(size)]
    row = {"baseOffset": "0", "partitionLeaderEpoch": 0, "compression": "gzip", "timestampType": "CreateTime"}
    flags = {"isTransactional": False, "isControlBatch": False, **NO_PRODUCER, "producerId": "-1"}
    return {"op": "encode", "type": "RECORD_BATCH", "value": {**row, **flags, "records": rows}}


def _empty_structures(size: int) -> Request:
    """Return an array of arrays of structures without fields, which have no bytes."""
    fields = [{"name": "Some", "type": "[]Some", "versions": "0+", "fields": _NESTED}]
    definition = {"name": "Empty", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": fields}
    inner = struct.pack(">i", size) + bytes(size)
    data = struct.pack(">i", size) + struct.pack(">i", size) * size + inner
    return {
        "op": "decode",
        "type": "MESSAGE",
        "message": "Empty",
        "version": 0,
        "definition": definition,
        "hex": data.hex(),
    }


_NESTED = [
    {
        "name": "Nothing",
        "type": "[]Nothing",
        "versions": "0+",
        "fields": [{"name": "Later", "type": "int8", "versions": "1+"}],
    }
]


# --- other work ---------------------------------------------------------------------------------------


def _fates(step: int) -> Row:
    """Return the work to compute a broker's allowed results for batches."""

    def row(size: int) -> Callable[[], object]:
        given = OPERATIONS["sequence"].parse(_sequence(size, step), codec.wire("LOG"))
        return lambda: sequence_question(given["batches"])

    return row


def _judging(size: int) -> Callable[[], object]:
    """Return the work of a read by the reference and its verdict."""
    request = _read(b"".join(batch(at) for at in range(size)))
    data = bytes.fromhex(str(request["hex"]))

    def judged() -> object:
        expect = read_expectation(data, isolation="read_committed").expect
        return judge_read(expect, answer(request)["value"])

    return judged


def _compacting(size: int) -> Callable[[], object]:
    value = codec.decode("RECORD_BATCH", batch(0, range(size))).value
    return lambda: compact_batch(value, frozenset(range(0, size, 2)))


def _annotating(size: int) -> Callable[[], object]:
    data = b"".join(_batch(_GZIP, gzip.compress(PLAIN, mtime=0), 1) for _ in range(size))
    return lambda: annotate("LOG", data)


# --- the table ----------------------------------------------------------------------------------------

CODECS: dict[str, Row] = {
    "members of gzip": packed(_GZIP, lambda size: gzip.compress(b"", mtime=0) * size + gzip.compress(PLAIN, mtime=0)),
    "stored blocks of gzip": packed(_GZIP, lambda size: stored_frames.gzip(_records(size), block=1), lambda size: size),
    "chunks of snappy": packed(
        _SNAPPY, lambda size: _XERIAL + b"\0\0\0\1\0" * size + stored_frames.SNAPPY[0](PLAIN)[len(_XERIAL) :]
    ),
    "xerial headers of snappy": packed(_SNAPPY, lambda size: _XERIAL * size + stored_frames.SNAPPY[0](PLAIN)),
    "literals of snappy": packed(_SNAPPY, lambda size: stored_frames.SNAPPY[1](_records(size)), lambda size: size),
    "empty stored blocks of lz4": packed(
        _LZ4, lambda size: _LZ4_HEADER + b"\0\0\0\x80" * size + stored_frames.LZ4[0](PLAIN)[len(_LZ4_HEADER) :]
    ),
    "empty blocks of lz4": packed(
        _LZ4, lambda size: _LZ4_HEADER + b"\1\0\0\0\0" * size + stored_frames.LZ4[0](PLAIN)[len(_LZ4_HEADER) :]
    ),
    "blocks of lz4": packed(_LZ4, lambda size: stored_frames.lz4(_records(size), block=1), lambda size: size),
    "frames of lz4": packed(_LZ4, lambda size: stored_frames.LZ4[0](PLAIN) + stored_frames.LZ4[0](b"") * size),
    "frames of zstd": packed(_ZSTD, lambda size: _EMPTY_FRAME * size + stored_frames.ZSTD[0](PLAIN)),
    "skippable frames of zstd": packed(_ZSTD, lambda size: _SKIPPABLE * size + stored_frames.ZSTD[0](PLAIN)),
    "empty blocks of zstd": packed(
        _ZSTD, lambda size: _ZSTD_HEADER + bytes(3 * size) + stored_frames.ZSTD[0](PLAIN)[len(_ZSTD_HEADER) :]
    ),
}
"""The elements that each codec may have many of."""

COUNTS: dict[str, Row] = {
    "records": packed(0, _records, lambda size: size),
    "compressed records": packed(_GZIP, lambda size: gzip.compress(_records(size)), lambda size: size),
    "headers": decoding("RECORD_BATCH", _with_headers),
    "compressed headers": packed(_GZIP, lambda size: gzip.compress(_with_headers(size)[HEADER_SIZE:])),
    # Tags of three bytes each, because small tags are shorter.
    "tagged fields": decoding(
        "TAGGED_FIELDS",
        lambda size: _uvarint(size) + b"".join(_uvarint((1 << 14) + tag) + b"\1x" for tag in range(size)),
    ),
    "numbers in an array": decoding("ARRAY<INT8>", lambda size: struct.pack(">i", size) + bytes(_two(size, 0, 1))),
    "varints in an array": decoding(
        "ARRAY<VARLONG>", lambda size: struct.pack(">i", size) + b"".join(_two(size, b"\xff\xff\1", b"\xff\xfe\1"))
    ),
    "strings in an array": decoding(
        "COMPACT_ARRAY<COMPACT_STRING>", lambda size: _uvarint(size + 1) + b"".join(_two(size, b"\2x", b"\2y"))
    ),
    "arrays in an array": decoding(
        "COMPACT_ARRAY<COMPACT_ARRAY<INT8>>", lambda size: _uvarint(size + 1) + b"".join(_two(size, b"\1", b"\2x"))
    ),
    "structures without fields": answering(_empty_structures),
    "characters": decoding(
        "COMPACT_STRING", lambda size: _uvarint(size + 1) + b"\xc3\xa9" * (size // 2) + b"x" * (size % 2)
    ),
    "bytes that are not UTF-8": decoding("COMPACT_STRING", lambda size: _uvarint(size + 1) + b"\xff" * size),
    "messages": decoding("MESSAGE_SET", lambda size: b"".join(map(message, range(size)))),
    "messages in a wrapper": decoding("MESSAGE_SET", lambda size: wrapper(*range(size))),
    "wrappers": decoding("MESSAGE_SET", lambda size: b"".join(map(wrapper, range(size)))),
    "wrappers of lz4 in magic 0": decoding(
        "MESSAGE_SET", lambda size: b"".join(encode_set((record(at),), 0, _LZ4) for at in range(size))
    ),
    "batches in a log": decoding("LOG", lambda size: b"".join(map(batch, range(size)))),
    "compressed batches in a log": decoding(
        "LOG", lambda size: b"".join(batch(at, compression=_GZIP) for at in range(size))
    ),
    "batches in RECORDS": decoding("RECORDS", lambda size: codec.encode("RECORDS", b"".join(map(batch, range(size))))),
}
"""Structures with a large count or length."""

QUESTIONS: dict[str, Row] = {
    "batches that are read": answering(lambda size: _read(b"".join(map(batch, range(size))))),
    "transactions that are read": answering(lambda size: _read(_transactions(size), aborted=3 * size)),
    "aborted transactions": answering(lambda size: _read(ONE, aborted=size)),
    "batches of one producer": answering(lambda size: _sequence(size, 1)),
    "gaps of one producer": answering(lambda size: _sequence(size, 1 << 20)),
    "batches of one producer that are judged": _fates(1),
    "gaps of one producer that are judged": _fates(1 << 20),
    "messages converted up": answering(
        lambda size: {"op": "convert", "hex": b"".join(map(message, range(size))).hex(), "magic": 2, "baseOffset": "0"}
    ),
    "batches converted down": answering(
        lambda size: {"op": "convert", "hex": b"".join(map(batch, range(size))).hex(), "magic": 1}
    ),
    "records to encode": answering(_to_encode),
    "a fetch that is judged": _judging,
    "records compacted": _compacting,
    "compressed batches annotated": _annotating,
}
"""All work with long inputs."""

GROWING: dict[str, Row] = {**CODECS, **COUNTS, **QUESTIONS}
