"""Requests for whole logs from seeded choices: fetches, conversions, sequences, appends, in notation.

The logs of fetches are like those of brokers. Transactions of several producers are mixed with plain batches and end
with markers. Some logs begin with messages of older formats, some are compacted; a broker lists the aborted ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from conformance import codec
from conformance.codec.builders import batch, batch_bytes, marker, record
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import build
from conformance.semantics.consumer_view import ISOLATIONS, READ_COMMITTED
from conformance.semantics.partition_log import compact_batch
from conformance.semantics.producer_state import next_sequence
from conformance.strategies.seeded import _legacy_messages as legacy_messages
from conformance.strategies.seeded._mutation_schedule import MutatedBytes, damaged
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.generator import entry_bytes, value

Request = Values
Damage: TypeAlias = Callable[[bytes], MutatedBytes]
"""A function that damages the bytes of a request."""

_EPOCH_MS = 1_700_000_000_000
_PRODUCERS = (7, 8, 1 << 40, (1 << 63) - 1)
_LEADER_EPOCHS = (-1, 0, 5)
_SEEDS = 10**18
"""A number above every seed in an id."""
_SET = 10
"""Percentage of appends to topics with a setting: each of these topics needs a separate request."""

# --- fetches ------------------------------------------------------------------------------------------


class _PartitionBuilder(Struct):
    """A growing log."""

    choices: RandomChoices
    end: int
    entries: list[Values] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    """The first offset of each producer's open transaction."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer, first and last offset of each aborted transaction."""
    sequences: dict[int, int] = field(default_factory=dict)
    raises_epochs: bool = False
    """True if a marker raises the epoch of its producer, as in brokers since Apache Kafka 4.0."""
    epochs: dict[int, int] = field(default_factory=dict)

    def append(self, entry: Values) -> None:
        """Append an entry, and in some cases leave a gap after it."""
        self.entries.append(entry)
        self.end = last_offset(entry) + 1 + self.choices.pick((0, 0, 0, 0, 1, 7))

    def batch(self, producer: int, *, transactional: bool) -> None:
        """Append a batch of a producer (-1: without an id); a transactional one opens a transaction if needed."""
        choices, count = self.choices, self.choices.pick((1, 1, 2, 3, 5))
        stamp = _EPOCH_MS + choices.below(1000)
        sequence = self.sequences.setdefault(producer, choices.pick((0, 0, 5, (1 << 31) - 2))) if producer >= 0 else -1
        self.sequences[producer] = next_sequence(sequence, count) if producer >= 0 else -1
        if transactional:
            self.open.setdefault(producer, self.end)
        compression, kind = choices.pick((0, *range(len(CODECS)))), int(choices.chance(10))
        records = [
            record(
                self.end + index,
                stamp + choices.below(50),
                key=choices.pick((None, b"", b"k", choices.octets(3))),
                value=choices.pick((None, b"v", choices.octets(9))),
                headers=({"key": "h", "value": choices.pick((None, b"x"))},) if choices.chance(15) else (),
            )
            for index in range(count)
        ]
        place = {"baseOffset": self.end, "partitionLeaderEpoch": choices.pick(_LEADER_EPOCHS)}
        epoch = self.epochs.get(producer, 0) if producer >= 0 else -1
        known = {"producerId": producer, "producerEpoch": epoch, "baseSequence": sequence}
        fields = {"compression": compression, "timestampType": kind, "isTransactional": transactional}
        self.append(_cleaned(build(batch(records, **place, **known, **fields)), choices))

    def ended(self, producer: int) -> None:
        """Append the marker that commits or aborts a producer's transaction."""
        choices, first = self.choices, self.open.pop(producer)
        commit = choices.chance(45)
        if not commit:
            self.aborted.append((producer, first, self.end))
        if self.raises_epochs:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
            self.sequences[producer] = 0
        place = {"offset": self.end, "partitionLeaderEpoch": choices.pick(_LEADER_EPOCHS)}
        end = build(marker(producer, self.epochs.get(producer, 0), commit=commit, **place))
        # An ABORT that compaction has emptied ends no transaction; a broker empties it only when it is not needed.
        self.append(compact_batch(end, ()) if commit and choices.chance(10) else end)


def _cleaned(batch: Values, choices: RandomChoices) -> Values:
    if choices.chance(80):
        return batch
    kept = {record["offset"] for record in batch["records"] if choices.chance(50)}
    return compact_batch(batch, kept, delete_horizon=_EPOCH_MS + choices.below(1 << 32) if choices.chance(30) else None)


def _grown(choices: RandomChoices, *, raises_epochs: bool) -> _PartitionBuilder:
    """Return a log with a history."""
    log = _PartitionBuilder(choices, choices.pick((0, 0, 5, 1000, (1 << 53) + 1)), raises_epochs=raises_epochs)
    for _ in range(choices.pick((1, 2, 3)) if choices.chance(25) else 0):
        log.append(legacy_messages.entry(choices, log.end))
    producers = _PRODUCERS[: choices.pick((1, 2, 3, 4))]
    for _ in range(choices.pick((0 if log.entries else 1, 1, 2, 4, 8, 12))):
        if log.open and choices.chance(35):
            log.ended(choices.pick(sorted(log.open)))
        elif choices.chance(25):
            log.batch(-1, transactional=False)
        else:
            # In some cases a producer sends outside of its transaction, and no marker concerns that batch.
            log.batch(choices.pick(producers), transactional=choices.chance(85))
    for producer in sorted(log.open):
        if choices.chance(80):
            log.ended(producer)
    return log


