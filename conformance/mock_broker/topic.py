"""The topics of the mock broker: one for each case, with one partition that holds the bytes of the case."""

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
from conformance.mock_broker._membership import GroupState
from conformance.semantics.consumer_view import ConsumerView, abort_markers

END_KEY = b"conformance.end"
"""The key of the record that ends a topic: a client that delivers it delivers nothing of the case after it."""
BEFORE_KEY = b"conformance.before"
"""The key of the record before a case."""
NO_ID = bytes(16)
"""The id of a topic without an id."""
LAST_OFFSET = (1 << 63) - 2
"""The last possible offset of the record that ends a topic."""
_REFETCH_LIMIT = 4
_BATCHES = 2
_VALUE = bytes(6)
"""The value of the records around a marker: it has the length of the marker's value."""
_EPOCHS = (3, 4)
"""The leader epochs of the record before the marker, and of the marker."""
TIME_MS = 1000
"""The timestamp of the broker's own records. Some clients treat 0 as no timestamp, so 0 has its own case."""


AcceptedSequences: TypeAlias = dict[tuple[int, int], list[int]]
"""The offset of each accepted sequence, by producer id and epoch."""


@dataclass(slots=True)
class MockTopic:
    """A case as a topic: its log, its scenario, and the client's requests for it."""

    log: bytes
    start: int
    """The offset at which the client begins."""
    high_watermark: int
    aborted: Sequence[dict[str, int]] = ()
    """The aborted transactions in each fetch response: `ProducerId` and `FirstOffset`."""
    one_entry_per_fetch: bool = False
    """True if a fetch returns a single entry; otherwise it returns all entries from there on."""
    refetch_limit: float = _REFETCH_LIMIT
    """How often the same bytes are served from an offset, before the record that ends the topic is served instead."""
    end: int | None = None
    """The offset of the record that ends the topic; None until a client has reached it."""
    end_was_served: bool = False
    """True if this record replaced bytes that a client fetched again and again."""
    cannot_end: bool = False
    """True if a client has reached an offset at which no further record is possible."""
    fetches: Counter[int] = field(default_factory=Counter)
    """The number of fetches from each offset."""
    committed: int = field(init=False)
    """The committed offset of the client's group; before a commit, the client's first offset, or none."""
    committed_epoch: int = -1
    """The leader epoch of the record before it; -1 if it is not returned."""
    name: str = ""
    """Its name, if it is an unusual one."""
    id: bytes = field(default_factory=lambda: uuid4().bytes)
    isolations: set[int] = field(default_factory=set)
    """The isolation levels of the fetches."""
    first_fetch: float | None = None
    """The time of the first fetch, by `time.monotonic()`."""
    refusals: list[int] = field(default_factory=list)
    """The errors of the next fetches or writes."""
    empty_fetches: list[str] = field(default_factory=list)
    """The forms of the next empty fetch responses."""
    response_sizes: list[int] = field(default_factory=list)
    """The values of the size field in the next fetch responses."""
    metadata_faults: list[str] = field(default_factory=list)
    """The faults of the next Metadata responses."""
    group: GroupState = field(default_factory=GroupState)
    """The group, and the transactional id, that has the name of the topic."""
    withholds_records: bool = False
    """True if no records are served after the offset that its group has committed, or after the first one."""
    dropped_responses: int = 0
    """The number of next writes (which are stored) or fetches that close the connection instead of a response."""
    leader: int = NODE_1
    """The id of its leader node."""
    epoch: int = -1
    """The epoch of its leader; -1 if it is not returned."""
    replica: str = ""
    """The state of the replica to which the leader redirects consumers; empty if it does not redirect."""
    leader_change: LeaderChange | None = None
    """The change of its leader at the next fetch or write."""
    log_start: int = 0
    """The first offset that is left, although a client may have received an earlier one."""
    trims_log: bool = False
    """True if the log begins at a later offset from the fetch of the second record on."""
    truncates_log: bool = False
    """True if its leader returns an end of the client's epoch before the records that the client has read."""
    requested_metrics: tuple[str, ...] = ()
    """The metrics that the broker requests from the client."""
    accepted_codecs: tuple[int, ...] = ()
    """The codecs that the broker accepts for them."""
    producer: tuple[int, int] = (0, 0)
    """The id and epoch that the broker returns to a producer of the topic."""
    forgets_offset_of_duplicate: bool = False
    """True if a duplicate batch gets the error DUPLICATE_SEQUENCE_NUMBER."""
    accepted_sequences: AcceptedSequences | None = None
    """The offset of each accepted sequence; the next batch must follow them. None if all sequences are accepted."""
    has_started: bool = False
    """Whether the partition was added to a transaction."""
    produced: list[bytes] = field(default_factory=list)
    """The record sets that the client wrote, in order."""
    on_fetch: Callable[[], object] = lambda: None

    def with_faults(self, kind: ClientScenario) -> Self:
        """Set the faults of a scenario, and return the topic."""
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
        """Close the connection instead of a response, if the scenario requires it. Raises CloseConnection."""
        if self.dropped_responses:
            self.dropped_responses -= 1
            raise CloseConnection("its answer is lost")

    def change_leader(self, offset: int = 0) -> None:
        """Change the leader or its epoch, and trim the log, if a fetch has reached the offset for that."""
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
        """Set the committed offset to the offset at which the client begins."""
        self.committed = self.start

    def is_withheld(self, offset: int) -> bool:
        """Return True if a fetch from an offset gets no records yet."""
        return self.group.serves_nothing or (self.withholds_records and offset > max(self.start, self.committed))

    def fetch(self, offset: int, isolation: int, carried: int = _BATCHES) -> bytes:
        """Return the bytes for a fetch from an offset, with at most this magic; empty if the topic has ended."""
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
        """Return the log; empty if all of it is complete and before the offset at which the client begins."""
        behind = (0 <= last_offset(self.log, at) < self.start for at, _ in extents(self.log) if self._is_whole(at))
        whole = all(self._is_whole(at) for at, _ in extents(self.log))
        return b"" if whole and all(behind) else self.log

    def _from(self, offset: int) -> bytes:
        """Return the log from the first entry on that reaches an offset; empty if no complete entry reaches it."""
        for at, end in extents(self.log):
            if self._is_cut_at(at):
                break  # a broker serves a cut entry only after others
            if last_offset(self.log, at) >= offset:
                return self.log[at:end] if self.one_entry_per_fetch else self.log[at:]
        return b""

    def aborted_transactions(self, offset: int) -> Sequence[dict[str, int]]:
        """Return the aborted transactions for a fetch; if it serves single entries, only those that end later."""
        if not self.one_entry_per_fetch:
            return self.aborted
        markers = [] if not self.aborted else abort_markers(self.log)
        return [
            row
            for row in self.aborted
            if not any(row["ProducerId"] == producer and row["FirstOffset"] <= at < offset for producer, at in markers)
        ]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the leader's last epoch up to `epoch`, and the first offset of the next one, or the log end."""
        if epoch >= self.epoch:
            return epoch, self.high_watermark
        starts = [
            (other, stored_offset(self.log, at))
            for at, _ in extents(self.log)
            if (other := BATCH_LAYOUT.read_field("partitionLeaderEpoch", self.log, at)) >= 0
        ]
        known = max((other for other, _ in starts if other <= epoch), default=epoch)
        return known, min((offset for other, offset in starts if other > epoch), default=self.high_watermark)

    def _is_cut_at(self, at: int) -> bool:
        """Return True if the entry at a byte is longer than the bytes that are left."""
        return at + OVERHEAD + stored_size(self.log, at) > len(self.log)

    def _is_whole(self, at: int) -> bool:
        """Return True if the entry at a byte is complete and has a positive size."""
        return stored_size(self.log, at) > 0 and not self._is_cut_at(at)

    def refetch_text(self, now: float) -> str:
        """Return the offset with the most fetches, and their rate, as text; empty if no offset was fetched twice.

        `now` is a time by `time.monotonic()`.
        """
        offset, times = max(self.fetches.items(), key=lambda item: item[1], default=(0, 0))
        if times < 2 or self.first_fetch is None:
            return ""
        seconds = max(now - self.first_fetch, 0.001)
        return f"fetched offset {offset} {times} times in {seconds:.1f} s, {times / seconds:.1f} a second"


