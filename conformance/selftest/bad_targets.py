"""Bad targets: processes that misbehave in one way each, and the results that must show it.

`python -m conformance.selftest.bad_targets NAME` runs one of them, or a target with one seeded fault.
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
from conformance.selftest.mutators import REJECTION, VARINT_TYPES, Mutator, change_size, change_value, on, unchanged
from conformance.targets.reference import answer as correct_answer
from conformance.targets.reference import serve

# ruff: noqa: D103 - the table describes each

Misbehavior = Callable[[], Answer | None]
"""Runs at a request; the fields that it returns replace those of the correct answer."""

TRIGGER_REQUEST = ("decode", "VARINT", "7e")
"""The request at which some targets misbehave; only the case `varint/63` has it."""


def on_trigger(misbehave: Misbehavior) -> Mutator:
    """Misbehave at TRIGGER_REQUEST only."""

    def is_trigger(request: Request, _: Answer) -> bool:
        return (request["op"], request.get("type"), request.get("hex")) == TRIGGER_REQUEST

    return on("", when=is_trigger, accepted=None)(lambda _, answer: {**answer, **(misbehave() or {})})


def on_describe(misbehave: Misbehavior) -> Mutator:
    """Misbehave at the request `describe`."""
    return on("describe", accepted=None)(lambda _, answer: {**answer, **(misbehave() or {})})


def accept_everything(request: Request, answer: Answer) -> Answer:
    values: dict[str, Answer] = {"encode": {"hex": "00"}, "size": {"size": 1}, "convert": {"hex": ""}}
    return {"ok": True, **values.get(request["op"], {})} if answer.get("ok") is False else answer


def reject_everything(request: Request, answer: Answer) -> Answer:
    return answer if request["op"] == "describe" else REJECTION


def claim_only(request: Request, answer: Answer) -> Answer:
    return answer if request["op"] == "describe" else {"unsupported": "not yet"}


@on("read")
def show_no_records(_: Request, answer: Answer) -> Answer:
    return {**answer, "value": {"nextOffset": answer["value"]["nextOffset"]}}


@on("sequence")
def omit_last_result(_: Request, answer: Answer) -> Answer:
    return {**answer, "value": answer["value"][:-1]}


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
"""This many times 64 kB are twice the longest allowed answer."""


def in_order(source: BinaryIO) -> Iterator[bytes]:
    """Return the requests in their order."""
    return iter(source.readline, b"")


def in_reverse(source: BinaryIO) -> Iterator[bytes]:
    """Return all waiting requests, the last one first."""
    rest = b""
    while chunk := os.read(source.fileno(), 1 << 16):
        while select.select([source], [], [], 0.02)[0] and (more := os.read(source.fileno(), 1 << 16)):
            chunk += more
        *lines, rest = (rest + chunk).split(b"\n")
        yield from reversed(lines)


def _claimed_count(request: Request) -> int:
    """Return the count of an array of INT64; 0 for other types."""
    is_one = request["op"] == "decode" and request.get("type") == "ARRAY<INT64>"
    return max(int.from_bytes(bytes.fromhex(request["hex"])[:4], signed=True), 0) if is_one else 0


def allocate_claimed_size(request: Request, answer: Answer) -> Answer:
    """Allocate and free memory for all claimed elements, up to 256 MiB."""
    size = 8 * _claimed_count(request)
    taken = b"x" * (size if size <= 256 << 20 else 0)
    del taken
    return answer


_ZSTD_WITH_CONTENT_SIZE = bytes.fromhex("28b52ffde0")


def trust_zstd_content_size(request: Request, answer: Answer) -> Answer:
    """Allocate and free the content size of a zstd frame in a batch, up to 256 MiB."""
    is_one = request["op"] == "decode" and request.get("type") == "RECORD_BATCH"
    payload = bytes.fromhex(request["hex"])[HEADER_SIZE:] if is_one else b""
    size = int.from_bytes(payload[5:13], "little") if payload.startswith(_ZSTD_WITH_CONTENT_SIZE) else 0
    taken = b"x" * min(size, 256 << 20)
    del taken
    return answer


def count_to_the_end(request: Request, answer: Answer) -> Answer:
    """Run a loop over all claimed elements, up to 20 million."""
    for number in range(2 * _claimed_count(request) if _claimed_count(request) <= 20_000_000 else 0):
        divmod(number, 7)
    return answer


class ExpectedDetection(Struct, frozen=True):
    """A result that shows the fault: a verdict of this kind and level, for this requirement (empty: any)."""

    kind: VerdictKind
    requirement: str = ""
    level: str = "must"


class BadTarget(Struct, frozen=True):
    """A target that misbehaves in one way, and the results that must show it."""

    name: str
    does: str
    mutate: Mutator
    caught: tuple[ExpectedDetection, ...] = ()
    """The results must contain all of these."""
    never_passes: tuple[type, ...] = ()
    """It must not pass a case with an expectation of these types."""
    once: bool = False
    """It misbehaves at TRIGGER_REQUEST only."""
    problem: str = ""
    """The problem that the run must report, if the suite cannot test the target."""
    seconds: float = 5.0
    """The timeout for its answers and for its start, in seconds."""
    reads: Callable[[BinaryIO], Iterable[bytes]] = in_order
    """Reads the requests from standard input."""

    def respond(self, request: Request) -> Answer:
        """Return its answer to a request."""
        return self.mutate(request, correct_answer(request))


# --- the table ----------------------------------------------------------------------------------------

VALUES = (ExpectValue, ExpectBytes, ExpectEquivalentBytes, ExpectSize, ExpectConvertedRecords, ExpectSequenceResults)
"""Expectations with a value: a target without values cannot meet them."""


def fails(*requirements: str, level: str = "must") -> tuple[ExpectedDetection, ...]:
    """Return failures of cases of these requirements."""
    return tuple(ExpectedDetection(VerdictKind.FAIL, requirement, level) for requirement in requirements)


def skips(*requirements: str) -> tuple[ExpectedDetection, ...]:
    """Return skipped cases of these requirements."""
    return tuple(ExpectedDetection(VerdictKind.SKIP, requirement) for requirement in requirements)


def misbehave_once(
    name: str, does: str, misbehave: Misbehavior, kind: VerdictKind | None, seconds: float = 5.0
) -> BadTarget:
    """Return a target that misbehaves at TRIGGER_REQUEST. It fails the requirement of that case and ROBUSTNESS."""
    robust = (ExpectedDetection(kind, ROBUSTNESS),) if kind in (VerdictKind.CRASH, VerdictKind.TIMEOUT) else ()
    caught = (ExpectedDetection(kind, "varint.examples"), *robust) if kind else ()
    return BadTarget(name, does, on_trigger(misbehave), caught, once=True, seconds=seconds)


# fmt: off
_WRONG = (
    BadTarget("accepts-everything", "rejects nothing", accept_everything,
         fails("varint.max-five-bytes", "int.out-of-range-unencodable"), never_passes=(ExpectRejection,)),
    BadTarget("refuses-everything", "accepts nothing", reject_everything,
         fails("varint.examples", "codec.lz4"), never_passes=VALUES),
    BadTarget("shows-nothing", "decodes, but returns no value", on("decode")(lambda *_: {"ok": True}),
         skips("varint.examples", "codec.lz4"), never_passes=(ExpectValue,)),
    BadTarget("varint-off-by-one", "adds one to every varint", change_value(VARINT_TYPES, lambda value: int(value) + 1),
         fails("varint.zigzag-table")),
    BadTarget("wrong-size", "returns sizes one byte too small", change_size("", lambda size: size - 1),
         fails("size.batch-calculation"), never_passes=(ExpectSize,)),
    BadTarget("sets-aside-what-is-stated", "allocates all elements that an array claims", allocate_claimed_size,
         fails("memory.array-count-bounded", level="should")),
    BadTarget("believes-the-frame", "allocates the content size of a zstd frame", trust_zstd_content_size,
         fails("memory.in-proportion", level="should")),
    BadTarget("counts-to-the-end", "runs a loop over all elements that an array claims", count_to_the_end,
         fails("memory.array-count-bounded", level="should"), seconds=20.0),
)

LOGS = (
    BadTarget("shows-no-records", "returns the next offset without records", show_no_records,
         skips("offset.next-formula", "consumer.filters-aborted"), never_passes=(ExpectConsumerView,)),
    BadTarget("forgets-the-last-batch", "omits the result of the last batch", omit_last_result,
         (ExpectedDetection(VerdictKind.PROTOCOL),), never_passes=(ExpectSequenceResults,)),
)
"""Bad targets that are wrong only for whole logs."""

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
    BadTarget("out-of-order", "answers the waiting requests in reverse order", unchanged,
         (ExpectedDetection(VerdictKind.PROTOCOL),), reads=in_reverse),
    BadTarget("empty-claims", "answers `unsupported` to all requests", claim_only,
         (ExpectedDetection(VerdictKind.PROTOCOL, "general.exact-encoding"),), never_passes=VALUES),
    BadTarget("dies-at-start", "dies before it describes itself", on_describe(lambda: os._exit(9)),
         problem="exited with status 9"),
    BadTarget("silent-at-start", "never describes itself", on_describe(hang),
         problem="no answer to describe", seconds=1),
    BadTarget("describes-nonsense", "describes itself with nonsense", on_describe(lambda: {"supports": 7}),
         problem="supports: expected an object"),
)
# fmt: on

BAD_TARGETS = {target.name: target for target in (*_WRONG, *LOGS, *_BREAKING)}
"""Every bad target by name."""


def _fault(name: str) -> BadTarget | None:
    """Return the target that has one seeded fault, by the id of the fault."""
    from conformance.selftest import FAULTS

    return BadTarget(name, FAULTS[name].description, FAULTS[name].mutate) if name in FAULTS else None


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
