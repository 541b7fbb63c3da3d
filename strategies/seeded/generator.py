"""The seeded generator: a value of any type, and its bytes, from a seed and an index alone.

Its values follow the table of types: numbers at and between their edges, lengths at the steps of their prefixes, nulls
if a type has them, structures from their fields. Compressed payloads are stored, not compressed, so that the bytes do
not depend on a compressor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec import Struct

from conformance import codec
from conformance.codec import json_notation as n
from conformance.codec.builders import NO_PRODUCER, batch_bytes
from conformance.codec.compression import CODECS
from conformance.codec.control_record import CONTROL_KEYS
from conformance.codec.derived_fields import Values
from conformance.codec.log import last_offset
from conformance.codec.record_batch import build
from conformance.semantics.partition_log import compact_batch
from conformance.strategies.seeded import _legacy_messages as legacy_messages
from conformance.strategies.seeded._messages import (
    draw_message,
    message_of_another_version,
    unencodable_message,
    with_unknown_tags,
)
from conformance.strategies.seeded._random_choices import RandomChoices

VERSION = 4
"""The version of the generator. It increases when an id gets other bytes."""
SEEDED_AS = 3
"""The version whose choices are drawn: version 4 changed only the requests for `read` and `append`."""

_LENGTHS = (0, 1, 2, 3, 7, 20, 63, 64, 127, 128, 300)
_COUNTS = (0, 1, 1, 2, 2, 3, 5)


def choices_of(name: str, seed: int, index: int) -> RandomChoices:
    """Return the choices of the generated case with a name, a seed and an index."""
    return RandomChoices(f"gen/{SEEDED_AS}/{name}/{seed}/{index}")


def value(type_: codec.WireType | str, choices: RandomChoices) -> Any:
    """Return a wire value of any type that has an encoding. Raises codec.UnknownType."""
    wire = codec.wire(type_)
    if isinstance(wire, codec.MessageType):
        drawn = draw_message(wire.message, wire.version, choices, value)
        return with_unknown_tags(drawn, wire.message, wire.version, choices) if choices.chance(10) else drawn
    return _drawer(wire)(choices)


@cache
def _drawer(wire: codec.WireType) -> Callable[[RandomChoices], object]:
    """Return the function that draws values of a type other than a message."""
    if wire.name in _SPECIAL:
        return _SPECIAL[wire.name]
    form, _, rest = wire.name.partition("<")
    if rest:
        return _array(form, _drawer(codec.wire(rest[:-1])))
    return _BY_NOTATION.get(wire.notation.describes, _edge)(wire)


class GeneratedValue(Struct, frozen=True):
    """A value with its bytes. An encode request cannot describe every RECORD_BATCH and MESSAGE_SET value."""

    value: Any
    data: bytes


def generate(type_: codec.WireType | str, choices: RandomChoices) -> GeneratedValue:
    """Return a value of a type, and its bytes on the wire."""
    wire = codec.wire(type_)
    drawn, name = value(wire, choices), wire.name
    if name == "RECORD_BATCH":
        return GeneratedValue(drawn, batch_bytes(drawn))
    if name == "LOG":
        return GeneratedValue(drawn, b"".join(map(entry_bytes, drawn["batches"])) + drawn["tail"])
    if name == "MESSAGE_SET":
        messages = tuple(message for entry in drawn["entries"] for message in entry["messages"])
        return GeneratedValue(messages, legacy_messages.set_bytes(drawn))
    return GeneratedValue(drawn, codec.encode(wire, drawn))


def entry_bytes(entry: Values) -> bytes:
    """Return the bytes of an entry of a log, of any magic."""
    return legacy_messages.entry_bytes(entry) if "messages" in entry else batch_bytes(entry)


def unencodable(type_: codec.WireType | str, choices: RandomChoices) -> object:
    """Return a value, in notation, close to the range of a type that cannot encode it; Ellipsis if none is known.

    Raises codec.UnknownType.
    """
    wire = codec.wire(type_)
    if isinstance(wire, codec.MessageType):
        return unencodable_message(wire.message, wire.version, choices)
    form, _, element = wire.name.partition("<")
    if element:
        wrong = unencodable(element[:-1], choices)
        whole = list(_array(form, _drawer(codec.wire(element[:-1])))(choices) or ())
        whole.insert(choices.below(len(whole) + 1), wrong)
        return ... if wrong is ... else tuple(whole)
    if wire.name == "TAGGED_FIELDS":
        return _disordered(choices)
    numbers = [edge for edge in wire.edges if type(edge) is int]
    if numbers and wire.notation in (n.NUMBER, n.DECIMAL):
        return (
            max(numbers) + choices.pick((1, 1, 2, 1 << 31))
            if choices.chance(50)
            else min(numbers) - choices.pick((1, 1, 2))
        )
    return None if wire.notation in (n.TEXT, n.HEX) and None not in wire.edges else ...


def value_of_another_version(type_: codec.WireType | str, choices: RandomChoices) -> object:
    """Return a wire value of another version of the type's message; Ellipsis for any other type."""
    wire = codec.wire(type_)
    return (
        message_of_another_version(wire.message, wire.version, choices, value)
        if isinstance(wire, codec.MessageType)
        else ...
    )


