"""How the payload of each codec is opened, in bounds, and how one is written.

What each framing may hold, and which oddities are open, follows decisions#compression; the libraries do the rest.
"""

from __future__ import annotations

import gzip
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import cramjam
import lz4.block
import lz4.frame
import snappy
import zstandard

from conformance.codec.checksums import XXH32
from conformance.codec.cursor import LIMIT_RULE, Cursor, Definedness, Limits, Malformed, Violation

_DENSEST_STREAM = 1 << 15
"""Bytes out per byte in at most: Zstandard's densest block makes 128 KiB of 4 bytes."""
_STEP = 256
"""Bytes fed at first; then twice as many each time, as long as even the densest of them would find room."""


class BoundedStream(Cursor):
    """Reads a payload, gathers what comes out of it, and stops at the limits; findings stand where it begins."""

    __slots__ = ("_begin", "fed", "plain", "room")

    def __init__(self, cursor: Cursor, payload: bytes) -> None:
        super().__init__(payload, cursor.findings, layer=cursor.layer, path=cursor.path)
        self._begin = cursor.pos
        self.fed = 0
        """Where the piece begins that a decompressor was fed last."""
        self.plain: list[bytes] = []
        """What came out, in parts that are not empty."""
        limits: Limits = cursor.findings.limits
        self.room = min(limits.total - cursor.findings.plain, max(1 << 20, limits.ratio * len(payload)))
        """Bytes that may still come out."""

    def make_room(self, size: int) -> None:
        """Stop where so many bytes more would be too many."""
        if size > self.room:
            self.fail(LIMIT_RULE, f"{size - self.room} bytes too many come out of the payload", open=True)

    def put(self, part: bytes) -> None:
        """Take what came out."""
        if not part:
            return
        self.make_room(len(part))
        self.room -= len(part)
        self.findings.plain += len(part)
        self.plain.append(part)

    def requires(self, requirement: str) -> None:
        """Note that not every reader can open the payload, and which requirement asks it of all."""
        if requirement not in self.findings.rests_on:
            self.findings.rests_on.append(requirement)

    def pump(self, opener: Any) -> bool:
        """Feed a decompressor to the end of its stream; False when the bytes end before."""
        step = _STEP
        while not opener.eof:
            piece = self.data[self.pos : self.pos + step]
            step = max(_STEP, min(2 * step, self.room // _DENSEST_STREAM))
            if not piece:
                return False
            self.fed = self.pos
            self.pos += len(piece)
            self.put(opener.decompress(piece))
        self.pos -= len(opener.unused_data)
        return True

    @contextmanager
    def refusing(
        self, fault: type[Exception] | tuple[type[Exception], ...], verdict: Callable[[str], tuple[str, bool]]
    ) -> Iterator[None]:
        """What a library raises is a violation: its message tells of which requirement, and whether it is open."""
        try:
            yield
        except fault as error:
            requirement, is_open = verdict(str(error))
            self.fail(requirement, str(error), open=is_open)

    def _violation(self, requirement: str, hint: str, at: int | None, openness: Definedness) -> Violation:
        return super()._violation(requirement, hint, self._begin if at is None else at, openness)


def open_plain(stream: BoundedStream) -> None:
    """No compression: the payload as it is."""
    stream.put(stream.data)


# --- gzip ---------------------------------------------------------------------------------------------

_GZIP = "codec.gzip"
_OPEN_GZIP = ("header flags", "header crc", "data check", "length check")
"""What zlib says of reserved flags and wrong checksums."""


def open_gzip(stream: BoundedStream) -> None:
    """Every member, joined; what follows the last one and the trailers' checks are open places."""
    _gzip_member(stream)
    while stream.left:
        whole = len(stream.plain)
        try:
            _gzip_member(stream)
        except Malformed as stop:
            del stream.plain[whole:]
            stream.remark(_GZIP, f"after a whole member: {stop.violation.hint}", openness=Definedness.ELSEWHERE)
            return
        stream.requires("reader.gzip-members")


def _gzip_member(stream: BoundedStream) -> None:
    begin = stream.pos
    inflater = zlib.decompressobj(zlib.MAX_WBITS + 16)
    is_zlib = _has_zlib_header(stream.data[begin : begin + 2])
    with stream.refusing(zlib.error, lambda message: (_GZIP, is_zlib or any(words in message for words in _OPEN_GZIP))):
        try:
            if not stream.pump(inflater):
                stream.fail(_GZIP, "the stream is cut off", open=_lacks_trailer(inflater))
        except zlib.error:
            _rescue(stream, begin)
            raise


def _rescue(stream: BoundedStream, begin: int) -> None:
    """Put what the last piece of a member yields before the byte at which zlib gives it up."""
    inflater = zlib.decompressobj(zlib.MAX_WBITS + 16)
    inflater.decompress(stream.data[begin : stream.fed])
    with suppress(zlib.error):
        for at in range(stream.fed, stream.pos):
            stream.put(inflater.decompress(stream.data[at : at + 1]))


def _has_zlib_header(head: bytes) -> bool:
    """Whether a stream begins as zlib frames one (RFC 1950), which librdkafka and kafkajs read and Kafka refuses."""
    return len(head) == 2 and head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head, "big") % 31 == 0


def _lacks_trailer(inflater: zlib._Decompress) -> bool:
    """Whether all data is there and the trailer is not: four bytes cannot end the data and be held against it too."""
    try:
        inflater.decompress(b"\xff" * 4)
    except zlib.error as error:
        return "data check" in str(error) or "length check" in str(error)
    return inflater.eof


def write_gzip(data: bytes) -> bytes:
    """One member, without a time."""
    return gzip.compress(data, mtime=0)


# --- snappy -------------------------------------------------------------------------------------------

_XERIAL = b"\x82SNAPPY\0"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_HEADER = len(_XERIAL + _XERIAL_VERSIONS)
_XERIAL_BLOCK = 32 * 1024
_DENSEST = 22
"""The densest element of a block is a copy of 3 bytes, which yields 64 at most."""
_SNAPPY = "codec.snappy"
_SNAPPY_LENGTH = "robustness.snappy-block-length"
_SNAPPY_FRAMING = b"\xff\x06\x00\x00sNaPpY"
"""How Snappy's own framing format begins, which Apache Kafka takes for a raw block."""


def open_snappy(stream: BoundedStream) -> None:
    """The xerial block stream, or one raw block."""
    if not stream.data.startswith(_XERIAL):
        stream.requires("reader.snappy-raw")
        _snappy_block(stream, stream.data)
        return
    stream.take(_XERIAL_HEADER, _SNAPPY, "the xerial header")
    while stream.left:
        try:
            _xerial_block(stream)
        except Malformed as stop:
            if stop.violation.open or not stream.plain:
                raise
            stream.remark(
                stop.violation.requirement,
                f"after a whole block: {stop.violation.hint}",
                openness=Definedness.ELSEWHERE,
            )
            return


def _xerial_block(stream: BoundedStream) -> None:
    """A length and the raw block that it covers, or the header of a further stream."""
    if stream.data.startswith(_XERIAL, stream.pos):
        stream.take(_XERIAL_HEADER, _SNAPPY, "the xerial header")
        stream.remark(_SNAPPY, "a second xerial stream follows the first", openness=Definedness.ELSEWHERE)
        return
    # A negative length, read without a sign, is above any that there are bytes for.
    size = int.from_bytes(stream.take(4, _SNAPPY_LENGTH, "the length of a block"), "big")
    _snappy_block(stream, stream.take(size, _SNAPPY_LENGTH, "a block"))


def _snappy_block(stream: BoundedStream, block: bytes) -> None:
    """One raw block. Its uncompressed size stands first, so it is held against what a block can yield."""
    framed = block.startswith(_SNAPPY_FRAMING)
    with stream.refusing((cramjam.DecompressionError, snappy.UncompressError), lambda _: (_SNAPPY, framed)):
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _DENSEST * len(block):
            stream.fail(_SNAPPY_LENGTH, f"a block of {len(block)} bytes claims {size}", open=framed)
        stream.make_room(size)
        stream.put(bytes(snappy.uncompress(block)))


def write_snappy(data: bytes) -> bytes:
    """A xerial stream, in blocks of 32 KiB."""
    out = [_XERIAL, _XERIAL_VERSIONS]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress(data[at : at + _XERIAL_BLOCK]))
        out += struct.pack(">i", len(block)), block
    return b"".join(out)


