"""Deliberate liars: targets that are each wrong in one named way, and what must catch each of them.

They prove that the judge judges. A liar asks the reference and then lies about the answer, or does something that no
target should do; `python -m conformance.targets.liars NAME` speaks the protocol for one of them.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from conformance.cases import ROBUSTNESS, Kind, Measures, Reads, Refuses, Writes, WritesAs
from conformance.codec.checksums import CRC32C
from conformance.targets.protocol import LONGEST_ANSWER
from conformance.targets.reference import answer as honest
from conformance.targets.serving import serve

Request = dict[str, Any]
Answer = dict[str, Any]
Lie = Callable[[Request, Answer], Answer]
"""What a liar makes of a request and the honest answer to it."""

THE_ONE = ("decode", "VARINT", "7e")
"""The single question at which liars that break down do so: one case of the catalogue asks it, `varint/63`."""


@dataclass(frozen=True, slots=True)
class Catch:
    """A result that gives the liar away: a verdict of this kind and level on this requirement (empty: on any)."""

    kind: Kind
    requirement: str = ""
    level: str = "must"


@dataclass(frozen=True, slots=True)
class Liar:
    """One way of being wrong, and everything that must come of it."""

    name: str
    does: str
    lie: Lie
    caught: tuple[Catch, ...] = ()
    """Each of these must be among its results."""
    never_passes: tuple[type, ...] = ()
    """Kinds of expectation of which it must not pass a single case."""
    starts: bool = True
    """Whether it gets as far as being judged."""
    seconds: float = 5.0
    """How long it needs to be given for an answer; short where it is meant to be late."""
    reads: Callable[[BinaryIO], Iterable[bytes]] = field(default=lambda source: iter(source.readline, b""))

    def respond(self, request: Request) -> Answer:
        """Its answer to a request."""
        return self.lie(request, honest(request))


# --- shapes that lies share ---------------------------------------------------------------------------


def _on(*ops: str, types: Iterable[str] = (), refused: bool = False) -> Callable[[Lie], Lie]:
    """Lie only in these operations on these types (none named: all), where the honest answer accepts (or refuses)."""
    wanted = tuple(types)

    def narrowed(lie: Lie) -> Lie:
        def narrow(request: Request, answer: Answer) -> Answer:
            fits = request["op"] in ops and (not wanted or request.get("type") in wanted)
            return lie(request, answer) if fits and answer.get("ok") is not refused else answer

        return narrow

    return narrowed


def _at_the_one(deed: Callable[[], Answer | None]) -> Lie:
    """Do it when the one question is asked, then answer honestly but for what the deed returns."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = (request["op"], request.get("type"), request.get("hex"))
        return {**answer, **(deed() or {})} if asked == THE_ONE else answer

    return lie


def _describing(deed: Callable[[], Answer | None]) -> Lie:
    """Do it when asked to describe itself."""
    return lambda request, answer: {**answer, **(deed() or {})} if request["op"] == "describe" else answer


def _values(change: Callable[[Any], Any], *types: str) -> Lie:
    """Show another value than the decoded one."""
    return _on("decode", types=types)(lambda _, answer: {**answer, "value": change(answer["value"])})


