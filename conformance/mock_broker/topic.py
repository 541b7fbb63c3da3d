"""What the scripted broker serves: a topic for each case, with one partition that holds the bytes of the case."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Self, TypeAlias
from uuid import uuid4

from conformance.cases.client_scenarios import (
    CONSUMED_OFFSET,
    EPOCH,
    NODE_1,
    NODE_2,
    TRIMMED_LOG_OFFSETS,
    ClientScenario,
    LeaderChange,
)
from conformance.cases.model import Expectation, ExpectConsumerView, Request, Value
from conformance.codec.builders import batch, marker, record
from conformance.codec.log import extents
from conformance.codec.message_set import encode_set
from conformance.codec.record_batch import (
    BATCH_LAYOUT,
    OVERHEAD,
    encode_built,
    stored_magic,
    stored_offset,
    stored_size,
)
from conformance.definitions.request_frames import CloseConnection
from conformance.mock_broker.membership import GroupState
from conformance.semantics.consumer_view import ConsumerView, abort_markers

END_KEY = b"conformance.end"
"""The key of the record that ends a topic: a client that hands it out has handed out whatever it will."""
BEFORE_KEY = b"conformance.before"
"""The key of the record that stands before a case."""
NO_ID = bytes(16)
"""Where a topic has no id."""
LAST_OFFSET = (1 << 63) - 2
"""The last offset at which that record can stand."""
_PATIENCE = 4
_BATCHES = 2
_VALUE = bytes(6)
"""The value of the records around a marker: it has the length of the marker's value."""
_EPOCHS = (3, 4)
"""That of the record before it, and its own."""
TIME_MS = 1000
"""The timestamp of the broker's own records: 0 is a case of its own, as some clients take it for none."""


Due: TypeAlias = dict[tuple[int, int], list[int]]
"""By producer id and epoch, the offset of each sequence that was taken."""


