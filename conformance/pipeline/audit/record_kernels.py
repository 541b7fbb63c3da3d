"""The records of a batch as rows of numbers, in one pass that checks every bound. Needs numpy; compiled by numba.

Without numba, and for the first mebibyte of a process, these functions run uncompiled, about as fast as the reference
codec. The layout of a record is in record-batch#record-format. At the first record on which the reference would have a
violation or a remark, the pass ends and returns the number of the record.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Rows: TypeAlias = npt.NDArray[np.int64]
"""A row for each record (or header), a column for each number; see COLUMNS and HEADER_COLUMNS."""

Octets: TypeAlias = npt.NDArray[np.uint8] | bytes
"""A read-only array of bytes; `bytes` as long as the functions are not compiled."""

COLUMNS = (
    "start",
    "stop",
    "timestampDelta",
    "offsetDelta",
    "keyStart",
    "keyLength",
    "valueStart",
    "valueLength",
    "headersStart",
    "headerCount",
)
"""Positions are bytes of the plain records; a length of -1 is null. A clean record's attributes are 0."""

HEADER_COLUMNS = ("record", "keyStart", "keyLength", "valueStart", "valueLength")

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])

_KERNELS: list[str] = []
"""The names of the functions that numba compiles. A function comes after the functions that it calls."""

_WORTH_COMPILING = 1 << 20
"""Bytes of plain records before compilation: loading numba takes longer than reading these bytes without it."""


def _jit(function: _Kernel) -> _Kernel:
    """Add a function to those that numba compiles."""
    _KERNELS.append(function.__name__)
    return function


class _CompileState(Struct):
    """The state of compilation in this process."""

    left: int = _WORTH_COMPILING
    """Bytes to read before compilation."""
    compiled: bool = False


_progress = _CompileState()


def expect(count: int) -> None:
    """Announce `count` bytes of plain records; compile the functions once it pays."""
    if _progress.left > 0:
        _progress.left -= count
        if _progress.left <= 0:
            compile_all()


def compile_all() -> bool:
    """Compile the functions; return False if numba is not installed."""
    _progress.left = 0
    if not _progress.compiled:
        try:
            from numba import njit
            from numba.core import config
        except ImportError:
            return False
        # Prevent that numba reads .numba_config.yaml in the working folder: it can name a folder of pickled code.
        config._config_fname = os.devnull  # noqa: SLF001
        config.reload_config()  # type: ignore[no-untyped-call]
        for name in _KERNELS:
            globals()[name] = _compiled(njit, globals()[name])
        _progress.compiled = True
    return True


def _compiled(njit: Callable[..., Callable[[_Kernel], _Kernel]], function: _Kernel) -> _Kernel:
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache of machine code is writable
        return njit(nogil=True)(function)


def octets(data: bytes) -> Octets:
    """Return the data as the type that the functions take now."""
    return np.frombuffer(data, np.uint8) if _progress.compiled else data


_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_SMALLEST_HEADER = 2


@_jit
def _varint(data: Octets, at: int, end: int) -> tuple[int, int]:
    """Return a VARINT in its shortest form, and the position after it; position -1 for any other bytes."""
    if at >= end:
        return 0, -1
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    raw = byte & 0x7F
    shift = 7
    while True:
        at += 1
        if at >= end:
            return 0, -1
        byte = data[at]
        if shift == 28 and byte > 0x0F:
            return 0, -1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0:
                return 0, -1
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7


@_jit
def _varlong(data: Octets, at: int, end: int) -> tuple[int, int]:
    """Return a VARLONG like `_varint`. The bit of the tenth byte is added after the zig-zag shift: 64 bits overflow."""
    if at >= end:
        return 0, -1
    byte = data[at]
    raw = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        at += 1
        if at >= end:
            return 0, -1
        byte = data[at]
        if byte == 0:
            return 0, -1
        if shift == 63:
            if byte != 1:
                return 0, -1
            return ((raw >> 1) | (1 << 62)) ^ -(raw & 1), at + 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), at + 1


@_jit
def _first_follow(lead: int) -> tuple[int, int, int]:
    """Return for the first byte of a UTF-8 sequence the number of further bytes, and the range of the second byte."""
    if 0 < lead < 0x80:
        return 0, 0, 0
    if 0xC2 <= lead <= 0xDF:
        return 1, 0x80, 0xBF
    if 0xE0 <= lead <= 0xEF:
        return 2, 0xA0 if lead == 0xE0 else 0x80, 0x9F if lead == 0xED else 0xBF
    if 0xF0 <= lead <= 0xF4:
        return 3, 0x90 if lead == 0xF0 else 0x80, 0x8F if lead == 0xF4 else 0xBF
    return -1, 0, 0


