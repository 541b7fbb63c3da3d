"""Steps of clients on one partition of a broker, in order, and the broker's result of each step.

The value of a record that a step writes is a label: `2.0` is the first record of the third step.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Struct

from conformance.codec.builders import batch
from conformance.codec.derived_fields import Values
from conformance.codec.json_notation import NotationError

Number = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,19}$")]
"""An INT64 in decimal digits."""
_Index = Annotated[int, msgspec.Meta(ge=0)]
_Hex = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")]

START, END, BEYOND_END = "start", "end", "beyond"
"""Places to fetch from: the start of the partition for this case, its end, and one offset after the end."""


FILLER_VALUE = b"filler"
"""The value of records in a log that belong to no step."""
MAX_BYTES = 64 << 20
"""Bytes of a fetch that requests the whole log."""
BASE_TIME_MS = 1_700_000_000_000
"""A time in milliseconds since 1970, for records without a stated time."""
SEQUENCES = 1 << 31
"""The number of sequence numbers; 0 follows the last one."""
_DAY = 86_400_000
_PLACE = r"[0-9]+\.[0-9]+"


class _StepResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A broker's result of a step; `refused` is the error, if the broker returned one."""

    refused: str = ""


class InitProducerIdResult(_StepResult, frozen=True):
    """The identity that a broker gave to a producer."""

    producer_id: Number = "-1"
    producer_epoch: int = -1


class ProduceResult(_StepResult, frozen=True):
    """The offset that a broker returned for a batch, and the time of its writing in milliseconds since 1970."""

    offset: Number = "-1"
    time: Number = str(BASE_TIME_MS)
    answered: bool = False
    """True if the broker answered a request that wants no answer; `offset` is then the end of the log before it."""


class StepDone(_StepResult, frozen=True):
    """A step without further results."""


class ListedTransaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An entry of the list of aborted transactions."""

    producer_id: Number
    first_offset: Number


def listed_in(part: Values) -> list[ListedTransaction]:
    """Return the aborted transactions in a partition of a fetch response."""
    return [
        ListedTransaction(str(one["ProducerId"]), str(one["FirstOffset"]))
        for one in part.get("AbortedTransactions") or ()
    ]


class FetchResult(_StepResult, frozen=True):
    """The result of a fetch."""

    hex: _Hex = ""
    fetch_offset: Number = "0"
    high_watermark: Number = "-1"
    last_stable_offset: Number = "-1"
    """-1 if the version of the fetch does not have it."""
    log_start: Number = "-1"
    """-1 if the version of the fetch does not have it."""
    aborted: list[ListedTransaction] = []


class DeleteRecordsResult(_StepResult, frozen=True):
    """The start of the log after the deletion of records, as the broker returned it."""

    low_watermark: Number = "-1"


class ListOffsetsResult(_StepResult, frozen=True):
    """A requested offset; for a request by time, also the time of the record, or -1."""

    offset: Number = "-1"
    time: Number = "-1"


class CompactionResult(_StepResult, frozen=True):
    """The start of the wait for the log cleaner, in milliseconds since 1970 by the client's clock."""

    since: Number = "-1"


class _Step(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", omit_defaults=True, rename="camel"
):
    """A step; `result_type` is the type of its result."""

    result_type: ClassVar[type[_StepResult]] = StepDone


class InitProducerId(_Step, frozen=True, tag="init-producer-id"):
    """A producer requests its identity; two with the same transactional id are instances of one."""

    producer: str
    transactional_id: str | None = None
    """None for an idempotent producer without transactions."""
    sequence: Annotated[int, msgspec.Meta(ge=0, lt=SEQUENCES)] = 0
    """The sequence of its first record; a broker may accept or reject another one than 0."""
    result_type: ClassVar[type[_StepResult]] = InitProducerIdResult