def mock_topic(parts: Request, refetch_limit: float = _REFETCH_LIMIT, *, by_entry: bool = False) -> MockTopic:
    """Return the topic for a `read` request, given its parsed parts."""
    listed = [{"ProducerId": row["producerId"], "FirstOffset": row["firstOffset"]} for row in parts["aborted"]]
    topic = MockTopic(parts["hex"], parts["fetchOffset"], parts["highWatermark"], listed, refetch_limit=refetch_limit)
    topic.one_entry_per_fetch = by_entry
    return topic


def unsupported_read(parts: Request, isolations: Collection[str], carried: int = _BATCHES) -> str:
    """Return why a client with these isolation levels cannot run a `read` request; empty if it can.

    `carried` is the highest magic in the version of Fetch that the client uses.
    """
    if parts["isolation"] not in isolations:
        return f"{parts['isolation']} is not claimed"
    if not parts.get("checkCrcs", True):
        return "the client's own configuration decides if checksums are checked"
    if not 0 <= parts["fetchOffset"] < LAST_OFFSET:
        return f"a client cannot begin at offset {parts['fetchOffset']}"
    if not fits_fetch_version(parts["hex"], carried):
        return f"the client's version of Fetch carries no magic above {carried}"
    return ""


def can_serve_one_entry_per_fetch(parts: Request, expected: Expectation, *, between_guards: bool) -> bool:
    """Return True if single entries must give the same result as the whole log in one fetch, and show more.

    They need not if any place is unspecified, or if a damaged log has an aborted transaction, whose end is then
    unknown. A truncated entry is served only after others. A single entry shows the start of the next fetch, which
    another record in the same response hides. If its records leave no gap, the start follows from them.
    """
    if not isinstance(expected, ExpectConsumerView) or expected.open or expected.view.partial:
        return False
    if len(list(extents(parts["hex"]))) > 1:
        return expected.view.damage is None or not parts["aborted"]
    return between_guards and expected.view.damage is None and not _is_without_gap(expected.view)


def has_legacy_messages(log: bytes) -> bool:
    """Return True if an entry of a log is a message of magic 0 or 1."""
    return any(0 <= stored_magic(log, at) < _BATCHES for at, _ in extents(log))


def fits_fetch_version(log: bytes, newest: int) -> bool:
    """Return True if a version of Fetch that carries no magic above `newest` can carry a log."""
    return newest == _BATCHES or all(stored_magic(log, at) <= newest for at, _ in extents(log))


def _is_without_gap(seen: ConsumerView) -> bool:
    """Return True if the expected records have every offset of a log from the fetch on."""
    offsets = [record["offset"] for record in seen.records]
    return all(found == wanted for found, wanted in zip_longest(offsets, range(seen.fetch_offset, seen.next_offset)))


def last_offset(log: bytes, at: int) -> int:
    """Return the last offset of the entry at a byte, from its header alone."""
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