def fetch(choices: RandomChoices, damage: Damage | None, *, raises_epochs: bool = False) -> tuple[Request, str]:
    """Return a `read` request, and the mutation of its log, if any.

    If the log lacks the field to damage, another log that has the field is read from its start.
    """
    log = _grown(choices, raises_epochs=raises_epochs)
    entries, isolation = log.entries, choices.pick((*ISOLATIONS, READ_COMMITTED))
    if isolation == READ_COMMITTED and log.open:
        # A broker sends no batch from the first open transaction on.
        stable = min(log.open.values())
        entries = [entry for entry in entries if last_offset(entry) < stable]
    if not entries:
        entries, isolation = log.entries, ISOLATIONS[0]
    start = _start(entries, choices)
    # A broker sends the entries from the one that contains the offset.
    entries = [entry for entry in entries if last_offset(entry) >= start]
    data = b"".join(map(entry_bytes, entries))
    if choices.chance(25):
        log.batch(-1, transactional=False)
        data += legacy_messages.cut(entry_bytes(log.entries[-1]), choices)
    end = last_offset(entries[-1]) + 1
    request = {
        "isolation": isolation,
        "fetchOffset": str(start),
        "highWatermark": str(end + choices.pick((0, 0, 0, 1, 1000))),
        "aborted": _listed(log.aborted, start, end, choices) if isolation == READ_COMMITTED else [],
        **({"checkCrcs": False} if choices.chance(10) else {}),
    }
    if damage is None:
        return {"hex": data.hex(), **request}, ""
    result = damage(data)
    if result.base is not data:
        end = last_offset(codec.decode("LOG", result.base).value["batches"][-1]) + 1
        request |= {"isolation": ISOLATIONS[0], "fetchOffset": "0", "highWatermark": str(end), "aborted": []}
    return {"hex": result.data.hex(), **request}, result.mutation


def fetch_of_raised_epochs(choices: RandomChoices, damage: Damage | None) -> tuple[Request, str]:
    """Return a `read` request for a log in which each marker has a newer epoch than the batches that it ends."""
    return fetch(choices, damage, raises_epochs=True)


def _start(entries: list[Values], choices: RandomChoices) -> int:
    """Return the start of a fetch: an entry, a place inside one, in a gap, or below the first; never after the last."""
    low, high = first_offset(entries[0]), last_offset(entries[-1])
    return choices.pick(
        (
            low,
            low,
            max(0, low - 3),
            first_offset(choices.pick(entries)),
            choices.between(low, high),
            last_offset(entries[0]),
        )
    )


def _listed(aborted: list[tuple[int, int, int]], start: int, end: int, choices: RandomChoices) -> list[dict[str, str]]:
    """Return the aborted transactions in a fetch response, in any order; in some cases an empty list."""
    named = [(producer, first) for producer, first, last in aborted if last >= start and first < end]
    if choices.chance(10):
        return []
    if choices.chance(40):
        named.sort(key=lambda entry: (choices.below(1000), entry))
    return [{"producerId": str(producer), "firstOffset": str(first)} for producer, first in named]


# --- conversions --------------------------------------------------------------------------------------


def conversion(choices: RandomChoices, _damage: Damage | None) -> tuple[Request, str]:
    """Return a `convert` request: down, up, or up into one batch as on append."""
    kind = choices.below(10)
    if kind < 3:
        sent = _sent(choices)
        base = choices.pick((0, 5, 1000, 1 << 40, (1 << 62) + 1))
        return {"hex": sent.hex(), "magic": 2, "baseOffset": str(base)}, ""
    log, magic = value("LOG", choices), 2 if kind == 3 else choices.below(2)
    entries = [entry if magic == 2 or choices.chance(5) else _sendable(entry, choices) for entry in log["batches"]]
    entries = [entry for entry in entries if magic < 2 or "messages" in entry]
    return {"hex": b"".join(map(entry_bytes, entries)).hex(), "magic": magic}, ""


def _sent(choices: RandomChoices) -> bytes:
    """Return the bytes from a producer of old messages: plain ones of one magic, or one wrapper."""
    magic, wrapped = choices.below(2), choices.chance(60)
    at = choices.pick((0, 0, 4, 1000))
    data = b""
    for _ in range(1 if wrapped else choices.pick((1, 2, 3, 6))):
        compression = choices.pick(legacy_messages.CODECS_BY_MAGIC[magic][1:]) if wrapped else 0
        entry = legacy_messages.entry(choices, at, magic=magic, compression=compression)
        data, at = data + entry_bytes(entry), entry["offset"] + 1 + choices.below(3)
    return data


