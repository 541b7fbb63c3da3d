"""Defects where two harmless properties meet: what a reader or writer does right with either, and wrong with both.

Held-out defects of real releases had this shape. Each is a pair of rows: a property of a batch, a wrapper, a fetch or a
marker, and a mistake with a part of a record, which is made there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.selftest.codec_mutators import Function, Log, change_fetch, ends, entries_of, is_batch, wrong
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import batch, both, encode_other_value
from conformance.selftest.seeded_fault import SeededFault


class RecordMutation(Struct, frozen=True):
    """A mistake with a part of a record: what stands there instead, and the requirement that it breaks."""

    description: str
    requirement: str
    change: Callable[[Values], Values]
    """From a record in notation to the fields that differ."""


Predicate = Callable[[Values], bool]


def _headers(change: Callable[[list[Values]], list[Values]]) -> Callable[[Values], Values]:
    return lambda one: {"headers": change(one["headers"])} if one.get("headers") else {}


CONTENT_MUTATIONS: dict[str, RecordMutation] = {
    "null-key": RecordMutation(
        "shows an empty key for null",
        "record.key-absent-when-negative",
        lambda one: {"key": ""} if one["key"] is None else {},
    ),
    "empty-key": RecordMutation(
        "shows null for an empty key", "record.key-length", lambda one: {"key": None} if one["key"] == "" else {}
    ),
    "null-value": RecordMutation(
        "shows an empty value for null",
        "record.value-absent-when-negative",
        lambda one: {"value": ""} if one["value"] is None else {},
    ),
    "empty-value": RecordMutation(
        "shows null for an empty value",
        "record.value-length",
        lambda one: {"value": None} if one["value"] == "" else {},
    ),
    "long-value": RecordMutation(
        "takes one byte for the length of a value, and loses one of 64 bytes or more",
        "record.value-length",
        lambda one: {"value": one["value"][:-2]} if len(one["value"] or "") > 126 else {},
    ),
}
"""Mistakes with a record or an older message."""

RECORD_MUTATIONS = CONTENT_MUTATIONS | {
    "headers": RecordMutation("leaves the headers out", "record.headers-count", _headers(lambda _: [])),
    "second-header": RecordMutation(
        "shows the first header alone", "record.headers-follow-count", _headers(lambda all_: all_[:1])
    ),
    "same-header": RecordMutation(
        "keeps the last of the headers with one key",
        "header.duplicate-keys-kept",
        _headers(lambda all_: list({one["key"]: one for one in all_}.values())),
    ),
    "null-header": RecordMutation(
        "shows an empty header value for null",
        "header.value-absent-when-negative",
        _headers(lambda all_: [{**one, "value": one["value"] or ""} for one in all_]),
    ),
    "empty-header": RecordMutation(
        "shows null for an empty header value",
        "header.value-length",
        _headers(lambda all_: [{**one, "value": one["value"] or None} for one in all_]),
    ),
}
"""Mistakes with a record."""


# --- a batch and a record -----------------------------------------------------------------------------


def _codec(name: str) -> Predicate:
    return lambda one: one["compression"] == name


BATCHES: dict[str, tuple[str, Predicate]] = {
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
"""Properties of a batch."""


def _of_batches(test: Predicate, mistake: RecordMutation) -> Mutator:
    """Make a mistake with each record of such batches, however they are read."""

    def shown(one: Values) -> Values:
        fits = "records" in one and not one["isControlBatch"] and test(one)
        return {"records": [{**record, **mistake.change(record)} for record in one["records"]]} if fits else {}

    def seen(_: Request, given: Values, log: Log) -> Values:
        inside = {
            record["offset"]: entry for entry in log if is_batch(entry) and test(entry) for record in entry["records"]
        }
        return changed(given, mistake, inside)

    return both(batch(shown), change_fetch(seen))


def changed(given: Values, mistake: RecordMutation, offsets: Mapping[str, object]) -> Values:
    """What a fetch shows with a mistake in the records at some offsets."""
    return {
        "records": [{**one, **mistake.change(one)} if one["offset"] in offsets else one for one in given["records"]]
    }


def _pairs_of_batches() -> Iterator[SeededFault]:
    for name, (what, test) in BATCHES.items():
        for key, mistake in RECORD_MUTATIONS.items():
            says = f"a reader {mistake.description}, in {what} alone"
            yield SeededFault(
                f"pair/{key}-in-{name}",
                "meetings in batches",
                says,
                mistake.requirement,
                _of_batches(test, mistake),
                (mistake.requirement,),
            )


# --- a batch and what is written ----------------------------------------------------------------------

WRITTEN: dict[str, tuple[str, Predicate]] = {name: BATCHES[name] for name in ("gzip", "snappy", "lz4", "zstd")} | {
    "transactional": BATCHES["transactional"],
    "idempotent": BATCHES["idempotent"],
    "plain": ("a batch without a producer", lambda one: int(one["producerId"]) < 0 and one["compression"] == "none"),
}


def _of_writers(test: Predicate, mistake: RecordMutation) -> Mutator:
    def change(value: Values) -> Values:
        if not test(value):
            return value
        return {**value, "records": [{**one, **mistake.change(one)} for one in value["records"]]}

    return encode_other_value("RECORD_BATCH", change)


def _pairs_of_writers() -> Iterator[SeededFault]:
    for name, (what, test) in WRITTEN.items():
        for key, mistake in RECORD_MUTATIONS.items():
            yield SeededFault(
                f"pair/{key}-written-in-{name}",
                "meetings in writers",
                f"a writer {mistake.description.replace('shows', 'writes')}, in {what} alone",
                mistake.requirement,
                _of_writers(test, mistake),
                (mistake.requirement,),
            )


# --- a wrapper and a message --------------------------------------------------------------------------


def _set(magic: int, codec: str, *, late: bool = False) -> Predicate:
    def test(entry: Values) -> bool:
        kind = entry["messages"][0].get("timestampType") if entry["messages"] else None
        own = entry["magic"] == magic and entry["compression"] == codec
        return own and (not late or kind == "LogAppendTime")

    return test


SETS: dict[str, tuple[str, Predicate]] = {
    **{
        f"{codec}-wrapper-of-magic-{magic}": (f"a {codec} wrapper of magic {magic}", _set(magic, codec))
        for magic in (0, 1)
        for codec in ("gzip", "snappy", "lz4")
    },
    "message-of-magic-0": ("a plain message of magic 0", _set(0, "none")),
    "message-of-magic-1": ("a plain message of magic 1", _set(1, "none")),
    "late-message": ("a plain message with LogAppendTime", _set(1, "none", late=True)),
    "late-wrapper": ("a gzip wrapper with LogAppendTime", _set(1, "gzip", late=True)),
}
"""Properties of an entry of magic 0 or 1."""


def _of_sets(test: Predicate, mistake: RecordMutation) -> Mutator:
    """Make a mistake with each message of such entries, however they are read."""

    def offsets_of(log: Log) -> dict[str, object]:
        return {
            one["offset"]: entry for entry in log if not is_batch(entry) and test(entry) for one in entry["messages"]
        }

    def in_set(request: Request, answer: Answer) -> Answer:
        if (request["op"], request.get("type")) != ("decode", "MESSAGE_SET") or not answer.get("ok"):
            return answer
        inside = offsets_of(entries_of(request["hex"]))
        value = [{**one, **mistake.change(one)} if one["offset"] in inside else one for one in answer["value"]]
        return {**answer, "value": value}

    return both(in_set, change_fetch(lambda _, given, log: changed(given, mistake, offsets_of(log))))


def _pairs_of_sets() -> Iterator[SeededFault]:
    for name, (what, test) in SETS.items():
        for key, mistake in CONTENT_MUTATIONS.items():
            yield SeededFault(
                f"pair/{key}-in-{name}",
                "meetings in message sets",
                f"a reader {mistake.description}, in {what} alone",
                {"null-key": "legacy.key-nullable", "null-value": "legacy.value-nullable"}.get(
                    key, "message-set.entry-layout"
                ),
                _of_sets(test, mistake),
            )


PAIRWISE_FAULTS = (*_pairs_of_batches(), *_pairs_of_writers(), *_pairs_of_sets())
"""Every pair of a mistake with a part of a record and a property of what holds it."""


# --- a fetch and a record -----------------------------------------------------------------------------

Place = Callable[[Request, Log, int], bool]
"""Whether an entry stands at such a place of a fetch, told by the request, the log and its number."""


def _after(test: Predicate) -> Place:
    return lambda _, log, at: at > 0 and test(log[at - 1])


def _holds_the_offset(request: Request, log: Log, at: int) -> bool:
    first = int((_records(log[at]) or [{"offset": "0"}])[0]["offset"])
    return first < int(request["fetchOffset"]) < ends(log[at])


def _records(entry: Values) -> list[Values]:
    return list(entry["records"] if is_batch(entry) else entry["messages"])


def _is_interleaved(_: Request, log: Log, at: int) -> bool:
    producers = [one["producerId"] for one in log[:at] if is_batch(one)]
    return is_batch(log[at]) and any(one not in ("-1", log[at]["producerId"]) for one in producers)


FETCH_PROPERTIES: dict[str, tuple[str, Place]] = {
    "committed": ("a fetch under read_committed", lambda request, _, __: request["isolation"] == "read_committed"),
    "aborts-listed": ("a fetch with aborted transactions", lambda request, _, __: bool(request["aborted"])),
    "fetch-inside": ("the entry that holds the fetch offset", _holds_the_offset),
    "after-marker": ("an entry behind a marker", _after(lambda one: bool(one.get("isControlBatch")))),
    "after-emptied": ("an entry behind an emptied batch", _after(lambda one: is_batch(one) and not one["records"])),
    "after-message": ("an entry behind an older message", _after(lambda one: not is_batch(one))),
    "after-compressed": ("an entry behind a compressed one", _after(lambda one: one["compression"] != "none")),
    "after-another-producer": ("a batch behind one of another producer", _is_interleaved),
    "third": ("the third entry and later ones", lambda _, __, at: at > 1),
}
"""Places of an entry in a fetch."""

_LATE = RecordMutation(
    "shows CreateTime for LogAppendTime",
    "timestamp.log-append-overwritten",
    lambda one: {"timestampType": "CreateTime"} if one["timestampType"] == "LogAppendTime" else {},
)
_FETCHED = {name: RECORD_MUTATIONS[name] for name in (*CONTENT_MUTATIONS, "headers", "null-header", "empty-header")} | {
    "append-time": _LATE
}


def _at_places(place: Place, mistake: RecordMutation) -> Mutator:
    def seen(request: Request, given: Values, log: Log) -> Values:
        inside = {
            one["offset"]: True for at, entry in enumerate(log) if place(request, log, at) for one in _records(entry)
        }
        return changed(given, mistake, inside)

    return change_fetch(seen)


def _pairs_of_places() -> Iterator[SeededFault]:
    for name, (what, place) in FETCH_PROPERTIES.items():
        for key, mistake in _FETCHED.items():
            yield SeededFault(
                f"pair/{key}-at-{name}",
                "meetings in fetches",
                f"a consumer {mistake.description}, in {what} alone",
                mistake.requirement,
                _at_places(place, mistake),
            )


# --- an aborted transaction and its batch -------------------------------------------------------------

_CODEC_NUMBERS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def _codec_of(number: int) -> Predicate:
    return lambda one: bool(one["compression"] == number)


ABORTED: dict[str, tuple[str, Predicate]] = {
    **{name: (f"compressed with {name}", _codec_of(number)) for name, number in _CODEC_NUMBERS.items()},
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


def _shown_all_the_same(test: Callable[[Values], bool]) -> Mutator:
    def make(right: Function) -> Function:
        return lambda self, one, at, remarks: right(self, one, at, remarks) and not test(one)

    return wrong("semantics.consumer_view._AbortedTransactionFilter.is_aborted", make, "read")


def _pairs_of_aborts() -> Iterator[SeededFault]:
    for name, (what, test) in ABORTED.items():
        yield SeededFault(
            f"pair/aborted-shown-{name}",
            "meetings in transactions",
            f"a reader shows an aborted batch {what}",
            "consumer.filters-aborted",
            _shown_all_the_same(test),
            ("consumer.filters-aborted",),
        )


# --- a marker and its shape ---------------------------------------------------------------------------


def _value(test: Callable[[str | None], bool]) -> Predicate:
    return lambda one: bool(one["records"]) and test(one["records"][0]["value"])


def _type(number: int) -> Predicate:
    return lambda one: bool(one["records"]) and (one["records"][0]["key"] or "")[4:8] == f"{number:04x}"


MARKERS: dict[str, tuple[str, Predicate]] = {
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
_UNDER = {"committed": "read_committed", "uncommitted": "read_uncommitted"}


def _fails_at_marker(test: Predicate, isolation: str) -> Mutator:
    def change(request: Request, _: Values, log: Log) -> Values | None:
        met = any(entry.get("isControlBatch") and test(entry) for entry in log)
        return None if met and request["isolation"] == isolation else {}

    return change_fetch(change)


def _shows_marker(test: Predicate, isolation: str) -> Mutator:
    """Hand out the record of such a marker."""

    def change(request: Request, given: Values, log: Log) -> Values:
        if request["isolation"] != isolation:
            return {}
        more = [
            {name: one[name] for name in ("offset", "timestamp", "key", "value", "headers")}
            | {"timestampType": entry["timestampType"]}
            for entry in log
            if entry.get("isControlBatch") and test(entry)
            for one in entry["records"]
            if int(one["offset"]) >= int(request["fetchOffset"])
        ]
        return {"records": sorted([*given["records"], *more], key=lambda one: int(one["offset"]))} if more else {}

    return change_fetch(change)


def _pairs_of_markers() -> Iterator[SeededFault]:
    for name, (what, test) in MARKERS.items():
        for under, isolation in _UNDER.items():
            yield SeededFault(
                f"pair/fails-at-marker-{name}-{under}",
                "meetings at markers",
                f"a consumer under {isolation} fails at a marker {what}",
                "control.value-opaque" if "value" in name else "consumer.handles-control-batches",
                _fails_at_marker(test, isolation),
            )
            if name != "emptied":
                yield SeededFault(
                    f"pair/shows-marker-{name}-{under}",
                    "meetings at markers",
                    f"a consumer under {isolation} hands out a marker {what}",
                    "control.not-passed-to-application",
                    _shows_marker(test, isolation),
                )


MEETINGS_IN_LOGS = (*_pairs_of_places(), *_pairs_of_aborts(), *_pairs_of_markers())
"""Every pair of a place in a log and what stands there."""
