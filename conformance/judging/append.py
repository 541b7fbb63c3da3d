"""Judges what a broker made of record data that a producer sent (docs/brokers.md)."""

from __future__ import annotations

from msgspec.structs import replace

from conformance import codec
from conformance.cases.append import ANSWERED, BATCHES, OTHERS
from conformance.cases.model import PASSED, ExpectAppend, Value, Verdict, VerdictKind
from conformance.codec.json_notation import NotationError
from conformance.judging.answers import batches_in, failed
from conformance.semantics.format_conversion import CONVERTED, converted_records, records_of

_APPENDED_TIME = "timestamp.log-append-overwritten"
_LARGEST = "broker.writes-max-timestamp"
_EPOCH = "batch.partition-leader-epoch-by-broker"
_TELLS_TIME = "broker.tells-append-time"
_DOWN = "convert.down-for-old-consumers"
_OFFSETS = "offset.broker-assigns-base"


def judge_appended(expect: ExpectAppend, given: object, served: bytes) -> Verdict:
    """Hold the bytes that a broker serves of a batch against the batch that it was sent. Raises NotationError."""
    answered = ANSWERED.parse(given)
    if not {"logEnd", "baseOffset"} <= set(answered):
        raise NotationError("value: logEnd and baseOffset are expected")
    end, told = answered["logEnd"], answered["baseOffset"]
    if told != end:
        return failed(f"the broker told offset {told}, and its log ended at {end}", "baseOffset", _OFFSETS)
    taken = _taken_beside(answered.get("beside")) if expect.has_beside else None
    if taken is not None:
        return taken
    verdict = _as_sent(expect, end, served, "served")
    if verdict.kind is not VerdictKind.FAIL and answered.get("stored") is not None:
        verdict = _stored(expect, answered, served) or verdict
    if verdict.kind is VerdictKind.FAIL:
        return verdict
    # Where the times are the broker's choice, by the topic or by what the producer wrote, so is the largest.
    untimely = None if "timestamp" in expect.free else _untimely(served)
    return untimely or (_told_time(answered, served) if expect.tells_time else None) or verdict


def _taken_beside(beside: Value) -> Verdict | None:
    """What is wrong where other partitions of the request, whose data has to be refused, took it."""
    if beside is None or len(beside) != OTHERS or any({*one} != {"baseOffset", "hex"} for one in beside):
        raise NotationError(f"value: beside: baseOffset and hex of {OTHERS} partitions are expected")
    for at, one in enumerate(beside):
        if one["baseOffset"] >= 0 or one["hex"]:
            how = "is served" if one["hex"] else f"gets offset {one['baseOffset']}"
            return failed(f"data that is to be refused {how} in another partition of the request", f"beside[{at}]")
    return None


def _stored(expect: ExpectAppend, answered: Value, served: bytes) -> Verdict | None:
    """What is wrong with what a broker stores, where it serves what it should: the records are those that it serves."""
    verdict = _as_sent(expect, answered["logEnd"], answered["stored"], "stored")
    if verdict.kind is not VerdictKind.FAIL:
        kept, shown = (records_of(codec.decode("LOG", data).value["batches"]) for data in (answered["stored"], served))
        path = next(CONVERTED.mismatches(shown, kept), None)
        if path is None:
            return None
        verdict = failed(f"{path} is stored otherwise than it is served", path)
    return replace(verdict, detail=f"{verdict.detail} (segment {answered.get('segment')})", path="")


def _as_sent(expect: ExpectAppend, end: int, data: bytes, how: str) -> Verdict:
    """Hold what a broker made of a batch, from where its log ended, against the batch that it was sent."""
    batches = batches_in(data, how)
    if isinstance(batches, Verdict):
        return batches
    high = max((batch["magic"] for batch in batches), default=expect.most)
    if high > expect.most:
        hint = f"a batch of magic {high} is {how}, and the fetch carries magic {expect.most}"
        return Verdict(VerdictKind.FAIL, hint, path="[0].magic", requirement=_DOWN, level="should")
    # A broker that keeps messages as they came serves them so: held against the batch that others make of them.
    shown = converted_records(batches, BATCHES) if "magic" in expect.free else records_of(batches)
    records = tuple({**record, "offset": record["offset"] - end} for record in shown)
    due = tuple({name: record[name] for name in record if name not in expect.free} for record in expect.records)
    path = next(CONVERTED.mismatches(due, records), None)
    if path is not None:
        rule = _OFFSETS if path.endswith(".offset") else ""
        return failed(f"{path} differs in what was {how}", path, rule)
    differs = next(filter(None, map(_of_broker, batches)), None)
    return differs or (Verdict(VerdictKind.EITHER, "taken") if expect.open else PASSED)


def _untimely(served: bytes) -> Verdict | None:
    """What is wrong with the largest timestamp that a broker serves of a batch whose records keep their own times."""
    for batch in codec.decode("LOG", served).value["batches"]:
        if batch["magic"] < BATCHES or batch["timestampType"] or not batch["records"]:
            continue
        largest = max(record["timestamp"] for record in batch["records"])
        # Times below 0 are none: what a broker writes where there is no other is its own.
        if largest >= 0 and batch["maxTimestamp"] != largest:
            hint = f"maxTimestamp {batch['maxTimestamp']} is served, and the largest of the records is {largest}"
            return Verdict(VerdictKind.FAIL, hint, requirement=_LARGEST, level="should")
    return None


def _told_time(answered: Value, served: bytes) -> Verdict | None:
    """What is wrong with the time that a broker told: that which its consumers see, where it is that of the append."""
    told = answered.get("appendTime")
    batches = codec.decode("LOG", served).value["batches"]
    due = next((batch["maxTimestamp"] if batch["timestampType"] else -1 for batch in batches), told)
    if told in (None, due):
        return None
    hint = f"the broker told the producer {told} as the time of the append, due is {due}"
    return Verdict(VerdictKind.FAIL, hint, path="appendTime", requirement=_TELLS_TIME, level="should")


def _of_broker(batch: Value) -> Verdict | None:
    """What is wrong with what a broker writes into the header of a batch."""
    if batch.get("partitionLeaderEpoch", 0) < 0:
        hint = f"partitionLeaderEpoch {batch['partitionLeaderEpoch']}: the broker sets it"
        return failed(hint, "[0].partitionLeaderEpoch", _EPOCH)
    if batch.get("timestampType") and batch["maxTimestamp"] < 0:
        return failed("the time of the append is below 0", "[0].timestamp", _APPENDED_TIME)
    return None
