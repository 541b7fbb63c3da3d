"""Values that are drawn rarely: long and many, on both sides of the limits that implementers set, and lone surrogates.

They have names of their own beside the types (`gen/4/LARGE_BYTES/0/10`), so that the bytes behind other ids stay.

A length or count is 2^k - 1, 2^k or 2^k + 1, where k is 7 or more and at most 20 for bytes (1 MiB), 17 for headers
and elements, and 15 for records. Of ten that come to a k, seven go on to the next, so that a value of bytes has some
10 kB on the average, and one in a hundred a mebibyte.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance import codec
from conformance.cases.model import Value
from conformance.codec.builders import batch_bytes
from conformance.codec.derived_fields import Values
from conformance.strategies.seeded.generator import GeneratedValue, text, value
from conformance.strategies.seeded.random_choices import RandomChoices

_LEAST = 7
_BYTES, _ELEMENTS, _RECORDS = 20, 17, 15
"""The largest k."""
_LONGEST_STRING = (1 << 15) - 1


def _number(choices: RandomChoices, largest: int) -> int:
    """A length or count."""
    exponent = _LEAST
    while exponent < largest and choices.chance(70):
        exponent += 1
    return (1 << exponent) + choices.below(3) - 1


def _text(choices: RandomChoices, size: int) -> str:
    """Text of so many bytes, of one character that has one, two, three or four of them."""
    letter = choices.pick(("a", "\u00e9", "\u20ac", "\U0001f600"))
    count, rest = divmod(size, len(letter.encode()))
    return letter * count + "z" * rest


def _elements(choices: RandomChoices, element: str) -> tuple[object, ...]:
    """Many elements, of two values."""
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
    """A batch with one large record, or with many records; a control batch, or one without records, stays as it is."""
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
    """What draws a value of a type, with its bytes."""

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
"""Draws what is long or many, by the name that it is generated under."""

# --- lone surrogates ----------------------------------------------------------------------------------

_HALVES = ("\ud800", "\udbff", "\udc00", "\udfff")


def _broken_text(choices: RandomChoices) -> str:
    """Text with a lone surrogate; what stands around it does not complete the pair."""
    before, after = (text(choices) for _ in range(2))
    return before + choices.pick(_HALVES) + after


def _record_with_broken_key(choices: RandomChoices) -> Value:
    """A record in notation, with a header whose key is such a text."""
    shown = codec.wire("RECORD").notation.render(value("RECORD", choices))
    return {**shown, "headers": [*shown["headers"], {"key": _broken_text(choices), "value": None}]}


_STRINGS = ("STRING", "COMPACT_STRING", "NULLABLE_STRING", "COMPACT_NULLABLE_STRING")
SURROGATES: dict[str, Callable[[RandomChoices], Value]] = {
    **dict.fromkeys((f"SURROGATE_{name}" for name in _STRINGS), _broken_text),
    "SURROGATE_RECORD": _record_with_broken_key,
}
"""Draws a value to encode, in notation, by the name that it is generated under."""


def type_of(name: str) -> str:
    """The type of what is generated under a name."""
    return name.partition("_")[2] if name in LARGE or name in SURROGATES else name