@dataclass(slots=True)
class MockTopic:
    """A case as a topic: its log, how it is fetched, and what a client has asked of it."""

    log: bytes
    start: int
    """The offset at which the client is told to begin."""
    high_watermark: int
    aborted: Sequence[dict[str, int]] = ()
    """The aborted transactions that each fetch lists: `ProducerId` and `FirstOffset`."""
    one_entry_per_fetch: bool = False
    """Whether a fetch brings one entry alone; otherwise all from there on."""
    refetch_limit: float = _PATIENCE
    """How often the same bytes are served from an offset; then the record that ends the topic is served instead."""
    end: int | None = None
    """Where the record that ends the topic stands; None until a client has come so far."""
    end_was_served: bool = False
    """Whether it ends in place of bytes that a client asked for again and again."""
    cannot_end: bool = False
    """Whether a client has come to where no further record can stand."""
    fetches: Counter[int] = field(default_factory=Counter)
    """How often each offset was asked for."""
    committed: int = field(init=False)
    """The offset that the group of a client has committed; before that, where the client is told to begin, or none."""
    committed_epoch: int = -1
    """That of the record before it; -1 where none is told."""
    name: str = ""
    """Its name, where that is an uncommon one."""
    id: bytes = field(default_factory=lambda: uuid4().bytes)
    isolations: set[int] = field(default_factory=set)
    """The isolation levels that were asked for."""
    first_fetch: float | None = None
    """When it was fetched first, by `time.monotonic()`."""
    refusals: list[int] = field(default_factory=list)
    """Errors with which the next fetches of it, or writes to it, are answered."""
    empty_fetches: list[str] = field(default_factory=list)
    """How the next fetches of it bring nothing."""
    response_sizes: list[int] = field(default_factory=list)
    """The sizes that the answers to the next fetches have."""
    metadata_faults: list[str] = field(default_factory=list)
    """How Metadata describes it next."""
    group: GroupState = field(default_factory=GroupState)
    """The group, and the transactional id, that is named after it."""
    withholds_records: bool = False
    """Whether nothing is served behind the offset that its group has committed, or the first one."""
    dropped_responses: int = 0
    """How many writes to it are taken next, or fetches come, and are not answered, as the connection ends."""
    leader: int = NODE_1
    """The node that leads it."""
    epoch: int = -1
    """That of its leader; -1 where none is told."""
    replica: str = ""
    """What the other node has of it, to which the leader sends who fetches; empty where it sends nobody there."""
    leader_change: LeaderChange | None = None
    """What becomes of its leader with the next fetch or write."""
    log_start: int = 0
    """The offset before which nothing is left, though a client has been told of it."""
    trims_log: bool = False
    """Whether it begins further on from the fetch of the second record on."""
    truncates_log: bool = False
    """Whether the epoch of what a client has read ends before all of it, by what its leader says."""
    requested_metrics: tuple[str, ...] = ()
    """The metrics that the broker wants of the client."""
    accepted_codecs: tuple[int, ...] = ()
    """The codecs in which it takes them."""
    producer: tuple[int, int] = (0, 0)
    """The id and epoch that the broker gives to a producer of the topic."""
    forgets_offset_of_duplicate: bool = False
    """Whether what a producer repeats is refused as that."""
    accepted_sequences: Due | None = None
    """By producer id and epoch, the offset of each sequence taken: what follows is due. None where all are taken."""
    has_started: bool = False
    """Whether a partition was added to a transaction."""
    produced: list[bytes] = field(default_factory=list)
    """The record sets that a producer has written to it, in order."""
    on_fetch: Callable[[], object] = lambda: None

    def with_faults(self, kind: ClientScenario) -> Self:
        """The same topic, in a scenario of this kind."""
        self.refusals, self.empty_fetches, self.metadata_faults = (
            [*kind.partition_errors],
            [*kind.empty_fetches],
            [*kind.metadata_faults],
        )
        self.group, self.dropped_responses, self.replica = GroupState.of(kind), kind.dropped_responses, kind.replica
        self.requested_metrics, self.accepted_codecs = kind.requested_metrics, kind.accepted_codecs
        if kind.in_group:
            self.committed, self.committed_epoch = kind.committed
        self.response_sizes, self.forgets_offset_of_duplicate, self.name = (
            [*kind.response_sizes],
            kind.forgets_offset_of_duplicate,
            kind.topic_name,
        )
        self.leader_change, self.epoch = kind.leader_change, EPOCH if kind.leader_change else -1
        self.one_entry_per_fetch = self.one_entry_per_fetch or kind.serves_one_record_per_fetch
        self.leader, self.trims_log, self.truncates_log, self.withholds_records = (
            kind.initial_leader,
            kind.trims_log,
            kind.truncates_log,
            kind.stop_serving_after_commit,
        )
        if not kind.has_ids:
            self.id = NO_ID
        return self

    def drop_connection(self) -> None:
        """Let the connection end in place of an answer, where that is due. Raises CloseConnection."""
        if self.dropped_responses:
            self.dropped_responses -= 1
            raise CloseConnection("its answer is lost")

    def change_leader(self, offset: int = 0) -> None:
        """Let the other node lead it from now on, or the same one in another epoch, if a fetch has come so far."""
        if self.leader_change is not None and offset >= self.leader_change.at:
            self.leader, self.epoch = self.leader if self.leader_change.stays else NODE_2, self.leader_change.epoch
            self.id = uuid4().bytes if self.leader_change.is_another else self.id
            self.leader_change = None
        if self.trims_log and offset >= CONSUMED_OFFSET:
            self.log = b"".join(build_single_record_entry(b"k", at) for at in TRIMMED_LOG_OFFSETS)
            self.log_start, self.high_watermark, self.trims_log = (
                TRIMMED_LOG_OFFSETS.start,
                TRIMMED_LOG_OFFSETS.stop,
                False,
            )

    def __post_init__(self) -> None:
        """It begins where its group stands."""
        self.committed = self.start

    def is_withheld(self, offset: int) -> bool:
        """Whether a fetch from an offset brings nothing yet."""
        return self.group.serves_nothing or (self.withholds_records and offset > max(self.start, self.committed))

    def fetch(self, offset: int, isolation: int, carried: int = _BATCHES) -> bytes:
        """What a fetch from an offset brings, which carries this magic at most; nothing where the topic ends."""
        if self.first_fetch is None:
            self.first_fetch = time.monotonic()
        self.fetches[offset] += 1
        self.isolations.add(isolation)
        self.on_fetch()
        left = self._all() if offset == self.start and not self.one_entry_per_fetch else self._from(offset)
        passed = self.end is not None and offset >= self.end
        if left and not passed and self.fetches[offset] <= self.refetch_limit:
            return left
        if self.end is None:
            self.end_was_served = bool(left)
            self.cannot_end = offset > LAST_OFFSET
            self.end = min(offset, LAST_OFFSET)
            self.high_watermark = self.end + 1
        return build_single_record_entry(END_KEY, self.end, carried) if offset <= self.end else b""

    def _all(self) -> bytes:
        """The log; none of it where all of it lies whole before the offset at which the client begins."""
        behind = (0 <= last_offset(self.log, at) < self.start for at, _ in extents(self.log) if self._is_whole(at))
        whole = all(self._is_whole(at) for at, _ in extents(self.log))
        return b"" if whole and all(behind) else self.log

    def _from(self, offset: int) -> bytes:
        """The log from the first entry on that reaches an offset; none of it where no whole entry does."""
        for at, end in extents(self.log):
            if self._is_cut_at(at):
                break  # a broker serves it behind others, and never alone
            if last_offset(self.log, at) >= offset:
                return self.log[at:end] if self.one_entry_per_fetch else self.log[at:]
        return b""

    def aborted_transactions(self, offset: int) -> Sequence[dict[str, int]]:
        """The aborted transactions that a fetch from an offset lists: by entry, those that have not ended before."""
        if not self.one_entry_per_fetch:
            return self.aborted
        markers = [] if not self.aborted else abort_markers(self.log)
        return [
            row
            for row in self.aborted
            if not any(row["ProducerId"] == producer and row["FirstOffset"] <= at < offset for producer, at in markers)
        ]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch that its leader knows up to one, and the offset at which the next begins, or the log ends."""
        if epoch >= self.epoch:
            return epoch, self.high_watermark
        begun = [
            (told, stored_offset(self.log, at))
            for at, _ in extents(self.log)
            if (told := BATCH_LAYOUT.read_field("partitionLeaderEpoch", self.log, at)) >= 0
        ]
        known = max((told for told, _ in begun if told <= epoch), default=epoch)
        return known, min((offset for told, offset in begun if told > epoch), default=self.high_watermark)

    def _is_cut_at(self, at: int) -> bool:
        """Whether the entry that begins at a byte is longer than what is there."""
        return at + OVERHEAD + stored_size(self.log, at) > len(self.log)

    def _is_whole(self, at: int) -> bool:
        """Whether the size of the entry that begins at a byte is one that it has."""
        return stored_size(self.log, at) > 0 and not self._is_cut_at(at)

    def refetch_text(self, now: float) -> str:
        """The offset that was fetched most often, and how fast, in words; empty where none was fetched twice.

        `now` is a time by `time.monotonic()`.
        """
        offset, times = max(self.fetches.items(), key=lambda item: item[1], default=(0, 0))
        if times < 2 or self.first_fetch is None:
            return ""
        seconds = max(now - self.first_fetch, 0.001)
        return f"fetched offset {offset} {times} times in {seconds:.1f} s, {times / seconds:.1f} a second"


def mock_topic(parts: Request, patience: float = _PATIENCE, *, by_entry: bool = False) -> MockTopic:
    """The topic of a `read` request, its parts parsed."""
    listed = [{"ProducerId": row["producerId"], "FirstOffset": row["firstOffset"]} for row in parts["aborted"]]
    topic = MockTopic(parts["hex"], parts["fetchOffset"], parts["highWatermark"], listed, refetch_limit=patience)
    topic.one_entry_per_fetch = by_entry
    return topic


def unsupported_read(parts: Request, isolations: Collection[str], carried: int = _BATCHES) -> str:
    """Why a `read` request cannot be put to a client with these isolation levels; empty when it can.

    `carried`: the highest magic that the version of Fetch carries in which the client asks.
    """
    if parts["isolation"] not in isolations:
        return f"{parts['isolation']} is not claimed"
    if not parts.get("checkCrcs", True):
        return "checksums are checked, or not, by the client's own setting"
    if not 0 <= parts["fetchOffset"] < LAST_OFFSET:
        return f"a client is not told to begin at {parts['fetchOffset']}"
    if not fits_fetch_version(parts["hex"], carried):
        return f"the version of Fetch in which it asks carries no magic above {carried}"
    return ""


def can_serve_one_entry_per_fetch(parts: Request, expected: Expectation, *, stood_between: bool) -> bool:
    """Whether a fetch of one entry after the other must come to the same as one of the whole log, and shows more.

    It need not where anything is open, and where a transaction is aborted in a log that is damaged: its end is not
    known then. What is cut off is served behind other entries alone. One entry alone shows where the next fetch begins,
    which another record in the same response hides; where its records leave no gap, that follows from them.
    """
    if not isinstance(expected, ExpectConsumerView) or expected.open or expected.view.partial:
        return False
    if len(list(extents(parts["hex"]))) > 1:
        return expected.view.damage is None or not parts["aborted"]
    return stood_between and expected.view.damage is None and not _is_without_gap(expected.view)


def has_legacy_messages(log: bytes) -> bool:
    """Whether an entry of a log is a message of magic 0 or 1."""
    return any(0 <= stored_magic(log, at) < _BATCHES for at, _ in extents(log))


def fits_fetch_version(log: bytes, newest: int) -> bool:
    """Whether a version of Fetch that carries no magic above the newest one may bring a log."""
    return newest == _BATCHES or all(stored_magic(log, at) <= newest for at, _ in extents(log))


def _is_without_gap(seen: ConsumerView) -> bool:
    """Whether the records that are due take every offset of a log from the fetch on."""
    offsets = [record["offset"] for record in seen.records]
    return all(found == due for found, due in zip_longest(offsets, range(seen.fetch_offset, seen.next_offset)))


def last_offset(log: bytes, at: int) -> int:
    """The last offset of the entry that begins at a byte, by its header alone."""
    first = stored_offset(log, at)
    return first + BATCH_LAYOUT.read_field("lastOffsetDelta", log, at) if stored_magic(log, at) == _BATCHES else first


def build_single_record_entry(key: bytes, offset: int, magic: int = _BATCHES) -> bytes:
    """Return a plain batch with one record, or a message of another magic."""
    # Some clients show an empty value as null, so the value is not empty.
    return build_entry((record(offset, TIME_MS, key=key),), magic)


def log_with_marker() -> bytes:
    """Return a record in a transaction, the marker that commits it in a newer epoch, and a plain record after it."""
    old, new = _EPOCHS
    first, last = (record(at, TIME_MS, value=_VALUE) for at in (0, 2))
    producer = {"isTransactional": True, "producerId": 1, "producerEpoch": 0, "baseSequence": 0}
    return b"".join(
        (
            encode_built(batch([first], partitionLeaderEpoch=old, **producer)),
            encode_built(marker(1, 0, commit=True, offset=1, timestamp=TIME_MS, partitionLeaderEpoch=new)),
            encode_built(batch([last], baseOffset=2, partitionLeaderEpoch=new)),
        )
    )


def build_entry(records: Sequence[Value], magic: int = _BATCHES) -> bytes:
    """Return records without compression, in a batch without a producer, or as messages of another magic."""
    if magic != _BATCHES:
        return encode_set(records, magic, 0)
    return encode_built(batch(records, baseOffset=records[0]["offset"], partitionLeaderEpoch=0))
