"""Compression codecs, a row each: how a payload is opened, in bounds, and how one is written.

What each framing may hold, and which oddities are open, follows decisions (Compression); the libraries do the rest.
Opening streams: no more is taken out of a library than the limits allow, whatever a payload claims.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import lz4.block
import lz4.frame
import snappy
import zstandard

from conformance.codec.cursor import LIMIT_RULE, Cursor, Limits, Malformed

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec: its name in the documents, how its payload is opened and written."""

    name: str
    open: Callable[[Cursor, bytes], bytes]
    write: Callable[[bytes], bytes]


class _Sink:
    """Collects what comes out of a decompressor and stops at the limits."""

    def __init__(self, cursor: Cursor, payload: bytes) -> None:
        self._cursor = cursor
        limits: Limits = cursor.findings.limits
        self._most = min(limits.total, max(1 << 20, limits.ratio * len(payload)))
        self._parts: list[bytes] = []
        self.size = 0

    def room_for(self, more: int) -> None:
        """Stop where so many bytes more would be too many."""
        if self.size + more > self._most:
            self._cursor.fail_open(LIMIT_RULE, f"more than {self._most} bytes come out of the payload")

    def add(self, part: bytes) -> None:
        self.room_for(len(part))
        self.size += len(part)
        self._parts.append(part)

    def rest_is_open(self, stop: Malformed, rule: str) -> None:
        """What is broken once something came out is open, as long as the records do not need what is missing."""
        if stop.violation.open or not self.size:
            raise stop
        self._cursor.remark(rule, stop.violation.hint, moves=True)

    def mark(self) -> tuple[int, int]:
        """Where it stands, for `back_to`."""
        return len(self._parts), self.size

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what came after a mark."""
        count, self.size = mark
        del self._parts[count:]

    def joined(self) -> bytes:
        return b"".join(self._parts)


# --- gzip ---------------------------------------------------------------------------------------------

_GZIP = "codec.gzip"
_HEADER_CHECKSUM = 0x02


def _open_gzip(cursor: Cursor, payload: bytes) -> bytes:
    """Every member, joined; what follows the last one and the trailers' checks are open places."""
    sink = _Sink(cursor, payload)
    rest = _gzip_member(cursor, payload, sink)
    while rest:
        try:
            _gzip_header_size(rest)
        except ValueError as error:
            cursor.remark(_GZIP, f"bytes after the gzip stream: {error}", moves=True)
            break
        mark = sink.mark()
        try:
            rest = _gzip_member(cursor, rest, sink)
        except Malformed as stop:
            sink.back_to(mark)
            sink.rest_is_open(stop, _GZIP)
            break
    return sink.joined()


def _gzip_member(cursor: Cursor, member: bytes, sink: _Sink) -> bytes:
    """Inflate one member into the sink; returns what follows it."""
    try:
        start = _gzip_header_size(member)
    except ValueError as error:
        cursor.fail(_GZIP, str(error))
    if member[3] & 0xE0:
        cursor.remark(_GZIP, f"reserved flags {member[3]:02x} in the gzip header")
    if member[3] & _HEADER_CHECKSUM and member[start - 2 : start] != struct.pack(
        "<H", zlib.crc32(member[: start - 2]) & 0xFFFF
    ):
        cursor.fail_open(_GZIP, "the checksum of the gzip header is wrong")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    chunk, before, checksum = member[start:], sink.size, 0
    while not inflater.eof:
        try:
            part = inflater.decompress(chunk, _CHUNK)
        except zlib.error as error:
            cursor.fail(_GZIP, f"not a deflate stream: {error}")
        chunk = inflater.unconsumed_tail
        if not part and not chunk and not inflater.eof:
            cursor.fail(_GZIP, "the deflate stream is cut off")
        checksum = zlib.crc32(part, checksum)
        sink.add(part)
    trailer, rest = inflater.unused_data[:8], inflater.unused_data[8:]
    if len(trailer) < 8:
        cursor.fail_open(_GZIP, "the gzip trailer is cut off")
    if trailer != struct.pack("<II", checksum, sink.size - before & 0xFFFFFFFF):
        cursor.fail_open(_GZIP, "checksum or size in the gzip trailer is wrong")
    return rest


