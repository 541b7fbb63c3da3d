"""Strategies of logs and fetches, and of the entries of older formats in them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.control_record import CONTROL_RECORD
from conformance.codec.derived_fields import Values
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.log import LOG, first_offset, last_offset
from conformance.codec.primitives import INT32, INT64
from conformance.codec.record_batch import TIMESTAMP_TYPES
from conformance.semantics.consumer_view import ISOLATIONS, READ_COMMITTED, AbortedTransaction, consumer_view
from conformance.semantics.producer_state import next_sequence
from conformance.strategies.hypothesis.batches import GAP, markers, moved, small_batches, written
from conformance.strategies.hypothesis.building import SMALL, Sizes, integers, named, sizes_given, strategy_of, whole

# --- messages of magic 0 and 1 ------------------------------------------------------------------------

_MAGICS = (*LAYOUTS, 2)
_CODECS = {magic: tuple(codec.name for codec in CODECS[1:] if magic in codec.magics) for magic in LAYOUTS}
"""The codecs that the documents define for each magic."""


def _magics_given(magics: Collection[int], known: tuple[int, ...] = _MAGICS) -> tuple[int, ...]:
    if isinstance(magics, str) or not isinstance(magics, Collection):
        raise TypeError(f"magics must be a collection of ints, not {magics!r}")
    if not magics or not set(magics) <= set(known):
        raise ValueError(f"magics must be some of {', '.join(map(str, known))}, not {magics!r}")
    return tuple(sorted(set(magics)))


def _magic_given(magic: int | None) -> tuple[int, ...]:
    """Return the magics from which one is drawn."""
    return tuple(LAYOUTS) if magic is None else _magics_given((magic,), tuple(LAYOUTS))


@cache
def _contents(magic: int) -> SearchStrategy[Values]:
    """Generate the free fields of a message."""
    octets = st.none() | st.binary(max_size=SMALL)
    timed: dict[str, SearchStrategy[Any]] = {
        "timestamp": integers(INT64, -1),
        "timestampType": st.sampled_from(range(len(TIMESTAMP_TYPES))),
    }
    return st.fixed_dictionaries({"key": octets, "value": octets, **(timed if magic else {})})


@st.composite
def _placed(draw: DrawFn, magic: int, sizes: Sizes, start: int) -> tuple[Values, ...]:
    """Generate messages with increasing offsets from a start on."""
    at, placed = start, []
    for message in draw(st.lists(_contents(magic), min_size=sizes[0], max_size=sizes[1])):
        at += draw(st.integers(0, GAP))
        placed.append({"offset": at, "magic": magic, **message})
        at += 1
    return tuple(placed)


@st.composite
def _message_sets(draw: DrawFn, magics: tuple[int, ...], sizes: Sizes) -> tuple[Values, ...]:
    return draw(_placed(draw(st.sampled_from(magics)), sizes, draw(integers(INT64, 0, 1 << 62))))


@strategy_of("MESSAGE_SET")
def message_sets(
    *, magic: int | None = None, min_size: int = 0, max_size: int | None = None
) -> SearchStrategy[tuple[Values, ...]]:
    """Generate values of the type MESSAGE_SET: messages of one magic, without wrappers. Shrinks to an empty set."""
    plain = _message_sets(_magic_given(magic), sizes_given(min_size, max_size))
    return named("message_sets", plain, magic=magic, min_size=min_size or None, max_size=max_size)


@st.composite
def _wrappers(draw: DrawFn, magics: tuple[int, ...], codecs: tuple[str, ...], sizes: Sizes, start: int) -> Values:
    magic = draw(st.sampled_from(magics))
    codec = draw(st.sampled_from([name for name in codecs if name in _CODECS[magic]]))
    messages = draw(_placed(magic, sizes, start))
    if magic:
        # The wrapper has the type and time of a log append, for all its messages.
        over = {name: messages[0][name] for name in ("timestampType", "timestamp")[: 1 + messages[0]["timestampType"]]}
        messages = tuple({**message, **over} for message in messages)
    wrapper = {"magic": magic, "offset": messages[-1]["offset"], "compression": CODEC_NAMES.index(codec)}
    return {**wrapper, "messages": messages}


def wrappers(
    *, magic: int | None = None, codec: str | None = None, min_size: int = 1, max_size: int | None = None
) -> SearchStrategy[Values]:
    """Generate compressed messages of magic 0 or 1 as in a LOG: `magic`, `offset`, `compression`, `messages`.

    They are entries of a log: `codec.encode("LOG", {"batches": (wrapper,), "partial": 0})` returns their bytes. They
    have at least one message, with increasing offsets. Shrinks to one message of magic 0 without content, in gzip.
    """
    magics = [magic for magic in _magic_given(magic) if codec is None or codec in _CODECS[magic]]
    if not magics:
        raise ValueError(f"codec must be one of {', '.join(_CODECS[1])} (magic 0 has no lz4), or None, not {codec!r}")
    if min_size == 0:
        raise ValueError("min_size must be 1 or more, because a wrapper is written with messages")
    sizes = sizes_given(min_size, max_size)
    plain = integers(INT64, 0, 1 << 62).flatmap(
        lambda start: _wrappers(tuple(magics), _CODECS[1] if codec is None else (codec,), sizes, start)
    )
    shown = {"codec": codec, "min_size": None if min_size == 1 else min_size, "max_size": max_size}
    return named("wrappers", plain, magic=magic, **shown)


# --- logs ---------------------------------------------------------------------------------------------


@cache
def _entries(magics: tuple[int, ...]) -> SearchStrategy[Values]:
    """Generate entries of some magics near offset 0; batches are first, because they shrink more than the others."""
    old = tuple(magic for magic in magics if magic in LAYOUTS)
    kinds = [small_batches()] if 2 in magics else []
    for magic in old:
        kinds.append(_placed(magic, (1, 1), 0).map(_alone))
        kinds.append(_wrappers((magic,), _CODECS[magic], (1, 4), 0))
    return st.one_of(kinds)


def _alone(messages: tuple[Values, ...]) -> Values:
    (message,) = messages
    return {"magic": message["magic"], "offset": message["offset"], "compression": 0, "messages": messages}


def _at(entry: Values, start: int) -> Values:
    """Move an entry by a number of offsets."""
    if "messages" not in entry:
        return moved(entry, start)
    shifted = tuple({**message, "offset": message["offset"] + start} for message in entry["messages"])
    return {**entry, "offset": entry["offset"] + start, "messages": shifted}


@st.composite
def _logs(draw: DrawFn, magics: tuple[int, ...], sizes: Sizes) -> Values:
    gaps, at, placed = integers(INT32, 0, GAP), draw(integers(INT64, 0, 1 << 62)), []
    for entry in draw(st.lists(_entries(magics), min_size=sizes[0], max_size=sizes[1])):
        placed.append(_at(entry, at + draw(gaps)))
        at = last_offset(placed[-1]) + 1
    return {"batches": tuple(placed), "partial": 0}


@strategy_of("LOG")
def logs(
    *, magics: Collection[int] = _MAGICS, min_size: int = 0, max_size: int | None = None
) -> SearchStrategy[Values]:
    """Generate values of the type LOG: entries of these magics with increasing offsets. Shrinks to an empty log."""
    chosen, sizes = _magics_given(magics), sizes_given(min_size, max_size)
    shown = {"magics": None if chosen == _MAGICS else magics, "min_size": min_size or None, "max_size": max_size}
    return named("logs", _logs(chosen, sizes), **shown)


# --- transactions and fetches -------------------------------------------------------------------------

_PRODUCERS = 3
"""The number of producers that write to one log; their ids begin at 0."""


@cache
def _steps() -> SearchStrategy[tuple[int, bool, bool]]:
    """Generate the producer (-1: no id), True if its transaction ends, and True if it ends with a COMMIT."""
    return st.tuples(st.integers(0, _PRODUCERS).map(lambda number: number - 1), st.booleans(), st.booleans())


class _TransactionHistory:
    """A growing log of transactions."""

    def __init__(self, draw: DrawFn, start: int) -> None:
        self.draw, self.end = draw, start
        self.batches: list[Values] = []
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[AbortedTransaction, int]] = []
        self._sequences: dict[int, int] = {}

    def _append(self, batch: Values) -> None:
        placed = moved(whole("RECORD_BATCH", batch), self.end + self.draw(st.integers(0, 1)))
        self.batches.append(placed)
        self.end = last_offset(placed) + 1

    def sends(self, producer: int) -> None:
        """Append a batch, which belongs to a transaction if its producer has an id."""
        batch = self.draw(written(None, (1, 3)))
        sequence = self._sequences.get(producer, 0) if producer >= 0 else -1
        self._sequences[producer] = next_sequence(max(sequence, 0), batch["recordCount"])
        known = {"producerId": producer, "producerEpoch": min(producer, 0), "baseSequence": sequence}
        self._append({**batch, **known, "isTransactional": producer >= 0})
        if producer >= 0:
            self.open.setdefault(producer, first_offset(self.batches[-1]))

    def ends(self, producer: int, *, commits: bool) -> None:
        """Append the marker of an open transaction."""
        batch = self.draw(markers())
        key = CONTROL_RECORD.encode({"version": 0, "type": int(commits)})
        record = {**batch["records"][0], "key": key}
        self._append({**batch, "producerId": producer, "producerEpoch": 0, "records": (record,)})
        first = self.open.pop(producer)
        if not commits:
            self.aborted.append((AbortedTransaction(producer, first), self.end))


@st.composite
def _histories(draw: DrawFn, sizes: Sizes) -> _TransactionHistory:
    log = _TransactionHistory(draw, draw(integers(INT64, 0, 1 << 62)))
    for producer, ends, commits in draw(st.lists(_steps(), min_size=sizes[0], max_size=sizes[1])):
        if ends and producer in log.open:
            log.ends(producer, commits=commits)
        else:
            log.sends(producer)
    for producer in sorted(log.open):
        log.ends(producer, commits=draw(st.booleans()))
    return log


def _listed(aborted: Collection[AbortedTransaction]) -> tuple[Values, ...]:
    return tuple({"producerId": one.producer_id, "firstOffset": one.first_offset} for one in aborted)


def transactions(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[Values]:
    """Generate a `log` (a value of LOG) with transactions of several producers, and `aborted`, as a broker lists them.

    It has min_size to max_size batches and markers, then markers for the transactions that are still open. Some batches
    belong to no transaction.
    Shrinks to an empty log.
    """
    plain = _histories(sizes_given(min_size, max_size)).map(
        lambda log: {
            "log": {"batches": tuple(log.batches), "partial": 0},
            "aborted": _listed([entry for entry, _ in log.aborted]),
        }
    )
    return named("transactions", plain, min_size=min_size or None, max_size=max_size)


@st.composite
def _fetches(draw: DrawFn, isolations: tuple[str, ...], sizes: Sizes) -> Values:
    log = draw(_histories(sizes))
    start = draw(st.integers(first_offset(log.batches[0]), log.end - 1))
    sent = [batch for batch in log.batches if last_offset(batch) >= start]
    isolation = draw(st.sampled_from(isolations))
    ended = [entry for entry, end in log.aborted if end > start] if isolation == READ_COMMITTED else []
    aborted = draw(st.permutations(ended))
    value = {"batches": tuple(sent), "partial": 0}
    seen = consumer_view(LOG.encode(value), start, isolation=isolation, aborted=aborted)
    return {
        "log": value,
        "isolation": isolation,
        "fetchOffset": start,
        "highWatermark": log.end,
        "aborted": _listed(aborted),
        "records": seen.records,
        "nextOffset": seen.next_offset,
    }


def fetches(*, isolation: str | None = None, min_size: int = 1, max_size: int | None = None) -> SearchStrategy[Values]:
    """Generate a broker's response to a fetch of `transactions`, and the view that an application must get of it.

    The broker's part: `log` (a value of LOG that begins with the batch of the offset), `isolation`, `fetchOffset`,
    `highWatermark` and `aborted`, a list in any order. The application's part: `records`, as the operation `read` shows
    them, and `nextOffset`, the start of the next fetch. Shrinks to one record without a producer, read_uncommitted.
    """
    if isolation not in (None, *ISOLATIONS):
        raise ValueError(f"isolation must be one of {', '.join(ISOLATIONS)}, or None for any, not {isolation!r}")
    if min_size == 0:
        raise ValueError("min_size must be 1 or more, because a fetch returns a batch")
    plain = _fetches(ISOLATIONS if isolation is None else (isolation,), sizes_given(min_size, max_size))
    shown = {"min_size": None if min_size == 1 else min_size, "max_size": max_size}
    return named("fetches", plain, isolation=isolation, **shown)
