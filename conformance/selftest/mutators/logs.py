"""Mutators of whole logs: fetches, sequences, and entries that are cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import REJECTION, Mutator, combine, on
from conformance.targets.reference import answer as correct_answer

Log = Sequence[Values]
"""The entries of a log in notation."""


@lru_cache(maxsize=1 << 11)
def entries_of(digits: str) -> Log:
    """Return the entries of a log in notation; none if the log is damaged."""
    read = correct_answer({"op": "decode", "type": "LOG", "hex": digits})
    return tuple(read["value"]["batches"]) if read["ok"] else ()


def is_batch(entry: Values) -> bool:
    """Return true for a record batch, false for a message with magic 0 or 1."""
    return "records" in entry


def records_of(entry: Values) -> list[Values]:
    """Return the records or messages of an entry."""
    return list(entry["records"] if is_batch(entry) else entry["messages"])


def end_of(entry: Values) -> int:
    """Return the offset after an entry."""
    return int(entry["baseOffset"]) + int(entry["lastOffsetDelta"]) + 1 if is_batch(entry) else int(entry["offset"]) + 1


def by_offset(records: Iterable[Values]) -> list[Values]:
    """Sort records by offset."""
    return sorted(records, key=lambda record: int(record["offset"]))


def consumed_record(record: Values, *names: str) -> Values:
    """Return a decoded record with the fields that a fetch shows, and further ones."""
    return {name: record[name] for name in ("offset", "timestamp", "key", "value", "headers", *names) if name in record}


# --- fetches ------------------------------------------------------------------------------------------


def change_fetch(change: Callable[[Request, Values, Log], Values | None]) -> Mutator:
    """Change parts of a fetch result, given the request, the result and the log; None rejects the fetch."""

    @on("read")
    def mutate(request: Request, answer: Answer) -> Answer:
        parts = change(request, answer["value"], entries_of(request["hex"]))
        return REJECTION if parts is None else {**answer, "value": {**answer["value"], **parts}}

    return mutate


def change_records(change: Callable[[list[Values]], list[Values]]) -> Mutator:
    """Return other records of a fetch."""
    return change_fetch(lambda _, seen, __: {"records": change(seen["records"])})


def refetch_same_offset(when: Callable[[Log], bool]) -> Mutator:
    """Fetch the same offset again after a fetch without records from such a log."""

    def change(request: Request, seen: Values, log: Log) -> Values:
        is_empty = not seen["records"] and bool(log) and when(log)
        return {"nextOffset": request["fetchOffset"]} if is_empty else {}

    return change_fetch(change)


# --- entries ------------------------------------------------------------------------------------------


def stop_at_entry(is_damaged: Callable[[Log, int], bool]) -> Mutator:
    """Treat an entry as damaged, given the log and the index. A fetch returns only the entries before it."""

    def mutate(request: Request, answer: Answer) -> Answer:
        log = entries_of(request["hex"])
        at = next((at for at in range(len(log)) if is_damaged(log, at)), None)
        if at is None:
            return answer
        return REJECTION if request["op"] == "decode" else _cut(request, answer, end_of(log[at - 1]) if at else None)

    return combine(on("read")(mutate), on("decode", "LOG")(mutate))


def _cut(request: Request, answer: Answer, end: int | None) -> Answer:
    """Return a fetch result that ends with an error at an offset; None: before the first entry."""
    first = int(request["fetchOffset"])
    records = [record for record in answer["value"]["records"] if end is not None and int(record["offset"]) < end]
    next_offset = first if end is None else max(end, first)
    return {"ok": True, "value": {"records": records, "nextOffset": str(next_offset), "error": "malformed"}}


def cut_entry_size(data: bytes) -> int:
    """Return the number of bytes of an entry that is cut off at the end of a log or message set."""
    at = 0
    while len(data) - at >= 12:
        size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < 0 or at + 12 + size > len(data):
            break
        at += 12 + size
    return len(data) - at


def fail_at_cut_entry(when: Callable[[bytes, int], bool], answers: Answer = REJECTION) -> Mutator:
    """Fail at an entry that is cut off, given the log and the number of remaining bytes of the entry."""

    def mutate(request: Request, answer: Answer) -> Answer:
        data = bytes.fromhex(request["hex"])
        left = cut_entry_size(data)
        return answers if left and when(data, left) else answer

    return combine(on("read")(mutate), on("decode", "LOG MESSAGE_SET")(mutate))


# --- sequences ----------------------------------------------------------------------------------------


def change_sequence_results(change: Callable[[list[Values], list[str]], list[str]]) -> Mutator:
    """Return other results of the sequence check of batches."""
    return on("sequence")(
        lambda request, answer: {**answer, "value": change(request["batches"], answer["value"])},
    )
