"""Readers with size limits, and writers, for the payload of each codec.

The accepted forms of each framing, and the unspecified ones, follow decisions#compression; libraries do the rest.
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
"""Most output bytes per input byte: the densest Zstandard block makes 128 KiB of 4 bytes."""
_STEP = 256
"""Bytes of the first piece. Pieces then double, while the output of the densest stream would fit in `room`."""


class BoundedStream(Cursor):
    """A payload reader that collects the output and stops at the limits. Findings point to the payload's first byte."""

    __slots__ = ("_begin", "fed", "plain", "room")

    def __init__(self, cursor: Cursor, payload: bytes) -> None:
        super().__init__(payload, cursor.findings, layer=cursor.layer, path=cursor.path)
        self._begin = cursor.pos
        self.fed = 0
        """Start of the last piece that a decompressor received."""
        self.plain: list[bytes] = []
        """The output, in parts that are not empty."""
        limits: Limits = cursor.findings.limits
        self.room = min(limits.total - cursor.findings.plain, max(1 << 20, limits.ratio * len(payload)))
        """Output bytes that are still allowed."""

    def make_room(self, size: int) -> None:
        """Fail if `size` more output bytes exceed the limit."""
        if size > self.room:
            self.fail(LIMIT_RULE, f"the decompressed payload exceeds the limit by {size - self.room} bytes", open=True)

    def put(self, part: bytes) -> None:
        """Add a part of the output."""
        if not part:
            return
        self.make_room(len(part))
        self.room -= len(part)
        self.findings.plain += len(part)
        self.plain.append(part)

    def requires(self, requirement: str) -> None:
        """Record that only readers which meet a requirement can open the payload."""
        if requirement not in self.findings.rests_on:
            self.findings.rests_on.append(requirement)

    def pump(self, opener: Any) -> bool:
        """Feed a decompressor to the end of its stream. Return False if the input ends first."""
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
        """Turn library errors into violations. `verdict` maps a message to its requirement and True if unspecified."""
        try:
            yield
        except fault as error:
            requirement, is_open = verdict(str(error))
            self.fail(requirement, str(error), open=is_open)

    def _violation(self, requirement: str, hint: str, at: int | None, openness: Definedness) -> Violation:
        return super()._violation(requirement, hint, self._begin if at is None else at, openness)


def open_plain(stream: BoundedStream) -> None:
    """Read a payload without compression."""
    stream.put(stream.data)


# --- gzip ---------------------------------------------------------------------------------------------

_GZIP = "codec.gzip"
_OPEN_GZIP = ("header flags", "header crc", "data check", "length check")
"""Parts of zlib's messages for reserved flags and wrong checksums."""


def open_gzip(stream: BoundedStream) -> None:
    """Read all members, joined. Bytes after the last one and wrong trailer checks are unspecified."""
    _gzip_member(stream)
    while stream.left:
        whole = len(stream.plain)
        try:
            _gzip_member(stream)
        except Malformed as stop:
            # Apache Kafka ignores bytes after the last member, and so their partial output.
            del stream.plain[whole:]
            stream.remark(_GZIP, f"after a complete member: {stop.violation.hint}", openness=Definedness.ELSEWHERE)
            return
        stream.requires("reader.gzip-members")


def _gzip_member(stream: BoundedStream) -> None:
    begin = stream.pos
    inflater = zlib.decompressobj(zlib.MAX_WBITS + 16)
    is_zlib = _has_zlib_header(stream.data[begin : begin + 2])
    with stream.refusing(zlib.error, lambda message: (_GZIP, is_zlib or any(words in message for words in _OPEN_GZIP))):
        try:
            if not stream.pump(inflater):
                stream.fail(_GZIP, "the gzip stream is truncated", open=_lacks_trailer(inflater))
        except zlib.error:
            _rescue(stream, begin)
            raise


def _rescue(stream: BoundedStream, begin: int) -> None:
    """Put the output from the last piece of a member, up to the byte that zlib rejects."""
    inflater = zlib.decompressobj(zlib.MAX_WBITS + 16)
    inflater.decompress(stream.data[begin : stream.fed])
    with suppress(zlib.error):
        for at in range(stream.fed, stream.pos):
            stream.put(inflater.decompress(stream.data[at : at + 1]))


