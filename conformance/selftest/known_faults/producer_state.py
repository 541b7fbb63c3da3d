"""Defects met in the field in what brokers make of sequences, and of formats that they convert."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int32
from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.selftest.codec_mutators import Function, wrong
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import REJECTION
from conformance.selftest.seeded_fault import SeededFault

_NEXT = "semantics.producer_state.next_sequence"
_FATES = "semantics.producer_state._possible_results"
_IN_EPOCH = "semantics.producer_state._fates_in_epoch"


def _fate(name: str, make: Callable[[Function], Function]) -> Mutator:
    return wrong(name, make, "sequence")


def _by_sequence_alone(right: Function) -> Function:
    """Know a batch again by its first sequence alone."""

    def fates(known: Value, first: int, count: int) -> set[Value]:
        if first in [begun for begun, _ in known.batches]:
            return {("duplicate", known)}
        return set(right(known, first, count))

    return fates


def _knows_the_last(right: Function) -> Function:
    """Know the last batch again, and no other."""

    def fates(known: Value, first: int, count: int) -> set[Value]:
        older = known.batches[:-1]
        span = (first, (first + count - 1) % (1 << 31))
        return {("out-of-order", known)} if span in older else set(right(known, first, count))

    return fates


def _any_epoch(right: Function) -> Function:
    """Let the sequence go on over a new epoch."""

    def fates(known: Value, given: Values) -> set[Value]:
        if known is not None and given["producerEpoch"] > known.epoch >= 0:
            return set(right(known, {**given, "producerEpoch": known.epoch}))
        return set(right(known, given))

    return fates


def _old_epoch_is_out_of_order(right: Function) -> Function:
    def fates(known: Value, given: Values) -> set[Value]:
        return {("out-of-order" if fate == "fenced" else fate, after) for fate, after in right(known, given)}

    return fates


# --- conversion ---------------------------------------------------------------------------------------


def _empty_wrapper(request: Request, answer: Answer) -> Answer:
    """Fail where nothing is left after conversion."""
    return REJECTION if request["op"] == "convert" and answer.get("hex") == "" else answer


def _converted(make: Callable[[Function], Function], name: str) -> Mutator:
    return wrong(f"semantics.format_conversion.{name}", make, "convert")


def _renumbered(right: Function) -> Function:
    """Count the offsets of a converted batch from its first record."""

    def rewritten(records: Value, magic: int) -> Value:
        first = records[0]["offset"] if records else 0
        return right(tuple({**one, "offset": first + at} for at, one in enumerate(records)), magic)

    return rewritten


def _each_kept(key: str, value: Value) -> Callable[[Function], Function]:
    """A field of each converted record at one value."""

    def make(right: Function) -> Function:
        return lambda records, magic: right(tuple({**one, key: value} for one in records), magic)

    return make


_sequence = partial(SeededFault, area="sequences")
_conversion = partial(SeededFault, area="conversion")

SEQUENCES = (
    _sequence(
        "known/counts-batches",
        description="a broker counts the batches instead of the records",
        source="https://github.com/tulios/kafkajs/issues/598",
        mutate=_fate("semantics.producer_state._span", lambda _: lambda first, _: (first, first)),
    ),
    _sequence(
        "known/no-wrap",
        description="a broker expects 2147483648 after 2147483647",
        source="https://github.com/redpanda-data/redpanda/issues/4854",
        mutate=_fate(_NEXT, lambda _: lambda sequence, records: sequence + records),
    ),
    _sequence(
        "known/wraps-below-zero",
        description="a broker expects -2147483648 after 2147483647",
        source="https://github.com/redpanda-data/redpanda/issues/4854",
        mutate=_fate(_NEXT, lambda _: lambda sequence, records: c_int32(sequence + records).value),
    ),
    _sequence(
        "known/wraps-early",
        description="a broker wraps before 2147483647",
        source="https://github.com/tulios/kafkajs/issues/1790",
        mutate=_fate(_NEXT, lambda _: lambda sequence, records: (sequence + records) % ((1 << 31) - 1)),
    ),
    _sequence(
        "pair/wraps-to-one",
        description="a broker expects 1 after 2147483647",
        source="sequence.wraps-at-int32-max",
        mutate=_fate(
            _NEXT,
            lambda right: lambda sequence, records: right(sequence, records) + (sequence + records >= 1 << 31),
        ),
    ),
    _sequence(
        "pair/repeat-by-its-first",
        description="a broker takes a batch for a repeat whose first sequence it knows, whatever its length",
        source="sequence.duplicate-deduplicated",
        mutate=_fate(_IN_EPOCH, _by_sequence_alone),
    ),
    _sequence(
        "pair/repeat-of-the-last-alone",
        description="a broker knows the last batch of a producer again, and no other",
        source="sequence.duplicate-deduplicated",
        mutate=_fate(_IN_EPOCH, _knows_the_last),
    ),
    _sequence(
        "pair/sequence-over-epochs",
        description="a broker lets the sequence go on over a new epoch",
        source="producer-epoch.fences",
        mutate=_fate(_FATES, _any_epoch),
    ),
    _sequence(
        "pair/old-epoch-out-of-order",
        description="a broker calls a batch of an older epoch out of order",
        source="producer-epoch.fences",
        mutate=_fate(_FATES, _old_epoch_is_out_of_order),
    ),
)

CONVERSIONS = (
    _conversion(
        "known/nothing-left",
        description="a converter fails when only a marker is left",
        source="https://github.com/apache/kafka/pull/5173",
        mutate=_empty_wrapper,
    ),
    _conversion(
        "pair/converted-offsets-without-gaps",
        description="a converter counts the offsets of a batch with gaps from its first record",
        source="offset.gaps-allowed",
        mutate=_converted(_renumbered, "_rewritten"),
    ),
    _conversion(
        "pair/converted-to-create-time",
        description="a converter makes CreateTime of LogAppendTime on the way down",
        source="convert.down-for-old-consumers",
        mutate=_converted(_each_kept("timestampType", 0), "_rewritten"),
    ),
    _conversion(
        "pair/converted-key-lost",
        description="a converter loses the keys",
        source="convert.down-for-old-consumers",
        mutate=_converted(_each_kept("key", None), "_rewritten"),
    ),
)
"""Defects of brokers that convert."""
