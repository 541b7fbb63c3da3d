"""Families of lies that break one statement each: what the tables of this folder are made of.

A lie gets a request and the honest answer, and leaves both alone but for the place that its row is about.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator
from conformance.targets.reference import answer as honest

Change = Callable[[Value], Value]
"""What is shown, written or asked instead of a value in notation."""
When = Callable[[Request, Answer], bool]
"""Whether a lie is told about a request and its honest answer."""

REJECTION: Answer = {"ok": False, "error": "malformed", "message": "no"}


def fits(request: Request, types: str) -> bool:
    """Whether a request is about one of these types (names, generic names or message names; none: all)."""
    named = (request.get("type"), str(request.get("type")).partition("<")[0], request.get("message"))
    return not types or any(name in named for name in types.split())


def _told(op: str, types: str, lie: Mutator, when: When | None = None) -> Mutator:
    """Lie about an accepted request of this operation and these types."""

    def narrow(request: Request, answer: Answer) -> Answer:
        asked = request["op"] == op and answer.get("ok") is True and fits(request, types)
        return lie(request, answer) if asked and (when is None or when(request, answer)) else answer

    return narrow


def both(*lies: Mutator) -> Mutator:
    """One violation that shows in several operations."""

    def told(request: Request, answer: Answer) -> Answer:
        for lie in lies:
            answer = lie(request, answer)
        return answer

    return told


# --- accepts, refuses ---------------------------------------------------------------------------------


def rule_of(answer: Answer) -> str:
    """The requirement that the reference refuses a request for."""
    return str(answer.get("message", "")).partition(" ")[0].rstrip(":")


def accept_invalid(*rules: str, types: str = "") -> Mutator:
    """Accept what breaks these rules, without a value (or with no bytes)."""

    def lie(request: Request, answer: Answer) -> Answer:
        if answer.get("ok") is not False or rule_of(answer) not in rules or not fits(request, types):
            return answer
        return {"ok": True, **({} if request["op"] == "decode" else {"hex": ""})}

    return lie


def accepts_values(types: str = "") -> Mutator:
    """Write something for a value that has no encoding."""

    def lie(request: Request, answer: Answer) -> Answer:
        refused = answer.get("ok") is False and request["op"] == "encode"
        return {"ok": True, "hex": "00"} if refused and fits(request, types) else answer

    return lie


def reject_valid(types: str, when: When | None = None, op: str = "decode") -> Mutator:
    """Refuse what the reference accepts."""
    return _told(op, types, lambda _, __: REJECTION, when)


def crash_on(types: str, when: When | None = None) -> Mutator:
    """Die of bytes to decode, whatever is right there."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = request["op"] == "decode" and fits(request, types)
        return {"crash": "IndexError"} if asked and (when is None or when(request, answer)) else answer

    return lie


def leak_memory(types: str, part: str = "") -> Mutator:
    """Take memory without end for bytes that the reference refuses and that have a part, in hex."""

    def lie(request: Request, answer: Answer) -> Answer:
        asked = request["op"] == "decode" and answer.get("ok") is False and fits(request, types)
        asked = asked and part in request["hex"]
        return {"hoards": True} if asked else answer

    return lie


# --- decoding -----------------------------------------------------------------------------------------


def change_value(types: str, change: Change, when: When | None = None) -> Mutator:
    """Show another value than the decoded one."""

    def lie(_: Request, answer: Answer) -> Answer:
        return {**answer, "value": change(answer["value"])} if "value" in answer else answer

    return _told("decode", types, lie, when)


def consumes(types: str, more: int) -> Mutator:
    """Say that so many bytes more were consumed."""
    return _told("decode", types, lambda _, answer: {**answer, "consumed": answer["consumed"] + more})


def decode_other_bytes(types: str, change: Callable[[bytes], bytes], when: When | None = None) -> Mutator:
    """Decode other bytes than the given ones."""

    def lie(request: Request, answer: Answer) -> Answer:
        other = honest({**request, "hex": change(bytes.fromhex(request["hex"])).hex()})
        return {**other, "consumed": answer["consumed"]} if other.get("ok") else other

    return _told("decode", types, lie, when)


def decode_as(types: str, **otherwise: object) -> Mutator:
    """Decode as another type, or as another version of a message."""
    return _told("decode", types, lambda request, _: honest({**request, **otherwise}))