def _has_zlib_header(head: bytes) -> bool:
    """Return True for a zlib header (RFC 1950), which librdkafka and kafkajs read and Kafka rejects."""
    return len(head) == 2 and head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head, "big") % 31 == 0


def _lacks_trailer(inflater: zlib._Decompress) -> bool:
    """Return True if all data is present but the trailer is not: then zlib takes 4 more bytes as a wrong check."""
    try:
        inflater.decompress(b"\xff" * 4)
    except zlib.error as error:
        return "data check" in str(error) or "length check" in str(error)
    return inflater.eof


def write_gzip(data: bytes) -> bytes:
    """Write one member, with timestamp 0."""
    return gzip.compress(data, mtime=0)


# --- snappy -------------------------------------------------------------------------------------------

_XERIAL = b"\x82SNAPPY\0"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_HEADER = len(_XERIAL + _XERIAL_VERSIONS)
_XERIAL_BLOCK = 32 * 1024
_DENSEST = 22
"""Most output bytes per input byte: the densest element, a copy of 3 bytes, yields at most 64."""
_SNAPPY = "codec.snappy"
_SNAPPY_LENGTH = "robustness.snappy-block-length"
_SNAPPY_FRAMING = b"\xff\x06\x00\x00sNaPpY"
"""The start of Snappy's own framing format, which Apache Kafka reads as a raw block."""


def open_snappy(stream: BoundedStream) -> None:
    """Read a xerial block stream, or one raw block."""
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
                f"after a complete block: {stop.violation.hint}",
                openness=Definedness.ELSEWHERE,
            )
            return


def _xerial_block(stream: BoundedStream) -> None:
    """Read a length and its raw block, or the header of a further stream."""
    if stream.data.startswith(_XERIAL, stream.pos):
        stream.take(_XERIAL_HEADER, _SNAPPY, "the xerial header")
        stream.remark(_SNAPPY, "a second xerial stream follows the first", openness=Definedness.ELSEWHERE)
        return
    # Read as unsigned, a negative length is larger than any payload, so `take` fails.
    size = int.from_bytes(stream.take(4, _SNAPPY_LENGTH, "the length of a block"), "big")
    _snappy_block(stream, stream.take(size, _SNAPPY_LENGTH, "a block"))


def _snappy_block(stream: BoundedStream, block: bytes) -> None:
    """Read one raw block. Its stated size is first compared with the most that its bytes can yield."""
    framed = block.startswith(_SNAPPY_FRAMING)
    with stream.refusing((cramjam.DecompressionError, snappy.UncompressError), lambda _: (_SNAPPY, framed)):
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _DENSEST * len(block):
            hint = f"the block of {len(block)} bytes states {size} bytes, at most {_DENSEST * len(block)} are possible"
            stream.fail(_SNAPPY_LENGTH, hint, open=framed)
        stream.make_room(size)
        stream.put(bytes(snappy.uncompress(block)))


def write_snappy(data: bytes) -> bytes:
    """Write a xerial stream of 32 KiB blocks."""
    out = [_XERIAL, _XERIAL_VERSIONS]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress(data[at : at + _XERIAL_BLOCK]))
        out += struct.pack(">i", len(block)), block
    return b"".join(out)


# --- lz4 ----------------------------------------------------------------------------------------------

_LZ4 = "codec.lz4"
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
_OPEN_LZ4 = ("headerChecksum", "reservedFlag")
"""Parts of the library's messages for headers that some readers accept."""
_CONTENT_SIZE, _DICTIONARY = 0x08, 0x01
_STORED = 1 << 31


def open_lz4(stream: BoundedStream) -> None:
    """Read the first frame of the LZ4 frame format. Apache Kafka reads no further, and only independent blocks."""
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
    """Skip the header and return the library's description of it; a content size takes 8 more bytes."""
    with stream.refusing(RuntimeError, lambda message: (_LZ4, _is_open_lz4(stream, message))):
        info: dict[str, Any] = lz4.frame.get_frame_info(stream.data)
    flags = stream.data[4]
    if info["skippable"] or info["block_linked"] or flags & _DICTIONARY:
        stream.fail("writer.lz4-independent-blocks", "Apache Kafka reads only independent blocks", open=True)
    stream.take(7 + (flags & _CONTENT_SIZE), _LZ4, "the frame header")
    return info


