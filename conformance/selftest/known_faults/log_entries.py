"""Faults of real software in how a reader splits a log into entries: their magics, and cut entries."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from conformance.codec.derived_fields import Values
from conformance.selftest.mutators.logs import Log, entries_of, fail_at_cut_entry, is_batch, stop_at_entry
from conformance.selftest.seeded_fault import SeededFault


def _magic(entry: Values) -> int:
    return int(entry["magic"])


def _changes_twice(log: Log, at: int) -> bool:
    magics = [_magic(entry) for entry in log[: at + 1]]
    return sum(one != other for one, other in pairwise(magics)) > 1


def _other_after_wrapper(log: Log, at: int) -> bool:
    return at > 0 and not is_batch(log[at - 1]) and log[at - 1]["compression"] != "none" and is_batch(log[at])


_fault = partial(SeededFault, area="logs")
_KAFKA_GO = "https://github.com/segmentio/kafka-go"
_KAFKAJS = "https://github.com/tulios/kafkajs"
_SARAMA = "https://github.com/IBM/sarama"

MAGICS = (
    _fault(
        "known/magic-of-the-first",
        description="a reader uses the magic of the first entry for all entries",
        source="https://github.com/zendesk/ruby-kafka/issues/696",
        mutate=stop_at_entry(lambda log, at: _magic(log[at]) != _magic(log[0])),
    ),
    _fault(
        "known/magic-only-rises",
        description="a reader rejects an entry with a lower magic than the previous one",
        source=f"{_KAFKA_GO}/pull/753",
        mutate=stop_at_entry(lambda log, at: at > 0 and _magic(log[at]) < _magic(log[at - 1])),
    ),
    _fault(
        "known/magic-changes-once",
        description="a reader expects one change of magic, but an upgrade of a cluster writes several",
        source=f"{_KAFKAJS}/pull/246",
        mutate=stop_at_entry(_changes_twice),
    ),
    _fault(
        "known/wrapper-then-batch",
        description="a reader stops after a wrapper, or uses its magic for the next batch",
        source=f"{_KAFKA_GO}/pull/753",
        mutate=stop_at_entry(_other_after_wrapper),
    ),
    _fault(
        "known/magic-0-unknown",
        description="a reader does not know magic 0, which brokers before 0.10 wrote",
        source=f"{_KAFKAJS}/pull/143",
        mutate=stop_at_entry(lambda log, at: _magic(log[at]) == 0),
    ),
    _fault(
        "known/magic-1-unknown",
        description="a reader does not know magic 1, which brokers before 0.11 wrote",
        source=f"{_SARAMA}/issues/988",
        mutate=stop_at_entry(lambda log, at: _magic(log[at]) == 1),
    ),
)

_CRASH = {"crash": "IndexError: index out of range"}


def _magic_at(data: bytes, left: int) -> int:
    """Return the magic of the cut entry; -1 if it is missing."""
    return data[len(data) - left + 16] if left > 16 else -1


def _follows_a_marker(data: bytes, _: int) -> bool:
    log = entries_of(data.hex())
    return bool(log and log[-1].get("isControlBatch"))


TAILS = (
    _fault(
        "known/cut-first-byte",
        description="a reader rejects an entry that is cut after its first byte",
        source="https://github.com/Parsely/pykafka/issues/155",
        mutate=fail_at_cut_entry(lambda _, left: left == 1),
    ),
    _fault(
        "known/cut-before-its-size",
        description="a reader crashes at an entry that is cut before its size",
        source="https://github.com/jdamick/kafka/pull/9",
        mutate=fail_at_cut_entry(lambda _, left: left < 12, _CRASH),
    ),
    _fault(
        "known/cut-before-its-magic",
        description="a reader crashes at an entry that is cut before its magic",
        source=f"{_SARAMA}/pull/1030",
        mutate=fail_at_cut_entry(lambda _, left: 12 <= left < 17, _CRASH),
    ),
    _fault(
        "known/cut-after-its-size",
        description="a reader rejects an entry that is cut after its size",
        source=f"{_SARAMA}/pull/1030",
        mutate=fail_at_cut_entry(lambda _, left: left == 12),
    ),
    _fault(
        "known/cut-message",
        description="a reader rejects a cut message",
        source="https://github.com/zendesk/ruby-kafka/issues/133",
        mutate=fail_at_cut_entry(lambda data, left: _magic_at(data, left) in (0, 1)),
    ),
    _fault(
        "known/cut-batch",
        description="a reader rejects a cut batch at the end of a fetch",
        source=f"{_SARAMA}/pull/998",
        mutate=fail_at_cut_entry(lambda data, left: _magic_at(data, left) == 2),
    ),
    _fault(
        "known/cut-batch-with-its-header",
        description="a reader rejects a batch that is cut after its header",
        source="https://github.com/optiopay/kafka/pull/110",
        mutate=fail_at_cut_entry(lambda data, left: left >= 61 and _magic_at(data, left) == 2),
    ),
    _fault(
        "known/cut-batch-decompressed",
        description="a reader decompresses the records of a cut batch",
        source=f"{_KAFKAJS}/pull/182",
        mutate=fail_at_cut_entry(
            lambda data, left: left > 61 and _magic_at(data, left) == 2 and data[len(data) - left + 22] & 7 != 0
        ),
    ),
    _fault(
        "known/cut-wrapper-opened",
        description="a reader unpacks a cut wrapper",
        source="https://github.com/kafka-rust/kafka-rust/issues/154",
        mutate=fail_at_cut_entry(
            lambda data, left: left > 17 and _magic_at(data, left) in (0, 1) and data[len(data) - left + 17] & 7 != 0
        ),
    ),
    _fault(
        "known/nothing-but-a-cut-message",
        description="a reader rejects a set with only a cut message",
        source="https://github.com/okapies/finagle-kafka/issues/3",
        mutate=fail_at_cut_entry(lambda data, left: left == len(data)),
    ),
    _fault(
        "known/cut-batch-after-messages",
        description="a reader rejects a cut batch after messages",
        source=f"{_SARAMA}/issues/962",
        mutate=fail_at_cut_entry(lambda data, left: left < len(data) and data[16] < 2 and _magic_at(data, left) == 2),
    ),
    _fault(
        "pair/cut-after-a-marker",
        description="a reader fails at a cut entry after a control batch",
        source="batch.length-wrong-rejected",
        mutate=fail_at_cut_entry(_follows_a_marker),
    ),
)
