"""What deliberate liars do that no target should do: they hang, die, flood, hide children, answer out of order."""

# ruff: noqa: D103 - what each does stands in the table of `liars`

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO

from conformance.cases.model import Answer, Request
from conformance.codec.record_batch import HEADER_SIZE
from conformance.process.child_process import MAX_LINE_BYTES


def hang() -> None:
    time.sleep(3600)


def complain() -> None:
    while True:
        os.write(2, b"still trying\n" * 100)


def trickle() -> None:
    while True:
        write(b" ")
        time.sleep(0.01)


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def allocate() -> None:
    hoard = []
    while True:
        hoard.append(b"x" * (32 << 20))
        time.sleep(0.02)


def leave_child() -> None:
    if os.fork() == 0:
        hang()


def leave_session() -> None:
    if os.fork() == 0:
        os.setsid()
        hang()


def leave_child_and_die() -> None:
    leave_child()
    os._exit(7)


def close_output() -> None:
    os.close(1)
    hang()


def write(piece: bytes, times: int = 1) -> None:
    for _ in range(times):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


FOREVER = MAX_LINE_BYTES >> 15
"""How often 64 kB are written until they are twice as long as any answer may be."""


def in_order(source: BinaryIO) -> Iterator[bytes]:
    """The requests as they come."""
    return iter(source.readline, b"")


def in_reverse(source: BinaryIO) -> Iterator[bytes]:
    """All requests that are waiting, the last one first."""
    rest = b""
    while chunk := os.read(source.fileno(), 1 << 16):
        while select.select([source], [], [], 0.02)[0] and (more := os.read(source.fileno(), 1 << 16)):
            chunk += more
        *lines, rest = (rest + chunk).split(b"\n")
        yield from reversed(lines)


def _stated(request: Request) -> int:
    """The elements that an array of INT64 states; 0 for anything else."""
    is_one = request["op"] == "decode" and request.get("type") == "ARRAY<INT64>"
    return max(int.from_bytes(bytes.fromhex(request["hex"])[:4], signed=True), 0) if is_one else 0


def set_aside(request: Request, answer: Answer) -> Answer:
    """Set memory aside for all elements that are stated, up to a quarter of a gibibyte, and give it back."""
    size = 8 * _stated(request)
    taken = b"x" * (size if size <= 256 << 20 else 0)
    del taken
    return answer


_ZSTD, _STATES_EIGHT_BYTES = bytes.fromhex("28b52ffd"), 0xE0


def believe_the_frame(request: Request, answer: Answer) -> Answer:
    """Set aside what a zstd frame in a batch says that it becomes, up to a quarter of a gibibyte, and give it back."""
    is_one = request["op"] == "decode" and request.get("type") == "RECORD_BATCH"
    payload = bytes.fromhex(request["hex"])[HEADER_SIZE:] if is_one else b""
    is_said = payload.startswith(_ZSTD) and payload[4:5] == bytes([_STATES_EIGHT_BYTES])
    taken = b"x" * min(int.from_bytes(payload[5:13], "little") if is_said else 0, 256 << 20)
    del taken
    return answer


def count_to_the_end(request: Request, answer: Answer) -> Answer:
    """Do something for each element that is stated, up to twenty millions."""
    for number in range(2 * _stated(request) if _stated(request) <= 20_000_000 else 0):
        divmod(number, 7)
    return answer
