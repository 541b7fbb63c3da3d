"""Pairwise faults: a reader or writer handles each of two properties correctly, but not both together.

Real releases had such faults. Each is a pair of rows: a property of a batch, wrapper, fetch or marker, and a mutation
of a record that applies only there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from conformance.cases.model import Answer, Request
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator, combine, encode_other_value, on, replace_function
from conformance.selftest.mutators.batches import batch_fields, last_of_each_key
from conformance.selftest.mutators.logs import (
    Log,
    by_offset,
    change_fetch,
    consumed_record,
    end_of,
    entries_of,
    is_batch,
    records_of,
)
from conformance.selftest.seeded_fault import SeededFault


class RecordMutation(Struct, frozen=True):
    """A wrong part of a record, and the requirement that it breaks."""

    description: str
    requirement: str
    change: Callable[[Values], Values]
    """From a record in notation to the fields that differ."""

    def of(self, records: list[Values]) -> list[Values]:
        """Return the records with this mutation."""
        return [{**one, **self.change(one)} for one in records]

    def at(self, records: list[Values], offsets: Container[str]) -> list[Values]:
        """Return the records with this mutation at some offsets."""
        return [{**one, **self.change(one)} if one["offset"] in offsets else one for one in records]


Predicate = Callable[[Values], bool]
Properties = Mapping[str, tuple[str, Callable[..., bool]]]
"""From a name to a description and a test."""


def _replace(name: str, value: object, other: object) -> Callable[[Values], Values]:
    return lambda one: {name: other} if one[name] == value else {}


def _headers(change: Callable[[list[Values]], list[Values]]) -> Callable[[Values], Values]:
    return lambda one: {"headers": change(one["headers"])} if one.get("headers") else {}


CONTENT_MUTATIONS: dict[str, RecordMutation] = {
    "null-key": RecordMutation(
        "shows an empty key for null", "record.key-absent-when-negative", _replace("key", None, "")
    ),
    "empty-key": RecordMutation("shows null for an empty key", "record.key-length", _replace("key", "", None)),
    "null-value": RecordMutation(
        "shows an empty value for null", "record.value-absent-when-negative", _replace("value", None, "")
    ),
    "empty-value": RecordMutation("shows null for an empty value", "record.value-length", _replace("value", "", None)),
    "long-value": RecordMutation(
        "takes one byte for the length of a value, and loses one of 64 bytes or more",
        "record.value-length",
        lambda one: {"value": one["value"][:-2]} if len(one["value"] or "") > 126 else {},
    ),
}
"""Mutations of a record or a message."""

RECORD_MUTATIONS = CONTENT_MUTATIONS | {
    "headers": RecordMutation("leaves the headers out", "record.headers-count", _headers(lambda _: [])),
    "second-header": RecordMutation(
        "shows the first header alone", "record.headers-follow-count", _headers(lambda headers: headers[:1])
    ),
    "same-header": RecordMutation(
        "keeps the last of the headers with one key",
        "header.duplicate-keys-kept",
        _headers(last_of_each_key),
    ),
    "null-header": RecordMutation(
        "shows an empty header value for null",
        "header.value-absent-when-negative",
        _headers(lambda headers: [{**one, "value": one["value"] or ""} for one in headers]),
    ),
    "empty-header": RecordMutation(
        "shows null for an empty header value",
        "header.value-length",
        _headers(lambda headers: [{**one, "value": one["value"] or None} for one in headers]),
    ),
}
"""Mutations of a record."""


def _pairs(
    place: str,
    area: str,
    subject: str,
    properties: Properties,
    mutations: Mapping[str, RecordMutation],
    mutator: Callable[[Callable[..., bool], RecordMutation], Mutator],
    *,
    own_cases_first: bool = True,
) -> Iterator[SeededFault]:
    """Return a fault for each pair of a property and a mutation."""
    for name, (text, test) in properties.items():
        for key, mutation in mutations.items():
            yield SeededFault(
                f"pair/{key}-{place}-{name}",
                area,
                f"{subject} {mutation.description}, in {text} alone",
                mutation.requirement,
                mutator(test, mutation),
                (mutation.requirement,) if own_cases_first else (),
            )


# --- batches ------------------------------------------------------------------------------------------


def _codec(codec: str | int) -> Predicate:
    return lambda one: bool(one["compression"] == codec)


BATCHES: Properties = {
    "transactional": ("a transactional batch", lambda one: one["isTransactional"]),
    "idempotent": ("an idempotent batch", lambda one: int(one["producerId"]) >= 0 and not one["isTransactional"]),
    **{name: (f"a batch in {name}", _codec(name)) for name in ("gzip", "snappy", "lz4", "zstd")},
    "append-time": ("a batch with LogAppendTime", lambda one: one["timestampType"] == "LogAppendTime"),
    "delete-horizon": ("a batch with a delete horizon", lambda one: one["hasDeleteHorizonMs"]),
    "far-offset": ("a batch at an offset beyond 32 bits", lambda one: int(one["baseOffset"]) >= 1 << 32),
    "gaps": ("a batch with offsets gone", lambda one: one["recordCount"] <= one["lastOffsetDelta"]),
    "single": ("a batch of one record", lambda one: one["recordCount"] == 1),
    "without-epoch": ("a batch without a leader epoch", lambda one: one["partitionLeaderEpoch"] == -1),
}


def _in_batches(test: Predicate, mutation: RecordMutation) -> Mutator:
    """Mutate the records of such batches when they are decoded or fetched."""

    def decoded(batch: Values) -> Values:
        applies = "records" in batch and not batch["isControlBatch"] and test(batch)
        return {"records": mutation.of(batch["records"])} if applies else {}

    return combine(batch_fields(decoded), _fetched(mutation, lambda _, log, at: is_batch(log[at]) and test(log[at])))


Place = Callable[[Request, Log, int], bool]
"""A test of an entry, given the request, the log and the index."""


def _fetched(mutation: RecordMutation, place: Place) -> Mutator:
    """Mutate the fetched records of the entries that pass a test."""

    def change(request: Request, seen: Values, log: Log) -> Values:
        offsets = {
            one["offset"] for at, entry in enumerate(log) if place(request, log, at) for one in records_of(entry)
        }
        return {"records": mutation.at(seen["records"], offsets)}

    return change_fetch(change)


# --- writers ------------------------------------------------------------------------------------------

WRITTEN: Properties = {name: BATCHES[name] for name in ("gzip", "snappy", "lz4", "zstd")} | {
    "transactional": BATCHES["transactional"],
    "idempotent": BATCHES["idempotent"],
    "plain": ("a batch without a producer", lambda one: int(one["producerId"]) < 0 and one["compression"] == "none"),
}
_WRITER_MUTATIONS = {
    key: replace(one, description=one.description.replace("shows", "writes")) for key, one in RECORD_MUTATIONS.items()
}


def _in_written_batches(test: Predicate, mutation: RecordMutation) -> Mutator:
    return encode_other_value(
        "RECORD_BATCH",
        lambda value: {**value, "records": mutation.of(value["records"])} if test(value) else value,
    )


# --- message sets -------------------------------------------------------------------------------------


def _set(magic: int, codec: str, *, log_append: bool = False) -> Predicate:
    def test(entry: Values) -> bool:
        kind = entry["messages"][0].get("timestampType") if entry["messages"] else None
        matches = entry["magic"] == magic and entry["compression"] == codec
        return matches and (not log_append or kind == "LogAppendTime")

    return test


SETS: Properties = {
    **{
        f"{codec}-wrapper-of-magic-{magic}": (f"a {codec} wrapper of magic {magic}", _set(magic, codec))
        for magic in (0, 1)
        for codec in ("gzip", "snappy", "lz4")
    },
    "message-of-magic-0": ("a plain message of magic 0", _set(0, "none")),
    "message-of-magic-1": ("a plain message of magic 1", _set(1, "none")),
    "late-message": ("a plain message with LogAppendTime", _set(1, "none", log_append=True)),
    "late-wrapper": ("a gzip wrapper with LogAppendTime", _set(1, "gzip", log_append=True)),
}
_MESSAGE_REQUIREMENTS = {"null-key": "legacy.key-nullable", "null-value": "legacy.value-nullable"}
_MESSAGE_MUTATIONS = {
    key: replace(one, requirement=_MESSAGE_REQUIREMENTS.get(key, "message-set.entry-layout"))
    for key, one in CONTENT_MUTATIONS.items()
}


def _in_sets(test: Predicate, mutation: RecordMutation) -> Mutator:
    """Mutate the messages of such entries when they are decoded or fetched."""

    @on("decode", "MESSAGE_SET")
    def decoded(request: Request, answer: Answer) -> Answer:
        entries = (entry for entry in entries_of(request["hex"]) if not is_batch(entry) and test(entry))
        offsets = {one["offset"] for entry in entries for one in entry["messages"]}
        return {**answer, "value": mutation.at(answer["value"], offsets)}

    return combine(decoded, _fetched(mutation, lambda _, log, at: not is_batch(log[at]) and test(log[at])))


# --- fetches ------------------------------------------------------------------------------------------


def _after(test: Predicate) -> Place:
    return lambda _, log, at: at > 0 and test(log[at - 1])


def _has_fetch_offset(request: Request, log: Log, at: int) -> bool:
    first = int((records_of(log[at]) or [{"offset": "0"}])[0]["offset"])
    return first < int(request["fetchOffset"]) < end_of(log[at])


def _is_interleaved(_: Request, log: Log, at: int) -> bool:
    producers = [one["producerId"] for one in log[:at] if is_batch(one)]
    return is_batch(log[at]) and any(one not in ("-1", log[at]["producerId"]) for one in producers)


FETCH_PROPERTIES: dict[str, tuple[str, Place]] = {
    "committed": ("a fetch under read_committed", lambda request, _, __: request["isolation"] == "read_committed"),
    "aborts-listed": ("a fetch with aborted transactions", lambda request, _, __: bool(request["aborted"])),
    "fetch-inside": ("the entry that holds the fetch offset", _has_fetch_offset),
    "after-marker": ("an entry behind a marker", _after(lambda one: bool(one.get("isControlBatch")))),
    "after-emptied": ("an entry behind an emptied batch", _after(lambda one: is_batch(one) and not one["records"])),
    "after-message": ("an entry behind an older message", _after(lambda one: not is_batch(one))),
    "after-compressed": ("an entry behind a compressed one", _after(lambda one: one["compression"] != "none")),
    "after-another-producer": ("a batch behind one of another producer", _is_interleaved),
    "third": ("the third entry and later ones", lambda _, __, at: at > 1),
}

_APPEND_TIME = RecordMutation(
    "shows CreateTime for LogAppendTime",
    "timestamp.log-append-overwritten",
    _replace("timestampType", "LogAppendTime", "CreateTime"),
)
_FETCHED = {name: RECORD_MUTATIONS[name] for name in (*CONTENT_MUTATIONS, "headers", "null-header", "empty-header")} | {
    "append-time": _APPEND_TIME
}


# --- aborted transactions -----------------------------------------------------------------------------

ABORTED: Properties = {
    **{
        name: (f"compressed with {name}", _codec(CODEC_NAMES.index(name))) for name in ("gzip", "snappy", "lz4", "zstd")
    },
    "append-time": ("with LogAppendTime", lambda one: one["timestampType"] == 1),
    "gaps": ("with offsets gone", lambda one: len(one["records"]) <= one["lastOffsetDelta"]),
    "later-sequence": ("that is not the first of its transaction", lambda one: one["baseSequence"] > 0),
    "epoch": ("of a raised producer epoch", lambda one: one["producerEpoch"] > 0),
    "far-offset": ("beyond offset 2^32", lambda one: one["baseOffset"] >= 1 << 32),
    "producer-zero": ("of producer 0", lambda one: one["producerId"] == 0),
    "far-producer": ("of a producer id beyond 32 bits", lambda one: one["producerId"] >= 1 << 32),
    "headers": ("whose first record has headers", lambda one: bool(one["records"] and one["records"][0]["headers"])),
    "null-key": (
        "whose first record has no key",
        lambda one: bool(one["records"] and one["records"][0]["key"] is None),
    ),
    "delete-horizon": ("with a delete horizon", lambda one: one["hasDeleteHorizonMs"]),
}


def _shows_aborted(test: Predicate) -> Mutator:
    return replace_function(
        "semantics.consumer_view._AbortedTransactionFilter.is_aborted",
        lambda original, self, batch, at, remarks: original(self, batch, at, remarks) and not test(batch),
        "read",
    )


def _pairs_of_aborts() -> Iterator[SeededFault]:
    for name, (text, test) in ABORTED.items():
        requirement = "consumer.filters-aborted"
        description = f"a reader shows an aborted batch {text}"
        area = "meetings in transactions"
        yield SeededFault(
            f"pair/aborted-shown-{name}", area, description, requirement, _shows_aborted(test), (requirement,)
        )


# --- markers ------------------------------------------------------------------------------------------


def _value(test: Callable[[str | None], bool]) -> Predicate:
    return lambda one: bool(one["records"]) and test(one["records"][0]["value"])


def _type(number: int) -> Predicate:
    return lambda one: bool(one["records"]) and (one["records"][0]["key"] or "")[4:8] == f"{number:04x}"


MARKERS: Properties = {
    "emptied": ("that compaction emptied", lambda one: not one["records"]),
    "null-value": ("whose value is null", _value(lambda text: text is None)),
    "empty-value": ("whose value is empty", _value(lambda text: text == "")),
    "short-value": (
        "whose value is shorter than six bytes",
        _value(lambda text: text is not None and 0 < len(text) < 12),
    ),
    "long-value": ("whose value is longer than six bytes", _value(lambda text: len(text or "") > 12)),
    "value-version": ("whose value has another version", _value(lambda text: (text or "0000")[:4] != "0000")),
    "leader-change": ("of type LEADER_CHANGE", _type(2)),
    "snapshot-header": ("of type SNAPSHOT_HEADER", _type(3)),
    "kraft-version": ("of type KRAFT_VERSION", _type(5)),
    "unknown-type": ("of a type that it does not know", lambda one: not any(_type(number)(one) for number in range(7))),
    "append-time": ("with LogAppendTime", lambda one: one["timestampType"] == "LogAppendTime"),
    "without-producer": ("without a producer", lambda one: one["producerId"] == "-1"),
    "delete-horizon": ("with a delete horizon", lambda one: one["hasDeleteHorizonMs"]),
}
_ISOLATIONS = {"committed": "read_committed", "uncommitted": "read_uncommitted"}


def _markers(log: Log, test: Predicate) -> list[Values]:
    return [entry for entry in log if entry.get("isControlBatch") and test(entry)]


def _fails_at_marker(test: Predicate, isolation: str) -> Mutator:
    def change(request: Request, _: Values, log: Log) -> Values | None:
        return None if request["isolation"] == isolation and _markers(log, test) else {}

    return change_fetch(change)


def _shows_marker(test: Predicate, isolation: str) -> Mutator:
    """Return the records of such markers."""

    def change(request: Request, seen: Values, log: Log) -> Values:
        more = [
            {**consumed_record(record), "timestampType": entry["timestampType"]}
            for entry in _markers(log, test)
            for record in entry["records"]
            if int(record["offset"]) >= int(request["fetchOffset"])
        ]
        return {"records": by_offset([*seen["records"], *more])} if more and request["isolation"] == isolation else {}

    return change_fetch(change)


def _pairs_of_markers() -> Iterator[SeededFault]:
    for name, (text, test) in MARKERS.items():
        for key, isolation in _ISOLATIONS.items():
            yield SeededFault(
                f"pair/fails-at-marker-{name}-{key}",
                "meetings at markers",
                f"a consumer under {isolation} fails at a marker {text}",
                "control.value-opaque" if "value" in name else "consumer.handles-control-batches",
                _fails_at_marker(test, isolation),
            )
            if name != "emptied":
                yield SeededFault(
                    f"pair/shows-marker-{name}-{key}",
                    "meetings at markers",
                    f"a consumer under {isolation} hands out a marker {text}",
                    "control.not-passed-to-application",
                    _shows_marker(test, isolation),
                )


PAIRWISE_FAULTS = (
    *_pairs("in", "meetings in batches", "a reader", BATCHES, RECORD_MUTATIONS, _in_batches),
    *_pairs("written-in", "meetings in writers", "a writer", WRITTEN, _WRITER_MUTATIONS, _in_written_batches),
    *_pairs(*("in", "meetings in message sets", "a reader", SETS, _MESSAGE_MUTATIONS, _in_sets), own_cases_first=False),
    *_pairs(
        "at", "meetings in fetches", "a consumer", FETCH_PROPERTIES, _FETCHED, lambda place, one: _fetched(one, place)
    ),
    *_pairs_of_aborts(),
    *_pairs_of_markers(),
)
