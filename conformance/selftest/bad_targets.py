"""Deliberate liars: targets that are each wrong in one named way, and what must catch each of them.

They prove that the judge judges. A liar asks the reference and then lies about the answer, or does something that no
target should do; `python -m conformance.selftest.bad_targets NAME` speaks the protocol for one of them.
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
from conformance.selftest.mutators import (
    Mutator,
    batches,
    describing,
    on_trigger,
    records,
    values,
    written,
)
from conformance.targets.reference import answer as honest
from conformance.targets.reference import serve

# ruff: noqa: D103 - what each does stands in the table of `liars`


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
    """A result that exposes a liar: a verdict of this kind and level about this requirement (about any, if empty)."""

    kind: VerdictKind
    requirement: str = ""
    level: str = "must"


class BadTarget(Struct, frozen=True):
    """One way to be wrong, and the results that must show it."""

    name: str
    does: str
    lie: Mutator
    caught: tuple[ExpectedDetection, ...] = ()
    """Each of these must be among its results."""
    never_passes: tuple[type, ...] = ()
    """It must not pass any case with an expectation of these types."""
    once: bool = False
    """Whether it is wrong at one request only (`lies.THE_ONE`)."""
    problem: str = ""
    """What the run must say of a liar that cannot be judged."""
    seconds: float = 5.0
    """Seconds to wait for its answers and for its start; few for a liar that does not answer."""
    reads: Callable[[BinaryIO], Iterable[bytes]] = in_order
    """How it takes its requests from standard input."""

    def respond(self, request: Request) -> Answer:
        """Its answer to a request."""
        return self.lie(request, honest(request))


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
    """A liar that breaks down at one request: it fails the requirement of that case, and the one to answer at all."""
    robust = (ExpectedDetection(kind, ROBUSTNESS),) if kind in (VerdictKind.CRASH, VerdictKind.TIMEOUT) else ()
    caught = (ExpectedDetection(kind, "varint.examples"), *robust) if kind else ()
    return BadTarget(name, does, on_trigger(deed), caught, once=True, seconds=seconds)


# fmt: off
_DECODING = (
    BadTarget("accepts-everything", "refuses nothing", mutators.accept,
         fails("varint.max-five-bytes", "int.out-of-range-unencodable"), never_passes=(ExpectRejection,)),
    BadTarget("refuses-everything", "accepts nothing", mutators.refuse,
         fails("varint.examples", "codec.lz4"), never_passes=VALUES),
    BadTarget("shows-nothing", "decodes, but shows no value", mutators.show_nothing,
         skips("varint.examples", "codec.lz4"), never_passes=(ExpectValue,)),
    BadTarget("varint-off-by-one", "adds one to every varint", values(lambda value: int(value) + 1, *mutators.VARINTS),
         fails("varint.zigzag-table")),
    BadTarget("little-endian", "reads integers in the wrong byte order", mutators.swap_bytes,
         fails("byte-order.fixed-width-big-endian")),
    BadTarget("null-as-empty", "takes null for empty", mutators.null_as_empty,
         fails("nullable-string.null-minus-one", "array.null-minus-one", "record.key-absent-when-negative")),
    BadTarget("empty-as-null", "takes empty for null",
         values(lambda value: value or None, *mutators.STRINGS, *mutators.BYTES, "ARRAY<INT32>"),
         fails("array.empty-not-null", "compact-nullable-string.null-zero")),
    BadTarget("crc-unchecked", "does not check checksums", mutators.ignore_crc,
         fails("crc.mismatch-corrupt")),
    BadTarget("crc-misnamed", "calls a wrong checksum malformed", mutators.call_it_malformed,
         fails("crc.mismatch-corrupt", level="should")),
    BadTarget("one-byte-too-many", "consumes a byte more than it reads", mutators.consume_more,
         fails("int32.layout", "record.field-order")),
    BadTarget("reads-the-end", "reads the last bytes of the input, not the first", mutators.read_the_end,
         fails("general.exact-encoding")),
    BadTarget("drops-the-last-record", "leaves out the last record of a batch", batches(mutators.drop_last),
         fails("batch.record-count")),
    BadTarget("folds-headers", "keeps only the last header of each key", records(mutators.last_header_wins),
         fails("header.duplicate-keys-kept")),
    BadTarget("whole-seconds", "loses the milliseconds", records(mutators.whole_seconds),
         fails("timestamp.record-formula")),
    BadTarget("always-create-time", "takes LogAppendTime for CreateTime", batches(mutators.always_create_time),
         fails("timestamp.log-append-overwritten")),
    BadTarget("offsets-from-zero", "ignores baseOffset", records(lambda record: {"offset": str(record["offsetDelta"])}),
         fails("offset.record-formula")),
    BadTarget("varint-without-limit", "reads varints of any length", mutators.read_any_varint,
         fails("varint.max-five-bytes", "varlong.max-ten-bytes")),
    BadTarget("trusts-lengths", "returns what is there of a string cut short", mutators.return_what_is_there,
         fails("string.truncated-rejected")),
    BadTarget("unsigned-as-signed", "reads unsigned integers as signed", mutators.read_signed,
         fails("uint16.layout", "uint32.layout")),
    BadTarget("int64-as-double", "holds 64-bit integers in a double",
         values(lambda value: str(int(float(value))), "INT64", "VARLONG"), fails("int64.layout", "varlong.range")),
    BadTarget("only-one-is-true", "takes every byte but 01 for false", mutators.only_one_is_true,
         fails("boolean.read-nonzero-true")),
    BadTarget("third-reading", "reads a padded varint as another value", mutators.third_reading,
         fails("varint.non-minimal", level="may")),
    BadTarget("still-compressed", "shows no record of a compressed batch", batches(mutators.leave_compressed),
         fails("codec.gzip", "codec.snappy", "codec.lz4", "batch.record-count")),
    BadTarget("stops-at-the-count", "looks at nothing after the counted records", mutators.stop_at_the_count,
         fails("batch.record-count-mismatch", level="should")),
    BadTarget("sets-aside-what-is-stated", "takes memory for all elements that an array states", allocate_claimed_size,
         fails("memory.array-count-bounded", level="should")),
    BadTarget("believes-the-frame", "takes memory for what a zstd frame says that it becomes", trust_zstd_content_size,
         fails("memory.in-proportion", level="should")),
    BadTarget("counts-to-the-end", "does something for each element that an array states", count_to_the_end,
         fails("memory.array-count-bounded", level="should"), seconds=20.0),
    BadTarget("control-unseen", "takes control batches for data", batches(lambda _: {"isControlBatch": False}),
         fails("attributes.control-bit")),
)

_ENCODING = (
    BadTarget("pads-varints", "writes varints a byte too long", written(mutators.padded, *mutators.VARINTS),
         fails("varint.encoder-minimal", "uvarint.examples")),
    BadTarget("wrong-crc", "writes no checksum", written(mutators.without_crc, "RECORD_BATCH"),
         fails("batch.crc")),
    BadTarget("bytes-after-batch", "writes a byte after each batch", written(lambda data: data + b"\0", "RECORD_BATCH"),
         fails("codec.lz4", "batch.crc")),
    BadTarget("wrong-size", "forgets a byte in sizes", mutators.forget_a_byte,
         fails("size.batch-calculation"), never_passes=(ExpectSize,)),
    BadTarget("characters-for-bytes", "writes the length of a string in characters", mutators.count_characters,
         fails("string.length-in-bytes")),
    BadTarget("halves-of-characters", "writes half of a surrogate pair as three bytes", mutators.write_halves,
         fails("utf8.encoded-valid")),
    BadTarget("never-compresses", "writes every batch uncompressed", mutators.write_uncompressed,
         fails("attributes.compression-bits")),
)

LOGS = (
    BadTarget("hands-out-markers", "hands control records to the application", mutators.view(mutators.show_markers),
         fails("consumer.handles-control-batches")),
    BadTarget("never-filters", "takes read_committed for read_uncommitted",
         mutators.asked(isolation="read_uncommitted"),
         fails("consumer.filters-aborted")),
    BadTarget("next-after-the-last-record", "fetches next after the last record it saw",
         mutators.view(mutators.next_after_the_last),
         fails("offset.next-formula") + fails("offset.next-formula", level="should")),
    BadTarget("next-one-too-far", "skips one offset between fetches", mutators.view(mutators.one_further),
         fails("offset.next-formula")),
    BadTarget("next-one-too-low", "fetches the last offset again", mutators.view(mutators.one_back),
         fails("offset.next-formula")),
    BadTarget("stays", "never moves on", mutators.view(mutators.stay),
         fails("offset.next-formula")),
    BadTarget("hands-out-the-past", "hands out records before the fetch offset",
         mutators.view(mutators.hand_out_the_past),
         fails("offset.fetch-absolute")),
    BadTarget("keeps-silent", "does not report damage in a log", mutators.keep_silent,
         fails("batch.length-wrong-rejected")),
    BadTarget("consumes-corrupt", "does not check checksums in a fetch", mutators.asked(checkCrcs=False),
         fails("crc.mismatch-corrupt", "legacy.crc-checked", level="should")),
    BadTarget("shows-no-records", "shows the next offset and no records", mutators.show_no_records,
         skips("offset.next-formula", "consumer.filters-aborted"), never_passes=(ExpectConsumerView,)),
    BadTarget("converts-nothing", "gives every log back as it is", mutators.convert_nothing,
         (*fails("convert.down-for-old-consumers", level="should"),
          *fails("convert.down-loses-features", "convert.up-to-v2"))),
    BadTarget("converts-the-first", "loses all entries but the first", mutators.convert_the_first,
         fails("convert.down-for-old-consumers", level="should")),
    BadTarget("stores-repeats", "accepts a batch sent again", mutators.change_sequence_results(duplicate="accept"),
         fails("sequence.duplicate-deduplicated")),
    BadTarget(
        "stores-gaps", "accepts a batch after a gap", mutators.change_sequence_results(**{"out-of-order": "accept"}
    ),
         fails("sequence.gap-out-of-order")),
    BadTarget("fences-nobody", "accepts an older epoch", mutators.change_sequence_results(fenced="accept"),
         fails("producer-epoch.fences")),
    BadTarget("forgets-the-last-batch", "answers for all batches but the last", mutators.forget_the_last,
         (ExpectedDetection(VerdictKind.PROTOCOL),), never_passes=(ExpectSequenceResults,)),
)
"""Those that lie about whole logs, and about nothing else."""

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

LIARS = {liar.name: liar for liar in (*_DECODING, *_ENCODING, *LOGS, *_BREAKING)}
"""Every liar by name."""


def main(arguments: list[str]) -> int:
    """Speak the protocol for the liar that is named; the exit status."""
    if len(arguments) != 1 or arguments[0] not in LIARS:
        sys.stderr.write("name a liar:\n" + "".join(f"  {liar.name}: {liar.does}\n" for liar in LIARS.values()))
        return 2
    liar = LIARS[arguments[0]]
    serve(liar.reads(sys.stdin.buffer), sys.stdout.buffer, liar.respond)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