class Produce(_Step, frozen=True, tag="produce"):
    """A batch; without a producer, it has no producer identity."""

    producer: str = ""
    records: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    keys: list[str] = []
    """The key of each record; if empty, the records have no keys."""
    tombstones: bool = False
    """True if the records have null values, which delete their keys."""
    times: list[Annotated[int, msgspec.Meta(ge=0, le=_DAY)]] = []
    """Milliseconds from the beginning of the case to the time of each record. If empty, a record has its time of
    writing, and each record is a millisecond later than the one before."""
    acks: Literal[-1, 0] = -1
    """0 if the producer wants no answer."""
    result_type: ClassVar[type[_StepResult]] = ProduceResult

    @property
    def needs_response(self) -> bool:
        """True if the producer reads an answer."""
        return self.acks != 0

    def labels(self, at: int) -> list[str]:
        """Return the labels of its records, for the index of the step."""
        return [f"{at}.{index}" for index in range(self.records)]


class RetryProduce(_Step, frozen=True, tag="retry"):
    """The batch of an earlier step again, as a producer sends it that received no answer."""

    step: _Index
    result_type: ClassVar[type[_StepResult]] = ProduceResult


class EndTransaction(_Step, frozen=True, tag="end-transaction"):
    """A producer commits or aborts its transaction."""

    producer: str
    commit: bool


class ProduceRawBytes(_Step, frozen=True, tag="produce-raw"):
    """Bytes or null instead of record data; a broker may accept or reject them."""

    hex: _Hex | None
    result_type: ClassVar[type[_StepResult]] = ProduceResult


class Fetch(_Step, frozen=True, tag="fetch"):
    """A fetch from a place: `start`, `end`, `beyond`, or the label of a record, with a limit of bytes."""

    at: Annotated[str, msgspec.Meta(pattern=rf"^({START}|{END}|{BEYOND_END}|{_PLACE})$")] = START
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    max_bytes: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)] = MAX_BYTES
    version: Annotated[int, msgspec.Meta(ge=0, lt=4)] | None = None
    """A version of Fetch that carries only messages; None for the newest version that both sides support."""
    result_type: ClassVar[type[_StepResult]] = FetchResult


class DeleteRecords(_Step, frozen=True, tag="delete"):
    """The deletion of all records before a place: the end, or the label of a record."""

    before: Annotated[str, msgspec.Meta(pattern=rf"^({END}|{_PLACE})$")]
    result_type: ClassVar[type[_StepResult]] = DeleteRecordsResult


class ListOffsets(_Step, frozen=True, tag="list-offsets"):
    """A client requests the first or last offset of the log, or the offset of the first record from a time on."""

    offset: Literal["earliest", "latest"] | None = None
    time: Annotated[int, msgspec.Meta(ge=0, le=_DAY)] | None = None
    """Milliseconds from the beginning of the case."""
    result_type: ClassVar[type[_StepResult]] = ListOffsetsResult


class Compact(_Step, frozen=True, tag="compact"):
    """The log cleaner compacts everything that was written; the topic is a compacted one."""

    tombstones: bool = False
    """True if it also removes records with a null value, because the topic keeps them for no time."""
    result_type: ClassVar[type[_StepResult]] = CompactionResult


class RollSegment(_Step, frozen=True, tag="roll-segment"):
    """The log begins a new segment, because a record arrives with a much later time."""


class ExpireByRetention(_Step, frozen=True, tag="expire"):
    """Everything that was written exceeds the retention time of the topic and is deleted."""


class RestartBroker(_Step, frozen=True, tag="restart"):
    """The broker shuts down in the regular way and starts again."""


Step = (
    InitProducerId
    | Produce
    | RetryProduce
    | EndTransaction
    | ProduceRawBytes
    | Fetch
    | DeleteRecords
    | ListOffsets
    | Compact
    | RollSegment
    | ExpireByRetention
    | RestartBroker
)
StepResult = (
    InitProducerIdResult
    | ProduceResult
    | StepDone
    | FetchResult
    | DeleteRecordsResult
    | ListOffsetsResult
    | CompactionResult
)


def parsed_steps(given: object) -> tuple[Step, ...]:
    """Return the steps of a request. Raises NotationError with the place."""
    try:
        steps = msgspec.convert(given, list[Step])
    except msgspec.ValidationError as error:
        raise NotationError(str(error)) from None
    places, producers = {START, END, BEYOND_END}, {""}
    for at, step in enumerate(steps):
        if isinstance(step, InitProducerId):
            producers.add(step.producer)
        if problem := _problem(step, steps[:at], places, producers):
            raise NotationError(f"step {at}: {problem}")
        if isinstance(step, Produce):
            places.update(step.labels(at))
    return tuple(steps)


