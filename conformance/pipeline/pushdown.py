"""The filters of a query on logs: which segments and batches may hold a row that passes them. Needs pyspark.

Spark hands them to the data source, and applies them again to what comes out. So it does no harm to read too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

Comparison: TypeAlias = EqualNullSafe | EqualTo | GreaterThan | GreaterThanOrEqual | In | LessThan | LessThanOrEqual

Span: TypeAlias = tuple[int | str, int | str] | None
"""The least and the largest value that a column has in some rows; None: it is null in all of them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usable(filters: Sequence[Filter], columns: Sequence[str]) -> list[Comparison]:
    """The filters that compare one of these columns with numbers, texts or points in time."""
    comparisons = [one for one in filters if isinstance(one, Comparison)]
    return [one for one in comparisons if one.attribute[0] in columns and all(map(_is_usable, _values(one)))]


def _is_usable(value: object) -> bool:
    return isinstance(value, int | str) or (isinstance(value, datetime) and value.tzinfo is not None)


def may_pass(filters: Sequence[Comparison], spans: Mapping[str, Span]) -> bool:
    """Whether a row whose columns lie within these spans may pass all filters."""
    return all(_may(one, spans[one.attribute[0]]) for one in filters if one.attribute[0] in spans)


def _may(one: Comparison, span: Span) -> bool:
    if span is None:
        return False
    least, largest = map(_rank, span)
    values = [_rank(value) for value in _values(one)]
    match one:
        case GreaterThan():
            return largest > values[0]
        case GreaterThanOrEqual():
            return largest >= values[0]
        case LessThan():
            return least < values[0]
        case LessThanOrEqual():
            return least <= values[0]
        case _:
            return any(least <= value <= largest for value in values)


def _values(one: Comparison) -> tuple[object, ...]:
    """The values that a filter compares with."""
    return one.value if isinstance(one, In) else (one.value,)


def _rank(value: object) -> tuple[int, bytes]:
    """A value in the order of its column: a number, a time in microseconds since 1970, or a text by its UTF-8."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1), b""
    return (value, b"") if isinstance(value, int) else (0, str(value).encode("utf-8", "surrogatepass"))