def entry(where: str, name: str, change: Change) -> Change:
    """Change the field of that name in every object that stands directly in one of these lists (``: the value)."""
    return objects(where, lambda value: {name: change(value[name])} if name in value else {})


def objects(where: str, change: Callable[[Values], Values]) -> Change:
    """Put fields over every object that stands directly in one of these lists (``: the value)."""
    places = where.split("|")

    def changed(value: Value, around: str = "") -> Value:
        if isinstance(value, list):
            return [changed(part, around) for part in value]
        if not isinstance(value, dict):
            return value
        inner = {key: changed(part, key) for key, part in value.items()}
        return {**inner, **change(inner)} if around in places else inner

    return changed


def header(name: str, change: Change) -> Mutator:
    """Show another field of the header of every batch."""
    return change_value("RECORD_BATCH LOG", entry("|batches", name, change))


def batch(change: Callable[[Values], Values]) -> Mutator:
    """Show other fields of every batch."""
    return change_value("RECORD_BATCH LOG", objects("|batches", change))


def record(name: str, change: Change) -> Mutator:
    """Show another field of every record."""
    return both(
        change_value("RECORD", entry("", name, change)),
        change_value("RECORD_BATCH LOG", entry("records", name, change)),
    )


def of_header(name: str, change: Change) -> Mutator:
    """Show another field of every record header."""
    return change_value("RECORD RECORD_BATCH LOG", entry("headers", name, change))


def message(name: str, change: Change) -> Mutator:
    """Show another field of every message of magic 0 and 1."""
    return change_value("MESSAGE_SET LOG", entry("|messages", name, change))


# --- encoding -----------------------------------------------------------------------------------------


def change_bytes(types: str, change: Callable[[bytes], bytes], when: When | None = None) -> Mutator:
    """Write other bytes than the right ones."""

    def lie(_: Request, answer: Answer) -> Answer:
        return {**answer, "hex": change(bytes.fromhex(answer["hex"])).hex()}

    return _told("encode", types, lie, when)


def encode_other_value(types: str, change: Change) -> Mutator:
    """Write another value than the given one."""
    return _told("encode", types, lambda request, _: honest({**request, "value": change(request["value"])}))


def change_size(types: str, change: Callable[[int], int]) -> Mutator:
    """Say another size."""
    return _told("size", types, lambda _, answer: {**answer, "size": change(answer["size"])})


# --- whole logs ---------------------------------------------------------------------------------------


def change_fetch(change: Callable[[Request, Values], Values]) -> Mutator:
    """Show other parts of a fetch than there are."""
    return _told(
        "read", "", lambda request, answer: {**answer, "value": {**answer["value"], **change(request, answer["value"])}}
    )


def change_records(change: Callable[[list[Values]], list[Values]]) -> Mutator:
    """Hand out other records of a fetch."""
    return change_fetch(lambda _, seen: {"records": change(seen["records"])})


def reject_fetch(when: When) -> Mutator:
    """Refuse a fetch."""
    return _told("read", "", lambda _, __: REJECTION, when)


def change_sequence_results(change: Callable[[list[Values], list[str]], list[str]]) -> Mutator:
    """Answer otherwise on the fate of batches."""
    return _told(
        "sequence", "", lambda request, answer: {**answer, "value": change(request["batches"], answer["value"])}
    )


def change_request(change: Callable[[Values], Values]) -> Mutator:
    """Send each request otherwise."""
    return _told("send", "", lambda _, answer: {**answer, "value": [{**row, **change(row)} for row in answer["value"]]})


def convert_as(change: Callable[[Values], Values]) -> Mutator:
    """Convert as if something else had been asked for."""
    return _told("convert", "", lambda request, _: honest({**request, **change(request)}))


# --- changes ------------------------------------------------------------------------------------------


def number(change: Callable[[int], int]) -> Change:
    """A change of a number, in the notation that it came in."""
    return lambda given: str(change(int(given))) if isinstance(given, str) else change(given)


ONE_MORE = number(lambda value: value + 1)


def signed(bits: int) -> Change:
    """Unsigned shown as signed."""
    return number(lambda value: value - (1 << bits) if value >> (bits - 1) & 1 and value > 0 else value)


def unsigned(bits: int) -> Change:
    """Signed shown as unsigned."""
    return number(lambda value: value % (1 << bits))


def null_as(empty: object) -> Change:
    """Null taken for empty."""
    return lambda value: empty if value is None else value


def as_null(value: Value) -> Value:
    """Empty taken for null."""
    return None if value in ("", []) else value
