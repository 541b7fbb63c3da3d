"""The covering set of fetches: an entry of each kind, and entries or damage around it that may hide it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from conformance.catalog.pairwise import entries
from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.catalog.pairwise.entries import (
    CONTENTS,
    EPOCH,
    HEADERS,
    MARKER_TYPES,
    MARKER_VALUES,
    headers,
)
from conformance.codec.builders import START_MS, batch_bytes, message_bytes, wrapper_bytes
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.control_record import CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import BATCH_LAYOUT, TIMESTAMP_TYPES
from conformance.semantics.consumer_view import ISOLATIONS, READ_COMMITTED
from conformance.semantics.partition_log import compact_batch

# --- factors ------------------------------------------------------------------------------------------

_MARKERS = tuple(f"{name} marker" for name in MARKER_TYPES)
_CLEANED = ("cleaned", "aborted and cleaned")
_WITH_RECORDS = ("plain", "committed", "aborted", *_CLEANED)
_EMPTY_PAYLOAD = "a payload of no records"
_WITHOUT_RECORDS = ("emptied", "emptied in a transaction", _EMPTY_PAYLOAD)
_EMPTIED_MARKER = "emptied marker"
_NONE = "absent"
_BASES = {"0": 0, "5": 5, "beyond 2^40": (1 << 40) + 3}
_FETCH_AT = {"its first offset": 0, "inside": 1, "after its records": 2, "below it": -3}
"""The fetch offset, relative to the entry's first offset. A cleaned batch keeps the second of three records."""
_FRONT, _INSIDE, _LAST, _BELOW = _FETCH_AT
_COUNT = 3
"""The number of records in an entry that is not a marker or a single message."""
_OLD_ENTRIES = {"message of magic 0": 0, "message of magic 1": 1, "wrapper of magic 0": 0, "wrapper of magic 1": 1}
_CREATED, _APPENDED, _UNTIMED = *TIMESTAMP_TYPES, "-1"
_NO_CONTENT = {"key": (_NONE,), "value": (_NONE,), "headers": (_NONE,)}
_ANY_CONTENT = {"key": tuple(CONTENTS), "value": tuple(CONTENTS), "headers": tuple(HEADERS)}
_DAMAGE_AFTER = ("checksum after", "record after", "length after")
_DAMAGE = ("none", "cut tail", "checksum", "record", *_DAMAGE_AFTER)


def _kinds(kinds: tuple[str, ...], then: dict[str, tuple[str, ...]], why: str) -> Iterator[Constraint]:
    return (Constraint(("kind", kind), then, why) for kind in kinds)


def _old_entries(words: str, then: dict[str, tuple[str, ...]], why: str) -> Iterator[Constraint]:
    return (Constraint(("entry", name), then, why) for name in _OLD_ENTRIES if words in name)


