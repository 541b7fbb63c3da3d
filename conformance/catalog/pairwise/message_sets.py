"""The covering set of message sets: wrappers and plain messages of magic 0 and 1, decoded and fetched."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.catalog.pairwise import entries
from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.catalog.pairwise.entries import CONTENTS
from conformance.codec.builders import START_MS, batch_bytes, message_bytes, with_attributes, wrapper_bytes
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.semantics.consumer_view import ISOLATIONS

_PLAIN = "none"
_ATTRIBUTES = {"zero": 0, "timestamp type": 1 << 3, "an unused bit": 1 << 5}
_INNER_TIMES = {"equal": 0, "rising": 10, "falling": -10, "-1": None}
_OUTER_TIMES = ("the largest", "-1", "later")
_ORIGINS = ("from 0", "from above 0", "absolute")
_COUNTS = {"one": 1, "two": 2, "many": 20}
_STEPS = {"without gaps": 1, "with gaps": 3}
_BASES = {"0": 0, "5": 5, "beyond 2^40": (1 << 40) + 3}
_CUT_SIZE = 20

TABLE = FactorTable(
    {
        "wrapper": (_PLAIN, "gzip", "snappy", "lz4"),
        "magic": ("1", "0"),
        "inner magic": ("the same", "the other"),
        "attributes": tuple(_ATTRIBUTES),
        "inner attributes": tuple(_ATTRIBUTES),
        "inner timestamps": tuple(_INNER_TIMES),
        "timestamp": _OUTER_TIMES,
        "inner offsets": _ORIGINS,
        "gaps": tuple(_STEPS),
        "messages": tuple(_COUNTS),
        "key": tuple(CONTENTS),
        "value": tuple(CONTENTS),
        "before it": ("nothing", "a message", "a wrapper"),
        "after it": ("nothing", "a message", "a cut message", "a batch"),
        "first offset": tuple(_BASES),
        "fetch at": ("the first", "inside", "the last"),
    },
    (
        Constraint(
            ("wrapper", _PLAIN),
            {
                "inner magic": ("the same",),
                "inner attributes": ("zero",),
                "timestamp": ("the largest",),
                "inner offsets": ("absolute",),
                "gaps": ("without gaps",),
                "messages": ("one",),
                "inner timestamps": ("equal", "-1"),
                "fetch at": ("the first",),
            },
            "a plain message has no messages inside",
        ),
        Constraint(
            ("magic", "0"),
            {
                "wrapper": (_PLAIN, "gzip", "snappy"),
                "attributes": ("zero", "an unused bit"),
                "timestamp": ("the largest",),
                "inner offsets": ("absolute",),
            },
            "magic 0 has no lz4, no timestamps and no relative offsets",
        ),
        Constraint(("first offset", "0"), {"inner offsets": ("from 0", "absolute")}, "there is no offset below 0"),
        Constraint(
            ("messages", "one"),
            {"fetch at": ("the first",), "inner timestamps": ("equal", "-1"), "gaps": ("without gaps",)},
            "one message has one offset and one time",
        ),
        Constraint(
            ("before it", "a wrapper"), {"fetch at": ("the first",)}, "a broker sends from the requested entry on"
        ),
        Constraint(
            ("before it", "a message"), {"fetch at": ("the first",)}, "a broker sends from the requested entry on"
        ),
    ),
    {
        "inner magic": ("the other",),
        "attributes": ("an unused bit",),
        "inner attributes": ("timestamp type", "an unused bit"),
        "after it": ("a cut message",),
    },
)


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield a decode request of the set, if it has no batch, and a fetch of it."""
    del number
    first = _BASES[row["first offset"]]
    before, start = _before(row, first), first + (2 if row["before it"] != "nothing" else 0)
    offsets = [start + _STEPS[row["gaps"]] * index for index in range(_COUNTS[row["messages"]])]
    data = before + _entry(row, offsets)
    after, end = row["after it"], offsets[-1] + 1
    if after == "a batch":
        data += batch_bytes(entries.batch(end, [{}]))
    elif after != "nothing":
        further = _message(1, end, START_MS)
        data += further[:_CUT_SIZE] if "cut" in after else further
    if after != "a batch":
        yield RowRequest("", "decode", "MESSAGE_SET", {"hex": data.hex()})
    at = {"the first": first, "inside": offsets[0] + 1, "the last": offsets[-1]}[row["fetch at"]]
    last = end + (after in ("a batch", "a message"))
    request = {"hex": data.hex(), "isolation": ISOLATIONS[0], "fetchOffset": str(at), "highWatermark": str(last)}
    yield RowRequest(":read", "read", "LOG", {**request, "aborted": []})


def _message(magic: int, offset: int, stamp: int) -> bytes:
    return message_bytes({**_fields(magic, offset, stamp), "key": b"k", "value": b"v"})


def _fields(magic: int, offset: int, stamp: int) -> Values:
    return {"magic": magic, "offset": offset, "timestamp": stamp}


def _before(row: Row, first: int) -> bytes:
    """Return two messages, or a wrapper of two, before the tested entry."""
    magic = int(row["magic"])
    if row["before it"] == "a message":
        return _message(magic, first, START_MS) + _message(magic, first + 1, START_MS)
    if row["before it"] == "nothing":
        return b""
    shift = 0 if magic else first
    inner = [{**_fields(magic, shift + at, START_MS), "key": None, "value": b"w"} for at in range(2)]
    return wrapper_bytes(inner, _fields(magic, first + 1, START_MS), CODEC_NAMES.index("gzip"))


def _entry(row: Row, offsets: list[int]) -> bytes:
    """Return the plain message or the wrapper under test."""
    magic = int(row["magic"])
    step = _INNER_TIMES[row["inner timestamps"]]
    stamps = [-1 if step is None else START_MS + step * at for at in range(len(offsets))]
    contents = {"key": CONTENTS[row["key"]], "value": CONTENTS[row["value"]]}
    bits = _ATTRIBUTES[row["attributes"]]
    if row["wrapper"] == _PLAIN:
        plain = message_bytes({**_fields(magic, offsets[0], stamps[0]), **contents})
        return with_attributes(plain, bits)
    inner_magic = magic if row["inner magic"] == "the same" else 1 - magic
    origin = {"from 0": offsets[0], "from above 0": max(0, offsets[0] - 2), "absolute": 0}[row["inner offsets"]]
    inner = [
        {**_fields(inner_magic, offset - origin, stamp), **contents}
        for offset, stamp in zip(offsets, stamps, strict=True)
    ]
    newest = {"the largest": max(stamps), "-1": -1, "later": max(stamps) + 5000}[row["timestamp"]]
    outer = _fields(magic, offsets[-1], newest)
    codec = CODEC_NAMES.index(row["wrapper"])
    whole = wrapper_bytes(inner, outer, codec, inner_bits=_ATTRIBUTES[row["inner attributes"]])
    return with_attributes(whole, bits)