# --- lz4 ----------------------------------------------------------------------------------------------

_LZ4 = "codec.lz4"
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
_OPEN_LZ4 = ("headerChecksum", "reservedFlag")
"""What the library says of a header that some readers may read."""
_CONTENT_SIZE, _DICTIONARY = 0x08, 0x01
_STORED = 1 << 31


def open_lz4(stream: BoundedStream) -> None:
    """The first frame of the LZ4 frame format: Apache Kafka reads no further, and only independent blocks."""
    info = _lz4_header(stream)
    while word := _lz4_word(stream):
        _lz4_block(stream, word, info["block_size"])
        if info["block_checksum"]:
            stream.take(4, _LZ4, "a block checksum")
    if info["content_checksum"]:
        stream.take(4, _LZ4, "the content checksum", open=True)
    _check_lz4(stream)
    if stream.left:
        stream.remark(_LZ4, "bytes after the first LZ4 frame", openness=Definedness.ELSEWHERE)


def _lz4_header(stream: BoundedStream) -> dict[str, Any]:
    """What the library makes of the header, which is passed over; a content size takes 8 bytes more."""
    with stream.refusing(RuntimeError, lambda message: (_LZ4, _is_open_lz4(stream, message))):
        info: dict[str, Any] = lz4.frame.get_frame_info(stream.data)
    flags = stream.data[4]
    if info["skippable"] or info["block_linked"] or flags & _DICTIONARY:
        stream.fail("writer.lz4-independent-blocks", "Apache Kafka reads plain frames of blocks apart", open=True)
    stream.take(7 + (flags & _CONTENT_SIZE), _LZ4, "the frame header")
    return info


