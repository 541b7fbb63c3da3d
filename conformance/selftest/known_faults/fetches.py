"""Defects met in the field in what a consumer shows of a fetch, and where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from conformance.cases.model import Request
from conformance.codec.derived_fields import Values
from conformance.selftest.codec_mutators import (
    Function,
    Log,
    change_fetch,
    ends,
    is_batch,
    refetch_same_offset,
    stop_at_entry,
)
from conformance.selftest.seeded_fault import SeededFault


def _controls_alone(log: Log) -> bool:
    return all(entry.get("isControlBatch") for entry in log)


def _emptied(log: Log) -> bool:
    return all(is_batch(entry) and not entry["records"] for entry in log)


def _compacted_tail(log: Log) -> bool:
    last = log[-1]
    return bool(is_batch(last) and last["records"] and int(last["records"][-1]["offset"]) + 1 < ends(last))


def _aborted_alone(log: Log) -> bool:
    return any(entry.get("isTransactional") and not entry.get("isControlBatch") for entry in log)


def _beyond_the_first(request: Request, seen: Values, log: Log) -> Values:
    """Stop where the first batch has no record at or after the fetch offset."""
    at = int(request["fetchOffset"])
    if not log or not is_batch(log[0]) or any(int(one["offset"]) >= at for one in log[0]["records"]):
        return {}
    return {"records": [], "nextOffset": request["fetchOffset"]} if seen["records"] else {}


def _exactly_there(request: Request, seen: Values, _: Log) -> Values | None:
    """Refuse a fetch whose first record is not the one that was asked for."""
    return None if seen["records"] and seen["records"][0]["offset"] != request["fetchOffset"] else {}


def _nothing_is_a_gap(request: Request, _: Values, log: Log) -> Values:
    """Go on at the high watermark where a fetch below it brings nothing."""
    beyond = not log and int(request["highWatermark"]) > int(request["fetchOffset"])
    return {"nextOffset": request["highWatermark"]} if beyond else {}


def _from_before(when: Sequence[str]) -> Function:
    """Hand out what stands before the fetch offset in the entry that holds it, if it has one of these codecs."""

    def change(request: Request, seen: Values, log: Log) -> Values:
        at = int(request["fetchOffset"])
        early: list[Values] = []
        for entry in log:
            if entry["compression"] in when and ends(entry) > at and not entry.get("isControlBatch"):
                early += (_shown(one, entry) for one in _inside(entry) if int(one["offset"]) < at)
        return {"records": [*early, *seen["records"]]}

    return change


def _inside(entry: Values) -> list[Values]:
    return list(entry["records"] if is_batch(entry) else entry["messages"])


def _shown(one: Values, entry: Values) -> Values:
    """A record as an application sees it."""
    kind = entry.get("timestampType") or one.get("timestampType") or "NoTimestampType"
    names = ("offset", "timestamp", "key", "value", "headers")
    return {"timestamp": "-1", "headers": [], **{name: one[name] for name in names if name in one}} | {
        "timestampType": kind
    }


def _to_high_watermark(request: Request, seen: Values, log: Log) -> Values:
    """Skip a batch without records by going to the high watermark."""
    empty = any(is_batch(entry) and not entry["records"] for entry in log)
    return {"nextOffset": request["highWatermark"]} if empty and not seen["records"] else {}


def _until_the_empty_one(_: Request, seen: Values, log: Log) -> Values:
    """Hand out nothing behind a batch without records, and go to the end all the same."""
    empty = next((ends(entry) for entry in log if is_batch(entry) and not entry["records"]), None)
    return {} if empty is None else {"records": [one for one in seen["records"] if int(one["offset"]) < empty]}


def _until_a_gap(_: Request, seen: Values, log: Log) -> Values:
    """Hand out nothing behind the first offset that is missing inside a batch."""
    for entry in log:
        offsets = [int(one["offset"]) for one in _inside(entry)]
        for one, other in pairwise(offsets):
            if other != one + 1:
                return {"records": [shown for shown in seen["records"] if int(shown["offset"]) <= one]}
    return {}


def _two_emptied(log: Log, at: int) -> bool:
    return at > 0 and all(is_batch(entry) and not entry["records"] for entry in log[at - 1 : at + 1])


def _restarts_lower(log: Log, at: int) -> bool:
    return at > 0 and is_batch(log[at]) and int(log[at]["baseOffset"]) != ends(log[at - 1])


_one = partial(SeededFault, area="logs")
_KAFKA_GO = "https://github.com/segmentio/kafka-go"
_KAFKAJS = "https://github.com/tulios/kafkajs"
_SARAMA = "https://github.com/IBM/sarama"

FETCHES = (
    _one(
        "known/nothing-is-a-gap",
        description="a reader takes a fetch that brings nothing for a gap, and goes on at the high watermark",
        source="https://github.com/kafka4beam/brod/issues/326",
        mutate=change_fetch(_nothing_is_a_gap),
    ),
    _one(
        "known/stays-at-aborted",
        description="a reader without records to hand out stays before an aborted transaction",
        source=f"{_KAFKAJS}/pull/1256",
        mutate=refetch_same_offset(_aborted_alone),
    ),
    _one(
        "known/stays-at-control",
        description="a reader without records stays at its offset, and fetches the marker for ever",
        source=f"{_KAFKAJS}/issues/403",
        mutate=refetch_same_offset(_controls_alone),
    ),
    _one(
        "known/stays-at-emptied",
        description="a reader stays before batches without records",
        source=f"{_SARAMA}/issues/2053",
        mutate=refetch_same_offset(_emptied),
    ),
    _one(
        "known/stays-in-compacted-tail",
        description="a reader finds no record behind the last kept one of a batch, and stays",
        source=f"{_KAFKAJS}/issues/562",
        mutate=refetch_same_offset(_compacted_tail),
    ),
    _one(
        "known/stops-in-the-first-batch",
        description="a reader finds no record in the first batch, and stops there",
        source="https://github.com/zendesk/ruby-kafka/issues/555",
        mutate=change_fetch(_beyond_the_first),
    ),
    _one(
        "known/insists-on-the-offset",
        description="a reader insists on a record at exactly the fetch offset",
        source="https://github.com/dpkp/kafka-python/issues/1390",
        mutate=change_fetch(_exactly_there),
    ),
    _one(
        "known/stops-at-the-second-emptied",
        description="a reader skips one batch without records, and fails at the second",
        source=f"{_KAFKA_GO}/issues/874",
        mutate=stop_at_entry(_two_emptied),
    ),
    _one(
        "known/skips-to-the-high-watermark",
        description="a reader skips an empty batch by going to the high watermark",
        source="https://github.com/zendesk/ruby-kafka/pull/625",
        mutate=change_fetch(_to_high_watermark),
    ),
    _one(
        "known/past-of-compressed-batches",
        description="a reader hands out the records below the fetch offset when the batch is compressed",
        source="https://github.com/dpkp/kafka-python/issues/1214",
        mutate=change_fetch(_from_before(("gzip", "snappy", "lz4", "zstd"))),
    ),
    _one(
        "known/past-of-wrappers",
        description="a reader hands out the messages of a gzip wrapper below the fetch offset",
        source="https://github.com/kafka4beam/brod/issues/95",
        mutate=change_fetch(
            lambda request, seen, log: _from_before(("gzip",))(request, seen, [e for e in log if not is_batch(e)])
        ),
    ),
    _one(
        "known/stops-at-the-empty-batch",
        description="a reader hands out nothing behind a batch without records",
        source=f"{_KAFKA_GO}/pull/813",
        mutate=change_fetch(_until_the_empty_one),
    ),
    _one(
        "pair/stops-at-a-gap",
        description="a reader hands out nothing behind an offset that compaction took",
        source="offset.gaps-allowed",
        mutate=change_fetch(_until_a_gap),
    ),
    _one(
        "pair/gap-between-batches",
        description="a reader takes a batch that does not begin where the one before it ended for damaged",
        source="compaction.offsets-preserved",
        mutate=stop_at_entry(_restarts_lower),
    ),
)
"""Defects of consumers in a fetch."""
