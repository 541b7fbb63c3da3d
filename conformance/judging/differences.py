"""Differences of two values: the part at a path, the kind of difference, and the unspecified place behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from conformance import codec
from conformance.cases.model import Case, Value
from conformance.codec.json_notation import UNSHOWN, NamedNumber
from conformance.codec.record_batch import ATTRIBUTES

STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
"""A step of a path: a name, or an index in brackets."""
_OTHER = "another value"
_NAMED = tuple(f".{bits.name}" for bits in ATTRIBUTES if isinstance(bits.notation, NamedNumber))
"""Endings of fields whose numbers are enum values: a numeric distance has no meaning for them."""
DUPLICATE_HEADERS = "header.duplicate-keys-kept"


def value_at(value: Value, path: str) -> Value:
    """Return the part of a value at a path of names and indexes; UNSHOWN if the value has no such part."""
    is_whole = path == "value" and not (isinstance(value, dict) and "value" in value)
    for name, index in STEP.findall("" if is_whole else path):
        if index and isinstance(value, tuple | list) and int(index) < len(value):
            value = value[int(index)]
        elif name and isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return UNSHOWN
    return value


_WIDTHS = (64, 32, 16, 8)


def difference_kind(field: str, expected: Value, actual: Value) -> str:
    """Return how the value of a field differs from the expected one, as the kind of a cause."""
    if actual is UNSHOWN or expected is UNSHOWN:
        return "missing" if actual is UNSHOWN else "too many"
    if expected is None or actual is None:
        return _about_null(expected, actual)
    if type(expected) is int and type(actual) is int:
        return _about_number(field, expected, actual)
    if isinstance(expected, str | bytes | tuple) and type(expected) is type(actual):
        if expected[: len(actual)] == actual:
            return "cut short"
        if actual[: len(expected)] == expected:
            return "too long"
    return _OTHER


def _about_null(expected: Value, actual: Value) -> str:
    if actual is None:
        return "null" if expected else "null instead of empty"
    return "a value instead of null" if actual else "empty instead of null"


def _about_number(field: str, expected: int, actual: int) -> str:
    if field.lower().endswith("timestamp") and actual == expected - expected % 1000:
        return "cut to whole seconds"
    if field.endswith(_NAMED):
        return _OTHER
    if abs(actual - expected) == 1:
        return "off by 1"
    bits = next((bits for bits in _WIDTHS if (actual - expected) % (1 << bits) == 0), 0)
    return f"off by a multiple of 2^{bits}" if bits else _OTHER


_TO_HEADERS = re.compile(r".*headers(?=\[|\Z)")


def is_of_a_map(expected: Value, actual: Value, path: str) -> bool:
    """Return whether the values at a path differ only because the target keeps headers in a map, one per key."""
    found = _TO_HEADERS.match(path)
    # A header map loses the order and repeated keys, so only the set of keys and each remaining value must match.
    expected_headers, shown = (value_at(value, found[0]) if found else () for value in (expected, actual))
    if not (isinstance(expected_headers, tuple | list) and isinstance(shown, tuple | list)):
        return False
    keys = [header.get("key") for header in shown]
    return (
        len(expected_headers) > len(shown) == len(set(keys))
        and {*keys} == {header.get("key") for header in expected_headers}
        and all(any(header.items() <= one.items() for one in expected_headers) for header in shown)
    )


_OFFSETS = ("baseOffset", "lastOffsetDelta", "offset", "offsetDelta")

_AFFECTED_FIELDS = {
    "batch.base-offset": _OFFSETS,
    "record.offset-delta": _OFFSETS,
    "batch.last-offset-delta": _OFFSETS,
    "control.key-layout": ("records", "key", "value", "headers"),
    "control.single-record": ("records",),
    "non-idempotent.producer-id": ("producerId", "producerEpoch", "baseSequence"),
    "record.attributes-zero": ("attributes",),
    "attributes.reserved-bits": ("attributes", *(bits.name for bits in ATTRIBUTES)),
}
"""Unspecified places that affect only these fields. All other places may affect everything after them."""


class UnspecifiedPlaces(Struct, frozen=True):
    """The unspecified places of some bytes, in their order, and the spans of the fields."""

    places: tuple[codec.Violation, ...]
    spans: Sequence[codec.Span]

    def cause_of_difference(self, path: str) -> codec.Violation | None:
        """Return the unspecified place that explains a difference at a path; a place after the field cannot."""
        ends = {span.layer: span.stop for span in self.spans if span.path == path}
        read_by_then = [place for place in self.places if place.at < ends.get(place.layer, place.at + 1)]
        return cause_of_difference(read_by_then, path)


def open_places(case: Case) -> UnspecifiedPlaces:
    """Return the unspecified places in the bytes of a case, with the spans of the fields."""
    read = codec.decode(case.wire, case.data or b"", trail=True)
    return UnspecifiedPlaces(read.remarks, read.spans)


def cause_of_difference(places: Sequence[codec.Violation], path: str) -> codec.Violation | None:
    """Return the place that explains a difference at a path: one in this field, else the first that may affect it."""
    field = _last_name(path)
    reaching = [
        place
        for place in places
        if field in _AFFECTED_FIELDS.get(place.requirement, (field,)) and not _is_in_front(path, place.path)
    ]
    return next((place for place in reaching if place.path == path), next(iter(reaching), None))


def _is_in_front(path: str, place: str) -> bool:
    """Return whether a path leads to an earlier element than the place: its bytes were decoded before the place."""
    for (name, index), (other, its_index) in zip(STEP.findall(path), STEP.findall(place), strict=False):
        if (name, index) != (other, its_index):
            return bool(index and its_index) and int(index) < int(its_index)
    return False


def _last_name(path: str) -> str:
    return next((name for name, _ in reversed(STEP.findall(path)) if name), "")