def _gzip_header_size(member: bytes) -> int:
    """Size of a gzip member's header with its optional fields (RFC 1952); raises ValueError when it is none."""
    if len(member) < 10 or member[:3] != b"\x1f\x8b\x08":
        raise ValueError("no gzip header")
    flags, at = member[3], 10
    if flags & 0x04:
        at += 2 + int.from_bytes(member[at : at + 2], "little")
    for flag in (0x08, 0x10):
        if flags & flag:
            at = member.find(b"\0", at) + 1 or len(member) + 1
    at += 2 if flags & _HEADER_CHECKSUM else 0
    if at > len(member):
        raise ValueError("the gzip header is cut off")
    return at


def _write_gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


# --- snappy -------------------------------------------------------------------------------------------

_XERIAL = b"\x82SNAPPY\0"
_XERIAL_BLOCK = 32 * 1024
_SNAPPY_LENGTH = "robustness.snappy-block-length"
_SNAPPY_FRAMING = b"\xff\x06\x00\x00sNaPpY"


def _open_snappy(cursor: Cursor, payload: bytes) -> bytes:
    """The xerial block stream, or one raw block."""
    if payload.startswith(_SNAPPY_FRAMING):
        cursor.fail_open("codec.snappy", "Snappy's own framing format, which Apache Kafka does not read")
    sink = _Sink(cursor, payload)
    if not payload.startswith(_XERIAL):
        _snappy_block(cursor, payload, sink)
        return sink.joined()
    if len(payload) < 16:
        cursor.fail("codec.snappy", "the xerial header is cut off")
    at = 16
    while at < len(payload):
        if payload.startswith(_XERIAL, at) and at + 16 <= len(payload):
            cursor.remark("codec.snappy", "a second xerial stream follows the first", moves=True)
            at += 16
            continue
        try:
            at = _xerial_block(cursor, payload, at, sink)
        except Malformed as stop:
            sink.rest_is_open(stop, stop.violation.requirement)
            break
    return sink.joined()


def _xerial_block(cursor: Cursor, payload: bytes, at: int, sink: _Sink) -> int:
    """A length and the raw block that it covers into the sink; returns where it ends."""
    left = len(payload) - at - 4
    size = int.from_bytes(payload[at : at + 4], "big", signed=True)
    if not 0 <= size <= left:
        cursor.fail(_SNAPPY_LENGTH, f"block of {size} bytes, {max(left, 0)} are left")
    _snappy_block(cursor, payload[at + 4 : at + 4 + size], sink)
    return at + 4 + size