TABLE = FactorTable(
    {
        "entry": ("batch", *_OLD_ENTRIES),
        "kind": (*_WITH_RECORDS, *_MARKERS, *_WITHOUT_RECORDS, _EMPTIED_MARKER),
        "key": (*CONTENTS, _NONE),
        "value": (*CONTENTS, _NONE),
        "headers": (*HEADERS, _NONE),
        "marker value": (*MARKER_VALUES, _NONE),
        "codec": CODEC_NAMES,
        "timestamps": (_CREATED, _APPENDED, _UNTIMED),
        "isolation": ISOLATIONS,
        "fetch at": tuple(_FETCH_AT),
        "after it": ("nothing", "plain", "a commit", "an abort", "two others", "its own next transaction"),
        "damage": _DAMAGE,
        "marker's epoch": ("the same", "raised"),
        "checkCrcs": ("true", "false"),
        "base": tuple(_BASES),
    },
    (
        *_kinds(
            _MARKERS,
            {
                **_NO_CONTENT,
                "marker value": tuple(MARKER_VALUES),
                "codec": ("none",),
                "timestamps": (_CREATED, _APPENDED),
            },
            "a marker is the only record of a plain batch, with the key and time of a broker",
        ),
        *_kinds((*_MARKERS, _EMPTIED_MARKER), {"fetch at": (_FRONT, _BELOW)}, "a marker has one offset"),
        *_kinds((*_WITHOUT_RECORDS, _EMPTIED_MARKER), {**_NO_CONTENT, "marker value": (_NONE,)}, "it has no record"),
        *_kinds(
            (*_WITHOUT_RECORDS, _EMPTIED_MARKER),
            {"timestamps": (_UNTIMED,), "damage": tuple(place for place in _DAMAGE if place != "record")},
            "it has no record, so no record has a time or damage",
        ),
        *_kinds(("emptied", "emptied in a transaction", _EMPTIED_MARKER), {"codec": ("none",)}, "it has no payload"),
        *_kinds(_WITH_RECORDS, {**_ANY_CONTENT, "marker value": (_NONE,)}, "it has records and no marker"),
        *_kinds(
            tuple(kind for kind in (*_WITH_RECORDS, *_WITHOUT_RECORDS) if kind not in _CLEANED),
            {"fetch at": (_FRONT, _INSIDE, _BELOW)},
            "only a cleaned batch has an offset after its last record",
        ),
        *_old_entries("magic", {"kind": ("plain",), "headers": ("none",)}, "messages of magic 0 and 1 are plain"),
        *_old_entries(
            "message of", {"codec": ("none",), "fetch at": (_FRONT, _BELOW)}, "a message has one offset, no codec"
        ),
        *_old_entries(
            "wrapper", {"codec": ("gzip", "snappy", "lz4")}, "a wrapper has a codec, and it is older than zstd"
        ),
        *_old_entries("magic 0", {"timestamps": (_UNTIMED,)}, "magic 0 has no timestamps"),
        Constraint(("entry", "wrapper of magic 0"), {"codec": ("gzip", "snappy")}, "magic 0 has no lz4"),
        Constraint(
            ("after it", "nothing"),
            {"damage": tuple(place for place in _DAMAGE if place not in _DAMAGE_AFTER)},
            "no batch follows that could be damaged",
        ),
        Constraint(("base", "0"), {"fetch at": (_FRONT, _INSIDE, _LAST)}, "there is no offset below 0"),
    ),
    {"damage": _DAMAGE[1:], "kind": (*_MARKERS[2:], _EMPTY_PAYLOAD), "checkCrcs": ("false",)},
)

# --- logs ---------------------------------------------------------------------------------------------

_PRODUCER, _SECOND_PRODUCER, _THIRD_PRODUCER = 7, (1 << 40) + 1, 9
"""The ids of producers."""
_ABORT, _COMMIT = CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")
_CUT_SIZE = 30
"""The size in bytes of the cut entry at the end of a fetch."""


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield a fetch of the row's log."""
    del number
    log = _FetchLogBuilder(row, _BASES[row["base"]])
    log.grow()
    fetch = log.base + _FETCH_AT[row["fetch at"]]
    committed = row["isolation"] == READ_COMMITTED
    yield RowRequest(
        *("", "read", "LOG"),
        {
            "hex": log.data.hex(),
            "isolation": row["isolation"],
            "fetchOffset": str(max(0, fetch)),
            "highWatermark": str(log.end),
            "aborted": [{"producerId": str(one), "firstOffset": str(first)} for one, first in log.aborted if committed],
            **({} if row["checkCrcs"] == "true" else {"checkCrcs": False}),
        },
    )


