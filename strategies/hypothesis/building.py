"""The parts of strategies: plain strategies made from rows of the codec, checks of arguments, readable reprs.

The codec's rows give ranges, edges, nulls and the lengths at which an encoding changes. No strategy filters. No
strategy needs Hypothesis's tables of characters, which Hypothesis stores in a folder of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import cycle, islice
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conformance.codec import Unencodable, decode, wire
from conformance.codec import json_notation as n
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.layout import Layout
from conformance.codec.primitives import INT16, PRIMITIVES
from conformance.codec.wire_type import WireType

T = TypeVar("T")
Sizes = tuple[int, int | None]

# --- names --------------------------------------------------------------------------------------------

FOR_TYPE: dict[str, Callable[..., SearchStrategy[Any]]] = {}
"""The strategy function of each type and of each form of array, by the codec's name."""

_PLURALS = {"BYTES": "byte_strings", "RECORDS": "records_fields", "FIELDS": "fields", "BATCH": "batches"}


def noun(name: str) -> str:
    """Return the name of a type's strategy function."""
    stem, joint, last = name.rpartition("_")
    return f"{stem}{joint}".lower() + _PLURALS.get(last, last.lower() + "s")


F = TypeVar("F", bound=Callable[..., SearchStrategy[Any]])


def strategy_of(name: str, about: str = "") -> Callable[[F], F]:
    """Register the function for a type; `about` becomes the docstring of a function that is made from a row."""

    def register(function: F) -> F:
        if about:
            function.__name__ = function.__qualname__ = noun(name)
            function.__doc__ = about
        FOR_TYPE[name] = function
        return function

    return register


def named(noun: str, plain: SearchStrategy[T], *of: object, **options: object) -> SearchStrategy[T]:
    """Return the same strategy, displayed as the call that made it; options that are None are left out."""

    def drawn(draw: DrawFn, /, *_: object, **__: object) -> T:
        return draw(plain)

    drawn.__name__ = noun
    return st.composite(drawn)(*of, **{name: value for name, value in options.items() if value is not None})


# --- arguments ----------------------------------------------------------------------------------------


