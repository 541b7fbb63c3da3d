"""Hypothesis strategies of the codec's types: wire values, valid by construction, and bytes near valid ones.

Ranges, edges, nulls and the lengths at which an encoding changes are asked of the codec's rows, so a type that gets a
row there needs no more than a name here. What stands in a type's place: `from_type`; value and bytes: `encoded`;
damaged bytes: `hostile`. No strategy filters, and none needs Hypothesis' tables of characters, which it keeps in a
folder of the user's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate, cycle, islice
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conformance.codec import TYPES, Unencodable, decode, wire
from conformance.codec import notation as n
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.message_set import LAYOUTS
from conformance.codec.primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    PRIMITIVES,
    UNSIGNED_VARINT,
    VARINT,
    VARLONG,
    Wire,
    array_of,
)
from conformance.codec.record_batch import (
    BATCH_LAYOUT,
    CONTROL_RECORD,
    CONTROL_TYPES,
    HEADER_LAYOUT,
    RECORD_LAYOUT,
    TIMESTAMP_TYPES,
    build,
)
from conformance.codec.structure import Layout, Values
from conformance.strategies.dice import Dice
from conformance.strategies.mutations import mutate

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
    "float64s",
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
    "uint16s",
    "uint32s",
    "unsigned_varints",
    "uuids",
    "varints",
    "varlongs",
]

T = TypeVar("T")
_Sizes = tuple[int, int | None]

# --- names --------------------------------------------------------------------------------------------

_FOR_TYPE: dict[str, Callable[..., SearchStrategy[Any]]] = {}
"""The strategy function of each type and of each form of array, by the codec's name."""

_PLURALS = {"BYTES": "byte_strings", "RECORDS": "records_fields", "FIELDS": "fields", "BATCH": "batches"}


def _noun(name: str) -> str:
    """What the strategy function of a type is called."""
    stem, joint, last = name.rpartition("_")
    return f"{stem}{joint}".lower() + _PLURALS.get(last, last.lower() + "s")


F = TypeVar("F", bound=Callable[..., SearchStrategy[Any]])


def _of(name: str, about: str = "") -> Callable[[F], F]:
    """Make a function the one for a type; `about` documents those that are made from a row."""

    def register(function: F) -> F:
        if about:
            function.__name__ = function.__qualname__ = _noun(name)
            function.__doc__ = about
        _FOR_TYPE[name] = function
        return function

    return register


def _named(noun: str, plain: SearchStrategy[T], *of: object, **options: object) -> SearchStrategy[T]:
    """The same strategy, shown as the call that made it; options that are None are left out."""

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
        raise ValueError(f"min_value {low} to max_value {high} is no range within {least} to {most}")
    return low, high


def _sizes(min_size: int, max_size: int | None, most: int | None = None) -> _Sizes:
    low = _integer("min_size", min_size)
    high = most if max_size is None else _integer("max_size", max_size)
    if low < 0 or (high is not None and high < low):
        raise ValueError(f"min_size {low} to max_size {high} is no range of sizes")
    if most is not None and high is not None and high > most:
        raise ValueError(f"max_size {high} is above the type's limit of {most}")
    return low, high


def _strategy(argument: str, given: object) -> SearchStrategy[Any]:
    if not isinstance(given, SearchStrategy):
        raise TypeError(f"{argument} must be a strategy, not {given!r}")
    return given


def _row(name: object) -> Wire:
    if not isinstance(name, str):
        raise TypeError(f"name must be that of a type, not {name!r}")
    return wire(name)


def _known(codec: str | None) -> str | None:
    if codec is not None and codec not in CODEC_NAMES:
        raise ValueError(f"codec must be one of {', '.join(CODEC_NAMES)}, or None for any, not {codec!r}")
    return codec


# --- from rows to plain strategies --------------------------------------------------------------------


def _integers(row: Wire, low: int | None = None, high: int | None = None) -> SearchStrategy[int]:
    """Numbers of a row between bounds, its edges among them."""
    return _between(row, *_range(low, high, min(row.edges), max(row.edges)))


@lru_cache(maxsize=512)
def _between(row: Wire, low: int, high: int) -> SearchStrategy[int]:
    edges = {edge for edge in row.edges if low <= edge <= high} | {low, high}
    return st.integers(low, high) | st.sampled_from(sorted(edges, key=abs))


