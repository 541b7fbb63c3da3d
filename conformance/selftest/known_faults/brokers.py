"""Defects of brokers: what a partition holds and serves, as appends and the steps of a scenario show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from conformance import codec
from conformance.cases.append import BATCHES, OTHERS
from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.codec.message_set import encode_set
from conformance.codec.record_batch import BATCH_LAYOUT, stored_magic, with_checksums
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_faults.broker_scenario import plays
from conformance.selftest.seeded_fault import SeededFault
from conformance.semantics.broker_steps import Fetch, FetchResult, InitProducerIdResult, RetryProduce, Step, Told
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.semantics.format_conversion import convert
from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.reference_broker import ReferenceBroker
from conformance.targets.reference import answer as honest

_DAY = 86_400_000


class _CompactsImmediately(PartitionLog):
    def compact(self, horizon: int, *, tombstones: bool) -> None:
        PartitionLog.compact(self, horizon - _DAY, tombstones=tombstones)


class _ServesUncommitted(PartitionLog):
    def fetch(self, offset: int, _: str, most: int) -> bytes:
        return PartitionLog.fetch(self, offset, ISOLATIONS[0], most)


class _WritesOtherMarker(PartitionLog):
    value: bytes | None = None

    def append(self, batch: Values) -> int:
        if batch["isControlBatch"]:
            batch = {**batch, "records": tuple({**one, "value": self.value} for one in batch["records"])}
        return PartitionLog.append(self, batch)


def _as_it_is(_: Step, told: Told) -> Told:
    return told


class _MisreportsResults(ReferenceBroker):
    """A broker that tells otherwise what it did."""

    change: Callable[[Step, Told], Told] = _as_it_is

    def play(self, steps: Sequence[Step]) -> list[Told]:
        """What it tells of each step."""
        return [self.change(step, told) for step, told in zip(steps, ReferenceBroker.play(self, steps), strict=True)]


def _tells(form: type[Told], change: Callable[[Value], Values]) -> Mutator:
    """Tell other parts of what a broker says in this form, and did not refuse."""

    def changed(_: Step, told: Told) -> Told:
        return replace(told, **change(told)) if isinstance(told, form) and not told.refused else told

    return plays(lambda: _MisreportsResults(change=changed))


def _once_more(step: Step, told: Told) -> Told:
    return replace(told, offset=str(int(told.offset) + 1)) if isinstance(step, RetryProduce) else told  # type: ignore[union-attr]


def _serves(before: int, change: Callable[[bytes], bytes]) -> Mutator:
    """Serve other bytes to fetches of versions before one."""

    def served(step: Step, told: Told) -> Told:
        is_old = isinstance(step, Fetch) and step.version is not None and step.version < before
        if not is_old or not isinstance(told, FetchResult) or not told.hex:
            return told
        return replace(told, hex=change(bytes.fromhex(told.hex)).hex())

    return plays(lambda: _MisreportsResults(change=served))


def _with_timestamps(data: bytes) -> bytes:
    """Messages of magic 1 in the place of those of magic 0."""
    return encode_set([{"timestamp": 0, **one} for one in codec.decode("MESSAGE_SET", data).value], 1, 0)


def _partition(name: str, source: str, says: str, bend: Mutator) -> SeededFault:
    return SeededFault(f"partition/{name}", "scenarios", says, source, bend, (source,))


def _append(name: str, source: str, says: str, bend: Mutator) -> SeededFault:
    return SeededFault(f"partition/{name}", "appends", says, source, bend, (source,))


def _beside(told: Values) -> Mutator:
    """Tell this of the other partitions of a request."""
    return lambda request, answer: (
        {**answer, "value": {**answer["value"], "otherPartitions": [told] * OTHERS}}
        if "otherPartitions" in request
        else answer
    )


def _as_to_all(request: Request, answer: Answer) -> Answer:
    """Serve what a fetch of the newest version gets."""
    is_asked = request["op"] == "append" and answer["ok"] and "fetchVersion" in request
    return honest({name: part for name, part in request.items() if name != "fetchVersion"}) if is_asked else answer


def _untimed(request: Request, answer: Answer) -> Answer:
    """Serve a batch that says that its time is that of the append, -1."""
    if request["op"] != "append" or not answer["ok"] or request.get("timestampType") != "LogAppendTime":
        return answer
    data = bytes.fromhex(answer["hex"])
    if stored_magic(data) < BATCHES:
        return answer
    return {**answer, "hex": with_checksums(BATCH_LAYOUT.with_field("maxTimestamp", data, -1)).hex()}


PARTITIONS = (
    _partition(
        "delete-horizon-at-once",
        "delete-horizon.set-by-compaction",
        "the log cleaner takes the time at which it comes for the delete horizon",
        plays(lambda: ReferenceBroker(_CompactsImmediately())),
    ),
    _partition(
        "serves-the-undecided",
        "broker.holds-back-undecided",
        "a broker tells the last stable offset, and serves what stands behind it, too",
        plays(lambda: ReferenceBroker(_ServesUncommitted())),
    ),
    _partition(
        "marker-without-value",
        "broker.marks-transactions",
        "a broker writes markers whose value is null",
        plays(lambda: ReferenceBroker(_WritesOtherMarker(value=None))),
    ),
    _partition(
        "marker-of-no-version",
        "broker.marks-transactions",
        "a broker writes markers whose version is below 0",
        plays(lambda: ReferenceBroker(_WritesOtherMarker(value=b"\x80\0\0\0\0\0"))),
    ),
    _partition(
        "no-epoch",
        "producer-id.assigned-by-broker",
        "a broker gives a producer the epoch -1",
        _tells(InitProducerIdResult, lambda _: {"producer_epoch": -1}),
    ),
    _partition(
        "one-epoch-for-all-instances",
        "producer-epoch.fences",
        "a broker gives each instance of a producer the same epoch",
        _tells(InitProducerIdResult, lambda _: {"producer_epoch": 0}),
    ),
    _partition(
        "high-watermark-of-the-last-record",
        "broker.serves-from-offset",
        "a broker tells the offset of the last record as its high watermark",
        _tells(FetchResult, lambda told: {"high_watermark": str(int(told.high_watermark) - 1)}),
    ),
    _partition(
        "wrapped-repeat-takes-a-place",
        "sequence.wraps-at-int32-max",
        "a broker does not know a batch again in which the sequences wrap, and tells another offset of it",
        plays(lambda: _MisreportsResults(change=_once_more)),
    ),
    _partition(
        "log-begins-at-zero",
        "broker.tells-log-start",
        "a fetch tells that the log begins at offset 0, wherever it does",
        _tells(FetchResult, lambda _: {"log_start": "0"}),
    ),
    _partition(
        "batches-for-old-consumers",
        "convert.down-for-old-consumers",
        "a broker serves batches to fetches of versions that carry messages",
        _serves(4, lambda data: convert(data, BATCHES, 0)),
    ),
    _partition(
        "timestamps-for-the-oldest-consumers",
        "convert.down-for-old-consumers",
        "a broker serves messages of magic 1 to fetches of versions that carry magic 0",
        _serves(2, _with_timestamps),
    ),
    _append(
        "offset-for-what-is-refused",
        "broker.tells-each-partition",
        "a broker gives an offset to data that it refuses in another partition",
        _beside({"baseOffset": "0", "hex": ""}),
    ),
    _append(
        "serves-what-is-refused",
        "broker.tells-each-partition",
        "a broker tells that data is refused in another partition, and serves it",
        _beside({"baseOffset": "-1", "hex": "00"}),
    ),
    _append(
        "batches-for-old-fetches",
        "convert.down-for-old-consumers",
        "a broker serves an old fetch what it stores",
        _as_to_all,
    ),
    _append(
        "append-time-below-zero",
        "timestamp.log-append-overwritten",
        "a broker writes -1 for the time of the append",
        _untimed,
    ),
)
"""Defects of a broker's partition."""