@_jit
def _is_plain_text(data: Octets, at: int, end: int) -> bool:
    """Return whether bytes are well-formed UTF-8 (Unicode, table 3-7) without U+0000."""
    while at < end:
        more, low, high = _first_follow(data[at])
        at += 1
        if more < 0 or more > end - at:
            return False
        for follow in range(at, at + more):
            if data[follow] < low or data[follow] > high:
                return False
            low, high = 0x80, 0xBF
        at += more
    return True


@_jit
def _sized(data: Octets, at: int, end: int) -> tuple[int, int, int]:
    """Return a nullable length (-1: null), and the start and end of its bytes; end -1 for a wrong length."""
    length, start = _varint(data, at, end)
    if start < 0 or length < -1 or length > end - start:
        return 0, 0, -1
    return length, start, start + max(length, 0)


@_jit
def _header(data: Octets, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Return start and length of a header's key and value, and the end of the header; end -1 for a wrong header."""
    length, key = _varint(data, at, end)
    if key < 0 or length < 0 or length > end - key or not _is_plain_text(data, key, key + length):
        return 0, 0, 0, 0, -1
    size, value, at = _sized(data, key + length, end)
    return key, length, value, size, at


@_jit
def _record(data: Octets, at: int, end: int, row: Rows) -> int:
    """Fill a row for the record at a position; return the position after it, or -1 for a wrong record."""
    row[0] = at
    length, at = _varint(data, at, end)
    if at < 0 or length < 1 or length > end - at or data[at] != 0:
        return -1
    stop = at + length
    row[1] = stop
    row[2], at = _varlong(data, at + 1, stop)
    if at < 0:
        return -1
    row[3], at = _varint(data, at, stop)
    if at < 0:
        return -1
    row[5], row[4], at = _sized(data, at, stop)
    if at < 0:
        return -1
    row[7], row[6], at = _sized(data, at, stop)
    if at < 0:
        return -1
    row[9], row[8] = _varint(data, at, stop)
    return _past_headers(data, row[8], stop, row[9])


@_jit
def _past_headers(data: Octets, at: int, stop: int, count: int) -> int:
    """Return the end of `count` headers, or -1 if it is not the end of the record."""
    if at < 0 or count < 0 or count * _SMALLEST_HEADER > stop - at:
        return -1
    for _ in range(count):
        _, _, _, _, at = _header(data, at, stop)
        if at < 0:
            return -1
    return at if at == stop else -1


@_jit
def records(data: Octets, at: int, end: int, out: Rows) -> tuple[int, int]:
    """Fill a row of `out` for each record of data[at:end]; return the number of sound records and of their headers.

    Sound records fill the bytes exactly, and their offset deltas rise. If the number of records is not that of the
    rows, the reference must judge the batch: fewer mean a wrong record, one more means bytes left over.
    """
    headers = 0
    earlier = -1
    for index in range(len(out)):
        at = _record(data, at, end, out[index])
        if at < 0 or out[index, 3] <= earlier:
            return index, headers
        earlier = out[index, 3]
        headers += out[index, 9]
    return len(out) + (at != end), headers


@_jit
def headers(data: Octets, rows: Rows, out: Rows) -> None:
    """Fill a row of `out` for each header of sound records, in order."""
    row = 0
    for index in range(len(rows)):
        at, stop = rows[index, 8], rows[index, 1]
        for _ in range(rows[index, 9]):
            key, length, value, size, at = _header(data, at, stop)
            out[row, 0] = index
            out[row, 1] = key
            out[row, 2] = length
            out[row, 3] = value
            out[row, 4] = size
            row += 1


@_jit
def timestamps(rows: Rows, base: int) -> tuple[int, int]:
    """Return the smallest and the largest timestamp of records; the smallest is the lowest INT64 after an overflow."""
    least, largest = _MAX, _MIN
    for index in range(len(rows)):
        delta = rows[index, 2]
        if (delta > 0 and base > _MAX - delta) or (delta < 0 and base < _MIN - delta):
            return _MIN, _MAX
        stamp = base + delta
        least = min(least, stamp)
        largest = max(largest, stamp)
    return least, largest