_NUMBERS = tuple(row for row in PRIMITIVES.values() if row.notation in (n.NUMBER, n.DECIMAL))
_TURNS = sorted({abs(edge) - nudge for row in _NUMBERS for edge in row.edges for nudge in (0, 1)})


def _steps(write: Callable[[int], bytes], most: int) -> tuple[int, ...]:
    """The sizes up to `most` on either side of which the length or count before the content changes its own size."""
    found: set[int] = set()
    for size in (size for size in _TURNS if 0 <= size < most):
        try:
            if len(write(size + 1)) - len(write(size)) != 1:
                found |= {size, size + 1}
        except Unencodable:
            break
    return tuple(sorted(found))


_LONGEST = 1 << 15
"""Contents longer than any edge below it teach nothing new and slow everybody down."""


@cache
def _limit(row: Wire) -> int | None:
    """The largest size that a row can write, if it is one worth meeting."""
    most = max(INT16.edges)
    try:
        row.encode(_zeros(row, most + 1))
    except Unencodable:
        return int(most)
    return None


@cache
def _edge_sizes(row: Wire) -> tuple[int, ...]:
    limit = _limit(row)
    steps = _steps(lambda size: row.encode(_zeros(row, size)), _LONGEST)
    return steps if limit is None else (*steps, limit)


def _zeros(row: Wire, size: int) -> Any:
    return "0" * size if row.notation is n.TEXT else bytes(size)


def _character(code: int) -> str:
    """A character by number: the digits come first, surrogates do not come at all."""
    if code < 0x80:
        return chr((code + 0x30) % 0x80)
    return chr(code if code < 0xD800 else code + 0x800)


_ODD = "\0\x7f\u0080\u07ff\u0800\ud7ff\ue000\ufeff\ufffd\uffff\U00010000\U0010ffff\u0301\u202e"
"""U+0000, either side of each width in UTF-8 and of the surrogates, and what changes its neighbours."""


@cache
def _characters(*, nul: bool) -> SearchStrategy[str]:
    """Characters of every width in UTF-8."""
    plain = st.integers(0, 0x10FFFF - 0x800).map(_character) | st.sampled_from(_ODD)
    return plain if nul else plain.map(lambda character: character if character != "\0" else "0")


def _fills(sizes: _Sizes, edges: Sequence[int]) -> SearchStrategy[int]:
    """Sizes up to which something is to be repeated: the least (not at all), or any, the edges often.

    One number decides, so that a large size can shrink to any smaller one.
    """
    low, high = sizes
    kept = [edge for edge in edges if low <= edge and (high is None or edge <= high)]
    if not kept:
        return st.just(low)
    most = kept[-1]
    # Half of them or so lie above: Hypothesis spreads numbers evenly over small ranges, thinly over large ones.
    beyond = 2 * most if most < 256 else most << 8
    return st.just(low) | st.integers(low, beyond).map(lambda size: size if size <= most else kept[size % len(kept)])