def _disordered(choices: RandomChoices) -> tuple[Values, ...]:
    """Return tagged fields with one that is out of order or has an invalid tag."""
    tags = sorted({choices.below(1 << choices.between(4, 31)) for _ in range(4)})
    at = choices.below(len(tags))
    tags[at : at + 1] = choices.pick(((tags[at], tags[at]), (tags[at] + 1, tags[at]), (tags[at], -1)))
    return tuple({"tag": tag, "data": choices.octets(choices.pick(_LENGTHS))} for tag in tags)


# --- by notation --------------------------------------------------------------------------------------


Draw = Callable[[RandomChoices], object]


def _number(wire: codec.WireType) -> Callable[[RandomChoices], int]:
    edges = [edge for edge in wire.edges if type(edge) is int]
    low, high = min(edges), max(edges)
    widths = range(1, high.bit_length() + 1)

    def draw(choices: RandomChoices) -> int:
        if choices.chance(40):
            return choices.pick(edges)
        magnitude = choices.bits(choices.pick(widths))
        return max(low, -magnitude) if low < 0 and choices.chance(50) else min(high, magnitude)

    return draw


def _edge(wire: codec.WireType) -> Draw:
    """Return one of the edges of a row: for its notation, no other values are known."""
    return lambda choices: choices.pick(wire.edges)


def _bits(wire: codec.WireType) -> Draw:
    return lambda choices: choices.pick(wire.edges) if choices.chance(40) else int.from_bytes(choices.octets(8), "big")


def _text(wire: codec.WireType) -> Draw:
    return _or_null(wire, text)


def _or_null(wire: codec.WireType, draw: Draw) -> Draw:
    """Return null in some cases, if the type has it."""
    return (lambda choices: None if choices.chance(20) else draw(choices)) if None in wire.edges else draw


def text(choices: RandomChoices) -> str:
    """Return text with one to four bytes per character, including NUL and combining marks."""
    letters = choices.pick(("a", "abcxyz09 ", "\x00\x7f", "é߿", "€\u0301x", "😀a"))
    return choices.text(letters, choices.pick(_LENGTHS))


def _octets(wire: codec.WireType) -> Draw:
    return _or_null(wire, lambda choices: choices.octets(choices.pick(_LENGTHS)))


def _uuid(wire: codec.WireType) -> Draw:
    return lambda choices: choices.pick(wire.edges) if choices.chance(20) else choices.octets(16)


_BY_NOTATION: dict[str, Callable[[codec.WireType], Draw]] = {
    n.NUMBER.describes: _number,
    n.DECIMAL.describes: _number,
    n.FLOAT_BITS.describes: _bits,
    n.DASHED.describes: _uuid,
    n.TEXT.describes: _text,
    n.HEX.describes: _octets,
}


def _array(form: str, element: Draw) -> Callable[[RandomChoices], tuple[object, ...] | None]:
    nullable, counts = "NULLABLE" in form, (*_COUNTS, 20, 130)

    def draw(choices: RandomChoices) -> tuple[object, ...] | None:
        if nullable and choices.chance(15):
            return None
        return tuple([element(choices) for _ in range(choices.pick(counts))])

    return draw


# --- structures ---------------------------------------------------------------------------------------


def _tagged(choices: RandomChoices) -> tuple[Values, ...]:
    tags: set[int] = set()
    for _ in range(choices.pick(_COUNTS)):
        tags.add(
            choices.pick((0, 1, 2, 127, 128, 16383, 16384)) if choices.chance(60) else choices.below((1 << 31) - 1)
        )
    return tuple({"tag": tag, "data": choices.octets(choices.pick(_LENGTHS))} for tag in sorted(tags))


def _nullable(choices: RandomChoices) -> bytes | None:
    return None if choices.chance(20) else choices.octets(choices.pick(_LENGTHS))


def _headers(choices: RandomChoices) -> tuple[Values, ...]:
    headers = [
        {"key": text(choices).replace("\0", "k"), "value": _nullable(choices)}
        for _ in range(choices.pick((0, 0, 1, 2, 3)))
    ]
    return tuple(headers + headers[:1] if choices.chance(20) else headers)


