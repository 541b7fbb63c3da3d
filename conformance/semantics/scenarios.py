"""Steps that clients of a broker take one after the other on one partition, and what it tells of each.

A record that a step writes has a label as its value: `2.0` is the first record of the third step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec

from conformance.codec.derivations import Values
from conformance.codec.notation import NotationError

Number = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,19}$")]
"""An INT64 in decimal digits."""
_Index = Annotated[int, msgspec.Meta(ge=0)]

START, END, BEYOND = "start", "end", "beyond"
"""Places to fetch from: where the partition began for this case, where it ends, and one offset after that."""


FILLER = b"filler"
"""The value of records that stand in a log and belong to no step."""
ALL = 64 << 20
"""Bytes of a fetch that asks for all there is."""


class _Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """What a broker tells of a step; `refused` says how, where it refused it."""

    refused: str = ""


class Began(_Told, frozen=True):
    """The identity that a broker gave to a producer."""

    producer_id: Number = "-1"
    producer_epoch: int = -1


class Wrote(_Told, frozen=True):
    """The offset that a broker told of a batch."""

    offset: Number = "-1"


class Did(_Told, frozen=True):
    """Nothing but that it was done."""


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An entry of the list of aborted transactions."""

    producer_id: Number
    first_offset: Number


class Fetched(_Told, frozen=True):
    """What a fetch brought."""

    hex: str = ""
    fetch_offset: Number = "0"
    high_watermark: Number = "-1"
    last_stable_offset: Number = "-1"
    aborted: list[Listed] = []


class _Step(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", omit_defaults=True, rename="camel"
):
    """A step; `tells` is the form of what a broker tells of it."""

    tells: ClassVar[type[_Told]] = Did


class Begin(_Step, frozen=True, tag="begin"):
    """A producer asks for its identity; two of the same transactional id are instances of one."""

    producer: str
    transactional_id: str | None = None
    """None: an idempotent producer without transactions."""
    tells: ClassVar[type[_Told]] = Began


class Write(_Step, frozen=True, tag="write"):
    """A batch; without a producer, one that has no identity."""

    producer: str = ""
    records: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    keys: list[str] = []
    """The key of each record; without them records have none."""
    tells: ClassVar[type[_Told]] = Wrote

    def labels(self, at: int) -> list[str]:
        """The labels of its records, the step standing at an index."""
        return [f"{at}.{index}" for index in range(self.records)]


class End(_Step, frozen=True, tag="end"):
    """A producer commits or aborts its transaction."""

    producer: str
    commit: bool


class Send(_Step, frozen=True, tag="send"):
    """Bytes in the place of record data, or null; whether a broker takes them is open."""

    hex: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")] | None
    tells: ClassVar[type[_Told]] = Wrote


class Fetch(_Step, frozen=True, tag="fetch"):
    """A fetch from a place: `start`, `end`, `beyond`, or the label of a record; so many bytes, or all there are."""

    at: Annotated[str, msgspec.Meta(pattern=rf"^({START}|{END}|{BEYOND}|[0-9]+\.[0-9]+)$")] = START
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    max_bytes: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)] = ALL
    tells: ClassVar[type[_Told]] = Fetched


class Compact(_Step, frozen=True, tag="compact"):
    """The log cleaner goes over all that was written; the topic is a compacted one."""


class Restart(_Step, frozen=True, tag="restart"):
    """The broker shuts down as its operator would have it, and comes back."""


Step = Begin | Write | End | Send | Fetch | Compact | Restart
Told = Began | Wrote | Did | Fetched


def parsed_steps(given: object) -> tuple[Step, ...]:
    """The steps of a request. Raises NotationError, which names the place."""
    try:
        steps = msgspec.convert(given, list[Step])
    except msgspec.ValidationError as error:
        raise NotationError(str(error)) from None
    begun: set[str] = set()
    labels: set[str] = set()
    for at, step in enumerate(steps):
        if isinstance(step, Begin):
            begun.add(step.producer)
        elif isinstance(step, Write | End) and step.producer not in {"", *begun}:
            raise NotationError(f"step {at}: producer {step.producer!r} has not begun")
        if isinstance(step, Fetch) and step.at not in {START, END, BEYOND} | labels:
            raise NotationError(f"step {at}: no record {step.at} was written before")
        if isinstance(step, Write):
            if step.keys and len(step.keys) != step.records:
                raise NotationError(f"step {at}: {len(step.keys)} keys for {step.records} records")
            labels.update(step.labels(at))
    return tuple(steps)


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


@dataclass(slots=True)
class Producer:
    """A producer as its own side knows it."""

    identity: int
    epoch: int
    transactional_id: str | None
    sequence: int = 0
    in_transaction: bool = False


def batch_of(step: Write, at: int, producer: Producer | None) -> Values:
    """The batch that a step at an index writes, as a RECORD_BATCH value (record-batch#batch-header-fields)."""
    keys: Sequence[str | None] = step.keys or [None] * step.records
    records = tuple(
        {
            **{"offset": index, "timestamp": 1_700_000_000_000 + index, "attributes": 0, "headers": ()},
            **{"key": None if key is None else key.encode(), "value": label.encode()},
        }
        for index, (key, label) in enumerate(zip(keys, step.labels(at), strict=True))
    )
    return {
        **{"baseOffset": 0, "partitionLeaderEpoch": -1, "compression": 0, "timestampType": 0, "isControlBatch": False},
        "isTransactional": producer is not None and producer.transactional_id is not None,
        "producerId": -1 if producer is None else producer.identity,
        "producerEpoch": -1 if producer is None else producer.epoch,
        "baseSequence": -1 if producer is None else producer.sequence,
        "records": records,
    }
