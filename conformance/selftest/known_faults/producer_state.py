"""Faults of real software in how a broker checks sequences and converts formats."""

from __future__ import annotations

from ctypes import c_int32
from functools import partial

from conformance.cases.model import Value
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import REJECTION, Function, Mutator, on, replace_function
from conformance.selftest.seeded_fault import SeededFault

_NEXT = "next_sequence"
_RESULTS = "_possible_results"
_IN_EPOCH = "_fates_in_epoch"


def _producer_state(name: str, function: Function) -> Mutator:
    return replace_function(f"semantics.producer_state.{name}", function, "sequence")


def _same_first_sequence(original: Function, known: Value, first: int, count: int) -> set[Value]:
    """Treat a batch as a duplicate if its first sequence is known."""
    if first in [start for start, _ in known.batches]:
        return {("duplicate", known)}
    return set(original(known, first, count))


def _last_batch_only(original: Function, known: Value, first: int, count: int) -> set[Value]:
    """Recognize a duplicate of the last batch only."""
    span = (first, (first + count - 1) % (1 << 31))
    return {("out-of-order", known)} if span in known.batches[:-1] else set(original(known, first, count))


def _ignore_new_epoch(original: Function, known: Value, batch: Values) -> set[Value]:
    """Continue the sequence in a new epoch."""
    if known is not None and batch["producerEpoch"] > known.epoch >= 0:
        return set(original(known, {**batch, "producerEpoch": known.epoch}))
    return set(original(known, batch))


def _old_epoch_is_out_of_order(original: Function, known: Value, batch: Values) -> set[Value]:
    return {("out-of-order" if fate == "fenced" else fate, after) for fate, after in original(known, batch)}


# --- conversion ---------------------------------------------------------------------------------------


def _converted_records(change: Function) -> Mutator:
    """Change each converted record, given the records and the index."""
    return replace_function(
        "semantics.format_conversion._rewritten",
        lambda original, records, magic: original(
            tuple({**one, **change(records, at)} for at, one in enumerate(records)), magic
        ),
        "convert",
    )


_sequence_fault = partial(SeededFault, area="sequences")
_conversion_fault = partial(SeededFault, area="conversion")

SEQUENCES = (
    _sequence_fault(
        "known/counts-batches",
        description="a broker counts the batches instead of the records",
        source="https://github.com/tulios/kafkajs/issues/598",
        mutate=_producer_state("_span", lambda _, first, __: (first, first)),
    ),
    _sequence_fault(
        "known/no-wrap",
        description="a broker expects 2147483648 after 2147483647",
        source="https://github.com/redpanda-data/redpanda/issues/4854",
        mutate=_producer_state(_NEXT, lambda _, sequence, records: sequence + records),
    ),
    _sequence_fault(
        "known/wraps-below-zero",
        description="a broker expects -2147483648 after 2147483647",
        source="https://github.com/redpanda-data/redpanda/issues/4854",
        mutate=_producer_state(_NEXT, lambda _, sequence, records: c_int32(sequence + records).value),
    ),
    _sequence_fault(
        "known/wraps-early",
        description="a broker wraps before 2147483647",
        source="https://github.com/tulios/kafkajs/issues/1790",
        mutate=_producer_state(_NEXT, lambda _, sequence, records: (sequence + records) % ((1 << 31) - 1)),
    ),
    _sequence_fault(
        "pair/wraps-to-one",
        description="a broker expects 1 after 2147483647",
        source="sequence.wraps-at-int32-max",
        mutate=_producer_state(
            _NEXT, lambda original, first, count: original(first, count) + (first + count >= 1 << 31)
        ),
    ),
    _sequence_fault(
        "pair/repeat-by-its-first",
        description="a broker takes a batch as a duplicate if it knows the first sequence, whatever the count",
        source="sequence.duplicate-deduplicated",
        mutate=_producer_state(_IN_EPOCH, _same_first_sequence),
    ),
    _sequence_fault(
        "pair/repeat-of-the-last-alone",
        description="a broker recognizes a duplicate only of the last batch of a producer",
        source="sequence.duplicate-deduplicated",
        mutate=_producer_state(_IN_EPOCH, _last_batch_only),
    ),
    _sequence_fault(
        "pair/sequence-over-epochs",
        description="a broker continues the sequence in a new epoch",
        source="producer-epoch.fences",
        mutate=_producer_state(_RESULTS, _ignore_new_epoch),
    ),
    _sequence_fault(
        "pair/old-epoch-out-of-order",
        description="a broker reports a batch of an older epoch as out of order",
        source="producer-epoch.fences",
        mutate=_producer_state(_RESULTS, _old_epoch_is_out_of_order),
    ),
)

CONVERSIONS = (
    _conversion_fault(
        "known/nothing-left",
        description="a converter fails if only a marker is left",
        source="https://github.com/apache/kafka/pull/5173",
        mutate=on("convert", when=lambda _, answer: answer.get("hex") == "", accepted=None)(lambda *_: REJECTION),
    ),
    _conversion_fault(
        "pair/converted-offsets-without-gaps",
        description="a converter removes the gaps between the offsets of a batch",
        source="offset.gaps-allowed",
        mutate=_converted_records(lambda records, at: {"offset": records[0]["offset"] + at}),
    ),
    _conversion_fault(
        "pair/converted-to-create-time",
        description="a converter changes LogAppendTime to CreateTime when converting down",
        source="convert.down-for-old-consumers",
        mutate=_converted_records(lambda *_: {"timestampType": 0}),
    ),
    _conversion_fault(
        "pair/converted-key-lost",
        description="a converter loses the keys",
        source="convert.down-for-old-consumers",
        mutate=_converted_records(lambda *_: {"key": None}),
    ),
)
"""Defects of brokers that convert."""
