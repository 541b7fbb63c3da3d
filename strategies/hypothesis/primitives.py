"""Strategies of primitive types, tagged fields and arrays."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conformance.codec import TYPES, decode, wire
from conformance.codec import json_notation as n
from conformance.codec.derived_fields import Values
from conformance.codec.primitives import INT8, INT32, UNSIGNED_VARINT, array_of
from conformance.strategies.hypothesis.building import (
    FOR_TYPE,
    SMALL,
    T,
    contents_of,
    integers,
    limit_of,
    named,
    noun,
    sizes_given,
    steps_of,
    strategy_given,
    strategy_of,
    tuples,
)

# --- numbers ------------------------------------------------------------------------------------------


class IntegerStrategy(Protocol):
    """A strategy function of integers."""

    def __call__(self, *, min_value: int | None = None, max_value: int | None = None) -> SearchStrategy[int]:
        """Generate numbers between two bounds, by default those of the type."""


def _numbers(name: str) -> IntegerStrategy:
    row = TYPES[name]

    @strategy_of(name, f"Generate numbers of the type {name}, with the edges of its encoding. Shrinks towards 0.")
    def strategy(*, min_value: int | None = None, max_value: int | None = None) -> SearchStrategy[int]:
        plain = integers(row, min_value, max_value)
        return named(noun(name), plain, min_value=min_value, max_value=max_value)

    return strategy


int8s, int16s, int32s, int64s = map(_numbers, ("INT8", "INT16", "INT32", "INT64"))
uint16s, uint32s = map(_numbers, ("UINT16", "UINT32"))
varints, varlongs, unsigned_varints = map(_numbers, ("VARINT", "VARLONG", "UNSIGNED_VARINT"))


@strategy_of("FLOAT64")
def float64s(*, allow_nan: bool = True) -> SearchStrategy[int]:
    """Generate the 64 bits of floating point numbers (wire values of FLOAT64), with one NaN. Shrinks to 0.0."""
    row = TYPES["FLOAT64"]
    bits = st.floats(allow_nan=allow_nan).map(lambda number: int.from_bytes(struct.pack(">d", number), "big"))
    edges = [edge for edge in row.edges if allow_nan or not n.is_nan(edge)]
    plain = (bits | st.sampled_from(edges)).map(lambda edge: int(decode("FLOAT64", row.encode(edge)).value))
    return named("float64s", plain, allow_nan=None if allow_nan else False)


@strategy_of("UUID")
def uuids() -> SearchStrategy[bytes]:
    """Generate the 16 bytes of UUIDs. Shrinks to the zero UUID, which also means null."""
    return named("uuids", st.binary(min_size=16, max_size=16) | st.sampled_from(TYPES["UUID"].edges))


@strategy_of("BOOLEAN")
def booleans() -> SearchStrategy[bool]:
    """Generate truth values. Shrinks to False."""
    return named("booleans", st.sampled_from(TYPES["BOOLEAN"].edges))


# --- strings, bytes and records fields ----------------------------------------------------------------


class SizedStrategy(Protocol):
    """A strategy function of text or bytes."""

    def __call__(self, *, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[Any]:
        """Generate values; sizes are in bytes, for text in UTF-8. A type that has null also generates null."""


def _sized(name: str) -> SizedStrategy:
    row = TYPES[name]
    null = "null" if None in row.edges else "an empty value"

    @strategy_of(name, f"Generate values of the type {name}, with sizes at which its length grows. Shrinks to {null}.")
    def strategy(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[Any]:
        plain = contents_of(row, sizes_given(min_size, max_size, limit_of(row)))
        plain = st.none() | plain if None in row.edges else plain
        return named(noun(name), plain, min_size=min_size or None, max_size=max_size)

    return strategy


strings, nullable_strings = map(_sized, ("STRING", "NULLABLE_STRING"))
compact_strings, compact_nullable_strings = map(_sized, ("COMPACT_STRING", "COMPACT_NULLABLE_STRING"))
byte_strings, nullable_byte_strings = map(_sized, ("BYTES", "NULLABLE_BYTES"))
compact_byte_strings, compact_nullable_byte_strings = map(_sized, ("COMPACT_BYTES", "COMPACT_NULLABLE_BYTES"))


@strategy_of("RECORDS")
def records_fields() -> SearchStrategy[bytes | None]:
    """Generate values of the type RECORDS: null, or the bytes of a log. Shrinks to null."""
    return named("records_fields", _log_bytes())


@strategy_of("COMPACT_RECORDS")
def compact_records_fields() -> SearchStrategy[bytes | None]:
    """Generate values of the type COMPACT_RECORDS: null, or the bytes of a log. Shrinks to null."""
    return named("compact_records_fields", _log_bytes())


def _log_bytes() -> SearchStrategy[bytes | None]:
    return st.none() | st.deferred(lambda: FOR_TYPE["LOG"](magics=(2,)).map(wire("LOG").encode))


# --- tagged fields and arrays -------------------------------------------------------------------------


@strategy_of("TAGGED_FIELDS")
def tagged_fields(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[tuple[Values, ...]]:
    """Generate sections of raw tagged fields with increasing tags of at most 31 bits. Shrinks to an empty section."""
    low, high = sizes_given(min_size, max_size)
    tags = integers(UNSIGNED_VARINT, 0, max(INT32.edges))
    data = contents_of(TYPES["COMPACT_BYTES"], (0, SMALL))
    plain = st.dictionaries(tags, data, min_size=low, max_size=high).map(
        lambda fields: tuple({"tag": tag, "data": fields[tag]} for tag in sorted(fields))
    )
    return named("tagged_fields", plain, min_size=min_size or None, max_size=max_size)


class ArrayStrategy(Protocol):
    """A strategy function of arrays."""

    def __call__(
        self, element: SearchStrategy[T], *, min_size: int = 0, max_size: int | None = None, allow_null: bool = True
    ) -> SearchStrategy[tuple[T, ...] | None]:
        """Generate tuples of elements, and null unless it is not allowed."""


def _arrays(form: str) -> ArrayStrategy:
    @strategy_of(
        form, f"Generate values of the type {form}, with sizes at which its count grows. Shrinks to null, or ()."
    )
    def strategy(
        element: SearchStrategy[T], *, min_size: int = 0, max_size: int | None = None, allow_null: bool = True
    ) -> SearchStrategy[tuple[T, ...] | None]:
        sizes = sizes_given(min_size, max_size)
        plain = tuples(strategy_given("element", element), sizes, _edge_counts(form))
        null = None if allow_null else False
        filled: SearchStrategy[Any] = st.none() | plain if allow_null and None in array_of(form, INT8).edges else plain
        return named(noun(form), filled, element, min_size=min_size or None, max_size=max_size, allow_null=null)

    return strategy


@cache
def _edge_counts(form: str) -> tuple[int, ...]:
    row = array_of(form, INT8)
    return steps_of(lambda count: row.encode((0,) * count), 2 * SMALL)


arrays, nullable_arrays = map(_arrays, ("ARRAY", "NULLABLE_ARRAY"))
compact_arrays, compact_nullable_arrays = map(_arrays, ("COMPACT_ARRAY", "COMPACT_NULLABLE_ARRAY"))
