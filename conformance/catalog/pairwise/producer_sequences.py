"""The covering set of sequences: earlier batches of a producer, its next batch, and batches of others in between."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.codec.derived_fields import Values
from conformance.semantics.producer_state import next_sequence

_PRODUCERS = {"0": 0, "7": 7, "beyond 2^53": (1 << 53) + 1}
_EPOCHS = {"0": 0, "3": 3, "32766": (1 << 15) - 2}
_LONG_BATCH = (1 << 31) - 4
"""The number of records in a first batch after which the sequence is about to wrap."""
_HISTORIES = {"one": 1, "two": 2, "five": 5, "seven": 7}
_COUNTS = {"one": 1, "two": 2, "ten": 10}
_GAPS = {"a gap of one": 1, "a gap of a hundred": 100}
_REPEATS = {"repeats the last": 1, "repeats the one before": 2, "repeats the fifth": 5}
_OLDER, _NEWER, _NEWER_AFTER = "an older epoch", "a newer epoch from 0", "a newer epoch from 7"

TABLE = FactorTable(
    {
        "producer": tuple(_PRODUCERS),
        "epoch": tuple(_EPOCHS),
        "first": ("0", "a long batch from 0", "5"),
        "records": tuple(_COUNTS),
        "batches": tuple(_HISTORIES),
        "event": ("the next", *_REPEATS, *_GAPS, _OLDER, _NEWER, _NEWER_AFTER),
        "in between": ("nothing", "another producer", "another epoch of another", "no producer"),
        "afterwards": ("nothing", "the next", "the event again", "a gap of one"),
    },
    (
        Constraint(
            ("event", "repeats the fifth"), {"batches": ("five", "seven")}, "the producer has sent as many batches"
        ),
        Constraint(
            ("event", "repeats the one before"),
            {"batches": ("two", "five", "seven")},
            "the producer has sent as many batches",
        ),
        Constraint(("event", _OLDER), {"epoch": ("3", "32766")}, "there is no epoch below 0"),
    ),
)


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield a request with the batches of a row, in order."""
    del number
    batches = _earlier_batches(row)
    event = _event(row, batches)
    batches += [*_between(row), event, *_afterwards(row, batches, event)]
    yield RowRequest("", "sequence", "LOG", {"batches": batches})


def _batch(producer: int, epoch: int, first: int, count: int) -> Values:
    return {"producerId": str(producer), "producerEpoch": epoch, "baseSequence": first, "recordCount": count}


def _own(row: Row, first: int, count: int, *, newer: int = 0) -> Values:
    return _batch(_PRODUCERS[row["producer"]], _EPOCHS[row["epoch"]] + newer, first, count)


def _following(batch: Values) -> int:
    return next_sequence(batch["baseSequence"], batch["recordCount"])


def _earlier_batches(row: Row) -> list[Values]:
    """Return the producer's earlier batches."""
    count = _COUNTS[row["records"]]
    batches = [_own(row, 5 if row["first"] == "5" else 0, _LONG_BATCH if "long" in row["first"] else count)]
    while len(batches) < _HISTORIES[row["batches"]]:
        batches.append(_own(row, _following(batches[-1]), count))
    return batches


def _event(row: Row, earlier: list[Values]) -> Values:
    """Return the tested batch."""
    event, count = row["event"], _COUNTS[row["records"]]
    if event in _REPEATS:
        return earlier[-_REPEATS[event]]
    if event in _GAPS:
        return _own(row, next_sequence(_following(earlier[-1]), _GAPS[event]), count)
    if event in (_NEWER, _NEWER_AFTER):
        return _own(row, 7 if event == _NEWER_AFTER else 0, count, newer=1)
    return _own(row, _following(earlier[-1]), count, newer=-1 if event == _OLDER else 0)


def _between(row: Row) -> list[Values]:
    between = {
        "another producer": [_batch(11, 0, 0, 1)],
        "another epoch of another": [_batch(11, 0, 0, 1), _batch(11, 1, 0, 1), _batch(11, 0, 1, 1)],
        "no producer": [_batch(-1, -1, -1, 1)],
    }
    return between.get(row["in between"], [])


def _afterwards(row: Row, earlier: list[Values], event: Values) -> list[Values]:
    """Return the producer's later batches, which follow its last correct batch."""
    is_right = row["event"] in ("the next", _NEWER)
    last = event if is_right else earlier[-1]
    newer, following = last["producerEpoch"] - _EPOCHS[row["epoch"]], _following(last)
    further = {
        "the next": [_own(row, following, 1, newer=newer)],
        "the event again": [event],
        "a gap of one": [_own(row, next_sequence(following, 1), 1, newer=newer)],
    }
    return further.get(row["afterwards"], [])
