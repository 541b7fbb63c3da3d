"""Strategies of records, headers and record batches."""

from __future__ import annotations

from functools import cache, partial
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conformance.codec.builders import NO_PRODUCER
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.control_record import CONTROL_RECORD, CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.primitives import INT16, INT32, INT64, VARINT, VARLONG
from conformance.codec.record import HEADER_LAYOUT, RECORD_LAYOUT
from conformance.codec.record_batch import BATCH_LAYOUT, TIMESTAMP_TYPES, build
from conformance.codec.wire_type import WireType
from conformance.strategies.hypothesis.building import (
    LONGEST,
    SMALL,
    Sizes,
    codec_given,
    fields_of,
    integers,
    named,
    plain_values,
    sizes_given,
    strategy_of,
    tuples,
    whole,
)

# --- records ------------------------------------------------------------------------------------------


def headers(*, max_size: int | None = None) -> SearchStrategy[Values]:
    """Generate single headers of a record: `key`, never null and without U+0000, and `value`, both limited in bytes.

    Shrinks to an empty key with null.
    """
    longest = sizes_given(0, max_size)[1]
    return named("headers", _headers(LONGEST if longest is None else longest), max_size=max_size)


@cache
def _headers(longest: int) -> SearchStrategy[Values]:
    return fields_of(HEADER_LAYOUT, longest=longest, nul=False)


_COUNTS = (63, 64, 65)
"""Counts around the step where a VARINT (a header count, an offset delta) takes a second byte."""


@strategy_of("RECORD")
def records() -> SearchStrategy[Values]:
    """Generate values of the type RECORD: one record outside of a batch, with any deltas and attributes 0.

    Shrinks to deltas of 0, null key and value, no headers.
    """
    free = fields_of(
        RECORD_LAYOUT,
        attributes=st.just(0),
        offsetDelta=integers(VARINT, 0),
        headers=tuples(_headers(SMALL), (0, None), _COUNTS),
    )
    return named("records", free.map(partial(whole, "RECORD")))


@cache
def _choices() -> SearchStrategy[Values]:
    """Generate an application's choices for a record: small contents, and a time."""
    row = {field.name: field.wire for field in RECORD_LAYOUT.fields if type(field.wire) is WireType}
    return st.fixed_dictionaries(
        {
            "timestamp": _from(-1, "baseTimestamp"),
            "key": plain_values(row["key"], longest=SMALL),
            "value": plain_values(row["value"], longest=SMALL),
            "headers": st.lists(_headers(SMALL), max_size=4).map(tuple),
        }
    )


@strategy_of("CONTROL_RECORD")
def control_records() -> SearchStrategy[Values]:
    """Generate values of the type CONTROL_RECORD: transaction markers in version 0. Shrinks to ABORT."""
    markers = st.sampled_from([CONTROL_TYPES.index(name) for name in ("ABORT", "COMMIT")])
    return named("control_records", st.fixed_dictionaries({"version": st.just(0), "type": markers}))


# --- batches ------------------------------------------------------------------------------------------

_BATCH = {field.name: field.wire for field in BATCH_LAYOUT.fields if type(field.wire) is WireType}
PRODUCER = ("producerId", "producerEpoch", "baseSequence")


def _from(low: int, field: str) -> SearchStrategy[int]:
    """Generate values of a field of a batch, from a number upwards."""
    return integers(_BATCH[field], low)


@cache
def _producers() -> SearchStrategy[Values]:
    """Generate id, epoch and sequence of no producer, of an idempotent or of a transactional one."""
    no_producer: Values = {**NO_PRODUCER, "isTransactional": False}
    known: dict[str, SearchStrategy[Any]] = {name: _from(0, name) for name in PRODUCER}
    return st.just(no_producer) | st.fixed_dictionaries({**known, "isTransactional": st.booleans()})


@cache
def _origins(codec: str | None) -> SearchStrategy[Values]:
    """Generate the fields of a batch at offset 0 that do not depend on its records."""
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
    """Limit the timestamp so that its delta is an INT64: from the base -1 the largest timestamp is too far."""
    return {**record, "timestamp": min(record["timestamp"], origin + max(VARLONG.edges))}


