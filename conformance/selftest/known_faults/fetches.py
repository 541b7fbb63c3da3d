"""Faults of real software in the records that a consumer returns from a fetch, and in its next offset."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from conformance.cases.model import Request
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator
from conformance.selftest.mutators.logs import (
    Log,
    change_fetch,
    consumed_record,
    end_of,
    is_batch,
    records_of,
    refetch_same_offset,
    stop_at_entry,
)
from conformance.selftest.seeded_fault import SeededFault


def _is_empty_batch(entry: Values) -> bool:
    return is_batch(entry) and not entry["records"]


def _ends_with_gap(log: Log) -> bool:
    """Return true if the last record of the last batch was compacted away."""
    last = log[-1]
    return bool(is_batch(last) and last["records"] and int(last["records"][-1]["offset"]) + 1 < end_of(last))


def _has_transaction(log: Log) -> bool:
    return any(entry.get("isTransactional") and not entry.get("isControlBatch") for entry in log)


def _stop_in_first_batch(request: Request, seen: Values, log: Log) -> Values:
    """Stop if the first batch has no record at or after the fetch offset."""
    at = int(request["fetchOffset"])
    if not log or not is_batch(log[0]) or any(int(one["offset"]) >= at for one in log[0]["records"]):
        return {}
    return {"records": [], "nextOffset": request["fetchOffset"]} if seen["records"] else {}


def _require_exact_offset(request: Request, seen: Values, _: Log) -> Values | None:
    """Reject a fetch if the first record is not at the fetch offset."""
    return None if seen["records"] and seen["records"][0]["offset"] != request["fetchOffset"] else {}


def _skip_empty_fetch(request: Request, _: Values, log: Log) -> Values:
    """Continue at the high watermark after an empty fetch below it."""
    is_below = not log and int(request["highWatermark"]) > int(request["fetchOffset"])
    return {"nextOffset": request["highWatermark"]} if is_below else {}


def _show_earlier_records(test: Callable[[Values], bool]) -> Mutator:
    """Return the records before the fetch offset in the entry with that offset, if the entry passes a test."""

    def change(request: Request, seen: Values, log: Log) -> Values:
        at = int(request["fetchOffset"])
        early = [
            _consumed(one, entry)
            for entry in log
            if test(entry) and end_of(entry) > at and not entry.get("isControlBatch")
            for one in records_of(entry)
            if int(one["offset"]) < at
        ]
        return {"records": [*early, *seen["records"]]}

    return change_fetch(change)


def _consumed(record: Values, entry: Values) -> Values:
    kind = entry.get("timestampType") or record.get("timestampType") or "NoTimestampType"
    return {"timestamp": "-1", "headers": [], **consumed_record(record), "timestampType": kind}


def _skip_empty_batch(request: Request, seen: Values, log: Log) -> Values:
    """Continue at the high watermark after an empty batch."""
    return {"nextOffset": request["highWatermark"]} if any(map(_is_empty_batch, log)) and not seen["records"] else {}


def _stop_at_empty_batch(_: Request, seen: Values, log: Log) -> Values:
    """Return no records after an empty batch, but continue at the end of the log."""
    end = next((end_of(entry) for entry in log if _is_empty_batch(entry)), None)
    return {} if end is None else {"records": [one for one in seen["records"] if int(one["offset"]) < end]}


def _stop_at_gap(_: Request, seen: Values, log: Log) -> Values:
    """Return no records after the first offset that is missing inside a batch."""
    for entry in log:
        for one, other in pairwise(int(record["offset"]) for record in records_of(entry)):
            if other != one + 1:
                return {"records": [record for record in seen["records"] if int(record["offset"]) <= one]}
    return {}


_fault = partial(SeededFault, area="logs")
_KAFKA_GO = "https://github.com/segmentio/kafka-go"
_KAFKAJS = "https://github.com/tulios/kafkajs"
_SARAMA = "https://github.com/IBM/sarama"

FETCHES = (
    _fault(
        "known/nothing-is-a-gap",
        description="a reader takes an empty fetch for a gap and continues at the high watermark",
        source="https://github.com/kafka4beam/brod/issues/326",
        mutate=change_fetch(_skip_empty_fetch),
    ),
    _fault(
        "known/stays-at-aborted",
        description="a reader refetches the same offset if it has only an aborted transaction",
        source=f"{_KAFKAJS}/pull/1256",
        mutate=refetch_same_offset(_has_transaction),
    ),
    _fault(
        "known/stays-at-control",
        description="a reader refetches the same offset if it has only markers",
        source=f"{_KAFKAJS}/issues/403",
        mutate=refetch_same_offset(lambda log: all(entry.get("isControlBatch") for entry in log)),
    ),
    _fault(
        "known/stays-at-emptied",
        description="a reader refetches the same offset if it has only empty batches",
        source=f"{_SARAMA}/issues/2053",
        mutate=refetch_same_offset(lambda log: all(map(_is_empty_batch, log))),
    ),
    _fault(
        "known/stays-in-compacted-tail",
        description="a reader refetches the same offset if compaction removed the last records of a batch",
        source=f"{_KAFKAJS}/issues/562",
        mutate=refetch_same_offset(_ends_with_gap),
    ),
    _fault(
        "known/stops-in-the-first-batch",
        description="a reader stops if the first batch has no record at or after the fetch offset",
        source="https://github.com/zendesk/ruby-kafka/issues/555",
        mutate=change_fetch(_stop_in_first_batch),
    ),
    _fault(
        "known/insists-on-the-offset",
        description="a reader requires a record at exactly the fetch offset",
        source="https://github.com/dpkp/kafka-python/issues/1390",
        mutate=change_fetch(_require_exact_offset),
    ),
    _fault(
        "known/stops-at-the-second-emptied",
        description="a reader skips one empty batch, but fails at the second",
        source=f"{_KAFKA_GO}/issues/874",
        mutate=stop_at_entry(lambda log, at: at > 0 and all(map(_is_empty_batch, log[at - 1 : at + 1]))),
    ),
    _fault(
        "known/skips-to-the-high-watermark",
        description="a reader skips an empty batch and continues at the high watermark",
        source="https://github.com/zendesk/ruby-kafka/pull/625",
        mutate=change_fetch(_skip_empty_batch),
    ),
    _fault(
        "known/past-of-compressed-batches",
        description="a reader returns records before the fetch offset if the batch is compressed",
        source="https://github.com/dpkp/kafka-python/issues/1214",
        mutate=_show_earlier_records(lambda entry: entry["compression"] != "none"),
    ),
    _fault(
        "known/past-of-wrappers",
        description="a reader returns messages of a gzip wrapper before the fetch offset",
        source="https://github.com/kafka4beam/brod/issues/95",
        mutate=_show_earlier_records(lambda entry: entry["compression"] == "gzip" and not is_batch(entry)),
    ),
    _fault(
        "known/stops-at-the-empty-batch",
        description="a reader returns no records after an empty batch",
        source=f"{_KAFKA_GO}/pull/813",
        mutate=change_fetch(_stop_at_empty_batch),
    ),
    _fault(
        "pair/stops-at-a-gap",
        description="a reader returns no records after an offset that compaction removed",
        source="offset.gaps-allowed",
        mutate=change_fetch(_stop_at_gap),
    ),
    _fault(
        "pair/gap-between-batches",
        description="a reader rejects a batch that does not start at the end of the previous one",
        source="compaction.offsets-preserved",
        mutate=stop_at_entry(
            lambda log, at: at > 0 and is_batch(log[at]) and int(log[at]["baseOffset"]) != end_of(log[at - 1])
        ),
    ),
)
"""Defects of consumers in a fetch."""
