"""Faults of brokers in the records that they store and serve, as appends and broker scenarios show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from conformance import codec
from conformance.cases.append import BATCHES
from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.codec.message_set import encode_set
from conformance.selftest.mutators import Mutator, on
from conformance.selftest.mutators.requests import change_other_partitions, store_max_timestamp, with_broker
from conformance.selftest.seeded_fault import SeededFault
from conformance.semantics.broker_steps import Fetch, FetchResult, InitProducerIdResult, RetryProduce, Step, StepResult
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.semantics.format_conversion import convert
from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.reference_broker import ReferenceBroker
from conformance.targets.reference import answer as correct_answer

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


class _MisreportsResults(ReferenceBroker):
    """A broker that reports other results of its steps."""

    change: Callable[[Step, StepResult], StepResult] = lambda _, result: result

    def play(self, steps: Sequence[Step]) -> list[StepResult]:
        """Return the changed results."""
        results = ReferenceBroker.play(self, steps)
        return [self.change(step, result) for step, result in zip(steps, results, strict=True)]


def _misreport(change: Callable[[Step, Value], Values]) -> Mutator:
    """Report other fields of the result of a step, given the step and the result."""
    return with_broker(lambda: _MisreportsResults(change=lambda step, one: replace(one, **change(step, one))))


def _report(form: type[StepResult], change: Callable[[Value], Values]) -> Mutator:
    """Report other fields of accepted results of this class."""
    return _misreport(lambda _, result: change(result) if isinstance(result, form) and not result.refused else {})


def _next_offset_of_retry(step: Step, result: Value) -> Values:
    return {"offset": str(int(result.offset) + 1)} if isinstance(step, RetryProduce) else {}


def _serve(before: int, change: Callable[[bytes], bytes]) -> Mutator:
    """Serve other bytes to fetches of versions before one."""

    def served(step: Step, result: Value) -> Values:
        is_old = isinstance(step, Fetch) and step.version is not None and step.version < before
        is_changed = is_old and isinstance(result, FetchResult) and result.hex
        return {"hex": change(bytes.fromhex(result.hex)).hex()} if is_changed else {}

    return _misreport(served)


def _to_magic_1(data: bytes) -> bytes:
    return encode_set([{"timestamp": 0, **one} for one in codec.decode("MESSAGE_SET", data).value], 1, 0)


def _partition(name: str, source: str, description: str, mutate: Mutator, area: str = "scenarios") -> SeededFault:
    return SeededFault(f"partition/{name}", area, description, source, mutate, (source,))


@on("append", when=lambda request, _: "fetchVersion" in request)
def _ignore_fetch_version(request: Request, _: Answer) -> Answer:
    return correct_answer({name: part for name, part in request.items() if name != "fetchVersion"})


PARTITIONS = (
    _partition(
        "delete-horizon-at-once",
        "delete-horizon.set-by-compaction",
        "the log cleaner uses its own time as the delete horizon",
        with_broker(lambda: ReferenceBroker(_CompactsImmediately())),
    ),
    _partition(
        "serves-the-undecided",
        "broker.holds-back-undecided",
        "a broker serves records after the last stable offset under read_committed",
        with_broker(lambda: ReferenceBroker(_ServesUncommitted())),
    ),
    _partition(
        "marker-without-value",
        "broker.marks-transactions",
        "a broker writes markers whose value is null",
        with_broker(lambda: ReferenceBroker(_WritesOtherMarker(value=None))),
    ),
    _partition(
        "marker-of-no-version",
        "broker.marks-transactions",
        "a broker writes markers with a negative version",
        with_broker(lambda: ReferenceBroker(_WritesOtherMarker(value=b"\x80\0\0\0\0\0"))),
    ),
    _partition(
        "no-epoch",
        "producer-id.assigned-by-broker",
        "a broker assigns the producer epoch -1",
        _report(InitProducerIdResult, lambda _: {"producer_epoch": -1}),
    ),
    _partition(
        "one-epoch-for-all-instances",
        "producer-epoch.fences",
        "a broker assigns the same epoch to each instance of a producer",
        _report(InitProducerIdResult, lambda _: {"producer_epoch": 0}),
    ),
    _partition(
        "high-watermark-of-the-last-record",
        "broker.serves-from-offset",
        "a broker reports the offset of the last record as its high watermark",
        _report(FetchResult, lambda result: {"high_watermark": str(int(result.high_watermark) - 1)}),
    ),
    _partition(
        "wrapped-repeat-takes-a-place",
        "sequence.wraps-at-int32-max",
        "a broker reports another offset for a duplicate batch whose sequences wrap",
        _misreport(_next_offset_of_retry),
    ),
    _partition(
        "log-begins-at-zero",
        "broker.tells-log-start",
        "a fetch response reports log start offset 0, whatever it is",
        _report(FetchResult, lambda _: {"log_start": "0"}),
    ),
    _partition(
        "batches-for-old-consumers",
        "convert.down-for-old-consumers",
        "a broker serves batches to fetch versions that need messages",
        _serve(4, lambda data: convert(data, BATCHES, 0)),
    ),
    _partition(
        "timestamps-for-the-oldest-consumers",
        "convert.down-for-old-consumers",
        "a broker serves messages with magic 1 to fetch versions that need magic 0",
        _serve(2, _to_magic_1),
    ),
    _partition(
        "offset-for-what-is-refused",
        "broker.tells-each-partition",
        "a broker returns an offset for data that it rejects in another partition",
        change_other_partitions(lambda _: {"baseOffset": "0", "hex": ""}),
        "appends",
    ),
    _partition(
        "serves-what-is-refused",
        "broker.tells-each-partition",
        "a broker rejects data in another partition, but serves it",
        change_other_partitions(lambda _: {"baseOffset": "-1", "hex": "00"}),
        "appends",
    ),
    _partition(
        "batches-for-old-fetches",
        "convert.down-for-old-consumers",
        "a broker serves an old fetch version without conversion",
        _ignore_fetch_version,
        "appends",
    ),
    _partition(
        "append-time-below-zero",
        "timestamp.log-append-overwritten",
        "a broker writes -1 as LogAppendTime",
        store_max_timestamp(-1, lambda request, _: request.get("timestampType") == "LogAppendTime"),
        "appends",
    ),
)
