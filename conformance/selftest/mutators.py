"""The lies of the deliberate liars: functions that make a wrong answer of an honest one.

The table in `liars` says which liar tells which lie, and which results must show it.
"""

# ruff: noqa: D103 - the table says what each does

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any

from conformance.cases.model import Answer, Request
from conformance.codec.log import extents
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.files.bounded_json import is_text
from conformance.targets.reference import answer as honest

ShownValue = dict[str, Any]
"""A batch or a record as an answer shows it."""
ValueChange = Callable[[Any], Any]
"""Makes of a value the one that is shown instead."""
Mutator = Callable[[Request, Answer], Answer]
"""Makes of a request and the honest answer to it the answer of a liar."""

Misbehavior = Callable[[], Answer | None]
"""Something that a liar does when it gets a request; the fields it returns replace those of the honest answer."""

TRIGGER_REQUEST = ("decode", "VARINT", "7e")
"""The only request at which some liars break down; one case of the catalogue makes it, `varint/63`."""


# --- shapes that lies share ---------------------------------------------------------------------------


def _on(*ops: str, types: Iterable[str] = (), refused: bool = False) -> Callable[[Mutator], Mutator]:
    """Lie only in these operations, on these types (all, if none is named), where the honest answer accepts.

    With `refused`, lie where the honest answer refuses instead.
    """
    wanted = tuple(types)

    def narrowed(lie: Mutator) -> Mutator:
        def narrow(request: Request, answer: Answer) -> Answer:
            fits = request["op"] in ops and (not wanted or request.get("type") in wanted)
            return lie(request, answer) if fits and answer.get("ok") is not refused else answer

        return narrow

    return narrowed