def _snappy_block(cursor: Cursor, block: bytes, sink: _Sink) -> None:
    """One raw block. Its uncompressed size stands first, so it is held against what a block can yield."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # The densest element is a copy of 3 bytes, which yields 64 at most.
    if not block or size > 22 * len(block):
        cursor.fail(_SNAPPY_LENGTH, f"a block of {len(block)} bytes claims {size}")
    sink.room_for(size)
    try:
        plain = bytes(snappy.uncompress(block))
    except Exception:  # noqa: BLE001 - the library has no class of its own for bad input, and says nothing of it
        cursor.fail("codec.snappy", "not a Snappy block")
    sink.add(plain)


def _write_snappy(data: bytes) -> bytes:
    out = [_XERIAL, struct.pack(">ii", 1, 1)]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress(data[at : at + _XERIAL_BLOCK]))
        out += struct.pack(">i", len(block)), block
    return b"".join(out)


# --- lz4 ----------------------------------------------------------------------------------------------

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
_LZ4 = "codec.lz4"


def _open_lz4(cursor: Cursor, payload: bytes) -> bytes:
    """The first frame of the LZ4 frame format: Apache Kafka reads no further, and only independent blocks."""
    if payload[:4] == _LZ4_LEGACY or _is_skippable(payload):
        cursor.fail_open(_LZ4, "a legacy or skippable LZ4 frame, which Apache Kafka does not read")
    if payload[:4] != _LZ4_MAGIC:
        cursor.fail(_LZ4, "no LZ4 frame")
    flags, most, at = _lz4_header(cursor, payload)
    sink = _Sink(cursor, payload)
    while True:
        if 0 <= len(payload) - at < 4 and sink.size:
            cursor.fail_open(_LZ4, "the LZ4 frame has no end mark")
        if len(payload) - at < 4:
            cursor.fail(_LZ4, "the LZ4 frame is cut off")
        word = int.from_bytes(payload[at : at + 4], "little")
        at += 4
        if word == 0:
            break
        at = _lz4_block(cursor, payload, at, sink, word=word, most=most)
        at += 4 if flags & _BLOCK_CHECKSUM else 0
    at += 4 if flags & _CONTENT_CHECKSUM else 0
    if at > len(payload):
        cursor.fail_open(_LZ4, "the LZ4 content checksum is cut off")
    _check_lz4_checksums(cursor, payload[:at])
    if at < len(payload):
        cursor.remark(_LZ4, "bytes after the first LZ4 frame", moves=True)
    return sink.joined()


_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM, _INDEPENDENT = 0x10, 0x08, 0x04, 0x20


def _lz4_header(cursor: Cursor, payload: bytes) -> tuple[int, int, int]:
    """Flags, largest block in bytes, and where the first block starts."""
    at = 7 + (8 if len(payload) > 4 and payload[4] & _CONTENT_SIZE else 0)
    if len(payload) < at:
        cursor.fail(_LZ4, "the LZ4 frame header is cut off")
    flags, descriptor = payload[4], payload[5]
    if flags >> 6 != 1 or descriptor >> 4 & 7 < 4:
        cursor.fail(_LZ4, f"LZ4 frame descriptor {flags:02x} {descriptor:02x} is of no known version or block size")
    if flags & 0x03 or descriptor & 0x8F:
        cursor.fail_open(_LZ4, f"LZ4 frame descriptor {flags:02x} {descriptor:02x} has a dictionary or reserved bits")
    try:
        lz4.frame.get_frame_info(payload[:at])
    except RuntimeError as error:
        cursor.fail_open("writer.lz4-header-checksum", f"LZ4 frame header: {error}")
    if not flags & _INDEPENDENT:
        cursor.fail_open("writer.lz4-independent-blocks", "LZ4 blocks depend on one another, Apache Kafka refuses them")
    return flags, 1 << 8 + 2 * (descriptor >> 4), at


def _lz4_block(cursor: Cursor, payload: bytes, at: int, sink: _Sink, *, word: int, most: int) -> int:
    """One block into the sink; returns where it ends."""
    size = word & 0x7FFFFFFF
    if size > len(payload) - at:
        cursor.fail(_LZ4, f"LZ4 block of {size} bytes, {len(payload) - at} are left")
    if size > most:
        cursor.fail_open(_LZ4, f"LZ4 block of {size} bytes, the frame allows {most}")
    block = payload[at : at + size]
    if word >> 31:
        sink.add(block)
        return at + size
    try:
        plain = lz4.block.decompress(block, uncompressed_size=most)
    except lz4.block.LZ4BlockError as error:
        cursor.fail(_LZ4, f"not an LZ4 block: {error}")
    sink.add(plain)
    return at + size


def _check_lz4_checksums(cursor: Cursor, frame: bytes) -> None:
    """Let the library check what our reading passes over: Kafka refuses a wrong block checksum, nothing else."""
    if not frame[4] & (_BLOCK_CHECKSUM | _CONTENT_CHECKSUM | _CONTENT_SIZE):
        return
    checker, source = lz4.frame.LZ4FrameDecompressor(), frame
    try:
        while not checker.eof:
            checker.decompress(source, max_length=_CHUNK)
            source = b""
    except (RuntimeError, EOFError) as error:
        if "blockChecksum" in str(error):
            cursor.fail_open(_LZ4, f"LZ4 block checksum: {error}")
        cursor.remark(_LZ4, f"LZ4 frame: {error}")


def _write_lz4(data: bytes) -> bytes:
    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False))


# --- zstd ---------------------------------------------------------------------------------------------

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD = "codec.zstd"
_WINDOW = 1 << 27
_RLE = 1
"""The type of a block that repeats one byte."""
_ZSTD_STEP = 256
"""Bytes fed at a time: at 128 KiB out of 4 bytes in, no step yields more than 8 MiB."""


def _is_skippable(frame: bytes) -> bool:
    return len(frame) >= 4 and frame[0] & 0xF0 == 0x50 and frame[1:4] == b"\x2a\x4d\x18"


def _open_zstd(cursor: Cursor, payload: bytes) -> bytes:
    """Every frame, joined; skippable frames are skipped."""
    sink, rest = _Sink(cursor, payload), payload
    if not payload:
        cursor.fail(_ZSTD, "no Zstandard frame in an empty payload")
    while rest:
        if rest[:4] != _ZSTD_MAGIC and not _is_skippable(rest):
            if len(rest) == len(payload):
                cursor.fail(_ZSTD, "no Zstandard frame")
            cursor.fail_open(_ZSTD, "bytes after the last Zstandard frame")
        rest = _zstd_frame(cursor, rest, sink)
    return sink.joined()


def _zstd_frame(cursor: Cursor, frame: bytes, sink: _Sink) -> bytes:
    """One frame into the sink; returns what follows it."""
    opener = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    at = 0
    while not opener.eof:
        if at >= len(frame):
            if not sink.size or not _ends_between_blocks(frame):
                cursor.fail(_ZSTD, "the Zstandard frame is cut off")
            cursor.remark(_ZSTD, "the Zstandard frame ends before its last block or its checksum", moves=True)
            return b""
        try:
            part = opener.decompress(frame[at : at + _ZSTD_STEP])
        except zstandard.ZstdError as error:
            _refuse_zstd(cursor, str(error))
        sink.add(part)
        at += _ZSTD_STEP
    return opener.unused_data + frame[at:]


def _ends_between_blocks(frame: bytes) -> bool:
    """Whether what there is of a cut frame ends with a whole block, or in the checksum after the last (RFC 8878)."""
    if frame[:4] != _ZSTD_MAGIC or len(frame) < 5:
        return False
    flags = frame[4]
    single = flags >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
    while at + 3 <= len(frame):
        block = int.from_bytes(frame[at : at + 3], "little")
        at += 3 + (1 if block >> 1 & 3 == _RLE else block >> 3)
        if block & 1:
            return at <= len(frame)
    return at == len(frame)


def _refuse_zstd(cursor: Cursor, message: str) -> None:
    if "memory" in message:
        cursor.fail_open("writer.zstd-window", "the Zstandard window is above 128 MiB, Apache Kafka refuses it")
    if "checksum" in message or "Unsupported" in message:
        cursor.fail_open(_ZSTD, message)
    cursor.fail(_ZSTD, message)


def _write_zstd(data: bytes) -> bytes:
    return bytes(zstandard.ZstdCompressor().compress(data))


# --- the table ----------------------------------------------------------------------------------------


def _as_it_is(_: Cursor, payload: bytes) -> bytes:
    return payload


CODECS: tuple[Codec, ...] = (
    Codec("none", _as_it_is, bytes),
    Codec("gzip", _open_gzip, _write_gzip),
    Codec("snappy", _open_snappy, _write_snappy),
    Codec("lz4", _open_lz4, _write_lz4),
    Codec("zstd", _open_zstd, _write_zstd),
)
"""Indexed by the number on the wire (record-batch#compression-codec-values)."""

CODEC_NAMES = tuple(codec.name for codec in CODECS)
