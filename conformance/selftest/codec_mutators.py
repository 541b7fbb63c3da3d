"""How seeded defects bend the reference, besides the families of violations: wrong functions, wrong fetches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from pkgutil import resolve_name
from unittest.mock import patch

from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import REJECTION, fits
from conformance.targets.reference import answer as honest

Function = Callable[..., Value]

_DEATHS = (IndexError, OverflowError, RecursionError, struct.error)
"""What a wrong function may die of, as the reader it is modelled on would."""


def wrong(name: str, make: Callable[[Function], Function], *ops: str) -> Mutator:
    """The reference with another function in place of one, which `make` gets.

    A name is `semantics.producer_state._span`; `ops` are the operations that come by it.
    """
    where = f"conformance.{name}"

    def lie(request: Request, answer: Answer) -> Answer:
        if request["op"] not in ops:
            return answer
        # The quick readers and writers are made of the tables, and do not call the functions.
        with patch("conformance.codec.dispatch.COMPILED", new=False), patch(where, make(resolve_name(where))):
            try:
                return honest(request)
            except _DEATHS as death:
                return {"crash": repr(death)}

    return lie


# --- readers ------------------------------------------------------------------------------------------


def decoding(types: str, read: Callable[[bytes], tuple[Value, int] | None]) -> Mutator:
    """Decode types by a reader of one's own: the value in notation and the bytes consumed, or None to refuse."""

    def lie(request: Request, answer: Answer) -> Answer:
        if request["op"] != "decode" or not fits(request, types):
            return answer
        out = read(bytes.fromhex(request["hex"]))
        return REJECTION if out is None else {"ok": True, "value": out[0], "consumed": out[1]}

    return lie


def encoding(types: str, write: Callable[[Value], bytes | None]) -> Mutator:
    """Encode types by a writer of one's own, which gets a value in notation; None for what the reference writes."""

    def lie(request: Request, answer: Answer) -> Answer:
        if request["op"] != "encode" or not fits(request, types):
            return answer
        data = write(request["value"])
        return answer if data is None else {"ok": True, "hex": data.hex()}

    return lie


# --- logs ---------------------------------------------------------------------------------------------

Log = Sequence[Values]
"""The entries of a log in notation."""


@lru_cache(maxsize=1 << 11)
def entries_of(digits: str) -> Log:
    """The entries of a log in notation; none where some of them cannot be read."""
    read = honest({"op": "decode", "type": "LOG", "hex": digits})
    return tuple(read["value"]["batches"]) if read["ok"] else ()


def is_batch(entry: Values) -> bool:
    """Whether an entry is a record batch, not a message of magic 0 or 1."""
    return "records" in entry


def ends(entry: Values) -> int:
    """The offset after an entry."""
    return int(entry["baseOffset"]) + int(entry["lastOffsetDelta"]) + 1 if is_batch(entry) else int(entry["offset"]) + 1


def stop_at_entry(before: Callable[[Log, int], bool]) -> Mutator:
    """Take an entry of a log for damaged, told by the entries and its place; what stands before it is shown."""

    def lie(request: Request, answer: Answer) -> Answer:
        if request["op"] not in ("read", "decode") or not answer.get("ok"):
            return answer
        if request["op"] == "decode" and request["type"] != "LOG":
            return answer
        log = entries_of(request["hex"])
        at = next((at for at in range(len(log)) if before(log, at)), None)
        if at is None:
            return answer
        return REJECTION if request["op"] == "decode" else _cut(request, answer, ends(log[at - 1]) if at else None)

    return lie


def _cut(request: Request, answer: Answer, end: int | None) -> Answer:
    """A fetch that stops with an error at an offset; None: before the first entry."""
    begun = int(request["fetchOffset"]) if end is None else max(end, int(request["fetchOffset"]))
    records = [record for record in answer["value"]["records"] if end is not None and int(record["offset"]) < end]
    return {"ok": True, "value": {"records": records, "nextOffset": str(begun), "error": "malformed"}}


def change_fetch(change: Callable[[Request, Values, Log], Values | None]) -> Mutator:
    """Show other parts of a fetch, told by the request, what is due and the log; None to refuse it."""

    def lie(request: Request, answer: Answer) -> Answer:
        if request["op"] != "read" or not answer.get("ok"):
            return answer
        parts = change(request, answer["value"], entries_of(request["hex"]))
        return REJECTION if parts is None else {**answer, "value": {**answer["value"], **parts}}

    return lie


def refetch_same_offset(when: Callable[[Log], bool]) -> Mutator:
    """Fetch at the same offset again after a fetch without records, of such logs."""

    def change(request: Request, seen: Values, log: Log) -> Values:
        silent = not seen["records"] and bool(log) and when(log)
        return {"nextOffset": request["fetchOffset"]} if silent else {}

    return change_fetch(change)


def cut_tail_size(data: bytes) -> int:
    """Bytes of the entry that is cut off at the end of a log or message set."""
    at = 0
    while len(data) - at >= 12:
        size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < 0 or at + 12 + size > len(data):
            break
        at += 12 + size
    return len(data) - at


def fail_at_cut_tail(
    when: Callable[[bytes, int], bool], answers: Answer = REJECTION, ops: Sequence[str] = ("read", "decode")
) -> Mutator:
    """Fail at an entry that is cut off, told by the log and by how many bytes of the entry there are."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = request["op"] in ops and answer.get("ok") is True
        if not asked or not (request["op"] == "read" or fits(request, "LOG MESSAGE_SET")):
            return answer
        data = bytes.fromhex(request["hex"])
        left = cut_tail_size(data)
        return answers if left and when(data, left) else answer

    return lie