def _is_open_lz4(stream: BoundedStream, message: str) -> bool:
    return stream.data.startswith(_LZ4_LEGACY) or any(word in message for word in _OPEN_LZ4)


def _lz4_word(stream: BoundedStream) -> int:
    """Read the size of a block. Its highest bit means stored data; 0 ends the frame."""
    return int.from_bytes(stream.take(4, _LZ4, "the size of a block", open=bool(stream.plain)), "little")


def _lz4_block(stream: BoundedStream, word: int, most: int) -> None:
    block = stream.take(word & _STORED - 1, _LZ4, "a block")
    if len(block) > most:
        stream.fail(_LZ4, f"the block has {len(block)} bytes, the frame allows at most {most}", open=True)
    with stream.refusing(lz4.block.LZ4BlockError, lambda _: (_LZ4, False)):
        stream.put(block if word & _STORED else lz4.block.decompress(block, uncompressed_size=most))


def _check_lz4(stream: BoundedStream) -> None:
    """Let the library check the parts that we skip. Of its errors, Kafka rejects only a wrong block checksum."""
    try:
        lz4.frame.LZ4FrameDecompressor().decompress(stream.data[: stream.pos])
    except RuntimeError as error:
        if "blockChecksum" in str(error):
            stream.fail(_LZ4, str(error), open=True)
        stream.remark(_LZ4, str(error))


def write_lz4(data: bytes) -> bytes:
    """Write one frame of independent 64 KiB blocks, without content size."""
    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False))


def with_header_checksum(frame: bytes) -> bytes:
    """Return an LZ4 frame with a correct header checksum; bytes without a complete header stay unchanged.

    Apache Kafka wrote a wrong checksum in magic 0 and does not check it there (decisions#compression).
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
"""Parts of the library's messages for a window that is too large, a wrong checksum, and reserved bits."""
_RLE = 1
"""The type of a block that repeats one byte."""


def _is_skippable(frame: bytes) -> bool:
    return frame[1:4] == b"\x2a\x4d\x18" and frame[0] & 0xF0 == 0x50


def open_zstd(stream: BoundedStream) -> None:
    """Read all frames, joined; skippable frames are skipped."""
    _zstd_frame(stream)
    while stream.left:
        stream.requires("reader.zstd-frames")
        _zstd_frame(stream)


class _ThreadLocalZstd(threading.local):
    """A decompressor per thread: creating one costs more than reading a small frame, and it is not thread-safe."""

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
        stream.fail(_ZSTD, "the Zstandard frame is truncated", open=_is_open_zstd(stream, begin))
    stream.remark(_ZSTD, "the frame ends before its last block or its checksum", openness=Definedness.ELSEWHERE)


def _rule_of(message: str) -> str:
    return "writer.zstd-window" if "memory" in message else _ZSTD


def _is_open_zstd(stream: BoundedStream, begin: int, message: str = "") -> bool:
    """Return True for an error at unspecified bytes, or for bytes after a frame that begin no other frame."""
    no_frame = not (stream.data.startswith(_ZSTD_MAGIC, begin) or _is_skippable(stream.data[begin : begin + 4]))
    return (begin > 0 and no_frame) or any(word in message for word in _OPEN_ZSTD)


def _ends_between_blocks(frame: bytes) -> bool:
    """Return True if a truncated frame ends with a complete block, or in the checksum after the last (RFC 8878)."""
    if frame[:4] != _ZSTD_MAGIC or len(frame) < 5:
        return False
    flags = frame[4]
    single = flags >> 5 & 1
    # Magic and descriptor have 5 bytes; the window, dictionary id and content size have the sizes in the descriptor.
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
    while at + 3 <= len(frame):
        block = int.from_bytes(frame[at : at + 3], "little")
        at += 3 + (1 if block >> 1 & 3 == _RLE else block >> 3)
        if block & 1:
            return at <= len(frame)
    return at == len(frame)


def write_zstd(data: bytes) -> bytes:
    """Write one frame."""
    return bytes(zstandard.ZstdCompressor().compress(data))