def _text(high: int | None, parts: list[str], fill: int) -> str:
    """Text cut to so many bytes at most and repeated to so many at least, with zeros where it does not fit."""
    raw = "".join(parts).encode()[:high].decode(errors="ignore")
    size = len(raw.encode())
    if size >= fill:
        return raw
    return raw * (fill // size) + "0" * (fill % size) if size else "0" * fill


def _octets(raw: bytes, fill: int) -> bytes:
    """Bytes repeated up to so many at least."""
    return raw if len(raw) >= fill else ((raw or b"\0") * fill)[:fill]


def _contents(row: Wire, sizes: _Sizes, *, nul: bool = True) -> SearchStrategy[Any]:
    """Text or bytes of a row with sizes in bytes, those at which its length changes form among them; no null."""
    fills = _fills(sizes, _edge_sizes(row))
    if row.notation is n.TEXT:
        return st.builds(partial(_text, sizes[1]), st.lists(_characters(nul=nul)), fills)
    return st.builds(_octets, st.binary(max_size=sizes[1]), fills)


def _tuples(element: SearchStrategy[Any], sizes: _Sizes, edges: Sequence[int]) -> SearchStrategy[tuple[Any, ...]]:
    """Tuples of elements, the edges often among their sizes: then the elements come again and again."""
    plain = st.lists(element, min_size=sizes[0], max_size=sizes[1])
    return _repeated(plain, element, _fills(sizes, edges))


@st.composite
def _repeated(
    draw: DrawFn, plain: SearchStrategy[list[Any]], element: SearchStrategy[Any], fills: SearchStrategy[int]
) -> tuple[Any, ...]:
    found, fill = draw(plain), draw(fills)
    if len(found) >= fill:
        return tuple(found)
    return tuple(islice(cycle(found or [draw(element)]), fill))


_SMALL = 128
"""Bytes of the longest content inside records of a batch."""


def _plain(row: Wire, *, longest: int = _LONGEST, nul: bool = True) -> SearchStrategy[Any]:
    """Any value of a row of numbers or sized contents (of at most so many bytes), null included where it has one."""
    if row.notation not in (n.TEXT, n.HEX):
        return _integers(row)
    filled = _contents(row, (0, None if longest == _LONGEST else longest), nul=nul)
    return st.none() | filled if None in row.edges else filled


def _fields(layout: Layout, *, longest: int = _LONGEST, nul: bool = True, **given: Any) -> SearchStrategy[Values]:
    """The fields of a layout that a writer is free in, by strategies that are given or follow from the rows."""
    rows: dict[str, SearchStrategy[Any]] = {}
    for field in layout.fields:
        if field.name in given:
            rows[field.name] = given[field.name]
        elif field.derive is None and isinstance(field.wire, Wire):
            rows[field.name] = _plain(field.wire, longest=longest, nul=nul)
    return st.fixed_dictionaries(rows)


def _whole(name: str, value: Values) -> Any:
    """The value as the codec reads it, with what a writer derives."""
    return decode(name, wire(name).encode(value)).value


# --- numbers ------------------------------------------------------------------------------------------


class Numbers(Protocol):
    """A strategy function of whole numbers."""

    def __call__(self, *, min_value: int | None = None, max_value: int | None = None) -> SearchStrategy[int]:
        """Numbers between the two, which are those of the type unless given."""


def _numbers(name: str) -> Numbers:
    row = TYPES[name]

    @_of(name, f"Numbers of the type {name}, the edges of its encoding among them. They shrink towards 0.")
    def strategy(*, min_value: int | None = None, max_value: int | None = None) -> SearchStrategy[int]:
        plain = _integers(row, min_value, max_value)
        return _named(_noun(name), plain, min_value=min_value, max_value=max_value)

    return strategy


int8s, int16s, int32s, int64s = map(_numbers, ("INT8", "INT16", "INT32", "INT64"))
uint16s, uint32s = map(_numbers, ("UINT16", "UINT32"))
varints, varlongs, unsigned_varints = map(_numbers, ("VARINT", "VARLONG", "UNSIGNED_VARINT"))


@_of("FLOAT64")
def float64s(*, allow_nan: bool = True) -> SearchStrategy[int]:
    """The 64 bits of floating point numbers (the wire value of FLOAT64); NaN is the canonical one. Shrinks to 0.0."""
    row = TYPES["FLOAT64"]
    bits = st.floats(allow_nan=allow_nan).map(lambda number: int.from_bytes(struct.pack(">d", number), "big"))
    edges = [edge for edge in row.edges if allow_nan or not n.is_nan(edge)]
    plain = (bits | st.sampled_from(edges)).map(lambda found: int(decode("FLOAT64", row.encode(found)).value))
    return _named("float64s", plain, allow_nan=None if allow_nan else False)


@_of("UUID")
def uuids() -> SearchStrategy[bytes]:
    """The 16 bytes of UUIDs. Shrinks to the zero UUID, which also stands for null."""
    return _named("uuids", st.binary(min_size=16, max_size=16) | st.sampled_from(TYPES["UUID"].edges))


@_of("BOOLEAN")
def booleans() -> SearchStrategy[bool]:
    """Truth values. Shrinks to False."""
    return _named("booleans", st.sampled_from(TYPES["BOOLEAN"].edges))


# --- strings, bytes and records fields ----------------------------------------------------------------


class Sized(Protocol):
    """A strategy function of text or bytes."""

    def __call__(self, *, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[Any]:
        """Sizes are in bytes, of text in its UTF-8 form; null, where the type has it, comes whatever the sizes."""


def _sized(name: str) -> Sized:
    row = TYPES[name]
    null = "null" if None in row.edges else "nothing in it"

    @_of(name, f"Values of the type {name}, also of the sizes at which its length changes form. Shrinks to {null}.")
    def strategy(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[Any]:
        plain = _contents(row, _sizes(min_size, max_size, _limit(row)))
        plain = st.none() | plain if None in row.edges else plain
        return _named(_noun(name), plain, min_size=min_size or None, max_size=max_size)

    return strategy


strings, nullable_strings = map(_sized, ("STRING", "NULLABLE_STRING"))
compact_strings, compact_nullable_strings = map(_sized, ("COMPACT_STRING", "COMPACT_NULLABLE_STRING"))
byte_strings, nullable_byte_strings = map(_sized, ("BYTES", "NULLABLE_BYTES"))
compact_byte_strings, compact_nullable_byte_strings = map(_sized, ("COMPACT_BYTES", "COMPACT_NULLABLE_BYTES"))


@_of("RECORDS")
def records_fields() -> SearchStrategy[bytes | None]:
    """Values of the type RECORDS: null, or the bytes of a log. Shrinks to null."""
    return _named("records_fields", _log_bytes())


@_of("COMPACT_RECORDS")
def compact_records_fields() -> SearchStrategy[bytes | None]:
    """Values of the type COMPACT_RECORDS: null, or the bytes of a log. Shrinks to null."""
    return _named("compact_records_fields", _log_bytes())


def _log_bytes() -> SearchStrategy[bytes | None]:
    return st.none() | st.deferred(lambda: logs().map(wire("LOG").encode))


# --- tagged fields and arrays -------------------------------------------------------------------------


@_of("TAGGED_FIELDS")
def tagged_fields(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[tuple[Values, ...]]:
    """Sections of tagged fields, all raw, tags rising and none negative for a signed reader. Shrinks to none."""
    low, high = _sizes(min_size, max_size)
    tags = _integers(UNSIGNED_VARINT, 0, max(INT32.edges))
    data = _contents(TYPES["COMPACT_BYTES"], (0, _SMALL))
    plain = st.dictionaries(tags, data, min_size=low, max_size=high).map(
        lambda fields: tuple({"tag": tag, "data": fields[tag]} for tag in sorted(fields))
    )
    return _named("tagged_fields", plain, min_size=min_size or None, max_size=max_size)


class Arrays(Protocol):
    """A strategy function of arrays."""

    def __call__(
        self, element: SearchStrategy[T], *, min_size: int = 0, max_size: int | None = None, allow_null: bool = True
    ) -> SearchStrategy[tuple[T, ...] | None]:
        """Tuples of so many elements, and null unless it is not allowed."""


def _arrays(form: str) -> Arrays:
    @_of(form, f"Values of the type {form}, also with counts at which the count changes form. Shrinks to null, or ().")
    def strategy(
        element: SearchStrategy[T], *, min_size: int = 0, max_size: int | None = None, allow_null: bool = True
    ) -> SearchStrategy[tuple[T, ...] | None]:
        sizes = _sizes(min_size, max_size)
        plain = _tuples(_strategy("element", element), sizes, _edge_counts(form))
        null = None if allow_null else False
        filled: SearchStrategy[Any] = st.none() | plain if allow_null and None in array_of(form, INT8).edges else plain
        return _named(_noun(form), filled, element, min_size=min_size or None, max_size=max_size, allow_null=null)

    return strategy


@cache
def _edge_counts(form: str) -> tuple[int, ...]:
    row = array_of(form, INT8)
    return _steps(lambda count: row.encode((0,) * count), 2 * _SMALL)


arrays, nullable_arrays = map(_arrays, ("ARRAY", "NULLABLE_ARRAY"))
compact_arrays, compact_nullable_arrays = map(_arrays, ("COMPACT_ARRAY", "COMPACT_NULLABLE_ARRAY"))

# --- records ------------------------------------------------------------------------------------------


def headers(*, max_size: int | None = None) -> SearchStrategy[Values]:
    """A record's headers, one at a time: `key`, never null and without U+0000, and `value`, of so many bytes at most.

    Shrinks to an empty key with null.
    """
    longest = _sizes(0, max_size)[1]
    return _named("headers", _headers(_LONGEST if longest is None else longest), max_size=max_size)


@cache
def _headers(longest: int) -> SearchStrategy[Values]:
    return _fields(HEADER_LAYOUT, longest=longest, nul=False)


_COUNTS = (63, 64, 65)
"""Either side of where a VARINT, that of a header count or of an offset delta, takes a second byte."""


@_of("RECORD")
def records() -> SearchStrategy[Values]:
    """Values of the type RECORD: one record outside any batch, its deltas free, its attributes 0.

    Shrinks to deltas of 0, null key and value, no headers.
    """
    free = _fields(
        RECORD_LAYOUT,
        attributes=st.just(0),
        offsetDelta=_integers(VARINT, 0),
        headers=_tuples(_headers(_SMALL), (0, None), _COUNTS),
    )
    return _named("records", free.map(partial(_whole, "RECORD")))


@cache
def _choices() -> SearchStrategy[Values]:
    """What an application decides of a record: small contents, and a time."""
    row = {field.name: field.wire for field in RECORD_LAYOUT.fields if type(field.wire) is Wire}
    return st.fixed_dictionaries(
        {
            "timestamp": _from(-1, "baseTimestamp"),
            "key": _plain(row["key"], longest=_SMALL),
            "value": _plain(row["value"], longest=_SMALL),
            "headers": st.lists(_headers(_SMALL), max_size=4).map(tuple),
        }
    )


@_of("CONTROL_RECORD")
def control_records() -> SearchStrategy[Values]:
    """Values of the type CONTROL_RECORD: the markers of transactions, in version 0. Shrinks to ABORT."""
    markers = st.sampled_from([CONTROL_TYPES.index(name) for name in ("ABORT", "COMMIT")])
    return _named("control_records", st.fixed_dictionaries({"version": st.just(0), "type": markers}))


# --- batches ------------------------------------------------------------------------------------------

_BATCH = {field.name: field.wire for field in BATCH_LAYOUT.fields if type(field.wire) is Wire}
_PRODUCER = ("producerId", "producerEpoch", "baseSequence")


def _from(low: int, field: str) -> SearchStrategy[int]:
    """A field of a batch from a number upwards."""
    return _integers(_BATCH[field], low)


@cache
def _producers() -> SearchStrategy[Values]:
    """No producer, an idempotent or a transactional one: id, epoch and sequence that go together."""
    nobody: Values = {**dict.fromkeys(_PRODUCER, -1), "isTransactional": False}
    known: dict[str, SearchStrategy[Any]] = {name: _from(0, name) for name in _PRODUCER}
    return st.just(nobody) | st.fixed_dictionaries({**known, "isTransactional": st.booleans()})


@cache
def _origins(codec: str | None) -> SearchStrategy[Values]:
    """The fields of a batch at offset 0 that have nothing to do with its records."""
    fields = st.fixed_dictionaries(
        {
            "partitionLeaderEpoch": _from(-1, "partitionLeaderEpoch"),
            "compression": st.sampled_from(range(len(CODECS))) if codec is None else st.just(CODEC_NAMES.index(codec)),
            "timestampType": st.sampled_from(range(len(TIMESTAMP_TYPES))),
        }
    )
    rest: Values = {"baseOffset": 0, "isControlBatch": False}
    return st.builds(lambda fields, producer: {**fields, **producer, **rest}, fields, _producers())


def _timed(record: Values, origin: int) -> Values:
    """The record with a time that its delta can tell; only the latest of all is out of reach, from -1."""
    return {**record, "timestamp": min(record["timestamp"], origin + max(VARLONG.edges))}


def _moved(batch: Values, base: int) -> Values:
    """A batch at offset 0 moved to another; nothing else in its bytes depends on that."""
    placed = tuple({**record, "offset": base + record["offsetDelta"]} for record in batch["records"])
    return {**batch, "baseOffset": base, "records": placed}


@st.composite
def _anywhere(draw: DrawFn, batches: SearchStrategy[Values]) -> Values:
    """Batches at any base offset that leaves room for the one after their last."""
    batch = draw(batches)
    return _moved(batch, draw(_integers(INT64, 0, max(INT64.edges) - 1 - batch["lastOffsetDelta"])))


@st.composite
def _batches(draw: DrawFn, codec: str | None, sizes: _Sizes) -> Values:
    batch = draw(_origins(codec))
    chosen = draw(_tuples(_choices(), sizes, _COUNTS))
    origin = chosen[0]["timestamp"]
    placed = [{**_timed(record, origin), "offset": index} for index, record in enumerate(chosen)]
    if batch["timestampType"]:
        # The broker's time is that of all of them; what producers said underneath is no application's choice.
        placed = [{**record, "timestamp": origin} for record in placed]
    return dict(_whole("RECORD_BATCH", build({**batch, "records": placed})))


@_of("RECORD_BATCH")
def record_batches(
    *, codec: str | None = None, min_size: int = 1, max_size: int | None = None
) -> SearchStrategy[Values]:
    """Values of the type RECORD_BATCH: batches as they are first written, in one codec (by name) or in any.

    They have min_size to max_size records, one at least, with consecutive offsets. Shrinks to one record without
    content, uncompressed, without a producer, every other number 0.
    """
    sizes = _sizes(min_size, max_size)
    if min_size == 0:
        raise ValueError("min_size must be 1 or more: a batch is written with records")
    shown = {"codec": codec, "min_size": None if min_size == 1 else min_size, "max_size": max_size}
    return _named("record_batches", _anywhere(_batches(_known(codec), sizes)), **shown)


_GAP = 1 << 24


@st.composite
def _gapped(draw: DrawFn, codec: str | None, sizes: _Sizes) -> Values:
    batch, gaps = draw(_origins(codec)), _integers(INT32, 0, _GAP)
    origin = draw(_from(-1, "baseTimestamp"))
    drawn = draw(st.lists(st.tuples(gaps, _choices()), min_size=sizes[0], max_size=sizes[1]))
    kept = [(gap, _timed(record, origin)) for gap, record in drawn]
    deltas = [delta - 1 for delta in accumulate(gap + 1 for gap, _ in kept)]
    latest = -1 if batch["timestampType"] else max([record["timestamp"] for _, record in kept], default=-1)
    placed = [
        {**record, "attributes": 0, "offsetDelta": delta, "timestampDelta": record["timestamp"] - origin}
        for delta, (_, record) in zip(deltas, kept, strict=True)
    ]
    left = {
        "lastOffsetDelta": (deltas[-1] if deltas else 0) + draw(gaps),
        "baseTimestamp": origin,
        "maxTimestamp": draw(_from(latest, "maxTimestamp")),
        "hasDeleteHorizonMs": origin >= 0 and draw(st.booleans()),
        "records": placed,
    }
    return dict(_whole("RECORD_BATCH", {**batch, **left}))


def gapped_batches(
    *, codec: str | None = None, min_size: int = 0, max_size: int | None = None
) -> SearchStrategy[Values]:
    """Batches after compaction: offsets with gaps before, between and after the records, of which there may be none.

    Values of the type RECORD_BATCH that an application cannot ask for (`codec.encode` closes the gaps, `encoded` and
    `codec.wire` keep them). Shrinks to no record, uncompressed, without a producer, every other number 0.
    """
    sizes = _sizes(min_size, 64 if max_size is None else max_size, 64)
    shown = {"codec": codec, "min_size": min_size or None, "max_size": max_size}
    return _named("gapped_batches", _anywhere(_gapped(_known(codec), sizes)), **shown)


@st.composite
def _markers(draw: DrawFn) -> Values:
    key = CONTROL_RECORD.encode(draw(control_records()))
    end = INT16.encode(0) + INT32.encode(draw(_integers(INT32, 0)))
    marker = {"offset": 0, "timestamp": draw(_from(0, "baseTimestamp")), "key": key, "value": end, "headers": ()}
    batch = {
        **draw(_origins("none")),
        **{name: draw(_from(0, name)) for name in _PRODUCER},
        "baseSequence": -1,
        "isTransactional": True,
        "isControlBatch": True,
    }
    return dict(_whole("RECORD_BATCH", build({**batch, "records": [marker]})))


def control_batches() -> SearchStrategy[Values]:
    """Batches of one control record, the marker that ends a transaction. Shrinks to ABORT, every other number 0."""
    return _named("control_batches", _anywhere(_markers()))


@cache
def _small_batches() -> SearchStrategy[Values]:
    return _gapped(None, (0, 8)) | _batches(None, (1, 8)) | _markers()


@st.composite
def _logs(draw: DrawFn, sizes: _Sizes) -> Values:
    gaps, at, placed = _integers(INT32, 0, _GAP), draw(_integers(INT64, 0, 1 << 62)), []
    for batch in draw(st.lists(_small_batches(), min_size=sizes[0], max_size=sizes[1])):
        at += draw(gaps)
        placed.append(_moved(batch, at))
        at += batch["lastOffsetDelta"] + 1
    return {"batches": tuple(placed), "partial": 0}


@_of("LOG")
def logs(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[Values]:
    """Values of the type LOG: so many batches of every kind, their offsets rising, none cut off. Shrinks to none."""
    sizes = _sizes(min_size, max_size)
    return _named("logs", _logs(sizes), min_size=min_size or None, max_size=max_size)


# --- messages of magic 0 and 1 ------------------------------------------------------------------------


@st.composite
def _message_sets(draw: DrawFn, sizes: _Sizes) -> tuple[Values, ...]:
    magic, at, placed = draw(st.sampled_from(tuple(LAYOUTS))), draw(_integers(INT64, 0, 1 << 62)), []
    contents = st.none() | st.binary(max_size=_SMALL)
    timed: dict[str, SearchStrategy[Any]] = {
        "timestamp": _integers(INT64, -1),
        "timestampType": st.sampled_from((0, 1)),
    }
    fields = st.fixed_dictionaries({"key": contents, "value": contents, **(timed if magic else {})})
    for message in draw(st.lists(fields, min_size=sizes[0], max_size=sizes[1])):
        at += draw(st.integers(0, _GAP))
        placed.append({"offset": at, "magic": magic, **message})
        at += 1
    return tuple(placed)


@_of("MESSAGE_SET")
def message_sets(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[tuple[Values, ...]]:
    """Values of the type MESSAGE_SET: messages of one magic, each on its own, their offsets rising. Shrinks to none."""
    sizes = _sizes(min_size, max_size)
    return _named("message_sets", _message_sets(sizes), min_size=min_size or None, max_size=max_size)


# --- any type -----------------------------------------------------------------------------------------


def from_type(name: str) -> SearchStrategy[Any]:
    """The strategy of the type called `name`, arrays included (`ARRAY<INT32>`); its repr shows which it is.

    Arrays of anything but numbers and sized contents are kept short. Raises UnknownType, a ValueError.
    """
    _row(name)
    form, _, rest = name.partition("<")
    if not rest:
        return _FOR_TYPE[name]()
    flat = isinstance(wire(rest[:-1]).notation, n.Notation)
    return _FOR_TYPE[form](from_type(rest[:-1]), max_size=None if flat else 8)


def encoded(name: str, *, values: SearchStrategy[T] | None = None) -> SearchStrategy[tuple[T, bytes]]:
    """Values of a type (or of a strategy for it) beside their bytes, gaps kept. They shrink as the values do."""
    row, given = _row(name), from_type(name) if values is None else _strategy("values", values)
    return _named("encoded", given.map(lambda value: (value, row.encode(value))), name, values=values)


class _Drawn(Dice):
    """Dice whose choices are Hypothesis' own, so that what they lead to shrinks."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1))

    def octets(self, count: int) -> bytes:
        return self._draw(st.binary(min_size=count, max_size=count))


@st.composite
def _damaged(draw: DrawFn, pairs: SearchStrategy[tuple[Any, bytes]], name: str) -> bytes:
    data, dice = draw(pairs)[1], _Drawn(draw)
    for _ in range(draw(st.integers(1, 2))):
        data = mutate(name, data, dice)[0]
    return data


def hostile(name: str, *, values: SearchStrategy[Any] | None = None) -> SearchStrategy[bytes]:
    """Bytes near valid ones of a type: one or two mutations of `conformance.strategies.mutations` done to an encoding.

    Overlong varints, lengths and counts that lie, nulls where there are none, cuts, doubles, flipped bits, with the
    lengths and checksums around them made right or not. Some of them are valid still, or open: the reference says.
    """
    return _named("hostile", _damaged(encoded(name, values=values), name), name, values=values)
