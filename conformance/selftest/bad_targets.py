"""Bad targets: processes that each misbehave in one named way, and the results that must show it.

`python -m conformance.selftest.bad_targets NAME` speaks the protocol for one of them, or for a target with one seeded
fault.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from msgspec import Struct

from conformance.cases.model import (
    ROBUSTNESS,
    Answer,
    ExpectBytes,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectSequenceResults,
    ExpectSize,
    ExpectValue,
    Request,
    VerdictKind,
)
from conformance.codec.record_batch import HEADER_SIZE
from conformance.process.child_process import MAX_LINE_BYTES
from conformance.selftest import mutators
from conformance.selftest.mutators import Mutator, describing, on_trigger, values
from conformance.targets.reference import answer as honest
from conformance.targets.reference import serve

# ruff: noqa: D103 - the table says what each does


def hang() -> None:
    time.sleep(3600)


def write_stderr_forever() -> None:
    while True:
        os.write(2, b"still trying\n" * 100)


def write_slowly() -> None:
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


def allocate_claimed_size(request: Request, answer: Answer) -> Answer:
    """Set memory aside for all elements that are stated, up to a quarter of a gibibyte, and give it back."""
    size = 8 * _stated(request)
    taken = b"x" * (size if size <= 256 << 20 else 0)
    del taken
    return answer


_ZSTD, _STATES_EIGHT_BYTES = bytes.fromhex("28b52ffd"), 0xE0


def trust_zstd_content_size(request: Request, answer: Answer) -> Answer:
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


class ExpectedDetection(Struct, frozen=True):
    """A result that exposes a bad target: a verdict of this kind and level about this requirement (empty: any)."""

    kind: VerdictKind
    requirement: str = ""
    level: str = "must"


class BadTarget(Struct, frozen=True):
    """One way to be wrong, and the results that must show it."""

    name: str
    does: str
    mutate: Mutator
    caught: tuple[ExpectedDetection, ...] = ()
    """Each of these must be among its results."""
    never_passes: tuple[type, ...] = ()
    """It must not pass any case with an expectation of these types."""
    once: bool = False
    """It is wrong at one request only (TRIGGER_REQUEST)."""
    problem: str = ""
    """The problem that the run must report if the target cannot be judged."""
    seconds: float = 5.0
    """Seconds to wait for its answers and for its start; few for a target that does not answer."""
    reads: Callable[[BinaryIO], Iterable[bytes]] = in_order
    """How it takes its requests from standard input."""

    def respond(self, request: Request) -> Answer:
        """Its answer to a request."""
        return self.mutate(request, honest(request))


# --- the table ----------------------------------------------------------------------------------------

VALUES = (ExpectValue, ExpectBytes, ExpectEquivalentBytes, ExpectSize, ExpectConvertedRecords, ExpectSequenceResults)
"""Expectations with a value: a target that shows or accepts no value cannot meet them."""


def fails(*requirements: str, level: str = "must") -> tuple[ExpectedDetection, ...]:
    """It must fail cases of these requirements."""
    return tuple(ExpectedDetection(VerdictKind.FAIL, requirement, level) for requirement in requirements)


def skips(*requirements: str) -> tuple[ExpectedDetection, ...]:
    """Cases of these requirements must be skipped."""
    return tuple(ExpectedDetection(VerdictKind.SKIP, requirement) for requirement in requirements)


def misbehave_once(
    name: str, does: str, deed: mutators.Misbehavior, kind: VerdictKind | None, seconds: float = 5.0
) -> BadTarget:
    """A target that misbehaves at one request: it fails the requirement of that case, and the one to answer at all."""
    robust = (ExpectedDetection(kind, ROBUSTNESS),) if kind in (VerdictKind.CRASH, VerdictKind.TIMEOUT) else ()
    caught = (ExpectedDetection(kind, "varint.examples"), *robust) if kind else ()
    return BadTarget(name, does, on_trigger(deed), caught, once=True, seconds=seconds)


# fmt: off
_WRONG = (
    BadTarget("accepts-everything", "refuses nothing", mutators.accept,
         fails("varint.max-five-bytes", "int.out-of-range-unencodable"), never_passes=(ExpectRejection,)),
    BadTarget("refuses-everything", "accepts nothing", mutators.refuse,
         fails("varint.examples", "codec.lz4"), never_passes=VALUES),
    BadTarget("shows-nothing", "decodes, but shows no value", mutators.show_nothing,
         skips("varint.examples", "codec.lz4"), never_passes=(ExpectValue,)),
    BadTarget("varint-off-by-one", "adds one to every varint", values(lambda value: int(value) + 1, *mutators.VARINTS),
         fails("varint.zigzag-table")),
    BadTarget("wrong-size", "forgets a byte in sizes", mutators.forget_a_byte,
         fails("size.batch-calculation"), never_passes=(ExpectSize,)),
    BadTarget("sets-aside-what-is-stated", "takes memory for all elements that an array states", allocate_claimed_size,
         fails("memory.array-count-bounded", level="should")),
    BadTarget("believes-the-frame", "takes memory for the size that a zstd frame states", trust_zstd_content_size,
         fails("memory.in-proportion", level="should")),
    BadTarget("counts-to-the-end", "does something for each element that an array states", count_to_the_end,
         fails("memory.array-count-bounded", level="should"), seconds=20.0),
)

LOGS = (
    BadTarget("shows-no-records", "shows the next offset and no records", mutators.show_no_records,
         skips("offset.next-formula", "consumer.filters-aborted"), never_passes=(ExpectConsumerView,)),
    BadTarget("forgets-the-last-batch", "answers for all batches but the last", mutators.forget_the_last,
         (ExpectedDetection(VerdictKind.PROTOCOL),), never_passes=(ExpectSequenceResults,)),
)
"""Those that are wrong about whole logs only."""

_BREAKING = (
    misbehave_once("hangs", "never answers", hang, VerdictKind.TIMEOUT, seconds=1),
    misbehave_once(
        "complains", "answers on standard error only, for ever", write_stderr_forever, VerdictKind.TIMEOUT, seconds=1
    ),
    misbehave_once(
        "trickles", "writes its answer a byte at a time, for ever", write_slowly, VerdictKind.TIMEOUT, seconds=1
    ),
    misbehave_once("exits", "exits with status 0", lambda: os._exit(0), VerdictKind.CRASH),
    misbehave_once("segfaults", "dies of a signal", segfault, VerdictKind.CRASH),
    misbehave_once("admits-a-crash", "answers that it crashed", lambda: {"crash": "TypeError: no"}, VerdictKind.CRASH),
    BadTarget("allocates", "allocates without end", on_trigger(allocate),
         fails(ROBUSTNESS), once=True),
    misbehave_once("leaves-a-child", "leaves a child behind, and answers as it should", leave_child, None),
    misbehave_once("leaves-a-session", "leaves a child in a session of its own", leave_session, None),
    misbehave_once(
        "dies-with-a-child", "dies while a child holds its output open", leave_child_and_die, VerdictKind.CRASH
    ),
    misbehave_once("closes-output", "closes its output, and lives on", close_output, VerdictKind.CRASH),
    misbehave_once(
        "long-line", "writes a line without end", lambda: write(b"x" * 65536, FOREVER), VerdictKind.PROTOCOL
    ),
    misbehave_once(
        "unasked-lines", "writes unasked lines", lambda: write(b"{}\n" * 21845, FOREVER), VerdictKind.PROTOCOL
    ),
    misbehave_once("garbage", "prints a line before its answer", lambda: write(b"hello\n"), VerdictKind.PROTOCOL),
    misbehave_once("wrong-id", "answers under another id", lambda: {"id": -1}, VerdictKind.PROTOCOL),
    misbehave_once(
        "wrong-shape", "shows a number as an object", lambda: {"value": {"number": 63}}, VerdictKind.PROTOCOL
    ),
    misbehave_once("no-verdict", "answers neither yes nor no", lambda: {"ok": "perhaps"}, VerdictKind.PROTOCOL),
    BadTarget("out-of-order", "answers the waiting requests in reverse order", mutators.nothing,
         (ExpectedDetection(VerdictKind.PROTOCOL),), reads=in_reverse),
    BadTarget("empty-claims", "answers `unsupported` to all that it claims", mutators.claim_only,
         (ExpectedDetection(VerdictKind.PROTOCOL, "general.exact-encoding"),), never_passes=VALUES),
    BadTarget("dies-at-start", "dies before it describes itself", describing(lambda: os._exit(9)),
         problem="exited with status 9"),
    BadTarget("silent-at-start", "never describes itself", describing(hang),
         problem="no answer to describe", seconds=1),
    BadTarget("describes-nonsense", "describes itself with nonsense", describing(lambda: {"supports": 7}),
         problem="supports is an object"),
)
# fmt: on

BAD_TARGETS = {target.name: target for target in (*_WRONG, *LOGS, *_BREAKING)}
"""Every bad target by name."""


def _fault(name: str) -> BadTarget | None:
    """Return the target that has one seeded fault, by the id of the fault."""
    from conformance.selftest import DEFECTS

    return BadTarget(name, DEFECTS[name].description, DEFECTS[name].mutate) if name in DEFECTS else None


def main(arguments: list[str]) -> int:
    """Speak the protocol for the named bad target or seeded fault, and return the exit status."""
    target = BAD_TARGETS.get(arguments[0]) or _fault(arguments[0]) if len(arguments) == 1 else None
    if target is None:
        rows = "".join(f"  {target.name}: {target.does}\n" for target in BAD_TARGETS.values())
        sys.stderr.write(f"name a bad target or a seeded fault:\n{rows}")
        return 2
    serve(target.reads(sys.stdin.buffer), sys.stdout.buffer, target.respond)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