def moved(batch: Values, base: int) -> Values:
    """Move a batch at offset 0 to another offset; no other byte depends on it."""
    placed = tuple({**record, "offset": base + record["offsetDelta"]} for record in batch["records"])
    return {**batch, "baseOffset": base, "records": placed}


@st.composite
def _anywhere(draw: DrawFn, batches: SearchStrategy[Values]) -> Values:
    """Generate batches at any base offset with room for the offset after their last."""
    batch = draw(batches)
    return moved(batch, draw(integers(INT64, 0, max(INT64.edges) - 1 - batch["lastOffsetDelta"])))


@st.composite
def written(draw: DrawFn, codec: str | None, sizes: Sizes) -> Values:
    """Generate batches at offset 0 as they are first written."""
    batch = draw(_origins(codec))
    chosen = draw(tuples(_choices(), sizes, _COUNTS))
    origin = chosen[0]["timestamp"]
    placed = [{**_timed(record, origin), "offset": index} for index, record in enumerate(chosen)]
    if batch["timestampType"]:
        # The broker's time replaces the producers' times of all records, which an application therefore cannot see.
        placed = [{**record, "timestamp": origin} for record in placed]
    return dict(whole("RECORD_BATCH", build({**batch, "records": placed})))


@strategy_of("RECORD_BATCH")
def record_batches(
    *, codec: str | None = None, min_size: int = 1, max_size: int | None = None
) -> SearchStrategy[Values]:
    """Generate values of the type RECORD_BATCH as they are first written, in one codec (by name) or in any.

    They have min_size to max_size records, at least one, with consecutive offsets. Shrinks to one record without
    content, uncompressed, without a producer, every other number 0.
    """
    sizes = sizes_given(min_size, max_size)
    if min_size == 0:
        raise ValueError("min_size must be 1 or more, because a batch is written with records")
    shown = {"codec": codec, "min_size": None if min_size == 1 else min_size, "max_size": max_size}
    return named("record_batches", _anywhere(written(codec_given(codec), sizes)), **shown)


GAP = 1 << 24


@st.composite
def _gapped(draw: DrawFn, codec: str | None, sizes: Sizes) -> Values:
    batch, gaps = draw(_origins(codec)), integers(INT32, 0, GAP)
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
        "hasDeleteHorizonMs": draw(st.booleans()) and origin >= 0,  # always drawn: -1 can then shrink to 0
        "records": placed,
    }
    return dict(whole("RECORD_BATCH", {**batch, **left}))


def gapped_batches(
    *, codec: str | None = None, min_size: int = 0, max_size: int | None = None
) -> SearchStrategy[Values]:
    """Generate batches after compaction, with gaps in the offsets (before, between, after records) or without records.

    Values of the type RECORD_BATCH that an application cannot request (`codec.encode` closes the gaps, `encoded` and
    `codec.wire` keep them). Shrinks to no record, uncompressed, without a producer, every other number 0.
    """
    sizes = sizes_given(min_size, 64 if max_size is None else max_size, 64)
    shown = {"codec": codec, "min_size": min_size or None, "max_size": max_size}
    return named("gapped_batches", _anywhere(_gapped(codec_given(codec), sizes)), **shown)


@st.composite
def markers(draw: DrawFn) -> Values:
    """Generate batches at offset 0 with the marker that ends a transaction."""
    key = CONTROL_RECORD.encode(draw(control_records()))
    end = INT16.encode(0) + INT32.encode(draw(integers(INT32, 0)))
    marker = {"offset": 0, "timestamp": draw(_from(0, "baseTimestamp")), "key": key, "value": end, "headers": ()}
    batch = {
        **draw(_origins("none")),
        **{name: draw(_from(0, name)) for name in PRODUCER},
        "baseSequence": -1,
        "isTransactional": True,
        "isControlBatch": True,
    }
    return dict(whole("RECORD_BATCH", build({**batch, "records": [marker]})))


def control_batches() -> SearchStrategy[Values]:
    """Generate batches of one marker that ends a transaction. Shrinks to ABORT, every other number 0."""
    return named("control_batches", _anywhere(markers()))


@cache
def small_batches() -> SearchStrategy[Values]:
    """Generate small batches of every kind at offset 0; compacted ones are first, because they shrink the most."""
    return _gapped(None, (0, 8)) | written(None, (1, 8)) | markers()