def _is_open_lz4(stream: BoundedStream, message: str) -> bool:
    return stream.data.startswith(_LZ4_LEGACY) or any(word in message for word in _OPEN_LZ4)


def _lz4_word(stream: BoundedStream) -> int:
    """The size of a block, its highest bit set where it is stored as it is; 0 ends the frame."""
    return int.from_bytes(stream.take(4, _LZ4, "the size of a block", open=bool(stream.plain)), "little")


def _lz4_block(stream: BoundedStream, word: int, most: int) -> None:
    block = stream.take(word & _STORED - 1, _LZ4, "a block")
    if len(block) > most:
        stream.fail(_LZ4, f"a block of {len(block)} bytes, the frame allows {most}", open=True)
    with stream.refusing(lz4.block.LZ4BlockError, lambda _: (_LZ4, False)):
        stream.put(block if word & _STORED else lz4.block.decompress(block, uncompressed_size=most))


def _check_lz4(stream: BoundedStream) -> None:
    """Let the library check what our reading passes over: Kafka refuses a wrong block checksum, nothing else."""
    try:
        lz4.frame.LZ4FrameDecompressor().decompress(stream.data[: stream.pos])
    except RuntimeError as error:
        if "blockChecksum" in str(error):
            stream.fail(_LZ4, str(error), open=True)
        stream.remark(_LZ4, str(error))


def write_lz4(data: bytes) -> bytes:
    """One frame of independent blocks of 64 KiB, without content size."""
    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False))


def with_header_checksum(frame: bytes) -> bytes:
    """An LZ4 frame with the checksum of its header made right, where it has a header.

    Apache Kafka wrote a wrong one in magic 0 and does not check it there (decisions#compression).
    """
    at = 14 if len(frame) > 4 and frame[4] & _CONTENT_SIZE else 6
    if len(frame) <= at:
        return frame
    return frame[:at] + bytes((XXH32.compute(frame[4:at]) >> 8 & 0xFF,)) + frame[at + 1 :]


# --- zstd ---------------------------------------------------------------------------------------------

_ZSTD = "codec.zstd"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_WINDOW = 1 << 27
_OPEN_ZSTD = ("memory", "checksum", "Unsupported")
"""What the library says of a window that is too large, a wrong checksum, and reserved bits."""
_RLE = 1
"""The type of a block that repeats one byte."""


def _is_skippable(frame: bytes) -> bool:
    return frame[1:4] == b"\x2a\x4d\x18" and frame[0] & 0xF0 == 0x50


def open_zstd(stream: BoundedStream) -> None:
    """Every frame, joined; skippable frames are skipped."""
    _zstd_frame(stream)
    while stream.left:
        stream.requires("reader.zstd-frames")
        _zstd_frame(stream)


class _ThreadLocalZstd(threading.local):
    """What costs more to make than a small frame to read, and serves one thread at a time."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor(max_window_size=_WINDOW)


_KEPT = _ThreadLocalZstd()


def _zstd_frame(stream: BoundedStream) -> None:
    opener = _KEPT.zstd.decompressobj()
    begin = stream.pos
    with stream.refusing(
        zstandard.ZstdError, lambda message: (_rule_of(message), _is_open_zstd(stream, begin, message))
    ):
        if stream.pump(opener):
            return
    if not stream.plain or not _ends_between_blocks(stream.data[begin:]):
        stream.fail(_ZSTD, "the frame is cut off", open=_is_open_zstd(stream, begin))
    stream.remark(_ZSTD, "the frame ends before its last block or its checksum", openness=Definedness.ELSEWHERE)


def _rule_of(message: str) -> str:
    return "writer.zstd-window" if "memory" in message else _ZSTD


def _is_open_zstd(stream: BoundedStream, begin: int, message: str = "") -> bool:
    """Whether the library refuses one of those, or bytes after a frame that do not begin another frame."""
    no_frame = not (stream.data.startswith(_ZSTD_MAGIC, begin) or _is_skippable(stream.data[begin : begin + 4]))
    return (begin > 0 and no_frame) or any(word in message for word in _OPEN_ZSTD)


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


def write_zstd(data: bytes) -> bytes:
    """One frame."""
    return bytes(zstandard.ZstdCompressor().compress(data))
