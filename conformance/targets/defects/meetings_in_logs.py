"""Defects where two harmless properties meet in a fetch: a place in the log, and the shape of what stands there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.cases.model import Request
from conformance.codec.derived_fields import Values
from conformance.targets.defects.bending import Function, Log, ends, fetches, is_batch, wrong
from conformance.targets.defects.meetings import DATA, MISTAKES, Mistake, Test, changed
from conformance.targets.defects.model import SeededDefect
from conformance.targets.lies import Lie

# --- a fetch and a record -----------------------------------------------------------------------------

Place = Callable[[Request, Log, int], bool]
"""Whether an entry stands at such a place of a fetch, told by the request, the log and its number."""


def _after(test: Test) -> Place:
    return lambda _, log, at: at > 0 and test(log[at - 1])


def _holds_the_offset(request: Request, log: Log, at: int) -> bool:
    first = int((_records(log[at]) or [{"offset": "0"}])[0]["offset"])
    return first < int(request["fetchOffset"]) < ends(log[at])


def _records(entry: Values) -> list[Values]:
    return list(entry["records"] if is_batch(entry) else entry["messages"])


def _is_interleaved(_: Request, log: Log, at: int) -> bool:
    producers = [one["producerId"] for one in log[:at] if is_batch(one)]
    return is_batch(log[at]) and any(one not in ("-1", log[at]["producerId"]) for one in producers)


PLACES: dict[str, tuple[str, Place]] = {
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

_LATE = Mistake(
    "shows CreateTime for LogAppendTime",
    "timestamp.log-append-overwritten",
    lambda one: {"timestampType": "CreateTime"} if one["timestampType"] == "LogAppendTime" else {},
)
_FETCHED = {name: MISTAKES[name] for name in (*DATA, "headers", "null-header", "empty-header")} | {"append-time": _LATE}


def _at_places(place: Place, mistake: Mistake) -> Lie:
    def seen(request: Request, given: Values, log: Log) -> Values:
        inside = {
            one["offset"]: True for at, entry in enumerate(log) if place(request, log, at) for one in _records(entry)
        }
        return changed(given, mistake, inside)

    return fetches(seen)


def _pairs_of_places() -> Iterator[SeededDefect]:
    for name, (what, place) in PLACES.items():
        for key, mistake in _FETCHED.items():
            yield SeededDefect(
                f"meets/{key}-at-{name}",
                "meetings in fetches",
                f"a consumer {mistake.says}, in {what} alone",
                mistake.requirement,
                _at_places(place, mistake),
            )


# --- an aborted transaction and its batch -------------------------------------------------------------

_CODEC_NUMBERS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def _codec_of(number: int) -> Test:
    return lambda one: bool(one["compression"] == number)


ABORTED: dict[str, tuple[str, Test]] = {
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


def _shown_all_the_same(test: Callable[[Values], bool]) -> Lie:
    def make(right: Function) -> Function:
        return lambda self, one, at, remarks: right(self, one, at, remarks) and not test(one)

    return wrong("semantics.consumer_view._Transactions.hides", make, "read")


def _pairs_of_aborts() -> Iterator[SeededDefect]:
    for name, (what, test) in ABORTED.items():
        yield SeededDefect(
            f"meets/aborted-shown-{name}",
            "meetings in transactions",
            f"a reader shows an aborted batch {what}",
            "consumer.filters-aborted",
            _shown_all_the_same(test),
            ("consumer.filters-aborted",),
        )


# --- a marker and its shape ---------------------------------------------------------------------------


def _value(test: Callable[[str | None], bool]) -> Test:
    return lambda one: bool(one["records"]) and test(one["records"][0]["value"])


def _type(number: int) -> Test:
    return lambda one: bool(one["records"]) and (one["records"][0]["key"] or "")[4:8] == f"{number:04x}"


MARKERS: dict[str, tuple[str, Test]] = {
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


def _fails_at_marker(test: Test, isolation: str) -> Lie:
    def change(request: Request, _: Values, log: Log) -> Values | None:
        met = any(entry.get("isControlBatch") and test(entry) for entry in log)
        return None if met and request["isolation"] == isolation else {}

    return fetches(change)


def _shows_marker(test: Test, isolation: str) -> Lie:
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

    return fetches(change)


def _pairs_of_markers() -> Iterator[SeededDefect]:
    for name, (what, test) in MARKERS.items():
        for under, isolation in _UNDER.items():
            yield SeededDefect(
                f"meets/fails-at-marker-{name}-{under}",
                "meetings at markers",
                f"a consumer under {isolation} fails at a marker {what}",
                "control.value-opaque" if "value" in name else "consumer.handles-control-batches",
                _fails_at_marker(test, isolation),
            )
            if name != "emptied":
                yield SeededDefect(
                    f"meets/shows-marker-{name}-{under}",
                    "meetings at markers",
                    f"a consumer under {isolation} hands out a marker {what}",
                    "control.not-passed-to-application",
                    _shows_marker(test, isolation),
                )


MEETINGS_IN_LOGS = (*_pairs_of_places(), *_pairs_of_aborts(), *_pairs_of_markers())
"""Every pair of a place in a log and what stands there."""
