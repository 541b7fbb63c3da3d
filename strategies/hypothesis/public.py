"""Hypothesis strategies of the codec's types: wire values, valid by construction, and bytes near valid ones.

The codec's rows give ranges, edges, nulls and the lengths at which an encoding changes, so a type with a row needs
only a name here. `from_type` generates values of a type, `encoded` values with their bytes, `hostile` damaged bytes.
No strategy filters, and no strategy needs Hypothesis's tables of characters, which it stores in a folder of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conformance.codec import MessageType, WireType, wire
from conformance.codec import json_notation as n
from conformance.strategies.hypothesis.batches import (
    control_batches,
    control_records,
    gapped_batches,
    headers,
    record_batches,
    records,
)
from conformance.strategies.hypothesis.building import FOR_TYPE, T, named, plain_values, row_given, strategy_given
from conformance.strategies.hypothesis.logs import fetches, logs, message_sets, transactions, wrappers
from conformance.strategies.hypothesis.messages import from_message, version_skews
from conformance.strategies.hypothesis.primitives import (
    arrays,
    booleans,
    byte_strings,
    compact_arrays,
    compact_byte_strings,
    compact_nullable_arrays,
    compact_nullable_byte_strings,
    compact_nullable_strings,
    compact_records_fields,
    compact_strings,
    float64s,
    int8s,
    int16s,
    int32s,
    int64s,
    nullable_arrays,
    nullable_byte_strings,
    nullable_strings,
    records_fields,
    strings,
    tagged_fields,
    uint16s,
    uint32s,
    unsigned_varints,
    uuids,
    varints,
    varlongs,
)
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.mutations import mutate

__all__ = [
    "arrays",
    "booleans",
    "byte_strings",
    "compact_arrays",
    "compact_byte_strings",
    "compact_nullable_arrays",
    "compact_nullable_byte_strings",
    "compact_nullable_strings",
    "compact_records_fields",
    "compact_strings",
    "control_batches",
    "control_records",
    "encoded",
    "fetches",
    "float64s",
    "from_message",
    "from_type",
    "gapped_batches",
    "headers",
    "hostile",
    "int8s",
    "int16s",
    "int32s",
    "int64s",
    "logs",
    "message_sets",
    "nullable_arrays",
    "nullable_byte_strings",
    "nullable_strings",
    "record_batches",
    "records",
    "records_fields",
    "strings",
    "tagged_fields",
    "transactions",
    "uint16s",
    "uint32s",
    "unsigned_varints",
    "uuids",
    "varints",
    "varlongs",
    "version_skews",
    "wrappers",
]

# --- any type -----------------------------------------------------------------------------------------


def from_type(type_: WireType | str) -> SearchStrategy[Any]:
    """Return the strategy of a type, given itself or by its name (`ARRAY<INT32>`); its repr shows the plain strategy.

    Arrays of other elements than numbers and sized contents are short. A message version is a type of a
    `codec.TypeRegistry`. Raises UnknownType, a ValueError.
    """
    row = row_given(type_)
    if isinstance(row, MessageType):
        return from_message(row.message, row.version)
    name = row.name
    form, _, rest = name.partition("<")
    if not rest:
        return FOR_TYPE[name]() if name in FOR_TYPE else plain_values(row)
    flat = isinstance(wire(rest[:-1]).notation, n.Notation)
    return FOR_TYPE[form](from_type(rest[:-1]), max_size=None if flat else 8)


def encoded(type_: WireType | str, *, values: SearchStrategy[T] | None = None) -> SearchStrategy[tuple[T, bytes]]:
    """Generate pairs of a value (of a type, or from a strategy) and its bytes, gaps kept. Shrinks like the values."""
    row, given = row_given(type_), from_type(type_) if values is None else strategy_given("values", values)
    return named("encoded", given.map(lambda value: (value, row.encode(value))), row.name, values=values)


class _HypothesisChoices(RandomChoices):
    """Choices that Hypothesis draws, so that their results shrink."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def octets(self, count: int) -> bytes:
        return self._draw(st.binary(min_size=count, max_size=count))


@st.composite
def _damaged(draw: DrawFn, pairs: SearchStrategy[tuple[Any, bytes]], row: WireType) -> bytes:
    data, choices = draw(pairs)[1], _HypothesisChoices(draw)
    for _ in range(draw(st.integers(1, 2))):
        data = mutate(row, data, choices)[0]
    return data


def hostile(type_: WireType | str, *, values: SearchStrategy[Any] | None = None) -> SearchStrategy[bytes]:
    """Generate bytes near valid ones of a type: one or two mutations of `conformance.strategies.seeded.mutations`.

    Examples are overlong varints, wrong lengths and counts, nulls that the type lacks, cut or doubled parts, flipped
    bits. The lengths and checksums around them are corrected or not. The bytes may still be valid, or unspecified.
    """
    row = row_given(type_)
    return named("hostile", _damaged(encoded(row, values=values), row), row.name, values=values)