def _batches(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Lie:
    """Show other fields of a decoded batch than it has."""
    return _values(lambda batch: {**batch, **change(batch)}, "RECORD_BATCH")


def _records(change: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> Lie:
    """Show other fields of each record; `change` is told the record and its batch."""
    return _batches(lambda batch: {"records": [{**record, **change(record, batch)} for record in batch["records"]]})


def _written(change: Callable[[bytes], bytes], *types: str) -> Lie:
    """Write other bytes than the right ones."""
    return _on("encode", types=types)(lambda _, answer: {**answer, "hex": change(bytes.fromhex(answer["hex"])).hex()})


def _everywhere(change: Callable[[Any], Any], value: Any) -> Any:
    """A value with every leaf changed."""
    if isinstance(value, dict):
        return {name: _everywhere(change, entry) for name, entry in value.items()}
    return [_everywhere(change, entry) for entry in value] if isinstance(value, list) else change(value)


# --- lies ---------------------------------------------------------------------------------------------

_VARINTS = ("VARINT", "UNSIGNED_VARINT", "VARLONG")
_STRINGS = ("STRING", "NULLABLE_STRING", "COMPACT_STRING", "COMPACT_NULLABLE_STRING")
_BYTES = ("BYTES", "NULLABLE_BYTES", "COMPACT_BYTES", "COMPACT_NULLABLE_BYTES")
_INTS = {"INT16": "h", "INT32": "i", "INT64": "q", "UINT16": "H", "UINT32": "I"}


def _accepts(request: Request, answer: Answer) -> Answer:
    if answer.get("ok") is not False:
        return answer
    return {"decode": {"ok": True}, "encode": {"ok": True, "hex": "00"}, "size": {"ok": True, "size": 1}}[request["op"]]


def _refuses(request: Request, answer: Answer) -> Answer:
    return answer if request["op"] == "describe" else {"ok": False, "error": "malformed", "message": "no"}


def _swapped(request: Request, answer: Answer) -> Answer:
    code = _INTS[request["type"]]
    value = struct.unpack("<" + code, struct.pack(">" + code, int(answer["value"])))[0]
    return {**answer, "value": str(value) if code == "q" else value}


def _null_as_empty(request: Request, answer: Answer) -> Answer:
    empty: Any = [] if "ARRAY" in request["type"] else ""
    return {**answer, "value": _everywhere(lambda leaf: empty if leaf is None else leaf, answer["value"])}


def _unchecked_crc(request: Request, answer: Answer) -> Answer:
    if answer["error"] != "corrupt":
        return answer
    data = bytes.fromhex(request["hex"])
    mended = data[:17] + CRC32C.compute(data[21 : 12 + int.from_bytes(data[8:12])]).to_bytes(4) + data[21:]
    return honest({**request, "hex": mended.hex()})


def _from_the_end(request: Request, answer: Answer) -> Answer:
    data, used = bytes.fromhex(request["hex"]), answer["consumed"]
    return {**honest({**request, "hex": data[len(data) - used :].hex()}), "consumed": used}


def _last_value_wins(record: dict[str, Any], _: Any) -> dict[str, Any]:
    by_key = {header["key"]: header for header in record["headers"]}
    return {"headers": list(by_key.values())}


def _in_seconds(record: dict[str, Any], _: Any) -> dict[str, Any]:
    return {"timestamp": str(int(record["timestamp"]) // 1000 * 1000)}


def _created(batch: dict[str, Any]) -> dict[str, Any]:
    base = int(batch["baseTimestamp"])
    records = [{**record, "timestamp": str(base + int(record["timestampDelta"]))} for record in batch["records"]]
    return {"timestampType": "CreateTime", "records": records}


def _any_length_of_varint(request: Request, answer: Answer) -> Answer:
    data = bytes.fromhex(request["hex"])
    size = next((at + 1 for at, byte in enumerate(data) if byte < 0x80), 0)  # noqa: PLR2004 - the continuation bit
    return {"ok": True, "value": 0, "consumed": size} if size else answer


def _what_is_there(request: Request, answer: Answer) -> Answer:
    data = bytes.fromhex(request["hex"])
    return {"ok": True, "value": data[2:].decode("utf-8", "replace"), "consumed": len(data)} if data else answer


def _as_signed(request: Request, answer: Answer) -> Answer:
    bits = 8 * answer["consumed"]
    value = answer["value"]
    return {**answer, "value": value - (1 << bits) if value >> (bits - 1) else value}


def _as_double(value: str) -> str:
    return str(int(float(value)))


def _padded(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] | 0x80, 0)) if data else data


def _length_in_characters(request: Request, answer: Answer) -> Answer:
    text = request["value"] or ""
    return {**answer, "hex": (len(text).to_bytes(2) + bytes.fromhex(answer["hex"])[2:]).hex()} if text else answer


def _third_reading(request: Request, answer: Answer) -> Answer:
    padded = len(request["hex"]) > 2 and request["hex"].endswith("00")  # noqa: PLR2004 - the digits of a byte
    return {**answer, "value": answer["value"] + 1} if padded else answer


def _never_compressed(request: Request, answer: Answer) -> Answer:
    return honest({**request, "value": {**request["value"], "compression": "none"}})


def _stops_at_the_count(request: Request, answer: Answer) -> Answer:
    """Reads as many records as the count says and looks no further."""
    data = bytes.fromhex(request["hex"])
    for more in range(1, 4):
        counted = data[:57] + (int.from_bytes(data[57:61]) + more).to_bytes(5)[-4:] + data[61:]
        whole = honest({**request, "hex": (counted[:17] + CRC32C.compute(counted[21:]).to_bytes(4) + counted[21:]).hex()})
        if whole["ok"]:
            return {**whole, "value": {**whole["value"], "records": whole["value"]["records"][:-more]}}
    return answer


# --- deeds --------------------------------------------------------------------------------------------


def _hang() -> None:
    time.sleep(3600)


def _segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _allocate() -> None:
    hoard = []
    while True:
        hoard.append(b"x" * (32 << 20))
        time.sleep(0.02)


def _leave_child(*, session: bool) -> None:
    if os.fork() == 0:
        if session:
            os.setsid()
        _hang()


def _leave_child_and_die() -> None:
    _leave_child(session=False)
    os._exit(7)


def _close_output() -> None:
    os.close(1)
    _hang()


def _write(piece: bytes, times: int = 1) -> None:
    for _ in range(times):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _complain() -> None:
    while True:
        os.write(2, b"still trying\n" * 100)


def _in_reverse(source: BinaryIO) -> Iterator[bytes]:
    """All requests that are waiting, the last one first."""
    rest = b""
    while True:
        chunk = os.read(source.fileno(), 1 << 16)
        while select.select([source], [], [], 0.02)[0] and (more := os.read(source.fileno(), 1 << 16)):
            chunk += more
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from reversed(lines)


_FOREVER = LONGEST_ANSWER >> 15
"""How often 64 kB must be written to be twice as long as any answer may be."""


# --- the table ----------------------------------------------------------------------------------------

_VALUES = (Reads, Writes, WritesAs, Measures)


def _fails(*requirements: str, level: str = "must") -> tuple[Catch, ...]:
    return tuple(Catch(Kind.FAIL, requirement, level) for requirement in requirements)


def _broken(kind: Kind) -> tuple[Catch, ...]:
    """What comes of breaking down at the one question: a verdict on its requirement, and on answering at all."""
    return (Catch(kind, "varint.examples"), *([Catch(kind, ROBUSTNESS)] if kind is not Kind.PROTOCOL else []))


_DECODED = (
    Liar("accepts-everything", "refuses nothing", _accepts, _fails("varint.max-five-bytes", "int.out-of-range-unencodable"), (Refuses,)),
    Liar("refuses-everything", "accepts nothing", _refuses, _fails("varint.examples", "codec.lz4"), _VALUES),
    Liar(
        "shows-nothing",
        "decodes without showing what",
        _on("decode")(lambda *_: {"ok": True}),
        (Catch(Kind.SKIP, "varint.examples"), Catch(Kind.SKIP, "codec.lz4")),
        (Reads,),
    ),
    Liar("varint-off-by-one", "adds one to every varint", _values(lambda value: int(value) + 1, *_VARINTS), _fails("varint.zigzag-table")),
    Liar("little-endian", "reads integers in the wrong byte order", _on("decode", types=_INTS)(_swapped), _fails("byte-order.fixed-width-big-endian")),
    Liar("null-as-empty", "takes null for empty", _on("decode")(_null_as_empty), _fails("nullable-string.null-minus-one", "array.null-minus-one")),
    Liar(
        "empty-as-null",
        "takes empty for null",
        _values(lambda value: value if value not in ("", []) else None, *_STRINGS, *_BYTES, "ARRAY<INT32>"),
        _fails("array.empty-not-null", "compact-nullable-string.null-zero"),
    ),
    Liar("crc-unchecked", "never looks at the checksum", _on("decode", types=["RECORD_BATCH"], refused=True)(_unchecked_crc), _fails("crc.mismatch-corrupt")),
    Liar(
        "crc-misnamed",
        "calls a wrong checksum malformed",
        _on("decode", refused=True)(lambda _, answer: {**answer, "error": "malformed"}),
        _fails("crc.mismatch-corrupt", level="should"),
    ),
    Liar("one-byte-too-many", "consumes a byte more than it reads", _on("decode")(lambda _, answer: {**answer, "consumed": answer["consumed"] + 1}), _fails("int32.layout")),
    Liar("reads-from-the-end", "reads the last bytes of the input instead of the first", _on("decode", types=("INT32", "UUID"))(_from_the_end), _fails("general.exact-encoding")),
    Liar("drops-the-last-record", "leaves the last record of a batch out", _batches(lambda batch: {"records": batch["records"][:-1]}), _fails("batch.record-count")),
    Liar("folds-headers", "keeps one header of a key", _records(_last_value_wins), _fails("header.duplicate-keys-kept")),
    Liar("whole-seconds", "loses the milliseconds", _records(_in_seconds), _fails("timestamp.record-formula")),
    Liar("append-time-as-create-time", "takes every batch for CreateTime", _batches(_created), _fails("timestamp.log-append-overwritten")),
    Liar("offsets-from-zero", "ignores baseOffset", _records(lambda record, _: {"offset": str(record["offsetDelta"])}), _fails("offset.record-formula")),
    Liar("varint-without-limit", "reads varints of any length", _on("decode", types=_VARINTS, refused=True)(_any_length_of_varint), _fails("varint.max-five-bytes")),
    Liar("trusts-lengths", "returns what is there of a string cut short", _on("decode", types=["STRING"], refused=True)(_what_is_there), _fails("string.truncated-rejected")),
    Liar("unsigned-as-signed", "reads unsigned integers as signed", _on("decode", types=("UINT16", "UINT32"))(_as_signed), _fails("uint16.layout", "uint32.layout")),
    Liar("int64-as-double", "holds 64-bit integers in a double", _values(_as_double, "INT64", "VARLONG"), _fails("int64.layout", "varlong.range")),
    Liar("true-is-one", "takes every byte but 01 for false", _on("decode", types=["BOOLEAN"])(lambda request, answer: {**answer, "value": request["hex"] == "01"}), _fails("boolean.read-nonzero-true")),
    Liar("third-reading", "reads a padded varint as neither refused nor its value", _on("decode", types=["VARINT"])(_third_reading), _fails("varint.non-minimal", level="may")),
    Liar("still-compressed", "shows a compressed batch without its records", _batches(lambda batch: {"records": batch["records"] if batch["compression"] == "none" else []}), _fails("codec.gzip", "codec.snappy", "codec.lz4", "codec.zstd")),
    Liar("stops-at-the-count", "looks at no byte after the counted records", _on("decode", types=["RECORD_BATCH"], refused=True)(_stops_at_the_count), _fails("batch.record-count-mismatch")),
    Liar("control-unseen", "takes control batches for data", _batches(lambda _: {"isControlBatch": False}), _fails("attributes.control-bit")),
)  # fmt: skip

_ENCODED = (
    Liar("pads-varints", "writes varints a byte too long", _written(_padded, *_VARINTS), _fails("varint.encoder-minimal")),
    Liar("wrong-crc", "writes a wrong checksum", _written(lambda data: data[:17] + bytes(4) + data[21:], "RECORD_BATCH"), _fails("crc.producer-computes")),
    Liar("wrong-size", "forgets a byte in sizes", _on("size")(lambda _, answer: {**answer, "size": answer["size"] - 1}), _fails("size.batch-calculation"), (Measures,)),
    Liar("characters-for-bytes", "writes the length of a string in characters", _on("encode", types=["STRING"])(_length_in_characters), _fails("string.length-in-bytes")),
    Liar("never-compresses", "writes every batch uncompressed", _on("encode", types=["RECORD_BATCH"])(_never_compressed), _fails("codec.gzip", "codec.zstd")),
    Liar("bytes-after-batch", "writes a byte after each batch", _written(lambda data: data + b"\0", "RECORD_BATCH"), _fails("codec.lz4", "batch.crc")),
)  # fmt: skip

_BROKEN = (
    Liar("hangs", "never answers the one question", _at_the_one(_hang), _broken(Kind.TIMEOUT), seconds=0.5),
    Liar("complains-for-ever", "answers the one question on standard error only, for ever", _at_the_one(_complain), _broken(Kind.TIMEOUT), seconds=0.5),
    Liar("exits", "exits with 0 at the one question", _at_the_one(lambda: os._exit(0)), _broken(Kind.CRASH)),
    Liar("segfaults", "dies of a signal at the one question", _at_the_one(_segfault), _broken(Kind.CRASH)),
    Liar("admits-a-crash", "answers the one question with a crash", _at_the_one(lambda: {"crash": "TypeError: no"}), _broken(Kind.CRASH)),
    Liar("allocates", "allocates at the one question without end", _at_the_one(_allocate), _fails("memory.message-size-limit", level="should")),
    Liar("leaves-a-child", "leaves a child behind, and says nothing wrong", _at_the_one(lambda: _leave_child(session=False))),
    Liar("leaves-a-session", "leaves a child in a session of its own", _at_the_one(lambda: _leave_child(session=True))),
    Liar("dies-and-leaves-a-child", "dies while a child holds its output open", _at_the_one(_leave_child_and_die), _broken(Kind.CRASH), seconds=20),
    Liar("closes-output", "closes its output at the one question, and lives on", _at_the_one(_close_output), _broken(Kind.CRASH)),
    Liar("long-line", "writes a line without end", _at_the_one(lambda: _write(b"x" * 65536, _FOREVER)), _broken(Kind.PROTOCOL)),
    Liar("unasked-lines", "writes lines that nobody asked for", _at_the_one(lambda: _write(b'{"id":0}\n' * 7000, _FOREVER)), _broken(Kind.PROTOCOL)),
    Liar("garbage", "prints a line before its answer", _at_the_one(lambda: _write(b"hello\n")), _broken(Kind.PROTOCOL)),
    Liar("wrong-id", "answers under another id", _at_the_one(lambda: {"id": -1}), _broken(Kind.PROTOCOL)),
    Liar("wrong-shape", "shows a number as an object", _at_the_one(lambda: {"value": {"number": 63}}), _broken(Kind.PROTOCOL)),
    Liar("no-verdict", "answers neither yes nor no", _at_the_one(lambda: {"ok": "perhaps"}), _broken(Kind.PROTOCOL)),
    Liar("out-of-order", "answers what is waiting in reverse order", lambda _, answer: answer, (Catch(Kind.PROTOCOL),), reads=_in_reverse),
    Liar("empty-claims", "supports nothing of what it claims", lambda request, answer: answer if request["op"] == "describe" else {"unsupported": "not yet"}, (Catch(Kind.PROTOCOL, "general.exact-encoding"),), _VALUES),
    Liar("dies-at-start", "does not live to describe itself", _describing(lambda: os._exit(1)), starts=False),
    Liar("silent-at-start", "never describes itself", _describing(_hang), starts=False),
    Liar("describes-nonsense", "describes itself with nonsense", _describing(lambda: {"supports": 7}), starts=False),
)  # fmt: skip

LIARS = {liar.name: liar for liar in (*_DECODED, *_ENCODED, *_BROKEN)}
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