class _FetchLogBuilder(Struct):
    """Builds the log of a row."""

    row: Row
    base: int
    data: bytes = b""
    end: int = 0
    """The offset after its last entry."""
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """Producer and first offset of the aborted transactions."""

    def grow(self) -> None:
        """Add the tested entry, the entries after it, and the end."""
        kind, after = self.row["kind"], self.row["after it"]
        self.data += self._first()
        self.end = self.base + (1 if "marker" in kind or "message" in self.row["entry"] else _COUNT)
        others = _OTHER_TRANSACTIONS[after]
        first_offsets = [self._begin(producer) for producer, _ in others]
        if kind in _END_MARKER:
            self._end_transaction(_PRODUCER, _END_MARKER[kind], self.base)
        for (producer, marker), first in zip(others, first_offsets, strict=True):
            self._end_transaction(producer, marker, first)
        if after == "its own next transaction":
            self._end_transaction(_PRODUCER, _COMMIT, self._begin(_PRODUCER))
        if after != "nothing":
            self._add(self._last())
        if self.row["damage"] == "cut tail":
            self.data += batch_bytes(entries.batch(self.end, [{}]))[:_CUT_SIZE]

    def _add(self, data: bytes, offsets: int = 1) -> None:
        self.data, self.end = self.data + data, self.end + offsets

    def _begin(self, producer: int) -> int:
        """Add the first batch of a transaction; return its offset."""
        fields = entries.of_producer(producer, _COUNT if producer == _PRODUCER else 0)
        self._add(batch_bytes(entries.batch(self.end, [{}], **fields)))
        return self.end - 1

    def _end_transaction(self, producer: int, marker: int, first: int) -> None:
        epoch = EPOCH + (self.row["marker's epoch"] == "raised")
        self._add(batch_bytes(entries.marker(self.end, marker, producer, epoch=epoch)))
        if marker == _ABORT:
            self.aborted.append((producer, first))

    def _last(self) -> bytes:
        """Return the plain batch at the end, damaged in some rows."""
        damage, values = self.row["damage"], entries.batch(self.end, [{"key": None}])
        data = batch_bytes(values, damaged=damage == "record after", sealed=damage != "checksum after")
        return BATCH_LAYOUT.with_field("batchLength", data, _CUT_SIZE) if damage == "length after" else data

    def _first(self) -> bytes:
        """Return the tested entry."""
        faults = {"damaged": self.row["damage"] == "record", "sealed": self.row["damage"] != "checksum"}
        if self.row["entry"] == "batch":
            return batch_bytes(self._batch(), **faults)
        magic, is_wrapper = _OLD_ENTRIES[self.row["entry"]], "wrapper" in self.row["entry"]
        stamp, kind = self._time()
        messages = [
            {"offset": index, "magic": magic, "timestamp": stamp, **self._content()}
            for index in range(_COUNT if is_wrapper else 1)
        ]
        outer = {"magic": magic, "timestamp": stamp, "timestampType": kind}
        if not is_wrapper:
            return message_bytes({**messages[0], **outer, "offset": self.base}, **faults)
        if magic == 0:
            messages = [{**one, "offset": self.base + one["offset"]} for one in messages]
        codec = CODEC_NAMES.index(self.row["codec"])
        return wrapper_bytes(messages, {**outer, "offset": self.base + _COUNT - 1}, codec, **faults)

    def _content(self) -> Values:
        return {"key": CONTENTS[self.row["key"]], "value": CONTENTS[self.row["value"]]}

    def _time(self) -> tuple[int, int]:
        """Return the timestamp and its type."""
        return -1 if self.row["timestamps"] == _UNTIMED else START_MS, int(self.row["timestamps"] == _APPENDED)

    def _batch(self) -> Values:
        kind, (stamp, of_append) = self.row["kind"], self._time()
        if kind in _MARKERS:
            return self._marker(MARKER_TYPES[kind.removesuffix(" marker")], of_append)
        if kind == _EMPTIED_MARKER:
            return compact_batch(entries.marker(self.base, _COMMIT, _PRODUCER), ())
        content: Values = {"timestamp": stamp}
        if kind in _WITH_RECORDS:
            content |= {**self._content(), "headers": headers(self.row["headers"])}
        fields: Values = entries.of_producer(_PRODUCER) if kind in _END_MARKER else {}
        codec = CODEC_NAMES.index(self.row["codec"])
        values = entries.batch(self.base, [content] * _COUNT, **fields, compression=codec, timestampType=of_append)
        if kind in (*_CLEANED, *_WITHOUT_RECORDS):
            values = compact_batch(values, {self.base + 1} if kind in _CLEANED else ())
        return {**values, "compression": codec}

    def _marker(self, kind: int, of_append: int) -> Values:
        """Return a marker as the tested entry. The transaction of an ABORT began before it."""
        if kind == _ABORT and self.base:
            self.aborted.append((_PRODUCER, self.base - 1))
        value = MARKER_VALUES[self.row["marker value"]]
        epoch = EPOCH + (self.row["marker's epoch"] == "raised")
        producer = _PRODUCER if kind in (_ABORT, _COMMIT) else -1
        marker = entries.marker(self.base, kind, producer, epoch=epoch if producer >= 0 else -1, value=value)
        if producer < 0:
            marker = {**marker, "isTransactional": False}
        return {**marker, "timestampType": of_append}


_END_MARKER = {"committed": _COMMIT, **dict.fromkeys(("aborted", _CLEANED[1], "emptied in a transaction"), _ABORT)}
"""The marker that ends the transaction of a batch of this kind."""

_OTHER_TRANSACTIONS: dict[str, tuple[tuple[int, int], ...]] = {
    "nothing": (),
    "plain": (),
    "its own next transaction": (),
    "a commit": ((_SECOND_PRODUCER, _COMMIT),),
    "an abort": ((_SECOND_PRODUCER, _ABORT),),
    "two others": ((_SECOND_PRODUCER, _ABORT), (_THIRD_PRODUCER, _COMMIT)),
}
"""Producers and end markers of transactions that begin after the tested entry and end after its own transaction."""
