"""Mutators: functions that make a wrong answer from a request and its correct answer.

This module has the mutators of single values. `batches`, `logs` and `requests` have those of their subjects.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from ctypes import c_int32
from pkgutil import resolve_name
from unittest.mock import patch

from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import with_checksums
from conformance.files.bounded_json import is_text
from conformance.targets.reference import answer as correct_answer

Mutator = Callable[[Request, Answer], Answer]
Condition = Callable[[Request, Answer], bool]
Change = Callable[[Value], Value]
"""Returns another value in notation, or other bytes."""
Function = Callable[..., Value]

REJECTION: Answer = {"ok": False, "error": "malformed", "message": "no"}

VARINT_TYPES = "VARINT UNSIGNED_VARINT VARLONG"
STRING_TYPES = "STRING NULLABLE_STRING COMPACT_STRING COMPACT_NULLABLE_STRING"
BYTES_TYPES = "BYTES NULLABLE_BYTES COMPACT_BYTES COMPACT_NULLABLE_BYTES"


# --- any operation ------------------------------------------------------------------------------------


def on(
    ops: str, types: str = "", when: Condition | None = None, *, accepted: bool | None = True
) -> Callable[[Mutator], Mutator]:
    """Return a decorator that restricts a mutator; it passes other requests on to the correct answer.

    An empty `ops` or `types` allows all. `types` are names, generic names or message names, separated by spaces.
    `accepted` is the `ok` of the correct answer; None allows both.
    """
    names, allowed = frozenset(ops.split()), types.split()

    def restrict(mutate: Mutator) -> Mutator:
        def restricted(request: Request, answer: Answer) -> Answer:
            applies = (
                (not names or request["op"] in names)
                and (accepted is None or answer.get("ok") is accepted)
                and (not allowed or _has_type(request, allowed))
                and (when is None or when(request, answer))
            )
            return mutate(request, answer) if applies else answer

        return restricted

    return restrict


def _has_type(request: Request, allowed: list[str]) -> bool:
    name = str(request.get("type"))
    return any(one in (name, name.partition("<")[0], request.get("message")) for one in allowed)


def unchanged(_: Request, answer: Answer) -> Answer:
    """Return the correct answer."""
    return answer


def combine(*mutators: Mutator) -> Mutator:
    """Apply several mutators, one after the other."""

    def mutate(request: Request, answer: Answer) -> Answer:
        for one in mutators:
            answer = one(request, answer)
        return answer

    return mutate


def answer_as(op: str, change: Callable[[Request], Values], types: str = "", when: Condition | None = None) -> Mutator:
    """Return the answer to the request with other fields."""
    return on(op, types, when)(lambda request, _: correct_answer({**request, **change(request)}))


_CRASHES = (IndexError, OverflowError, RecursionError, struct.error)


def replace_function(name: str, function: Function, ops: str) -> Mutator:
    """Replace a function of the reference in these operations. `function` gets the original, then its arguments.

    A name is `semantics.producer_state._span`.
    """
    where = f"conformance.{name}"

    @on(ops, accepted=None)
    def mutate(request: Request, _: Answer) -> Answer:
        original = resolve_name(where)
        # The generated readers and writers do not call the functions.
        with (
            patch("conformance.codec.dispatch.COMPILED", new=False),
            patch(where, lambda *arguments: function(original, *arguments)),
        ):
            try:
                return correct_answer(request)
            except _CRASHES as error:
                return {"crash": repr(error)}

    return mutate


# --- accepting and rejecting --------------------------------------------------------------------------


def violated_rule(answer: Answer) -> str:
    """Return the requirement with which the reference rejects a request."""
    return str(answer.get("message", "")).partition(" ")[0].rstrip(":")


def accept_invalid(*rules: str, types: str = "") -> Mutator:
    """Accept requests that break these rules, without a value or with no bytes."""
    return on("", types, lambda _, answer: violated_rule(answer) in rules, accepted=False)(
        lambda request, _: {"ok": True, **({} if request["op"] == "decode" else {"hex": ""})}
    )


def accept_unencodable(types: str) -> Mutator:
    """Write a zero byte for a value that has no encoding."""
    return on("encode", types, accepted=False)(lambda *_: {"ok": True, "hex": "00"})


def reject_valid(types: str, when: Condition | None = None, op: str = "decode") -> Mutator:
    """Reject requests that the reference accepts."""
    return on(op, types, when)(lambda *_: REJECTION)


def crash_on(types: str, when: Condition | None = None, *, accepted: bool | None = None) -> Mutator:
    """Crash when decoding these types."""
    return on("decode", types, when, accepted=accepted)(lambda *_: {"crash": "IndexError"})


def leak_memory(types: str, when: Condition | None = None, *, accepted: bool | None = False) -> Mutator:
    """Allocate memory without limit for bytes that the reference rejects."""
    return on("decode", types, when, accepted=accepted)(lambda *_: {"hoards": True})


# --- decoding -----------------------------------------------------------------------------------------


def change_value(types: str, change: Change, when: Condition | None = None) -> Mutator:
    """Return another value than the decoded one."""

    @on("decode", types, when)
    def mutate(_: Request, answer: Answer) -> Answer:
        # An earlier mutator of `combine` may have removed the value.
        return {**answer, "value": change(answer["value"])} if "value" in answer else answer

    return mutate


def change_consumed(types: str, more: int) -> Mutator:
    """Report this many more consumed bytes."""
    return on("decode", types)(lambda _, answer: {**answer, "consumed": answer["consumed"] + more})


def decode_other_bytes(types: str, change: Change) -> Mutator:
    """Decode other bytes than the given ones."""

    @on("decode", types)
    def mutate(request: Request, answer: Answer) -> Answer:
        other = correct_answer({**request, "hex": change(bytes.fromhex(request["hex"])).hex()})
        return {**other, "consumed": answer["consumed"]} if other.get("ok") else other

    return mutate


def decode_with(types: str, read: Callable[[bytes], tuple[Value, int] | None]) -> Mutator:
    """Decode with another reader. It returns the value in notation and the number of bytes, or None to reject."""

    @on("decode", types, accepted=None)
    def mutate(request: Request, _: Answer) -> Answer:
        result = read(bytes.fromhex(request["hex"]))
        return REJECTION if result is None else {"ok": True, "value": result[0], "consumed": result[1]}

    return mutate


# --- encoding -----------------------------------------------------------------------------------------


def change_bytes(types: str, change: Change, when: Condition | None = None) -> Mutator:
    """Write other bytes than the correct ones."""
    return on("encode", types, when)(
        lambda _, answer: {**answer, "hex": change(bytes.fromhex(answer["hex"])).hex()},
    )


def encode_other_value(types: str, change: Change) -> Mutator:
    """Write another value than the given one."""
    return answer_as("encode", lambda request: {"value": change(request["value"])}, types)


def encode_with(types: str, write: Callable[[Value], bytes | None]) -> Mutator:
    """Encode with another writer, which gets a value in notation and returns None for the correct answer."""

    @on("encode", types, accepted=None)
    def mutate(request: Request, answer: Answer) -> Answer:
        data = write(request["value"])
        return answer if data is None else {"ok": True, "hex": data.hex()}

    return mutate


def change_size(types: str, change: Callable[[int], int]) -> Mutator:
    """Return another size."""
    return on("size", types)(lambda _, answer: {**answer, "size": change(answer["size"])})


@on("encode", when=lambda request, _: not is_text(request), accepted=None)
def write_surrogates(request: Request, _: Answer) -> Answer:
    """Write a lone surrogate as three bytes, like a character."""
    lone = re.compile(r"\\ud[89a-f]..")
    written = correct_answer(json.loads(lone.sub(r"\\ufffd", json.dumps(request))))
    data = bytes.fromhex(written["hex"]).replace(b"\xef\xbf\xbd", b"\xed\xa0\x80")
    return {**written, "hex": (with_checksums(data) if request["type"] == "RECORD_BATCH" else data).hex()}


# --- changes of values --------------------------------------------------------------------------------


def field_change(where: str, name: str, change: Change) -> Change:
    """Return a change of one field in each object of these lists, separated by `|` (empty: the value itself)."""
    return object_change(where, lambda value: {name: change(value[name])} if name in value else {})


def object_change(where: str, change: Callable[[Values], Values]) -> Change:
    """Return a change that adds fields to each object of these lists, separated by `|` (empty: the value itself)."""
    places = where.split("|")

    def changed(value: Value, around: str = "") -> Value:
        if isinstance(value, list):
            return [changed(part, around) for part in value]
        if not isinstance(value, dict):
            return value
        inner = {key: changed(part, key) for key, part in value.items()}
        return {**inner, **change(inner)} if around in places else inner

    return changed


def number(change: Callable[[int], int]) -> Change:
    """Return a change of a number that keeps its notation."""
    return lambda given: str(change(int(given))) if isinstance(given, str) else change(given)


ONE_MORE = number(lambda value: value + 1)
LOW_32_BITS = number(lambda value: c_int32(value).value)
WHOLE_SECONDS = number(lambda time: time // 1000 * 1000)


def signed(bits: int) -> Change:
    """Return a change from an unsigned number to a signed one."""
    return number(lambda value: value - (1 << bits) if value >> (bits - 1) & 1 and value > 0 else value)


def unsigned(bits: int) -> Change:
    """Return a change from a signed number to an unsigned one."""
    return number(lambda value: value % (1 << bits))


def null_to(other: object) -> Change:
    """Return a change from null to another value."""
    return lambda value: other if value is None else value


def empty_to_null(value: Value) -> Value:
    """Return null for an empty value."""
    return None if value in ("", []) else value


def put(position: int, part: bytes) -> Callable[[bytes], bytes]:
    """Return a change that overwrites bytes at a position."""
    return lambda data: data[:position] + part + data[position + len(part) :]


def pad_varint(data: bytes) -> bytes:
    """Add an empty group to the varint at the end."""
    return data[:-1] + bytes((data[-1] | 0x80, 0))


def unzigzag(value: int) -> int:
    """Return the signed number of a zig-zag number."""
    return value >> 1 ^ -(value & 1)
