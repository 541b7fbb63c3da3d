"""Steps that clients of a broker take one after the other on one partition, and what it tells of each.

A record that a step writes has a label as its value: `2.0` is the first record of the third step.
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
"""Places to fetch from: where the partition began for this case, where it ends, and one offset after that."""


FILLER_VALUE = b"filler"
"""The value of records that stand in a log and belong to no step."""
MAX_BYTES = 64 << 20
"""Bytes of a fetch that asks for all there is."""
BASE_TIME_MS = 1_700_000_000_000
"""A time in milliseconds since 1970, for records that nobody says more about."""
SEQUENCES = 1 << 31
"""So many sequences there are: 0 follows the last."""
_DAY = 86_400_000
_PLACE = r"[0-9]+\.[0-9]+"


class _StepResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """What a broker tells of a step; `refused` says how, where it refused it."""

    refused: str = ""


class InitProducerIdResult(_StepResult, frozen=True):
    """The identity that a broker gave to a producer."""

    producer_id: Number = "-1"
    producer_epoch: int = -1


class ProduceResult(_StepResult, frozen=True):
    """The offset that a broker told of a batch, and the time of its writing, in milliseconds since 1970."""

    offset: Number = "-1"
    time: Number = str(BASE_TIME_MS)
    answered: bool = False
    """Whether there is an answer to what asks for none; the offset is that at which the log ended, then."""


class StepDone(_StepResult, frozen=True):
    """Nothing but that it was done."""


class ListedTransaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An entry of the list of aborted transactions."""

    producer_id: Number
    first_offset: Number


def listed_in(part: Values) -> list[ListedTransaction]:
    """The aborted transactions that a fetch lists, by what its response says of the partition."""
    return [
        ListedTransaction(str(one["ProducerId"]), str(one["FirstOffset"]))
        for one in part.get("AbortedTransactions") or ()
    ]


class FetchResult(_StepResult, frozen=True):
    """What a fetch brought."""

    hex: _Hex = ""
    fetch_offset: Number = "0"
    high_watermark: Number = "-1"
    last_stable_offset: Number = "-1"
    """-1 where the version of the fetch does not tell it."""
    log_start: Number = "-1"
    """Likewise."""
    aborted: list[ListedTransaction] = []


class DeleteRecordsResult(_StepResult, frozen=True):
    """Where the log begins now, as a broker tells of records that it has deleted."""

    low_watermark: Number = "-1"


class ListOffsetsResult(_StepResult, frozen=True):
    """An offset that a broker was asked for; of one that a time was asked for, the time of its record, or -1."""

    offset: Number = "-1"
    time: Number = "-1"


class CompactionResult(_StepResult, frozen=True):
    """When the log cleaner was waited for, in milliseconds since 1970 by the client's clock."""

    since: Number = "-1"


class _Step(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", omit_defaults=True, rename="camel"
):
    """A step; `tells` is the form of what a broker tells of it."""

    tells: ClassVar[type[_StepResult]] = StepDone


class InitProducerId(_Step, frozen=True, tag="init-producer-id"):
    """A producer asks for its identity; two of the same transactional id are instances of one."""

    producer: str
    transactional_id: str | None = None
    """None: an idempotent producer without transactions."""
    sequence: Annotated[int, msgspec.Meta(ge=0, lt=SEQUENCES)] = 0
    """That of its first record; whether a broker takes another one than 0 is open."""
    tells: ClassVar[type[_StepResult]] = InitProducerIdResult


class Produce(_Step, frozen=True, tag="produce"):
    """A batch; without a producer, one that has no identity."""

    producer: str = ""
    records: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    keys: list[str] = []
    """The key of each record; without them records have none."""
    tombstones: bool = False
    """Whether the records have null for a value: they delete their keys."""
    times: list[Annotated[int, msgspec.Meta(ge=0, le=_DAY)]] = []
    """Milliseconds from the beginning of the case to the time of each record; without them a record has that of its
    writing, and each a millisecond more than the one before it."""
    acks: Literal[-1, 0] = -1
    """0: the producer wants no answer."""
    tells: ClassVar[type[_StepResult]] = ProduceResult

    @property
    def wants_answer(self) -> bool:
        """Whether the producer reads one."""
        return self.acks != 0

    def labels(self, at: int) -> list[str]:
        """The labels of its records, the step standing at an index."""
        return [f"{at}.{index}" for index in range(self.records)]


class RetryProduce(_Step, frozen=True, tag="retry"):
    """The batch of an earlier step once more, as a producer sends it that had no answer."""

    step: _Index
    tells: ClassVar[type[_StepResult]] = ProduceResult


class EndTransaction(_Step, frozen=True, tag="end-transaction"):
    """A producer commits or aborts its transaction."""

    producer: str
    commit: bool


class ProduceRawBytes(_Step, frozen=True, tag="produce-raw"):
    """Bytes in the place of record data, or null; whether a broker takes them is open."""

    hex: _Hex | None
    tells: ClassVar[type[_StepResult]] = ProduceResult


class Fetch(_Step, frozen=True, tag="fetch"):
    """A fetch from a place: `start`, `end`, `beyond`, or the label of a record; so many bytes, or all there are."""

    at: Annotated[str, msgspec.Meta(pattern=rf"^({START}|{END}|{BEYOND_END}|{_PLACE})$")] = START
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    max_bytes: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)] = MAX_BYTES
    version: Annotated[int, msgspec.Meta(ge=0, lt=4)] | None = None
    """A version of Fetch that carries messages alone; None for the newest that both sides speak."""
    tells: ClassVar[type[_StepResult]] = FetchResult