def on_trigger(deed: Misbehavior) -> Mutator:
    """Do the deed at the request `THE_ONE`, then answer honestly, but for the fields that the deed returns."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = (request["op"], request.get("type"), request.get("hex"))
        return {**answer, **(deed() or {})} if asked == TRIGGER_REQUEST else answer

    return lie


def describing(deed: Misbehavior) -> Mutator:
    """Do the deed at the request to describe itself."""
    return lambda request, answer: {**answer, **(deed() or {})} if request["op"] == "describe" else answer


def values(change: ValueChange, *types: str) -> Mutator:
    """Show another value instead of the decoded one."""
    return _on("decode", types=types)(lambda _, answer: {**answer, "value": change(answer["value"])})


def batches(change: Callable[[ShownValue], ShownValue]) -> Mutator:
    """Show other values in some fields of a decoded batch."""
    return values(lambda batch: {**batch, **change(batch)}, "RECORD_BATCH")


def view(change: Callable[[Request, ShownValue], ShownValue]) -> Mutator:
    """Show other records, another next offset or another error for a fetch."""
    return _on("read")(
        lambda request, answer: {**answer, "value": {**answer["value"], **change(request, answer["value"])}}
    )


def asked(**otherwise: Any) -> Mutator:
    """Answer a `read` request as if these parts of it were others."""
    return _on("read")(lambda request, _: honest({**request, **otherwise}))


# --- lies ---------------------------------------------------------------------------------------------

VARINTS = ("VARINT", "UNSIGNED_VARINT", "VARLONG")
STRINGS = ("STRING", "NULLABLE_STRING", "COMPACT_STRING", "COMPACT_NULLABLE_STRING")
BYTES = ("BYTES", "NULLABLE_BYTES", "COMPACT_BYTES", "COMPACT_NULLABLE_BYTES")
_INTS = {"INT16": "h", "INT32": "i", "INT64": "q", "UINT16": "H", "UINT32": "I"}


def accept(request: Request, answer: Answer) -> Answer:
    made_up: dict[str, Answer] = {"encode": {"hex": "00"}, "size": {"size": 1}, "convert": {"hex": ""}}
    return answer if answer.get("ok") is not False else {"ok": True, **made_up.get(request["op"], {})}


def refuse(request: Request, answer: Answer) -> Answer:
    return answer if request["op"] == "describe" else {"ok": False, "error": "malformed", "message": "no"}


def claim_only(request: Request, answer: Answer) -> Answer:
    return answer if request["op"] == "describe" else {"unsupported": "not yet"}


def nothing(_: Request, answer: Answer) -> Answer:
    return answer


@_on("decode")
def show_nothing(_: Request, __: Answer) -> Answer:
    return {"ok": True}


@_on("decode", types=_INTS)
def swap_bytes(request: Request, answer: Answer) -> Answer:
    code = _INTS[request["type"]]
    value = struct.unpack("<" + code, struct.pack(">" + code, int(answer["value"])))[0]
    return {**answer, "value": str(value) if code == "q" else value}


def _with_right_crc(request: Request, data: bytes) -> Answer:
    _, end = next(extents(data), (0, 0))
    return honest({**request, "hex": (with_checksums(data[:end], length=False) + data[end:]).hex()})


@_on("decode", types=("INT32", "UUID"))
def read_the_end(request: Request, answer: Answer) -> Answer:
    data, used = bytes.fromhex(request["hex"]), answer["consumed"]
    return {**honest({**request, "hex": data[len(data) - used :].hex()}), "consumed": used}


def last_header_wins(record: ShownValue) -> ShownValue:
    return {"headers": list({header["key"]: header for header in record["headers"]}.values())}


def whole_seconds(record: ShownValue) -> ShownValue:
    return {"timestamp": str(int(record["timestamp"]) // 1000 * 1000)}


@_on("decode", types=VARINTS, refused=True)
def read_any_varint(request: Request, answer: Answer) -> Answer:
    data = bytes.fromhex(request["hex"])
    size = next((at + 1 for at, byte in enumerate(data) if byte < 0x80), 0)
    return {"ok": True, "value": 0, "consumed": size} if size else answer


@_on("decode", types=["BOOLEAN"])
def only_one_is_true(request: Request, answer: Answer) -> Answer:
    return {**answer, "value": request["hex"].startswith("01")}


@_on("decode", types=["RECORD_BATCH"], refused=True)
def stop_at_the_count(request: Request, answer: Answer) -> Answer:
    """Read as many records as recordCount says, and ignore what follows them."""
    data = bytes.fromhex(request["hex"])
    for more in (1, 2):
        count = min(BATCH_LAYOUT.read_field("recordCount", data) + more, (1 << 31) - 1)
        whole = _with_right_crc(request, BATCH_LAYOUT.with_field("recordCount", data, count))
        if whole["ok"]:
            return {**whole, "value": {**whole["value"], "records": whole["value"]["records"][:-more]}}
    return answer


def padded(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] | 0x80, 0))


def without_crc(data: bytes) -> bytes:
    return BATCH_LAYOUT.with_field("crc", data, 0)


@_on("size")
def forget_a_byte(_: Request, answer: Answer) -> Answer:
    return {**answer, "size": answer["size"] - 1}


@_on("encode", types=["STRING"])
def count_characters(request: Request, answer: Answer) -> Answer:
    return {**answer, "hex": len(request["value"]).to_bytes(2).hex() + answer["hex"][4:]}


def write_halves(request: Request, answer: Answer) -> Answer:
    """Write a lone surrogate as the three bytes that it would have, were it a character."""
    if request["op"] != "encode" or is_text(request):
        return answer
    lone = re.compile(r"\\ud[89a-f]..")
    written = honest(json.loads(lone.sub(r"\\ufffd", json.dumps(request))))
    data = bytes.fromhex(written["hex"]).replace(b"\xef\xbf\xbd", b"\xed\xa0\x80")
    return {**written, "hex": (with_checksums(data) if request["type"] == "RECORD_BATCH" else data).hex()}


def show_markers(request: Request, seen: ShownValue) -> ShownValue:
    """Hand out control records with the others."""
    log = honest({"op": "decode", "type": "LOG", "hex": request["hex"]})
    markers = [
        {name: record[name] for name in ("offset", "timestamp", "key", "value", "headers")}
        for batch in (log["value"]["batches"] if log["ok"] else ())
        if batch.get("isControlBatch")
        for record in batch["records"]
        if int(record["offset"]) >= int(request["fetchOffset"])
    ]
    return {"records": sorted([*seen["records"], *markers], key=lambda record: int(record["offset"]))}


def next_after_the_last(request: Request, seen: ShownValue) -> ShownValue:
    """Let the next fetch start after the last record that was shown."""
    last = int(seen["records"][-1]["offset"]) + 1 if seen["records"] else request["fetchOffset"]
    return {"nextOffset": str(last)}


def one_further(_: Request, seen: ShownValue) -> ShownValue:
    return {"nextOffset": str(int(seen["nextOffset"]) + 1)}


@_on("read")
def show_no_records(_: Request, answer: Answer) -> Answer:
    return {**answer, "value": {"nextOffset": answer["value"]["nextOffset"]}}


@_on("convert")
def convert_nothing(request: Request, answer: Answer) -> Answer:
    return {**answer, "hex": request["hex"]}


@_on("convert")
def convert_the_first(_: Request, answer: Answer) -> Answer:
    """Write the first entry of the converted log, and no other."""
    return {**answer, "hex": answer["hex"][: 24 + 2 * int(answer["hex"][16:24] or "0", 16)]}


@_on("sequence")
def forget_the_last(_: Request, answer: Answer) -> Answer:
    return {**answer, "value": answer["value"][:-1]}