def _problem(step: Step, before: Sequence[Step], places: Container[str], producers: Container[str]) -> str:
    """Return the problem of a step after others, which wrote records and began producers; empty if it is valid."""
    match step:
        case Produce() | EndTransaction() if step.producer not in producers:
            return f"producer {step.producer!r} has no init-producer-id step before"
        case Produce():
            return _problem_of_batch(step)
        case ListOffsets() if (step.offset is None) == (step.time is None):
            return "expected either offset or time"
        case ListOffsets() if step.time is not None and not any(
            isinstance(one, Produce) and one.times for one in before
        ):
            return "a request by time needs an earlier batch with times"
        case ListOffsets() if step.time is not None and any(isinstance(one, RollSegment) for one in before):
            return "a request by time cannot follow roll-segment, whose record is later"
        case Fetch() if step.at not in places:
            return f"no record {step.at} was written before"
        case DeleteRecords() if step.before not in places:
            return f"no record {step.before} was written before"
        case RetryProduce() if not any(
            isinstance(one, Produce) and one.producer for one in before[step.step : step.step + 1]
        ):
            return f"step {step.step} is not a batch of a producer"
    return ""


def _problem_of_batch(step: Produce) -> str:
    """Return the problem of a batch by itself; empty if it is valid."""
    if step.keys and len(step.keys) != step.records:
        return f"found {len(step.keys)} keys for {step.records} records"
    if step.times and len(step.times) != step.records:
        return f"found {len(step.times)} times for {step.records} records"
    if step.producer and not step.needs_response:
        return "acks is 0, expected -1 for a producer with an identity"
    return "a tombstone needs a key" if step.tombstones and not step.keys else ""


def step_text(step: Step) -> str:
    """Return a step in words."""
    name = str(type(step).__struct_config__.tag)
    return (
        f"{name} of {step.producer}"
        if isinstance(step, InitProducerId | Produce | EndTransaction) and step.producer
        else name
    )


def rendered_steps(steps: Sequence[Step]) -> list[Values]:
    """Return the steps in the notation of a request."""
    return [msgspec.to_builtins(step) for step in steps]


def parsed_results(steps: Sequence[Step], given: object) -> list[StepResult]:
    """Return the broker's results, one for each step. Raises NotationError."""
    if not isinstance(given, list) or len(given) != len(steps):
        raise NotationError(f"value: expected an entry for each of {len(steps)} steps, found {given!r:.80}")
    results = []
    for at, (step, entry) in enumerate(zip(steps, given, strict=True)):
        try:
            results.append(msgspec.convert(entry, step.result_type))
        except msgspec.ValidationError as error:
            raise NotationError(f"value[{at}]: {error}") from None
    return results  # type: ignore[return-value]


class ProducerIdentity(Struct):
    """A producer as its own side knows it."""

    identity: int
    epoch: int
    transactional_id: str | None
    sequence: int = 0
    in_transaction: bool = False
    has_written: bool = False

    def wrote(self, records: int) -> None:
        """Advance by the records of an accepted batch."""
        self.sequence = (self.sequence + records) % SEQUENCES
        self.has_written = True


def batch_of(step: Produce, at: int, producer: ProducerIdentity | None, time: int = BASE_TIME_MS) -> Values:
    """Return the batch of the step at an index, as a RECORD_BATCH value (record-batch#batch-header-fields)."""
    keys: Sequence[str | None] = step.keys or [None] * step.records
    times: Sequence[int] = step.times or range(step.records)
    records = tuple(
        {
            **{"offset": index, "timestamp": time + after, "attributes": 0, "headers": ()},
            **{"key": None if key is None else key.encode(), "value": None if step.tombstones else label.encode()},
        }
        for index, (key, label, after) in enumerate(zip(keys, step.labels(at), times, strict=True))
    )
    if producer is None:
        return batch(records)
    return batch(
        records,
        isTransactional=producer.transactional_id is not None,
        producerId=producer.identity,
        producerEpoch=producer.epoch,
        baseSequence=producer.sequence,
    )