class DeleteRecords(_Step, frozen=True, tag="delete"):
    """All records before a place are deleted: the end, or the label of a record."""

    before: Annotated[str, msgspec.Meta(pattern=rf"^({END}|{_PLACE})$")]
    tells: ClassVar[type[_StepResult]] = DeleteRecordsResult


class ListOffsets(_Step, frozen=True, tag="list-offsets"):
    """A client asks for the offset at which the log begins, or ends, or for that of the first record from a time on."""

    offset: Literal["earliest", "latest"] | None = None
    time: Annotated[int, msgspec.Meta(ge=0, le=_DAY)] | None = None
    """Milliseconds from the beginning of the case."""
    tells: ClassVar[type[_StepResult]] = ListOffsetsResult


class Compact(_Step, frozen=True, tag="compact"):
    """The log cleaner goes over all that was written; the topic is a compacted one."""

    tombstones: bool = False
    """Whether it removes records with a null value too: they are kept for no time in the topic."""
    tells: ClassVar[type[_StepResult]] = CompactionResult


class RollSegment(_Step, frozen=True, tag="roll-segment"):
    """The log goes on in a new segment: a record comes that is so much later that a broker begins one."""


class ExpireByRetention(_Step, frozen=True, tag="expire"):
    """All that was written is older than the topic keeps it, and goes."""


class RestartBroker(_Step, frozen=True, tag="restart"):
    """The broker shuts down as its operator would have it, and comes back."""


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
Told = (
    InitProducerIdResult
    | ProduceResult
    | StepDone
    | FetchResult
    | DeleteRecordsResult
    | ListOffsetsResult
    | CompactionResult
)


def parsed_steps(given: object) -> tuple[Step, ...]:
    """The steps of a request. Raises NotationError, which names the place."""
    try:
        steps = msgspec.convert(given, list[Step])
    except msgspec.ValidationError as error:
        raise NotationError(str(error)) from None
    places, begun = {START, END, BEYOND_END}, {""}
    for at, step in enumerate(steps):
        if isinstance(step, InitProducerId):
            begun.add(step.producer)
        if problem := _problem(step, steps[:at], places, begun):
            raise NotationError(f"step {at}: {problem}")
        if isinstance(step, Produce):
            places.update(step.labels(at))
    return tuple(steps)


def _problem(step: Step, before: Sequence[Step], places: Container[str], begun: Container[str]) -> str:
    """What is wrong with a step behind others, which have written records and begun producers; empty for nothing."""
    match step:
        case Produce() | EndTransaction() if step.producer not in begun:
            return f"producer {step.producer!r} has not begun"
        case Produce():
            return _problem_of_batch(step)
        case ListOffsets() if (step.offset is None) == (step.time is None):
            return "one of offset and time is asked for"
        case ListOffsets() if step.time is not None and not any(
            isinstance(one, Produce) and one.times for one in before
        ):
            return "a time is asked for, and no record was written at one"
        case ListOffsets() if step.time is not None and any(isinstance(one, RollSegment) for one in before):
            return "a time is asked for, and what begins a segment is later than all"
        case Fetch() if step.at not in places:
            return f"no record {step.at} was written before"
        case DeleteRecords() if step.before not in places:
            return f"no record {step.before} was written before"
        case RetryProduce() if not any(
            isinstance(one, Produce) and one.producer for one in before[step.step : step.step + 1]
        ):
            return f"no producer wrote a batch in step {step.step}"
    return ""


def _problem_of_batch(step: Produce) -> str:
    """What is wrong with a batch, whatever was before it; empty for nothing."""
    if step.keys and len(step.keys) != step.records:
        return f"{len(step.keys)} keys for {step.records} records"
    if step.times and len(step.times) != step.records:
        return f"{len(step.times)} times for {step.records} records"
    if step.producer and not step.wants_answer:
        return "a producer with an identity wants an answer"
    return "a tombstone has a key" if step.tombstones and not step.keys else ""


def step_text(step: Step) -> str:
    """A step in words."""
    name = str(type(step).__struct_config__.tag)
    return (
        f"{name} of {step.producer}"
        if isinstance(step, InitProducerId | Produce | EndTransaction) and step.producer
        else name
    )


def rendered_steps(steps: Sequence[Step]) -> list[Values]:
    """The steps in the notation of a request."""
    return [msgspec.to_builtins(step) for step in steps]


def parsed_told(steps: Sequence[Step], given: object) -> list[Told]:
    """What a broker tells of each step; what it tells of fewer ends there. Raises NotationError."""
    if not isinstance(given, list) or len(given) != len(steps):
        raise NotationError(f"value: expected an entry for each of {len(steps)} steps, found {given!r:.80}")
    told = []
    for at, (step, entry) in enumerate(zip(steps, given, strict=True)):
        try:
            told.append(msgspec.convert(entry, step.tells))
        except msgspec.ValidationError as error:
            raise NotationError(f"value[{at}]: {error}") from None
    return told  # type: ignore[return-value]


class ProducerIdentity(Struct):
    """A producer as its own side knows it."""

    identity: int
    epoch: int
    transactional_id: str | None
    sequence: int = 0
    in_transaction: bool = False
    has_written: bool = False

    def wrote(self, records: int) -> None:
        """Go on behind so many records, which were taken."""
        self.sequence = (self.sequence + records) % SEQUENCES
        self.has_written = True


def batch_of(step: Produce, at: int, producer: ProducerIdentity | None, time: int = BASE_TIME_MS) -> Values:
    """The batch that a step at an index writes at a time, a RECORD_BATCH value (record-batch#batch-header-fields)."""
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