def _integer(argument: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{argument} must be an int, not {given!r}")
    return given


def _range(min_value: int | None, max_value: int | None, least: int, most: int) -> tuple[int, int]:
    low = least if min_value is None else _integer("min_value", min_value)
    high = most if max_value is None else _integer("max_value", max_value)
    if not least <= low <= high <= most:
        raise ValueError(f"min_value {low} to max_value {high} is not a range within {least} to {most}")
    return low, high


def sizes_given(min_size: int, max_size: int | None, most: int | None = None) -> Sizes:
    """Check two sizes and return them; `most` is the type's limit. Raises TypeError or ValueError."""
    low = _integer("min_size", min_size)
    high = most if max_size is None else _integer("max_size", max_size)
    if low < 0 or (high is not None and high < low):
        raise ValueError(f"min_size {low} to max_size {high} is not a range of sizes")
    if most is not None and high is not None and high > most:
        raise ValueError(f"max_size {high} is above the type's limit of {most}")
    return low, high


def strategy_given(argument: str, given: object) -> SearchStrategy[Any]:
    """Check a strategy and return it. Raises TypeError."""
    if not isinstance(given, SearchStrategy):
        raise TypeError(f"{argument} must be a strategy, not {given!r}")
    return given


def row_given(type_: object) -> WireType:
    """Return the given type, or the built-in type with the given name. Raises TypeError or UnknownType."""
    if not isinstance(type_, (str, WireType)):
        raise TypeError(f"expected a type or the name of a type, not {type_!r}")
    return wire(type_)


def codec_given(codec: str | None) -> str | None:
    """Check the name of a codec and return it; None is any codec. Raises ValueError."""
    if codec is not None and codec not in CODEC_NAMES:
        raise ValueError(f"codec must be one of {', '.join(CODEC_NAMES)}, or None for any, not {codec!r}")
    return codec


# --- from rows to plain strategies --------------------------------------------------------------------


def integers(row: WireType, low: int | None = None, high: int | None = None) -> SearchStrategy[int]:
    """Generate numbers of a row between bounds, its edges among them."""
    return _between(row, *_range(low, high, min(row.edges), max(row.edges)))


@lru_cache(maxsize=512)
def _between(row: WireType, low: int, high: int) -> SearchStrategy[int]:
    edges = {edge for edge in row.edges if low <= edge <= high} | {low, high}
    return st.integers(low, high) | st.sampled_from(sorted(edges, key=abs))


_NUMBERS = tuple(row for row in PRIMITIVES.values() if row.notation in (n.NUMBER, n.DECIMAL))
_TURNS = sorted({abs(edge) - nudge for row in _NUMBERS for edge in row.edges for nudge in (0, 1)})


def steps_of(write: Callable[[int], bytes], most: int) -> tuple[int, ...]:
    """Return the sizes up to `most` that are next to a change in the size of the length or count prefix."""
    sizes: set[int] = set()
    for size in (size for size in _TURNS if 0 <= size < most):
        try:
            if len(write(size + 1)) - len(write(size)) != 1:
                sizes |= {size, size + 1}
        except Unencodable:
            break
    return tuple(sorted(sizes))


LONGEST = 1 << 15
"""The longest content: a longer one finds nothing new and makes tests slow."""


@cache
def limit_of(row: WireType) -> int | None:
    """Return the largest size that a row can write; None if a test cannot reach it."""
    most = max(INT16.edges)
    try:
        row.encode(_zeros(row, most + 1))
    except Unencodable:
        return int(most)
    return None


@cache
def _edge_sizes(row: WireType) -> tuple[int, ...]:
    limit = limit_of(row)
    steps = steps_of(lambda size: row.encode(_zeros(row, size)), LONGEST)
    return steps if limit is None else (*steps, limit)


def _zeros(row: WireType, size: int) -> Any:
    return "0" * size if row.notation is n.TEXT else bytes(size)


def _character(code: int) -> str:
    """Return a character by number: digits are first, and surrogates are left out."""
    if code < 0x80:
        return chr((code + 0x30) % 0x80)
    return chr(code if code < 0xD800 else code + 0x800)


_ODD = "\0\x7f\u0080\u07ff\u0800\ud7ff\ue000\ufeff\ufffd\uffff\U00010000\U0010ffff\u0301\u202e"
"""U+0000, characters next to each change of width in UTF-8 and to the surrogates, and combining characters."""


@cache
def _characters(*, nul: bool) -> SearchStrategy[str]:
    """Generate characters of every width in UTF-8."""
    plain = st.integers(0, 0x10FFFF - 0x800).map(_character) | st.sampled_from(_ODD)
    return plain if nul else plain.map(lambda character: character if character != "\0" else "0")


def _fills(sizes: Sizes, edges: Sequence[int]) -> SearchStrategy[int]:
    """Generate sizes to which a content is repeated: the smallest (no repetition), or any, often one of the edges.

    A single number decides, so that a large size can shrink to any smaller one.
    """
    low, high = sizes
    kept = [edge for edge in edges if low <= edge and (high is None or edge <= high)]
    if not kept:
        return st.just(low)
    most = kept[-1]
    # About half of them are above `most`: Hypothesis draws evenly from small ranges, and sparsely from large ones.
    beyond = 2 * most if most < 256 else most << 8
    return st.just(low) | st.integers(low, beyond).map(lambda size: size if size <= most else kept[size % len(kept)])


def _text(high: int | None, parts: list[str], fill: int) -> str:
    """Return text of at most `high` bytes, repeated until it has `fill` bytes; zeros fill the rest."""
    raw = "".join(parts).encode()[:high].decode(errors="ignore")
    size = len(raw.encode())
    if size >= fill:
        return raw
    return raw * (fill // size) + "0" * (fill % size) if size else "0" * fill


def _octets(raw: bytes, fill: int) -> bytes:
    """Return bytes, repeated until there are at least `fill`."""
    return raw if len(raw) >= fill else ((raw or b"\0") * fill)[:fill]


def contents_of(row: WireType, sizes: Sizes, *, nul: bool = True) -> SearchStrategy[Any]:
    """Generate text or bytes of a row, never null; sizes are in bytes, and often those at which the length grows."""
    fills = _fills(sizes, _edge_sizes(row))
    if row.notation is n.TEXT:
        return st.builds(partial(_text, sizes[1]), st.lists(_characters(nul=nul)), fills)
    return st.builds(_octets, st.binary(max_size=sizes[1]), fills)


def tuples(element: SearchStrategy[Any], sizes: Sizes, edges: Sequence[int]) -> SearchStrategy[tuple[Any, ...]]:
    """Generate tuples of elements; their sizes are often edges, which repeat elements."""
    plain = st.lists(element, min_size=sizes[0], max_size=sizes[1])
    return _repeated(plain, element, _fills(sizes, edges))


@st.composite
def _repeated(
    draw: DrawFn, plain: SearchStrategy[list[Any]], element: SearchStrategy[Any], fills: SearchStrategy[int]
) -> tuple[Any, ...]:
    drawn, fill = draw(plain), draw(fills)
    if len(drawn) >= fill:
        return tuple(drawn)
    return tuple(islice(cycle(drawn or [draw(element)]), fill))


SMALL = 128
"""Bytes of the longest content inside of records of a batch."""


def plain_values(row: WireType, *, longest: int = LONGEST, nul: bool = True) -> SearchStrategy[Any]:
    """Generate any value of a row of numbers or sized contents (with a limit in bytes), and null if the row has it.

    For another row, generate its edges.
    """
    if row.notation in (n.NUMBER, n.DECIMAL):
        return integers(row)
    if row.notation not in (n.TEXT, n.HEX):
        return st.sampled_from(row.edges)
    filled = contents_of(row, (0, None if longest == LONGEST else longest), nul=nul)
    return st.none() | filled if None in row.edges else filled


def fields_of(layout: Layout, *, longest: int = LONGEST, nul: bool = True, **given: Any) -> SearchStrategy[Values]:
    """Generate the fields of a layout that a writer chooses, from the given strategies or from the rows."""
    rows: dict[str, SearchStrategy[Any]] = {}
    for field in layout.fields:
        if field.name in given:
            rows[field.name] = given[field.name]
        elif field.derive is None and isinstance(field.wire, WireType):
            rows[field.name] = plain_values(field.wire, longest=longest, nul=nul)
    return st.fixed_dictionaries(rows)


def whole(name: str, value: Values) -> Any:
    """Return the value as the codec reads it, with the derived fields."""
    return decode(name, wire(name).encode(value)).value