def _sendable(entry: Values, choices: RandomChoices) -> Values:
    """Return the entry in a codec that older magics have."""
    old = legacy_messages.CODECS_BY_MAGIC[1]
    return entry if entry["compression"] in old else {**entry, "compression": choices.pick(old)}


# --- sequences ----------------------------------------------------------------------------------------


def sequences(choices: RandomChoices, _damage: Damage | None) -> tuple[Request, str]:
    """Return a `sequence` request: batches of a few producers, in order or repeated, skipped, fenced."""
    sent: dict[int, list[tuple[int, int, int]]] = {}
    batches = []
    for _ in range(choices.pick((1, 3, 6, 12, 20))):
        producer = choices.pick((*_PRODUCERS[:2], _PRODUCERS[0], -1) if choices.chance(80) else _PRODUCERS)
        epoch, first, count = _next_batch(sent.setdefault(producer, []), choices) if producer >= 0 else (-1, -1, 1)
        shown = {"producerEpoch": epoch, "baseSequence": first, "recordCount": count}
        batches.append({"producerId": str(producer), **shown})
    return {"batches": batches}, ""


def _next_batch(sent: list[tuple[int, int, int]], choices: RandomChoices) -> tuple[int, int, int]:
    """Return epoch, first sequence and count of a producer's next batch, recorded if it continues the last one."""
    count = choices.pick((1, 1, 2, 3, 10))
    if not sent:
        sent.append((choices.pick((0, 0, 3)), choices.pick((0, 0, 5, (1 << 31) - 1, (1 << 31) - 4)), count))
        return sent[-1]
    epoch, first, before = sent[-1]
    following = next_sequence(first, before)
    style = choices.below(20)
    if style < 10:
        sent.append((epoch, following, count))
        return sent[-1]
    if style < 14:
        return sent[-1 - choices.below(min(len(sent), 5))]
    if style < 16:
        return epoch, next_sequence(following, choices.pick((1, 2, 100))), count
    if style == 16:
        return max(0, epoch - 1), 0, count
    if style == 17:
        return epoch + 1, choices.pick((1, 7)), count
    if style == 18:
        return sent[-1][0], sent[-1][1], count
    sent.append((epoch + 1, 0, count))
    return sent[-1]


# --- appends ------------------------------------------------------------------------------------------


def append(choices: RandomChoices, damage: Damage | None) -> tuple[Request, str]:
    """Return an `append` request, and the mutation of its batch, if any.

    Most batches are like those of producers; some have fields that only a broker writes, or gaps.
    """
    drawn = value("RECORD_BATCH", choices)
    is_produced = bool(drawn["records"]) and choices.chance(75)
    data, mutation = batch_bytes(_produced(drawn, choices) if is_produced else drawn), ""
    if damage is not None:
        data, mutation, _ = damage(data)
    settings = {"compressionType": choices.pick(CODEC_NAMES)} if choices.chance(_SET) else {}
    settings |= {"timestampType": "LogAppendTime"} if choices.chance(_SET) else {}
    return {"hex": data.hex(), **settings}, mutation


def _produced(drawn: Values, choices: RandomChoices) -> Values:
    """The batch as a producer without transactions would send it: from offset 0, without a gap."""
    identity, first = (choices.below(1 << 48), 0) if choices.chance(30) else (-1, -1)
    records = tuple(
        {
            **{part: record[part] for part in ("key", "value", "headers")},
            **{"offset": at, "timestamp": drawn["baseTimestamp"] + record["timestampDelta"]},
        }
        for at, record in enumerate(drawn["records"])
    )
    known = {"producerId": identity, "producerEpoch": first, "baseSequence": first}
    return {**build(batch(records, compression=drawn["compression"], **known)), "form": drawn.get("form", 0)}


class LogRequestKind(NamedTuple):
    """A kind of request for whole logs."""

    op: str
    draw: Callable[[RandomChoices, Damage | None], tuple[Request, str]]
    """Draws a request, and the mutation of its data."""
    damages: str = "LOG"
    """The type of the damaged data."""
    often: int = 0
    """The number of requests with damage, of ten."""
    order: int = 0
    """The order of the damage, if another kind of request has the same type."""

    def at(self, choices: RandomChoices, seed: int, index: int) -> tuple[Request, str]:
        """Return the request of an index. Damage is spread evenly, and numbered without a gap."""
        number, rest = divmod(index * self.often, 10)
        if rest >= self.often:
            return self.draw(choices, None)
        wire, order = codec.wire(self.damages), seed + self.order * _SEEDS
        return self.draw(choices, lambda data: damaged(wire, data, number, order, choices))


QUESTIONS = {
    "READ": LogRequestKind("read", fetch, often=3),
    "CONVERT": LogRequestKind("convert", conversion),
    "SEQUENCE": LogRequestKind("sequence", sequences),
    "READ_RAISED": LogRequestKind("read", fetch_of_raised_epochs, often=3, order=1),
}
"""The kinds of requests for whole logs, by the name in an id."""

OF_BROKERS = {"APPEND": LogRequestKind("append", append, damages="RECORD_BATCH", often=5)}
"""The kinds of requests for which only brokers are targets."""
