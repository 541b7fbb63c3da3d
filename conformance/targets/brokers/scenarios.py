"""Does the steps of a scenario with a broker: identities, batches, transactions, fetches, compaction, a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from conformance import codec
from conformance.cases.model import Answer
from conformance.semantics.scenarios import (
    ALL,
    BEYOND,
    END,
    FILLER,
    START,
    Began,
    Begin,
    Compact,
    Did,
    End,
    Fetch,
    Fetched,
    Listed,
    Producer,
    Restart,
    Send,
    Step,
    Told,
    Write,
    Wrote,
    batch_of,
)
from conformance.semantics.visibility import ISOLATIONS, READ_COMMITTED
from conformance.targets.brokers.connection import Connection, Late, Lost
from conformance.targets.brokers.partition import UNSURE, Partition, Refusal, batches_until, said
from conformance.targets.brokers.topics import NOT_YET
from conformance.targets.live.frames import Garbled, Values

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "min.compaction.lag.ms": "0"}
"""The settings of a topic that the log cleaner goes over."""
_COORDINATOR = frozenset((15, 16, 51)) | NOT_YET
"""Errors of a coordinator that say only "not yet": none, not this one, it is still ending the last transaction."""
_TRANSACTION = 1
"""The kind of coordinator that FindCoordinator is asked for."""
_NAMES_SEVERAL = 4
"""The first version of FindCoordinator that takes several names."""
_ADDED_FIRST = 11
"""The last version of Produce for which a client adds a partition to its transaction itself."""
_PATIENCE = 20.0
"""Seconds for which "not yet" is asked again."""
_SERVED = 3.0
"""Seconds until what was written is served, what was decided is marked, and stands before the last stable offset."""
_CLEANED = 30.0
"""Seconds that the log cleaner may take."""
_PAUSE = 0.05
_YEAR = 365 * 24 * 3600 * 1000
"""Milliseconds: a record so much later begins a new segment, and the cleaner goes over those before it."""
_LATER = 1_700_000_000_000 + _YEAR


class Unplayed(Exception):
    """A step that cannot be done with this broker; the message says why."""


@dataclass(slots=True)
class Play:
    """One scenario, on a partition of its own."""

    partition: Partition
    start: int
    """Where the log ended before it."""
    reach: Callable[[str, int], Connection]
    """The connection to a place. Raises BrokerDown."""
    restart: Callable[[], Partition] | None
    """Restart the broker: the partition again; None where it is not the suite's, or keeps nothing."""
    _producers: dict[str, Producer] = field(default_factory=dict)
    _identities: dict[str, Producer] = field(default_factory=dict)
    """The newest producer of each transactional id."""
    _written: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """Offset and key of each record, by label."""
    _undecided: dict[int, int] = field(default_factory=dict)
    """The end of what a producer id has written in its open transaction."""
    _end: int = 0
    _codes: list[str] = field(default_factory=list)
    """The error codes of the steps that were refused."""

    def do(self, steps: Sequence[Step]) -> Answer:
        """What the broker tells of each step. Raises Unplayed, and as Connection.ask."""
        self._end = self.start
        told = [msgspec.to_builtins(self._did(at, step)) for at, step in enumerate(steps)]
        return {"ok": True, "value": told, "codes": ", ".join(self._codes)}

    def _did(self, at: int, step: Step) -> Told:
        try:
            return self._tried(at, step)
        except Refusal as refusal:
            if refusal.code in UNSURE:
                raise Unplayed(f"step {at}: whether it is done is not told: {refusal}") from None
            self._codes.append(f"step {at}: {refusal.told}")
            return step.tells(refused=str(refusal) or "refused")  # type: ignore[return-value]

    def _tried(self, at: int, step: Step) -> Told:
        match step:
            case Begin():
                return self._begin(step)
            case Write():
                return self._write(at, step)
            case End():
                return self._decide(step)
            case Send():
                return self._send(step)
            case Fetch():
                return self._fetch(step)
            case Compact():
                return self._compact()
            case Restart():
                if self.restart is None:
                    raise Unplayed("a broker is restarted that the suite has started, and that keeps its log")
                self.partition = self.restart()
        return Did()

    # --- producers ------------------------------------------------------------------------------------

    def _begin(self, step: Begin) -> Told:
        named = None if step.transactional_id is None else self._name(step.transactional_id)
        body = {"TransactionalId": named, "TransactionTimeoutMs": 60_000}
        given = self._coordinated(named, "InitProducerId", body, 4)
        _check(given["ErrorCode"])
        producer = Producer(given["ProducerId"], given["ProducerEpoch"], named)
        older = self._identities.get(named or "")
        if older is not None and older.identity in self._undecided:
            self._await_marker(older)
        if named is not None:
            self._identities[named] = producer
        self._producers[step.producer] = producer
        return Began(producer_id=str(producer.identity), producer_epoch=producer.epoch)

    def _name(self, transactional_id: str) -> str:
        """The transactional id that the broker is told: another one for each case."""
        return f"{self.partition.topic.name}-{transactional_id}"

    def _coordinated(self, named: str | None, request: str, body: Values, high: int) -> Values:
        """The answer of the coordinator of a transactional id, of any broker without one, once it is not "not yet"."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            connection = self.partition.connection if named is None else self._coordinator(named)
            answer = connection.ask(request, connection.version(request, high=high), body)
            codes = {code for code in _codes(answer) if code}
            if not codes <= _COORDINATOR or not codes or time.monotonic() > deadline:
                return answer
            time.sleep(_PAUSE)

    def _coordinator(self, named: str) -> Connection:
        connection, deadline = self.partition.connection, time.monotonic() + _PATIENCE
        version = connection.version("FindCoordinator", low=1, high=4)
        while True:
            body: Values = {"KeyType": _TRANSACTION}
            body |= {"CoordinatorKeys": (named,)} if version >= _NAMES_SEVERAL else {"Key": named}
            answer = connection.ask("FindCoordinator", version, body)
            found = next(iter(answer["Coordinators"]), None) if version >= _NAMES_SEVERAL else answer
            if found is None:
                raise Garbled("FindCoordinator: nothing is said of the transactional id")
            if found["ErrorCode"] not in _COORDINATOR or time.monotonic() > deadline:
                _check(found["ErrorCode"])
                return self.reach(found["Host"], found["Port"])
            time.sleep(_PAUSE)

    def _write(self, at: int, step: Write) -> Told:
        producer = self._producers[step.producer] if step.producer else None
        named = producer.transactional_id if producer else None
        if producer and named is not None and not producer.in_transaction:
            self._add(producer, named)
        data = codec.encode("RECORD_BATCH", batch_of(step, at, producer))
        version = self.partition.connection.version("Produce", low=3, high=_ADDED_FIRST)
        offset = self._produced(data, named, version)
        keys: Sequence[str | None] = step.keys or [None] * step.records
        places = enumerate(zip(step.labels(at), keys, strict=True), start=offset)
        self._written.update((label, (place, key)) for place, (label, key) in places)
        self._end = max(self._end, offset + step.records)
        if producer:
            producer.sequence += step.records
            if named is not None:
                self._undecided[producer.identity] = self._end
        return Wrote(offset=str(offset))

    def _add(self, producer: Producer, named: str) -> None:
        """Add the partition to a transaction. Raises Refusal."""
        own: Values = {"TransactionalId": named, "ProducerId": producer.identity, "ProducerEpoch": producer.epoch}
        own["Topics"] = ({"Name": self.partition.topic.name, "Partitions": (0,)},)
        body = {f"V3AndBelow{name}": value for name, value in own.items()}
        answer = self._coordinated(named, "AddPartitionsToTxn", body, 3)
        _check(next((code for code in _codes(answer) if code), 0))
        producer.in_transaction = True

    def _produced(self, data: bytes | None, named: str | None, version: int) -> int:
        """The offset that is told of bytes; a connection that is closed, or silence, refuses them. Raises Refusal."""
        try:
            return self.partition.produce(data, transactional_id=named, version=version)
        except (Lost, Late) as lost:
            self.partition.connection.close()
            topic = self.partition.topic
            self.partition.connection = self.reach(topic.host, topic.port)
            raise Refusal(0, str(lost)) from None

    def _send(self, step: Send) -> Told:
        data = None if step.hex is None else bytes.fromhex(step.hex)
        version = self.partition.connection.version("Produce", low=3, high=_ADDED_FIRST)
        return Wrote(offset=str(self._produced(data, None, version)))

    def _decide(self, step: End) -> Told:
        producer = self._producers[step.producer]
        named = producer.transactional_id
        if named is None:
            raise Unplayed(f"{step.producer} has no transactional id")
        identity = {"ProducerId": producer.identity, "ProducerEpoch": producer.epoch}
        body = {"TransactionalId": named, **identity, "Committed": step.commit}
        _check(self._coordinated(named, "EndTxn", body, 4)["ErrorCode"])
        producer.in_transaction = False
        if producer.identity in self._undecided:
            self._await_marker(producer)
        return Did()

    def _await_marker(self, producer: Producer) -> None:
        """Wait until a control batch of the producer stands behind its last record, or it is too late for one."""
        end, deadline = self._undecided.pop(producer.identity), time.monotonic() + _SERVED
        while time.monotonic() < deadline:
            read = codec.decode("LOG", self._part(end, 0, ALL)["Records"] or b"")
            batches = read.value["batches"] if read.ok else []
            if any(one.get("isControlBatch") and one["producerId"] == producer.identity for one in batches):
                return
            time.sleep(_PAUSE)

    # --- fetches --------------------------------------------------------------------------------------

    def _fetch(self, step: Fetch) -> Told:
        """A fetch; where it asks for all there is, those that follow it too: a broker may serve it a part at a time."""
        isolation = ISOLATIONS.index(step.isolation)
        at = self._place(step.at)
        part = self._settled(at, isolation, step.max_bytes)
        data, listed = part["Records"] or b"", _listed(part)
        is_committed = step.isolation == READ_COMMITTED
        stop = part["LastStableOffset"] if is_committed else part["HighWatermark"]
        data, offset, _ = batches_until(data, at, stop) if step.max_bytes == ALL else (data, stop, True)
        while offset < stop:
            following = self._part(offset, isolation, ALL)
            _check(following["ErrorCode"])
            came, next_offset, _ = batches_until(following["Records"] or b"", offset, stop)
            if next_offset == offset:
                break
            data, offset = data + came, next_offset
            listed += [one for one in _listed(following) if one not in listed]
        return Fetched(
            hex=data.hex(),
            fetch_offset=str(at),
            high_watermark=str(part["HighWatermark"]),
            last_stable_offset=str(part["LastStableOffset"]),
            aborted=listed,
        )

    def _place(self, place: str) -> int:
        """The offset of a place to fetch from."""
        if place in (END, BEYOND):
            return int(self._part(self._end, 0, ALL)["HighWatermark"]) + (place == BEYOND)
        if place != START and place not in self._written:
            raise Unplayed(f"record {place} was not taken")
        return self.start if place == START else self._written[place][0]

    def _settled(self, offset: int, isolation: int, most: int) -> Values:
        """A fetch, once what was written is served and what was decided is stable. Raises Refusal."""
        deadline = time.monotonic() + _SERVED
        while True:
            part = self._part(offset, isolation, most)
            _check(part["ErrorCode"])
            is_stable = isolation == 0 or part["LastStableOffset"] == part["HighWatermark"] or bool(self._undecided)
            if (part["HighWatermark"] >= self._end and is_stable) or time.monotonic() > deadline:
                return part
            time.sleep(_PAUSE)

    def _part(self, offset: int, isolation: int, most: int) -> Values:
        return self.partition.fetched(offset, isolation, most, least=0)

    # --- compaction -----------------------------------------------------------------------------------

    def _compact(self) -> Told:
        """Begin a new segment, and wait until each record is gone whose key has a newer one. Raises Unplayed."""
        plain = {"offset": 0, "attributes": 0, "headers": ()}
        record = {**plain, "timestamp": _LATER, "key": FILLER, "value": FILLER}
        batch = {**batch_of(Write(), 0, None), "records": (record,)}
        self._end = max(self._end, self.partition.produce(codec.encode("RECORD_BATCH", batch)) + 1)
        last = {key: at for at, key in sorted(self._written.values())}
        superseded = {at for at, key in self._written.values() if at != last[key]}
        deadline = time.monotonic() + _CLEANED
        while superseded & self._served():
            if time.monotonic() > deadline:
                raise Unplayed(f"the log cleaner did not come within {_CLEANED:g} s")
            time.sleep(_PAUSE)
        return Did()

    def _served(self) -> set[int]:
        """The offsets of the records that are served."""
        read = codec.decode("LOG", self._part(self.start, 0, ALL)["Records"] or b"")
        return {record["offset"] for one in read.value["batches"] for record in one["records"]} if read.ok else set()


def _codes(answer: Values) -> list[int]:
    """Every error code of an answer of a coordinator."""
    topics = answer.get("ResultsByTopicV3AndBelow") or ()
    parts = [part["PartitionErrorCode"] for topic in topics for part in topic["ResultsByPartition"]]
    return [answer.get("ErrorCode", 0), *parts]


def _check(code: int) -> None:
    """Raise Refusal for an error."""
    if code:
        raise Refusal(code, said(code))


def _listed(part: Values) -> list[Listed]:
    """The aborted transactions that a fetch lists."""
    return [Listed(str(one["ProducerId"]), str(one["FirstOffset"])) for one in part.get("AbortedTransactions") or ()]
