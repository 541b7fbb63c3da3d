"""Defects where two harmless properties meet: what a reader or writer does right with either, and wrong with both.

Held-out defects of real releases had this shape. Each is a pair of rows: a property of a batch, a wrapper, a fetch or a
marker, and a mistake with a part of a record, which is made there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.targets.defects.bending import Log, entries_of, fetches, is_batch
from conformance.targets.defects.model import SeededDefect
from conformance.targets.lies import Lie
from conformance.targets.violations.families import batch, both, writes_as


class Mistake(Struct, frozen=True):
    """A mistake with a part of a record: what stands there instead, and the requirement that it breaks."""

    says: str
    requirement: str
    change: Callable[[Values], Values]
    """From a record in notation to the fields that differ."""


Test = Callable[[Values], bool]


def _headers(change: Callable[[list[Values]], list[Values]]) -> Callable[[Values], Values]:
    return lambda one: {"headers": change(one["headers"])} if one.get("headers") else {}


DATA: dict[str, Mistake] = {
    "null-key": Mistake(
        "shows an empty key for null",
        "record.key-absent-when-negative",
        lambda one: {"key": ""} if one["key"] is None else {},
    ),
    "empty-key": Mistake(
        "shows null for an empty key", "record.key-length", lambda one: {"key": None} if one["key"] == "" else {}
    ),
    "null-value": Mistake(
        "shows an empty value for null",
        "record.value-absent-when-negative",
        lambda one: {"value": ""} if one["value"] is None else {},
    ),
    "empty-value": Mistake(
        "shows null for an empty value",
        "record.value-length",
        lambda one: {"value": None} if one["value"] == "" else {},
    ),
    "long-value": Mistake(
        "takes one byte for the length of a value, and loses one of 64 bytes or more",
        "record.value-length",
        lambda one: {"value": one["value"][:-2]} if len(one["value"] or "") > 126 else {},
    ),
}
"""Mistakes with a record or an older message."""

MISTAKES = DATA | {
    "headers": Mistake("leaves the headers out", "record.headers-count", _headers(lambda _: [])),
    "second-header": Mistake(
        "shows the first header alone", "record.headers-follow-count", _headers(lambda all_: all_[:1])
    ),
    "same-header": Mistake(
        "keeps the last of the headers with one key",
        "header.duplicate-keys-kept",
        _headers(lambda all_: list({one["key"]: one for one in all_}.values())),
    ),
    "null-header": Mistake(
        "shows an empty header value for null",
        "header.value-absent-when-negative",
        _headers(lambda all_: [{**one, "value": one["value"] or ""} for one in all_]),
    ),
    "empty-header": Mistake(
        "shows null for an empty header value",
        "header.value-length",
        _headers(lambda all_: [{**one, "value": one["value"] or None} for one in all_]),
    ),
}
"""Mistakes with a record."""


# --- a batch and a record -----------------------------------------------------------------------------


def _codec(name: str) -> Test:
    return lambda one: one["compression"] == name


BATCHES: dict[str, tuple[str, Test]] = {
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


def _of_batches(test: Test, mistake: Mistake) -> Lie:
    """Make a mistake with each record of such batches, however they are read."""

    def shown(one: Values) -> Values:
        fits = "records" in one and not one["isControlBatch"] and test(one)
        return {"records": [{**record, **mistake.change(record)} for record in one["records"]]} if fits else {}

    def seen(_: Request, given: Values, log: Log) -> Values:
        inside = {
            record["offset"]: entry for entry in log if is_batch(entry) and test(entry) for record in entry["records"]
        }
        return changed(given, mistake, inside)

    return both(batch(shown), fetches(seen))


def changed(given: Values, mistake: Mistake, offsets: Mapping[str, object]) -> Values:
    """What a fetch shows with a mistake in the records at some offsets."""
    return {
        "records": [{**one, **mistake.change(one)} if one["offset"] in offsets else one for one in given["records"]]
    }


def _pairs_of_batches() -> Iterator[SeededDefect]:
    for name, (what, test) in BATCHES.items():
        for key, mistake in MISTAKES.items():
            says = f"a reader {mistake.says}, in {what} alone"
            yield SeededDefect(
                f"meets/{key}-in-{name}",
                "meetings in batches",
                says,
                mistake.requirement,
                _of_batches(test, mistake),
                (mistake.requirement,),
            )


# --- a batch and what is written ----------------------------------------------------------------------

WRITTEN: dict[str, tuple[str, Test]] = {name: BATCHES[name] for name in ("gzip", "snappy", "lz4", "zstd")} | {
    "transactional": BATCHES["transactional"],
    "idempotent": BATCHES["idempotent"],
    "plain": ("a batch without a producer", lambda one: int(one["producerId"]) < 0 and one["compression"] == "none"),
}


def _of_writers(test: Test, mistake: Mistake) -> Lie:
    def change(value: Values) -> Values:
        if not test(value):
            return value
        return {**value, "records": [{**one, **mistake.change(one)} for one in value["records"]]}

    return writes_as("RECORD_BATCH", change)


def _pairs_of_writers() -> Iterator[SeededDefect]:
    for name, (what, test) in WRITTEN.items():
        for key, mistake in MISTAKES.items():
            yield SeededDefect(
                f"meets/{key}-written-in-{name}",
                "meetings in writers",
                f"a writer {mistake.says.replace('shows', 'writes')}, in {what} alone",
                mistake.requirement,
                _of_writers(test, mistake),
                (mistake.requirement,),
            )


# --- a wrapper and a message --------------------------------------------------------------------------


def _set(magic: int, codec: str, *, late: bool = False) -> Test:
    def test(entry: Values) -> bool:
        kind = entry["messages"][0].get("timestampType") if entry["messages"] else None
        own = entry["magic"] == magic and entry["compression"] == codec
        return own and (not late or kind == "LogAppendTime")

    return test


SETS: dict[str, tuple[str, Test]] = {
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


def _of_sets(test: Test, mistake: Mistake) -> Lie:
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

    return both(in_set, fetches(lambda _, given, log: changed(given, mistake, offsets_of(log))))


def _pairs_of_sets() -> Iterator[SeededDefect]:
    for name, (what, test) in SETS.items():
        for key, mistake in DATA.items():
            yield SeededDefect(
                f"meets/{key}-in-{name}",
                "meetings in message sets",
                f"a reader {mistake.says}, in {what} alone",
                {"null-key": "legacy.key-nullable", "null-value": "legacy.value-nullable"}.get(
                    key, "message-set.entry-layout"
                ),
                _of_sets(test, mistake),
            )


MEETINGS = (*_pairs_of_batches(), *_pairs_of_writers(), *_pairs_of_sets())
"""Every pair of a mistake with a part of a record and a property of what holds it."""
