"""Rare values: long ones and large arrays, around the limits that implementers set, and lone surrogates.

They have separate names (`gen/4/LARGE_BYTES/0/10`), so that the bytes of other ids do not change.

A length or count is 2^k - 1, 2^k or 2^k + 1, where k is 7 or more and at most 20 for bytes (1 MiB), 17 for headers
and elements, and 15 for records. Of ten values that reach a k, seven continue to the next. So a byte string has some
10 kB on average, and one in a hundred has a mebibyte.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance import codec
from conformance.cases.model import Value
from conformance.codec.builders import batch_bytes
from conformance.codec.derived_fields import Values
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.generator import GeneratedValue, text, value

_LEAST = 7
_BYTES, _ELEMENTS, _RECORDS = 20, 17, 15
"""The largest k."""
_LONGEST_STRING = (1 << 15) - 1


def _number(choices: RandomChoices, largest: int) -> int:
    """Return a length or count."""
    exponent = _LEAST
    while exponent < largest and choices.chance(70):
        exponent += 1
    return (1 << exponent) + choices.below(3) - 1


def _text(choices: RandomChoices, size: int) -> str:
    """Return text of `size` bytes, of one character that has one, two, three or four of them."""
    letter = choices.pick(("a", "\u00e9", "\u20ac", "\U0001f600"))
    count, rest = divmod(size, len(letter.encode()))
    return letter * count + "z" * rest


def _elements(choices: RandomChoices, element: str) -> tuple[object, ...]:
    """Return many elements, of two values."""
    count = _number(choices, _ELEMENTS)
    first = choices.below(count + 1)
    return (value(element, choices),) * first + (value(element, choices),) * (count - first)


# --- records ------------------------------------------------------------------------------------------


def _long_key(record: Values, choices: RandomChoices) -> Values:
    return {**record, "key": choices.octets(_number(choices, _BYTES))}


def _long_value(record: Values, choices: RandomChoices) -> Values:
    return {**record, "value": choices.octets(_number(choices, _BYTES))}


def _long_header_key(record: Values, choices: RandomChoices) -> Values:
    return _with_header(record, {"key": _text(choices, _number(choices, _ELEMENTS)), "value": b"v"})


def _long_header_value(record: Values, choices: RandomChoices) -> Values:
    return _with_header(record, {"key": "h", "value": choices.octets(_number(choices, _BYTES))})


def _many_headers(record: Values, choices: RandomChoices) -> Values:
    return {
        **record,
        "headers": ({"key": "h", "value": choices.octets(choices.below(3))},) * _number(choices, _ELEMENTS),
    }


def _with_header(record: Values, header: Values) -> Values:
    return {**record, "headers": (*record["headers"], header)}


_OF_RECORD = (_long_key, _long_value, _long_header_key, _long_header_value, _many_headers)


def _record(choices: RandomChoices) -> Values:
    return choices.pick(_OF_RECORD)(value("RECORD", choices), choices)


def _batch(choices: RandomChoices) -> Values:
    """Return a batch with one large record, or with many; a control batch, or one without records, stays unchanged."""
    batch: Values = value("RECORD_BATCH", choices)
    records = batch["records"]
    if batch["isControlBatch"] or not records:
        return batch
    if choices.chance(80):
        return {**batch, "records": (*records[:-1], choices.pick(_OF_RECORD)(records[-1], choices))}
    last = {**records[-1], "key": None, "value": b"v", "headers": ()}
    missing = range(1, _number(choices, _RECORDS) - len(records) + 1)
    further = ({**last, "offsetDelta": last["offsetDelta"] + step, "offset": last["offset"] + step} for step in missing)
    records = (*records, *further)
    return {**batch, "records": records, "lastOffsetDelta": max(batch["lastOffsetDelta"], records[-1]["offsetDelta"])}


def _drawn(name: str, draw: Callable[[RandomChoices], Value]) -> Callable[[RandomChoices], GeneratedValue]:
    """Return the function that draws a value of a type, with its bytes."""

    def generated(choices: RandomChoices) -> GeneratedValue:
        drawn = draw(choices)
        return GeneratedValue(drawn, batch_bytes(drawn) if name == "RECORD_BATCH" else codec.encode(name, drawn))

    return generated


_DRAWS: dict[str, Callable[[RandomChoices], Value]] = {
    "STRING": lambda choices: _text(choices, min(_number(choices, _ELEMENTS), _LONGEST_STRING)),
    "COMPACT_STRING": lambda choices: _text(choices, _number(choices, _BYTES)),
    "BYTES": lambda choices: choices.octets(_number(choices, _BYTES)),
    "COMPACT_BYTES": lambda choices: choices.octets(_number(choices, _BYTES)),
    "ARRAY<INT8>": lambda choices: _elements(choices, "INT8"),
    "COMPACT_ARRAY<INT32>": lambda choices: _elements(choices, "INT32"),
    "RECORD": _record,
    "RECORD_BATCH": _batch,
}
LARGE = {f"LARGE_{name}": _drawn(name, draw) for name, draw in _DRAWS.items()}
"""The functions that draw long or large values, by the name in their ids."""

# --- lone surrogates ----------------------------------------------------------------------------------

_HALVES = ("\ud800", "\udbff", "\udc00", "\udfff")


def _broken_text(choices: RandomChoices) -> str:
    """Return text with a lone surrogate; the text around it does not complete the pair."""
    before, after = (text(choices) for _ in range(2))
    return before + choices.pick(_HALVES) + after


def _record_with_broken_key(choices: RandomChoices) -> Value:
    """Return a record in notation, with a header that has such a text as its key."""
    shown = codec.wire("RECORD").notation.render(value("RECORD", choices))
    return {**shown, "headers": [*shown["headers"], {"key": _broken_text(choices), "value": None}]}


_STRINGS = ("STRING", "COMPACT_STRING", "NULLABLE_STRING", "COMPACT_NULLABLE_STRING")
SURROGATES: dict[str, Callable[[RandomChoices], Value]] = {
    **dict.fromkeys((f"SURROGATE_{name}" for name in _STRINGS), _broken_text),
    "SURROGATE_RECORD": _record_with_broken_key,
}
"""The functions that draw a value to encode, in notation, by the name in their ids."""


def type_of(name: str) -> str:
    """Return the type of the values that are generated under a name."""
    return name.partition("_")[2] if name in LARGE or name in SURROGATES else name