def _record(choices: RandomChoices) -> Values:
    delta = value("VARLONG", choices)
    offset = abs(value("VARINT", choices) + 1) - 1 if choices.chance(50) else choices.below(100)
    return {
        "attributes": 0,
        "timestampDelta": delta,
        "offsetDelta": max(0, offset),
        "key": _nullable(choices),
        "value": _nullable(choices),
        "headers": _headers(choices),
    }


_EPOCH_MS = 1_700_000_000_000


def _timestamps(count: int, choices: RandomChoices) -> list[int]:
    """Return timestamps in milliseconds: absent, increasing, in any order, or far apart."""
    style = choices.below(4)
    if style == 0:
        return [-1] * count
    if style == 1:
        return [_EPOCH_MS + choices.below(1000) + 1000 * index for index in range(count)]
    return [choices.below(1 << (44 if style == 2 else 31)) for _ in range(count)]


def _producer(choices: RandomChoices) -> Values:
    if choices.chance(50):
        return {**NO_PRODUCER, "isTransactional": False}
    return {
        "producerId": choices.pick((0, 1, 1 << 31, (1 << 53) + 1, (1 << 63) - 1)),
        "producerEpoch": choices.pick((0, 1, 32767)),
        "baseSequence": choices.pick((0, 1, 1000, (1 << 31) - 1)),
        "isTransactional": choices.chance(50),
    }


def _batch(choices: RandomChoices, *, base: int | None = None) -> Values:
    """Return a batch as a producer makes it, or as compaction leaves it: with gaps, or empty."""
    count = choices.pick((1, 1, 1, 2, 2, 3, 3, 5, 20, 130))
    control = choices.chance(10)
    count = 1 if control else count
    base = choices.pick((0, 0, 1, 100, 1 << 31, (1 << 53) + 1, (1 << 63) - 1000)) if base is None else base
    stamps = _timestamps(count, choices)
    contents = [
        {"key": _nullable(choices), "value": _nullable(choices), "headers": _headers(choices)} for _ in range(count)
    ]
    if control:
        contents = [{"key": CONTROL_KEYS[choices.below(2)], "value": choices.octets(6), "headers": ()}]
    batch = build(
        {
            "baseOffset": base,
            "partitionLeaderEpoch": choices.pick((-1, 0, 5, (1 << 31) - 1)),
            "compression": 0 if control else choices.below(len(CODECS)),
            "timestampType": int(choices.chance(20)),
            **_producer(choices),
            "isControlBatch": control,
            "records": tuple(
                {**content, "offset": base + index, "timestamp": stamps[index]}
                for index, content in enumerate(contents)
            ),
        }
    )
    # 60 is a multiple of every number of forms, so that each form of a codec is equally likely.
    batch["form"] = choices.below(60)
    return batch if control else _compacted(batch, choices)


def _compacted(batch: Values, choices: RandomChoices) -> Values:
    """Compact some of the batches: records are removed, or baseTimestamp is a delete horizon."""
    if choices.chance(75):
        return batch
    kept = {record["offset"] for record in batch["records"] if choices.chance(choices.pick((0, 60, 60, 90)))}
    return compact_batch(batch, kept, delete_horizon=_EPOCH_MS + choices.below(1 << 32) if choices.chance(30) else None)


def _log(choices: RandomChoices, *, mixed: bool = True) -> Values:
    """Return entries with increasing offsets, mostly of one magic, and in some cases the beginning of a further one."""
    entries: list[Values] = []
    base = choices.pick((0, 7, 1 << 40))
    magic = choices.pick((0, 1, 2, 2, 2)) if mixed else 2
    for _ in range(choices.pick((0, 1, 1, 2, 2, 3))):
        entries.append(_batch(choices, base=base) if magic == 2 else legacy_messages.entry(choices, base, magic=magic))
        base = last_offset(entries[-1]) + 1 + choices.pick((0, 0, 0, 4))
        magic = choices.below(3) if mixed and choices.chance(30) else magic
    tail = b""
    if choices.chance(40):
        further = _batch(choices, base=base) if magic == 2 else legacy_messages.entry(choices, base, magic=magic)
        tail = legacy_messages.cut(entry_bytes(further), choices)
    return {"batches": entries, "tail": tail}


def _records(choices: RandomChoices) -> bytes | None:
    """Return the content of a records field: complete batches, in some cases empty, or null."""
    if choices.chance(15):
        return None
    return b"".join(map(batch_bytes, _log(choices, mixed=False)["batches"]))


_SPECIAL: dict[str, Callable[[RandomChoices], object]] = {
    "TAGGED_FIELDS": _tagged,
    "RECORD": _record,
    "RECORD_BATCH": _batch,
    "LOG": _log,
    "MESSAGE_SET": legacy_messages.message_set,
    "RECORDS": _records,
    "COMPACT_RECORDS": _records,
    "CONTROL_RECORD": lambda choices: {"version": 0, "type": choices.below(2)},
}
